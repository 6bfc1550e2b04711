/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deleted and an added file are one renamed file if they are the same inode, or if they have the same content and no third
 * file has it. What is hidden, or was changed by the host meanwhile, is left as it is: there apply has to see both halves.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"

enum {
    CANDIDATES_MAX = 5000,              /* files that are read */
    HASHED_FILE_MAX = 64 * 1024 * 1024, /* bytes of one */
    HASHED_ALL_MAX = 256 * 1024 * 1024, /* bytes of all */
    HASH_AT_ONCE = 64 * 1024,
};

/* Deleted or added; `key` is what the two of a pair have in common. */
struct rename_half {
    unsigned char key[SHA256_LEN];
    uint64_t size;
    size_t i; /* in the set */
};

static bool is_half(const struct change *c) {
    const struct change_side *side = c->kind == CHANGE_ADDED ? &c->new_ : &c->old_;

    return (c->kind == CHANGE_ADDED || c->kind == CHANGE_DELETED) && S_ISREG(side->mode) && !c->hidden && !c->host_changed;
}

static uint64_t size_of(const struct change *c) {
    return c->kind == CHANGE_ADDED ? c->new_.size : c->old_.size;
}

static int by_key(const void *a, const void *b) {
    return memcmp(((const struct rename_half *)a)->key, ((const struct rename_half *)b)->key, SHA256_LEN);
}

static int by_size(const void *a, const void *b) {
    const struct rename_half *x = a, *y = b;

    return (x->size > y->size) - (x->size < y->size);
}

/* An inode number is given to a new file as soon as its file is gone; the time of birth tells. */
static bool was_born_by(const struct change_set *s, const struct change *added, uint64_t ns) {
    CLEANUP(closep) int fd = safepath_open(s->new_root, added->path, O_PATH);
    struct statx x;

    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) < 0 || !(x.stx_mask & STATX_BTIME))
        return false;
    return (uint64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec <= ns;
}

static int look_at_old(const struct change_set *s, const struct change *c, struct change_view *ret) {
    const struct journal_entry *e = s->host_root < 0 && s->journal ? journal_find(s->journal, c->path) : NULL;
    int r = e ? view_of_entry(s->journal, e, ret) : view_look(s->host_root, c->path, ret);

    if (r == 0 && ret->st.st_mode)
        ret->st.st_mode = c->old_.mode;
    if (r == 0)
        ret->unknown = c->old_unknown;
    return r;
}

static int compare_halves(struct change_maker *m, const struct change *gone, const struct change *added, unsigned *ret_what) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT, now = CHANGE_VIEW_INIT;
    int r = look_at_old(m->set, gone, &old);

    if (r == 0)
        r = view_look(m->set->new_root, added->path, &now);
    if (r < 0 || !S_ISREG(old.st.st_mode) || !S_ISREG(now.st.st_mode)) /* changed meanwhile */
        return r == -ENOMEM ? err_oom(m->err) : 0;
    r = view_compare(&old, &now, m->set->journal, ret_what);
    return r < 0 ? err_oom(m->err) : 1;
}

/* The deleted one is left without a path, to be dropped in the end. */
static int join_halves(struct change_maker *m, struct change *deleted, struct change *added) {
    unsigned what = 0;
    int r = compare_halves(m, deleted, added, &what);

    if (r <= 0)
        return r;
    added->kind = CHANGE_RENAMED;
    added->what = what;
    added->from = TAKE_PTR(deleted->path);
    added->old_ = deleted->old_;
    added->old_unknown = deleted->old_unknown;
    deleted->old_ = (struct change_side){0};
    return 0;
}

/* Halves with equal keys: a pair if they are exactly two, one of each kind. */
static int join_group(struct change_maker *m, const struct rename_half *h, size_t n, bool inode) {
    struct change *a = &m->set->v[h[0].i], *b = n == 2 ? &m->set->v[h[1].i] : NULL;
    const struct change *deleted;

    if (!b || a->kind == b->kind)
        return 0;
    deleted = a->kind == CHANGE_DELETED ? a : b;
    if (inode && !was_born_by(m->set, deleted == a ? b : a, m->ids[deleted - m->set->v].known_ns))
        return 0;
    return deleted == a ? join_halves(m, a, b) : join_halves(m, b, a);
}

static int join_equal_keys(struct change_maker *m, struct rename_half *h, size_t n, bool inode) {
    int r = 0;

    if (n > 0)
        qsort(h, n, sizeof *h, by_key);
    for (size_t i = 0, len; i < n && r == 0; i += len) {
        for (len = 1; i + len < n && by_key(&h[i], &h[i + len]) == 0;)
            len++;
        r = join_group(m, &h[i], len, inode);
    }
    return r;
}

static int join_by_inode(struct change_maker *m, struct rename_half *h) {
    size_t n = 0;

    for (size_t i = 0; i < m->set->n; i++) {
        if (!is_half(&m->set->v[i]) || !m->ids[i].ino)
            continue;
        h[n] = (struct rename_half){.i = i};
        memcpy(h[n].key, &m->ids[i].ino, sizeof m->ids[i].ino);
        memcpy(h[n].key + sizeof m->ids[i].ino, &m->ids[i].dev, sizeof m->ids[i].dev);
        n++;
    }
    return join_equal_keys(m, h, n, true);
}

/* The file may grow meanwhile: no more than its ceiling is read. 1: done, 0: it cannot be read, or is larger now. */
static int hash_half(const struct change_set *s, struct rename_half *h) {
    const struct change *c = &s->v[h->i];
    CLEANUP(closep) int fd = c->kind == CHANGE_ADDED ? change_open_new(s, c) : change_open_old(s, c);
    CLEANUP(freep) char *buf = malloc(HASH_AT_ONCE);
    struct sha256 sha;
    uint64_t total = 0;

    if (!buf)
        return -ENOMEM;
    sha256_init(&sha);
    while (fd >= 0) {
        ssize_t n = fd_read_some(fd, buf, HASH_AT_ONCE);

        if (n < 0 || (total += (uint64_t)n) > h->size)
            return 0;
        if (n == 0) {
            sha256_end(&sha, h->key);
            return total == h->size;
        }
        sha256_add(&sha, buf, (size_t)n);
    }
    return 0;
}

static bool has_both_kinds(const struct change_set *s, const struct rename_half *h, size_t n) {
    unsigned kinds = 0;

    for (size_t i = 0; i < n; i++)
        kinds |= 1u << s->v[h[i].i].kind;
    return kinds == (1u << CHANGE_ADDED | 1u << CHANGE_DELETED);
}

/* Keeps the halves that have a partner of their size, the smallest first, as far as the ceilings allow whole sizes. */
static size_t keep_candidates(const struct change_set *s, struct rename_half *h, size_t n) {
    uint64_t bytes = 0;
    size_t n_candidates = 0;

    for (size_t i = 0, len; i < n; i += len) {
        for (len = 1; i + len < n && h[i].size == h[i + len].size;)
            len++;
        if (!has_both_kinds(s, &h[i], len))
            continue;
        bytes += h[i].size * len;
        if (n_candidates + len > CANDIDATES_MAX || bytes > HASHED_ALL_MAX)
            break;
        memmove(&h[n_candidates], &h[i], len * sizeof *h);
        n_candidates += len;
    }
    return n_candidates;
}

static int join_by_content(struct change_maker *m, struct rename_half *h) {
    size_t n = 0, n_candidates, hashed = 0;

    for (size_t i = 0; i < m->set->n; i++) {
        const struct change *c = &m->set->v[i];

        if (c->path && is_half(c) && !c->old_unknown && size_of(c) > 0 && size_of(c) <= HASHED_FILE_MAX)
            h[n++] = (struct rename_half){.i = i, .size = size_of(c)};
    }
    if (n > 0)
        qsort(h, n, sizeof *h, by_size);
    n_candidates = keep_candidates(m->set, h, n);
    for (size_t i = 0; i < n_candidates; i++) {
        int r = hash_half(m->set, &h[i]);

        if (r < 0)
            return err_oom(m->err);
        if (r > 0)
            h[hashed++] = h[i];
    }
    return join_equal_keys(m, h, hashed, false);
}

int change_find_renames(struct change_maker *m) {
    CLEANUP(freep) struct rename_half *h = calloc(m->set->n + 1, sizeof *h);
    struct change_set *s = m->set;
    size_t n = 0;
    int r;

    if (!h)
        return err_oom(m->err);
    r = join_by_inode(m, h);
    if (r == 0)
        r = join_by_content(m, h);
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].path)
            s->v[n++] = s->v[i];
    s->n = n;
    return r;
}
