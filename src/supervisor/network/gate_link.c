/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to a running bawn-gate, and starting one. */
#include "supervisor/network/gate_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/helper.h"

int gate_link_open(struct gate_link *l, int sock) {
    int flags = fcntl(sock, F_GETFL);
    int r = flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;

    *l = (struct gate_link){.sock = sock, .queue = calloc(LINK_QUEUE_MAX, sizeof *l->queue)};
    if (r == 0 && !l->queue)
        r = -ENOMEM;
    if (r < 0)
        gate_link_close(l);
    return r;
}

void gate_link_close(struct gate_link *l) {
    for (; l->len; l->len--, l->head++)
        closep(&l->queue[l->head % LINK_QUEUE_MAX].fd);
    closep(&l->sock);
    free(l->queue);
    *l = (struct gate_link)GATE_LINK_INIT;
}

short gate_link_events(const struct gate_link *l) {
    return (short)(POLLIN | (l->len ? POLLOUT : 0));
}

static int send_item(const struct gate_link *l, const struct link_item *i) {
    struct gate_msg m = {.type = i->type, .id = i->id, .value = i->value};

    return sock_send(l->sock, &m, sizeof m, &i->fd, i->fd >= 0 ? 1 : 0);
}

int gate_link_flush(struct gate_link *l) {
    while (l->len) {
        struct link_item *i = &l->queue[l->head % LINK_QUEUE_MAX];
        int r = send_item(l, i);

        if (r == -EAGAIN)
            return 0;
        if (r < 0)
            return r;
        closep(&i->fd);
        l->head++;
        l->len--;
    }
    return 0;
}

static int add_item(struct gate_link *l, struct link_item item) {
    CLEANUP(closep) int owned = item.fd;

    if (l->sock < 0)
        return -ENOTCONN;
    if (l->len == LINK_QUEUE_MAX)
        return -ENOBUFS;
    item.fd = TAKE_FD(owned);
    l->queue[(l->head + l->len++) % LINK_QUEUE_MAX] = item;
    return gate_link_flush(l);
}

int gate_link_send(struct gate_link *l, enum gate_msg_type type, uint32_t id, int32_t value, int fd) {
    return add_item(l, (struct link_item){.type = type, .id = id, .value = value, .fd = fd});
}

int gate_link_recv(struct gate_link *l, struct gate_msg *ret) {
    struct gate_msg m;
    long n = sock_recv(l->sock, &m, sizeof m, NULL, NULL);

    if (n == -EAGAIN)
        return 0;
    if (n != (long)sizeof m)
        return n < 0 ? (int)n : n == 0 ? -EPIPE : -EBADMSG;
    if (gatemsg_sane(&m) < 0)
        return -EBADMSG;
    *ret = m;
    return 1;
}

/* A new gate --------------------------------------------------------------------------------------------------------- */

static int start_gate(const struct gate_spawn *s, int control, int messages, pid_t *ret_pid, struct err *err) {
    CLEANUP(freep) char *trust = s->trust ? str_dupf("SSL_CERT_FILE=%s", s->trust) : NULL;
    struct helper h = {.name = "bawn-gate",
                       .program = s->program,
                       .argv = (char *[]){"bawn-gate", NULL},
                       .envp = (char *[]){trust, NULL},
                       .n_fds = s->n_fds,
                       .cgroup = s->cgroup};

    if (s->trust && !trust)
        return err_oom(err);
    memcpy(h.fds, s->fds, sizeof h.fds);
    h.fds[STDIN_FILENO] = h.fds[STDOUT_FILENO] = -1;
    h.fds[STDERR_FILENO] = messages;
    h.fds[GATE_FD_CONTROL] = control;
    return helper_start(&h, ret_pid, err);
}

int gate_spawn(const struct gate_spawn *s, struct gate_child *ret, struct err *err) {
    CLEANUP(closep) int sock = -1, control = -1, messages = -1, theirs = -1;
    int pair[2], r = sock_pair(pair);
    pid_t pid = -1;

    if (r < 0)
        return err_sys(err, r, "start bawn-gate");
    sock = pair[0];
    control = pair[1];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "start bawn-gate");
    messages = pair[0];
    theirs = pair[1];
    r = start_gate(s, control, theirs, &pid, err);
    if (r == 0)
        *ret = (struct gate_child){.pid = pid, .sock = TAKE_FD(sock), .messages = TAKE_FD(messages)};
    return r;
}
