/* SPDX-License-Identifier: Apache-2.0 */
/* Headers and data of tar archives. */
#include "proto/tar.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

/* Places in a header: POSIX.1-1988, and what GNU has there instead of a prefix. */
enum {
    H_NAME = 0,
    H_NAME_LEN = 100,
    H_MODE = 100,
    H_UID = 108,
    H_GID = 116,
    H_SIZE = 124,
    H_MTIME = 136,
    H_SUM = 148,
    H_TYPE = 156,
    H_LINK = 157,
    H_MAGIC = 257,
    H_PREFIX = 345,
    H_PREFIX_LEN = 155,
    H_GNU_SPARSE = 386,
    H_GNU_EXTENDED = 482,
    H_GNU_REAL = 483,
    NUMBER = 8,
    LONG_NUMBER = 12,
    GNU_PAIRS = 4,
    GNU_PAIRS_MORE = 21,
    GNU_MORE = 504,
};

static int tar_damaged(struct err *err, const char *what) {
    return err_set(err, -EBADMSG, "the archive is damaged: %s", what);
}

/* Two's complement with a first bit that says so; what does not fit into 64 bits is refused. */
static int number_256(const unsigned char *p, size_t n, int64_t *ret) {
    unsigned char fill = p[0] == 0xff ? 0xff : 0;
    uint64_t v = fill ? UINT64_MAX : 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char b = i == 0 && !fill ? p[0] & 0x7f : p[i];

        if (n - i > 8 && b != fill)
            return -ERANGE;
        v = v << 8 | b;
    }
    if ((v >> 63 != 0) != (fill != 0))
        return -ERANGE;
    *ret = (int64_t)v;
    return 0;
}

/* Octal digits between spaces, or, if the first bit is set, a number in base 256. */
int tar_number(const unsigned char *p, size_t n, int64_t *ret) {
    uint64_t v = 0;
    size_t i = 0;

    if (p[0] & 0x80)
        return number_256(p, n, ret);
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v >> 60)
            return -ERANGE;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    for (; i < n; i++)
        if (p[i] != ' ' && p[i] != 0)
            return -EINVAL;
    *ret = (int64_t)v;
    return 0;
}

/* -- the stream --------------------------------------------------------------------------------------------------------- */

static int tar_fill(struct tar *t, struct err *err) {
    ssize_t n;

    if (t->have)
        return 1;
    n = t->more(t->arg, &t->at, err);
    if (n <= 0)
        return (int)n;
    t->have = (size_t)n;
    return 1;
}

static int tar_skip(struct tar *t, uint64_t n, struct err *err) {
    while (n) {
        int r = tar_fill(t, err);
        size_t part;

        if (r <= 0)
            return r < 0 ? r : tar_damaged(err, "it ends in the middle of a file");
        part = (size_t)MIN_OF(n, t->have);
        t->at += part;
        t->have -= part;
        t->offset += part;
        n -= part;
    }
    return 0;
}

int tar_block(struct tar *t, unsigned char ret[static TAR_BLOCK], struct err *err) {
    size_t got = 0;

    while (got < TAR_BLOCK) {
        int r = tar_fill(t, err);
        size_t part;

        if (r < 0)
            return r;
        if (r == 0)
            return got ? tar_damaged(err, "it ends in the middle of a header") : 0;
        part = MIN_OF(TAR_BLOCK - got, t->have);
        memcpy(ret + got, t->at, part);
        t->at += part;
        t->have -= part;
        t->offset += part;
        got += part;
    }
    return 1;
}

ssize_t tar_data(struct tar *t, const unsigned char **ret, struct err *err) {
    size_t part;
    int r;

    if (t->left == 0)
        return 0;
    r = tar_fill(t, err);
    if (r <= 0)
        return r < 0 ? r : tar_damaged(err, "it ends in the middle of a file");
    part = (size_t)MIN_OF(t->left, t->have);
    *ret = t->at;
    t->at += part;
    t->have -= part;
    t->offset += part;
    t->left -= part;
    return (ssize_t)part;
}

/* -- headers ------------------------------------------------------------------------------------------------------------ */

static bool is_zero(const unsigned char *b) {
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (b[i])
            return false;
    return true;
}

/* Some old programs added signed bytes. */
static bool sum_is_right(const unsigned char *b) {
    int64_t want, plain = 0, with_sign = 0;

    if (tar_number(b + H_SUM, NUMBER, &want) < 0)
        return false;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        unsigned char c = i >= H_SUM && i < H_SUM + NUMBER ? ' ' : b[i];

        plain += c;
        with_sign += (signed char)c;
    }
    return want == plain || want == with_sign;
}

static int number_at(const unsigned char *b, size_t at, size_t n, uint64_t *ret, struct err *err) {
    int64_t v;

    if (tar_number(b + at, n, &v) < 0 || v < 0)
        return tar_damaged(err, "a header has a number that is none");
    *ret = (uint64_t)v;
    return 0;
}

/* The whole content of an extension's entry, with a NUL behind it. */
static int tar_swallow(struct tar *t, uint64_t size, char **ret, struct err *err) {
    CLEANUP(freep) char *text = NULL;
    const unsigned char *p;
    size_t len = 0;
    ssize_t n;

    if (size > TAR_EXTENDED_MAX)
        return err_set(err, -EFBIG, "the archive has a header of more than %d bytes", TAR_EXTENDED_MAX);
    text = malloc((size_t)size + 1);
    if (!text)
        return err_oom(err);
    t->left = size;
    while ((n = tar_data(t, &p, err)) > 0) {
        memcpy(text + len, p, (size_t)n);
        len += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    text[len] = 0;
    *ret = TAKE_PTR(text);
    return tar_skip(t, -size % TAR_BLOCK, err);
}

static int take_name(char *to, const char *from, size_t len, struct err *err) {
    if (len > TAR_PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "the archive has a name of more than %d bytes", TAR_PATH_MAX);
    memcpy(to, from, len);
    to[len] = 0;
    return 0;
}

/* POSIX splits long names in two; GNU has other things in the place of the prefix. */
static int names_of(const unsigned char *b, const struct tar_extended *x, struct tar_entry *e, struct err *err) {
    size_t name = strnlen((const char *)b + H_NAME, H_NAME_LEN), prefix = 0;
    int r = 0;

    if (memcmp(b + H_MAGIC, "ustar\0", 6) == 0)
        prefix = strnlen((const char *)b + H_PREFIX, H_PREFIX_LEN);
    if (!x->path) {
        memcpy(e->path, b + H_PREFIX, prefix);
        if (prefix)
            e->path[prefix++] = '/';
        r = take_name(e->path + prefix, (const char *)b + H_NAME, name, err);
    }
    if (r == 0 && !x->target)
        r = take_name(e->target, (const char *)b + H_LINK, strnlen((const char *)b + H_LINK, H_NAME_LEN), err);
    if (r == 0 && x->sparse_name[0])
        memcpy(e->path, x->sparse_name, sizeof e->path);
    return r;
}

static int type_of(char flag, struct tar_entry *e, struct err *err) {
    static const struct {
        char flag;
        enum tar_type type;
    } types[] = {{'0', TAR_FILE}, {0, TAR_FILE},  {'7', TAR_FILE},         {'S', TAR_FILE}, {'1', TAR_LINK}, {'2', TAR_SYMLINK},
                 {'3', TAR_CHAR}, {'5', TAR_DIR}, {'4', TAR_BLOCK_DEVICE}, {'6', TAR_FIFO}, {'D', TAR_DIR}};
    size_t n = strlen(e->path);

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].flag == flag) {
            e->type = types[i].type;
            if (flag == 0 && n && e->path[n - 1] == '/') /* before 1988 */
                e->type = TAR_DIR;
            return 0;
        }
    return err_set(err, -EBADMSG, "the archive has an entry of unknown type %d", flag);
}

static int numbers_of(const unsigned char *b, const struct tar_extended *x, struct tar *t, struct err *err) {
    struct tar_entry *e = &t->entry;
    uint64_t mode = 0;
    int r = number_at(b, H_MODE, NUMBER, &mode, err);

    e->mode = (uint32_t)mode & 07777;
    e->uid = x->uid;
    e->gid = x->gid;
    e->mtime = x->mtime;
    e->mtime_ns = x->mtime_ns;
    e->packed = x->size;
    if (r == 0 && !x->has_uid)
        r = number_at(b, H_UID, NUMBER, &e->uid, err);
    if (r == 0 && !x->has_gid)
        r = number_at(b, H_GID, NUMBER, &e->gid, err);
    if (r == 0 && !x->has_size)
        r = number_at(b, H_SIZE, LONG_NUMBER, &e->packed, err);
    if (r == 0 && !x->has_mtime && tar_number(b + H_MTIME, LONG_NUMBER, &e->mtime) < 0)
        r = tar_damaged(err, "a header has a time that is none");
    if (r == 0 && e->packed > INT64_MAX - TAR_BLOCK)
        r = tar_damaged(err, "a file is larger than any file");
    return r;
}

static int gnu_pairs(const unsigned char *p, size_t n, struct tar_entry *e, struct err *err) {
    for (size_t i = 0; i < n; i++, p += 2 * (size_t)LONG_NUMBER) {
        uint64_t at, len;
        int r;

        if (p[0] == 0)
            return 0;
        r = number_at(p, 0, LONG_NUMBER, &at, err);
        r = r < 0 ? r : number_at(p, LONG_NUMBER, LONG_NUMBER, &len, err);
        r = r < 0 ? r : tar_pieces_add(e, at, len, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The map of GNU's own format is in the header and in blocks right behind it. */
static int gnu_sparse(struct tar *t, const unsigned char *b, struct err *err) {
    unsigned char more[TAR_BLOCK];
    bool again = b[H_GNU_EXTENDED];
    int r = number_at(b, H_GNU_REAL, LONG_NUMBER, &t->entry.size, err);

    t->entry.sparse = true;
    r = r < 0 ? r : gnu_pairs(b + H_GNU_SPARSE, GNU_PAIRS, &t->entry, err);
    while (r == 0 && again) {
        r = tar_block(t, more, err);
        if (r == 0)
            r = tar_damaged(err, "it ends in the middle of a header");
        r = r < 0 ? r : gnu_pairs(more, GNU_PAIRS_MORE, &t->entry, err);
        again = more[GNU_MORE];
    }
    return r;
}

/* b: the header of the entry itself, after all that comes before it. */
static int entry_read(struct tar *t, const unsigned char *b, struct tar_extended *x, struct err *err) {
    struct tar_entry *e = &t->entry;
    char flag = (char)b[H_TYPE];
    int r = names_of(b, x, e, err);

    r = r < 0 ? r : type_of(flag, e, err);
    r = r < 0 ? r : numbers_of(b, x, t, err);
    if (r < 0)
        return r;
    if (e->path[0] == 0)
        return tar_damaged(err, "an entry has no name");
    if (e->type != TAR_FILE) { /* some programs write the size of a link's target; no data follows */
        if (e->type != TAR_DIR || flag == '5')
            e->packed = 0;
        e->n_pieces = 0;
        e->sparse = false;
    }
    e->size = e->packed;
    if (flag == 'S')
        r = gnu_sparse(t, b, err);
    t->left = e->packed;
    t->padding = (unsigned)(-e->packed % TAR_BLOCK);
    if (r == 0 && e->type == TAR_FILE && x->has_real)
        e->size = x->real_size;
    if (r == 0 && e->type == TAR_FILE && x->sparse_major == 1)
        r = tar_pieces_read(t, err);
    if (r == 0 && e->sparse)
        r = tar_pieces_check(e, err);
    return r;
}

static void entry_clear(struct tar *t) {
    free(t->entry.pieces);
    free(TAKE_PTR(t->extended));
    /* Not memset(): names are long, and are NUL-terminated when they are read. */
    t->entry.pieces = NULL;
    t->entry.n_pieces = t->entry.n_xattrs = 0;
    t->entry.sparse = false;
    t->entry.path[0] = t->entry.target[0] = 0;
}

/* One header that says something about the next: 1 if it was one. */
static int extension_read(struct tar *t, const unsigned char *b, struct tar_extended *x, struct err *err) {
    CLEANUP(freep) char *text = NULL;
    char flag = (char)b[H_TYPE];
    uint64_t size = 0;
    size_t len;
    int r;

    if (!flag || !strchr("xgLKV", flag))
        return 0;
    r = number_at(b, H_SIZE, LONG_NUMBER, &size, err);
    r = r < 0 ? r : tar_swallow(t, size, &text, err);
    if (r < 0)
        return r;
    if (flag == 'x') {
        free(t->extended);
        t->extended = TAKE_PTR(text);
        t->extended_len = (size_t)size;
        t->entry.n_xattrs = t->entry.n_pieces = 0;
        r = tar_extended_read(t, x, err);
    } else if (flag == 'L' || flag == 'K') {
        bool path = flag == 'L';

        len = strlen(text);
        r = take_name(path ? t->entry.path : t->entry.target, text, len, err);
        *(path ? &x->path : &x->target) = true;
    }
    return r < 0 ? r : 1;
}

int tar_next(struct tar *t, struct err *err) {
    struct tar_extended x = {.sparse_major = -1, .sparse_minor = -1};
    unsigned char b[TAR_BLOCK];
    int r = tar_skip(t, t->left + t->padding, err);

    t->left = t->padding = 0;
    entry_clear(t);
    if (r < 0)
        return r;
    do {
        r = tar_block(t, b, err);
        if (r <= 0 || is_zero(b))
            return MIN_OF(r, 0);
        if (!sum_is_right(b))
            return tar_damaged(err, "a header has a wrong check sum");
        r = extension_read(t, b, &x, err);
    } while (r > 0);
    r = r < 0 ? r : entry_read(t, b, &x, err);
    return r < 0 ? r : 1;
}

void tar_done(struct tar *t) {
    entry_clear(t);
}
