/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from the other end, which is hostile: each frame is checked against the state of its channel before it changes anything. */
#include <errno.h>
#include <string.h>

#include "link/mux_priv.h"

static uint32_t get32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int take_hello(struct mux *m, const uint8_t *p) {
    enum link_role other = m->role == LINK_NEAR ? LINK_FAR : LINK_NEAR;
    struct link_hello h;
    char text[LINK_WHY_MAX];

    if (link_hello_decode(p, &h) < 0)
        return mux_fail(m, -EPROTO, "the other end does not speak the link's protocol");
    if (h.version != LINK_VERSION) {
        snprintf(text, sizeof text,
                 "the other end speaks version %u of the link's protocol, this one %d: both must be of one Bawn", h.version,
                 LINK_VERSION);
        return mux_fail(m, -EPROTONOSUPPORT, text);
    }
    if (h.role != other)
        return mux_fail(m, -EPROTO, "the other end plays the wrong part");
    m->greeted = true;
    return 0;
}

static int on_open(struct mux *m, uint16_t id, const uint8_t *p) {
    bool near_number = id % 2 == 0;
    struct link_open o;
    struct chan *c;
    int r;

    if (id == LINK_CONTROL || near_number == (m->role == LINK_NEAR))
        return mux_fail(m, -EPROTO, "the other end opened a channel with a number of ours");
    if (m->chans[id].used)
        return mux_fail(m, -EPROTO, "the other end opened a channel twice");
    if (link_open_decode(p, &o) < 0)
        return mux_fail(m, -EPROTO, "the other end opened a channel of no kind");
    c = chan_use(m, id, &o, false);
    r = m->ops->opened(m->arg, c);
    if (r == -EPROTO)
        return mux_fail(m, r, "the other end opened a channel of a kind that is not its own");
    if (r < 0) {
        mux_end(c, (uint32_t)-r);
        mux_stop(m, c);
    }
    return 0;
}

static int put_message_off(struct mux *m, const uint8_t *p, uint32_t len) {
    if (m->messages_at == m->messages_len)
        m->messages_at = m->messages_len = 0;
    if (m->messages_at && m->messages_len + sizeof len + len > LINK_CONTROL_WINDOW) {
        memmove(m->messages, m->messages + m->messages_at, m->messages_len - m->messages_at);
        m->messages_len -= m->messages_at;
        m->messages_at = 0;
    }
    memcpy(m->messages + m->messages_len, &len, sizeof len);
    memcpy(m->messages + m->messages_len + sizeof len, p, len);
    m->messages_len += sizeof len + len;
    return 0;
}

static int pass_message(struct mux *m, const uint8_t *p, uint32_t len) {
    int r = m->ops->message(m->arg, p, len);

    if (r == -EAGAIN)
        return r;
    m->control_owed += len + LINK_CONTROL_COST;
    if (r < 0 && !m->error)
        return mux_fail(m, r, "the other end sent a message that means nothing");
    return r;
}

int mux_retry(struct mux *m) {
    int r = 0;

    while (r == 0 && m->messages_at < m->messages_len) {
        uint32_t len;

        memcpy(&len, m->messages + m->messages_at, sizeof len);
        r = pass_message(m, m->messages + m->messages_at + sizeof len, len);
        if (r != -EAGAIN)
            m->messages_at += sizeof len + len;
    }
    return r == -EAGAIN ? 0 : r;
}

static int on_message(struct mux *m, const uint8_t *p, uint32_t len) {
    uint32_t cost = len + LINK_CONTROL_COST;
    int r;

    if (len > LINK_MESSAGE_MAX)
        return mux_fail(m, -EPROTO, "the other end sent a message that is too long");
    if (cost > m->control_window)
        return mux_fail(m, -EPROTO, "the other end sent more messages than it had credit for");
    m->control_window -= cost;
    r = m->messages_at < m->messages_len ? -EAGAIN : pass_message(m, p, len);
    return r == -EAGAIN ? put_message_off(m, p, len) : r;
}

static int on_credit(struct mux *m, struct chan *c, uint32_t n) {
    uint32_t *credit = c ? &c->credit : &m->control_credit;
    uint32_t max = c ? (uint32_t)LINK_WINDOW_MAX : (uint32_t)LINK_CONTROL_WINDOW;

    if (n > max || *credit > max - n)
        return mux_fail(m, -EPROTO, "the other end gave more credit than there is");
    *credit += n;
    return 0;
}

static int on_end(struct mux *m, struct chan *c, uint32_t error) {
    if (c->end_received)
        return mux_fail(m, -EPROTO, "the other end ended a channel twice");
    chan_received_end(m, c, error > 4095 ? EIO : error);
    return 0;
}

static int on_closed(struct mux *m, struct chan *c) {
    if (!c->ours || !c->end_sent || !c->end_received)
        return mux_fail(m, -EPROTO, "the other end closed a channel that is still in use");
    if (c->queued || c->awaited) { /* the number is not free yet: mux_out.c */
        c->closed_due = true;
        return 0;
    }
    chan_free(m, c);
    return 0;
}

static int on_tty(struct mux *m, struct chan *c, const uint8_t *p) {
    struct link_tty t;

    if (c->kind != LINK_TERMINAL || link_tty_decode(p, &t) < 0)
        return mux_fail(m, -EPROTO, "the other end set modes of something that is no terminal");
    if (m->ops->tty)
        m->ops->tty(m->arg, c, &t);
    return 0;
}

static int on_bye(struct mux *m, const uint8_t *p, uint32_t len) {
    char text[LINK_WHY_MAX];
    int n = snprintf(text, sizeof text, "the other end gave up: ");

    for (uint32_t i = 0; i < len && n < (int)sizeof text - 1; i++) /* its words, for people */
        text[n++] = (char)(p[i] >= 0x20 && p[i] < 0x7f ? p[i] : '?');
    text[n] = 0;
    return mux_fail(m, -ECONNABORTED, text);
}

/* Of a channel that is not open, only what was on its way when it was closed is fine. */
static int on_stale(struct mux *m, const struct link_header *h) {
    bool theirs = (h->channel % 2 == 0) == (m->role == LINK_FAR);

    if (theirs && (h->type == LINK_CREDIT || h->type == LINK_STOP || h->type == LINK_TTY))
        return 0;
    return mux_fail(m, -EPROTO, "the other end spoke about a channel that is not open");
}

static int on_channel_frame(struct mux *m, const struct link_header *h, const uint8_t *p) {
    struct chan *c = mux_chan(m, h->channel);

    if (!c)
        return on_stale(m, h);
    switch (h->type) {
    case LINK_DATA: /* of DATAGRAMS: no credit, what there is no room for is lost */
        if (h->len <= LINK_DATAGRAM_HEAD + LINK_DATAGRAM_MAX && m->ops->datagram)
            m->ops->datagram(m->arg, c, p, h->len);
        return 0;
    case LINK_CREDIT:
        return on_credit(m, c, get32(p));
    case LINK_END:
        return on_end(m, c, get32(p));
    case LINK_STOP:
        mux_end(c, 0);
        return 0;
    case LINK_CLOSED:
        return on_closed(m, c);
    case LINK_TTY:
        return on_tty(m, c, p);
    case LINK_OPEN:
    case LINK_PING:
    case LINK_PONG:
    case LINK_BYE:
        break;
    }
    return mux_fail(m, -EPROTO, "the other end sent a frame of no type");
}

static int on_frame(struct mux *m, const struct link_header *h, const uint8_t *p) {
    switch (h->type) {
    case LINK_OPEN:
        return on_open(m, h->channel, p);
    case LINK_PING:
        m->pong_due = true;
        return 0;
    case LINK_PONG:
        return 0; /* heard_ms says it all */
    case LINK_BYE:
        return on_bye(m, p, h->len);
    case LINK_DATA:
    case LINK_CREDIT:
    case LINK_END:
    case LINK_STOP:
    case LINK_CLOSED:
    case LINK_TTY:
        break;
    }
    if (h->channel != LINK_CONTROL)
        return on_channel_frame(m, h, p);
    if (h->type == LINK_DATA)
        return on_message(m, p, h->len);
    return h->type == LINK_CREDIT ? on_credit(m, NULL, get32(p))
                                  : mux_fail(m, -EPROTO, "the other end closed the control channel");
}

/* DATA of a stream is passed on as it comes, without waiting for the rest of its frame. */
static int begin_data(struct mux *m, const struct link_header *h) {
    struct chan *c = mux_chan(m, h->channel);

    if (!c)
        return on_stale(m, h);
    if (c->end_received)
        return mux_fail(m, -EPROTO, "the other end sent bytes after their end");
    if (h->len > c->window)
        return mux_fail(m, -EPROTO, "the other end sent more bytes than it had credit for");
    if (c->kind == LINK_FILE && h->len > c->open.size - c->brought)
        return mux_fail(m, -EPROTO, "the other end sent more of a file than it announced");
    c->brought += h->len;
    m->data = c;
    m->data_left = h->len;
    return 0;
}

static bool is_stream_data(struct mux *m, const struct link_header *h) {
    const struct chan *c = mux_chan(m, h->channel);

    return h->type == LINK_DATA && h->channel != LINK_CONTROL && !(c && chan_is_message(c->kind));
}

/* 1: a step was made; 0: more has to come. */
static int parse_step(struct mux *m) {
    const uint8_t *p = m->in_buf + m->in_at;
    size_t have = m->in_len - m->in_at;
    struct link_header h;
    int r;

    if (m->data_left) {
        size_t n = MIN_OF(have, (size_t)m->data_left);

        chan_receive(m, m->data, p, n);
        m->data_left -= (uint32_t)n;
        m->in_at += n;
        return n > 0;
    }
    if (!m->greeted) {
        if (have < LINK_HELLO)
            return 0;
        m->in_at += LINK_HELLO;
        r = take_hello(m, p);
        return r < 0 ? r : 1;
    }
    if (have < LINK_HEADER)
        return 0;
    if (link_header_decode(p, &h) < 0)
        return mux_fail(m, -EPROTO, "the other end sent a frame of no type, or of a wrong length");
    if (is_stream_data(m, &h)) {
        m->in_at += LINK_HEADER;
        r = begin_data(m, &h);
        return r < 0 ? r : 1;
    }
    if (have < LINK_HEADER + h.len)
        return 0;
    m->in_at += LINK_HEADER + h.len;
    r = on_frame(m, &h, p + LINK_HEADER);
    return r < 0 ? r : 1;
}

int mux_parse(struct mux *m) {
    int r = 1;

    while (r > 0 && m->in_at < m->in_len)
        r = parse_step(m);
    if (m->in_at == m->in_len) {
        m->in_at = m->in_len = 0;
    } else if (m->in_at) {
        memmove(m->in_buf, m->in_buf + m->in_at, m->in_len - m->in_at);
        m->in_len -= m->in_at;
        m->in_at = 0;
    }
    return r < 0 ? r : 0;
}
