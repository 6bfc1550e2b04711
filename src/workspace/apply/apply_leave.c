/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply/apply_leave.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/apply/apply_same.h"
#include "workspace/apply/apply_txn.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/run/journal.h"

#define GONE "gone" /* where what is not kept is moved, to be removed */

/* A run that goes on under its name must not merge against what stood there before this apply. */
static int forget_base(struct rundir *rd, int undo, struct err *err) {
    static const char *const files[][2] = {{"journal", "run.journal"}, {"base", "run.base"}};

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (renameat(rd->fd, files[i][0], undo, files[i][1]) < 0 && errno != ENOENT)
            return err_sys(err, -errno, "move '%s/%s' away", rd->path, files[i][0]);
    return 0;
}

static int leave_overlay(struct rundir *rd, const struct apply_leavers *l, int undo, struct err *err) {
    CLEANUP(closep) int to = -1;
    int at = undo < 0 ? rd->fd : undo, r;
    const char *name = undo < 0 ? GONE : APPLY_PARKED;

    if (undo < 0)
        remove_tree(rd->fd, GONE); /* of a crash */
    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder '%s'", name);
    to = safepath_open(at, name, O_RDONLY | O_DIRECTORY);
    if (to < 0)
        return err_sys(err, to, "open the folder '%s'", name);
    r = apply_park(rd, l, to, err);
    if (r > 0 && undo >= 0)
        r = forget_base(rd, undo, err);
    if (undo < 0) {
        int gone = remove_tree(rd->fd, GONE);

        if (r >= 0 && gone < 0)
            r = err_sys(err, gone, "remove '%s/" GONE "'", rd->path);
    }
    return r < 0 ? r : 0;
}

static struct manifest_stamp stamp_or_none(int root, const char *path) {
    struct stat st;

    return place_stat(root, path, &st) == 0 ? manifest_stamp_of(&st) : (struct manifest_stamp){0};
}

/* Merged: the copy gets the merged version, or the next run would start from one side alone. */
static int level(int workspace, int tree, const char *path, struct err *err) {
    CLEANUP(closep) int host = place_open(workspace, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW), copy = -1;
    struct manifest_stamp expect;
    struct place_meta meta = {0};
    struct stat st, copied;

    if (host < 0 || fstat(host, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    copy = place_open(tree, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (copy < 0 || fstat(copy, &copied) < 0 || !S_ISREG(copied.st_mode) || apply_same_content(host, copy) == 1)
        return 0;
    expect = manifest_stamp_of(&copied);
    meta.mode = st.st_mode & 0777;
    meta.mtime_ns = manifest_stamp_of(&st).mtime_ns;
    return place_file(tree, path, host, &meta, &expect, err);
}

static int restamp(struct manifest *m, int workspace, int tree, const char *path, struct err *err) {
    struct manifest_stamp host = stamp_or_none(workspace, path), copy = stamp_or_none(tree, path);

    if (host.mode && copy.mode)
        return manifest_set(m, path, &host, &copy, err);
    manifest_drop(m, path);
    return 0;
}

static int leave_tree(struct rundir *rd, const struct apply_leavers *l, int workspace, int undo, struct err *err) {
    CLEANUP(closep) int tree = safepath_open(rd->fd, "tree", O_RDONLY | O_DIRECTORY);
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    int r;

    if (tree < 0)
        return err_sys(err, tree, "open '%s/tree'", rd->path);
    r = manifest_load(rd->fd, "manifest", &m, err);
    if (r < 0)
        return r;
    if (undo >= 0 && linkat(rd->fd, "manifest", undo, "run.manifest", 0) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "keep '%s/manifest'", rd->path);
    for (size_t i = 0; i < l->set->n && r >= 0; i++) {
        const struct change *c = &l->set->v[i];

        if (!l->goes[i])
            continue;
        r = level(workspace, tree, c->path, err);
        r = r < 0 ? r : restamp(m, workspace, tree, c->path, err);
        if (r >= 0 && c->from)
            r = restamp(m, workspace, tree, c->from, err);
    }
    return r < 0 ? r : manifest_save(m, rd->fd, "manifest", err);
}

/* The host's files are what they were, but not the same inodes: the manifest has to know them, or they would look changed. */
int apply_know_restored(struct rundir *rd, int workspace, const struct journal *before, const struct strv *left,
                        struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    int r;

    if (rd->info.mode != WORKSPACE_SYNC && rd->info.mode != WORKSPACE_WORKTREE)
        return 0;
    r = manifest_load(rd->fd, "manifest", &m, err);
    for (size_t i = 0; r >= 0 && i < journal_count(before); i++) {
        const char *path = journal_at(before, i)->path;
        const struct manifest_entry *e = manifest_find(m, path);
        struct manifest_stamp host = stamp_or_none(workspace, path), copy;

        if (!e || !host.mode || strv_has(left, path))
            continue;
        copy = e->copy;
        r = manifest_set(m, path, &host, &copy, err);
    }
    return r < 0 ? r : manifest_save(m, rd->fd, "manifest", err);
}

int apply_leave(struct rundir *rd, const struct apply_leavers *l, int workspace, int undo, struct err *err) {
    switch (rd->info.mode) {
    case WORKSPACE_OVERLAY:
        return leave_overlay(rd, l, undo, err);
    case WORKSPACE_SYNC:
    case WORKSPACE_WORKTREE:
        return leave_tree(rd, l, workspace, undo, err);
    case WORKSPACE_DIRECT:
    case WORKSPACE_RO:
    case WORKSPACE_MODES:
        break;
    }
    return err_set(err, -EINVAL, "a run in this mode has no changes of its own");
}
