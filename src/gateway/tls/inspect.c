/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of an inspected connection, on the loop. */
#include "gateway/tls/inspect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gateway/tls/inspect_priv.h"
#include "os/fd.h"

static void on_turn(uv_idle_t *turn);

static void release(struct inspect *i) {
    if (i->handles || !i->freed)
        return;
    if (i->http)
        httpx_free(i->http);
    SSL_CTX_free(i->tls.ctx);
    free(i);
}

static void on_closed(uv_handle_t *handle) {
    struct inspect *i = handle->data;

    i->handles--;
    release(i);
}

static void close_handle(uv_handle_t *handle) {
    uv_close(handle, on_closed);
}

/* The handle first: it takes the socket out of the loop, and must not take out a number that is in use again. */
void inspect_close_side(struct inspect_side *side) {
    if (!side->open)
        return;
    side->open = false;
    side->eof = side->shut = true;
    close_handle((uv_handle_t *)&side->poll);
    stream_done(&side->s);
}

static void close_all(struct inspect *i) {
    i->state = STATE_ENDED;
    if (i->tls.leaf)
        tls_leaf_cancel(TAKE_PTR(i->tls.leaf));
    inspect_close_side(inspect_client(i));
    inspect_close_side(inspect_server(i));
    close_handle((uv_handle_t *)&i->timer);
    close_handle((uv_handle_t *)&i->turn);
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
    i->freed = true;
    release(i);
}

static int open_side(struct inspect *i, enum httpx_way way, int fd, struct err *err) {
    struct inspect_side *side = &i->side[way];
    int one = 1, r;

    stream_init(&side->s, fd);
    side->inspect = i;
    r = uv_poll_init_socket(&i->gate->loop, &side->poll, fd);
    if (r < 0) {
        stream_done(&side->s);
        return err_sys(err, r, "watch a connection");
    }
    side->poll.data = i;
    side->open = true;
    i->handles++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* heads and their bodies must not wait for each other */
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);  /* a peek may have left it higher */
    return 0;
}

int inspect_new(struct gate *g, const struct inspect_opts *opts, struct inspect **ret, struct err *err) {
    CLEANUP(closep) int client = opts->client, server = opts->server;
    struct inspect *i = calloc(1, sizeof *i);
    int r;

    if (!i)
        return err_oom(err);
    i->gate = g;
    i->opts = *opts;
    i->host = *opts->http.host;
    i->opts.http.host = &i->host;
    uv_timer_init(&g->loop, &i->timer);
    uv_idle_init(&g->loop, &i->turn);
    i->timer.data = i->turn.data = i;
    i->handles = 2;
    i->denied = server < 0;
    r = open_side(i, HTTPX_TO_CLIENT, TAKE_FD(client), err);
    if (i->denied)
        inspect_server(i)->eof = inspect_server(i)->shut = true;
    else if (r == 0)
        r = open_side(i, HTTPX_TO_SERVER, TAKE_FD(server), err);
    if (r == 0 && !opts->http.tls && inspect_open(i, HTTPX_H1) < 0)
        r = err_oom(err);
    if (r < 0) {
        inspect_free(i);
        return r;
    }
    inspect_enter(i, opts->http.tls ? STATE_HELLO : STATE_OPEN);
    i->turning = true; /* the first bytes may be here already, but end() must not be called before this returns */
    uv_idle_start(&i->turn, on_turn);
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

static void on_event(uv_poll_t *poll, int status, int events) {
    struct inspect *i = poll->data;
    struct inspect_side *side = poll == &inspect_client(i)->poll ? inspect_client(i) : inspect_server(i);

    if (status < 0) {
        side->reset = true;
        side->events = 0; /* libuv has stopped it */
        events = UV_READABLE | UV_WRITABLE;
    }
    stream_ready(&side->s, events);
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

/* libuv only hears of changes: it removes and adds the socket for each. A client that has to wait for a moment, until the
 * broker has answered, stays polled unless it really sends more. */
static void watch_side(struct inspect *i, enum httpx_way way) {
    struct inspect_side *side = &i->side[way];
    int events = side->open ? wanted_events(i, way) : 0;

    if (!side->open || events == side->events)
        return;
    if (i->state == STATE_OPEN && !events && side->events == UV_READABLE && !side->s.readable && !side->eof)
        return;
    if (events)
        uv_poll_start(&side->poll, events, on_event);
    else
        uv_poll_stop(&side->poll);
    side->events = events;
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
static void on_timer(uv_timer_t *timer) {
    struct inspect *i = timer->data;
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
    uv_timer_start(timer, on_timer, due - now, 0);
}

static void watch_time(struct inspect *i) {
    uint64_t now = uv_now(&i->gate->loop), due = due_time(i);

    if (i->clock.due && i->clock.due <= due)
        return;
    i->clock.due = due;
    uv_timer_start(&i->timer, on_timer, due > now ? due - now : 0, 0);
}

static void on_turn(uv_idle_t *turn) {
    inspect_run(turn->data);
}

static void watch_turn(struct inspect *i) {
    bool more = i->state == STATE_OPEN && inspect_has_more(i);

    if (more == i->turning)
        return;
    i->turning = more;
    if (more)
        uv_idle_start(&i->turn, on_turn);
    else
        uv_idle_stop(&i->turn);
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
    watch_side(i, HTTPX_TO_CLIENT);
    watch_side(i, HTTPX_TO_SERVER);
    watch_turn(i);
    watch_time(i);
}
