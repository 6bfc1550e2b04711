/* SPDX-License-Identifier: Apache-2.0 */
#include "review/git/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha1.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/git/objects_priv.h"
#include "workspace/git/gitrepo.h"

enum { HEAD_MAX = 64, CHUNK = 64 * 1024 };

static const char *const type_names[] = {
    [OBJECT_COMMIT] = "commit", [OBJECT_TREE] = "tree", [OBJECT_BLOB] = "blob", [OBJECT_TAG] = "tag"};

void object_done(struct object *o) {
    free(o->data);
    *o = (struct object){0};
}

struct objects *objects_new(size_t id_len, uint64_t spent) {
    struct objects *o = calloc(1, sizeof *o);

    if (o) {
        o->id_len = id_len;
        o->bytes = spent;
    }
    return o;
}

uint64_t objects_spent(const struct objects *o) {
    return o->bytes;
}

void objects_free(struct objects *o) {
    if (!o)
        return;
    for (size_t i = 0; i < OBJECTS_CACHE; i++)
        object_done(&o->cache[i].o);
    for (size_t i = 0; i < o->n_packs; i++) {
        pack_close(&o->packs[i]);
        closep(&o->pack_fds[i]);
    }
    for (size_t i = 0; i < o->n_stores; i++)
        closep(&o->stores[i]);
    free(o);
}

void objects_freep(struct objects **o) {
    objects_free(*o);
}

bool objects_exhausted(const struct objects *o) {
    return o->exhausted;
}

int objects_spend(struct objects *o, uint64_t bytes) {
    if (bytes > OBJECTS_BYTES_MAX || bytes + OBJECT_COST > OBJECTS_BYTES_MAX - o->bytes)
        o->exhausted = true;
    else
        o->bytes += bytes + OBJECT_COST;
    return o->exhausted ? -EFBIG : 0;
}

struct object_hash {
    bool wide;
    struct sha1 narrow;
    struct sha256 sha256;
};

struct object_hash *object_hash_new(const struct objects *o, enum object_type type, uint64_t len) {
    struct object_hash *h = calloc(1, sizeof *h);
    char head[HEAD_MAX];
    int n = snprintf(head, sizeof head, "%s %llu", type_names[type], (unsigned long long)len) + 1; /* the NUL is part of it */

    if (!h)
        return NULL;
    h->wide = o->id_len == SHA256_LEN;
    sha1_init(&h->narrow);
    sha256_init(&h->sha256);
    object_hash_add(h, head, (size_t)n);
    return h;
}

void object_hash_add(struct object_hash *h, const void *data, size_t len) {
    if (h->wide)
        sha256_add(&h->sha256, data, len);
    else
        sha1_add(&h->narrow, data, len);
}

bool object_hash_is(struct object_hash *h, const unsigned char *id) {
    unsigned char got[OBJECT_ID_MAX];
    bool wide = h->wide;

    if (wide)
        sha256_end(&h->sha256, got);
    else
        sha1_end(&h->narrow, got);
    free(h);
    return memcmp(got, id, wide ? SHA256_LEN : SHA1_LEN) == 0;
}

bool objects_matches(const struct objects *o, const struct object *obj, const unsigned char *id) {
    struct object_hash *h = object_hash_new(o, obj->type, obj->len);

    if (!h)
        return false;
    object_hash_add(h, obj->data, obj->len);
    return object_hash_is(h, id);
}

int packed_begin(struct packed *f, int fd, off_t at) {
    f->z = (z_stream){0};
    f->fd = fd;
    f->at = at;
    f->ended = false;
    return inflateInit(&f->z) == Z_OK ? 0 : -ENOMEM;
}

void packed_end(struct packed *f) {
    inflateEnd(&f->z);
}

ssize_t packed_read(struct packed *f, void *out, size_t n) {
    f->z.next_out = out;
    f->z.avail_out = (unsigned)MIN_OF(n, (size_t)UINT_MAX);
    while (f->z.avail_out && !f->ended) {
        int r;

        if (f->z.avail_in == 0) {
            ssize_t got = pread(f->fd, f->in, sizeof f->in, f->at);

            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0)
                return -EBADMSG;
            f->at += got;
            f->z.next_in = f->in;
            f->z.avail_in = (unsigned)got;
        }
        r = inflate(&f->z, Z_NO_FLUSH);
        f->ended = r == Z_STREAM_END;
        if (r == Z_MEM_ERROR)
            return -ENOMEM;
        if (r != Z_OK && !f->ended && (r != Z_BUF_ERROR || f->z.avail_in))
            return -EBADMSG;
    }
    return (ssize_t)(n - f->z.avail_out);
}

/* "blob 12" NUL. Returns its length with the NUL. */
static int read_head(const char *head, size_t n, enum object_type *type, uint64_t *size) {
    const char *stop = memchr(head, 0, n), *space = stop ? memchr(head, ' ', (size_t)(stop - head)) : NULL;
    uint64_t len = 0;

    if (!space || space + 1 == stop || stop - space > 19)
        return -EBADMSG;
    for (const char *p = space + 1; p < stop; p++) {
        if (*p < '0' || *p > '9')
            return -EBADMSG;
        len = len * 10 + (uint64_t)(*p - '0');
    }
    for (int t = OBJECT_COMMIT; t <= OBJECT_TAG; t++)
        if (strlen(type_names[t]) == (size_t)(space - head) && memcmp(type_names[t], head, (size_t)(space - head)) == 0) {
            *type = (enum object_type)t;
            *size = len;
            return (int)(stop + 1 - head);
        }
    return -EBADMSG;
}

/* A loose object: hashed as it comes; ret NULL: only that. */
static int loose_read(struct objects *o, struct packed *f, const unsigned char *id, struct object *ret) {
    CLEANUP(freep) unsigned char *data = NULL, *chunk = malloc(CHUNK);
    ssize_t n = chunk ? packed_read(f, chunk, HEAD_MAX) : -ENOMEM;
    enum object_type type = OBJECT_BLOB;
    struct object_hash *h;
    uint64_t size = 0, at = 0;
    int r = n < 0 ? (int)n : read_head((char *)chunk, (size_t)n, &type, &size), head = r;

    r = r < 0 ? r : ret && size > OBJECT_MAX ? -EFBIG : objects_spend(o, size);
    if (r < 0)
        return r;
    data = ret ? malloc(size + 1) : NULL;
    h = object_hash_new(o, type, size);
    if (!h || (ret && !data)) {
        free(h);
        return -ENOMEM;
    }
    n -= head;
    memmove(chunk, chunk + head, (size_t)n);
    for (; n > 0 && (uint64_t)n <= size - at; n = packed_read(f, chunk, CHUNK)) {
        object_hash_add(h, chunk, (size_t)n);
        if (data)
            memcpy(data + at, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    if (!object_hash_is(h, id) || n != 0 || at != size || !f->ended)
        return n == -ENOMEM ? (int)n : -EBADMSG;
    if (ret) {
        data[size] = 0;
        *ret = (struct object){type, TAKE_PTR(data), size};
    }
    return 0;
}

static int loose_open(struct objects *o, int fd, const unsigned char *id, struct object *ret) {
    struct packed *f = malloc(sizeof *f);
    int r = f ? packed_begin(f, fd, 0) : -ENOMEM;

    if (r == 0) {
        r = loose_read(o, f, id, ret);
        packed_end(f);
    }
    free(f);
    return r;
}

int objects_check_loose(struct objects *o, int fd, const unsigned char *id) {
    return loose_open(o, fd, id, NULL);
}

/* Never waits, and is a regular file or fails. */
static int open_file(int dir, const char *path) {
    CLEANUP(closep) int fd = safepath_open(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    struct stat st;

    if (fd < 0)
        return fd;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ENOENT;
}

static int add_pack(struct objects *o, int dir, const char *idx) {
    CLEANUP(freep) char *name = str_dupf("%.*s.pack", (int)(strlen(idx) - strlen(".idx")), idx);
    CLEANUP(closep) int idx_fd = open_file(dir, idx);
    CLEANUP(closep) int pack_fd = name ? open_file(dir, name) : -1;
    int r;

    if (!name)
        return -ENOMEM;
    if (idx_fd < 0 || pack_fd < 0 || o->n_packs == OBJECTS_PACKS_MAX)
        return 0; /* what is only in there is not found, which is reported */
    r = pack_open(&o->packs[o->n_packs], idx_fd, pack_fd, o->id_len);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    o->pack_fds[o->n_packs++] = TAKE_FD(pack_fd);
    return 0;
}

static int add_packs(struct objects *o, int store) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = 0;

    dir_take(safepath_open(store, "pack", O_RDONLY | O_DIRECTORY), &d);
    while (r == 0 && (e = dir_next(&d)))
        if (str_ends(e->d_name, ".idx"))
            r = add_pack(o, d.fd, e->d_name);
    return r;
}

int objects_add_store(struct objects *o, int root, const char *path) {
    int fd = root < 0 || o->n_stores == OBJECTS_STORES_MAX ? -ENOENT : safepath_open(root, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return 0;
    o->stores[o->n_stores++] = fd;
    return add_packs(o, fd);
}

static int read_loose(struct objects *o, int store, const unsigned char *id, struct object *ret) {
    CLEANUP(closep) int fd = -1;
    char name[GIT_OBJECT_NAME_SIZE];

    git_object_name(id, o->id_len, name);
    fd = open_file(store, name);
    return fd < 0 ? -ENOENT : loose_open(o, fd, id, ret);
}

static int read_packed(struct objects *o, const struct pack *p, const unsigned char *id, struct object *ret) {
    struct object found = {0};
    uint64_t offset = 0;
    uint32_t i;
    int r;

    if (!pack_find(p, id, o->id_len, &i))
        return -ENOENT;
    r = pack_offset(p, i, o->id_len, &offset);
    r = r < 0 ? r : pack_read(o, p, offset, OBJECT_MAX, &found);
    if (r == 0 && !objects_matches(o, &found, id)) {
        object_done(&found);
        r = -EBADMSG;
    }
    if (r == 0)
        *ret = found;
    return r;
}

int objects_read(struct objects *o, const unsigned char *id, struct object *ret) {
    int r, worst = -ENOENT;

    for (size_t i = 0; i < o->n_packs; i++) {
        r = read_packed(o, &o->packs[i], id, ret);
        if (r == 0 || r == -ENOMEM)
            return r;
        worst = r == -ENOENT ? worst : r;
    }
    for (size_t i = 0; i < o->n_stores; i++) {
        r = read_loose(o, o->stores[i], id, ret);
        if (r == 0 || r == -ENOMEM)
            return r;
        worst = r == -ENOENT ? worst : r;
    }
    return worst;
}
