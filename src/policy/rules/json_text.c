/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rules/json_text.h"

#include <errno.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { KEY_SHOWN_MAX = 60 };

struct json_text_position {
    unsigned line, column; /* from 1; characters, as editors count */
};

static struct json_text_position position_of(const struct json_text *t, size_t offset) {
    struct json_text_position at = {1, 1};

    for (size_t i = 0; i < offset && i < t->len; i++) {
        if (t->data[i] == '\n')
            at = (struct json_text_position){at.line + 1, 1};
        else if (((unsigned char)t->data[i] & 0xc0) != 0x80)
            at.column++;
    }
    return at;
}

static int fail_at(const struct json_text *t, size_t offset, struct err *err, const char *text) {
    struct json_text_position p = position_of(t, offset);

    return err_usage(err, "%s:%u:%u: %s", t->name, p.line, p.column, text);
}

static int check_bytes(const struct json_text *t, size_t max, struct err *err) {
    char what[64], one[5];

    if (t->len > max)
        return err_usage(err, "%s:1:1: the file has %zu bytes (at most %zu)", t->name, t->len, max);
    for (size_t i = 0, n; i < t->len; i += n) {
        memset(one, 0, sizeof one);
        memcpy(one, t->data + i, MIN_OF(t->len - i, (size_t)4));
        n = one[0] ? str_utf8_len(one) : 0;
        if (n == 0) {
            snprintf(what, sizeof what, "byte 0x%02x is not valid UTF-8 text", (unsigned char)t->data[i]);
            return fail_at(t, i, err, what);
        }
    }
    return 0;
}

static int syntax_error(const struct json_text *t, const json_error_t *e, struct err *err) {
    CLEANUP(buf_done) struct buf what = BUF_INIT(sizeof err->msg * 4);

    buf_add_printable(&what, e->text); /* it quotes the file */
    return err_usage(err, "%s:%d:%d: not valid JSON: %s", t->name, MAX_OF(e->line, 1), MAX_OF(e->column, 1), buf_str(&what));
}

int json_text_parse(const char *name, const char *data, size_t len, size_t max, struct json_text *ret, struct err *err) {
    struct json_text t = {.name = name, .data = data, .len = len};
    json_error_t e;
    int r;

    r = check_bytes(&t, max, err);
    if (r < 0)
        return r;
    t.root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &e);
    if (!t.root && json_error_code(&e) == json_error_out_of_memory)
        return err_oom(err);
    if (!t.root)
        return syntax_error(&t, &e, err);
    if (!json_is_object(t.root)) {
        json_decref(t.root);
        return fail_at(&t, 0, err, "the file must hold an object, { ... }");
    }
    *ret = t;
    return 0;
}

void json_text_done(struct json_text *t) {
    json_decref(t->root);
    *t = (struct json_text){0};
}

static size_t skip_space(const struct json_text *t, size_t i) {
    while (i < t->len && strchr(" \t\r\n", t->data[i]))
        i++;
    return i;
}

/* jansson has accepted the text: brackets and quotes pair up. */
static size_t skip_value(const struct json_text *t, size_t i) {
    size_t depth = 0;
    bool quoted = false;

    for (i = skip_space(t, i); i < t->len; i++) {
        char c = t->data[i];

        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (quoted)
            continue;
        else if (c == '{' || c == '[')
            depth++;
        else if (depth == 0 && (c == '}' || c == ']' || c == ',' || c == ':'))
            break;
        else if (c == '}' || c == ']')
            depth--;
    }
    return i;
}

/* The offset of the value, or of its key. */
static size_t find(const struct json_at *at, bool want_key) {
    const struct json_text *t = at->text;
    size_t i = skip_space(t, 0);

    for (size_t k = 0; k < at->depth; k++) {
        bool member = at->keys[k] != NULL;

        for (size_t skip = at->steps[k]; skip; skip--) {
            if (member)
                i = skip_value(t, i + 1); /* to the ':' */
            i = skip_value(t, i + 1);     /* to the ',' */
        }
        i = skip_space(t, i + 1);
        if (member && !(want_key && k + 1 == at->depth))
            i = skip_space(t, skip_value(t, i) + 1);
    }
    return i;
}

void json_enter(struct json_at *at, size_t index, const char *key) {
    if (at->depth == JSON_TEXT_DEPTH_MAX)
        BUG("a reader that goes deeper than its files");
    at->steps[at->depth] = index;
    at->keys[at->depth++] = key;
}

void json_leave(struct json_at *at) {
    at->depth--;
}

/* "rules[3].ports[0]" */
static void add_name(const struct json_at *at, struct buf *b) {
    for (size_t i = 0; i < at->depth; i++) {
        if (at->keys[i]) { /* whoever wrote the file may want to speak to the terminal */
            char shown[KEY_SHOWN_MAX + 1];

            snprintf(shown, sizeof shown, "%s", at->keys[i]);
            buf_adds(b, i ? "." : "");
            buf_add_printable(b, shown);
        } else {
            buf_addf(b, "[%zu]", at->steps[i]);
        }
    }
    if (at->depth)
        buf_adds(b, ": ");
}

static int vfail(const struct json_at *at, bool key, struct err *err, const char *fmt, va_list ap) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof err->msg * 4);
    char why[sizeof err->msg];

    vsnprintf(why, sizeof why, fmt, ap);
    add_name(at, &text);
    buf_adds(&text, why);
    return fail_at(at->text, find(at, key), err, buf_str(&text));
}

int json_fail(const struct json_at *at, struct err *err, const char *fmt, ...) {
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = vfail(at, false, err, fmt, ap);
    va_end(ap);
    return r;
}

int json_fail_key(const struct json_at *at, struct err *err, const char *fmt, ...) {
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = vfail(at, true, err, fmt, ap);
    va_end(ap);
    return r;
}

int json_ctx(const struct json_at *at, int r, struct err *err) {
    char why[sizeof err->msg];

    if (r != -EINVAL || !err)
        return r;
    memcpy(why, err->msg, sizeof why);
    return json_fail(at, err, "%s", why);
}
