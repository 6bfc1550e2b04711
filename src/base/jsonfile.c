/* SPDX-License-Identifier: Apache-2.0 */
/* Parses JSON files of users and finds places in them. */
#include "base/jsonfile.h"

#include <errno.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { KEY_SHOWN_MAX = 60, KEYS_MAX = 64, KNOWN_TEXT_MAX = 600 };

/* -- the text ----------------------------------------------------------------------------------------------------------- */

static struct jsonfile_position position_of(const struct jsonfile *f, size_t offset) {
    struct jsonfile_position at = {1, 1};

    for (size_t i = 0; i < offset && i < f->len; i++) {
        if (f->data[i] == '\n')
            at = (struct jsonfile_position){at.line + 1, 1};
        else if (((unsigned char)f->data[i] & 0xc0) != 0x80) /* not the middle of a UTF-8 character */
            at.column++;
    }
    return at;
}

static int fail_at(const struct jsonfile *f, size_t offset, struct err *err, const char *text) {
    struct jsonfile_position at = position_of(f, offset);

    return err_usage(err, "%s:%u:%u: %s", f->name, at.line, at.column, text);
}

static int check_bytes(const struct jsonfile *f, struct err *err) {
    char what[64];

    if (f->len >= 3 && memcmp(f->data, "\xef\xbb\xbf", 3) == 0)
        return fail_at(f, 0, err, "the file starts with a byte order mark (save it as plain UTF-8)");
    for (size_t i = 0, n; i < f->len; i += n) {
        if (f->data[i] == 0)
            return fail_at(f, i, err, "a NUL byte is not allowed here");
        n = str_utf8_len(f->data + i);
        if (n == 0) {
            snprintf(what, sizeof what, "byte 0x%02x is not valid UTF-8", (unsigned char)f->data[i]);
            return fail_at(f, i, err, what);
        }
    }
    if (strspn(f->data, " \t\r\n") == f->len)
        return fail_at(f, 0, err, "the file is empty (write {} for no settings)");
    return 0;
}

/* jansson would recurse up to 2048 levels. */
static int check_depth(const struct jsonfile *f, struct err *err) {
    char what[64];
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < f->len; i++) {
        char c = f->data[i];

        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth)
            depth--;
        if (depth > JSONFILE_DEPTH_MAX) {
            snprintf(what, sizeof what, "nested too deeply (at most %d levels)", JSONFILE_DEPTH_MAX);
            return fail_at(f, i, err, what);
        }
    }
    return 0;
}

/* jansson stops right behind the second key; its opening quote is the last one before that is not escaped. */
static int duplicate_key(const struct jsonfile *f, size_t end, struct err *err) {
    char what[2 * KEY_SHOWN_MAX];
    size_t start;

    if (end < 2 || end > f->len)
        return err_usage(err, "%s: a key appears twice in one object", f->name);
    for (start = end - 2; start > 0; start--) {
        size_t slashes = 0;

        if (f->data[start] != '"')
            continue;
        while (slashes < start && f->data[start - 1 - slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            break;
    }
    snprintf(what, sizeof what, "key '%.*s' appears twice", (int)MIN_OF(end - start - 2, (size_t)KEY_SHOWN_MAX),
             f->data + start + 1);
    return fail_at(f, start, err, what);
}

static int syntax_error(const struct jsonfile *f, const json_error_t *e, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(4 * JSON_ERROR_TEXT_LENGTH);
    int line = MAX_OF(e->line, 1), column = MAX_OF(e->column, 1);

    switch (json_error_code(e)) {
    case json_error_duplicate_key:
        return duplicate_key(f, (size_t)e->position, err);
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return err_usage(err, "%s:%d:%d: \\u0000 is not allowed in a string", f->name, line, column);
    case json_error_numeric_overflow:
        return err_usage(err, "%s:%d:%d: the number is too large", f->name, line, column);
    case json_error_out_of_memory:
        return err_oom(err);
    default:                               /* the enum is jansson's and grows with it */
        buf_add_printable(&text, e->text); /* it quotes the file */
        return err_usage(err, "%s:%d:%d: not valid JSON: %s", f->name, line, column, buf_str(&text));
    }
}

int jsonfile_parse(const char *name, const char *data, size_t len, size_t max, struct jsonfile *ret, struct err *err) {
    CLEANUP(jsonfile_done) struct jsonfile f = {.len = len};
    json_error_t e;
    int r;

    if (len > max)
        return err_usage(err, "%s:1:1: the file has %zu bytes (at most %zu)", name, len, max);
    f.name = strdup(name);
    f.data = calloc(1, len + 1);
    if (!f.name || !f.data)
        return err_oom(err);
    if (len)
        memcpy(f.data, data, len);
    r = check_bytes(&f, err);
    r = r < 0 ? r : check_depth(&f, err);
    if (r < 0)
        return r;
    f.root = json_loadb(f.data, len, JSON_REJECT_DUPLICATES, &e);
    if (!f.root)
        return syntax_error(&f, &e, err);
    if (!json_is_object(f.root))
        return fail_at(&f, 0, err, "the file must hold an object, { ... }");
    *ret = TAKE(f, (struct jsonfile){0});
    return 0;
}

void jsonfile_done(struct jsonfile *f) {
    json_decref(f->root);
    free(f->data);
    free(f->name);
    *f = (struct jsonfile){0};
}

/* -- where a value stands ----------------------------------------------------------------------------------------------- */

static size_t skip_space(const struct jsonfile *f, size_t i) {
    while (i < f->len && strchr(" \t\r\n", f->data[i]))
        i++;
    return i;
}

/* To the ',' ':' or bracket behind the value at i. jansson has accepted the text: brackets and quotes pair up. */
static size_t skip_value(const struct jsonfile *f, size_t i) {
    size_t depth = 0;
    bool quoted = false;

    for (i = skip_space(f, i); i < f->len; i++) {
        char c = f->data[i];

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

/* jansson knows no positions once it has parsed, but keeps the order of members: their number leads to the place in the text. */
static size_t number_of(json_t *object, const char *key) {
    size_t n = 0;
    const char *name;
    json_t *v;

    json_object_foreach(object, name, v) {
        if (str_eq(name, key))
            break;
        n++;
    }
    return n;
}

/* The offset of the value, or of its key. */
static size_t find_offset(const struct jsonwalk *w, bool want_key) {
    const struct jsonfile *f = w->file;
    json_t *v = f->root;
    size_t i = skip_space(f, 0);

    for (size_t k = 0; k < w->depth; k++) {
        const char *key = w->steps[k].key;

        for (size_t skip = key ? number_of(v, key) : w->steps[k].index; skip; skip--) {
            if (key)
                i = skip_value(f, i + 1); /* to the ':' */
            i = skip_value(f, i + 1);     /* to the ',' */
        }
        i = skip_space(f, i + 1);
        if (key && !(want_key && k + 1 == w->depth))
            i = skip_space(f, skip_value(f, i) + 1);
        v = key ? json_object_get(v, key) : json_array_get(v, w->steps[k].index);
    }
    return i;
}

struct jsonfile_position jsonwalk_position(const struct jsonwalk *w) {
    return position_of(w->file, find_offset(w, false));
}

/* -- the walk ----------------------------------------------------------------------------------------------------------- */

void jsonwalk_enter(struct jsonwalk *w, const char *key) {
    if (w->depth == JSONFILE_DEPTH_MAX)
        BUG("a walk that is deeper than its file");
    w->steps[w->depth].key = key;
    w->steps[w->depth++].index = 0;
}

void jsonwalk_enter_index(struct jsonwalk *w, size_t index) {
    jsonwalk_enter(w, NULL);
    w->steps[w->depth - 1].index = index;
}

void jsonwalk_leave(struct jsonwalk *w) {
    w->depth--;
}

static int refuse_key(const struct jsonwalk *w, const char *key, const struct jsonwalk_key *keys, size_t n, struct err *err) {
    CLEANUP(buf_done) struct buf known = BUF_INIT(KNOWN_TEXT_MAX);
    const char *names[KEYS_MAX];

    assert(n <= KEYS_MAX);
    for (size_t i = 0; i < n; i++) {
        names[i] = keys[i].name;
        buf_addf(&known, "%s%s", i ? ", " : "", keys[i].name);
    }
    return jsonwalk_unknown_key(w, str_nearest(key, names, n), buf_str(&known), err);
}

int jsonwalk_members(struct jsonwalk *w, json_t *v, const struct jsonwalk_key *keys, size_t n, void *arg, struct err *err) {
    const char *key;
    json_t *member;

    if (!json_is_object(v))
        return jsonwalk_wrong_type(w, v, "an object", err);
    json_object_foreach(v, key, member) {
        size_t i = 0;
        int r;

        while (i < n && !str_eq(keys[i].name, key))
            i++;
        jsonwalk_enter(w, key);
        r = i < n ? keys[i].read(w, member, (char *)arg + keys[i].offset, err) : refuse_key(w, key, keys, n, err);
        jsonwalk_leave(w);
        if (r < 0)
            return r;
    }
    return 0;
}

const char *jsonwalk_key_of(const struct jsonwalk *w) {
    return w->steps[w->depth - 1].key;
}

int jsonwalk_each(struct jsonwalk *w, json_t *v, jsonwalk_read *read, void *arg, struct err *err) {
    const char *key;
    json_t *member;
    int r;

    json_object_foreach(v, key, member) {
        jsonwalk_enter(w, key);
        r = read(w, member, arg, err);
        jsonwalk_leave(w);
        if (r < 0)
            return r;
    }
    return 0;
}

int jsonwalk_elements(struct jsonwalk *w, json_t *v, size_t max, jsonwalk_read *read, void *arg, struct err *err) {
    if (!json_is_array(v))
        return jsonwalk_wrong_type(w, v, "an array", err);
    if (json_array_size(v) > max)
        return jsonwalk_fail(w, err, "has %zu elements (at most %zu)", json_array_size(v), max);
    for (size_t i = 0; i < json_array_size(v); i++) {
        int r;

        jsonwalk_enter_index(w, i);
        r = read(w, json_array_get(v, i), arg, err);
        jsonwalk_leave(w);
        if (r < 0)
            return r;
    }
    return 0;
}

int jsonwalk_one_or_more(struct jsonwalk *w, json_t *v, size_t max, jsonwalk_read *read, void *arg, struct err *err) {
    if (!json_is_array(v))
        return read(w, v, arg, err);
    if (json_array_size(v) == 0)
        return jsonwalk_fail(w, err, "must not be empty (leave it out)");
    return jsonwalk_elements(w, v, max, read, arg, err);
}

/* -- messages ----------------------------------------------------------------------------------------------------------- */

/* "rules[3].ports[0]"; a key may want to give orders to the terminal. */
static void add_name(const struct jsonwalk *w, struct buf *b) {
    for (size_t i = 0; i < w->depth; i++) {
        char shown[KEY_SHOWN_MAX + 1];

        if (w->steps[i].key) {
            snprintf(shown, sizeof shown, "%s", w->steps[i].key);
            buf_adds(b, i ? "." : "");
            buf_add_printable(b, shown);
        } else {
            buf_addf(b, "[%zu]", w->steps[i].index);
        }
    }
}

static int vfail(const struct jsonwalk *w, bool key, struct err *err, const char *fmt, va_list ap) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof err->msg * 4);
    char why[sizeof err->msg];

    vsnprintf(why, sizeof why, fmt, ap);
    add_name(w, &text);
    buf_addf(&text, "%s%s", w->depth ? ": " : "", why);
    return fail_at(w->file, find_offset(w, key), err, buf_str(&text));
}

int jsonwalk_fail(const struct jsonwalk *w, struct err *err, const char *fmt, ...) {
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = vfail(w, false, err, fmt, ap);
    va_end(ap);
    return r;
}

int jsonwalk_fail_key(const struct jsonwalk *w, struct err *err, const char *fmt, ...) {
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = vfail(w, true, err, fmt, ap);
    va_end(ap);
    return r;
}

int jsonwalk_ctx(const struct jsonwalk *w, int r, struct err *err) {
    char why[sizeof err->msg];

    if (r != -EINVAL || !err) /* out of memory has no line */
        return r;
    memcpy(why, err->msg, sizeof why);
    return jsonwalk_fail(w, err, "%s", why);
}

static const char *type_name(const json_t *v) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",     [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true or false", [JSON_FALSE] = "true or false", [JSON_NULL] = "null",
    };

    return names[json_typeof(v)];
}

int jsonwalk_wrong_type(const struct jsonwalk *w, const json_t *v, const char *wanted, struct err *err) {
    return jsonwalk_fail(w, err, "must be %s, not %s", wanted, type_name(v));
}

int jsonwalk_unknown_key(const struct jsonwalk *w, const char *near, const char *known, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof err->msg * 4);

    buf_adds(&text, "unknown key '");
    add_name(w, &text);
    if (near)
        buf_addf(&text, "' (did you mean '%s'?)", near);
    else
        buf_addf(&text, "' (known here: %s)", known);
    return fail_at(w->file, find_offset(w, true), err, buf_str(&text));
}
