/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects/info/commit-graph: gitformat-commit-graph(5). `git gc` writes it, and git takes trees and parents of commits from it instead
 * of from the commits: one that lies gives HEAD another tree. So each commit in it is compared with the commit itself.
 */
#include <errno.h>

#include "review/git/gitnew_priv.h"

enum { HEAD_LEN = 8, CHUNK_ROW = 12, CHUNKS_MAX = 32, COMMIT_TAIL = 16, EDGE_LEN = 4 };
static const uint32_t NO_PARENT = 0x70000000, MANY = UINT32_C(1) << 31;

struct graph {
    const unsigned char *data;
    size_t len, id_len;
    const unsigned char *ids, *commits, *edges; /* edges NULL: none has more than two parents */
    uint32_t n;
    size_t n_edges;
};

static uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

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

int graph_check(struct repo *g, const struct risk_text *text) {
    struct graph t = {.data = (const unsigned char *)text->data, .len = text->len, .id_len = g->id_len};
    int r = text->whole && graph_open(&t) ? 0 : -EBADMSG;

    if (r == 0 && t.n > GITNEW_GRAPH_MAX)
        return -EFBIG;
    for (uint32_t i = 0; r == 0 && i < t.n; i++)
        r = check_commit(g, &t, i);
    return r;
}
