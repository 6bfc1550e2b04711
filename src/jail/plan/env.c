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
#include "jail/network/network.h"
#include "jail/plan/plan.h"

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

static const char *host_value(const struct host_facts *h, const char *name) {
    size_t n = strlen(name);

    for (char *const *e = h->environ_; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static bool path_entry_inside(const struct plan *p, const char *dir, size_t len) {
    size_t ws = strlen(p->workspace);

    for (size_t i = 0; i < ARRAY_LEN(path_roots); i++) {
        size_t n = strlen(path_roots[i]);

        if (len >= n && strncmp(dir, path_roots[i], n) == 0 && (len == n || dir[n] == '/'))
            return true;
    }
    return len >= ws && strncmp(dir, p->workspace, ws) == 0 && (len == ws || dir[ws] == '/');
}

static int add_path(const struct host_facts *h, const struct plan_input *in, struct plan *p, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PATH_VALUE_MAX);
    const char *rest = host_value(h, "PATH");

    while (rest && *rest) {
        size_t len = strcspn(rest, ":");

        if (path_entry_inside(p, rest, len)) {
            if (b.len)
                buf_addc(&b, ':');
            buf_add(&b, rest, len);
        }
        rest += len + (rest[len] == ':');
    }
    if (!buf_ok(&b))
        return err_usage(err, "PATH is longer than %d bytes", PATH_VALUE_MAX);
    if (!b.len)
        buf_adds(&b, path_default);
    if (p->network && in->credentials.program) /* last: it only stands in for what is missing */
        buf_adds(&b, ":" PLAN_INSIDE_BIN);
    return strv_addf(&p->env, "PATH=%s", buf_str(&b)) < 0 ? err_oom(err) : 0;
}

static int add_passed(const struct host_facts *h, struct plan *p, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        const char *v = host_value(h, passed[i]);

        if (v && strv_addf(&p->env, "%s=%s", passed[i], v) < 0)
            return err_oom(err);
    }
    return 0;
}

/* Replaces NAME=... if it is there. */
static int set_var(struct plan *p, const char *name, const char *value, struct err *err) {
    char *item = NULL;
    size_t n = strlen(name);

    if (asprintf(&item, "%s=%s", name, value) < 0)
        return err_oom(err);
    for (size_t i = 0; i < p->env.len; i++)
        if (strncmp(p->env.v[i], name, n) == 0 && p->env.v[i][n] == '=') {
            free(p->env.v[i]);
            p->env.v[i] = item;
            return 0;
        }
    return strv_add_take(&p->env, item) < 0 ? err_oom(err) : 0;
}

static int add_named(const struct settings *s, const struct host_facts *h, struct plan *p, struct err *err) {
    for (size_t i = 0; i < s->n_env; i++) {
        const char *v = s->env[i].value ? s->env[i].value : host_value(h, s->env[i].name);
        int r = v ? set_var(p, s->env[i].name, v, err) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

/* Programs that bring authorities of their own, or look for them elsewhere. */
static const char *const bundle_variables[] = {
    "SSL_CERT_FILE",       "CURL_CA_BUNDLE",    "GIT_SSL_CAINFO",    "REQUESTS_CA_BUNDLE", "PIP_CERT",
    "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "CARGO_HTTP_CAINFO", "DENO_CERT",          "AWS_CA_BUNDLE",
};

/* For clients that insist on a proxy; the others need none. Never socks://: Python's clients fail on it without more packages. */
static const char *const proxy_variables[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"};
static const char *const direct_variables[] = {"NO_PROXY", "no_proxy"};

/* In either case of letters: who sets HTTPS_PROXY does not want our https_proxy. */
static bool is_named(const struct settings *s, const char *name) {
    for (size_t i = 0; i < s->n_env; i++)
        if (strcasecmp(s->env[i].name, name) == 0)
            return true;
    return false;
}

static int set_each(const struct settings *s, struct plan *p, const char *const *names, size_t n, const char *value,
                    struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        if (!is_named(s, names[i]))
            r = set_var(p, names[i], value, err);
    return r;
}

static int add_network(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    static const char *const folder[] = {"SSL_CERT_DIR"};
    char proxy[40];
    int r;

    if (!p->network)
        return 0;
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", NETWORK_PORT);
    r = set_each(s, p, proxy_variables, ARRAY_LEN(proxy_variables), proxy, err);
    r = r < 0 ? r : set_each(s, p, direct_variables, ARRAY_LEN(direct_variables), "localhost,127.0.0.1,::1", err);
    if (r < 0 || !in->trust.folder)
        return r;
    r = set_each(s, p, folder, ARRAY_LEN(folder), "/etc/ssl/certs", err);
    return r < 0 ? r : set_each(s, p, bundle_variables, ARRAY_LEN(bundle_variables), "/etc/ssl/certs/ca-certificates.crt", err);
}

/* Placeholders and sockets: settings that name one of these variables mean the real thing, which must not get in. */
static int add_credentials(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && p->network && in->credentials.env && i < in->credentials.env->len; i++) {
        const char *item = in->credentials.env->v[i], *equals = strchr(item, '=');
        CLEANUP(freep) char *name = equals ? strndup(item, (size_t)(equals - item)) : NULL;

        r = name ? set_var(p, name, equals + 1, err) : err_oom(err);
    }
    if (r == 0 && p->network && in->credentials.program && !is_named(s, "BROWSER"))
        r = set_var(p, "BROWSER", PLAN_INSIDE_BIN "/xdg-open", err);
    return r;
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
        {"SHELL", shell && path_entry_inside(p, shell, strlen(shell)) ? shell : "/bin/sh"},
        {"PWD", p->workspace},
        {"TMPDIR", p->tmp},
        {"BAWN", rung_names[p->rung]},
    };
    int r = add_passed(h, p, err);

    r = r < 0 ? r : add_path(h, in, p, err);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(own); i++)
        r = set_var(p, own[i].name, own[i].value, err);
    r = r < 0 ? r : add_network(s, in, p, err);
    r = r < 0 ? r : add_named(s, h, p, err);
    return r < 0 ? r : add_credentials(s, in, p, err);
}
