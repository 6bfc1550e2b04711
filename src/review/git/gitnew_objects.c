/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New files of an object store: git looks objects up by name and believes that they are what the name says. A file of its own for
 * the tree of HEAD would change what `git checkout .` writes, and neither a ref nor the index would differ.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/git/gitnew_priv.h"

enum { CHUNK = 64 * 1024, LFS_MAX = 1024 * 1024 * 1024 };

static int report(struct repo *g, const struct change *ch, int r, const char *what) {
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

    return report(g, ch, fd < 0 ? -EBADMSG : objects_check_loose(g->objects, fd, id->b), "this object");
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
    return idx_fd < 0 || pack_fd < 0 ? 0 : report(g, ch, objects_check_pack(g->objects, idx_fd, pack_fd), "this pack");
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

    return report(g, ch, r < 0 ? r : graph_check(g, &text), "this commit-graph");
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

    if (strlen(name) != SHA256_HEX_SIZE - 1 || strspn(name, "0123456789abcdef") != SHA256_HEX_SIZE - 1)
        return 0;
    if (!chunk)
        return -ENOMEM;
    if (ch->new_.size > LFS_MAX)
        return report(g, ch, -EFBIG, "this object of git lfs");
    fd = change_open_new(g->ctx.set, ch);
    sha256_init(&h);
    while ((n = fd < 0 ? -1 : fd_read_some(fd, chunk, CHUNK)) > 0)
        sha256_add(&h, chunk, (size_t)n);
    sha256_end_hex(&h, hex);
    return report(g, ch, n == 0 && str_eq(hex, name) ? 0 : -EBADMSG, "this object of git lfs");
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
