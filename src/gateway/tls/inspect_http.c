/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP of an inspected connection. */
#include <errno.h>
#include <sys/socket.h>

#include "gateway/tls/inspect_priv.h"

int inspect_open(struct inspect *i, enum httpx_kind kind) {
    struct httpx_opts *o = &i->opts.http;

    o->kind = kind;
    o->trouble = i->has_trouble ? i->why : NULL;
    return httpx_new(o, &i->http);
}

/*
 * A server that vanishes within an answer has not ended it. The client must notice, too, even where only the end of the
 * connection says how long a body is: no close_notify, or a reset.
 */
static void cut_client(struct inspect *i) {
    struct inspect_side *client = inspect_client(i);
    struct linger now = {.l_onoff = 1};

    if (!client->s.ssl)
        setsockopt(client->s.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    i->bad = i->cut = true;
    i->how = INSPECT_SERVER_GONE;
}

static bool gone(struct inspect *i, enum httpx_way side) {
    if (side == HTTPX_TO_CLIENT) {
        inspect_finish(i, httpx_busy(i->http) ? INSPECT_CLIENT_GONE : INSPECT_DONE);
        return false;
    }
    i->side[side].eof = i->side[side].shut = true;
    if (i->opts.http.kind == HTTPX_H1 && httpx_is_answering(i->http) && httpx_busy(i->http))
        cut_client(i);
    else
        httpx_eof(i->http, HTTPX_TO_CLIENT);
    return true;
}

static bool can_pull(struct inspect *i, enum httpx_way way) {
    return !i->side[!way].eof && !i->bad && httpx_wants(i->http, way);
}

/* A function of its own: room for its buffer costs a touch of each of its pages. */
__attribute__((noinline)) static bool pull_chunk(struct inspect *i, enum httpx_way way) {
    struct inspect_side *from = &i->side[!way];
    CHUNK_BUFFER data[INSPECT_CHUNK];
    ssize_t n = stream_read(&from->s, data, sizeof data);

    if (n == -EAGAIN)
        return false;
    if (n < 0)
        return gone(i, !way);
    i->clock.moved = uv_now(&i->gate->loop);
    if (n == 0) {
        from->eof = true;
        httpx_eof(i->http, way);
        return true;
    }
    if (way == HTTPX_TO_CLIENT)
        i->received += (uint64_t)n;
    if (httpx_data(i->http, way, data, (size_t)n) < 0) {
        i->bad = true;
        i->how = INSPECT_PROTOCOL;
    }
    if (way == HTTPX_TO_CLIENT && inspect_covers(i)) {
        explicit_bzero(data, (size_t)n);
        i->clock.pause = i->clock.pause ? i->clock.pause : i->clock.moved + INSPECT_PAUSE_MS;
    }
    return true;
}

/* Reads what goes this way. True if something happened; look at i->state afterwards. */
static bool pull_bytes(struct inspect *i, enum httpx_way way) {
    return i->side[!way].s.readable && can_pull(i, way) && pull_chunk(i, way);
}

/* What cannot be written any more is thrown away, so that httpx does not wait for it. */
static void discard(struct inspect *i, enum httpx_way way) {
    const uint8_t *data;
    size_t n;

    while ((n = httpx_out(i->http, way, &data)))
        httpx_wrote(i->http, way, n);
}

/* Everything was written that way; true if the peer knows that. */
static bool shut(struct inspect *i, enum httpx_way way) {
    struct inspect_side *to = &i->side[way];

    if (to->shut || !(i->bad || httpx_finished(i->http, way)))
        return false;
    if (i->cut) {
        inspect_finish(i, i->how);
        return false;
    }
    to->shut = stream_shutdown(&to->s) != -EAGAIN;
    return to->shut;
}

static void count_sent(struct inspect *i, size_t n) {
    i->sent += n;
    if (i->opts.sent)
        i->opts.sent(i->opts.arg, n);
}

/* Hooks may be called in httpx_wrote(), and free us. */
static bool push_bytes(struct inspect *i, enum httpx_way way) {
    struct inspect_side *to = &i->side[way];
    const uint8_t *data;
    bool moved = false;
    size_t len;

    if (to->shut)
        discard(i, way);
    while ((len = httpx_out(i->http, way, &data)) && to->s.writable) {
        ssize_t n = stream_write(&to->s, data, len);

        if (n == -EAGAIN)
            return moved;
        if (n < 0) { /* the server may have answered before it closed: that is read first */
            to->shut = true;
            return way == HTTPX_TO_SERVER || gone(i, way);
        }
        if (way == HTTPX_TO_SERVER)
            count_sent(i, (size_t)n);
        i->clock.moved = uv_now(&i->gate->loop);
        moved = true;
        httpx_wrote(i->http, way, (size_t)n);
        if (i->state != STATE_OPEN)
            return false;
    }
    return (!len && shut(i, way)) || moved;
}

static bool move(struct inspect *i) {
    bool moved = false;

    for (enum httpx_way way = HTTPX_TO_CLIENT; way <= HTTPX_TO_SERVER && i->state == STATE_OPEN; way++)
        moved = pull_bytes(i, way) || moved;
    for (enum httpx_way way = HTTPX_TO_CLIENT; way <= HTTPX_TO_SERVER && i->state == STATE_OPEN; way++)
        moved = push_bytes(i, way) || moved;
    return moved;
}

/* A request that was refused at once counts, too. */
static void note_busy(struct inspect *i) {
    bool busy = httpx_busy(i->http);
    uint64_t judged = httpx_judged(i->http);

    if (busy || i->busy || judged != i->judged)
        i->clock.since = uv_now(&i->gate->loop);
    i->busy = busy;
    i->judged = judged;
}

void inspect_step_open(struct inspect *i) {
    unsigned rounds = 0;

    while (i->state == STATE_OPEN && rounds < INSPECT_ROUNDS && move(i))
        rounds++;
    if (i->state == STATE_OPEN && inspect_client(i)->reset) /* otherwise noticed only when it is written to */
        gone(i, HTTPX_TO_CLIENT);
    if (i->state != STATE_OPEN)
        return;
    note_busy(i);
    if (inspect_client(i)->shut)
        inspect_drain(i, i->bad ? i->how : i->has_trouble ? i->trouble : INSPECT_DONE);
}

int inspect_open_events(struct inspect *i, enum httpx_way way) {
    const struct inspect_side *side = &i->side[way];

    return stream_events(&side->s, can_pull(i, !way), !side->shut && !side->s.writable);
}

/* A server whose bytes were not read has not paused. */
void inspect_pause(struct inspect *i) {
    bool again = !inspect_server(i)->eof && (!can_pull(i, HTTPX_TO_CLIENT) || httpx_pause(i->http));

    i->clock.pause = again ? uv_now(&i->gate->loop) + INSPECT_PAUSE_MS : 0;
}

bool inspect_has_more(struct inspect *i) {
    for (enum httpx_way way = HTTPX_TO_CLIENT; way <= HTTPX_TO_SERVER; way++)
        if (i->side[!way].s.readable && can_pull(i, way))
            return true;
    return false;
}

void inspect_drain(struct inspect *i, enum inspect_end how) {
    struct inspect_side *client = inspect_client(i);

    if (!client->shut)
        stream_shutdown(&client->s);
    client->shut = true;
    inspect_close_side(inspect_server(i));
    i->how = how;
    inspect_enter(i, STATE_DRAIN);
}

void inspect_step_drain(struct inspect *i) {
    struct inspect_side *client = inspect_client(i);
    CHUNK_BUFFER data[INSPECT_CHUNK];
    ssize_t n = 1;

    for (unsigned k = 0; !client->eof && n > 0 && k < INSPECT_ROUNDS; k++)
        n = recv(client->s.fd, data, sizeof data, MSG_DONTWAIT);
    if (client->eof || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        inspect_finish(i, i->how);
}
