/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's talk with the bawn-init that stays. Nothing here waits: what the socket has no room for is queued, and while something is
 * queued no client is read. bawn-init may have been taken over, so a message is believed only where it fits a job that is waiting for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/credential/login.h"
#include "supervisor/keep/keep_priv.h"

enum { MESSAGES_PER_TURN = 64 };

static struct outgoing *make_outgoing(const struct init_msg *m, const void *body, size_t len, const int *fds, size_t n_fds) {
    struct outgoing *o = malloc(sizeof *o + sizeof *m + len);

    if (!o)
        return NULL;
    *o = (struct outgoing){.n_fds = n_fds, .len = sizeof *m + len};
    memcpy(o->data, m, sizeof *m);
    if (len)
        memcpy(o->data + sizeof *m, body, len);
    if (n_fds)
        memcpy(o->fds, fds, n_fds * sizeof *fds);
    return o;
}

static void free_outgoing(struct outgoing *o) {
    fd_close_all(o->fds, o->n_fds);
    free(o);
}

int keep_send(struct keeper *k, const struct init_msg *m, const void *body, size_t len, const int *fds, size_t n_fds) {
    struct outgoing *o = make_outgoing(m, body, len, fds, n_fds);
    int r = -EAGAIN;

    if (!o) {
        fd_close_all(fds, n_fds);
        return -ENOMEM;
    }
    if (!k->outbox.first)
        r = sock_send(k->session.sandbox.control, o->data, o->len, o->fds, o->n_fds);
    if (r == -EAGAIN) {
        *k->outbox.last = o;
        k->outbox.last = &o->next;
        return 0;
    }
    free_outgoing(o);
    return r;
}

static void drop_first(struct keeper *k) {
    struct outgoing *o = k->outbox.first;

    k->outbox.first = o->next;
    if (!k->outbox.first)
        k->outbox.last = &k->outbox.first;
    free_outgoing(o);
}

int keep_flush(struct keeper *k) {
    while (k->outbox.first) {
        const struct outgoing *o = k->outbox.first;
        int r = sock_send(k->session.sandbox.control, o->data, o->len, o->fds, o->n_fds);

        if (r < 0)
            return r == -EAGAIN ? 0 : r;
        drop_first(k);
    }
    return 0;
}

void keep_forget_outgoing(struct keeper *k) {
    while (k->outbox.first)
        drop_first(k);
}

static void on_started(struct keeper *k, struct keep_job *j, pid_t pid, int *master) {
    bool tty = j->flags & EXEC_TTY;
    unsigned number;

    if (j->pid || pid <= 0)
        return;
    if (tty && (*master < 0 || ioctl(*master, TIOCGPTN, &number) < 0)) {
        job_signal(k, j, SIGKILL, true);
        job_failed(k, j, EPROTO, "its terminal did not come: too many open files, or bawn-init sent none");
        return;
    }
    job_started(k, j, pid, tty ? TAKE_FD(*master) : -1);
}

static unsigned end_of(int exited) {
    return exited == INIT_EXITED_NOEXEC
               ? EXEC_END_NOEXEC
               : (exited & INIT_EXITED_FULL ? EXEC_END_PRIVATE : 0u) | (exited & INIT_EXITED_PIDS ? EXEC_END_PIDS : 0u);
}

static void on_job(struct keeper *k, const struct init_msg *m, int *fd) {
    struct keep_job *j = job_find(k, m->job);

    if (!j || j->exited)
        return;
    if (m->type == INIT_MSG_STARTED)
        on_started(k, j, m->value, fd);
    else if (m->type == INIT_MSG_STOPPED && !k->freeze.thaw_ms) /* processes that freezing stopped are not reported */
        job_send(k, j, (struct exec_msg){.type = EXEC_MSG_STOPPED, .value = m->value}, NULL);
    else if (m->type == INIT_MSG_EXITED)
        job_exited(k, j, m->value, end_of(m->extra));
    else if (m->type == INIT_MSG_FAILED && !j->pid)
        job_failed(k, j, m->value, m->text);
}

static void on_message(struct keeper *k, const struct init_msg *m, int *fd) {
    switch ((enum init_msg_type)m->type) {
    case INIT_MSG_STARTED:
    case INIT_MSG_STOPPED:
    case INIT_MSG_EXITED:
        on_job(k, m, fd);
        break;
    case INIT_MSG_FAILED:
        if (m->job)
            on_job(k, m, fd);
        else
            keep_fail(k, -MAX_OF(m->value, 1), m->text);
        break;
    case INIT_MSG_LIMIT:
        keep_audit_limit(k, RUN_LIMIT_MEMORY);
        k->lost |= EXEC_END_MEMORY;
        keep_fail(k, -ENOMEM, "the limit on memory was reached");
        break;
    case INIT_MSG_INSIDE:
        if (m->extra < LOGIN_INSIDE_ID)
            clients_opened(k, m->extra, m->value, *fd);
        else if (k->session.network.gate)
            gatekeeper_inside(k->session.network.gate, (uint32_t)m->extra, m->value, TAKE_FD(*fd));
        break;
    case INIT_MSG_OPEN: /* it was asked for "/" when it was started: the answer says that it is locked down and listens */
        if (k->phase == BOX_STARTING)
            keep_is_running(k);
        else
            clients_opened(k, m->job, m->value, *fd);
        break;
    case INIT_MSG_SIGNAL:
    case INIT_MSG_GO:
    case INIT_MSG_PTY:
    case INIT_MSG_NETWORK:
    case INIT_MSG_EXEC:
    case INIT_MSG_ALL:
        break; /* these go the other way */
    }
}

void keep_receive(struct keeper *k) {
    for (int i = 0; i < MESSAGES_PER_TURN && !k->ended; i++) {
        struct init_msg m = {.type = 0};
        CLEANUP(closep) int fd = -1;
        size_t n_fds = 1;
        long n = sock_recv(k->session.sandbox.control, &m, sizeof m, &fd, &n_fds);

        if (n == -EAGAIN)
            return;
        if (n == -EBADMSG) /* there was no room for its descriptor: the message came all the same */
            n = sizeof m;
        if (n != (long)sizeof m) {
            keep_fail(k, -ECHILD, "the sandbox's PID 1 was killed");
            return;
        }
        m.text[sizeof m.text - 1] = 0;
        on_message(k, &m, &fd);
    }
}
