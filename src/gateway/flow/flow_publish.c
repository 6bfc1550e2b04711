/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gateway/flow/flow_priv.h"
#include "os/fd.h"

/* Somebody outside connected to a port that the user published. Only bawn-init can connect inside: the supervisor asks it. */
static void publish_waiting(void *arg, uint32_t events) {
    if (events & (EPOLLERR | EPOLLHUP))
        flow_free(arg);
}

void flow_publish(struct flow *f, uint16_t inside) {
    f->inside_id = (uint32_t)f->id;
    f->port = inside;
    gate_send(f->gate, &(struct gate_msg){.type = GATE_MSG_WANT_INSIDE, .id = f->inside_id, .port = inside});
    if (flow_watch(f, FLOW_INSIDE, 0, publish_waiting, FLOW_FIRST_MS) < 0)
        flow_abort(f);
}

static void publish_over(void *arg, enum relay_end how, uint64_t sent UNUSED, uint64_t received UNUSED) {
    if (how == RELAY_DONE)
        flow_free(arg);
    else
        flow_abort(arg);
}

static int publish_join(struct flow *f) {
    const struct relay_opts opts = {.client = f->client, .server = f->server, .arg = f, .end = publish_over};
    int flags = fcntl(f->server, F_GETFL), on = 1;

    if (flags < 0 || fcntl(f->server, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    setsockopt(f->server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    flow_unwatch(f);
    f->state = FLOW_RELAY;
    return relay_new(f->gate, &opts, &f->relay);
}

void flow_inside(struct gate *g, uint32_t id, int error UNUSED, int fd) {
    for (struct flow *f = g->flows; f; f = f->next) {
        if (f->state != FLOW_INSIDE || f->inside_id != id)
            continue;
        f->server = fd;
        if (fd < 0 || publish_join(f) < 0)
            flow_abort(f);
        return;
    }
    closep(&fd); /* the one who wanted it has gone */
}
