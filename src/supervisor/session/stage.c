/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace before the command: what its mode needs. */
#include "supervisor/session/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/user/idspace.h"
#include "supervisor/session/progress_bar.h"
#include "supervisor/session/run.h"
#include "workspace/apply/apply.h"
#include "workspace/change/change_base.h"
#include "workspace/git/gitidentity.h"
#include "workspace/mode/sync.h"
#include "workspace/run/settle.h"

enum { SAVE_AFTER_MS = 1000 };

static bool is_below(const char *path, const char *dir) {
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* A run of that name goes on where it ended. */
static int reopen(struct stage *st, const struct host_facts *facts, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    int r = rundir_open(st->runs, st->name, true, &rd, err);

    if (r < 0)
        return r;
    if (!str_eq(rd.info.workspace, facts->workspace))
        return err_usage(err, "the run '%s' belongs to another workspace (%s)", rd.name, rd.info.workspace);
    if (rd.info.mode != st->mode)
        return err_usage(err, "the run '%s' has its workspace in %s mode; give another name, or --workspace %s", rd.name,
                         workspace_mode_names[rd.info.mode], workspace_mode_names[rd.info.mode]);
    rd.info.ended_ns = 0;
    r = rundir_save(&rd, err);
    if (r < 0)
        return r;
    st->rd = TAKE(rd, (struct rundir)RUNDIR_INIT);
    st->have = true;
    return 0;
}

/* A folder of the run that the sandbox writes to: it belongs to the owner of the workspace, and has its mode unless it is closed. */
static int make_part(const struct stage *st, int dir, const char *name, bool closed, struct err *err) {
    const struct host_facts *facts = st->facts;
    CLEANUP(closep) int fd = -1;
    struct stat ws = {.st_mode = 0700};

    if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (!closed && fstat(st->workspace, &ws) < 0) || fchmod(fd, ws.st_mode & 0777) < 0 ||
        (facts->uid == 0 && fchown(fd, facts->workspace_uid, facts->workspace_gid) < 0))
        return err_sys(err, -errno, "folder '%s' of a run", name);
    return 0;
}

static int fill_overlay(int dir, void *arg, struct err *err) {
    const struct stage *st = arg;
    int r = make_part(st, dir, "upper", false, err);

    r = r < 0 ? r : make_part(st, dir, "work", true, err);
    /* Started by root for another user, who must get to the two through a mount of this folder and sees no more of it. */
    if (r >= 0 && st->facts->uid == 0 && fchmod(dir, 0711) < 0)
        return err_sys(err, -errno, "folder of the run");
    return r;
}

static int make_folder(struct stage *st, const struct host_facts *facts, struct err *err) {
    bool overlay = st->mode == WORKSPACE_OVERLAY;
    const struct run_info info = {.mode = st->mode,
                                  .named = st->name && !st->opt->fresh,
                                  .begun_ns = st->mode == WORKSPACE_DIRECT || overlay ? st->begun_ns : 0,
                                  .workspace = (char *)(uintptr_t)facts->workspace,
                                  .command = {.v = st->opt->argv, .len = st->opt->argc}};
    int r;

    if (!st->runs)
        return err_set(err, -ENOENT, "%s mode needs a place for what is changed; set HOME or XDG_STATE_HOME",
                       workspace_mode_names[st->mode]);
    if (is_below(st->runs, facts->workspace))
        return err_set(err, -EPERM, "the folder for runs, '%s', is in the workspace; set XDG_STATE_HOME to another place",
                       st->runs);
    r = rundir_create_filled(st->runs, st->name, &info, overlay ? fill_overlay : NULL, st, &st->rd, err);
    if (r == -EEXIST && st->name && !st->opt->fresh && st->mode != WORKSPACE_DIRECT) {
        *err = (struct err){0};
        return reopen(st, facts, err);
    }
    st->have = st->new_ = r >= 0;
    return r;
}

static int begin_overlay(struct stage *st, struct err *err) {
    int r;

    if (st->new_)
        return 0;
    r = idspace_remove_tree(st->rd.fd, "work"); /* of a run before; overlayfs refuses what a volatile one left */
    return r < 0 && r != -ENOENT ? err_sys(err, r, "empty '%s/work'", st->rd.path) : fill_overlay(st->rd.fd, st, err);
}

/* Not in the copy, and not deleted either: git inside must not take it for that (os/lookalike.h). */
static int make_tracked(struct stage *st, struct err *err) {
    CLEANUP(closep) int tree = openat(st->rd.fd, "tree", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct lookalikes *t = st->tracked;
    int r = tree < 0 ? -errno : t ? lookalikes_make((struct lookalike_range){t->v, t->n}, 0, tree) : 0;

    return r < 0 ? err_sys(err, r, "lookalikes of hidden files that git tracks") : 0;
}

static int begin_sync(struct stage *st, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying the workspace");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(strv_done) struct strv notes = {0};
    int r = make_part(st, st->rd.fd, "tree", false, err);

    r = r < 0 ? r : sync_copy_in(&st->rd, st->workspace, st->opt->rules, &progress, &notes, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < notes.len; i++)
        log_note("%s", notes.v[i]);
    r = make_tracked(st, err);
    return r < 0 ? r : stage_substitutes(st, err);
}

static int begin_worktree(struct stage *st, struct err *err) {
    int r = st->new_ ? worktree_make(&st->rd, st->workspace, st->opt->rules, &st->view, err)
                     : worktree_open(&st->rd, st->workspace, &st->view, err);

    return r < 0 ? r : stage_substitutes(st, err);
}

static int (*const begin[WORKSPACE_MODES])(struct stage *, struct err *) = {
    [WORKSPACE_OVERLAY] = begin_overlay,
    [WORKSPACE_SYNC] = begin_sync,
    [WORKSPACE_WORKTREE] = begin_worktree,
};

/* Nothing in the run that the workspace does not have: also what was not committed. */
static bool has_all(struct rundir *rd, const struct stage *st) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    const struct apply_opts opts = {.conflict = APPLY_SKIP, .dry_run = true};
    struct apply_result result = {0};
    struct err ignored = {0};
    bool all = change_set_make(rd, st->workspace, st->opt->rules, &set, &ignored) >= 0 &&
               apply_changes(rd, &set, st->workspace, &opts, &result, &ignored) >= 0;

    for (size_t i = 0; all && i < result.n; i++)
        all = result.v[i].outcome == APPLY_SAME || result.v[i].change->hidden;
    apply_result_done(&result);
    return all;
}

/* Commits of a run that was killed are carried over, and one whose branch is merged is no longer needed. */
static void tidy_worktree(struct rundir *rd, const struct stage *st) {
    int top = st->workspace;
    struct err ignored = {0};
    bool merged = false;

    if (rd->info.ended_ns == 0 && worktree_carry(rd, top, &ignored) >= 0) {
        rd->info.ended_ns = clock_mark();
        rundir_save(rd, &ignored);
    }
    if (rd->info.ended_ns && worktree_merged(rd, top, &merged, &ignored) >= 0 && merged && has_all(rd, st) &&
        worktree_drop(rd, top, false, &ignored) >= 0)
        rundir_remove(rd, &ignored);
}

/* No command ever ran in it. Its branch, if it has one already, is what HEAD was. */
static void tidy_unbegun(struct rundir *rd, const struct stage *st) {
    struct err ignored = {0};

    if (!rd->info.branch || worktree_drop(rd, st->workspace, false, &ignored) >= 0)
        rundir_remove(rd, &ignored);
}

/* As a run that ends without changes. One that has some is not compared again at each start. */
static void tidy_killed(struct rundir *rd, const struct stage *st) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    struct err ignored = {0};
    size_t waiting = 0;

    if (rd->info.ended_ns || rd->info.named || faccessat(rd->fd, RUNDIR_KILLED, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
        change_set_make(rd, st->workspace, st->opt->rules, &set, &ignored) < 0)
        return;
    for (size_t i = 0; i < set.n; i++)
        waiting += !set.v[i].hidden;
    if (waiting || set.notes.len) /* notes: what could not be looked at may be a change */
        closep(&(int){openat(rd->fd, RUNDIR_KILLED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)});
    else
        rundir_remove(rd, &ignored);
}

/* Runs that were killed while they were prepared, so that no command ever ran in them, or that have no changes. Those in use are locked. */
static void sweep_killed(const struct stage *st, const char *workspace) {
    struct rundir_list list = {0};
    struct err ignored = {0};

    if (!st->runs || rundir_list(st->runs, workspace, &list, &ignored) < 0)
        return;
    for (size_t i = 0; i < list.n; i++) {
        CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;

        if (list.v[i].busy || rundir_open(st->runs, list.v[i].name, true, &rd, &ignored) < 0)
            continue;
        if (rd.info.begun_ns == 0)
            tidy_unbegun(&rd, st);
        else if (rd.info.mode == WORKSPACE_WORKTREE)
            tidy_worktree(&rd, st);
        else if (rd.info.mode != WORKSPACE_DIRECT)
            tidy_killed(&rd, st);
    }
    rundir_list_done(&list);
}

static int make_home(struct stage *st, const struct host_facts *facts, struct plan_input *in, struct err *err) {
    int r = volumes_prepare(&st->volumes, st->opt->settings, st->workspace, facts, in, err);

    bool seen = st->mode == WORKSPACE_DIRECT || st->mode == WORKSPACE_RO;

    r = r < 0 ? r : git_identity_read(facts->environ_, facts->home, seen ? in->workspace.hidden : NULL, &st->git, err);
    in->git.config = buf_str(&st->git.config);
    in->git.ignore = buf_str(&st->git.ignore);
    return r;
}

int stage_begin(struct stage *st, const struct run_options *opt, const char *name, struct plan_input *in, struct err *err) {
    const struct host_facts *facts = opt->facts;
    int r;

    st->opt = opt;
    st->tracked = in->workspace.tracked;
    st->name = name;
    st->mode = settings_workspace_mode(opt->settings);
    st->facts = facts;
    st->begun_ns = clock_mark();
    st->workspace = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st->workspace < 0)
        return err_sys(err, -errno, "open the workspace");
    r = rundir_folder(facts->environ_, facts->home, &st->runs, err);
    if (r < 0)
        return r;
    if (name && (st->mode == WORKSPACE_DIRECT || st->mode == WORKSPACE_RO))
        return err_usage(err, "--name is for --workspace overlay, sync and worktree: in %s mode no changes are set aside",
                         workspace_mode_names[st->mode]);
    r = make_home(st, facts, in, err);
    if (r < 0)
        return r;
    if (!begin[st->mode])
        return 0;
    sweep_killed(st, facts->workspace);
    r = make_folder(st, facts, err);
    r = r < 0 ? r : begin[st->mode](st, err);
    if (r >= 0 && !st->new_ && st->mode == WORKSPACE_OVERLAY)
        r = change_base_renew(&st->rd, st->workspace, err);
    st->made_ns = clock_coarse();
    if (r >= 0) { /* from here on what is in there counts */
        bool said = st->new_ && st->rd.info.begun_ns != 0;

        if (st->new_) /* else what is in upper/ is compared with the beginning of the first run */
            st->rd.info.begun_ns = st->begun_ns;
        r = said ? 0 : rundir_save_soon(&st->rd, err);
        if (r >= 0 && in->more.uids.n && facts->uid != 0) /* root's are idmapped mounts, which have one id */
            r = settle_expect(st->rd.fd, err);
        st->save_at_ms = clock_ms() + SAVE_AFTER_MS;
    }
    if (r < 0) {
        stage_undo(st);
        return r;
    }
    in->workspace.run_dir = st->rd.path;
    in->git.objects = st->view.objects;
    return 0;
}

int stage_folder(struct stage *st, struct err *err) {
    return st->have ? 0 : make_folder(st, st->facts, err);
}

void stage_undo(struct stage *st) {
    struct err ignored = {0};

    if (!st->have || !st->new_)
        return;
    if (st->mode == WORKSPACE_WORKTREE)
        worktree_drop(&st->rd, st->workspace, true, &ignored);
    rundir_remove(&st->rd, &ignored);
    st->have = false;
}

void stage_done(struct stage *st) {
    rundir_done(&st->rd);
    worktree_view_done(&st->view);
    volumes_done(&st->volumes);
    git_identity_done(&st->git);
    closep(&st->workspace);
    free(st->runs);
    *st = (struct stage)STAGE_INIT;
}

int stage_growth(const struct stage *st) {
    if (!st->have || !begin[st->mode])
        return -1;
    return openat(st->rd.fd, st->mode == WORKSPACE_OVERLAY ? "upper" : "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int stage_timeout(const struct stage *st) {
    return clock_left_ms(st->save_at_ms);
}

void stage_turn(struct stage *st) {
    struct err err = {0};

    if (!st->save_at_ms || clock_ms() < st->save_at_ms)
        return;
    st->save_at_ms = 0;
    if (rundir_save(&st->rd, &err) < 0)
        log_err(&err);
}
