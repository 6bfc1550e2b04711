/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/mode/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "workspace/copy/copytree.h"
#include "workspace/mode/sync_inner.h"

#define MANIFEST "manifest"
#define TREE "tree"

enum { ROUNDS = 3 }; /* what changes while it is carried is tried again */

void sync_result_done(struct sync_result *r) {
    strv_done(&r->conflicts);
    strv_done(&r->held);
}

static void round_done(struct syncer *s) {
    manifest_free(TAKE_PTR(s->now));
    manifest_free(TAKE_PTR(s->blocked));
    free(TAKE_PTR(s->actions));
    strv_done(&s->held);
    strv_done(&s->left);
    strv_done(&s->stale);
}

static void syncer_done(struct syncer *s) {
    round_done(s);
    manifest_free(s->base);
    strv_done(&s->conflicts);
}

/* The manifest is written also if the round failed: it says no more than what was done. */
static int sync_round(struct syncer *s, int dir, struct err *err) {
    int r, saved;

    round_done(s);
    r = sync_plan(s, err);
    if (r < 0)
        return r;
    r = sync_do(s, err);
    clock_pass(clock_coarse());
    saved = manifest_save(s->base, dir, MANIFEST, r < 0 ? NULL : err);
    return r < 0 ? r : saved;
}

static int sync_rounds(struct syncer *s, int dir, struct err *err) {
    int r = 0;

    for (int i = 0; i < ROUNDS; i++) {
        r = sync_round(s, dir, err);
        if (r < 0 || s->stale.len == 0)
            return r;
    }
    for (size_t i = 0; r == 0 && i < s->stale.len; i++)
        r = place_note(&s->left, s->stale.v[i], "is being written; both sides stay as they are until the next sync", err);
    return r;
}

static int open_tree(const struct rundir *rd, struct err *err) {
    int fd = openat(rd->fd, TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? err_sys(err, -errno, "open the sandbox's copy of the workspace") : fd;
}

/* *ret_fresh: it was not there before. */
static int make_tree(const struct rundir *rd, bool *ret_fresh, struct err *err) {
    bool fresh = mkdirat(rd->fd, TREE, 0700) == 0;
    CLEANUP(closep) int fd = -1;

    if (!fresh && errno != EEXIST)
        return err_sys(err, -errno, "make the folder for the sandbox's copy of the workspace");
    fd = open_tree(rd, err);
    if (fd >= 0)
        *ret_fresh = fresh;
    return TAKE_FD(fd);
}

static int finish_tree(int tree, int workspace, struct err *err) {
    struct stat st;

    if (fstat(workspace, &st) < 0 || (geteuid() == 0 && fchown(tree, st.st_uid, st.st_gid) < 0) ||
        fchmod(tree, st.st_mode & 0777) < 0)
        return err_sys(err, -errno, "set the mode of the sandbox's copy of the workspace");
    return 0;
}

static int first_copy(struct rundir *rd, int workspace, const struct ignore *hidden, const struct progress *p, struct strv *notes,
                      struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    bool fresh = false;
    CLEANUP(closep) int tree = make_tree(rd, &fresh, err);
    const struct copytree c = {.from = workspace, .to = tree, .hidden = hidden, .progress = p, .notes = notes};
    int r;

    if (tree < 0)
        return tree;
    if (!m)
        return err_oom(err);
    r = copytree_make(&c, m, err);
    if (r == 0 && !fresh)
        r = copytree_trim(tree, m, err);
    if (r == 0)
        r = finish_tree(tree, workspace, err);
    if (r < 0)
        return r;
    clock_pass(clock_coarse());
    return manifest_save(m, rd->fd, MANIFEST, err);
}

int sync_copy_in(struct rundir *rd, int workspace, const struct ignore *hidden, const struct progress *p, struct strv *notes,
                 struct err *err) {
    CLEANUP(syncer_done) struct syncer s = {.run = rd->name, .hidden = hidden, .in_only = true};
    CLEANUP(closep) int tree = -1;
    struct err why = {0};
    int r = manifest_load(rd->fd, MANIFEST, &s.base, &why);

    if (r == -ENOENT)
        return first_copy(rd, workspace, hidden, p, notes, err);
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    tree = open_tree(rd, err);
    if (tree < 0)
        return tree;
    s.root[SYNC_HOST] = workspace;
    s.root[SYNC_COPY] = tree;
    r = sync_rounds(&s, rd->fd, err);
    return r < 0 || !notes ? r : strv_add_all(notes, &s.left) < 0 ? err_oom(err) : 0;
}

int sync_both(struct rundir *rd, int workspace, const struct ignore *hidden, const struct sync_hooks *hooks,
              struct sync_result *ret, struct err *err) {
    CLEANUP(syncer_done) struct syncer s = {.run = rd->name, .hidden = hidden, .hooks = *hooks};
    CLEANUP(closep) int tree = open_tree(rd, err);
    int r = tree < 0 ? tree : manifest_load(rd->fd, MANIFEST, &s.base, err);

    if (r < 0)
        return r;
    s.root[SYNC_HOST] = workspace;
    s.root[SYNC_COPY] = tree;
    r = sync_rounds(&s, rd->fd, err);
    if (r < 0)
        return r;
    if (strv_add_all(&s.conflicts, &s.left) < 0)
        return err_oom(err);
    *ret = (struct sync_result){.out = s.out, .in = s.in, .left = s.left.len, .conflicts = s.conflicts, .held = s.held};
    s.conflicts = s.held = (struct strv){0};
    return 0;
}
