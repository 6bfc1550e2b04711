/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that programs inside want to open in the user's browser. */
#include "supervisor/credential/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "supervisor/helper.h"

enum { MINUTE_MS = 60 * 1000, PER_MINUTE = 6, VALUE_MAX = 2048 };

#define URL_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%"

void opener_done(struct opener *o) {
    buf_done(&o->url);
}

/* What it is ------------------------------------------------------------------------------------------------------- */

/* RFC 3986. Nothing else: it goes to a program of the user's, and to the terminal. */
bool opener_url_ok(const char *url) {
    return str_starts(url, "https://") && url[strlen("https://")] && url[strspn(url, URL_BYTES)] == 0;
}

/* All of the page's address: a longer path would be another page of that host. What follows '?' in the definition
 * is not compared. */
static bool is_page(const char *url, const char *page) {
    size_t n = page ? strcspn(page, "?#") : 0;

    return n && strcspn(url, "?#") == n && strncasecmp(url, page, n) == 0;
}

/* Until one of `ends` or the end of the text; false: it does not fit, or is not encoded right. */
static bool decode_parameter(const char *p, const char *ends, char *out, size_t size) {
    size_t n = 0;

    for (; *p && !strchr(ends, *p); p++) {
        if (n + 1 == size)
            return false;
        out[n] = *p;
        if (*p == '+')
            out[n] = ' ';
        if (*p == '%') {
            int byte = hex_percent(p, strlen(p));

            if (byte <= 0)
                return false;
            out[n] = (char)byte;
            p += 2;
        }
        n++;
    }
    out[n] = 0;
    return true;
}

/* What a login has to say, or must not. Everything else (scope, prompt, login_hint, resource, PKCE ...) has no effect: our own address
 * has none of it. */
enum param { PARAM_CLIENT, PARAM_TYPE, PARAM_REDIRECT, PARAM_STATE, PARAM_MODE, PARAM_REQUEST, PARAM_REQUEST_URI, PARAMS };
static const char *const param_names[PARAMS] = {
    [PARAM_CLIENT] = "client_id",   [PARAM_TYPE] = "response_type", [PARAM_REDIRECT] = "redirect_uri",  [PARAM_STATE] = "state",
    [PARAM_MODE] = "response_mode", [PARAM_REQUEST] = "request",    [PARAM_REQUEST_URI] = "request_uri"};

struct opener_params {
    char v[PARAMS][VALUE_MAX];
    bool has[PARAMS];
};

static int take_param(const char *at, struct opener_params *ret) {
    char key[32];
    const char *is = at + strcspn(at, "=&#");

    if (!decode_parameter(at, "=&#", key, sizeof key))
        return 0; /* too long to be one of these */
    for (enum param i = 0; i < PARAMS; i++) {
        if (!str_eq(key, param_names[i]))
            continue;
        if (ret->has[i] || *is != '=' || !decode_parameter(is + 1, "&#", ret->v[i], VALUE_MAX))
            return -EINVAL;
        ret->has[i] = true;
    }
    return 0;
}

static int read_params(const char *url, struct opener_params *ret) {
    int r = 0;

    for (const char *p = url + strcspn(url, "?#"); r == 0 && *p && *p != '#'; p += strcspn(p, "&#"))
        r = take_param(++p, ret);
    return r;
}

/* The port is one of the sandbox's own, where it may have any. */
static int read_back(const char *uri, struct opener_login *ret) {
    static const char *const hosts[] = {"http://localhost:", "http://127.0.0.1:", "http://[::1]:"};
    char digits[sizeof "65535"];
    uint64_t port;

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        const char *p = uri + strlen(hosts[i]);
        size_t n = str_starts(uri, hosts[i]) ? strspn(p, "0123456789") : 0;

        if (n == 0 || n >= sizeof digits)
            continue;
        memcpy(digits, p, n);
        digits[n] = 0;
        p += n;
        if (parse_u64(digits, 1, UINT16_MAX, &port, NULL) < 0 || (*p && *p != '/') || p[strspn(p, URL_BYTES)] || strchr(p, '#') ||
            strlen(p) >= sizeof ret->path - 1)
            return -EINVAL;
        ret->port = (uint16_t)port;
        snprintf(ret->path, sizeof ret->path, "%s", *p ? p : "/");
        return 0;
    }
    return -EINVAL;
}

static bool state_ok(const char *s) {
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return true;
}

/* Also of a login that is refused: the program inside waits for its end. */
static void take_back(const struct opener_params *p, struct opener_login *ret) {
    const char *state = p->v[PARAM_STATE];

    if (strlen(state) < sizeof ret->state && state_ok(state) && read_back(p->v[PARAM_REDIRECT], ret) == 0)
        snprintf(ret->state, sizeof ret->state, "%s", state);
}

/* NULL: it is as the definition has it. */
static const char *find_fault(const struct opener_params *p, const struct grant *g, const struct opener_login *l) {
    if (!g->c.client_id || !str_eq(p->v[PARAM_CLIENT], g->c.client_id))
        return "its client_id is another one";
    if (!str_eq(p->v[PARAM_TYPE], "code"))
        return "its response_type is not \"code\"";
    if (p->has[PARAM_MODE] && !str_eq(p->v[PARAM_MODE], "query"))
        return "it has a response_mode";
    if (p->has[PARAM_REQUEST] || p->has[PARAM_REQUEST_URI])
        return "it has a request object";
    return l->port ? NULL : "its redirect_uri is not a port of localhost, or its state is too long";
}

/* Two credentials may have one page: the client says whose login it is. */
static const struct grant *find_grant(const struct opener *o, const char *url, const char *client) {
    const struct grant *page = NULL;

    for (size_t i = 0; i < o->n_grants; i++) {
        const struct grant *g = &o->grants[i];

        if (is_page(url, g->c.authorize_url) && (!page || (g->c.client_id && str_eq(client, g->c.client_id))))
            page = g;
    }
    return page;
}

int opener_read(const struct opener *o, const char *url, struct opener_login *ret, const char **ret_why) {
    struct opener_params *p = calloc(1, sizeof *p);
    bool clear = p && read_params(url, p) == 0;
    struct opener_login login = {.grant = find_grant(o, url, clear ? p->v[PARAM_CLIENT] : "")};
    const char *why = "a parameter is there twice, or not encoded right";

    if (login.grant && clear) {
        take_back(p, &login);
        why = find_fault(p, login.grant, &login);
    }
    free(p);
    if (!login.grant)
        return -ENOENT;
    *ret = login;
    *ret_why = why;
    return why ? -EACCES : 0;
}

/* What is done ----------------------------------------------------------------------------------------------------- */

/* Without a screen xdg-open would look for a browser that works in a terminal, and the terminal is not its. */
static const char *program(const struct opener *o) {
    const char *named = paths_getenv(o->environ_, "BAWN_OPEN");

    if (named)
        return str_eq(named, "none") ? NULL : named;
    return paths_getenv(o->environ_, "DISPLAY") || paths_getenv(o->environ_, "WAYLAND_DISPLAY") ? "xdg-open" : NULL;
}

/* A sandbox could fill the screen otherwise. */
static bool too_many(struct opener *o) {
    uint64_t now = clock_ms();

    if (!o->since_ms || now - o->since_ms >= MINUTE_MS) {
        o->since_ms = now;
        o->n = 0;
    }
    if (o->n++ == PER_MINUTE)
        log_line("the sandbox asks to open too many pages; for a while they are not shown");
    return o->n > PER_MINUTE;
}

/* The credential that has its login at this host; NULL: none. */
static const struct grant *login_host(const struct opener *o, const char *url) {
    for (size_t i = 0; i < o->n_grants; i++) {
        const struct credential *c = &o->grants[i].c;
        const char *const urls[] = {c->authorize_url, c->device_url, c->token_url};

        for (size_t k = 0; k < ARRAY_LEN(urls); k++) {
            size_t n = urls[k] ? strlen("https://") + strcspn(urls[k] + strlen("https://"), "/?#:") : 0;

            if (n && strncasecmp(urls[k], url, n) == 0 && (!url[n] || strchr("/?#:", url[n])))
                return &o->grants[i];
        }
    }
    return NULL;
}

/* A page where a login of a sandbox's own could be confirmed (RFC 8628) looks like any other. */
static void show_page(const struct opener *o, const char *url) {
    const struct grant *g = login_host(o, url);

    if (g)
        log_line("the sandbox asks to open %s (you log in to %s there: confirm nothing that you did not begin yourself)", url,
                 g->c.name);
    else
        log_line("the sandbox asks to open %s", url);
}

enum opener_result opener_piece(struct opener *o, const char *piece, bool last, struct opener_login *ret) {
    const char *why = NULL;
    int r = -ENOENT;

    buf_adds(&o->url, piece);
    if (!last)
        return OPENER_NOTHING;
    if (buf_ok(&o->url) && opener_url_ok(buf_str(&o->url)) && !too_many(o)) {
        r = opener_read(o, buf_str(&o->url), ret, &why);
        if (r == -ENOENT)
            show_page(o, buf_str(&o->url));
        else if (r == -EACCES)
            log_line("the sandbox asks for a login of %s that its definition does not allow (%s): it is not opened",
                     ret->grant->c.name, why);
    }
    buf_clear(&o->url);
    return o->only_show || r == -ENOENT ? OPENER_NOTHING : r == 0 ? OPENER_LOGIN : OPENER_REFUSED;
}

/* A relative path would be looked for in the workspace. Malloc'ed; NULL: there is none. */
static char *find_program(const char *name, char *const *envp) {
    if (!strchr(name, '/'))
        return paths_program(envp, NULL, name);
    return name[0] == '/' && access(name, X_OK) == 0 ? strdup(name) : NULL;
}

static void NORETURN become_detached(const char *path, char *const *argv, char *const *envp) {
    int null = open("/dev/null", O_RDWR);

    if (setsid() >= 0 && null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0 && fd_close_from(3) == 0 &&
        sigfd_default(NULL) == 0 && chdir("/") == 0 && fork() == 0)
        execve(path, argv, envp);
    _exit(0);
}

/* A program of the user's, in a session of its own, with no terminal and none of our descriptors; it outlives us. -ENOENT: there is none. */
static int detach_start(const char *program, char *const *argv, char *const *envp) {
    CLEANUP(freep) char *path = find_program(program, envp);
    CLEANUP(strv_done) struct strv env = {0};
    int status, r = path ? paths_environ(envp, NULL, &env) : -ENOENT;
    pid_t pid = r < 0 ? -1 : fork();

    if (pid == 0)
        become_detached(path, argv, env.v);
    if (r == 0 && pid < 0)
        r = -errno;
    return r < 0 ? r : helper_wait(program, pid, &status, NULL);
}

void opener_open(const struct opener *o, const struct grant *login, const char *url) {
    const char *with = program(o);

    if (with && detach_start(with, (char *[]){(char *)(uintptr_t)with, (char *)(uintptr_t)url, NULL}, o->environ_) == 0)
        log_line("the login of %s is opened in your browser: %s", login->c.name, url);
    else
        log_line("to log in to %s, open this in your browser: %s", login->c.name, url);
}
