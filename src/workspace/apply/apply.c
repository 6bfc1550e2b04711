/* SPDX-License-Identifier: Apache-2.0 */
/* From a change set to steps. */
#include "workspace/apply/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/apply/apply_leave.h"
#include "workspace/apply/apply_plan.h"
#include "workspace/apply/apply_txn.h"
#include "workspace/copy/place.h"
#include "workspace/copy/xattrs.h"

const char *const apply_outcome_names[APPLY_OUTCOMES] = {
    [APPLY_DONE] = "applied",      [APPLY_MERGED] = "merged", [APPLY_SAME] = "same",
    [APPLY_CONFLICT] = "conflict", [APPLY_LEFT] = "left",     [APPLY_REFUSED] = "refused",
};

void apply_result_done(struct apply_result *r) {
    free(r->v);
    *r = (struct apply_result){0};
}

/* -- from the plan to steps --------------------------------------------------------------------------------------------- */

static int add_put(struct apply_txn *t, const struct change *c, const struct plan_item *it, size_t item, struct err *err) {
    struct apply_step step = {.kind = S_ISDIR(c->new_.mode)   ? STEP_MKDIR
                                      : S_ISLNK(c->new_.mode) ? STEP_LINK
                                                              : STEP_FILE,
                              .path = it->beside ? it->beside : c->path,
                              .mode = it->mode,
                              .link = c->new_.link,
                              .item = item};
    int r = 0;

    if (!it->beside)
        step.expect = it->host;
    if ((S_ISDIR(c->new_.mode) && S_ISDIR(step.expect.mode)) || (!it->content && !it->beside))
        step.kind = STEP_MODE;
    if (step.kind == STEP_MODE)
        return step.mode == (it->host.mode & 07777) ? 0 : apply_txn_add(t, &step, err);
    /* Files and links replace each other in one move; folders have to go, or come, apart. */
    if (step.expect.mode && S_ISDIR(step.expect.mode) != S_ISDIR(c->new_.mode)) {
        r = apply_txn_remove(t, c->path, &it->host, true, err);
        step.expect = (struct manifest_stamp){0};
        step.replaces = true;
    }
    return r < 0 ? r : apply_txn_add(t, &step, err);
}

static int add_steps(struct apply_txn *t, const struct apply_plan *p, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < p->set->n && r >= 0; i++) {
        const struct change *c = &p->set->v[i];
        const struct plan_item *it = &p->v[i];

        if (it->outcome != APPLY_DONE && it->outcome != APPLY_MERGED)
            continue;
        r = c->kind == CHANGE_DELETED ? apply_txn_remove(t, c->path, &it->host, false, err) : add_put(t, c, it, i, err);
        if (r >= 0 && c->from)
            r = apply_txn_remove(t, c->from, &it->from, false, err);
    }
    return r;
}

/* -- content ------------------------------------------------------------------------------------------------------------ */

/* The file's time is now, not the one inside: what the host built meanwhile must look older to make(1). */
static int open_content(const struct apply_step *s, struct apply_content *ret, void *arg, struct err *err) {
    const struct apply_plan *p = arg;
    CLEANUP(closep) int theirs = apply_plan_open_new(p, s->item, err), merged = -1;
    int r;

    if (theirs < 0)
        return theirs;
    r = xattrs_read_plain(theirs, &ret->xattrs);
    if (r < 0)
        return err_sys(err, r, "read the attributes of the run's version");
    if (p->v[s->item].merge) {
        r = apply_plan_merge(p, s->item, &merged, err);
        if (r != 0)
            return r < 0 ? r : err_set(err, -ESTALE, "a file that could be merged no longer can; try again");
    }
    ret->fd = merged >= 0 ? TAKE_FD(merged) : TAKE_FD(theirs);
    return 0;
}

static mode_t folder_mode(const char *path, void *arg) {
    const struct apply_plan *p = arg;
    const struct change *c = change_find(p->set, path);

    return c && S_ISDIR(c->new_.mode) ? c->new_.mode & 0777 : 0755;
}

/* -- doing it ----------------------------------------------------------------------------------------------------------- */

static int make_result(const struct apply_plan *p, struct apply_result *ret, struct err *err) {
    ret->v = calloc(p->set->n + 1, sizeof *ret->v);
    if (!ret->v)
        return err_oom(err);
    ret->n = p->set->n;
    for (size_t i = 0; i < p->set->n; i++) {
        ret->v[i].change = &p->set->v[i];
        ret->v[i].outcome = p->v[i].outcome;
        memcpy(ret->v[i].why, p->v[i].why, sizeof ret->v[i].why);
        if (p->opts->conflict == APPLY_STOP)
            ret->conflicts |= p->v[i].outcome == APPLY_CONFLICT;
    }
    return 0;
}

static int leave_run(const struct apply_plan *p, bool undoable, struct err *err) {
    CLEANUP(closep) int undo = -1;
    CLEANUP(freep) bool *goes = calloc(p->set->n + 1, sizeof *goes);
    const struct apply_leavers l = {p->set, goes};

    if (!goes)
        return err_oom(err);
    for (size_t i = 0; i < p->set->n; i++)
        goes[i] = p->v[i].leaves;
    /* Also if nothing was done now: it may be the rest of an apply that was killed after step 4, and its undo needs it. */
    undo = openat(p->rd->fd, APPLY_UNDO, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (undo < 0 && (undoable || errno != ENOENT))
        return err_sys(err, -errno, "open '%s/" APPLY_UNDO "'", p->rd->path);
    return apply_leave(p->rd, &l, p->workspace, undo, err);
}

static int carry_out(struct apply_plan *p, struct err *err) {
    CLEANUP(apply_txn_done)
    struct apply_txn t = {
        .rd = p->rd, .workspace = p->workspace, .open = open_content, .folder = folder_mode, .arg = p, .dir = -1};
    int r = add_steps(&t, p, err);

    if (r >= 0 && t.n)
        r = apply_txn_run(&t, err);
    return r < 0 ? r : leave_run(p, t.n > 0, err);
}

int apply_changes(struct rundir *rd, const struct change_set *s, int workspace, const struct apply_opts *opts,
                  struct apply_result *ret, struct err *err) {
    CLEANUP(apply_plan_done) struct apply_plan p = {.rd = rd, .set = s, .workspace = workspace, .opts = opts};
    CLEANUP(apply_result_done) struct apply_result result = {0};
    int r;

    if (rd->info.mode == WORKSPACE_DIRECT || rd->info.mode == WORKSPACE_RO)
        return err_set(err, -EINVAL, "a run in %s mode changes the workspace itself: there is nothing to apply",
                       workspace_mode_names[rd->info.mode]);
    r = opts->dry_run ? 0 : apply_recover(rd, workspace, err);
    r = r < 0 ? r : apply_plan_make(&p, err);
    r = r < 0 ? r : make_result(&p, &result, err);
    if (r == 0 && !opts->dry_run && !result.conflicts)
        r = carry_out(&p, err);
    if (r < 0)
        return r;
    *ret = TAKE(result, (struct apply_result){0});
    return 0;
}
