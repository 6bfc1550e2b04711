/* SPDX-License-Identifier: Apache-2.0 */
#include "config/fields/doc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"

enum { KEY_SHOWN_MAX = 60 };

void doc_done(struct doc *d) {
    json_decref(d->root);
    free(d->data);
    free(d->path);
    *d = (struct doc){0};
}

static int bad_byte(const struct doc *d, size_t offset, struct err *err, const char *what) {
    struct position at = locate_offset(d->data, offset);

    return err_usage(err, "%s:%u:%u: %s", d->path, at.line, at.column, what);
}

static int check_bytes(const struct doc *d, struct err *err) {
    char what[64];

    if (d->len >= 3 && memcmp(d->data, "\xef\xbb\xbf", 3) == 0)
        return bad_byte(d, 0, err, "the file starts with a byte order mark (save it as plain UTF-8)");
    for (size_t i = 0, n; i < d->len; i += n) {
        if (d->data[i] == 0)
            return bad_byte(d, i, err, "a NUL byte is not allowed here");
        n = str_utf8_len(d->data + i);
        if (n == 0) {
            snprintf(what, sizeof what, "byte 0x%02x is not valid UTF-8", (unsigned char)d->data[i]);
            return bad_byte(d, i, err, what);
        }
    }
    if (strspn(d->data, " \t\r\n") == d->len)
        return bad_byte(d, 0, err, "the file is empty (write {} for no settings)");
    return 0;
}

/* jansson would recurse up to 2048 levels; nothing here needs more than a handful. */
static int check_depth(const struct doc *d, struct err *err) {
    char what[64];
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < d->len; i++) {
        char c = d->data[i];

        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth)
            depth--;
        if (depth > DOC_DEPTH_MAX) {
            snprintf(what, sizeof what, "nested too deeply (at most %d levels)", DOC_DEPTH_MAX);
            return bad_byte(d, i, err, what);
        }
    }
    return 0;
}

/* jansson stops right behind the second key; its opening quote is the last one before that is not escaped. */
static int duplicate_key(const struct doc *d, size_t end, struct err *err) {
    struct position at;
    size_t start;

    if (end < 2 || end > d->len)
        return err_usage(err, "%s: a key appears twice in one object", d->path);
    for (start = end - 2; start > 0; start--) {
        size_t slashes = 0;

        if (d->data[start] != '"')
            continue;
        while (slashes < start && d->data[start - 1 - slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            break;
    }
    at = locate_offset(d->data, start);
    return err_usage(err, "%s:%u:%u: key '%.*s' appears twice", d->path, at.line, at.column,
                     (int)MIN_OF(end - start - 2, (size_t)KEY_SHOWN_MAX), d->data + start + 1);
}

static int syntax_error(const struct doc *d, const json_error_t *e, struct err *err) {
    switch (json_error_code(e)) {
    case json_error_duplicate_key:
        return duplicate_key(d, (size_t)e->position, err);
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return err_usage(err, "%s:%d:%d: \\u0000 is not allowed in a string", d->path, e->line, e->column);
    case json_error_numeric_overflow:
        return err_usage(err, "%s:%d:%d: the number is too large", d->path, e->line, e->column);
    default: /* the enum is jansson's and grows with it */
        return err_usage(err, "%s:%d:%d: not valid JSON: %s", d->path, e->line, e->column, e->text);
    }
}

static int parse(struct doc *d, struct err *err) {
    json_error_t e;
    int r;

    r = check_bytes(d, err);
    if (r < 0)
        return r;
    r = check_depth(d, err);
    if (r < 0)
        return r;
    d->root = json_loadb(d->data, d->len, JSON_REJECT_DUPLICATES, &e);
    if (!d->root)
        return syntax_error(d, &e, err);
    if (!json_is_object(d->root))
        return bad_byte(d, 0, err, "the file must hold an object, { ... }");
    return 0;
}

static int take_bytes(const char *path, struct buf *bytes, struct doc *ret, struct err *err) {
    CLEANUP(doc_done) struct doc d = {.len = bytes->len};
    int r;

    d.path = strdup(path);
    d.data = buf_take(bytes);
    if (!d.path || !d.data)
        return err_oom(err);
    r = parse(&d, err);
    if (r < 0)
        return r;
    *ret = TAKE(d, (struct doc){0});
    return 0;
}

static int too_large(const char *path, long long size, struct err *err) {
    return err_usage(err, "%s:1:1: the file has %lld bytes (at most %d)", path, size, DOC_SIZE_MAX);
}

int doc_parse(const char *path, const char *data, size_t len, struct doc *ret, struct err *err) {
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(DOC_SIZE_MAX);

    if (len > DOC_SIZE_MAX)
        return too_large(path, (long long)len, err);
    buf_add(&bytes, data, len);
    if (!buf_ok(&bytes))
        return err_oom(err);
    return take_bytes(path, &bytes, ret, err);
}

int doc_read_fd(int fd, const char *path, struct doc *ret, struct err *err) {
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(DOC_SIZE_MAX);
    char chunk[16 * 1024];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_usage(err, "%s:1:1: not a regular file", path);
    if (st.st_size > DOC_SIZE_MAX)
        return too_large(path, (long long)st.st_size, err);
    while ((n = fd_read_some(fd, chunk, sizeof chunk)) > 0)
        buf_add(&bytes, chunk, (size_t)n);
    if (n < 0)
        return err_sys(err, (int)n, "read '%s'", path);
    if (!buf_ok(&bytes)) /* it grew while it was read */
        return err_usage(err, "%s:1:1: the file has more than %d bytes", path, DOC_SIZE_MAX);
    return take_bytes(path, &bytes, ret, err);
}

int doc_read(const char *path, struct doc *ret, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int r;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    r = doc_read_fd(fd, path, ret, err);
    return r < 0 ? r : 1;
}

static void push(struct doc_reader *rd, struct locate_step s) {
    if (rd->depth >= ARRAY_LEN(rd->steps))
        BUG("a document deeper than doc_parse() lets through");
    rd->steps[rd->depth++] = s;
}

void reader_enter(struct doc_reader *rd, const char *key) {
    push(rd, (struct locate_step){.key = key});
}

void reader_enter_index(struct doc_reader *rd, size_t index) {
    push(rd, (struct locate_step){.index = index});
}

void reader_leave(struct doc_reader *rd) {
    rd->depth--;
}

struct position reader_position(const struct doc_reader *rd, enum locate_what what) {
    struct position at = {1, 1};

    locate(rd->doc->data, rd->doc->len, rd->steps, rd->depth, what, &at);
    return at;
}

/* "agent.code.sandbox.mounts.extra[0].from" */
static void add_name(const struct doc_reader *rd, struct buf *b) {
    for (size_t i = 0; i < rd->depth; i++) {
        const struct locate_step *s = &rd->steps[i];

        if (s->key)
            buf_addf(b, "%s%.*s", i ? "." : "", KEY_SHOWN_MAX, s->key);
        else
            buf_addf(b, "[%zu]", s->index);
    }
}

static int fail_at(const struct doc_reader *rd, enum locate_what what, struct err *err, const char *text) {
    struct position at = reader_position(rd, what);

    return err_usage(err, "%s:%u:%u: %s", rd->doc->path, at.line, at.column, text);
}

int reader_fail(const struct doc_reader *rd, struct err *err, const char *fmt, ...) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof err->msg * 4);
    char why[sizeof err->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    add_name(rd, &text);
    buf_addf(&text, "%s%s", rd->depth ? ": " : "", why);
    return fail_at(rd, LOCATE_VALUE, err, buf_str(&text));
}

int reader_ctx(const struct doc_reader *rd, int r, struct err *err) {
    char why[sizeof err->msg];

    if (r != -EINVAL || !err) /* out of memory is nobody's line */
        return r;
    memcpy(why, err->msg, sizeof why);
    return reader_fail(rd, err, "%s", why);
}

static const char *type_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    BUG("a JSON type that jansson does not have");
}

int reader_wrong_type(const struct doc_reader *rd, const json_t *v, const char *wanted, struct err *err) {
    return reader_fail(rd, err, "must be %s, not %s", wanted, type_name(v));
}

int reader_unknown_key(const struct doc_reader *rd, const char *near, const char *known, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof err->msg * 4);

    buf_adds(&text, "unknown key '");
    add_name(rd, &text);
    if (near)
        buf_addf(&text, "' (did you mean '%s'?)", near);
    else
        buf_addf(&text, "' (known here: %s)", known);
    return fail_at(rd, LOCATE_KEY, err, buf_str(&text));
}
