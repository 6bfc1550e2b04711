/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: gitformat-pack(5). The index is mapped, the pack itself read piece by piece. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "review/git/objects_priv.h"

enum {
    IDX_HEAD = 8,
    FANOUT = 256 * 4,
    CRC_LEN = 4,
    OFFSET_LEN = 4,
    LARGE_LEN = 8,
    PACK_HEAD = 12,
    ENTRY_HEAD_MAX = 64, /* of one object: type and size, then an offset or a name */
    HASHED_CHUNK = 64 * 1024,
};
static const uint32_t LARGE = UINT32_C(1) << 31;

static uint32_t fanout(const struct pack *p, unsigned i) {
    return be32((const unsigned char *)p->map + IDX_HEAD + 4 * (size_t)i);
}

int pack_open(struct pack *p, int idx_fd, int pack_fd, size_t id_len) {
    static const unsigned char head[IDX_HEAD] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};
    struct stat st;

    if (fstat(idx_fd, &st) < 0 || st.st_size < (off_t)(IDX_HEAD + FANOUT + 2 * id_len))
        return -EBADMSG;
    *p = (struct pack){.fd = pack_fd, .map_len = (size_t)st.st_size};
    p->map = mmap(NULL, p->map_len, PROT_READ, MAP_PRIVATE, idx_fd, 0);
    if (p->map == MAP_FAILED) {
        *p = (struct pack){.fd = -1};
        return -ENOMEM;
    }
    p->n = fanout(p, 255);
    if (memcmp(p->map, head, sizeof head) == 0 && p->n <= OBJECTS_PACKED_MAX &&
        p->map_len >= IDX_HEAD + FANOUT + p->n * (id_len + CRC_LEN + OFFSET_LEN) + 2 * id_len)
        return 0;
    pack_close(p);
    return -EBADMSG;
}

void pack_close(struct pack *p) {
    if (p->map)
        munmap(p->map, p->map_len);
    *p = (struct pack){.fd = -1};
}

const unsigned char *pack_id(const struct pack *p, uint32_t i, size_t id_len) {
    return (const unsigned char *)p->map + IDX_HEAD + FANOUT + i * id_len;
}

int pack_offset(const struct pack *p, uint32_t i, size_t id_len, uint64_t *ret) {
    const unsigned char *table = pack_id(p, p->n, id_len) + (size_t)p->n * CRC_LEN, *large = table + (size_t)p->n * OFFSET_LEN;
    size_t n_large = (p->map_len - (size_t)(large - (const unsigned char *)p->map) - 2 * id_len) / LARGE_LEN;
    uint32_t offset = be32(table + (size_t)i * OFFSET_LEN);

    if (!(offset & LARGE)) {
        *ret = offset;
        return 0;
    }
    if ((offset & ~LARGE) >= n_large)
        return -EBADMSG;
    large += (size_t)(offset & ~LARGE) * LARGE_LEN;
    *ret = (uint64_t)be32(large) << 32 | be32(large + 4);
    return *ret >> 63 ? -EBADMSG : 0;
}

bool pack_find(const struct pack *p, const unsigned char *id, size_t id_len, uint32_t *ret) {
    uint32_t lo = id[0] ? fanout(p, id[0] - 1u) : 0, hi = fanout(p, id[0]);

    hi = MIN_OF(hi, p->n); /* the table may be any nonsense */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int order = memcmp(id, pack_id(p, mid, id_len), id_len);

        if (order == 0) {
            *ret = mid;
            return true;
        }
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

/* The head of a packed object. */
struct pack_entry {
    enum object_type type;
    uint64_t size;
    uint64_t data; /* where the bytes begin */
    uint64_t base; /* of a delta: where its base is */
};

static bool read_size(const unsigned char *b, size_t n, size_t *at, struct pack_entry *ret) {
    unsigned shift = 4;

    if (n == 0)
        return false;
    ret->type = (enum object_type)(b[0] >> 4 & 7);
    ret->size = b[0] & 15;
    *at = 1;
    while (b[*at - 1] & 128) {
        if (*at == n || shift > 56)
            return false;
        ret->size |= (uint64_t)(b[*at] & 127) << shift;
        shift += 7;
        (*at)++;
    }
    return true;
}

static bool read_distance(const unsigned char *b, size_t n, size_t *at, uint64_t *ret) {
    uint64_t d;

    if (*at == n)
        return false;
    for (d = b[*at] & 127; b[(*at)++] & 128; d = (d + 1) << 7 | (b[*at] & 127))
        if (*at == n || d >> 48)
            return false;
    *ret = d;
    return true;
}

static int read_entry(const struct objects *o, const struct pack *p, uint64_t offset, struct pack_entry *ret) {
    unsigned char b[ENTRY_HEAD_MAX];
    ssize_t n = offset < PACK_HEAD ? -1 : pread(p->fd, b, sizeof b, (off_t)offset);
    size_t at = 0;
    uint64_t distance = 0;
    uint32_t base;

    *ret = (struct pack_entry){0};
    if (n <= 0 || !read_size(b, (size_t)n, &at, ret))
        return -EBADMSG;
    if (ret->type == OBJECT_OFS_DELTA) {
        if (!read_distance(b, (size_t)n, &at, &distance) || distance == 0 || distance > offset)
            return -EBADMSG;
        ret->base = offset - distance;
    } else if (ret->type == OBJECT_REF_DELTA) {
        if ((size_t)n - at < o->id_len || !pack_find(p, b + at, o->id_len, &base) ||
            pack_offset(p, base, o->id_len, &ret->base) < 0)
            return -EBADMSG; /* packs on disk are whole */
        at += o->id_len;
    } else if (ret->type < OBJECT_COMMIT || ret->type > OBJECT_TAG) {
        return -EBADMSG;
    }
    ret->data = offset + at;
    return 0;
}

static int unpack(struct objects *o, const struct pack *p, const struct pack_entry *e, size_t max, unsigned char **ret) {
    CLEANUP(freep) unsigned char *data = NULL;
    struct packed *f = NULL;
    unsigned char more;
    int r = e->size > max ? -EFBIG : objects_spend(o, e->size);

    if (r < 0)
        return r;
    data = malloc(e->size + 1);
    f = malloc(sizeof *f);
    r = data && f ? packed_begin(f, p->fd, (off_t)e->data) : -ENOMEM;
    if (r == 0) {
        ssize_t n = packed_read(f, data, e->size);

        r = n < 0 ? (int)n : (size_t)n == e->size && packed_read(f, &more, 1) == 0 && f->ended ? 0 : -EBADMSG;
        packed_end(f);
    }
    free(f);
    if (r == 0) {
        data[e->size] = 0;
        *ret = TAKE_PTR(data);
    }
    return r;
}

/* A number at the beginning of a delta. */
static bool delta_number(const unsigned char **p, const unsigned char *end, uint64_t *ret) {
    uint64_t n = 0;

    for (unsigned shift = 0; shift < 63; shift += 7) {
        if (*p == end)
            return false;
        n |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128)) {
            *ret = n;
            return true;
        }
    }
    return false;
}

/* "Copy": which bytes of the offset and of the length follow is in the bits. */
static bool delta_copy(const unsigned char **p, const unsigned char *end, unsigned op, const struct object *base,
                       struct object *to, size_t room) {
    uint64_t from = 0, n = 0;

    for (unsigned i = 0; i < 7; i++) {
        if (!(op & 1u << i))
            continue;
        if (*p == end)
            return false;
        if (i < 4)
            from |= (uint64_t) * (*p)++ << 8 * i;
        else
            n |= (uint64_t) * (*p)++ << 8 * (i - 4);
    }
    n = n ? n : 0x10000;
    if (from > base->len || n > base->len - from || n > room - to->len)
        return false;
    memcpy(to->data + to->len, base->data + from, n);
    to->len += n;
    return true;
}

static int delta_apply(struct objects *o, const struct object *base, const unsigned char *d, size_t len, size_t max,
                       struct object *ret) {
    const unsigned char *p = d, *end = d + len;
    struct object to = {.type = base->type};
    uint64_t from, size;
    bool sound;
    int r;

    if (!delta_number(&p, end, &from) || !delta_number(&p, end, &size) || from != base->len)
        return -EBADMSG;
    r = size > max ? -EFBIG : objects_spend(o, size);
    to.data = r < 0 ? NULL : malloc(size + 1);
    if (!to.data)
        return r < 0 ? r : -ENOMEM;
    for (sound = true; sound && p < end;) {
        unsigned op = *p++;

        if (op & 128) {
            sound = delta_copy(&p, end, op, base, &to, size);
        } else if (op && (size_t)(end - p) >= op && op <= size - to.len) {
            memcpy(to.data + to.len, p, op);
            to.len += op;
            p += op;
        } else {
            sound = false;
        }
    }
    if (!sound || to.len != size) {
        object_done(&to);
        return -EBADMSG;
    }
    to.data[size] = 0;
    *ret = to;
    return 0;
}

static struct cached *cache_slot(struct objects *o, uint64_t offset) {
    return &o->cache[(offset * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}
static_assert(OBJECTS_CACHE == 256, "a slot is chosen by eight bits");

static bool cache_get(struct objects *o, const struct pack *p, uint64_t offset, struct object *ret) {
    const struct cached *c = cache_slot(o, offset);

    if (c->pack != p || c->offset != offset || !c->o.data)
        return false;
    *ret = (struct object){c->o.type, malloc(c->o.len + 1), c->o.len};
    if (ret->data)
        memcpy(ret->data, c->o.data, c->o.len + 1);
    return ret->data != NULL;
}

static void cache_put(struct objects *o, const struct pack *p, uint64_t offset, const struct object *obj) {
    struct cached *c = cache_slot(o, offset);
    unsigned char *copy = obj->len <= OBJECTS_CACHED_MAX ? malloc(obj->len + 1) : NULL;

    if (!copy)
        return;
    memcpy(copy, obj->data, obj->len + 1);
    object_done(&c->o);
    *c = (struct cached){p, offset, {obj->type, copy, obj->len}};
}

/* Down to what is no delta, or was read before; *ret_n offsets of deltas, the outermost first. */
static int find_base(struct objects *o, const struct pack *p, uint64_t offset, size_t max, uint64_t *chain, size_t *ret_n,
                     struct object *ret) {
    struct pack_entry e;

    for (size_t n = 0; n < OBJECTS_CHAIN_MAX; n++) {
        int r = 0;

        *ret_n = n;
        if (cache_get(o, p, offset, ret))
            return 0;
        r = read_entry(o, p, offset, &e);
        if (r < 0)
            return r;
        if (e.type <= OBJECT_TAG) {
            r = unpack(o, p, &e, max, &ret->data);
            ret->type = e.type;
            ret->len = e.size;
            if (r == 0)
                cache_put(o, p, offset, ret);
            return r;
        }
        chain[n] = offset;
        offset = e.base;
    }
    return -EBADMSG; /* REF_DELTAs may go round in a circle */
}

static int apply_one(struct objects *o, const struct pack *p, uint64_t offset, size_t max, struct object *obj) {
    CLEANUP(freep) unsigned char *delta = NULL;
    struct object next = {0};
    struct pack_entry e;
    int r = read_entry(o, p, offset, &e);

    r = r < 0 ? r : unpack(o, p, &e, max, &delta);
    r = r < 0 ? r : delta_apply(o, obj, delta, e.size, max, &next);
    if (r < 0)
        return r;
    object_done(obj);
    *obj = next;
    cache_put(o, p, offset, obj);
    return 0;
}

int pack_read(struct objects *o, const struct pack *p, uint64_t offset, size_t max, struct object *ret) {
    CLEANUP(freep) uint64_t *chain = calloc(OBJECTS_CHAIN_MAX, sizeof *chain);
    struct object obj = {0};
    size_t n = 0;
    int r = chain ? find_base(o, p, offset, max, chain, &n, &obj) : -ENOMEM;

    while (r == 0 && n > 0)
        r = apply_one(o, p, chain[--n], max, &obj);
    if (r < 0)
        object_done(&obj);
    else
        *ret = obj;
    return r;
}

/* One that is no delta is hashed as it comes, however large it is. */
static int check_plain(struct objects *o, const struct pack *p, const struct pack_entry *e, const unsigned char *id) {
    CLEANUP(freep) struct packed *f = malloc(sizeof *f);
    CLEANUP(freep) unsigned char *chunk = malloc(HASHED_CHUNK);
    struct object_hash *h;
    uint64_t at = 0;
    ssize_t n;
    int r = objects_spend(o, e->size);

    if (r < 0)
        return r;
    h = f && chunk ? object_hash_new(o, e->type, e->size) : NULL;
    if (!h || packed_begin(f, p->fd, (off_t)e->data) < 0) {
        free(h);
        return -ENOMEM;
    }
    while ((n = packed_read(f, chunk, HASHED_CHUNK)) > 0 && (uint64_t)n <= e->size - at) {
        object_hash_add(h, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    r = object_hash_is(h, id) && n == 0 && at == e->size && f->ended ? 0 : -EBADMSG;
    packed_end(f);
    return r;
}

static int check_one(struct objects *o, const struct pack *p, uint32_t i) {
    struct object obj = {0};
    struct pack_entry e;
    uint64_t offset;
    int r = pack_offset(p, i, o->id_len, &offset);

    r = r < 0 ? r : read_entry(o, p, offset, &e);
    if (r == 0 && e.type <= OBJECT_TAG)
        return check_plain(o, p, &e, pack_id(p, i, o->id_len));
    r = r < 0 ? r : pack_read(o, p, offset, OBJECT_DELTA_MAX, &obj);
    if (r == 0 && !objects_matches(o, &obj, pack_id(p, i, o->id_len)))
        r = -EBADMSG;
    object_done(&obj);
    return r;
}

int objects_check_pack(struct objects *o, int idx_fd, int pack_fd) {
    struct pack p;
    int r = pack_open(&p, idx_fd, pack_fd, o->id_len);

    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < p.n; i++)
        r = check_one(o, &p, i);
    for (size_t i = 0; i < OBJECTS_CACHE; i++) /* this pack is gone after the call */
        if (o->cache[i].pack == &p) {
            object_done(&o->cache[i].o);
            o->cache[i].pack = NULL;
        }
    pack_close(&p);
    return r;
}
