/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a flow: accepted by a listener, freed, aborted. Published ports. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/flow/flow_priv.h"
#include "gateway/flow/pacer.h"
#include "gateway/gate_control.h"
#include "gateway/net/delivery.h"
#include "gateway/net/dial.h"
#include "gateway/net/dnsd.h"
#include "os/clock.h"
#include "os/fd.h"

enum { ACCEPT_MAX = 16, FEW_FLOWS = 8, ACCEPT_PAUSE_MS = 100, PORT_DNS = 53, PORT_HTTP = 80 };

struct listener {
    struct gate *gate;
    int fd;
    bool delivered;  /* no listener: gateway/net/delivery.h */
    uint16_t inside; /* --publish: port of the inside; 0: a listener of the sandbox */
    struct watch watch;
    struct deadline pause;
};

static struct flow *flow_new(struct gate *g, int fd) {
    struct flow *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->gate = g;
    f->id = ++g->flows.last_id;
    f->started_us = clock_us();
    f->client = fd;
    f->server = -1;
    f->watch = (struct watch)WATCH_INIT;
    f->next = g->flows.first;
    f->at = &g->flows.first;
    if (f->next)
        f->next->at = &f->next;
    g->flows.first = f;
    g->flows.n++;
    return f;
}

static void flow_unlink(struct flow *f) {
    *f->at = f->next;
    if (f->next)
        f->next->at = f->at;
    f->gate->flows.n--;
}

void flow_free(struct flow *f) {
    struct gate *g = f->gate;

    flow_unwatch(f);
    deadline_done(&f->deadline);
    if (f->ruling.slow)
        pacer_over(g->pacer);
    if (f->ask)
        gate_ask_cancel(f->ask);
    dial_cancel(f->dial);
    if (f->relay && f->host.len) {
        relay_close(f->relay);
        f->client = f->server = -1;
    } else {
        relay_free(f->relay); /* --publish: bawn-init may still have the socket */
    }
    if (f->inspect)
        inspect_free(f->inspect);
    flow_http_done(f);
    if (f->holds_name)
        names_release(g->names, &f->dest);
    closep(&f->client);
    closep(&f->server);
    free(f->ruling.denied);
    free(f->out.data);
    tls_retry_done(&f->first.retry);
    flow_unlink(f);
    free(f);
    listeners_resume(g);
}

static void reset_on_close(int fd) {
    struct linger now = {.l_onoff = 1};

    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void flow_abort(struct flow *f) {
    reset_on_close(f->client);
    reset_on_close(f->server);
    if (f->inspect)
        inspect_reset(f->inspect);
    flow_free(f);
}

void flow_late(void *arg) {
    flow_abort(arg);
}

static int flow_watch(struct flow *f, enum flow_state state, uint32_t events, watch_fn *fn) {

    f->state = state;
    if (f->watch.fd >= 0) {
        f->watch.fn = fn;
        return watch_set(f->gate->hub, &f->watch, events);
    }
    return watch_start(f->gate->hub, &f->watch, f->client, events, fn, f);
}

void flow_wait(struct flow *f, enum flow_state state, uint32_t events, watch_fn *fn, uint64_t ms) {
    if (flow_watch(f, state, events, fn) < 0 || deadline_set(&f->gate->loop, &f->deadline, ms, flow_late, f) < 0)
        flow_abort(f);
}

void flow_pause(struct flow *f, watch_fn *fn, uint64_t ms, deadline_fn *then) {
    if (flow_watch(f, FLOW_REFUSE, 0, fn) < 0 || deadline_set(&f->gate->loop, &f->deadline, ms, then, f) < 0)
        flow_abort(f);
}

void flow_unwatch(struct flow *f) {
    watch_stop(f->gate->hub, &f->watch);
    deadline_stop(&f->deadline);
}

long flow_peek(struct flow *f, uint8_t *buf) {
    ssize_t n = recv(f->client, buf, FLOW_PEEK_MAX, MSG_PEEK | MSG_DONTWAIT);

    return n < 0 ? -errno : n;
}

static void set_low_water(struct flow *f, int bytes) {
    hub_low_water(f->gate->hub, f->client, bytes);
}

void flow_need_more(struct flow *f, size_t have) {
    f->first.low_water = true;
    set_low_water(f, (int)have + 1);
}

void flow_need_any(struct flow *f) {
    if (f->first.low_water)
        set_low_water(f, 1);
    f->first.low_water = false;
}

const char *flow_address_text(const struct flow *f, char out[static ADDR_TEXT_SIZE]) {
    out[0] = 0;
    if (f->address.len)
        addr_format(&f->address, out);
    return out;
}

/* Where a connection from inside wants to go decides who takes it. */
static void flow_inside_accepted(struct gate *g, int fd, const struct addr *dest, uint16_t port) {
    struct flow *f;

    if (port == PORT_DNS && (names_is_gate(dest) || !names_is_synthetic(dest))) {
        dnsd_accept(g->dnsd, fd);
        return;
    }
    f = flow_new(g, fd);
    if (!f) {
        closep(&fd);
        return;
    }
    f->port = port;
    if (addr_classify(dest, NULL, 0).class == ADDR_LOOPBACK) { /* only the entry's own port is ours there */
        entry_begin(f);
        return;
    }
    f->dest = *dest;
    if (names_is_gate(dest) && port == PORT_HTTP)
        flow_why(f);
    else
        flow_begin(f);
}

/* A client outside connected to a port that the user published. Only bawn-init can connect inside: the supervisor asks it. */
static void publish_waiting(void *arg, uint32_t events) {
    if (events & (EPOLLERR | EPOLLHUP))
        flow_free(arg);
}

static void flow_publish(struct flow *f, uint16_t inside) {
    f->port = inside;
    gate_send(f->gate, &(struct gate_msg){.type = GATE_MSG_WANT_INSIDE, .id = (uint32_t)f->id, .port = inside});
    flow_wait(f, FLOW_INSIDE, 0, publish_waiting, FLOW_FIRST_MS);
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

/* Where it was to go: what the socket is called here, or what came with it. */
static bool find_destination(const struct listener *l, int fd, struct sockaddr_storage *name, struct addr *ret,
                             uint16_t *ret_port) {
    socklen_t len = sizeof *name;

    if (l->delivered)
        hub_low_water(l->gate->hub, fd, 1); /* of the last one that had this number */
    else if (getsockname(fd, (struct sockaddr *)name, &len) < 0)
        return false;
    return sockaddr_read(name, ret, ret_port);
}

static void listener_take(struct listener *l, int fd, struct sockaddr_storage *name) {
    struct gate *g = l->gate;
    struct addr dest;
    struct flow *f;
    uint16_t port;

    if (!l->inside) {
        if (!find_destination(l, fd, name, &dest, &port))
            closep(&fd);
        else
            flow_inside_accepted(g, fd, &dest, port);
        return;
    }
    f = flow_new(g, fd);
    if (f)
        flow_publish(f, l->inside);
    else
        closep(&fd);
}

static bool has_room(const struct gate *g) {
    return g->flows.n < g->config.max_flows && !control_is_full(g->control);
}

static void pause_over(void *arg) {
    struct listener *l = arg;

    listeners_resume(l->gate);
}

static int listener_next(struct listener *l, struct sockaddr_storage *ret_to) {
    bool before = l->delivered;
    int fd = delivery_or_accept(l->fd, &l->delivered, ret_to);

    if (l->delivered && !before && hub_emulate(l->gate->hub, l->gate->files) < 0) {
        closep(&fd);
        return -ENOMEM;
    }
    return fd;
}

static void listener_ready(void *arg, uint32_t events UNUSED) {
    struct listener *l = arg;

    /* A single client gets one try: the second would find nothing. */
    for (int i = 0; i < (l->gate->flows.n < FEW_FLOWS ? 1 : ACCEPT_MAX) && has_room(l->gate); i++) {
        struct sockaddr_storage to;
        int fd = listener_next(l, &to);

        if (fd == -ECONNABORTED || fd == -EINTR)
            continue;
        if (fd == -EPIPE) { /* the sandbox is gone; its end would be reported again and again */
            watch_stop(l->gate->hub, &l->watch);
            return;
        }
        if (fd < 0 && fd != -EAGAIN) { /* no descriptor, no memory: it would be reported again at once */
            watch_set(l->gate->hub, &l->watch, 0);
            deadline_set(&l->gate->loop, &l->pause, ACCEPT_PAUSE_MS, pause_over, l);
            return;
        }
        if (fd < 0)
            break;
        listener_take(l, fd, &to);
    }
    listeners_resume(l->gate);
}

void listeners_resume(struct gate *g) {
    uint32_t events = has_room(g) ? EPOLLIN : 0;

    for (size_t i = 0; i < g->n_listeners; i++)
        watch_set(g->hub, &g->listeners[i]->watch, events);
}

int listener_add(struct gate *g, int fd, uint16_t inside, struct err *err) {
    struct listener *l = g->n_listeners < GATE_LISTENERS_MAX ? calloc(1, sizeof *l) : NULL;
    int on = 1, r;

    if (!l) {
        closep(&fd);
        return err_oom(err);
    }
    *l = (struct listener){.gate = g, .fd = fd, .inside = inside, .watch = WATCH_INIT};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* what is accepted inherits it */
    if (!inside) /* never leaves this machine: nothing has to be paced, as it would be where bbr is the default */
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    r = watch_start(g->hub, &l->watch, fd, EPOLLIN, listener_ready, l);
    if (r < 0) {
        closep(&l->fd);
        free(l);
        return err_sys(err, r, "wait for connections");
    }
    g->listeners[g->n_listeners++] = l;
    return 0;
}

void flows_forget_rules(struct gate *g) {
    for (struct flow *f = g->flows.first; f; f = f->next)
        if (f->ruling.denied)
            f->ruling.denied->rule = NULL;
}

void flows_close_all(struct gate *g) {
    while (g->flows.first)
        flow_abort(g->flows.first);
}

void flow_inside(struct gate *g, uint32_t id, int error UNUSED, int fd) {
    for (struct flow *f = g->flows.first; f; f = f->next) {
        if (f->state != FLOW_INSIDE || (uint32_t)f->id != id)
            continue;
        f->server = fd;
        if (fd < 0 || publish_join(f) < 0)
            flow_abort(f);
        return;
    }
    closep(&fd); /* the one who wanted it has gone */
}
