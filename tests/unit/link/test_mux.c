/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a link over a socket pair, in one process: what goes in comes out, whatever the order of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../fuzz/fuzz_link.c"
#include "../policy/corpus.h"

struct scene {
    struct rig near, far;
};

static void begin(struct scene *s, int buffer) {
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; buffer && i < 2; i++)
        setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    rig_init(&s->near, LINK_NEAR, pair[0]);
    rig_init(&s->far, LINK_FAR, pair[1]);
}

static void end(struct scene *s) {
    rig_done(&s->near);
    rig_done(&s->far);
}

static void turn(struct scene *s) {
    assert_int_equal(mux_turn(&s->near.m), 0);
    assert_int_equal(mux_turn(&s->far.m), 0);
    check_chans(&s->near.m);
    check_chans(&s->far.m);
}

static void turns(struct scene *s, int n) {
    while (n-- > 0)
        turn(s);
}

/* Opens a channel from g; returns its owner's descriptor there, and the one at the other end. */
static struct chan *join(struct scene *s, struct rig *g, enum link_kind kind, int *ret_here, int *ret_there) {
    struct rig *other = g == &s->near ? &s->far : &s->near;
    struct chan *c;

    other->last = NULL;
    turns(s, 2);
    assert_int_equal(mux_open(&g->m, &(struct link_open){.kind = kind}, &c), 0);
    assert_int_equal(rig_join(c), 0);
    for (int i = 0; i < 1000 && !other->last; i++)
        turn(s);
    assert_non_null(other->last);
    *ret_here = TAKE_FD(c->held);
    *ret_there = TAKE_FD(other->last->held);
    fcntl(*ret_here, F_SETFL, O_RDWR | O_NONBLOCK);
    fcntl(*ret_there, F_SETFL, O_RDWR | O_NONBLOCK);
    return c;
}

struct traffic {
    int from, to;
    size_t total, sent, received;
    uint32_t seed, sum_sent, sum_received;
    bool slow, shut, ended;
};

static uint32_t step(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void push(struct traffic *t) {
    uint8_t part[50000];
    size_t some = step(&t->seed) % sizeof part + 1, want = MIN_OF(t->total - t->sent, some);
    ssize_t n;

    for (size_t i = 0; i < want; i++)
        part[i] = (uint8_t)((t->sent + i) * 7 + (t->sent + i) / 251);
    n = t->sent < t->total ? send(t->from, part, want, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    for (ssize_t i = 0; i < n; i++)
        t->sum_sent = t->sum_sent * 31 + part[i];
    t->sent += n > 0 ? (size_t)n : 0;
    if (t->sent == t->total && !t->shut) {
        shutdown(t->from, SHUT_WR);
        t->shut = true;
    }
}

static void take(struct traffic *t) {
    uint8_t part[70000];
    ssize_t n = t->slow && step(&t->seed) % 16 ? -1 : recv(t->to, part, step(&t->seed) % sizeof part + 1, MSG_DONTWAIT);

    for (ssize_t i = 0; i < n; i++)
        t->sum_received = t->sum_received * 31 + part[i];
    t->received += n > 0 ? (size_t)n : 0;
    t->ended |= n == 0;
}

/* Random schedules over many channels at once, both ways, over a stream with a small and with a usual buffer. */
static void run_traffic(int buffer, uint32_t seed) {
    enum { CHANNELS = 6 };
    struct scene s;
    struct traffic t[2 * CHANNELS] = {0};
    bool over = false;

    begin(&s, buffer);
    for (int i = 0; i < CHANNELS; i++) {
        int here, there;

        join(&s, i % 2 ? &s.near : &s.far, LINK_SOCKET, &here, &there);
        t[2 * i] = (struct traffic){.from = here, .to = there, .total = step(&seed) % 3000000, .seed = seed, .slow = i == 1};
        t[2 * i + 1] = (struct traffic){.from = there, .to = here, .total = step(&seed) % 300000, .seed = seed + 1};
    }
    for (int i = 0; i < 1000000 && !over; i++) {
        unsigned what = step(&seed);

        over = true;
        for (int k = 0; k < 2 * CHANNELS; k++) {
            if (what >> k % 8 & 1)
                push(&t[k]);
            if (what >> (k + 3) % 8 & 1)
                take(&t[k]);
            over &= t[k].ended;
        }
        if (what & 0x100)
            assert_int_equal(mux_turn(&s.near.m), 0);
        if (what & 0x200)
            assert_int_equal(mux_turn(&s.far.m), 0);
        check_chans(&s.near.m);
        check_chans(&s.far.m);
    }
    for (int k = 0; k < 2 * CHANNELS; k++) {
        assert_int_equal(t[k].received, t[k].total);
        assert_int_equal(t[k].sum_received, t[k].sum_sent);
    }
    for (int i = 0; i < CHANNELS; i++) {
        close(t[2 * i].from);
        close(t[2 * i].to);
    }
    turns(&s, 20);
    assert_int_equal(s.near.m.n_live, 0); /* every number is free again, at both ends */
    assert_int_equal(s.far.m.n_live, 0);
    assert_int_equal(s.near.m.grown + s.far.m.grown, 0);
    end(&s);
}

static void test_traffic(void **state) {
    for (uint32_t seed = 1; seed <= 3; seed++) {
        run_traffic(0, seed);
        run_traffic(2048, seed + 100);
    }
}

/* A reader that takes nothing holds its own channel up, at a ceiling, and no other one. */
static void test_stuck_reader(void **state) {
    uint8_t part[4096] = {1};
    int from, stuck, here, there;
    size_t in = 0, through = 0;
    struct scene s;
    struct chan *c;

    begin(&s, 0);
    join(&s, &s.near, LINK_SOCKET, &from, &stuck);
    c = s.far.last;
    for (int i = 0; i < 3000; i++) {
        ssize_t n = send(from, part, sizeof part, MSG_DONTWAIT);

        in += n > 0 ? (size_t)n : 0;
        turn(&s);
    }
    assert_true(c->queued > 0 && c->queued <= LINK_WINDOW_MAX);
    assert_true(in < 4u * LINK_WINDOW_MAX + 1000000); /* the rest waits in the sockets, where it came from */
    join(&s, &s.near, LINK_SOCKET, &here, &there);
    for (int i = 0; i < 100000 && through < 3000000; i++) {
        ssize_t n;

        (void)!send(here, part, sizeof part, MSG_DONTWAIT);
        turn(&s);
        n = recv(there, part, sizeof part, MSG_DONTWAIT);
        through += n > 0 ? (size_t)n : 0;
    }
    assert_true(through >= 3000000);
    for (int fds[] = {from, stuck, here, there}, i = 0; i < 4; i++)
        close(fds[i]);
    end(&s);
}

static void test_half_close(void **state) {
    int here, there;
    char c;
    struct scene s;

    begin(&s, 0);
    join(&s, &s.far, LINK_SOCKET, &here, &there);
    assert_int_equal(write(here, "q", 1), 1);
    shutdown(here, SHUT_WR);
    turns(&s, 6);
    assert_int_equal(read(there, &c, 1), 1);
    assert_int_equal(read(there, &c, 1), 0); /* its end is seen, */
    assert_int_equal(write(there, "a", 1), 1);
    turns(&s, 6);
    assert_int_equal(read(here, &c, 1), 1); /* and an answer still comes */
    assert_int_equal(s.near.m.n_live, 1);
    close(there);
    turns(&s, 6);
    assert_int_equal(read(here, &c, 1), 0);
    close(here);
    turns(&s, 10);
    assert_int_equal(s.near.m.n_live + s.far.m.n_live, 0);
    end(&s);
}

/* Who closes its end makes the other one's writes fail, and nothing is left of the channel. */
static void test_closed_reader(void **state) {
    int here, there;
    struct scene s;
    ssize_t n = 0;

    begin(&s, 0);
    join(&s, &s.near, LINK_SOCKET, &here, &there);
    close(there);
    for (int i = 0; i < 100 && n >= 0; i++) {
        n = send(here, "x", 1, MSG_NOSIGNAL);
        turn(&s);
    }
    assert_true(n < 0);
    close(here);
    turns(&s, 10);
    assert_int_equal(s.near.m.n_live + s.far.m.n_live, 0);
    end(&s);
}

static void test_numbers_are_used_again(void **state) {
    struct scene s;

    begin(&s, 0);
    for (int i = 0; i < 3 * LINK_CHANNELS; i++) {
        int here, there;
        struct chan *c = join(&s, i % 2 ? &s.near : &s.far, LINK_SOCKET, &here, &there);

        assert_true(c->id < 8);
        close(here);
        close(there);
        turns(&s, 6);
        assert_int_equal(s.near.m.n_live + s.far.m.n_live, 0);
    }
    end(&s);
}

/* All numbers at once: the next one is refused, not waited for. */
static void test_ceiling_of_channels(void **state) {
    struct scene s;
    struct chan *c;
    unsigned n = 0;
    int r = 0;

    begin(&s, 0);
    turns(&s, 2);
    for (; n < LINK_CHANNELS && r == 0; n++) {
        r = mux_open(&s.far.m, &(struct link_open){.kind = LINK_INPUT}, &c);
        if (n % 64 == 0)
            turns(&s, 4);
    }
    assert_int_equal(r, -EMFILE);
    assert_int_equal(n, LINK_CHANNELS / 2 + 1);
    turns(&s, 10);
    assert_int_equal(s.near.opened, LINK_CHANNELS / 2);
    end(&s);
}

static void test_refused_channel(void **state) {
    struct scene s;
    struct chan *c;

    begin(&s, 0);
    s.near.refuse = true;
    turns(&s, 2);
    assert_int_equal(mux_open(&s.far.m, &(struct link_open){.kind = LINK_SOCKET}, &c), 0);
    assert_int_equal(rig_join(c), 0);
    turns(&s, 8);
    assert_int_equal(s.far.ended, 1);
    assert_int_equal(s.near.m.n_live + s.far.m.n_live, 0);
    end(&s);
}

static void test_messages(void **state) {
    struct scene s;

    begin(&s, 2048);
    s.near.to_send = 50;
    s.far.busy = true;
    turns(&s, 200);
    assert_int_equal(s.far.messages, 0); /* they wait, */
    s.far.busy = false;
    turns(&s, 200);
    assert_int_equal(s.far.messages, 50); /* in order */
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(s.far.message_len[i], (49 - i) * 37 % 4000);
    s.near.to_send = 2000; /* more than the window: credit comes back */
    turns(&s, 4000);
    assert_int_equal(s.far.messages, 2050);
    end(&s);
}

static void test_terminal_sizes(void **state) {
    struct link_tty t = {.what = LINK_TTY_SIZE, .size = {24, 80}};
    int here, there;
    struct scene s;
    struct chan *c;

    begin(&s, 0);
    c = join(&s, &s.far, LINK_TERMINAL, &here, &there);
    for (int i = 0; i < 100; i++) /* only the last one counts */
        mux_tty(c, &t);
    turns(&s, 4);
    assert_int_equal(s.near.ttys, 1);
    close(here);
    close(there);
    end(&s);
}

/* -- a hostile other end --------------------------------------------------------------------------------------------------- */

struct wire {
    uint8_t bytes[300000];
    size_t len;
};

static void add_hello(struct wire *w, uint32_t version, enum link_role role) {
    link_hello_encode(&(struct link_hello){.version = version, .role = role}, w->bytes + w->len);
    w->len += LINK_HELLO;
}

static void add_frame(struct wire *w, enum link_type type, uint16_t channel, const void *payload, uint32_t len) {
    link_header_encode(&(struct link_header){.type = type, .channel = channel, .len = len}, w->bytes + w->len);
    if (payload)
        memcpy(w->bytes + w->len + LINK_HEADER, payload, len);
    w->len += LINK_HEADER + len;
}

static void add_open(struct wire *w, uint16_t channel, enum link_kind kind) {
    uint8_t o[LINK_OPEN_SIZE];

    link_open_encode(&(struct link_open){.kind = kind, .size = kind == LINK_FILE ? 6 : 0}, o);
    add_frame(w, LINK_OPEN, channel, o, sizeof o);
}

/* What the near end says about these bytes, after which the other end is gone. */
static void hear(const struct wire *w, char ret[static LINK_WHY_MAX], int *ret_error) {
    struct rig g;
    int pair[2];
    size_t at = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    rig_init(&g, LINK_NEAR, pair[0]);
    for (int i = 0; i < 10000 && !g.m.error; i++) {
        ssize_t n = at < w->len ? send(pair[1], w->bytes + at, w->len - at, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        at += n > 0 ? (size_t)n : 0;
        if (at == w->len)
            shutdown(pair[1], SHUT_WR);
        (void)mux_turn(&g.m);
        check_chans(&g.m);
    }
    snprintf(ret, LINK_WHY_MAX, "%s", g.m.why);
    *ret_error = g.m.error;
    rig_done(&g);
    close(pair[1]);
}

static void assert_ends(const struct wire *w, int error, const char *why) {
    char text[LINK_WHY_MAX];
    int r;

    hear(w, text, &r);
    if (!strstr(text, why))
        fail_msg("'%s' instead of '%s'", text, why);
    assert_int_equal(r, error);
}

static struct wire greeting(void) {
    struct wire w = {.len = 0};

    add_hello(&w, LINK_VERSION, LINK_FAR);
    return w;
}

static void test_handshake(void **state) {
    static struct wire w;

    memcpy(w.bytes, "HTTP/1.1 400 Bad Request\r\n", w.len = 26);
    assert_ends(&w, -EPROTO, "does not speak the link's protocol");
    w.len = 0;
    add_hello(&w, 7, LINK_FAR);
    assert_ends(&w, -EPROTONOSUPPORT, "speaks version 7 of the link's protocol, this one 1");
    w.len = 0;
    add_hello(&w, LINK_VERSION, LINK_NEAR);
    assert_ends(&w, -EPROTO, "plays the wrong part");
    w = greeting();
    assert_ends(&w, -ECONNRESET, "the other end is gone");
}

static void test_ignored_credit(void **state) {
    static struct wire w;

    w = greeting();
    add_open(&w, 1, LINK_SOCKET);
    add_frame(&w, LINK_DATA, 1, NULL, LINK_WINDOW + 1);
    assert_ends(&w, -EPROTO, "more bytes than it had credit for");
    w = greeting();
    for (int i = 0; i < 3; i++)
        add_frame(&w, LINK_CREDIT, 0, "\xff\xff\xff\x7f", 4);
    assert_ends(&w, -EPROTO, "more credit than there is");
}

static void test_numbers(void **state) {
    static struct wire w;

    w = greeting();
    add_open(&w, 1, LINK_SOCKET);
    add_open(&w, 1, LINK_SOCKET);
    assert_ends(&w, -EPROTO, "opened a channel twice");
    w = greeting();
    add_open(&w, 2, LINK_SOCKET);
    assert_ends(&w, -EPROTO, "a number of ours");
    w = greeting();
    add_open(&w, 0, LINK_SOCKET);
    assert_ends(&w, -EPROTO, "a number of ours");
    w = greeting();
    add_frame(&w, LINK_DATA, 9, "x", 1);
    assert_ends(&w, -EPROTO, "a channel that is not open");
    w = greeting();
    add_frame(&w, LINK_END, 0, "\0\0\0", 4);
    assert_ends(&w, -EPROTO, "closed the control channel");
}

static void test_long_file(void **state) {
    static struct wire w;

    w = greeting();
    add_open(&w, 1, LINK_FILE);
    add_frame(&w, LINK_DATA, 1, "seven b", 7);
    assert_ends(&w, -EPROTO, "more of a file than it announced");
}

static void test_states(void **state) {
    static struct wire w;

    w = greeting();
    add_open(&w, 1, LINK_INPUT);
    add_frame(&w, LINK_END, 1, "\0\0\0", 4);
    add_frame(&w, LINK_END, 1, "\0\0\0", 4);
    assert_ends(&w, -EPROTO, ""); /* twice, or of a channel that is gone by then */
    w = greeting();
    add_open(&w, 1, LINK_OUTPUT);
    add_frame(&w, LINK_DATA, 1, "x", 1);
    assert_ends(&w, -EPROTO, "bytes after their end");
    w = greeting();
    add_open(&w, 1, LINK_SOCKET);
    add_frame(&w, LINK_CLOSED, 1, NULL, 0);
    assert_ends(&w, -EPROTO, "still in use");
    w = greeting();
    add_open(&w, 1, LINK_SOCKET);
    add_frame(&w, LINK_TTY, 1, NULL, LINK_TTY_BYTES);
    assert_ends(&w, -EPROTO, "no terminal");
    w = greeting();
    add_frame(&w, LINK_BYE, 0, "no\033 room", 8);
    assert_ends(&w, -ECONNABORTED, "the other end gave up: no? room");
    w = greeting();
    memset(w.bytes + w.len, 0xff, 8);
    w.len += 8;
    assert_ends(&w, -EPROTO, "of no type");
}

/* -- the link is cut at any byte ------------------------------------------------------------------------------------------- */

/* What a far end says in a session with everything in it. */
static void record(struct wire *w) {
    uint8_t tty[LINK_TTY_BYTES];

    *w = greeting();
    add_frame(w, LINK_DATA, LINK_CONTROL, "\0hello", 6);
    add_open(w, 1, LINK_SOCKET);
    add_frame(w, LINK_DATA, 1, "some bytes", 10);
    add_open(w, 3, LINK_TERMINAL);
    link_tty_encode(&(struct link_tty){.what = LINK_TTY_MODES}, tty);
    add_frame(w, LINK_TTY, 3, tty, sizeof tty);
    add_open(w, 5, LINK_DATAGRAMS);
    add_frame(w, LINK_DATA, 5, "a question", 10);
    add_frame(w, LINK_PING, 0, NULL, 0);
    add_open(w, 7, LINK_FILE);
    add_frame(w, LINK_DATA, 7, "a file", 6);
    add_frame(w, LINK_END, 7, "\0\0\0", 4);
    add_frame(w, LINK_STOP, 1, NULL, 0);
    add_frame(w, LINK_END, 1, "\0\0\0", 4);
    add_frame(w, LINK_CREDIT, 3, "\1\0\0", 4);
    add_frame(w, LINK_PONG, 0, NULL, 0);
}

static void test_cut_anywhere(void **state) {
    static struct wire w;
    size_t whole;

    record(&w);
    whole = w.len;
    for (w.len = 0; w.len <= whole; w.len++) {
        char why[LINK_WHY_MAX];
        int r;

        hear(&w, why, &r);
        assert_int_equal(r, -ECONNRESET);
        assert_true(strstr(why, "cut in the middle of a frame") || strstr(why, "the other end is gone"));
    }
}

/* Every bit of it the other way round: it ends, and nothing else happens. */
static void test_every_bit(void **state) {
    static struct wire w;

    record(&w);
    for (size_t bit = 0; bit < w.len * 8; bit++) {
        char why[LINK_WHY_MAX];
        int r;

        w.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        hear(&w, why, &r);
        assert_true(r < 0 && why[0]);
        w.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void test_silence(void **state) {
    struct scene s;

    begin(&s, 0);
    turns(&s, 4);
    s.near.m.heard_ms -= LINK_PING_MS; /* as if so much time had passed */
    turns(&s, 4);
    assert_false(s.near.m.pinged); /* it was answered */
    s.near.m.heard_ms -= LINK_PING_MS;
    assert_int_equal(mux_turn(&s.near.m), 0);
    assert_true(s.near.m.pinged);
    s.near.m.heard_ms -= LINK_DEAD_MS;
    assert_int_equal(mux_turn(&s.near.m), -ETIMEDOUT);
    assert_string_equal(s.near.m.why, "the other end does not answer");
    end(&s);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/link", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_stuck_reader),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_closed_reader),
        cmocka_unit_test(test_numbers_are_used_again),
        cmocka_unit_test(test_ceiling_of_channels),
        cmocka_unit_test(test_refused_channel),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_terminal_sizes),
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_ignored_credit),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_long_file),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
