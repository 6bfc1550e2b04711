/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of messages to the supervisor. */
#include <errno.h>

#include "init/init.h"
#include "os/fd.h"
#include "os/sock.h"

/* False: there is no room in the socket now. */
static bool try_send(struct init *in, const struct init_msg *msg, int fd) {
    int r = in->outbox.broken ? -EPIPE : sock_send(in->control, msg, sizeof *msg, &fd, fd >= 0);

    if (r == -EAGAIN)
        return false;
    if (r < 0)
        in->outbox.broken = true;
    return true;
}

/* A command that stops again and again needs no more room than one that stops once: only the last time is of interest. */
static bool merge_stop(struct outbox *o, const struct init_msg *msg) {
    for (struct out *e = msg->type == INIT_MSG_STOPPED ? o->first : NULL; e; e = e->next)
        if (e->msg.type == INIT_MSG_STOPPED && e->msg.job == msg->job) {
            e->msg.value = msg->value;
            return true;
        }
    return false;
}

static void put_message(struct outbox *o, const struct init_msg *msg, int fd) {
    struct out *e = malloc(sizeof *e);

    if (!e) { /* a supervisor that does not know how a command ended would wait for ever: better no sandbox */
        closep(&fd);
        o->broken = true;
        return;
    }
    *e = (struct out){.msg = *msg, .fd = fd};
    if (o->last)
        o->last->next = e;
    else
        o->first = e;
    o->last = e;
    o->n++;
}

void out_send(struct init *in, const struct init_msg *msg, int fd) {
    if (in->outbox.first ? merge_stop(&in->outbox, msg) : try_send(in, msg, fd))
        closep(&fd);
    else
        put_message(&in->outbox, msg, fd);
}

void out_flush(struct init *in) {
    struct outbox *o = &in->outbox;

    while (o->first && try_send(in, &o->first->msg, o->first->fd)) {
        struct out *e = o->first;

        o->first = e->next;
        if (!o->first)
            o->last = NULL;
        o->n--;
        closep(&e->fd);
        free(e);
    }
}
