/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the state folder. */
#include "ops/sandbox/space.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "workspace/copy/walk.h"

const char *const space_kind_names[SPACE_KINDS] = {
    [SPACE_SANDBOX] = "sandbox", [SPACE_CHANGES] = "changes", [SPACE_CHECKPOINTS] = "checkpoints",
    [SPACE_RUN] = "run",         [SPACE_VOLUMES] = "volumes", [SPACE_AGENTS] = "agent",
    [SPACE_AUDIT] = "audit",     [SPACE_LOGS] = "logs",       [SPACE_BATCH] = "batch",
    [SPACE_OTHER] = "other",
};

/* -- one folder --------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct stat *st) {
    uint64_t bytes = (uint64_t)st->st_blocks * 512;

    return !S_ISDIR(st->st_mode) && st->st_nlink > 1 ? bytes / st->st_nlink : bytes;
}

static int add_entry(const struct walk_entry *e, void *arg, struct err *err UNUSED) {
    *(uint64_t *)arg += bytes_of(&e->st);
    return WALK_ON;
}

static int skip_closed(const struct walk_entry *e UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return WALK_SKIP;
}

uint64_t space_of(int dir, const char *path) {
    CLEANUP(closep) int fd = openat(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    uint64_t bytes = 0;
    const struct walk_ops ops = {.found = add_entry, .closed = skip_closed, .arg = &bytes};
    struct err deeper = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    bytes = bytes_of(&st);
    if (S_ISDIR(st.st_mode))
        walk_tree(fd, NULL, &ops, &deeper); /* what is too deep is not counted */
    return bytes;
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

void space_list_done(struct space_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct space_list){0};
}

static int add_space_item(struct space_list *l, enum space_kind kind, const char *name, uint64_t bytes) {
    char *copy = strdup(name);

    if (!copy || VEC_ADD(l->v, l->n, (struct space_item){kind, copy, bytes}) < 0) {
        free(copy);
        return -ENOMEM;
    }
    l->total += bytes;
    return 0;
}

struct folder {
    const char *path; /* below the state folder */
    enum space_kind kind;
    bool each; /* an item for each name in it; else one for all */
};

static const struct folder folders[] = {
    {"sandboxes", SPACE_SANDBOX, true}, {"runs", SPACE_RUN, true},     {"volumes", SPACE_VOLUMES, true},
    {"agents", SPACE_AGENTS, true},     {"audit", SPACE_AUDIT, false}, {"log", SPACE_LOGS, false},
    {"batch", SPACE_BATCH, true},
};

/* A run of a sandbox's name is what that changed. */
static enum space_kind kind_of(int state, const struct folder *f, const char *name) {
    char path[NAME_MAX + sizeof "sandboxes/"];

    snprintf(path, sizeof path, "sandboxes/%s", name);
    return f->kind == SPACE_RUN && faccessat(state, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? SPACE_CHANGES : f->kind;
}

static int add_one(int state, int dir, const struct folder *f, const char *name, struct space_list *l) {
    enum space_kind kind = kind_of(state, f, name);
    uint64_t bytes = space_of(dir, name), checkpoints = 0;
    char path[NAME_MAX + sizeof "/checkpoints"];
    int r = 0;

    if (kind == SPACE_SANDBOX) {
        snprintf(path, sizeof path, "%s/checkpoints", name);
        checkpoints = space_of(dir, path);
    }
    if (checkpoints)
        r = add_space_item(l, SPACE_CHECKPOINTS, name, checkpoints);
    return r < 0 ? r : add_space_item(l, kind, name, bytes > checkpoints ? bytes - checkpoints : 0);
}

static int add_each(int state, const struct folder *f, struct space_list *l) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = 0;

    dir_open_at(state, f->path, &d);
    while (r == 0 && (e = dir_next(&d)))
        if (e->d_name[0] != '.')
            r = add_one(state, d.fd, f, e->d_name, l);
    return r;
}

static int largest_first(const void *a, const void *b) {
    const struct space_item *x = a, *y = b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

int space_list(const char *state, struct space_list *ret, struct err *err) {
    CLEANUP(space_list_done) struct space_list l = {0};
    CLEANUP(closep) int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t all;
    int r = 0;

    for (size_t i = 0; dir >= 0 && r == 0 && i < ARRAY_LEN(folders); i++) {
        const struct folder *f = &folders[i];
        uint64_t bytes = f->each ? 0 : space_of(dir, f->path);

        r = f->each ? add_each(dir, f, &l) : bytes ? add_space_item(&l, f->kind, "", bytes) : 0;
    }
    all = dir < 0 ? 0 : space_of(dir, ".");
    if (r == 0 && all > l.total)
        r = add_space_item(&l, SPACE_OTHER, "", all - l.total);
    if (r < 0)
        return err_oom(err);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, largest_first);
    *ret = TAKE(l, (struct space_list){0});
    return 0;
}
