/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest as a hash table and as a file. */
#include "workspace/copy/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/pathtext.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/file.h"

enum { NONE = UINT32_MAX, FIRST_CAP = 1024 };

/* A hash table of chains: first[] has the entry that a chain begins with, next[] the one after each entry. */
struct manifest {
    struct manifest_entry *v; /* owns the paths */
    uint32_t *first, *next;
    size_t n, cap; /* cap: of first[], a power of two */
    uint64_t seed; /* names come from the sandbox, which must not choose the chains */
};

struct manifest *manifest_new(void) {
    struct manifest *m = calloc(1, sizeof *m);

    if (m && getrandom(&m->seed, sizeof m->seed, 0) != sizeof m->seed) {
        free(m);
        return NULL;
    }
    return m;
}

void manifest_free(struct manifest *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        free((char *)m->v[i].path);
    free(m->v);
    free(m->first);
    free(m->next);
    free(m);
}

void manifest_freep(struct manifest **m) {
    manifest_free(*m);
}

/* FNV-1a from a secret start, mixed once more for its low bits. */
static size_t slot_of(const struct manifest *m, const char *path) {
    uint64_t h = m->seed ^ 0xcbf29ce484222325;

    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * 0x100000001b3;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93;
    h ^= h >> 32;
    return h & (m->cap - 1);
}

static void link_entry(struct manifest *m, size_t i) {
    size_t slot = slot_of(m, m->v[i].path);

    m->next[i] = m->first[slot];
    m->first[slot] = (uint32_t)i;
}

static void link_all(struct manifest *m) {
    for (size_t i = 0; i < m->cap; i++)
        m->first[i] = NONE;
    for (size_t i = 0; i < m->n; i++)
        link_entry(m, i);
}

/* Where the number of the entry is: first[], next[], or the end of the chain. */
static uint32_t *find_link(const struct manifest *m, const char *path) {
    uint32_t *at = &m->first[slot_of(m, path)];

    while (*at != NONE && !str_eq(m->v[*at].path, path))
        at = &m->next[*at];
    return at;
}

static int grow_table(struct manifest *m) {
    size_t cap = m->cap ? 2 * m->cap : FIRST_CAP;
    uint32_t *first = reallocarray(m->first, cap, sizeof *first);

    if (!first)
        return -ENOMEM;
    m->first = first;
    m->cap = cap;
    link_all(m);
    return 0;
}

int manifest_set(struct manifest *m, const char *path, const struct manifest_stamp *host, const struct manifest_stamp *copy,
                 struct err *err) {
    const struct manifest_entry *known = manifest_find(m, path);
    struct manifest_entry e = {.host = *host, .copy = *copy};

    if (known) {
        e.path = known->path;
        m->v[known - m->v] = e;
        return 0;
    }
    if (m->n >= MANIFEST_MAX)
        return err_set(err, -E2BIG, "there are more than %d files", MANIFEST_MAX);
    if (VEC_ROOM(m->v, m->n) < 0 || VEC_ROOM(m->next, m->n) < 0 || (m->n == m->cap && grow_table(m) < 0))
        return err_oom(err);
    e.path = strdup(path);
    if (!e.path)
        return err_oom(err);
    m->v[m->n] = e;
    link_entry(m, m->n++);
    return 0;
}

/* The last entry takes the place of the one that goes. */
void manifest_drop(struct manifest *m, const char *path) {
    uint32_t *at = m->cap ? find_link(m, path) : NULL, *last;
    uint32_t gone;

    if (!at || *at == NONE)
        return;
    gone = *at;
    *at = m->next[gone];
    free((char *)m->v[gone].path);
    m->n--;
    if (gone == m->n)
        return;
    last = find_link(m, m->v[m->n].path);
    *last = gone;
    m->v[gone] = m->v[m->n];
    m->next[gone] = m->next[m->n];
}

const struct manifest_entry *manifest_find(const struct manifest *m, const char *path) {
    uint32_t i = m->cap ? *find_link(m, path) : NONE;

    return i == NONE ? NULL : &m->v[i];
}

static int by_path(const void *a, const void *b) {
    const struct manifest_entry *x = a, *y = b;

    return strcmp(x->path, y->path);
}

void manifest_sort(struct manifest *m) {
    if (m->n == 0)
        return;
    qsort(m->v, m->n, sizeof *m->v, by_path);
    link_all(m);
}

size_t manifest_count(const struct manifest *m) {
    return m->n;
}

const struct manifest_entry *manifest_at(const struct manifest *m, size_t i) {
    return i < m->n ? &m->v[i] : NULL;
}

/* Times before 1970 become 1: they are only compared, and 0 means none. */
static uint64_t to_ns(struct timespec t) {
    return t.tv_sec < 0 ? 1 : (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct manifest_stamp manifest_stamp_of(const struct stat *st) {
    return (struct manifest_stamp){.ino = st->st_ino,
                                   .ctime_ns = to_ns(st->st_ctim),
                                   .mtime_ns = to_ns(st->st_mtim),
                                   .size = (uint64_t)st->st_size,
                                   .mode = st->st_mode};
}

int manifest_stamp_fd(int fd, struct manifest_stamp *ret) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = manifest_stamp_of(&st);
    return 0;
}

struct manifest_stamp manifest_stamp_racy(const struct stat *st, uint64_t before) {
    struct manifest_stamp s = manifest_stamp_of(st);

    if (s.ctime_ns >= before)
        s.ctime_ns = 0;
    return s;
}

bool manifest_same(const struct manifest_stamp *a, const struct manifest_stamp *b) {
    if (a->mode != b->mode)
        return false;
    if (a->mode == 0 || S_ISDIR(a->mode))
        return true;
    return a->ctime_ns != 0 && a->ctime_ns == b->ctime_ns && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

/* -- the file ------------------------------------------------------------------------------------------------------------- */

/* No sandbox sees the run's folder, but the file is read as if one had written it. */

static const char magic[] = "bawn-manifest 1\n";

enum { STAMP_BYTES = 4 * 8 + 4 };

static void add_stamp(struct buf *b, const struct manifest_stamp *s) {
    const uint64_t words[] = {s->ino, s->ctime_ns, s->mtime_ns, s->size};

    buf_add(b, words, sizeof words);
    buf_add(b, &s->mode, sizeof s->mode);
}

void manifest_format(struct manifest *m, struct buf *ret) {
    uint64_t n = manifest_count(m);

    manifest_sort(m);
    buf_add(ret, magic, sizeof magic - 1);
    buf_add(ret, &n, sizeof n);
    for (size_t i = 0; i < n; i++) {
        const struct manifest_entry *e = manifest_at(m, i);
        uint32_t len = (uint32_t)strlen(e->path);

        buf_add(ret, &len, sizeof len);
        buf_add(ret, e->path, len);
        add_stamp(ret, &e->host);
        add_stamp(ret, &e->copy);
    }
}

struct manifest_reader {
    const char *at, *end;
};

/* NULL: there are not so many bytes. */
static const char *take_bytes(struct manifest_reader *r, size_t len) {
    const char *s = r->at;

    if ((size_t)(r->end - r->at) < len)
        return NULL;
    r->at += len;
    return s;
}

static struct manifest_stamp get_stamp(const char *s) {
    uint64_t words[4];
    uint32_t mode;

    memcpy(words, s, sizeof words);
    memcpy(&mode, s + sizeof words, sizeof mode);
    return (struct manifest_stamp){words[0], words[1], words[2], words[3], mode};
}

static int manifest_damaged(struct err *err) {
    return err_set(err, -EBADMSG, "the list of the copy's files is damaged");
}

static int parse_entry(struct manifest_reader *rd, struct manifest *m, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    struct manifest_stamp host, copy;
    const char *s = take_bytes(rd, sizeof(uint32_t));
    uint32_t len;

    if (!s)
        return manifest_damaged(err);
    memcpy(&len, s, sizeof len);
    s = take_bytes(rd, len);
    if (!s || len > MANIFEST_PATH_MAX || !path_is_below(s, len))
        return manifest_damaged(err);
    path = strndup(s, len);
    if (!path)
        return err_oom(err);
    s = take_bytes(rd, 2 * STAMP_BYTES);
    if (!s || manifest_find(m, path))
        return manifest_damaged(err);
    host = get_stamp(s);
    copy = get_stamp(s + STAMP_BYTES);
    return manifest_set(m, path, &host, &copy, err);
}

int manifest_parse(const char *data, size_t len, struct manifest **ret, struct err *err) {
    struct manifest_reader rd = {data, data + len};
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    const char *s = take_bytes(&rd, sizeof magic - 1);
    uint64_t n;

    if (!m)
        return err_oom(err);
    if (!s || memcmp(s, magic, sizeof magic - 1) != 0 || !(s = take_bytes(&rd, sizeof n)))
        return manifest_damaged(err);
    memcpy(&n, s, sizeof n);
    if (n > MANIFEST_MAX)
        return manifest_damaged(err);
    for (uint64_t i = 0; i < n; i++) {
        int r = parse_entry(&rd, m, err);

        if (r < 0)
            return r;
    }
    if (rd.at != rd.end)
        return manifest_damaged(err);
    manifest_sort(m);
    *ret = TAKE_PTR(m);
    return 0;
}

/* The run is locked: there is no other writer. */
int manifest_save(struct manifest *m, int dir, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
    int r;

    manifest_format(m, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    r = file_replace_at(dir, name, 0600, FILE_SOLE, b.data, b.len);
    return r < 0 ? err_sys(err, r, "write the list of the copy's files") : 0;
}

int manifest_load(int dir, const char *name, struct manifest **ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
    int r = file_read_at(dir, name, 0, &b);

    if (r == -EINVAL || r == -EFBIG)
        return manifest_damaged(err);
    return r < 0 ? err_sys(err, r, "read the list of the copy's files") : manifest_parse(buf_str(&b), b.len, ret, err);
}
