/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that wait to be applied. */
#include "ops/sandbox/box_changes.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/changes/run_pick.h"
#include "registry/registry.h"
#include "supervisor/session/box_run.h"
#include "workspace/mode/worktree.h"

static int look_into(const struct run_pick *p, struct box_changes *ret, struct err *err) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    bool merged = true;
    int r = run_pick_changes(p, &set, err);

    for (size_t i = 0; r == 0 && i < set.n; i++)
        ret->n += !set.v[i].hidden;
    if (r == 0 && p->rd.info.mode == WORKSPACE_WORKTREE)
        r = worktree_merged(&p->rd, p->workspace, &merged, err);
    ret->commits = !merged;
    ret->kind = ret->n || !merged ? BOX_CHANGES_WAIT : BOX_CHANGES_NONE;
    return r;
}

void box_changes_of_run(const char *name, struct box_changes *ret) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    const struct run_pick_opts o = {.name = name, .what = RUN_PICK_CHANGES};
    struct err err = {0};
    int r = run_pick(&o, &p, &err);

    *ret = (struct box_changes){.kind = BOX_CHANGES_NO_RUN};
    r = r < 0 ? r : look_into(&p, ret, &err);
    if (r < 0) {
        ret->kind = BOX_CHANGES_UNKNOWN;
        snprintf(ret->why, sizeof ret->why, "%.290s", err.msg);
    }
}

void box_changes_look(const char *home, const struct box *b, struct box_changes *ret) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err err = {0};
    int r = box_run_open(environ, home, b, false, &rd, &err);

    *ret = (struct box_changes){.kind = BOX_CHANGES_NO_RUN};
    if (r > 0)
        box_changes_of_run(b->name, ret);
    if (r < 0) {
        ret->kind = BOX_CHANGES_UNKNOWN;
        snprintf(ret->why, sizeof ret->why, "%.290s", err.msg);
    }
}

void box_changes_words(const struct box_changes *c, char ret[static 400]) {
    const char *verb = c->commits ? " and commits that are not merged wait" : c->n == 1 ? " waits" : " wait";

    if (c->kind == BOX_CHANGES_WAIT)
        snprintf(ret, 400, "%zu changed %s%s to be applied", c->n, c->n == 1 ? "file" : "files", verb);
    else if (c->kind == BOX_CHANGES_UNKNOWN)
        snprintf(ret, 400, "it is not known whether changes wait to be applied (%s)", c->why);
    else
        snprintf(ret, 400, "nothing waits to be applied");
}

/* Without its workspace there is nothing to compare with, and no repository to tell. */
static int remove_blind(const char *name, struct err *err) {
    CLEANUP(freep) char *runs = NULL;
    struct rundir rd = RUNDIR_INIT;
    int r = run_pick_folder(&runs, err);

    if (r < 0 || !runs)
        return r;
    r = rundir_open(runs, name, true, &rd, err);
    return r < 0 ? r : rundir_remove(&rd, err);
}

int box_changes_remove(const char *name, bool discard, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    const struct run_pick_opts o = {.name = name, .what = RUN_PICK_CHANGES, .lock = true};
    struct box_changes c = {0};
    char words[400];
    int r = run_pick(&o, &p, err);

    if (r < 0)
        return discard && r != -EBUSY ? remove_blind(name, err) : r;
    if (!discard) { /* under the lock: nothing comes in between */
        r = look_into(&p, &c, err);
        if (r < 0)
            return r;
        box_changes_words(&c, words);
        if (c.kind != BOX_CHANGES_NONE)
            return err_set(err, -EEXIST, "%s", words);
    }
    return run_pick_remove(&p, err);
}
