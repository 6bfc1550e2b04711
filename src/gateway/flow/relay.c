/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and splices bytes between two sockets. */
#include "gateway/flow/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "gateway/epoll_set.h"
#include "gateway/gate.h"

enum {
    SPLICE_SMALL = 16 * 1024, /* less than this at once is no bulk any more */
    KEEP_IDLE_S = 120,
    KEEP_INTERVAL_S = 30,
    KEEP_COUNT = 4
};

enum { CLIENT, SERVER, SIDES };

/* Pipes for splicing, used again: making one and giving it its size costs more than a small transfer. */
struct pipe_pair {
    int in, out; /* bytes go into `in` */
    struct pipe_pair *next;
};

struct pipes {
    struct pipe_pair *free;
    size_t n;                     /* that exist, in use or not */
    uint8_t buffer[RELAY_BUFFER]; /* shared by all relays: between two calls nothing is in it */
};

int pipes_new(struct pipes **ret, struct err *err) {
    struct pipes *p = calloc(1, sizeof *p);

    if (!p)
        return err_oom(err);
    *ret = p;
    return 0;
}

static void pair_free(struct pipe_pair *pair) {
    close(pair->in);
    close(pair->out);
    free(pair);
}

void pipes_free(struct pipes *p) {
    if (!p)
        return;
    for (struct pipe_pair *pair = p->free, *next; pair; pair = next) {
        next = pair->next;
        pair_free(pair);
    }
    free(p);
}

/* An empty one, or NULL if all are in use. */
static struct pipe_pair *pipes_take(struct pipes *p) {
    struct pipe_pair *pair = p->free;
    int fds[2];

    if (pair) {
        p->free = pair->next;
        return pair;
    }
    if (p->n >= RELAY_PIPES_MAX || !(pair = calloc(1, sizeof *pair)))
        return NULL;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        free(pair);
        return NULL;
    }
    *pair = (struct pipe_pair){.in = fds[1], .out = fds[0]};
    fcntl(pair->in, F_SETPIPE_SZ, RELAY_PIPE); /* an ordinary user has a share of pipe memory; a smaller pipe works too */
    p->n++;
    return pair;
}

/* Back; with bytes in it: away. */
static void pipes_give(struct pipes *p, struct pipe_pair *pair, bool empty) {
    if (empty) {
        pair->next = p->free;
        p->free = pair;
        return;
    }
    pair_free(pair);
    p->n--;
}

/* One direction. At most one of rest and pipe holds bytes. */
struct relay_half {
    struct relay *relay;
    int from, to; /* sides */
    bool held;    /* check() has not agreed yet */
    bool eof;     /* nothing more comes */
    bool done;    /* and that was carried over */
    uint64_t bytes;
    uint8_t *rest; /* read but not written */
    size_t rest_at, rest_len;
    struct pipe_pair *pipe; /* bulk */
    size_t in_pipe;
};

struct relay {
    struct gate *gate;
    struct relay_opts opts;
    int fd[SIDES];
    struct watch watch[SIDES];
    struct relay_half half[SIDES]; /* by the side it comes from */
    struct deadline deadline;
    uint64_t active_ms;
    bool old;     /* keep-alive is on */
    bool tapped;  /* tap() wants to see more */
    bool refused; /* by tap() */
};

static void relay_finish(struct relay *r, enum relay_end how) {
    r->opts.end(r->opts.arg, how, r->half[CLIENT].bytes, r->half[SERVER].bytes);
}

static bool is_pending(const struct relay_half *h) {
    return h->rest_len || h->in_pipe;
}

static void bulk_end(struct relay_half *h) {
    if (h->pipe)
        pipes_give(h->relay->gate->pipes, TAKE_PTR(h->pipe), h->in_pipe == 0);
}

static void count_half(struct relay_half *h, size_t n) {
    const struct relay_opts *o = &h->relay->opts;

    h->bytes += n;
    if (o->sent && h->from == CLIENT)
        o->sent(o->arg, n);
}

static int store_rest(struct relay_half *h, const uint8_t *data, size_t len) {
    h->rest = malloc(len);
    if (!h->rest)
        return -ENOMEM;
    memcpy(h->rest, data, len);
    h->rest_at = 0;
    h->rest_len = len;
    return 0;
}

static int write_rest(struct relay_half *h) {
    ssize_t n = send(h->relay->fd[h->to], h->rest + h->rest_at, h->rest_len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0)
        return -errno;
    h->rest_at += (size_t)n;
    h->rest_len -= (size_t)n;
    if (!h->rest_len)
        free(TAKE_PTR(h->rest));
    return 0;
}

static int write_pipe(struct relay_half *h) {
    ssize_t n = splice(h->pipe->out, NULL, h->relay->fd[h->to], NULL, h->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    if (n <= 0)
        return n < 0 ? -errno : -EPIPE;
    h->in_pipe -= (size_t)n;
    return 0;
}

/* What waits goes first. 0: nothing waits any more. */
static int write_pending(struct relay_half *h) {
    int r = 0;

    while (r == 0 && is_pending(h))
        r = h->rest_len ? write_rest(h) : write_pipe(h);
    return r;
}

/* Returns how many bytes came, 0 at the end. */
static ssize_t move_bulk(struct relay_half *h) {
    ssize_t n = splice(h->relay->fd[h->from], NULL, h->pipe->in, NULL, RELAY_PIPE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    int r;

    if (n <= 0)
        return n < 0 ? -errno : 0;
    h->in_pipe = (size_t)n;
    count_half(h, (size_t)n);
    r = write_pending(h);
    if (r < 0)
        return r;
    if (n < SPLICE_SMALL)
        bulk_end(h);
    return n;
}

/* False: refused; nothing of it goes on. */
static bool ask_tap(const struct relay_half *h, const uint8_t *data, size_t len) {
    struct relay *r = h->relay;
    int result = r->opts.tap(r->opts.arg, h->from == CLIENT, data, len);

    r->tapped = result == 0;
    r->refused = result < 0;
    return result >= 0;
}

static ssize_t move_copy(struct relay_half *h) {
    uint8_t *buffer = h->relay->gate->pipes->buffer;
    ssize_t n = recv(h->relay->fd[h->from], buffer, RELAY_BUFFER, MSG_DONTWAIT), out;

    if (n <= 0)
        return n < 0 ? -errno : 0;
    if (h->relay->tapped && !ask_tap(h, buffer, (size_t)n))
        return -EACCES;
    count_half(h, (size_t)n);
    out = send(h->relay->fd[h->to], buffer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (out < 0 && errno != EAGAIN)
        return -errno;
    out = MAX_OF(out, 0);
    if (out < n) {
        int r = store_rest(h, buffer + out, (size_t)(n - out));

        return r < 0 ? r : -EAGAIN;
    }
    if (n == RELAY_BUFFER && !h->relay->tapped)
        h->pipe = pipes_take(h->relay->gate->pipes);
    return n;
}

static void carry_end(struct relay_half *h) {
    if (!h->eof || is_pending(h) || h->done)
        return;
    if (!h->relay->half[h->to].done) /* else both are closed now, which says the same */
        shutdown(h->relay->fd[h->to], SHUT_WR);
    h->done = true;
}

/* 0, or what broke the relay. Stops when a read was short: more will be reported by the loop, a read that finds nothing costs
 * as much as one that does. */
static int pump(struct relay_half *h) {
    size_t moved = 0;
    ssize_t n = write_pending(h);

    while (n >= 0 && !h->eof && moved < RELAY_TURN_MAX) {
        bool bulk = h->pipe;

        n = bulk ? move_bulk(h) : move_copy(h);
        if (n == 0)
            h->eof = true;
        if (n <= 0 || (bulk ? n < SPLICE_SMALL : n < RELAY_BUFFER))
            break;
        moved += (size_t)n;
    }
    if (h->eof)
        carry_end(h);
    return n == -EAGAIN || n == -EINTR || n > 0 ? 0 : (int)n;
}

static void client_ready(void *arg, uint32_t events);
static void server_ready(void *arg, uint32_t events);

static int watch_side(struct relay *r, int side, uint32_t events) {
    return watch_start(r->gate->hub, &r->watch[side], r->fd[side], events, side == CLIENT ? client_ready : server_ready, r);
}

static int set_interest(struct relay *r) {
    for (int side = 0; side < SIDES; side++) {
        const struct relay_half *out = &r->half[side], *in = &r->half[!side];
        uint32_t events = (out->eof || is_pending(out) ? 0 : EPOLLIN) | (is_pending(in) ? EPOLLOUT : 0);
        int result = 0;

        if (r->watch[side].fd >= 0)
            result = watch_set(r->gate->hub, &r->watch[side], events);
        else if (events)
            result = watch_side(r, side, events);
        if (result < 0)
            return result;
    }
    return 0;
}

static void side_ready(struct relay *r, int side, uint32_t events) {
    struct relay_half *out = &r->half[side], *in = &r->half[!side];
    int result = 0;

    r->active_ms = uv_now(&r->gate->loop);
    if ((events & EPOLLERR) || ((events & EPOLLHUP) && out->eof)) { /* its peer does not read any more */
        if (!out->eof && !out->held)
            pump(out); /* what it said before still counts */
        relay_finish(r, RELAY_RESET);
        return;
    }
    if ((events & EPOLLHUP) && is_pending(out)) { /* would be reported again and again, and can be read only later */
        watch_stop(r->gate->hub, &r->watch[side]);
        return;
    }
    if (events & EPOLLOUT)
        result = pump(in);
    if (result == 0 && (events & (EPOLLIN | EPOLLHUP)) && !out->eof) {
        result = out->held ? r->opts.check(r->opts.arg) : 0;
        if (result < 0) {
            if (result != -EAGAIN)
                relay_finish(r, RELAY_REFUSED);
            return;
        }
        out->held = false;
        result = pump(out);
    }
    if (result == 0 && in->done && out->done) {
        relay_finish(r, RELAY_DONE);
        return;
    }
    if (result < 0 || set_interest(r) < 0)
        relay_finish(r, r->refused ? RELAY_REFUSED : RELAY_RESET);
}

static void client_ready(void *arg, uint32_t events) {
    side_ready(arg, CLIENT, events);
}

static void server_ready(void *arg, uint32_t events) {
    side_ready(arg, SERVER, events);
}

static void keep_alive(int fd) {
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT},
    };

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

static void relay_tick(void *arg) {
    struct relay *r = arg;
    uint64_t idle = uv_now(&r->gate->loop) - r->active_ms;

    if (!r->old) {
        keep_alive(r->fd[CLIENT]);
        keep_alive(r->fd[SERVER]);
        r->old = true;
    }
    if (idle >= RELAY_IDLE_MS || deadline_set(&r->gate->loop, &r->deadline, RELAY_IDLE_MS - idle, relay_tick, r) < 0)
        relay_finish(r, RELAY_IDLE);
}

static int start_watching(struct relay *r) {
    int result = watch_side(r, CLIENT, EPOLLIN);

    if (result == 0)
        result = watch_side(r, SERVER, EPOLLIN);
    return result < 0 ? result : deadline_set(&r->gate->loop, &r->deadline, RELAY_YOUNG_MS, relay_tick, r);
}

int relay_new(struct gate *g, const struct relay_opts *opts, struct relay **ret) {
    struct relay *r = calloc(1, sizeof *r);
    int result;

    if (!r)
        return -ENOMEM;
    *r = (struct relay){
        .gate = g,
        .opts = *opts,
        .fd = {opts->client, opts->server},
        .watch = {WATCH_INIT, WATCH_INIT},
        .half = {{.relay = r, .from = CLIENT, .to = SERVER, .held = opts->check}, {.relay = r, .from = SERVER, .to = CLIENT}},
        .active_ms = uv_now(&g->loop),
        .tapped = opts->tap,
    };
    result = start_watching(r);
    if (result < 0) {
        relay_free(r);
        return result;
    }
    *ret = r;
    return 0;
}

void relay_begin(struct relay *r) {
    side_ready(r, CLIENT, EPOLLIN);
}

static void relay_done(struct relay *r) {
    for (int side = 0; side < SIDES; side++) {
        bulk_end(&r->half[side]);
        free(r->half[side].rest);
    }
    deadline_done(&r->deadline);
    free(r);
}

void relay_free(struct relay *r) {
    for (int side = 0; r && side < SIDES; side++)
        watch_stop(r->gate->hub, &r->watch[side]);
    if (r)
        relay_done(r);
}

void relay_close(struct relay *r) {
    for (int side = 0; side < SIDES; side++) {
        watch_forget(r->gate->hub, &r->watch[side]);
        close(r->fd[side]);
    }
    relay_done(r);
}

void relay_bytes(const struct relay *r, uint64_t *ret_sent, uint64_t *ret_received) {
    *ret_sent = r->half[CLIENT].bytes;
    *ret_received = r->half[SERVER].bytes;
}
