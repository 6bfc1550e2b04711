/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New files of an object store: git looks objects up by name and believes that they are what the name says. A file of its own for
 * the tree of HEAD would change what `git checkout .` writes, and neither a ref nor the index would differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/git/gitnew_priv.h"

/* -- the commit-graph ----------------------------------------------------------------------------------------------------- */

/*
 * objects/info/commit-graph: gitformat-commit-graph(5). `git gc` writes it, and git takes trees and parents of commits from it instead
 * of from the commits: one that lies gives HEAD another tree. So each commit in it is compared with the commit itself.
 */

enum { HEAD_LEN = 8, CHUNK_ROW = 12, CHUNKS_MAX = 32, COMMIT_TAIL = 16, EDGE_LEN = 4 };
static const uint32_t NO_PARENT = 0x70000000, MANY = UINT32_C(1) << 31;

struct graph {
    const unsigned char *data;
    size_t len, id_len;
    const unsigned char *ids, *commits, *edges; /* edges NULL: none has more than two parents */
    uint32_t n;
    size_t n_edges;
};

static uint64_t be64(const unsigned char *p) {
    return (uint64_t)be32(p) << 32 | be32(p + 4);
}

/* A chunk ends where the next one begins. */
static const unsigned char *find_chunk(const struct graph *t, const char *name, size_t *ret_len) {
    for (unsigned i = 0; i < t->data[6]; i++) {
        const unsigned char *row = t->data + HEAD_LEN + i * CHUNK_ROW;
        uint64_t from = be64(row + 4), to = be64(row + CHUNK_ROW + 4);

        if (memcmp(row, name, 4) != 0)
            continue;
        if (from > to || to > t->len)
            return NULL;
        *ret_len = to - from;
        return t->data + from;
    }
    return NULL;
}

static bool graph_open(struct graph *t) {
    const unsigned char *fanout;
    size_t fanout_len = 0, ids_len = 0, commits_len = 0, edges_len = 0;

    if (t->len < HEAD_LEN || memcmp(t->data, "CGPH\1", 5) != 0 || t->data[5] != (t->id_len > 20 ? 2 : 1) ||
        t->data[6] > CHUNKS_MAX || t->data[7] != 0 || t->len < HEAD_LEN + (t->data[6] + (size_t)1) * CHUNK_ROW)
        return false;
    fanout = find_chunk(t, "OIDF", &fanout_len);
    t->ids = find_chunk(t, "OIDL", &ids_len);
    t->commits = find_chunk(t, "CDAT", &commits_len);
    t->edges = find_chunk(t, "EDGE", &edges_len);
    t->n_edges = edges_len / EDGE_LEN;
    if (!fanout || fanout_len < 1024 || !t->ids || !t->commits)
        return false;
    t->n = be32(fanout + 1020);
    return ids_len / t->id_len >= t->n && commits_len / (t->id_len + COMMIT_TAIL) >= t->n;
}

static bool is_parent(const struct graph *t, uint32_t at, const struct commit *c, size_t i) {
    return i < c->n && at < t->n && memcmp(t->ids + (size_t)at * t->id_len, c->parents[i].b, t->id_len) == 0;
}

static bool same_parents(const struct graph *t, const unsigned char *tail, const struct commit *c) {
    uint32_t first = be32(tail), second = be32(tail + 4);
    size_t i = 1;

    if (first == NO_PARENT)
        return c->n == 0 && second == NO_PARENT;
    if (!is_parent(t, first, c, 0) || c->cut)
        return false;
    if (!(second & MANY))
        return second == NO_PARENT ? c->n == 1 : c->n == 2 && is_parent(t, second, c, 1);
    for (size_t at = second & ~MANY; t->edges && at < t->n_edges; at++, i++) {
        uint32_t edge = be32(t->edges + at * EDGE_LEN);

        if (!is_parent(t, edge & ~MANY, c, i))
            return false;
        if (edge & MANY)
            return i + 1 == c->n;
    }
    return false;
}

static int check_commit(struct repo *g, const struct graph *t, uint32_t i) {
    const unsigned char *row = t->commits + i * (t->id_len + COMMIT_TAIL);
    struct commit c;
    struct id id = {{0}};
    int r;

    memcpy(id.b, t->ids + (size_t)i * t->id_len, t->id_len);
    r = walk_commit(g, &id, &c);
    if (r < 0)
        return r == -ENOMEM ? r : objects_exhausted(g->objects) ? -EFBIG : -EBADMSG;
    return memcmp(row, c.tree.b, t->id_len) == 0 && same_parents(t, row + t->id_len, &c) ? 0 : -EBADMSG;
}

static int compare_graph(struct repo *g, const struct risk_text *text) {
    struct graph t = {.data = (const unsigned char *)text->data, .len = text->len, .id_len = g->id_len};
    int r = text->whole && graph_open(&t) ? 0 : -EBADMSG;

    if (r == 0 && t.n > GITNEW_GRAPH_MAX)
        return -EFBIG;
    for (uint32_t i = 0; r == 0 && i < t.n; i++)
        r = check_commit(g, &t, i);
    return r;
}

enum { CHUNK = 64 * 1024, LFS_MAX = 1024 * 1024 * 1024 };

static int report_object(struct repo *g, const struct change *ch, int r, const char *what) {
    if (r == 0 || r == -ENOMEM)
        return r;
    if (gitnew_item(g->out, ch, &g->item) < 0 || strv_add(&g->out->hold, ch->path) < 0)
        return -ENOMEM;
    if (r == -EFBIG)
        return gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "%s is too large to be examined, or too much was before it", what);
    return gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL,
                      "%s is damaged or not what its name says: git would use it in the place of the real thing", what);
}

/* "ab/cdef..." */
static bool loose_id(const struct repo *g, const char *name, struct id *ret) {
    char hex[ID_HEX_SIZE];

    if (strlen(name) != 2 * g->id_len + 1 || name[2] != '/')
        return false;
    snprintf(hex, sizeof hex, "%.2s%s", name, name + 3);
    return id_read(hex, g->id_len, ret);
}

static int check_loose(struct repo *g, const struct change *ch, const struct id *id) {
    CLEANUP(closep) int fd = change_open_new(g->ctx.set, ch);

    return report_object(g, ch, fd < 0 ? -EBADMSG : objects_check_loose(g->objects, fd, id->b), "this object");
}

static int open_here(const struct repo *g, const char *path) {
    int roots[] = {g->ctx.set->new_root, g->ctx.set->host_root};
    int fd = -ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(roots) && fd < 0; i++)
        if (roots[i] >= 0)
            fd = safepath_open(roots[i], path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    return fd;
}

/* Half of a pack is none, to git too. */
static int check_pack(struct repo *g, const struct change *ch, const char *stem, size_t len) {
    CLEANUP(freep) char *idx = str_dupf("%.*s.idx", (int)len, stem), *pack = str_dupf("%.*s.pack", (int)len, stem);
    CLEANUP(closep) int idx_fd = idx ? open_here(g, idx) : -1;
    CLEANUP(closep) int pack_fd = pack ? open_here(g, pack) : -1;

    if (!idx || !pack)
        return -ENOMEM;
    return idx_fd < 0 || pack_fd < 0 ? 0 : report_object(g, ch, objects_check_pack(g->objects, idx_fd, pack_fd), "this pack");
}

/* Its .idx is in the change set, too, and is where the pack is judged. */
static bool has_index(const struct repo *g, const char *path, size_t len) {
    CLEANUP(freep) char *idx = str_dupf("%.*s.idx", (int)len, path);
    const struct change *ch = idx ? change_find(g->ctx.set, idx) : NULL;

    return ch && ch->new_.mode && !ch->hidden;
}

static int check_graph(struct repo *g, const struct change *ch) {
    CLEANUP(risk_text_done) struct risk_text text = {0};
    int fd = change_open_new(g->ctx.set, ch), r = fd < 0 ? -EBADMSG : risk_text_read_some(fd, GITNEW_FILE_MAX, &text);

    return report_object(g, ch, r < 0 ? r : compare_graph(g, &text), "this commit-graph");
}

static int judge_file(struct repo *g, const struct change *ch, const char *name) {
    size_t len = strlen(ch->path);
    struct id id;

    if (str_eq(name, "info/commit-graph"))
        return check_graph(g, ch);

    if (loose_id(g, name, &id))
        return check_loose(g, ch, &id);
    if (str_starts(name, "pack/") && str_ends(name, ".idx"))
        return check_pack(g, ch, ch->path, len - strlen(".idx"));
    if (str_starts(name, "pack/") && str_ends(name, ".pack") && !has_index(g, ch->path, len - strlen(".pack")))
        return check_pack(g, ch, ch->path, len - strlen(".pack"));
    return 0;
}

/* lfs/objects/ab/cd/abcd...: the SHA-256 of the content. git lfs puts it into the file that a pointer stands for. */
static int check_lfs(struct repo *g, const struct change *ch) {
    const char *name = strrchr(ch->path, '/') + 1;
    CLEANUP(closep) int fd = -1;
    CLEANUP(freep) unsigned char *chunk = malloc(CHUNK);
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;
    ssize_t n;

    if (strlen(name) != SHA256_HEX_SIZE - 1 || !hex_is_lower(name, SHA256_HEX_SIZE - 1))
        return 0;
    if (!chunk)
        return -ENOMEM;
    if (ch->new_.size > LFS_MAX)
        return report_object(g, ch, -EFBIG, "this object of git lfs");
    fd = change_open_new(g->ctx.set, ch);
    sha256_init(&h);
    while ((n = fd < 0 ? -1 : fd_read_some(fd, chunk, CHUNK)) > 0)
        sha256_add(&h, chunk, (size_t)n);
    sha256_end_hex(&h, hex);
    return report_object(g, ch, n == 0 && str_eq(hex, name) ? 0 : -EBADMSG, "this object of git lfs");
}

int objects_judge(struct repo *g) {
    CLEANUP(freep) char *prefix = str_dupf("%s/objects/", g->dir), *lfs = str_dupf("%s/lfs/objects/", g->dir);
    int r = prefix && lfs ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < g->ctx.set->n; i++) {
        const struct change *ch = &g->ctx.set->v[i];

        if (ch->hidden || !S_ISREG(ch->new_.mode) || (ch->kind == CHANGE_MODIFIED && !(ch->what & ~(unsigned)CHANGE_MODE)))
            continue;
        if (str_starts(ch->path, prefix))
            r = judge_file(g, ch, ch->path + strlen(prefix));
        else if (str_starts(ch->path, lfs))
            r = check_lfs(g, ch);
    }
    return r;
}
