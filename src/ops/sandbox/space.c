/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/space.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/sandbox/box_view.h"
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

static int found(const struct walk_entry *e, void *arg, struct err *err UNUSED) {
    *(uint64_t *)arg += bytes_of(&e->st);
    return WALK_ON;
}

static int closed(const struct walk_entry *e UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return WALK_SKIP;
}

uint64_t space_of(int dir, const char *path) {
    CLEANUP(closep) int fd = openat(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    uint64_t bytes = 0;
    const struct walk_ops ops = {.found = found, .closed = closed, .arg = &bytes};
    struct err deeper = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    bytes = bytes_of(&st);
    if (S_ISDIR(st.st_mode))
        walk_tree(fd, NULL, &ops, &deeper); /* what is deeper than anybody goes is not counted */
    return bytes;
}

uint64_t space_of_path(const char *path) {
    return space_of(AT_FDCWD, path);
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

void space_list_done(struct space_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct space_list){0};
}

/* Room doubles at powers of two. */
static int append(struct space_list *l, enum space_kind kind, const char *name, uint64_t bytes) {
    struct space_item *grown = l->v;
    char *copy = strdup(name);

    if (copy && (l->n & (l->n - 1)) == 0)
        grown = realloc(l->v, (l->n ? 2 * l->n : 1) * sizeof *grown);
    if (!copy || !grown) {
        free(copy);
        return -ENOMEM;
    }
    l->v = grown;
    l->v[l->n++] = (struct space_item){kind, copy, bytes};
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
        r = append(l, SPACE_CHECKPOINTS, name, checkpoints);
    return r < 0 ? r : append(l, kind, name, bytes > checkpoints ? bytes - checkpoints : 0);
}

static int add_each(int state, const struct folder *f, struct space_list *l) {
    int fd = openat(state, f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d)
        closep(&fd);
    while (d && r == 0 && (e = readdir(d)))
        if (e->d_name[0] != '.')
            r = add_one(state, dirfd(d), f, e->d_name, l);
    if (d)
        closedir(d);
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

        r = f->each ? add_each(dir, f, &l) : bytes ? append(&l, f->kind, "", bytes) : 0;
    }
    all = dir < 0 ? 0 : space_of(dir, ".");
    if (r == 0 && all > l.total)
        r = append(&l, SPACE_OTHER, "", all - l.total);
    if (r < 0)
        return err_oom(err);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, largest_first);
    *ret = TAKE(l, (struct space_list){0});
    return 0;
}

void space_add_table(const struct space_list *l, struct buf *out) {
    CLEANUP(strv_done) struct strv cells = {0};
    char size[24];

    strv_add(&cells, "SIZE");
    strv_add(&cells, "WHAT");
    strv_add(&cells, "NAME");
    for (size_t i = 0; i < l->n; i++) {
        CLEANUP(buf_done) struct buf name = BUF_INIT(4 * NAME_MAX + 1);

        format_size(l->v[i].bytes, size);
        buf_add_printable(&name, l->v[i].name);
        strv_add(&cells, size);
        strv_add(&cells, space_kind_names[l->v[i].kind]);
        strv_add(&cells, buf_str(&name));
    }
    box_view_table(&cells, 3, out);
    format_size(l->total, size);
    buf_addf(out, "%s in all\n", size);
}

void space_add_json(const struct space_list *l, struct buf *out) {
    buf_addc(out, '[');
    for (size_t i = 0; i < l->n; i++) {
        buf_addf(out, "%s{\"kind\": \"%s\", \"name\": ", i ? ", " : "", space_kind_names[l->v[i].kind]);
        buf_add_json(out, l->v[i].name);
        buf_addf(out, ", \"bytes\": %" PRIu64 "}", l->v[i].bytes);
    }
    buf_addc(out, ']');
}
