/* SPDX-License-Identifier: Apache-2.0 */
/* Stops, removes and renames persistent sandboxes. */
#include "ops/sandbox/sandbox_manage.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_look.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/exec_client.h"
#include "supervisor/session/box_run.h"
#include "supervisor/session/sweep.h"

/* -- stop ----------------------------------------------------------------------------------------------------------------- */

enum { FORCE_WAIT_MS = 5000, STOP_SECONDS = 5, STOP_WAIT_MS = 60 * 1000 };

struct stopping {
    const struct sandbox_stop *s;
    struct box_list asked; /* and not yet ended */
    struct sandbox_outcomes done;
};

static void stopping_done(struct stopping *x) {
    box_list_done(&x->asked);
    sandbox_outcomes_done(&x->done);
}

void sandbox_outcomes_done(struct sandbox_outcomes *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct sandbox_outcomes){0};
}

static int add_outcome(struct sandbox_outcomes *l, const char *name, enum sandbox_end end, const struct err *err) {
    struct sandbox_outcome *o = VEC_NEW(l->v, l->n);

    if (!o)
        return -ENOMEM;
    *o = (struct sandbox_outcome){.name = name ? strdup(name) : NULL, .end = end, .err = err ? *err : (struct err){0}};
    return name && !o->name ? -ENOMEM : 0;
}

/* Its state would say for ever that it runs; with its lock we may write that it does not. */
static void write_stopped(const struct box *b) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts o = {.name = b->name, .need = SANDBOX_STOPPED};
    struct err err = {0};

    if (sandbox_pick(&o, &p, &err) < 0)
        return; /* it was started again */
    p.box.state.phase = BOX_STOPPED;
    p.box.state.status = 128 + SIGKILL;
    box_save_state(&p.box, &err);
}

static int kill_keeper(const struct box *b, struct err *err) {
    CLEANUP(closep) int fd = b->state.pid > 0 ? (int)syscall(SYS_pidfd_open, b->state.pid, 0) : -1;
    int r;

    if (fd < 0 || process_start_time(b->state.pid) != b->state.start_time)
        return exec_not_running(b, err);
    if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
        return err_sys(err, -errno, "kill the supervisor of sandbox '%s'", b->name);
    r = sandbox_wait_end(b, FORCE_WAIT_MS);
    if (r == -ETIMEDOUT)
        return err_set(err, r, "the supervisor of sandbox '%s' (pid %d) does not die", b->name, (int)b->state.pid);
    write_stopped(b);
    return 0;
}

static int force_stop(struct stopping *x, const struct box *b) {
    struct err err = {0};
    int r = kill_keeper(b, &err);

    return add_outcome(&x->done, b->name, r < 0 ? SANDBOX_END_FAILED : SANDBOX_END_KILLED, r < 0 ? &err : NULL);
}

/* Takes b if it has to be waited for. */
static int ask_to_stop(struct stopping *x, struct box *b) {
    struct err err = {0};
    int r = b->alive ? sandbox_ask_stop(b, (unsigned)x->s->seconds, &err) : 0;

    if (!b->alive)
        return add_outcome(&x->done, b->name, SANDBOX_END_NOT_RUNNING, NULL);
    if (r == -ESRCH)
        return add_outcome(&x->done, b->name, SANDBOX_END_STOPPED, NULL);
    if (r < 0)
        return x->s->force ? force_stop(x, b) : add_outcome(&x->done, b->name, SANDBOX_END_FAILED, &err);
    return VEC_ADD(x->asked.v, x->asked.n, TAKE(*b, (struct box)BOX_INIT));
}

static int await_end(struct stopping *x, const struct box *b) {
    int r = sandbox_wait_end(b, x->s->force ? (int)x->s->seconds * 1000 + FORCE_WAIT_MS : -1);

    return r == -ETIMEDOUT ? force_stop(x, b) : add_outcome(&x->done, b->name, SANDBOX_END_STOPPED, NULL);
}

static int stop_named(struct stopping *x, const char *name) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts o = {.name = name, .directory = x->s->dir};
    struct err err = {0};

    if (sandbox_pick(&o, &p, &err) < 0)
        return add_outcome(&x->done, name, SANDBOX_END_FAILED, &err);
    return ask_to_stop(x, &p.box);
}

static int stop_all(struct stopping *x, struct err *err) {
    CLEANUP(freep) char *boxes = NULL;
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = sandbox_boxes(&boxes, err);

    r = r < 0 ? r : registry_list(boxes, &l, err);
    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (l.v[i].alive && ask_to_stop(x, &l.v[i]) < 0)
            r = err_oom(err);
    return r;
}

int sandbox_stop(const struct sandbox_stop *s, struct sandbox_outcomes *ret, struct err *err) {
    CLEANUP(stopping_done) struct stopping x = {.s = s};
    int r = s->all ? stop_all(&x, err) : 0;

    if (!s->all && !s->n && stop_named(&x, NULL) < 0)
        r = err_oom(err);
    for (size_t i = 0; r == 0 && i < s->n; i++)
        r = stop_named(&x, s->names[i]) < 0 ? err_oom(err) : 0;
    for (size_t i = 0; r == 0 && i < x.asked.n; i++)
        r = await_end(&x, &x.asked.v[i]) < 0 ? err_oom(err) : 0;
    if (r < 0)
        return r;
    *ret = TAKE(x.done, (struct sandbox_outcomes){0});
    return 0;
}

/* -- rm ------------------------------------------------------------------------------------------------------------------- */

struct removing {
    const struct sandbox_remove *q;
    const char *home, *boxes;
};

static int stop_first(const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = name, .need = SANDBOX_ANY}, &p, err);

    if (r < 0 || !p.box.alive)
        return r;
    r = sandbox_ask_stop(&p.box, STOP_SECONDS, err);
    if (r < 0)
        return r == -ESRCH ? 0 : r;
    r = sandbox_wait_end(&p.box, STOP_WAIT_MS);
    return r == -ETIMEDOUT ? err_set(err, r, "sandbox '%s' does not end: 'bawn stop --force %s'", name, name) : 0;
}

static int open_stopped(const struct removing *x, const char *name, struct sandbox_pick *ret, struct err *err) {
    const struct sandbox_pick_opts o = {.name = name, .need = SANDBOX_STOPPED};
    int r = sandbox_pick(&o, ret, err);

    if (r != -EBUSY)
        return r;
    if (!x->q->force)
        return err_set(err, r, "sandbox '%s' is running: 'bawn stop %s' first, or 'bawn rm --force %s'", name, name, name);
    r = stop_first(name, err);
    return r < 0 ? r : sandbox_pick(&o, ret, err);
}

/* It is a discard like any other. */
static int note_discard(const struct box *b, const struct box_changes *c, struct err *err) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&members, "what", "rm --discard-changes");
    if (c->kind == BOX_CHANGES_WAIT)
        audit_add_number(&members, "changes", (int64_t)c->n);
    return audit_verb(AUDIT_DISCARD, b->name, &members, err);
}

/* What its run has goes first: a crash in between leaves a sandbox without changes, never changes without their sandbox. */
static int remove_changes(const struct removing *x, const struct box *b, struct err *err) {
    struct box_changes c;
    char words[400];
    int r;

    box_changes_look(x->home, b, &c);
    box_changes_words(&c, words);
    if (c.kind == BOX_CHANGES_NO_RUN || x->q->keep)
        return 0;
    if (c.kind != BOX_CHANGES_NONE && !x->q->discard)
        return err_set(err, -EEXIST,
                       "sandbox '%s' stays: %s; 'bawn review %s', then 'bawn apply %s' or 'bawn discard %s', or 'bawn rm "
                       "--discard-changes %s'",
                       b->name, words, b->name, b->name, b->name, b->name);
    r = c.kind == BOX_CHANGES_NONE ? 0 : note_discard(b, &c, err);
    return r < 0 ? r : box_changes_remove(b->name, x->q->discard, err);
}

static int remove_one(const struct removing *x, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = open_stopped(x, name, &p, err);

    if (r == -EBADMSG && x->q->force) /* its run stays: it may not be its own */
        return registry_remove_damaged(x->boxes, name, err);
    r = r < 0 ? r : remove_changes(x, &p.box, err);
    if (r < 0)
        return r;
    sweep_groups(&p.box); /* of a keeper that was killed: only the sandbox has their names */
    return registry_remove(x->boxes, &p.box, err);
}

static int add_stopped(const struct removing *x, struct strv *names, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = registry_list(x->boxes, &l, err);

    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (!box_sight_active(box_sight(&l.v[i])) && strv_add(names, l.v[i].name) < 0)
            return err_oom(err);
    return r;
}

static int remove_each(const struct removing *x, char *const *names, size_t n, struct sandbox_outcomes *l, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        struct err why = {0};
        int r = remove_one(x, names[i], &why);

        if (add_outcome(l, names[i], r < 0 ? SANDBOX_END_FAILED : SANDBOX_END_REMOVED, r < 0 ? &why : NULL) < 0)
            return err_oom(err);
    }
    return 0;
}

int sandbox_remove(const struct sandbox_remove *q, struct sandbox_outcomes *ret, struct err *err) {
    CLEANUP(freep) char *home = NULL, *boxes = NULL;
    CLEANUP(strv_done) struct strv stopped = {0};
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    struct removing x = {.q = q};
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : sandbox_boxes(&boxes, err);
    if (r < 0)
        return r;
    x.home = home;
    x.boxes = boxes;
    sweep_stale(environ, home, false, NULL);
    r = q->all_stopped ? add_stopped(&x, &stopped, err) : 0;
    if (r == 0)
        r = q->all_stopped ? remove_each(&x, stopped.v, stopped.len, &l, err) : remove_each(&x, q->names, q->n, &l, err);
    if (r < 0)
        return r;
    *ret = TAKE(l, (struct sandbox_outcomes){0});
    return 0;
}

/* -- rename --------------------------------------------------------------------------------------------------------------- */

/* Its keeper does it: it has the sockets, too. */
static int rename_running(const struct box *b, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(1024);
    struct jsonout j = {.to = &request};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "cmd", "rename");
    jsonout_text(&j, "name", name);
    jsonout_close(&j, '}');
    return sandbox_request(b, buf_str(&request), NULL, err);
}

/* If the second step fails, the first is taken back. */
static int rename_both(const char *boxes, const char *home, struct box *b, const char *name, struct err *err) {
    CLEANUP(freep) char *old = strdup(b->name);
    struct box moved = {.name = (char *)(uintptr_t)name, .info = b->info};
    struct err ignored = {0};
    int r = old ? box_run_rename(environ, home, b, name, err) : err_oom(err);

    if (r < 0)
        return r;
    r = registry_rename(boxes, b, name, err);
    if (r < 0)
        box_run_rename(environ, home, &moved, old, &ignored);
    return r;
}

/* The lock of the sandbox is ours. */
static int rename_stopped(const char *boxes, struct box *b, const char *name, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : box_rename_begin(b, name, err);
    if (r < 0)
        return r;
    r = rename_both(boxes, home, b, name, err);
    box_rename_end(b);
    return r;
}

int sandbox_rename(const char *old, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    struct sandbox_pick_opts o = {.name = old, .need = SANDBOX_STOPPED};
    int r = box_check_name(name, err);

    r = r < 0 ? r : sandbox_pick(&o, &p, err);
    if (r == 0)
        return rename_stopped(p.boxes, &p.box, name, err);
    if (r != -EBUSY)
        return r;
    o.need = SANDBOX_RUNNING;
    r = sandbox_pick(&o, &p, err);
    return r < 0 ? r : rename_running(&p.box, name, err);
}
