/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of an inspected connection, on the loop. */
#include "gateway/tls/inspect.h"

#include <errno.h>
#include <sys/socket.h>

#include "gateway/tls/inspect_priv.h"
#include "os/fd.h"

static void on_turn(void *arg) {
    inspect_run(arg);
}

static void bury(void *arg) {
    struct inspect *i = arg;

    if (i->http)
        httpx_free(i->http);
    SSL_CTX_free(i->tls.ctx);
    free(i);
}

/* The watch first: it takes the socket out of the set, and must not take out a number that is in use again. */
void inspect_close_side(struct inspect_side *side) {
    if (!side->open)
        return;
    side->open = false;
    side->eof = side->shut = true;
    watch_stop(side->inspect->gate->hub, &side->watch);
    stream_done(&side->s);
}

static void close_all(struct inspect *i) {
    i->state = STATE_ENDED;
    if (i->tls.leaf)
        tls_leaf_cancel(TAKE_PTR(i->tls.leaf));
    inspect_close_side(inspect_client(i));
    inspect_close_side(inspect_server(i));
    deadline_done(&i->timer);
    soon_cancel(i->gate->hub, &i->turn);
}

void inspect_finish(struct inspect *i, enum inspect_end how) {
    if (i->state == STATE_ENDED)
        return;
    close_all(i);
    i->opts.end(i->opts.arg, how, i->sent, i->received);
}

void inspect_free(struct inspect *i) {
    if (!i)
        return;
    if (i->state != STATE_ENDED)
        close_all(i);
    soon_set(i->gate->hub, &i->turn, bury, i); /* a caller further up may still look at its state */
}

static void open_side(struct inspect *i, enum httpx_way way, int fd) {
    struct inspect_side *side = &i->side[way];

    stream_init(&side->s, fd);
    side->inspect = i;
    side->watch = (struct watch)WATCH_INIT;
    side->open = true;
}

int inspect_new(struct gate *g, const struct inspect_opts *opts, struct inspect **ret, struct err *err) {
    CLEANUP(closep) int client = opts->client, server = opts->server;
    struct inspect *i = calloc(1, sizeof *i);

    if (!i || deadline_prepare(&g->loop, &i->timer) < 0) {
        free(i);
        return err_oom(err);
    }
    i->gate = g;
    i->opts = *opts;
    i->host = *opts->http.host;
    i->opts.http.host = &i->host;
    i->denied = server < 0;
    open_side(i, HTTPX_TO_CLIENT, TAKE_FD(client));
    if (i->denied)
        inspect_server(i)->eof = inspect_server(i)->shut = true;
    else
        open_side(i, HTTPX_TO_SERVER, TAKE_FD(server));
    if (!opts->http.tls && inspect_open(i, HTTPX_H1) < 0) {
        inspect_free(i);
        return err_oom(err);
    }
    inspect_enter(i, opts->http.tls ? STATE_HELLO : STATE_OPEN);
    soon_set(g->hub, &i->turn, on_turn,
             i); /* the first bytes may be here already, but end() must not be called before this returns */
    *ret = i;
    return 0;
}

void inspect_bytes(const struct inspect *i, uint64_t *ret_sent, uint64_t *ret_received) {
    *ret_sent = i->sent;
    *ret_received = i->received;
}

void inspect_reset(struct inspect *i) {
    struct linger now = {.l_onoff = 1};

    for (enum httpx_way way = HTTPX_TO_CLIENT; way <= HTTPX_TO_SERVER; way++)
        if (i->side[way].open)
            setsockopt(i->side[way].s.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

const char *inspect_why(const struct inspect *i) {
    return i->why;
}

void inspect_decide(struct inspect *i, uint32_t id, const struct policy_verdict *v) {
    if (i->state != STATE_OPEN)
        return;
    httpx_decide(i->http, id, v);
    inspect_run(i);
}

struct http_head *inspect_head(struct inspect *i, uint32_t id) {
    return i->state == STATE_OPEN ? httpx_head(i->http, id) : NULL;
}

int inspect_set_query(struct inspect *i, uint32_t id, const char *query) {
    return i->state == STATE_OPEN ? httpx_set_query(i->http, id, query) : -ENOENT;
}

void inspect_answer(struct inspect *i, uint32_t id, int status, const char *content_type, const void *body, size_t len) {
    if (i->state != STATE_OPEN)
        return;
    httpx_answer(i->http, id, status, content_type, body, len);
    inspect_run(i);
}

void inspect_enter(struct inspect *i, enum inspect_state state) {
    i->state = state;
    i->clock.since = i->clock.moved = uv_now(&i->gate->loop);
    i->again = true;
}

static void step_states(struct inspect *i) {
    static void (*const steps[])(struct inspect *) = {
        [STATE_HELLO] = inspect_step_hello,   [STATE_SERVER] = inspect_step_server, [STATE_LEAF] = inspect_step_leaf,
        [STATE_CLIENT] = inspect_step_client, [STATE_OPEN] = inspect_step_open,     [STATE_DRAIN] = inspect_step_drain,
    };
    static_assert(ARRAY_LEN(steps) == STATE_ENDED, "a state without steps");

    do {
        i->again = false;
        steps[i->state](i);
    } while (i->again && i->state != STATE_ENDED);
}

static void on_event(void *arg, uint32_t events) {
    struct inspect_side *side = arg;
    struct inspect *i = side->inspect;
    int ready = (events & EPOLLIN ? UV_READABLE : 0) | (events & EPOLLOUT ? UV_WRITABLE : 0);

    if (events & EPOLLERR) { /* it would be reported again and again */
        side->reset = true;
        watch_stop(i->gate->hub, &side->watch);
        side->events = 0;
        ready = UV_READABLE | UV_WRITABLE;
    }
    stream_ready(&side->s, ready ? ready : side->events);
    inspect_run(i);
}

static int wanted_events(struct inspect *i, enum httpx_way way) {
    bool is_client = way == HTTPX_TO_CLIENT;
    const struct stream *s = &i->side[way].s;

    switch (i->state) {
    case STATE_HELLO:
    case STATE_DRAIN:
        return is_client ? UV_READABLE : 0;
    case STATE_SERVER:
        return is_client ? 0 : stream_events(s, true, false);
    case STATE_CLIENT:
        return is_client ? stream_events(s, true, false) : 0;
    case STATE_OPEN:
        return inspect_open_events(i, way);
    case STATE_LEAF:
    case STATE_ENDED:
        return 0;
    }
    BUG("no such state");
}

/* False: it cannot be watched. */
static bool watch_events(struct inspect_side *side, int events) {
    struct hub *hub = side->inspect->gate->hub;
    uint32_t wanted = (events & UV_READABLE ? EPOLLIN : 0) | (events & UV_WRITABLE ? EPOLLOUT : 0);

    side->events = events;
    if (!events)
        watch_stop(hub, &side->watch); /* its end would be reported again and again */
    else if (side->watch.fd >= 0)
        return watch_set(hub, &side->watch, wanted) == 0;
    else
        return watch_start(hub, &side->watch, side->s.fd, wanted, on_event, side) == 0;
    return true;
}

/* The kernel only hears of changes. A client that has to wait for a moment, until the broker has answered, stays watched unless
 * it really sends more. */
static bool watch_side(struct inspect *i, enum httpx_way way) {
    struct inspect_side *side = &i->side[way];
    int events = side->open ? wanted_events(i, way) : 0;

    if (!side->open || events == side->events)
        return true;
    if (i->state == STATE_OPEN && !events && side->events == UV_READABLE && !side->s.readable && !side->eof)
        return true;
    return watch_events(side, events);
}

static uint64_t due_time(const struct inspect *i) {
    uint64_t idle = i->denied ? INSPECT_DENIED_MS : INSPECT_IDLE_MS;
    uint64_t due = i->busy ? i->clock.moved + INSPECT_BUSY_MS : i->clock.since + idle;

    if (i->state == STATE_OPEN && i->side[HTTPX_TO_CLIENT].eof) /* it may be gone: that shows only when it is written to */
        due = i->clock.moved + INSPECT_IDLE_MS;
    if (i->state == STATE_OPEN)
        return i->clock.pause ? MIN_OF(i->clock.pause, due) : due;
    return i->clock.since + (i->state == STATE_DRAIN ? INSPECT_DRAIN_MS : INSPECT_HANDSHAKE_MS);
}

static void give_up(struct inspect *i) {
    if (i->state == STATE_SERVER) {
        inspect_trouble(i, INSPECT_TIMEOUT, "the server did not finish the TLS handshake in time");
        inspect_run(i);
        return;
    }
    if (i->state == STATE_OPEN && !i->busy)
        stream_shutdown(&inspect_client(i)->s);
    inspect_finish(i, i->state == STATE_DRAIN ? i->how : i->has_trouble ? i->trouble : INSPECT_TIMEOUT);
}

/* The timer is not moved by every byte: when it fires, it looks whether it should have. */
static void on_timer(void *arg) {
    struct inspect *i = arg;
    uint64_t now = uv_now(&i->gate->loop), due = due_time(i);

    i->clock.due = 0;
    if (i->state == STATE_OPEN && i->clock.pause && i->clock.pause <= now) {
        inspect_pause(i);
        inspect_run(i);
        return;
    }
    if (due <= now) {
        give_up(i);
        return;
    }
    i->clock.due = due;
    deadline_set(&i->gate->loop, &i->timer, due - now, on_timer, i);
}

static void watch_time(struct inspect *i) {
    uint64_t now = uv_now(&i->gate->loop), due = due_time(i);

    if (i->clock.due && i->clock.due <= due)
        return;
    i->clock.due = due;
    deadline_set(&i->gate->loop, &i->timer, due > now ? due - now : 0, on_timer, i);
}

static void watch_turn(struct inspect *i) {
    if (i->state == STATE_OPEN && inspect_has_more(i))
        soon_set(i->gate->hub, &i->turn, on_turn, i);
    else
        soon_cancel(i->gate->hub, &i->turn);
}

void inspect_run(struct inspect *i) {
    if (i->running) { /* called by a hook */
        i->again = true;
        return;
    }
    i->running = true;
    step_states(i);
    i->running = false;
    if (i->state == STATE_ENDED)
        return;
    if (!watch_side(i, HTTPX_TO_CLIENT) || !watch_side(i, HTTPX_TO_SERVER)) {
        inspect_finish(i, INSPECT_SERVER_GONE); /* out of memory */
        return;
    }
    watch_turn(i);
    watch_time(i);
}
