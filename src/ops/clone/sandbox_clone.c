/* SPDX-License-Identifier: Apache-2.0 */
/* Copies persistent sandboxes. */
#include "ops/clone/sandbox_clone.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/changes/run_pick.h"
#include "ops/files/inside.h"
#include "ops/notice.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/spawn.h"
#include "supervisor/keep/exec_client.h"
#include "workspace/run/rundir.h"

enum { NUMBER_MAX = 10000 };

struct clone_pick {
    struct sandbox_pick pick;
    char *runs, *control;
    struct clone_opts opts; /* points into the above */
};
#define CLONE_PICK_INIT \
    { .pick = SANDBOX_PICK_INIT }

static void clone_pick_done(struct clone_pick *p) {
    sandbox_pick_done(&p->pick);
    free(p->runs);
    free(p->control);
}

/* One that starts or ends just now is neither: its keeper writes in what would be copied. */
static int hold_still(const char *name, struct clone_pick *p, struct err *err) {
    const struct sandbox_pick_opts stopped = {.name = name, .need = SANDBOX_STOPPED};
    enum box_phase phase = box_look(&p->pick.box, NULL);

    if (p->pick.box.alive && phase != BOX_RUNNING)
        return exec_not_running(&p->pick.box, err);
    if (p->pick.box.alive)
        return sandbox_control(&p->pick.box, &p->control, err);
    sandbox_pick_done(&p->pick);
    p->pick = (struct sandbox_pick)SANDBOX_PICK_INIT;
    return sandbox_pick(&stopped, &p->pick, err);
}

/* p must stay where it is. */
static int clone_pick(const char *name, const struct progress *progress, struct clone_pick *p, struct err *err) {
    const struct sandbox_pick_opts any = {.name = name, .need = SANDBOX_ANY};
    int r = sandbox_pick(&any, &p->pick, err);

    r = r < 0 ? r : run_pick_folder(&p->runs, err);
    if (r == 0 && !p->runs)
        r = err_set(err, -ENOENT, "there is no home folder, and so no place for copies");
    r = r < 0 ? r : hold_still(name, p, err);
    if (r < 0)
        return r;
    p->opts = (struct clone_opts){.boxes = p->pick.boxes, .runs = p->runs, .control = p->control, .progress = progress};
    return 0;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------------- */

int sandbox_checkpoint(const char *sandbox, const char *tag, const struct progress *progress, struct checkpoint *ret,
                       struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    int r = clone_pick(sandbox, progress, &p, err);

    r = r < 0 ? r : inside_audit(&p.pick, "checkpoint", tag, NULL, err);
    return r < 0 ? r : checkpoint_make(&p.pick.box, &p.opts, tag, ret, err);
}

int sandbox_checkpoints(const char *sandbox, struct checkpoint_list *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = sandbox, .need = SANDBOX_ANY}, &p, err);

    return r < 0 ? r : checkpoint_list(&p.box, ret, err);
}

int sandbox_checkpoint_remove(const char *sandbox, const char *tag, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = sandbox, .need = SANDBOX_ANY}, &p, err);

    r = r < 0 ? r : inside_audit(&p, "checkpoint rm", tag, NULL, err);
    return r < 0 ? r : checkpoint_remove(&p.box, tag, err);
}

/* -- forks --------------------------------------------------------------------------------------------------------------- */

void fork_result_done(struct fork_result *r) {
    strv_done(&r->names);
    strv_done(&r->ids);
}

static int make_named(struct fork_source *s, const char *name, struct fork_result *m, struct err *err) {
    char *id = NULL;
    int r = box_check_name(name, err);

    r = r < 0 ? r : fork_make(s, name, &id, err);
    if (r < 0)
        return r;
    r = strv_add(&m->names, name);
    return strv_add_take(&m->ids, id) < 0 || r < 0 ? err_oom(err) : 0;
}

/* The next free number: earlier forks, and those that others make now, have some. */
static int make_numbered(struct fork_source *s, const char *base, unsigned *number, struct fork_result *m, struct err *err) {
    int r = -EEXIST;

    while (r == -EEXIST && *number < NUMBER_MAX) {
        char name[BOX_NAME_MAX + 16];

        *err = (struct err){0};
        snprintf(name, sizeof name, "%s-%u", base, ++*number);
        r = make_named(s, name, m, err);
    }
    return r;
}

static int make_all(const struct fork_request *q, struct clone_pick *p, struct fork_result *m, struct err *err) {
    struct fork_source s = FORK_SOURCE_INIT;
    unsigned number = 0;
    int r = fork_begin(&p->pick.box, &p->opts, q->from, &s, err);

    if (r < 0)
        return r;
    for (uint64_t left = MAX_OF(q->count, 1); r == 0 && left > 0; left--) {
        s.last = left == 1;
        if (q->base && !q->count)
            r = make_named(&s, q->base, m, err);
        else
            r = make_numbered(&s, q->base ? q->base : p->pick.box.name, &number, m, err);
    }
    if (r == 0 && s.from.mode == WORKSPACE_DIRECT)
        notice_say(q->notice, "'%s' works in the workspace itself (direct mode): %s in overlay mode over it, so they do not meet",
                   p->pick.box.name, m->names.len == 1 ? "its fork works" : "its forks work");
    fork_end(&s);
    return r;
}

/* As if the user had typed it, with messages of its own. */
static int start_fork(const char *name, struct err *err) {
    char *argv[] = {"bawn", "start", "--json", (char *)(uintptr_t)name, NULL};
    const struct spawn s = {.path = "/proc/self/exe",
                            .argv = argv,
                            .envp = environ,
                            .fds = (const int[]){STDIN_FILENO, -1, STDERR_FILENO},
                            .n_fds = 3,
                            .cwd = SPAWN_CWD_STAY,
                            .group = SPAWN_TERMINAL,
                            .outlives = true,
                            .same_signals = true};
    int status = spawn_run(&s);

    if (status < 0)
        return err_sys(err, status, "start '%s'", name);
    return status == 0 ? 0 : err_set(err, -EIO, "the fork '%s' was made, but could not be started", name);
}

int sandbox_fork(const struct fork_request *q, struct fork_result *ret, struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    int r = clone_pick(q->sandbox, q->progress, &p, err);

    r = r < 0 ? r : inside_audit(&p.pick, "fork", q->from, q->base, err);
    r = r < 0 ? r : make_all(q, &p, ret, err);
    if (q->copied)
        q->copied(q->arg);
    for (size_t i = 0; r == 0 && q->start && i < ret->names.len; i++)
        r = start_fork(ret->names.v[i], err);
    return r;
}
