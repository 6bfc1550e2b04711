/* SPDX-License-Identifier: Apache-2.0 */
/* Pax headers, "LEN KEY=VALUE\n" each, and the maps of sparse files. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "proto/tar.h"

static int pax_damaged(struct err *err, const char *what) {
    return err_set(err, -EBADMSG, "the archive is damaged: %s", what);
}

/* Decimal digits up to `end`, which is not one. */
static int pax_number(const char *p, const char *end, uint64_t *ret) {
    uint64_t v = 0;

    if (p == end)
        return -EINVAL;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9' || v > (INT64_MAX - 9) / 10)
            return -EINVAL;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *ret = v;
    return 0;
}

/* "-1.5", of which the fraction counts upwards. */
static int pax_time(const char *p, const char *end, struct tar_extended *x) {
    const char *dot = memchr(p, '.', (size_t)(end - p));
    bool negative = p < end && *p == '-';
    uint64_t s = 0, ns = 0, unit = 100000000;

    if (pax_number(p + negative, dot ? dot : end, &s) < 0)
        return -EINVAL;
    for (p = dot ? dot + 1 : end; p < end; p++, unit /= 10) {
        if (*p < '0' || *p > '9')
            return -EINVAL;
        ns += unit * (uint64_t)(*p - '0');
    }
    x->mtime = negative ? -(int64_t)s - (ns ? 1 : 0) : (int64_t)s;
    x->mtime_ns = (uint32_t)(negative && ns ? 1000000000 - ns : ns);
    x->has_mtime = true;
    return 0;
}

/* "0,512,4096,512": pax 0.1 */
static int pax_map(struct tar_entry *e, const char *p, const char *end, struct err *err) {
    uint64_t pair[2];
    int r = 0;

    e->n_pieces = 0;
    while (r == 0 && p < end) {
        for (int i = 0; i < 2; i++) {
            const char *comma = memchr(p, ',', (size_t)(end - p));

            if (p >= end || pax_number(p, comma ? comma : end, &pair[i]) < 0)
                return pax_damaged(err, "the map of a sparse file is not one");
            p = comma ? comma + 1 : end;
        }
        r = tar_pieces_add(e, pair[0], pair[1], err);
    }
    return r;
}

enum pax_kind {
    PAX_PATH,
    PAX_TARGET,
    PAX_SIZE,
    PAX_UID,
    PAX_GID,
    PAX_MTIME,
    PAX_SPARSE_MAJOR,
    PAX_SPARSE_MINOR,
    PAX_SPARSE_NAME,
    PAX_SPARSE_REAL,
    PAX_SPARSE_MAP,
    PAX_SPARSE_AT,
    PAX_SPARSE_LEN,
    PAX_SPARSE_OLD,
};

static const struct {
    const char *key;
    enum pax_kind kind;
} pax_keys[] = {
    {"path", PAX_PATH},
    {"linkpath", PAX_TARGET},
    {"size", PAX_SIZE},
    {"uid", PAX_UID},
    {"gid", PAX_GID},
    {"mtime", PAX_MTIME},
    {"GNU.sparse.major", PAX_SPARSE_MAJOR},
    {"GNU.sparse.minor", PAX_SPARSE_MINOR},
    {"GNU.sparse.name", PAX_SPARSE_NAME},
    {"GNU.sparse.realsize", PAX_SPARSE_REAL},
    {"GNU.sparse.size", PAX_SPARSE_REAL},
    {"GNU.sparse.map", PAX_SPARSE_MAP},
    {"GNU.sparse.offset", PAX_SPARSE_AT},
    {"GNU.sparse.numbytes", PAX_SPARSE_LEN},
    {"GNU.sparse.numblocks", PAX_SPARSE_OLD},
};

static int pax_name(char *to, const char *p, const char *end, struct err *err) {
    if (end - p > TAR_PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "the archive has a name of more than %d bytes", TAR_PATH_MAX);
    if (memchr(p, 0, (size_t)(end - p)))
        return pax_damaged(err, "a name has a NUL in it");
    memcpy(to, p, (size_t)(end - p));
    to[end - p] = 0;
    return 0;
}

static int pax_take_number(struct tar *t, struct tar_extended *x, enum pax_kind kind, uint64_t v, struct err *err) {
    switch (kind) {
    case PAX_SIZE:
        x->size = v;
        x->has_size = true;
        return 0;
    case PAX_UID:
        x->uid = v;
        x->has_uid = true;
        return 0;
    case PAX_GID:
        x->gid = v;
        x->has_gid = true;
        return 0;
    case PAX_SPARSE_REAL:
        x->real_size = v;
        x->has_real = t->entry.sparse = true;
        return 0;
    case PAX_SPARSE_MAJOR:
        x->sparse_major = (int)MIN_OF(v, 9);
        return 0;
    case PAX_SPARSE_MINOR:
        x->sparse_minor = (int)MIN_OF(v, 9);
        return 0;
    case PAX_SPARSE_AT: /* 0.0: pairs of records, in order */
        return tar_pieces_add(&t->entry, v, 0, err);
    case PAX_SPARSE_LEN:
        if (t->entry.n_pieces == 0)
            return pax_damaged(err, "the map of a sparse file is not one");
        t->entry.pieces[t->entry.n_pieces - 1].len = v;
        return 0;
    case PAX_PATH:
    case PAX_TARGET:
    case PAX_MTIME:
    case PAX_SPARSE_NAME:
    case PAX_SPARSE_MAP:
    case PAX_SPARSE_OLD:
        return 0;
    }
    return 0;
}

static int pax_take(struct tar *t, struct tar_extended *x, enum pax_kind kind, const char *p, const char *end, struct err *err) {
    uint64_t v;

    if (kind == PAX_PATH || kind == PAX_TARGET) {
        *(kind == PAX_PATH ? &x->path : &x->target) = end > p; /* empty: what the header says */
        return pax_name(kind == PAX_PATH ? t->entry.path : t->entry.target, p, end, err);
    }
    if (kind == PAX_SPARSE_NAME)
        return pax_name(x->sparse_name, p, end, err);
    if (kind == PAX_SPARSE_MAP)
        return pax_map(&t->entry, p, end, err);
    if (kind == PAX_SPARSE_OLD || p == end)
        return 0;
    if (kind == PAX_MTIME)
        return pax_time(p, end, x) < 0 ? pax_damaged(err, "a header has a time that is none") : 0;
    if (pax_number(p, end, &v) < 0)
        return pax_damaged(err, "a header has a number that is none");
    return pax_take_number(t, x, kind, v, err);
}

static int pax_record(struct tar *t, struct tar_extended *x, char *key, char *equals, char *end, struct err *err) {
    static const char xattr[] = "SCHILY.xattr.";
    struct tar_entry *e = &t->entry;

    *equals = *end = 0;
    if (str_starts(key, xattr)) {
        if (e->n_xattrs < TAR_XATTRS_MAX)
            e->xattrs[e->n_xattrs++] = (struct tar_xattr){key + strlen(xattr), equals + 1, (size_t)(end - equals - 1)};
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(pax_keys); i++)
        if (str_eq(pax_keys[i].key, key))
            return pax_take(t, x, pax_keys[i].kind, equals + 1, end, err);
    return 0;
}

int tar_extended_read(struct tar *t, struct tar_extended *x, struct err *err) {
    char *p = t->extended, *stop = p + t->extended_len;
    int r = 0;

    while (r == 0 && p < stop) {
        char *space = memchr(p, ' ', (size_t)MIN_OF(stop - p, 20)), *equals, *end;
        uint64_t len;

        if (!space || pax_number(p, space, &len) < 0 || len > (uint64_t)(stop - p) || len < (uint64_t)(space - p) + 3)
            return pax_damaged(err, "a pax header is not one");
        end = p + len - 1;
        equals = memchr(space + 1, '=', (size_t)(end - space - 1));
        if (!equals || *end != '\n')
            return pax_damaged(err, "a pax header is not one");
        r = pax_record(t, x, space + 1, equals, end, err);
        p = end + 1;
    }
    return r;
}

/* -- sparse files ------------------------------------------------------------------------------------------------------- */

int tar_pieces_add(struct tar_entry *e, uint64_t at, uint64_t len, struct err *err) {
    if (e->n_pieces == TAR_SPARSE_MAX)
        return err_set(err, -E2BIG, "the archive has a file of more than %d pieces", TAR_SPARSE_MAX);
    e->sparse = true;
    return VEC_ADD(e->pieces, e->n_pieces, (struct tar_piece){at, len}) < 0 ? err_oom(err) : 0;
}

/* One number and its line feed, from blocks that are read on demand. */
static int map_number(struct tar *t, unsigned char block[static TAR_BLOCK], size_t *at, uint64_t *ret, struct err *err) {
    char text[24];
    size_t n = 0;

    for (;;) {
        if (*at == TAR_BLOCK) {
            int r;

            if (t->left < TAR_BLOCK)
                return pax_damaged(err, "the map of a sparse file is longer than the file");
            r = tar_block(t, block, err);
            if (r <= 0)
                return r < 0 ? r : pax_damaged(err, "it ends in the middle of a file");
            t->left -= TAR_BLOCK;
            t->entry.packed -= TAR_BLOCK;
            *at = 0;
        }
        text[n] = (char)block[(*at)++];
        if (text[n] == '\n')
            return pax_number(text, text + n, ret) < 0 ? pax_damaged(err, "the map of a sparse file is not one") : 0;
        if (++n == sizeof text)
            return pax_damaged(err, "the map of a sparse file is not one");
    }
}

int tar_pieces_read(struct tar *t, struct err *err) {
    unsigned char block[TAR_BLOCK];
    size_t at = TAR_BLOCK;
    uint64_t n, pair[2];
    int r = map_number(t, block, &at, &n, err);

    if (r == 0 && n > TAR_SPARSE_MAX)
        return err_set(err, -E2BIG, "the archive has a file of more than %d pieces", TAR_SPARSE_MAX);
    for (t->entry.n_pieces = 0, t->entry.sparse = true; r == 0 && n; n--) {
        r = map_number(t, block, &at, &pair[0], err);
        r = r < 0 ? r : map_number(t, block, &at, &pair[1], err);
        r = r < 0 ? r : tar_pieces_add(&t->entry, pair[0], pair[1], err);
    }
    return r;
}

int tar_pieces_check(struct tar_entry *e, struct err *err) {
    uint64_t end = 0, total = 0;

    for (size_t i = 0; i < e->n_pieces; i++) {
        const struct tar_piece *p = &e->pieces[i];

        if (p->at < end || p->at > INT64_MAX || p->len > INT64_MAX - p->at || p->at + p->len > e->size)
            return pax_damaged(err, "the pieces of a sparse file do not fit");
        end = p->at + p->len;
        total += p->len;
    }
    return total != e->packed ? pax_damaged(err, "the pieces of a sparse file are not all there") : 0;
}
