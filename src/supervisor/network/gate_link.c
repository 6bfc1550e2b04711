/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to a running bawn-gate. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/helper.h"
#include "supervisor/network/gate_priv.h"

int gate_link_open(struct gate_link *l, int sock) {
    *l = (struct gate_link){.sock = sock, .queue = calloc(LINK_QUEUE_MAX, sizeof *l->queue)};
    if (l->queue)
        return 0;
    gate_link_close(l);
    return -ENOMEM;
}

void gate_link_close(struct gate_link *l) {
    for (; l->len; l->len--, l->head++) {
        closep(&l->queue[l->head % LINK_QUEUE_MAX].fd);
        freep(&l->queue[l->head % LINK_QUEUE_MAX].said);
    }
    closep(&l->sock);
    free(l->queue);
    *l = (struct gate_link)GATE_LINK_INIT;
}

short gate_link_events(const struct gate_link *l) {
    return (short)(POLLIN | (l->len ? POLLOUT : 0));
}

int gate_link_flush(struct gate_link *l) {
    while (l->len) {
        struct link_item *i = &l->queue[l->head % LINK_QUEUE_MAX];
        struct gate_msg m = {.type = i->type, .id = i->id, .value = i->value};
        int r;

        snprintf(m.pattern, sizeof m.pattern, "%s", i->said ? i->said : "");
        r = sock_send(l->sock, &m, sizeof m, &i->fd, i->fd >= 0 ? 1 : 0);

        if (r < 0)
            return r == -EAGAIN ? 0 : r;
        closep(&i->fd);
        freep(&i->said);
        l->head++;
        l->len--;
    }
    return 0;
}

int gate_link_send(struct gate_link *l, enum gate_msg_type type, uint32_t id, int32_t value, int fd) {
    CLEANUP(closep) int owned = fd;

    if (l->sock < 0)
        return -ENOTCONN;
    if (l->len == LINK_QUEUE_MAX)
        return -ENOBUFS;
    l->queue[(l->head + l->len++) % LINK_QUEUE_MAX] =
        (struct link_item){.type = type, .id = id, .value = value, .fd = TAKE_FD(owned)};
    return gate_link_flush(l);
}

int gate_link_say(struct gate_link *l, uint32_t id, enum gate_answer answer, const char *said) {
    if (l->sock < 0)
        return -ENOTCONN;
    if (l->len == LINK_QUEUE_MAX)
        return -ENOBUFS;
    l->queue[(l->head + l->len++) % LINK_QUEUE_MAX] =
        (struct link_item){.type = GATE_MSG_ANSWER, .id = id, .value = (int32_t)answer, .fd = -1, .said = strdup(said)};
    return gate_link_flush(l);
}

int gate_link_recv(struct gate_link *l, struct gate_msg *ret) {
    int r = helper_recv(l->sock, ret, sizeof *ret);

    return r == 1 && gatemsg_sane(ret) < 0 ? -EBADMSG : r;
}
