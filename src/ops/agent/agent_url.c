/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the URL of an agent's model out of the user's variables. */
#include "ops/agent/agent_url.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"

enum { URL_MAX = 2048, ARGUMENT_MAX = 2 * URL_MAX };

static const struct {
    const char *prefix;
    uint16_t port;
    bool https;
} schemes[] = {{"https://", 443, true}, {"http://", 80, false}};

/* What a URL consists of. No quotes: it becomes a part of arguments with quotes of their own. */
static bool is_url_text(const char *text) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&()*+,;=%";
    size_t n = strlen(text);

    return n <= URL_MAX && strspn(text, good) == n;
}

static int read_url(const char *variable, const char *text, struct agent_url *ret, struct err *err) {
    struct agent_url u = {.text = text};

    for (size_t i = 0; is_url_text(text) && i < ARRAY_LEN(schemes); i++) {
        const char *authority = text + strlen(schemes[i].prefix);
        struct err why = {0};

        if (!str_starts(text, schemes[i].prefix) ||
            host_parse_with_port(authority, strcspn(authority, "/?#"), &u.host, &u.port, &why) < 0)
            continue;
        u.port = u.port ? u.port : schemes[i].port;
        u.https = schemes[i].https;
        *ret = u;
        return 0;
    }
    return err_usage(err, "the variable %s is not the URL of a model, such as https://llm.example.com/v1", variable);
}

static const char *variable_value(const struct settings *s, char *const *environ_, const char *name) {
    for (size_t i = 0; i < s->n_env; i++)
        if (str_eq(s->env[i].name, name))
            return s->env[i].value ? s->env[i].value : paths_getenv(environ_, name);
    return NULL;
}

int agent_url_find(const struct agent *a, size_t n, const struct settings *s, char *const *environ_, struct agent_url *ret,
                   struct err *err) {
    const char *text = variable_value(s, environ_, a->url_env.v[n]);

    *ret = (struct agent_url){0};
    return text && *text ? read_url(a->url_env.v[n], text, ret, err) : 0;
}

int agent_url_first(const struct agent *a, const struct settings *s, char *const *environ_, struct agent_url *ret,
                    struct err *err) {
    int r = 0;

    *ret = (struct agent_url){0};
    for (size_t i = 0; r == 0 && !ret->text && i < a->url_env.len; i++)
        r = agent_url_find(a, i, s, environ_, ret, err);
    return r;
}

int agent_url_allow(const struct agent *a, char *const *environ_, struct settings *s, struct err *err) {
    struct agent_url u;

    for (size_t i = 0; i < a->url_env.len; i++) {
        int r = agent_url_find(a, i, s, environ_, &u, err);

        if (r < 0)
            return r;
        if (u.text && u.https && u.host.kind == HOST_NAME && strv_addf(&s->net.allow, "%s:%u", u.host.text, u.port) < 0)
            return err_oom(err);
    }
    return 0;
}

static int add_filled(const char *arg, const char *mark, const char *value, struct strv *argv, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(ARGUMENT_MAX);
    const char *at = strstr(arg, mark);

    buf_addf(&b, "%.*s%s%s", at ? (int)(at - arg) : 0, arg, at ? value : arg, at ? at + strlen(mark) : "");
    if (!buf_ok(&b))
        return err_usage(err, "the argument '%.80s' of the agent is too long", arg);
    return strv_add(argv, buf_str(&b)) < 0 ? err_oom(err) : 0;
}

int agent_url_add_args(const struct agent *a, const struct agent_url *u, struct strv *argv, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && u->text && i < a->url_args.len; i++)
        r = add_filled(a->url_args.v[i], "{}", u->text, argv, err);
    return r;
}

/* Would it end the string in which it is written? */
static bool is_plain_path(const char *path) {
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < ' ' || strchr("\"'\\\x7f", *p))
            return false;
    return str_is_utf8(path) && strlen(path) <= URL_MAX;
}

int agent_args_add(const struct agent *a, const char *workspace, struct strv *argv, struct err *err) {
    static const char mark[] = "{workspace}";
    int r = 0;

    for (size_t i = 0; r == 0 && i < a->args.len; i++)
        if (is_plain_path(workspace) || !strstr(a->args.v[i], mark))
            r = add_filled(a->args.v[i], mark, workspace, argv, err);
    return r;
}
