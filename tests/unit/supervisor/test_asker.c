/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims (N6): equal questions are one, too many are denied unasked, no answer is a no; a question on the terminal leaves the screen as it was,
 * and neither the inside nor what was typed before it was shown can answer it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/network/asker.h"
#include "supervisor/terminal/stdio.h"

enum { TIMEOUT_MS = 60000, IDS_MAX = 2000 };

static struct buf seen = BUF_INIT(1 << 16);

/* What came back. */
static struct {
    size_t calls, n;
    uint32_t ids[IDS_MAX];
    enum gate_answer answer;
    char host[256];
} got;

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static void answered(void *arg, const struct gate_msg *q, const uint32_t *ids, size_t n, enum gate_answer answer) {
    got.calls++;
    for (size_t i = 0; i < n; i++)
        got.ids[got.n++ % IDS_MAX] = ids[i];
    got.answer = answer;
    snprintf(got.host, sizeof got.host, "%s", q->host);
}

static int setup(void **state) {
    memset(&got, 0, sizeof got);
    buf_clear(&seen);
    log_set_sink(sink);
    return 0;
}

static int teardown(void **state) {
    log_set_sink(NULL);
    buf_done(&seen);
    return 0;
}

static struct asker *new_asker(struct asker_opts o) {
    struct asker *a = NULL;
    struct err err = {0};

    o.environ_ = environ;
    sigemptyset(&o.mask);
    if (asker_new(&o, &a, &err) < 0)
        fail_msg("%s", err.msg);
    asker_listen(a, answered, NULL);
    return a;
}

static void ask(struct asker *a, uint32_t id, const char *host, uint32_t port) {
    struct gate_msg m = {.type = GATE_MSG_ASK, .id = id, .port = port};

    snprintf(m.host, sizeof m.host, "%s", host);
    asker_ask(a, &m);
}

static void wait_ms(uint64_t ms) {
    uint64_t until = clock_ms() + ms;

    while (clock_ms() < until)
        usleep(2000);
}

static void test_merged(void **state) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1 << 16);
    struct asker *a = new_asker((struct asker_opts){.timeout_ms = TIMEOUT_MS, .say = true});

    for (uint32_t i = 0; i < 100; i++)
        ask(a, i, "a.example", 443);
    ask(a, 200, "a.example", 80);
    asker_pending_json(a, &out);
    assert_non_null(strstr(buf_str(&out), "\"waiting\":100"));
    assert_non_null(strstr(buf_str(&seen), "bawn policy approve 1"));
    assert_int_equal(asker_answer(a, 1, GATE_ALLOW_ONCE, ""), 0);
    assert_int_equal(got.calls, 1);
    assert_int_equal(got.n, 100);
    assert_int_equal(asker_answer(a, 1, GATE_ALLOW_ONCE, ""), -ENOENT);
    assert_int_equal(asker_answer(a, 2, GATE_DENY, ""), 0);
    assert_int_equal(got.answer, GATE_DENY);
    asker_free(a);
}

static void test_too_many(void **state) {
    struct asker *a = new_asker((struct asker_opts){.timeout_ms = TIMEOUT_MS});
    char host[32];

    for (uint32_t i = 0; i < ASKER_PER_MINUTE + 5; i++) {
        snprintf(host, sizeof host, "h%u.example", i);
        ask(a, i, host, 443);
    }
    assert_int_equal(got.calls, 5);
    assert_int_equal(got.answer, GATE_DENY);
    assert_int_equal(got.ids[0], ASKER_PER_MINUTE);
    assert_non_null(strstr(buf_str(&seen), "denied without asking"));
    assert_null(strstr(strstr(buf_str(&seen), "denied without asking") + 1, "denied without asking"));
    ask(a, 99, "h1.example", 443); /* waits already, so it is no new question */
    assert_int_equal(got.calls, 5);
    for (uint32_t i = 0; i < ASKER_IDS_MAX + 10; i++)
        ask(a, 1000 + i, "h1.example", 443);
    assert_true(got.calls > 5);
    asker_free(a);
}

static void test_no_answer(void **state) {
    struct asker *a = new_asker((struct asker_opts){.timeout_ms = 30});

    ask(a, 7, "a.example", 443);
    asker_handle(a);
    assert_int_equal(got.calls, 0);
    assert_in_range(asker_timeout(a), 0, 30);
    wait_ms(31);
    asker_handle(a);
    assert_int_equal(got.calls, 1);
    assert_int_equal(got.answer, GATE_DENY);
    assert_int_equal(asker_timeout(a), -1);
    asker_free(a);
}

static void test_cancelled(void **state) {
    struct asker *a = new_asker((struct asker_opts){.timeout_ms = TIMEOUT_MS});

    ask(a, 1, "a.example", 443);
    ask(a, 2, "a.example", 443);
    asker_cancel(a, 1);
    asker_cancel(a, 17);
    assert_int_equal(asker_answer(a, 1, GATE_ALLOW_ONCE, ""), 0);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.ids[0], 2);
    ask(a, 3, "a.example", 443);
    asker_cancel(a, 3);
    assert_int_equal(asker_answer(a, 2, GATE_ALLOW_ONCE, ""), -ENOENT);
    asker_free(a);
}

/* The hook ---------------------------------------------------------------------------------------------------- */

static void write_hook(char *path, size_t size, const char *text) {
    int fd;

    snprintf(path, size, "/tmp/bawn-hook-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fchmod(fd, 0755);
    close(fd);
}

static void turns(struct asker *a) {
    while (got.calls == 0) {
        struct pollfd p[ASKER_POLL_MAX];
        size_t n = asker_poll(a, p);

        poll(p, n, MAX_OF(asker_timeout(a), 0));
        asker_handle(a);
    }
}

static void test_hook(void **state) {
    static const struct {
        const char *text;
        enum gate_answer answer;
    } table[] = {
        {"#!/bin/sh\ngrep -q '\"host\":\"a.example\",\"port\":443' && echo allow\n", GATE_ALLOW_ONCE},
        {"#!/bin/sh\necho session\nsleep 100\n", GATE_ALLOW_SESSION},
        {"#!/bin/sh\nprintf always\n", GATE_ALLOW_ALWAYS},
        {"#!/bin/sh\necho deny\n", GATE_DENY},
        {"#!/bin/sh\necho allowance\n", GATE_DENY},
        {"#!/bin/sh\nexit 1\n", GATE_DENY},
        {"#!/bin/sh\nyes allow | tr -d '\\n'\n", GATE_DENY},
        {"#!/no/such/program\n", GATE_DENY},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char path[64];
        struct asker *a;

        memset(&got, 0, sizeof got);
        write_hook(path, sizeof path, table[i].text);
        a = new_asker((struct asker_opts){.timeout_ms = TIMEOUT_MS, .hook = path});
        ask(a, 5, "a.example", 443);
        turns(a);
        assert_int_equal(got.answer, table[i].answer);
        asker_free(a);
        unlink(path);
    }
}

static void test_hook_that_hangs(void **state) {
    char path[64];
    struct asker *a;

    write_hook(path, sizeof path, "#!/bin/sh\nsleep 1000 & sleep 1000\n");
    a = new_asker((struct asker_opts){.timeout_ms = 50, .hook = path});
    ask(a, 5, "a.example", 443);
    turns(a);
    assert_int_equal(got.answer, GATE_DENY);
    asker_free(a);
    unlink(path);
}

/* The terminal ------------------------------------------------------------------------------------------------ */

struct scene {
    struct stdio io;
    int master, slave; /* the user's terminal: master is the person */
    int inside;        /* the command's */
    struct asker *a;
    struct buf screen;
};

static void begin(struct scene *s) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct stdio_opts opts;
    struct err err = {0};
    int master;

    *s = (struct scene){.screen = BUF_INIT(1 << 20)};
    assert_int_equal(openpty(&s->master, &s->slave, NULL, NULL, &size), 0);
    fcntl(s->master, F_SETFL, O_NONBLOCK);
    opts = (struct stdio_opts){.fd = {s->slave, s->slave, s->slave}};
    assert_int_equal(stdio_init(&s->io, &opts, &err), 0);
    assert_int_equal(openpty(&master, &s->inside, NULL, NULL, NULL), 0);
    assert_int_equal(stdio_attach_master(&s->io, master, &err), 0);
    stdio_start(&s->io);
    s->a = new_asker((struct asker_opts){.timeout_ms = TIMEOUT_MS, .term = &s->io});
}

static void end(struct scene *s) {
    asker_free(s->a);
    stdio_done(&s->io);
    close(s->master);
    close(s->slave);
    close(s->inside);
    buf_done(&s->screen);
}

/* One turn of the supervisor's loop, and what the person sees then. */
static void turn(struct scene *s) {
    struct pollfd fds[STDIO_POLL_MAX];
    char part[4096];
    size_t n = stdio_poll_fds(&s->io, fds);
    ssize_t k;

    poll(fds, n, 5);
    stdio_handle(&s->io, fds, n);
    asker_handle(s->a);
    while ((k = read(s->master, part, sizeof part)) > 0)
        buf_add(&s->screen, part, (size_t)k);
}

static void turn_until(struct scene *s, const char *text) {
    while (!strstr(buf_str(&s->screen), text))
        turn(s);
}

static void type(struct scene *s, const char *keys) {
    assert_int_equal(write(s->master, keys, strlen(keys)), strlen(keys));
}

static void show(struct scene *s) {
    ask(s->a, 1, "a.example", 443);
    turn_until(s, "a.example:443");
    wait_ms(ASKER_DEAF_MS + 1);
}

static void set_raw_inside(const struct scene *s) {
    struct termios t;

    assert_int_equal(tcgetattr(s->inside, &t), 0);
    cfmakeraw(&t);
    assert_int_equal(tcsetattr(s->inside, TCSANOW, &t), 0);
    fcntl(s->inside, F_SETFL, O_NONBLOCK);
}

static void test_terminal(void **state) {
    char key[8];
    struct scene s;

    begin(&s);
    set_raw_inside(&s);
    assert_int_equal(write(s.inside, "before", 6), 6);
    turn_until(&s, "before");
    show(&s);
    assert_non_null(strstr(buf_str(&s.screen), "before\033[?1049h"));
    assert_int_equal(write(s.inside, "while", 5), 5); /* waits until the question is gone */
    for (int i = 0; i < 10; i++)
        turn(&s);
    assert_null(strstr(buf_str(&s.screen), "while"));
    type(&s, "s");
    while (got.calls == 0)
        turn(&s);
    assert_int_equal(got.answer, GATE_ALLOW_SESSION);
    turn_until(&s, "\033[?1049lwhile");
    assert_int_equal(read(s.inside, key, sizeof key), -1); /* the key was the question's */
    type(&s, "k");
    while (read(s.inside, key, sizeof key) != 1)
        turn(&s);
    assert_int_equal(key[0], 'k');
    end(&s);
}

/* Type-ahead, answers of the terminal to the command's queries, and Escape. */
static void test_not_an_answer(void **state) {
    struct scene s;

    begin(&s);
    set_raw_inside(&s);
    ask(s.a, 1, "a.example", 443);
    turn_until(&s, "a.example:443");
    type(&s, "a");
    for (int i = 0; i < 10; i++)
        turn(&s);
    assert_int_equal(got.calls, 0);
    wait_ms(ASKER_DEAF_MS + 1);
    type(&s, "\033]11;rgb:aaaa/aaaa/aaaa\033\\");
    for (int i = 0; i < 30; i++)
        turn(&s);
    assert_int_equal(got.calls, 0);
    type(&s, "\033");
    while (got.calls == 0)
        turn(&s);
    assert_int_equal(got.answer, GATE_DENY);
    end(&s);
}

static struct winsize size_inside(const struct scene *s) {
    struct winsize w;

    assert_int_equal(ioctl(s->inside, TIOCGWINSZ, &w), 0);
    return w;
}

static void test_full_screen_program(void **state) {
    struct scene s;

    begin(&s);
    set_raw_inside(&s);
    assert_int_equal(write(s.inside, "\033[?1049hx", 9), 9);
    turn_until(&s, "\033[?1049hx");
    show(&s);
    assert_non_null(strstr(buf_str(&s.screen), "\033[999;1H"));
    assert_null(strstr(strstr(buf_str(&s.screen), "1049h") + 1, "1049h")); /* its own screen stays */
    type(&s, "o");
    while (got.calls == 0)
        turn(&s);
    assert_int_equal(got.answer, GATE_ALLOW_ONCE);
    assert_int_equal(size_inside(&s).ws_row, 23); /* makes it draw again, */
    while (size_inside(&s).ws_row != 24)          /* and then it is as before */
        turn(&s);
    end(&s);
}

/* A host as long as can be, on a narrow terminal: its end, which says whose it is, and the keys stay. */
static void test_long_host(void **state) {
    char host[254];
    struct scene s;

    begin(&s);
    set_raw_inside(&s);
    memset(host, 'a', sizeof host);
    for (size_t i = 60; i < sizeof host; i += 60)
        host[i] = '.';
    snprintf(host + 240, sizeof host - 240, ".evil.example");
    assert_int_equal(write(s.inside, "\033[?47h", 6), 6);
    turn_until(&s, "\033[?47h");
    ask(s.a, 1, host, 443);
    turn_until(&s, "d no");
    assert_non_null(strstr(buf_str(&s.screen), ".evil.example:443? o once, s this run, a always, d no"));
    end(&s);
}

/* The command ends, or the person hangs up, while a question is shown. */
static void test_gone(void **state) {
    struct scene s;

    begin(&s);
    show(&s);
    close(s.master);
    s.master = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (got.calls == 0)
        turn(&s);
    assert_int_equal(got.answer, GATE_DENY);
    end(&s);

    memset(&got, 0, sizeof got);
    begin(&s);
    show(&s);
    stdio_finish(&s.io);
    turn_until(&s, "\033[?1049l");
    assert_int_equal(got.calls, 0);
    end(&s);
}

#define ASK_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ASK_TEST(test_merged),    ASK_TEST(test_too_many),      ASK_TEST(test_no_answer),
        ASK_TEST(test_cancelled), ASK_TEST(test_hook),          ASK_TEST(test_hook_that_hangs),
        ASK_TEST(test_terminal),  ASK_TEST(test_not_an_answer), ASK_TEST(test_full_screen_program),
        ASK_TEST(test_long_host), ASK_TEST(test_gone),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
