/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to the other end. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "link/mux_priv.h"

enum { CREDIT_PART = 4 /* of the ceiling: less than that waits for more */, FLAGS_ROOM = 1024 /* for those of one channel */ };

static void put32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static size_t room(const struct mux *m) {
    return LINK_OUT - m->out_len;
}

/* The owner, or the flags of one channel, never make more than there is room for: FLAGS_ROOM, mux_can_send(). */
static uint8_t *frame(struct mux *m, enum link_type type, uint16_t channel, size_t len) {
    uint8_t *p = m->out_buf + m->out_len;

    if (room(m) < LINK_HEADER + len)
        BUG("no room for a frame");
    link_header_encode(&(struct link_header){.type = type, .channel = channel, .len = (uint32_t)len}, p);
    m->out_len += LINK_HEADER + len;
    return p + LINK_HEADER;
}

void mux_hello(struct mux *m) {
    link_hello_encode(&(struct link_hello){.version = LINK_VERSION, .role = m->role}, m->out_buf + m->out_len);
    m->out_len += LINK_HELLO;
}

void mux_bye(struct mux *m, const char *why) {
    size_t len = MIN_OF(strlen(why), (size_t)LINK_SMALL_MAX);

    if (room(m) >= LINK_HEADER + len)
        memcpy(frame(m, LINK_BYE, 0, len), why, len);
}

int mux_open(struct mux *m, const struct link_open *o, struct chan **ret) {
    for (unsigned id = m->role == LINK_NEAR ? 2 : 1; id < LINK_CHANNELS; id += 2)
        if (!m->chans[id].used) {
            if (room(m) < LINK_HEADER + LINK_OPEN_SIZE)
                return -EAGAIN;
            *ret = chan_use(m, (uint16_t)id, o, true);
            link_open_encode(o, frame(m, LINK_OPEN, (uint16_t)id, LINK_OPEN_SIZE));
            return 0;
        }
    return -EMFILE;
}

bool mux_can_send(const struct mux *m) {
    return m->greeted && m->control_credit >= LINK_MESSAGE_MAX + LINK_CONTROL_COST &&
           room(m) >= LINK_MESSAGE_MAX + 4 * (LINK_HEADER + LINK_OPEN_SIZE) + LINK_HEADER;
}

void mux_send(struct mux *m, const uint16_t *channels, size_t n, const void *bytes, size_t len) {
    uint8_t head[LINK_MESSAGE_HEAD], *p;
    size_t head_len = link_message_head(channels, n, head);

    if (head_len + len > LINK_MESSAGE_MAX)
        BUG("a message that is too long");
    p = frame(m, LINK_DATA, LINK_CONTROL, head_len + len);
    memcpy(p, head, head_len);
    if (len)
        memcpy(p + head_len, bytes, len);
    m->control_credit -= (uint32_t)(head_len + len) + LINK_CONTROL_COST;
}

/* -- flags of a channel ---------------------------------------------------------------------------------------------------- */

static void fill_credit(struct mux *m, struct chan *c) {
    if (c->end_received || c->discards || c->owed < c->ceiling / CREDIT_PART)
        return;
    put32(frame(m, LINK_CREDIT, c->id, 4), c->owed);
    c->window += c->owed;
    c->owed = 0;
}

static void fill_ends(struct mux *m, struct chan *c) {
    if (c->stop_due) {
        frame(m, LINK_STOP, c->id, 0);
        c->stop_due = false;
        c->stop_sent = true;
    }
    if (c->end_due) {
        put32(frame(m, LINK_END, c->id, 4), c->end_error);
        c->end_due = false;
        c->end_sent = true;
    }
}

static void fill_tty(struct mux *m, struct chan *c) {
    for (int i = 0; i < 2; i++) {
        if (c->tty_due[i] && !c->end_sent)
            link_tty_encode(&c->tty[i], frame(m, LINK_TTY, c->id, LINK_TTY_BYTES));
        c->tty_due[i] = false;
    }
}

void mux_send_ttys(struct mux *m) {
    for (size_t i = 0; i < m->n_live && room(m) > LINK_MESSAGE_MAX + FLAGS_ROOM; i++)
        fill_tty(m, &m->chans[m->live[i]]);
}

/* True: it is over, and was forgotten. */
static bool fill_closed(struct mux *m, struct chan *c) {
    if (!c->end_sent || !c->end_received || c->queued || c->awaited)
        return false;
    if (!c->ours)
        frame(m, LINK_CLOSED, c->id, 0);
    else if (!c->closed_due)
        return false; /* the other end says when */
    chan_free(m, c);
    return true;
}

static void fill_flags(struct mux *m) {
    for (size_t i = 0; i < m->n_live && room(m) > FLAGS_ROOM;) { /* what is left is made the next time */
        struct chan *c = &m->chans[m->live[i]];

        fill_tty(m, c);
        fill_credit(m, c);
        fill_ends(m, c);
        if (!fill_closed(m, c)) /* else another one has its place */
            i++;
    }
    if (m->control_owed >= LINK_CONTROL_WINDOW / CREDIT_PART) {
        put32(frame(m, LINK_CREDIT, LINK_CONTROL, 4), m->control_owed);
        m->control_window += m->control_owed;
        m->control_owed = 0;
    }
    if (m->ping_due)
        frame(m, LINK_PING, 0, 0);
    if (m->pong_due)
        frame(m, LINK_PONG, 0, 0);
    m->ping_due = m->pong_due = false;
}

/* -- bytes of channels ----------------------------------------------------------------------------------------------------- */

static void fill_data(struct mux *m, struct chan *c) {
    uint8_t *p = m->out_buf + m->out_len;
    bool message = chan_is_message(c->kind);
    size_t max = MIN_OF(room(m) - LINK_HEADER, (size_t)LINK_PAYLOAD_MAX);
    long n;

    if (message)
        n = (long)m->ops->pull_datagram(m->arg, c, p + LINK_HEADER, max);
    else
        n = chan_read(m, c, p + LINK_HEADER, MIN_OF(max, (size_t)c->credit));
    if (n <= 0)
        return;
    frame(m, LINK_DATA, c->id, (size_t)n);
    c->credit -= message ? 0 : (uint32_t)n;
}

static size_t data_room(const struct chan *c) {
    return LINK_HEADER + (chan_is_message(c->kind) ? LINK_DATAGRAM_HEAD + LINK_DATAGRAM_MAX : 4096);
}

/* One frame of each channel that has something, beginning where the last batch stopped. */
static void fill_streams(struct mux *m) {
    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[(m->turn + i) % m->n_live]];

        if (!c->readable || !chan_reads(c))
            continue;
        if (room(m) < data_room(c)) {
            m->turn = (m->turn + i) % m->n_live;
            return;
        }
        c->readable = false;
        fill_data(m, c);
    }
    m->turn = m->n_live ? (m->turn + 1) % m->n_live : 0;
}

void mux_fill(struct mux *m) {
    if (m->out_len || m->deaf || m->mute)
        return;
    fill_flags(m);
    while (mux_can_send(m) && m->ops->pull(m->arg))
        ;
    if (m->greeted)
        fill_streams(m);
    while (m->ops->pull_late && mux_can_send(m) && m->ops->pull_late(m->arg))
        ;
    fill_flags(m); /* ends that were just read */
}

bool mux_flushed(const struct mux *m) {
    return m->out_len == 0;
}

void mux_flush(struct mux *m) {
    while (m->out_at < m->out_len && !m->deaf && !m->mute) {
        ssize_t n = write(m->out, m->out_buf + m->out_at, m->out_len - m->out_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        m->mute = n < 0;
        if (n < 0)
            break;
        m->out_at += (size_t)n;
    }
    m->out_at = m->out_len = 0;
}

int mux_write(struct mux *m) {
    mux_flush(m);
    return m->mute ? -EPIPE : 0;
}
