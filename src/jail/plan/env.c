/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment of the command. Nothing of the host's environment passes but the names below; everything else is
 * set by Bawn or named by the user. Variables that make programs load code (LD_PRELOAD, BASH_ENV, NODE_OPTIONS,
 * PYTHONSTARTUP, GIT_*) are therefore never inherited by accident.
 */
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/own.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_tools.h"

static const char *const passed[] = {
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "CI",
    "SOURCE_DATE_EPOCH",
    "DEBIAN_FRONTEND",
    "TZ",
    "LANG",
    "LANGUAGE",
    /* not LC_*: people carry other things through sshd under such names */
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
};

/* Folders a PATH entry may lead to; the others do not exist inside. */
static const char *const path_roots[] = {"/usr", "/bin", "/sbin", "/opt", "/nix"};
static const char path_default[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum { PATH_VALUE_MAX = 64 * 1024 };

/* Where programs go that are installed inside: below PLAN_INSTALLED. */
static const struct {
    const char *name, *below;
} install_variables[] = {
    {"NPM_CONFIG_PREFIX", ""},          /* npm install -g */
    {"PYTHONUSERBASE", ""},             /* pip install --user */
    {"CARGO_INSTALL_ROOT", ""},         /* cargo install */
    {"GOBIN", "/bin"},                  /* go install */
    {"DENO_INSTALL_ROOT", ""},          /* deno install -g */
    {"BUN_INSTALL_BIN", "/bin"},        /* bun add -g */
    {"BUN_INSTALL_GLOBAL_DIR", "/bun"}, /* the same */
    {"UV_TOOL_BIN_DIR", "/bin"},        /* uv tool install */
    {"UV_TOOL_DIR", "/uv-tools"},       /* the same */
    {"UV_PYTHON_BIN_DIR", "/bin"},      /* uv python install */
    {"PIPX_BIN_DIR", "/bin"},           /* pipx install */
    {"PIPX_HOME", "/pipx"},             /* the same */
};

/* Not with a writable system, where they go to /usr/local. */
static bool has_installed(const struct plan_input *in, const struct plan *p) {
    return in->home.tools && rung_has_root(p->rung) && !p->writable_system;
}

static const char *host_value(const struct host_facts *h, const char *name) {
    size_t n = strlen(name);

    for (char *const *e = h->environ_; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

/* Replaces NAME=... if it is there; name_len: of "NAME". Takes item. */
static void put_var(struct plan *p, char *item, size_t name_len) {
    for (size_t i = 0; item && i < p->env.len; i++)
        if (strncmp(p->env.v[i], item, name_len) == 0 && p->env.v[i][name_len] == '=') {
            free(p->env.v[i]);
            p->env.v[i] = item;
            return;
        }
    if (strv_add_take(&p->env, item) < 0)
        p->failed = true;
}

static void set_var(struct plan *p, const char *name, const char *value) {
    if (value)
        put_var(p, str_dupf("%s=%s", name, value), strlen(name));
}

bool plan_shows(const char *path) {
    for (size_t i = 0; i < ARRAY_LEN(path_roots); i++)
        if (path_holds(path_roots[i], path))
            return true;
    return false;
}

/* A folder that the user mounts, a folder in it, or the one that a mounted file is in. */
static bool is_mounted(const struct settings *s, const char *dir) {
    for (size_t i = 0; i < s->n_mounts; i++) {
        const char *to = s->mounts[i].to, *slash = strrchr(to, '/');

        if (path_holds(to, dir) || (slash > to && (size_t)(slash - to) == strlen(dir) && strncmp(to, dir, strlen(dir)) == 0))
            return true;
    }
    return false;
}

/* What a folder of the host's PATH is inside; NULL: nothing. */
static const char *entry_inside(const struct settings *s, const struct plan_input *in, const struct plan *p, const char *dir) {
    const struct strv *known = in->home.tools ? &in->home.tools->path : NULL;

    for (size_t i = 0; known && i + 1 < known->len; i += 2)
        if (str_eq(known->v[i], dir))
            return known->v[i + 1];
    return plan_shows(dir) || path_holds(p->workspace, dir) || is_mounted(s, dir) ? dir : NULL;
}

static void add_entry(struct buf *b, const struct settings *s, const struct plan_input *in, struct plan *p, const char *dir,
                      size_t len) {
    CLEANUP(freep) char *copy = strndup(dir, len);
    const char *inside = copy ? entry_inside(s, in, p, copy) : NULL;

    p->failed |= !copy;
    if (inside)
        buf_addf(b, "%s%s", b->len ? ":" : "", inside);
}

static int add_path(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                    struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PATH_VALUE_MAX);
    const char *rest = host_value(h, "PATH");

    if (p->nested) /* first: the machine's own docker has no engine inside */
        buf_adds(&b, PLAN_NESTED_BIN);
    while (rest && *rest) {
        size_t len = strcspn(rest, ":");

        add_entry(&b, s, in, p, rest, len);
        rest += len + (rest[len] == ':');
    }
    if (!buf_ok(&b))
        return err_usage(err, "PATH is longer than %d bytes", PATH_VALUE_MAX);
    if (!b.len || str_eq(buf_str(&b), PLAN_NESTED_BIN))
        buf_addf(&b, "%s%s", b.len ? ":" : "", path_default);
    if (p->network && in->credentials.program) /* last: it only stands in for what is missing */
        buf_addf(&b, ":%s", plan_bin(p));
    if (p->run && p->network) { /* first: ssh has to know where the home is */
        put_var(p, str_dupf("PATH=%s/first:%s", p->run, buf_str(&b)), strlen("PATH"));
        return 0;
    }
    if (has_installed(in, p)) /* first: what was installed inside is meant to be found */
        put_var(p, str_dupf("PATH=%s/" PLAN_INSTALLED "/bin:%s", p->home, buf_str(&b)), strlen("PATH"));
    else
        set_var(p, "PATH", buf_str(&b));
    return 0;
}

/* Programs that bring authorities of their own, or look for them elsewhere. */
static const char *const bundle_variables[] = {
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
};

/* In either case of letters: a user who sets HTTPS_PROXY does not want our https_proxy. */
static bool is_named(const struct settings *s, const char *name) {
    for (size_t i = 0; i < s->n_env; i++)
        if (strcasecmp(s->env[i].name, name) == 0)
            return true;
    return false;
}

static void set_unnamed(const struct settings *s, struct plan *p, const char *name, const char *value) {
    if (!is_named(s, name))
        set_var(p, name, value);
}

/* No proxy: where every port is captured, none is needed, and a refusal says more without one. Else bawn-init names it. */
static void add_network(const struct settings *s, const struct plan_input *in, struct plan *p) {
    CLEANUP(freep) char *own = NULL, *own_bundle = NULL;
    const char *folder = "/etc/ssl/certs", *bundle = "/etc/ssl/certs/ca-certificates.crt";

    if (p->rung != RUNG_FULL) /* UDP is refused; the host's name server, whichever it is, is the gate */
        set_unnamed(s, p, "RES_OPTIONS", "use-vc");
    if (!in->trust.folder)
        return;
    if (p->rung == RUNG_LANDLOCK) { /* where it lies: nothing can be mounted */
        own = str_dupf("%s/" PLAN_CERTS, p->bundle ? p->private_dir : in->trust.folder);
        own_bundle = own ? str_dupf("%s/" PLAN_BUNDLE, own) : NULL;
        p->failed |= !own || !own_bundle;
        folder = own;
        bundle = own_bundle;
    }
    set_unnamed(s, p, "SSL_CERT_DIR", folder);
    for (size_t i = 0; i < ARRAY_LEN(bundle_variables); i++)
        set_unnamed(s, p, bundle_variables[i], bundle);
}

/* PIP_BREAK_SYSTEM_PACKAGES: Debian's pip refuses to install without it, for fear of the system's packages, which are read-only here. */
static void add_tools(const struct settings *s, const struct plan_input *in, struct plan *p) {
    const struct strv *env = in->home.tools ? &in->home.tools->env : NULL;

    for (size_t i = 0; has_installed(in, p) && i < ARRAY_LEN(install_variables); i++) {
        CLEANUP(freep) char *value = str_dupf("%s/" PLAN_INSTALLED "%s", p->home, install_variables[i].below);

        p->failed |= !value;
        set_unnamed(s, p, install_variables[i].name, value);
    }
    if (p->writable_system)
        set_unnamed(s, p, "DEBIAN_FRONTEND", "noninteractive");
    if (has_installed(in, p) || p->writable_system)
        set_unnamed(s, p, "PIP_BREAK_SYSTEM_PACKAGES", "1");
    if (p->nested)
        set_unnamed(s, p, "BUILDAH_ISOLATION", "chroot");
    for (size_t i = 0; env && i < env->len; i++)
        put_var(p, strdup(env->v[i]), strcspn(env->v[i], "="));
}

static void set_browser(const struct settings *s, struct plan *p) {
    CLEANUP(freep) char *program = str_dupf("%s/xdg-open", plan_bin(p));

    p->failed |= !program;
    set_unnamed(s, p, "BROWSER", program);
}

static void set_gitconfig(const struct settings *s, struct plan *p) {
    CLEANUP(freep) char *path = str_dupf("%s/" PLAN_BARE_GITCONFIG, p->run);

    p->failed |= !path;
    set_unnamed(s, p, "GIT_CONFIG_SYSTEM", path);
}

static void set_caches(const struct settings *s, const struct plan_input *in, struct plan *p) {
    for (size_t i = 0; in->home.caches && plan_bare_has_folders(p) && i < n_plan_caches; i++)
        if (plan_caches[i].variable) {
            CLEANUP(freep) char *path = str_dupf("%s/%s", in->home.caches, plan_caches[i].sub);

            p->failed |= !path;
            set_unnamed(s, p, plan_caches[i].variable, path);
        }
}

/* Placeholders and sockets: settings that name one of these variables mean the real thing, which must not get in. */
static void add_credentials(const struct settings *s, const struct plan_input *in, struct plan *p) {
    for (size_t i = 0; in->credentials.env && i < in->credentials.env->len; i++) {
        const char *item = in->credentials.env->v[i], *equals = strchr(item, '=');

        if (p->rung == RUNG_LANDLOCK && str_eq(item, "SSH_AUTH_SOCK=" PLAN_SSH_SOCKET)) /* where they lie */
            set_var(p, "SSH_AUTH_SOCK", in->credentials.ssh_socket);
        else if (p->rung == RUNG_LANDLOCK && str_eq(item, "BAWN_CREDENTIAL_SOCKET=" PLAN_CREDENTIAL_SOCKET))
            set_var(p, "BAWN_CREDENTIAL_SOCKET", in->credentials.credential_socket);
        else
            put_var(p, strdup(item), equals ? (size_t)(equals - item) : strlen(item));
    }
    if (in->credentials.program)
        set_browser(s, p);
}

/* What an image says, but for what Bawn decides. Languages of the host are mostly not in there. */
static void add_image(const struct plan_input *in, struct plan *p) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(PATH_VALUE_MAX);

    buf_adds(&path, path_default);
    for (size_t i = 0; i < in->image->env->len; i++) {
        const char *item = in->image->env->v[i], *equals = strchr(item, '=');

        if (!equals || equals == item)
            continue;
        if (str_starts(item, "PATH=")) {
            buf_clear(&path);
            buf_adds(&path, equals + 1);
        } else
            put_var(p, strdup(item), (size_t)(equals - item));
    }
    if (p->network && in->credentials.program)
        buf_adds(&path, ":" PLAN_INSIDE_BIN);
    if (p->nested)
        buf_adds(&path, ":" PLAN_NESTED_BIN);
    p->failed |= !buf_ok(&path);
    set_var(p, "PATH", buf_str(&path));
}

static bool is_language(const char *name) {
    return str_starts(name, "LANG") || str_starts(name, "LC_");
}

int plan_make_env(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                  struct err *err) {
    const char *shell = host_value(h, "SHELL");
    const struct {
        const char *name, *value;
    } own[] = {
        {"HOME", p->home},
        {"USER", p->ids.user},
        {"LOGNAME", p->ids.user},
        {"SHELL", !in->image && shell && entry_inside(s, in, p, shell) ? shell : "/bin/sh"},
        {"PWD", p->cwd},
        {"TMPDIR", p->tmp},
        {"BAWN", rung_names[p->rung]},
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        if (!in->image || !is_language(passed[i]))
            set_var(p, passed[i], host_value(h, passed[i]));
    if (in->image)
        add_image(in, p);
    else
        r = add_path(s, h, in, p, err);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        set_var(p, own[i].name, own[i].value);
    if (p->network)
        add_network(s, in, p);
    add_tools(s, in, p);
    if (p->run) {
        set_gitconfig(s, p);
        set_caches(s, in, p);
    }
    for (size_t i = 0; i < s->n_env; i++)
        set_var(p, s->env[i].name, s->env[i].value ? s->env[i].value : host_value(h, s->env[i].name));
    if (p->network)
        add_credentials(s, in, p);
    return r;
}
