/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/str.h"
#include "vault/callback.h"

/* A piece of the request's bytes. */
struct callback_span {
    const char *p;
    size_t len;
};

static struct callback_span cut(struct callback_span *rest, char at) {
    const char *end = rest->len ? memchr(rest->p, at, rest->len) : NULL;
    struct callback_span first = {rest->p, end ? (size_t)(end - rest->p) : rest->len};
    size_t used = first.len + (end != NULL);

    *rest = (struct callback_span){rest->p + used, rest->len - used};
    return first;
}

static bool span_is(struct callback_span s, const char *text) {
    return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* %xx; '+' is a space in forms, and no code or state of ours has either. Control bytes are refused: the code goes into a request. */
static int decode(struct callback_span s, struct secret *out) {
    secret_clear(out);
    for (size_t i = 0; i < s.len; i++) {
        int high = s.p[i] == '%' && s.len - i > 2 ? hex(s.p[i + 1]) : -1, low = high >= 0 ? hex(s.p[i + 2]) : -1;
        char c = low >= 0 ? (char)(high * 16 + low) : s.p[i];

        if (out->len == CALLBACK_CODE_MAX || c <= ' ' || c == 0x7f || (s.p[i] == '%' && low < 0))
            return -EINVAL;
        out->p[out->len++] = c;
        i += low >= 0 ? 2 : 0;
    }
    return out->len ? 0 : -EINVAL;
}

struct found {
    struct callback_span code, state, error;
};

/* One that is there twice has two readings. */
static int take(struct callback_span *to, struct callback_span value) {
    if (to->p)
        return -EINVAL;
    *to = value;
    return 0;
}

static int find(struct callback_span query, struct found *f) {
    int r = 0;

    while (r == 0 && query.len) {
        struct callback_span value = cut(&query, '&'), key = cut(&value, '=');

        if (span_is(key, "code"))
            r = take(&f->code, value);
        else if (span_is(key, "state"))
            r = take(&f->state, value);
        else if (span_is(key, "error"))
            r = take(&f->error, value);
    }
    return r;
}

/* In constant time: the other end of a loopback port may be another user of this machine, with a clock. */
static bool is_state(struct callback_span s, const char *state, struct secret *work) {
    return s.p && decode(s, work) == 0 && work->len == strlen(state) && CRYPTO_memcmp(work->p, state, work->len) == 0;
}

int callback_read(const char *head, size_t len, const char *path, const char *state, struct secret *ret_code) {
    struct callback_span rest = {head, len}, line, method, target, where;
    struct found f = {0};

    if (!memmem(head, len, "\r\n\r\n", 4))
        return len < CALLBACK_HEAD_MAX ? -EAGAIN : -EINVAL;
    line = cut(&rest, '\r');
    method = cut(&line, ' ');
    target = cut(&line, ' ');
    where = cut(&target, '?');
    if (!span_is(method, "GET") || !span_is(where, path) || !(span_is(line, "HTTP/1.1") || span_is(line, "HTTP/1.0")))
        return -EINVAL;
    if (find(target, &f) < 0 || !is_state(f.state, state, ret_code) || !f.code.p == !f.error.p)
        return -EINVAL;
    return f.error.p ? -EACCES : decode(f.code, ret_code);
}
