/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a run, its workspace and the rules that hide files in it. */
#include "ops/changes/run_pick.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/apply/apply.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/pin.h"
#include "workspace/mode/worktree.h"

/* In the run's folder: the run that ended at this time was applied as a whole. A later run under its name ended later. */
#define APPLIED "applied"

void run_pick_done(struct run_pick *p) {
    free(p->runs);
    closep(&p->workspace);
    rundir_done(&p->rd);
    ignore_free(p->rules);
    ignore_free(p->accepted);
    *p = (struct run_pick)RUN_PICK_INIT;
}

/* -- which -------------------------------------------------------------------------------------------------------------- */

static void add_stamp(const struct run_info *info, char out[static 32]) {
    snprintf(out, 32, "%" PRIu64 "\n", info->ended_ns);
}

static bool is_applied(int run, const struct run_info *info) {
    char text[64], expected[32];

    add_stamp(info, expected);
    return fd_read_file_at(run, APPLIED, text, sizeof text) > 0 && str_eq(text, expected);
}

static bool has_what(const char *runs, const struct rundir_entry *e, enum run_pick_what what) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", runs, e->name);
    CLEANUP(closep) int run = path ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

    if (run < 0)
        return false;
    switch (what) {
    case RUN_PICK_CHANGES:
        return !is_applied(run, &e->info);
    case RUN_PICK_APART:
        return e->info.mode != WORKSPACE_DIRECT && !is_applied(run, &e->info);
    case RUN_PICK_UNDO:
        return faccessat(run, "undo", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
               faccessat(run, "undo.new", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    case RUN_PICK_DIRECT:
        return e->info.mode == WORKSPACE_DIRECT;
    }
    BUG("a run with nothing in particular");
}

static int none_found(const char *workspace, enum run_pick_what what, struct err *err) {
    static const char *const missing[] = {
        [RUN_PICK_CHANGES] = "no run here has left changes; 'bawn run' makes one",
        [RUN_PICK_APART] = "no run here has changes that wait (those of a run in direct mode are in the workspace already)",
        [RUN_PICK_UNDO] = "nothing was applied or rolled back here that could be taken back",
        [RUN_PICK_DIRECT] = "no run in direct mode has changed anything here",
    };

    return err_set(err, -ENOENT, "%.300s: %s", workspace, missing[what]);
}

int run_pick_folder(char **ret, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    return r < 0 ? r : rundir_folder(environ, home, ret, err);
}

int run_pick_list(const char *directory, struct rundir_list *ret, struct err *err) {
    CLEANUP(freep) char *runs = NULL, *workspace = NULL;
    int r = run_pick_folder(&runs, err);

    r = r < 0 ? r : paths_workspace(directory, &workspace, err);
    return r < 0 || !runs ? r : rundir_list(runs, workspace, ret, err);
}

static int open_latest(const struct run_pick_opts *o, struct run_pick *p, struct err *err) {
    CLEANUP(freep) char *workspace = NULL;
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    int r = paths_workspace(o->directory, &workspace, err);

    r = r < 0 ? r : rundir_list(p->runs, workspace, &list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list.n; i++)
        if (has_what(p->runs, &list.v[i], o->what))
            return rundir_open(p->runs, list.v[i].name, o->lock, &p->rd, err);
    return none_found(workspace, o->what, err);
}

static int open_run(const struct run_pick_opts *o, struct run_pick *p, struct err *err) {
    int r = run_pick_folder(&p->runs, err);

    if (r < 0)
        return r;
    if (!p->runs)
        return err_set(err, -ENOENT, "there is no home folder, so no run was stored");
    if (!o->name)
        return open_latest(o, p, err);
    r = rundir_check_name(o->name, err);
    return r < 0 ? r : rundir_open(p->runs, o->name, o->lock, &p->rd, err);
}

/* -- its workspace ------------------------------------------------------------------------------------------------------ */

/* The name is from the run's own file; a link on the way now is not where the run was. */
static int open_workspace(struct run_pick *p, struct err *err) {
    CLEANUP(freep) char *real = NULL;
    int r;

    p->workspace = open(p->rd.info.workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->workspace < 0)
        return err_sys(err, -errno, "open the workspace '%s' of run '%s'", p->rd.info.workspace, p->rd.name);
    r = paths_of_fd(p->workspace, &real, err);
    if (r < 0 || str_eq(real, p->rd.info.workspace))
        return r;
    return err_set(err, -ENOENT, "the workspace of run '%s' was '%s', which is a link to '%s' now", p->rd.name,
                   p->rd.info.workspace, real);
}

static int load_rules(struct run_pick *p, struct err *err) {
    CLEANUP(freep) char *home = NULL, *pins = NULL;
    int r;

    p->rules = ignore_new();
    r = p->rules ? ignore_scan(p->rules, p->workspace, NULL, NULL, err) : err_oom(err);
    r = r < 0 ? r : paths_home(environ, &home, err);
    r = r < 0 ? r : pin_folder(environ, home, &pins, err);
    r = r < 0 ? r : pin_check(pins, p->rd.info.workspace, p->rules, false, &p->accepted, err);
    return r < 0 ? r : 0;
}

int run_pick(const struct run_pick_opts *o, struct run_pick *ret, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    int r = open_run(o, &p, err);

    r = r < 0 ? r : open_workspace(&p, err);
    if (r >= 0 && o->lock && o->what != RUN_PICK_UNDO) /* half an apply must not be taken for the host's own changes */
        r = apply_recover(&p.rd, p.workspace, err);
    r = r < 0 ? r : load_rules(&p, err);
    if (r < 0)
        return r;
    *ret = TAKE(p, (struct run_pick)RUN_PICK_INIT);
    return 0;
}

int run_pick_changes(const struct run_pick *p, struct change_set *ret, struct err *err) {
    int r = change_set_make(&p->rd, p->workspace, p->rules, ret, err);

    for (size_t i = 0; r == 0 && p->accepted && i < ret->n; i++) {
        struct change *c = &ret->v[i];
        bool is_dir = S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode);

        c->hidden |= ignore_match(p->accepted, c->path, is_dir) == IGNORE_EXCLUDED;
    }
    return r;
}

/* -- afterwards --------------------------------------------------------------------------------------------------------- */

int run_pick_mark_applied(struct run_pick *p, struct err *err) {
    char text[32];
    int r;

    add_stamp(&p->rd.info, text);
    r = file_replace_at(p->rd.fd, APPLIED, 0600, FILE_SOLE, text, strlen(text));
    return r < 0 ? err_sys(err, r, "write '%s/" APPLIED "'", p->rd.path) : 0;
}

int run_pick_unmark(struct run_pick *p, struct err *err) {
    return unlinkat(p->rd.fd, APPLIED, 0) < 0 && errno != ENOENT ? err_sys(err, -errno, "remove '%s/" APPLIED "'", p->rd.path)
                                                                 : 0;
}

static int remove_run(struct rundir *rd, int workspace, bool discard, struct err *err) {
    int r = rd->info.mode == WORKSPACE_WORKTREE ? worktree_drop(rd, workspace, discard, err) : 0;

    return r < 0 ? r : rundir_remove(rd, err);
}

int run_pick_remove(struct run_pick *p, struct err *err) {
    return remove_run(&p->rd, p->workspace, true, err);
}

/* One that is in use just now stays for the next time. */
static int sweep_one(const struct run_pick *p, const char *name, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err busy = {0};

    if (rundir_open(p->runs, name, true, &rd, &busy) < 0 || !is_applied(rd.fd, &rd.info))
        return 0;
    return remove_run(&rd, p->workspace, false, err);
}

int run_pick_sweep(const struct run_pick *p, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    int r = rundir_list(p->runs, p->rd.info.workspace, &list, err);

    for (size_t i = 0; i < list.n && r >= 0; i++)
        if (!list.v[i].info.named && !list.v[i].busy && !str_eq(list.v[i].name, p->rd.name))
            r = sweep_one(p, list.v[i].name, err);
    return r < 0 ? r : 0;
}
