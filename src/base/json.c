/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes JSON by a table of fields. */
#include "base/json.h"

#include <errno.h>
#include <limits.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/pathtext.h"
#include "base/str.h"

enum { SHOWN_MAX = 60, EXPECTED_MAX = 300 };

/* -- reading ------------------------------------------------------------------------------------------------------------ */

static int expected(struct err *err, const char *what) {
    return err_set(err, -EBADMSG, "expected %s", what);
}

/* A copy of a string of the file as it is in memory; NULL: it is none, or not what the field wants. */
static char *take_string(const struct json_field *f, const json_t *v) {
    CLEANUP(freep) char *s = NULL;

    if (!json_is_string(v))
        return NULL;
    s = f->flags & JSON_ENCODED ? path_text_parse(json_string_value(v)) : strdup(json_string_value(v));
    return s && (!(f->flags & JSON_ABSOLUTE) || s[0] == '/') ? TAKE_PTR(s) : NULL;
}

static const char *string_name(const struct json_field *f) {
    return f->flags & JSON_ABSOLUTE ? "an absolute path" : "a string";
}

static int read_string(const struct json_field *f, const json_t *v, char **to, struct err *err) {
    char *s = take_string(f, v);

    if (!s && !(json_is_null(v) && f->flags & JSON_NULLABLE))
        return expected(err, string_name(f));
    free(*to);
    *to = s;
    return 0;
}

static int read_chars(const struct json_field *f, const json_t *v, char *to, struct err *err) {
    CLEANUP(freep) char *s = take_string(f, v);

    if (!s)
        return expected(err, string_name(f));
    if (strlen(s) >= f->size)
        return err_set(err, -EBADMSG, "expected at most %zu bytes", f->size - 1);
    memcpy(to, s, strlen(s) + 1);
    return 0;
}

static int read_number(const struct json_field *f, const json_t *v, int64_t *ret, struct err *err) {
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v))
        return expected(err, "a number");
    if (n < f->min || n > f->max)
        return err_set(err, -EBADMSG, "expected a number from %lld to %lld", (long long)f->min, (long long)f->max);
    *ret = n;
    return 0;
}

static int read_enum(const struct json_field *f, const json_t *v, int *to, struct err *err) {
    CLEANUP(buf_done) struct buf words = BUF_INIT(EXPECTED_MAX);
    int found = str_index(json_string_value(v), f->names, f->n_names);

    if (found >= 0) {
        *to = found;
        return 0;
    }
    for (size_t i = 0; i < f->n_names; i++)
        if (f->names[i])
            buf_addf(&words, "%s%s", words.len ? ", " : "one of ", f->names[i]);
    return expected(err, buf_str(&words));
}

static int read_strings(const struct json_field *f, const json_t *v, struct strv *to, struct err *err) {
    if (!json_is_array(v))
        return expected(err, "a list");
    if (json_array_size(v) > (size_t)f->max)
        return err_set(err, -EBADMSG, "expected at most %lld elements", (long long)f->max);
    for (size_t i = 0; i < json_array_size(v); i++) {
        char *word = take_string(f, json_array_get(v, i));

        if (!word)
            return err_set(err, -EBADMSG, "element %zu: expected %s", i, string_name(f));
        if (strv_add_take(to, word) < 0)
            return err_oom(err);
    }
    return 0;
}

static int read_member(const struct json_field *f, const json_t *v, void *to, struct err *err) {
    int64_t n = 0;
    int r;

    switch (f->kind) {
    case JSON_KIND_VERSION:
        return json_integer_value(v) == f->min ? 0 : err_set(err, -EBADMSG, "expected %lld", (long long)f->min);
    case JSON_KIND_STRING:
        return read_string(f, v, to, err);
    case JSON_KIND_CHARS:
        return read_chars(f, v, to, err);
    case JSON_KIND_BOOL:
        *(bool *)to = json_is_true(v);
        return json_is_boolean(v) ? 0 : expected(err, "true or false");
    case JSON_KIND_INT:
        r = read_number(f, v, &n, err);
        *(int *)to = (int)n;
        return r;
    case JSON_KIND_U64:
        r = read_number(f, v, &n, err);
        *(uint64_t *)to = (uint64_t)n;
        return r;
    case JSON_KIND_ENUM:
        return read_enum(f, v, to, err);
    case JSON_KIND_STRINGS:
        return read_strings(f, v, to, err);
    case JSON_KIND_CALL:
        return f->read(v, to, err);
    }
    BUG("a kind of JSON field");
}

static bool is_known(const struct json_table *t, const char *key) {
    for (size_t i = 0; i < t->n; i++)
        if (str_eq(t->v[i].key, key))
            return true;
    return false;
}

static int refuse_unknown(const struct json_table *t, const json_t *object, struct err *err) {
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        CLEANUP(buf_done) struct buf shown = BUF_INIT(EXPECTED_MAX);
        char cut[SHOWN_MAX + 1];

        if (is_known(t, key))
            continue;
        snprintf(cut, sizeof cut, "%s", key);
        buf_add_printable(&shown, cut);
        return err_set(err, -EBADMSG, "unknown key '%s'", buf_str(&shown));
    }
    return 0;
}

int json_table_read(const struct json_table *t, const json_t *object, void *to, struct err *err) {
    int r = t->strict ? refuse_unknown(t, object, err) : 0;

    if (!json_is_object(object))
        return expected(err, "an object");
    for (size_t i = 0; r == 0 && i < t->n; i++) {
        const struct json_field *f = &t->v[i];
        const json_t *v = json_object_get(object, f->key);

        if (!v && f->flags & JSON_OPTIONAL)
            continue;
        r = v ? read_member(f, v, (char *)to + f->offset, err) : err_set(err, -EBADMSG, "is missing");
        if (r < 0)
            return err_ctx(err, r, "key '%s'", f->key);
    }
    return r;
}

int json_table_parse(const struct json_table *t, const char *text, size_t len, size_t max, void *to, struct err *err) {
    CLEANUP(json_decrefp) json_t *root = NULL;
    int r = json_parse_object(text, len, max, &root, err);

    return r < 0 ? r : json_table_read(t, root, to, err);
}

/* -- writing ------------------------------------------------------------------------------------------------------------ */

static json_t *make_string(const struct json_field *f, const char *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(s ? 3 * strlen(s) + 1 : 1);

    if (!s)
        return json_null();
    if (!(f->flags & JSON_ENCODED))
        return json_string(s);
    path_text_add(&b, s);
    return buf_ok(&b) ? json_stringn(buf_str(&b), b.len) : NULL;
}

static json_t *make_strings(const struct json_field *f, const struct strv *s) {
    json_t *list = json_array();

    for (size_t i = 0; list && i < s->len; i++)
        if (json_array_append_new(list, make_string(f, s->v[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *make_member(const struct json_field *f, const void *from) {
    switch (f->kind) {
    case JSON_KIND_VERSION:
        return json_integer(f->min);
    case JSON_KIND_STRING:
        return make_string(f, *(char *const *)from);
    case JSON_KIND_CHARS:
        return make_string(f, from);
    case JSON_KIND_BOOL:
        return json_boolean(*(const bool *)from);
    case JSON_KIND_INT:
        return json_integer(*(const int *)from);
    case JSON_KIND_U64:
        return json_integer((json_int_t) * (const uint64_t *)from);
    case JSON_KIND_ENUM:
        return json_string(f->names[*(const int *)from]);
    case JSON_KIND_STRINGS:
        return make_strings(f, from);
    case JSON_KIND_CALL:
        return f->write(from);
    }
    BUG("a kind of JSON field");
}

/* 0, false, NULL, no elements: all bytes of the member are 0. Of a char[] only the first counts. */
static bool is_empty(const struct json_field *f, const char *from) {
    if (f->kind == JSON_KIND_STRINGS)
        return ((const struct strv *)(const void *)from)->len == 0;
    for (size_t i = 0; i < (f->kind == JSON_KIND_CHARS ? 1 : f->size); i++)
        if (from[i])
            return false;
    return true;
}

json_t *json_table_make(const struct json_table *t, const void *from) {
    CLEANUP(json_decrefp) json_t *root = json_object();

    for (size_t i = 0; i < t->n; i++) {
        const struct json_field *f = &t->v[i];
        const char *member = (const char *)from + f->offset;

        if (f->flags & JSON_OPTIONAL && is_empty(f, member))
            continue;
        if (json_object_set_new(root, f->key, make_member(f, member)) < 0)
            return NULL;
    }
    return TAKE_PTR(root);
}

int json_table_write(const struct json_table *t, const void *from, size_t flags, struct buf *out, struct err *err) {
    CLEANUP(json_decrefp) json_t *root = json_table_make(t, from);
    CLEANUP(freep) char *text = root ? json_dumps(root, flags) : NULL;

    if (!text)
        return err_oom(err);
    buf_adds(out, text);
    buf_addc(out, '\n');
    return buf_ok(out) ? 0 : err_set(err, -EFBIG, "larger than %zu bytes", out->ceiling);
}

/* -- single members ----------------------------------------------------------------------------------------------------- */

int json_parse_object(const char *text, size_t len, size_t max, json_t **ret, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(4 * JSON_ERROR_TEXT_LENGTH);
    CLEANUP(json_decrefp) json_t *root = NULL;
    json_error_t at;

    if (len > max)
        return err_set(err, -EFBIG, "larger than %zu bytes", max);
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!root) {
        buf_add_printable(&why, at.text); /* it quotes the text */
        return err_set(err, -EBADMSG, "not valid JSON: %s", buf_str(&why));
    }
    if (!json_is_object(root))
        return expected(err, "an object");
    *ret = TAKE_PTR(root);
    return 0;
}

const char *json_get_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

int64_t json_get_int(const json_t *object, const char *key, int64_t fallback) {
    const json_t *v = json_object_get(object, key);
    double real = json_real_value(v);

    if (json_is_integer(v))
        return json_integer_value(v);
    return json_is_real(v) && real > -9e18 && real < 9e18 ? (int64_t)real : fallback;
}

bool json_get_bool(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}
