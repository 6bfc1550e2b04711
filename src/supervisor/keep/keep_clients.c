/* SPDX-License-Identifier: Apache-2.0 */
/* The exec socket: its clients, and the conversations of proto/execmsg.h. A client is the user, or root; it is never waited for. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/keep/keep_priv.h"

enum { ACCEPT_PER_TURN = 16, MESSAGES_PER_TURN = 16, OPEN_PATH_MAX = 4096 };

static int add_client(struct keeper *k, int fd) {
    struct keep_client *c = calloc(1, sizeof *c);

    if (!c || VEC_ADD(k->clients, k->n_clients, c) < 0) {
        free(c);
        return -ENOMEM;
    }
    *c = (struct keep_client){.fd = fd, .out = BUF_INIT(2 * KEEP_QUEUE_MAX)};
    return 0;
}

void clients_accept(struct keeper *k) {
    for (int i = 0; i < ACCEPT_PER_TURN && k->n_clients < KEEP_CLIENTS_MAX; i++) {
        CLEANUP(closep) int fd = accept4(k->exec.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            return;
        if (sock_peer_is_ours(fd) && add_client(k, fd) == 0)
            TAKE_FD(fd);
    }
}

void client_drop(struct keeper *k, struct keep_client *c) {
    struct keep_job *j = c->job;

    if (c->fd < 0)
        return;
    closep(&c->fd);
    c->job = NULL;
    if (j && j->owner == c) {
        j->owner = NULL;
        if (!(j->flags & EXEC_BACKGROUND))
            job_hang_up(k, j);
    }
}

void clients_sweep(struct keeper *k) {
    size_t n = 0;

    for (size_t i = 0; i < k->n_clients; i++) {
        struct keep_client *c = k->clients[i];

        if (c->fd >= 0) {
            k->clients[n++] = c;
            continue;
        }
        buf_done(&c->out);
        free(c);
    }
    k->n_clients = n;
}

/* Sending ---------------------------------------------------------------------------------------------------------- */

static int send_one(struct keep_client *c, struct exec_msg m, const void *body, int fd) {
    return execmsg_send(c->fd, &m, body, &fd, fd >= 0 ? 1 : 0);
}

void client_flush(struct keeper *k, struct keep_client *c) {
    size_t at = 0;
    int r = 0;

    while (c->fd >= 0 && at < c->out.len) {
        struct exec_msg m;

        memcpy(&m, c->out.data + at, sizeof m);
        r = send_one(c, m, c->out.data + at + sizeof m, -1);
        if (r < 0)
            break;
        at += sizeof m + m.len;
    }
    if (c->fd < 0)
        return;
    if (at) {
        memmove(c->out.data, c->out.data + at, c->out.len - at);
        c->out.len -= at;
        c->stalled_ms = 0;
    }
    if ((r < 0 && r != -EAGAIN) || (c->ending && !c->out.len))
        client_drop(k, c);
    else if (!c->out.len)
        buf_done(&c->out);
    else if (!c->stalled_ms)
        c->stalled_ms = clock_ms();
}

void client_send(struct keeper *k, struct keep_client *c, struct exec_msg m, const void *body, int fd) {
    int r = -EAGAIN;

    if (c->fd < 0)
        return;
    if (!c->out.len)
        r = send_one(c, m, body, fd);
    if (r == -EAGAIN && fd < 0) {
        buf_add(&c->out, &m, sizeof m);
        if (m.len)
            buf_add(&c->out, body, m.len);
        c->stalled_ms = c->stalled_ms ? c->stalled_ms : clock_ms();
        r = buf_ok(&c->out) ? 0 : -ENOBUFS;
    }
    if (r < 0)
        client_drop(k, c);
}

int client_fail(struct keeper *k, struct keep_client *c, int r, const char *what) {
    client_send(k, c, (struct exec_msg){.type = EXEC_MSG_FAILED, .value = -r, .len = (uint32_t)strlen(what)}, what, -1);
    c->ending = true;
    return 0;
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

bool client_waits(const struct keep_client *c) {
    return c->ending || c->kind == CLIENT_OPEN || (c->kind == CLIENT_ATTACHED && c->job && job_io_full(c->job));
}

static int begin_exec(struct keeper *k, struct keep_client *c, const struct exec_msg *m, struct buf *body, int *fds,
                      size_t *n_fds) {
    struct err err = {0};
    int r;

    if (m->value != EXEC_PROTOCOL)
        r = err_set(&err, -EPROTO, "this sandbox was started by another version of bawn: stop it and start it again");
    else if (k->phase != BOX_RUNNING)
        r = err_set(&err, -ESHUTDOWN, "the sandbox is being stopped");
    else
        r = job_start(k, c, body->data, body->len, fds, TAKE(*n_fds, 0), &err);
    return r < 0 ? client_fail(k, c, r, err.msg) : 0;
}

static int begin_attach(struct keeper *k, struct keep_client *c, const struct exec_msg *m) {
    struct keep_job *j = m->value ? job_find(k, m->value) : job_latest_background(k);
    char why[80];

    if (!j || !(j->flags & EXEC_BACKGROUND) || !j->pid) {
        snprintf(why, sizeof why, m->value ? "there is no command %d in the background" : "nothing was started in the background",
                 m->value);
        return client_fail(k, c, -ESRCH, why);
    }
    c->kind = CLIENT_ATTACHED;
    c->job = j;
    client_send(k, c, (struct exec_msg){.type = EXEC_MSG_STARTED, .value = j->id, .extra = j->pid}, NULL, -1);
    job_io_history(k, j, c, (size_t)MAX_OF(m->extra, 0));
    if (j->over) {
        client_send(k, c, (struct exec_msg){.type = EXEC_MSG_EXITED, .value = j->status, .extra = (int32_t)j->end}, NULL, -1);
        c->ending = true;
        c->job = NULL; /* which may be forgotten before the client has read all of it */
    }
    return 0;
}

static void await_init(struct keeper *k, struct keep_client *c, int id) {
    c->kind = CLIENT_OPEN;
    c->open_id = id;
    k->next.open = k->next.open == INT32_MAX - 1 ? 1 : k->next.open + 1;
    keep_touch(k);
}

static int begin_open(struct keeper *k, struct keep_client *c, const struct exec_msg *m, const struct buf *body) {
    struct init_msg ask = {.type = INIT_MSG_OPEN, .value = m->value, .job = k->next.open};
    int r;

    if (body->len == 0 || body->len > OPEN_PATH_MAX || body->data[0] != '/' || memchr(body->data, 0, body->len) ||
        m->value < EXEC_OPEN_READ || m->value > EXEC_OPEN_FOLDER)
        return -EBADMSG;
    if (k->phase != BOX_RUNNING)
        return client_fail(k, c, -ESHUTDOWN, "the sandbox is being stopped");
    r = keep_send(k, &ask, body->data, body->len, NULL, 0);
    if (r < 0)
        client_fail(k, c, r, "bawn-init does not answer");
    await_init(k, c, k->next.open);
    return 0;
}

/* The numbers of these are negative, which no question of the gate's is (gate_events.c), and not -1. */
static int begin_connect(struct keeper *k, struct keep_client *c, const struct exec_msg *m, const struct buf *body) {
    int32_t id = INT32_MIN + k->next.open;
    struct init_msg ask = {.type = INIT_MSG_INSIDE, .value = m->value, .extra = id};
    int r;

    if (body->len || m->value < 1 || m->value > UINT16_MAX)
        return -EBADMSG;
    if (k->phase != BOX_RUNNING)
        return client_fail(k, c, -ESHUTDOWN, "the sandbox is being stopped");
    if (k->session.sandbox.bytes)
        return client_fail(k, c, -ENOTSUP, "this engine cannot be connected to");
    r = keep_send(k, &ask, NULL, 0, NULL, 0);
    if (r < 0)
        client_fail(k, c, r, "bawn-init does not answer");
    await_init(k, c, id);
    return 0;
}

/* What may be said once a command runs. */
static int go_on(struct keeper *k, struct keep_client *c, const struct exec_msg *m, const struct buf *body) {
    struct keep_job *j = c->job;
    bool attached = c->kind == CLIENT_ATTACHED;

    if (!j)
        return -EBADMSG;
    switch (m->type) {
    case EXEC_MSG_SIGNAL:
        if (m->value < 1 || m->value > SIGRTMAX)
            return -EBADMSG;
        if (!j->exited)
            job_signal(k, j, m->value, m->extra == 1);
        return 0;
    case EXEC_MSG_INPUT:
        if (!attached || body->len > EXEC_INLINE_MAX) /* job_io_full() leaves room for one that long */
            return -EBADMSG;
        job_io_type(j, body->data, body->len);
        return 0;
    case EXEC_MSG_SIZE:
        if (!attached || m->value < 0 || m->value > UINT16_MAX || m->extra < 0 || m->extra > UINT16_MAX)
            return -EBADMSG;
        job_io_resize(j, m->value, m->extra);
        return 0;
    default:
        return -EBADMSG;
    }
}

static int take_message(struct keeper *k, struct keep_client *c, const struct exec_msg *m, struct buf *body, int *fds,
                        size_t *n_fds) {
    if (c->kind != CLIENT_NEW)
        return go_on(k, c, m, body);
    if (m->type == EXEC_MSG_EXEC)
        return begin_exec(k, c, m, body, fds, n_fds);
    if (m->type == EXEC_MSG_ATTACH)
        return begin_attach(k, c, m);
    if (m->type == EXEC_MSG_CONNECT)
        return begin_connect(k, c, m, body);
    return m->type == EXEC_MSG_OPEN ? begin_open(k, c, m, body) : -EBADMSG;
}

void client_handle(struct keeper *k, struct keep_client *c) {
    for (int i = 0; i < MESSAGES_PER_TURN && c->fd >= 0 && !client_waits(c) && !k->outbox.first; i++) {
        CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
        struct exec_msg m;
        int fds[EXEC_FDS_MAX], r;
        size_t n_fds = EXEC_FDS_MAX;

        r = execmsg_recv(c->fd, &m, &body, fds, &n_fds);
        if (r == -EAGAIN)
            return;
        r = r == 1 ? take_message(k, c, &m, &body, fds, &n_fds) : r < 0 ? r : -EPIPE;
        fd_close_all(fds, n_fds);
        if (r < 0)
            client_drop(k, c);
    }
    if (c->ending) /* it is not looked at again */
        client_flush(k, c);
}

/* bawn-init may have been taken over, and hand out anything: only what was asked for is passed on. */
void clients_opened(struct keeper *k, int id, int error, int fd) {
    struct stat st;
    /* Over a byte link bawn-link made it: a file, or a socket that stands for a folder (workspace/copy/treestream.h). */
    mode_t other = k->session.sandbox.bytes ? S_IFSOCK : S_IFDIR;
    bool is_right =
        fd >= 0 && fstat(fd, &st) == 0 && (id < 0 ? S_ISSOCK(st.st_mode) : S_ISREG(st.st_mode) || (st.st_mode & S_IFMT) == other);

    for (size_t i = 0; i < k->n_clients; i++) {
        struct keep_client *c = k->clients[i];

        if (c->fd < 0 || c->kind != CLIENT_OPEN || c->open_id != id || c->ending)
            continue;
        error = error > 0 ? error : EPROTO;
        if (is_right)
            client_send(k, c, (struct exec_msg){.type = EXEC_MSG_OPENED}, NULL, fd);
        else
            client_fail(k, c, -error, strerror(error));
        c->ending = true;
        client_flush(k, c);
        return;
    }
}
