/* SPDX-License-Identifier: Apache-2.0 */
/* Stops persistent sandboxes. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "ops/sandbox/sandbox_manage.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/exec_client.h"

enum { FORCE_WAIT_MS = 5000 };

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

int sandbox_outcomes_add(struct sandbox_outcomes *l, const char *name, enum sandbox_end end, const struct err *err) {
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

    return sandbox_outcomes_add(&x->done, b->name, r < 0 ? SANDBOX_END_FAILED : SANDBOX_END_KILLED, r < 0 ? &err : NULL);
}

/* Takes b if it has to be waited for. */
static int ask_to_stop(struct stopping *x, struct box *b) {
    struct err err = {0};
    int r = b->alive ? sandbox_ask_stop(b, (unsigned)x->s->seconds, &err) : 0;

    if (!b->alive)
        return sandbox_outcomes_add(&x->done, b->name, SANDBOX_END_NOT_RUNNING, NULL);
    if (r == -ESRCH)
        return sandbox_outcomes_add(&x->done, b->name, SANDBOX_END_STOPPED, NULL);
    if (r < 0)
        return x->s->force ? force_stop(x, b) : sandbox_outcomes_add(&x->done, b->name, SANDBOX_END_FAILED, &err);
    return VEC_ADD(x->asked.v, x->asked.n, TAKE(*b, (struct box)BOX_INIT));
}

static int await_end(struct stopping *x, const struct box *b) {
    int r = sandbox_wait_end(b, x->s->force ? (int)x->s->seconds * 1000 + FORCE_WAIT_MS : -1);

    return r == -ETIMEDOUT ? force_stop(x, b) : sandbox_outcomes_add(&x->done, b->name, SANDBOX_END_STOPPED, NULL);
}

static int stop_named(struct stopping *x, const char *name) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts o = {.name = name, .directory = x->s->dir};
    struct err err = {0};

    if (sandbox_pick(&o, &p, &err) < 0)
        return sandbox_outcomes_add(&x->done, name, SANDBOX_END_FAILED, &err);
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
