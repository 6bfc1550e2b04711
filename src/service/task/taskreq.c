/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by names of fields, and the command line that one becomes. */
#include "service/task/taskreq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

void taskreq_add(struct buf *to, const char *name, const char *data, size_t len) {
    unsigned char n[4] = {(unsigned char)len, (unsigned char)(len >> 8), (unsigned char)(len >> 16), (unsigned char)(len >> 24)};

    buf_add(to, name, strlen(name) + 1);
    buf_add(to, n, sizeof n);
    buf_add(to, data, len);
}

int taskreq_next(const struct buf *b, size_t *at, struct taskreq_field *ret) {
    const char *p = b->data ? b->data + *at : "", *end;
    const unsigned char *n;
    size_t left = b->len - *at, name;

    if (left == 0)
        return 0;
    end = memchr(p, 0, left);
    name = end ? (size_t)(end - p) + 1 : left;
    if (!end || left - name < 4)
        return -EBADMSG;
    n = (const unsigned char *)end + 1;
    *ret = (struct taskreq_field){
        .name = p, .data = end + 5, .len = n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24};
    if (ret->len > left - name - 4)
        return -EBADMSG;
    *at += name + 4 + ret->len;
    return 1;
}

int taskreq_get(const struct buf *b, const char *name, char **ret) {
    struct taskreq_field f;
    int r;

    *ret = NULL;
    for (size_t at = 0; (r = taskreq_next(b, &at, &f)) > 0;)
        if (str_eq(f.name, name)) {
            *ret = strndup(f.data, f.len);
            return *ret ? 0 : -ENOMEM;
        }
    return r;
}

bool taskreq_has(const struct buf *b, const char *name) {
    struct taskreq_field f;

    for (size_t at = 0; taskreq_next(b, &at, &f) > 0;)
        if (str_eq(f.name, name))
            return true;
    return false;
}

bool taskreq_flag(const struct buf *b, const char *name) {
    struct taskreq_field f;

    for (size_t at = 0; taskreq_next(b, &at, &f) > 0;)
        if (str_eq(f.name, name))
            return f.len == 1 && f.data[0] == '1';
    return false;
}

/* -- the command line -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *field, *option;
    bool pair;
} options[] = {
    {"shape.engine", "engine", false},        {"shape.image", "image", false},
    {"shape.profile", "profile", false},      {"shape.limits.cpus", "cpus", false},
    {"shape.limits.memory", "memory", false}, {"shape.limits.pids", "pids", false},
    {"shape.limits.disk", "disk", false},     {"shape.limits.timeout", "timeout", false},
    {"shape.network.mode", "network", false}, {"shape.network.allow", "allow", false},
    {"shape.network.deny", "deny", false},    {"shape.secrets", "secret", false},
    {"agent.name", "agent", false},           {"idle", "idle", false},
    {"no_secrets", "no-secrets", false},      {"env", "env", true},
};

static int add_pair(struct strv *v, const char *option, const struct taskreq_field *f) {
    size_t key = strnlen(f->data, f->len), value = key < f->len ? f->len - key - 1 : 0;

    return strv_addf(v, "--%s=%.*s=%.*s", option, (int)key, f->data, (int)value, value ? f->data + key + 1 : "");
}

static int add_option(struct strv *v, const struct taskreq_field *f) {
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (str_eq(options[i].field, f->name))
            return str_eq(f->name, "no_secrets") ? strv_add(v, "--no-secrets")
                   : options[i].pair             ? add_pair(v, options[i].option, f)
                                                 : strv_addf(v, "--%s=%.*s", options[i].option, (int)f->len, f->data);
    return 0;
}

/* name: of what is set aside, which direct and ro mode do not do; NULL: none. */
static int add_defaults(const struct buf *b, const char *name, struct strv *v) {
    CLEANUP(freep) char *mode = NULL;
    CLEANUP(freep) char *ask = NULL;
    int r = taskreq_get(b, "shape.mode", &mode);

    r = r < 0 ? r : taskreq_get(b, "shape.network.ask", &ask);
    r = r < 0 ? r : strv_addf(v, "--workspace=%s", mode ? mode : "overlay");
    if (r >= 0 && name && !(mode && (str_eq(mode, "direct") || str_eq(mode, "ro"))))
        r = strv_addf(v, "--name=%s", name);
    return r < 0 ? r : strv_addf(v, "--ask=%s", ask ? ask : "never");
}

static int add_options(const struct buf *b, const char *name, struct strv *v) {
    struct taskreq_field f;
    size_t at = 0;
    int r = add_defaults(b, name, v), more = 0;

    if (r >= 0 && taskreq_has(b, "shape.source.path")) /* bawnd has opened it: a path could lead elsewhere by now */
        r = strv_add(v, "--directory=.");
    while (r >= 0 && (more = taskreq_next(b, &at, &f)) > 0)
        r = add_option(v, &f);
    return r < 0 ? r : more;
}

static int add_command(const struct buf *b, struct strv *v) {
    struct taskreq_field f;
    size_t at = 0;
    int r = strv_add(v, "--"), more = 0;

    while (r >= 0 && (more = taskreq_next(b, &at, &f)) > 0)
        if (str_eq(f.name, "command"))
            r = strv_add_take(v, strndup(f.data, f.len));
    return r < 0 ? r : more;
}

static int argv_err(int r, struct err *err) {
    return r == -EBADMSG ? err_set(err, r, "the request is damaged") : r < 0 ? err_oom(err) : 0;
}

int taskreq_argv(const struct buf *b, const char *name, int result_fd, int setup_fd, struct strv *ret, struct err *err) {
    int r = strv_add(ret, "bawn") < 0 ? -ENOMEM : strv_add(ret, "run");

    r = r < 0 ? r : strv_addf(ret, "--result-fd=%d", result_fd);
    if (r >= 0 && setup_fd >= 0)
        r = strv_addf(ret, "--agent-setup=/proc/self/fd/%d", setup_fd);
    r = r < 0 ? r : strv_add(ret, "--no-tty");
    if (r >= 0 && !taskreq_has(b, "shape.source.path")) /* its workspace is its own */
        r = strv_add(ret, "--passing");
    r = r < 0 ? r : strv_add(ret, "--quiet");
    r = r < 0 ? r : add_options(b, name, ret);
    return argv_err(r < 0 ? r : add_command(b, ret), err);
}

int taskreq_start_argv(const struct buf *b, const char *name, struct strv *ret, struct err *err) {
    int r = strv_add(ret, "bawn") < 0 ? -ENOMEM : strv_add(ret, "start");

    r = r < 0 ? r : strv_add(ret, "--json");
    r = r < 0 ? r : strv_add(ret, "--quiet");
    r = r < 0 ? r : add_options(b, NULL, ret);
    return argv_err(r < 0 ? r : strv_add(ret, name), err);
}
