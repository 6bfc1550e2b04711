/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with a message. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

static void fill_message(struct err *err, int r, int status, const char *fmt, va_list ap) {
    err->code = r;
    err->status = status;
    if (vsnprintf(err->msg, sizeof err->msg, fmt, ap) < 0)
        err->msg[0] = 0;
}

int err_set(struct err *err, int r, const char *fmt, ...) {
    va_list ap;

    if (!err)
        return r;
    va_start(ap, fmt);
    fill_message(err, r, 0, fmt, ap);
    va_end(ap);
    return r;
}

int err_sys(struct err *err, int r, const char *fmt, ...) {
    va_list ap;
    size_t n;

    if (!err)
        return r;
    va_start(ap, fmt);
    fill_message(err, r, 0, fmt, ap);
    va_end(ap);
    n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(-r));
    return r;
}

int err_usage(struct err *err, const char *fmt, ...) {
    va_list ap;

    if (!err)
        return -EINVAL;
    va_start(ap, fmt);
    fill_message(err, -EINVAL, EXIT_USAGE_ERR, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

int err_oom(struct err *err) {
    return err_set(err, -ENOMEM, "out of memory");
}

int err_ctx(struct err *err, int r, const char *fmt, ...) {
    char head[sizeof err->msg / 2];
    char tail[sizeof err->msg];
    va_list ap;
    int n;

    if (!err)
        return r;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, err->msg, sizeof tail);
    tail[sizeof tail - 1] = 0;
    n = (int)(sizeof err->msg - strlen(head) - sizeof ": ");
    snprintf(err->msg, sizeof err->msg, "%s: %.*s", head, n, tail);
    return r;
}

int err_exit_status(const struct err *err) {
    return err->status ? err->status : EXIT_SANDBOX;
}

int err_exec_status(int error) {
    return error == ENOENT || error == ENOTDIR ? EXIT_NOTFOUND : EXIT_NOEXEC;
}

NORETURN void bug_found(const char *file, int line, const char *what) {
    fprintf(stderr, "bawn: bug at %s:%d: %s\n", file, line, what);
    abort();
}
