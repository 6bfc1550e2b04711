/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: the command sees its descriptors as without a sandbox; nothing that leads out is handed in (ATTACKS 19, 26, 77);
 * the user's terminal is left as found. "outer" is the user's terminal, the test is the person in front of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

enum { BULK = 100 * 1000 * 1000 };

static int null_fd(void) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void outer_open(int *master, int *slave) {
    struct winsize size = {.ws_row = 33, .ws_col = 77};

    assert_int_equal(openpty(master, slave, NULL, NULL, &size), 0);
    fcntl(*master, F_SETFD, FD_CLOEXEC);
    fcntl(*slave, F_SETFD, FD_CLOEXEC);
}

static void start(struct stdio *s, int in, int out, int err_fd, struct stdio_wish wish) {
    struct stdio_opts opts = {.fd = {in, out, err_fd}, .wish = wish};
    struct err err = {0};

    if (stdio_init(s, &opts, &err) < 0)
        fail_msg("%s", err.msg);
}

static int start_pty(struct stdio *s, int in, int out, int err_fd, struct stdio_wish wish) {
    struct err err = {0};
    int master, slave = -1;

    start(s, in, out, err_fd, wish);
    assert_true(s->plan.pty);
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0 || stdio_attach_master(s, master, &err) < 0)
        fail_msg("%s", err.msg);
    stdio_start(s);
    return slave;
}

/* One turn of the supervisor's loop. */
static void turn(struct stdio *s, int timeout) {
    struct pollfd fds[STDIO_POLL_MAX];
    size_t n = stdio_poll_fds(s, fds);
    int own = stdio_timeout_ms(s);

    poll(fds, n, own >= 0 && own < timeout ? own : timeout);
    stdio_handle(s, fds, n);
}

/* Turns until fd has something to read, and reads it. */
static ssize_t turn_and_read(struct stdio *s, int fd, char *buf, size_t size) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    while (poll(&p, 1, 0) == 0)
        turn(s, 10);
    n = read(fd, buf, size - 1);
    buf[n > 0 ? n : 0] = 0;
    return n;
}

static void expect_read(struct stdio *s, int fd, const char *text) {
    char got[4096] = "", part[1024];

    while (strlen(got) < strlen(text)) {
        ssize_t n = turn_and_read(s, fd, part, sizeof part);

        assert_true(n > 0);
        assert_true(strlen(got) + (size_t)n < sizeof got);
        memcpy(got + strlen(got), part, (size_t)n + 1);
    }
    assert_string_equal(got, text);
}

static void type(int master, const char *keys) {
    assert_int_equal(write(master, keys, strlen(keys)), strlen(keys));
}

/* Plans ------------------------------------------------------------------------------------------------------ */

#define T STDIO_TERMINAL
#define P STDIO_PIPE
#define F STDIO_FILE

static const struct {
    enum stdio_class cls[3];
    struct stdio_wish wish;
    enum stdio_way way[3];
    enum stdio_term term;
    int screen;
} plans[] = {
    {{T, T, T}, {0}, {STDIO_WAY_PTY, STDIO_WAY_PTY, STDIO_WAY_PTY}, STDIO_TERM_RAW, 1},
    {{T, P, T}, {0}, {STDIO_WAY_PTY, STDIO_WAY_DIRECT, STDIO_WAY_PTY}, STDIO_TERM_COOKED, 2},
    {{T, P, P}, {0}, {STDIO_WAY_PTY, STDIO_WAY_DIRECT, STDIO_WAY_DIRECT}, STDIO_TERM_COOKED, 0},
    {{T, F, T}, {0}, {STDIO_WAY_PTY, STDIO_WAY_RELAY, STDIO_WAY_PTY}, STDIO_TERM_RAW, 2},
    {{P, T, T}, {0}, {STDIO_WAY_DIRECT, STDIO_WAY_PTY, STDIO_WAY_PTY}, STDIO_TERM_OUTPUT, 1},
    {{P, P, T}, {0}, {STDIO_WAY_DIRECT, STDIO_WAY_DIRECT, STDIO_WAY_PTY}, STDIO_TERM_OUTPUT, 2},
    {{P, P, P}, {0}, {STDIO_WAY_DIRECT, STDIO_WAY_DIRECT, STDIO_WAY_DIRECT}, STDIO_TERM_NONE, -1},
    {{F, F, F}, {0}, {STDIO_WAY_RELAY, STDIO_WAY_RELAY, STDIO_WAY_RELAY}, STDIO_TERM_NONE, -1},
    {{STDIO_SOCKET, STDIO_DEVICE, STDIO_NULLDEV}, {0}, {STDIO_WAY_RELAY, STDIO_WAY_RELAY, STDIO_WAY_DIRECT}, STDIO_TERM_NONE, -1},
    {{STDIO_CLOSED, STDIO_CLOSED, STDIO_CLOSED}, {0}, {STDIO_WAY_NULL, STDIO_WAY_NULL, STDIO_WAY_NULL}, STDIO_TERM_NONE, -1},
    {{T, T, T}, {.no_tty = true}, {STDIO_WAY_RELAY, STDIO_WAY_RELAY, STDIO_WAY_RELAY}, STDIO_TERM_NONE, -1},
    {{P, P, P}, {.force_tty = true}, {STDIO_WAY_PTY, STDIO_WAY_PTY, STDIO_WAY_PTY}, STDIO_TERM_NONE, 1},
};

static void test_plans(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        struct stdio_plan plan;

        assert_int_equal(stdio_plan(plans[i].cls, true, &plans[i].wish, &plan, NULL), 0);
        assert_memory_equal(plan.way, plans[i].way, sizeof plan.way);
        assert_int_equal(plan.term, plans[i].term);
        assert_int_equal(plan.screen, plans[i].screen);
        assert_int_equal(plan.merged, plan.way[1] == STDIO_WAY_RELAY && plan.way[2] == STDIO_WAY_RELAY);
    }
}

static void test_directory_is_refused(void **state) {
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path = open("/etc/passwd", O_PATH | O_CLOEXEC), null = null_fd();
    struct stdio_opts opts = {.fd = {dir, null, null}, .wish = {0}};
    struct stdio s;
    struct err err = {0};

    (void)state;
    assert_int_equal(stdio_init(&s, &opts, &err), -EISDIR);
    assert_non_null(strstr(err.msg, "standard input is a directory"));
    opts.fd[0] = null;
    opts.fd[2] = dir;
    assert_int_equal(stdio_init(&s, &opts, &err), -EISDIR);
    opts.fd[2] = path;
    assert_int_equal(stdio_init(&s, &opts, &err), -EBADF);
    opts.wish.force_tty = opts.wish.no_tty = true;
    opts.fd[2] = null;
    assert_int_equal(stdio_init(&s, &opts, &err), -EINVAL);
    close(dir);
    close(path);
    close(null);
}

static void test_closed_fds_become_null(void **state) {
    struct stdio s;

    (void)state;
    start(&s, -1, -1, -1, (struct stdio_wish){0});
    for (int i = 0; i < 3; i++)
        assert_int_equal(stdio_classify(s.inside[i]), STDIO_NULLDEV);
    stdio_done(&s);
}

static int child_status(pid_t pid) {
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_reserve_fills_holes(void **state) {
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        bool closed[3];

        close(0);
        close(2);
        if (stdio_reserve(closed) < 0 || !closed[0] || closed[1] || !closed[2])
            _exit(1);
        _exit(stdio_classify(0) == STDIO_NULLDEV && stdio_classify(2) == STDIO_NULLDEV ? 0 : 2);
    }
    assert_int_equal(child_status(pid), 0);
}

/* Relays ----------------------------------------------------------------------------------------------------- */

struct mover {
    int fd;
    size_t total;
    uint64_t sum;
    bool done;
};

static uint64_t mix(uint64_t sum, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3;
    return sum;
}

/* Printable with newlines, so that a terminal carries it too; never the same twice at page distance. */
static void *produce(void *arg) {
    struct mover *m = arg;
    uint8_t block[30011];
    size_t at = 0;

    while (at < m->total) {
        size_t n = MIN_OF(sizeof block, m->total - at);

        for (size_t i = 0; i < n; i++)
            block[i] = (at + i) % 80 == 79 ? '\n' : (uint8_t)(' ' + ((at + i) * 31 + (at + i) / 4093) % 95);
        m->sum = mix(m->sum, block, n);
        at += n;
        if (fd_write_all(m->fd, block, n) < 0)
            break;
    }
    close(m->fd);
    __atomic_store_n(&m->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void *consume(void *arg) {
    struct mover *m = arg;
    uint8_t block[65536];
    ssize_t n;

    while ((n = fd_read_some(m->fd, block, sizeof block)) > 0) {
        m->sum = mix(m->sum, block, (size_t)n);
        m->total += (size_t)n;
        if (m->total == BULK)
            break;
    }
    close(m->fd);
    __atomic_store_n(&m->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool is_done(struct mover *m) {
    return __atomic_load_n(&m->done, __ATOMIC_ACQUIRE);
}

/* Takes both descriptors. */
static void expect_bulk_intact(struct stdio *s, int write_fd, int read_fd) {
    struct mover from = {.fd = write_fd, .total = BULK}, to = {.fd = read_fd};
    pthread_t a, b;
    bool finished = false;

    assert_int_equal(pthread_create(&b, NULL, consume, &to), 0);
    assert_int_equal(pthread_create(&a, NULL, produce, &from), 0);
    while (!is_done(&to)) {
        turn(s, 20);
        if (!finished && is_done(&from) && s->plan.way[0] != STDIO_WAY_RELAY) {
            finished = true;
            stdio_finish(s);
        }
    }
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(to.total, BULK);
    assert_true(from.sum == to.sum);
}

static void test_bulk_socket_to_stdin(void **state) {
    struct stdio s;
    int p[2], null = null_fd();

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    start(&s, p[0], null, null, (struct stdio_wish){0});
    expect_bulk_intact(&s, p[1], TAKE_FD(s.inside[0]));
    stdio_done(&s);
    close(p[0]);
    close(null);
}

static void test_bulk_stdout_to_socket(void **state) {
    struct stdio s;
    int p[2], null = null_fd();

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    start(&s, null, p[0], null, (struct stdio_wish){0});
    expect_bulk_intact(&s, TAKE_FD(s.inside[1]), p[1]);
    stdio_done(&s);
    close(p[0]);
    close(null);
}

static void test_bulk_through_files(void **state) {
    int null = null_fd(), file = memfd_create("bulk", MFD_CLOEXEC);
    struct mover from = {.total = BULK}, to = {0};
    struct stdio s;
    pthread_t a;

    (void)state;
    start(&s, null, null, file, (struct stdio_wish){0}); /* out: stderr this time */
    assert_int_equal(s.plan.way[2], STDIO_WAY_RELAY);
    from.fd = TAKE_FD(s.inside[2]);
    assert_int_equal(pthread_create(&a, NULL, produce, &from), 0);
    while (s.err.active)
        turn(&s, 20);
    pthread_join(a, NULL);
    stdio_done(&s);

    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    start(&s, file, null, null, (struct stdio_wish){0}); /* and in again */
    to.fd = TAKE_FD(s.inside[0]);
    assert_int_equal(pthread_create(&a, NULL, consume, &to), 0);
    while (!is_done(&to))
        turn(&s, 20);
    pthread_join(a, NULL);
    stdio_done(&s);
    assert_int_equal(to.total, BULK);
    assert_true(from.sum == to.sum);

    close(file);
    close(null);
}

static void test_bulk_through_pty(void **state) {
    int master, outer, slave, null = null_fd();
    struct termios t;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    tcgetattr(outer, &t);
    t.c_oflag &= ~(tcflag_t)OPOST;
    tcsetattr(outer, TCSANOW, &t);
    slave = start_pty(&s, null, outer, outer, (struct stdio_wish){0});
    assert_int_equal(s.plan.term, STDIO_TERM_OUTPUT);
    expect_bulk_intact(&s, slave, master);
    stdio_done(&s);
    close(outer);
    close(null);
}

static void test_same_socket_shares_one_pipe(void **state) {
    struct stdio s;
    int p[2], null = null_fd(), other;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    other = dup(p[0]);
    start(&s, null, p[0], other, (struct stdio_wish){0});
    type(s.inside[1], "1");
    type(s.inside[2], "2");
    type(s.inside[1], "3");
    expect_read(&s, p[1], "123");
    stdio_done(&s);
    close(p[0]);
    close(p[1]);
    close(other);
    close(null);
}

static size_t count_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void test_no_descriptor_crosses_a_socket(void **state) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, got[16];
    struct iovec part = {"x", 1};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int p[2], null = null_fd();
    struct stdio s;
    size_t before;

    (void)state;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &null, sizeof null);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    start(&s, p[0], null, null, (struct stdio_wish){0});
    before = count_fds();
    assert_int_equal(sendmsg(p[1], &msg, 0), 1);
    assert_int_equal(turn_and_read(&s, s.inside[0], got, sizeof got), 1);
    assert_int_equal(stdio_classify(s.inside[0]), STDIO_PIPE);
    assert_int_equal(count_fds(), before);
    stdio_done(&s);
    close(p[0]);
    close(p[1]);
    close(null);
}

/* Nobody reads: the writer inside is stopped, memory stays at one buffer, and every turn returns. */
static void test_back_pressure(void **state) {
    static char block[4096];
    struct stdio s;
    int p[2], null = null_fd(), idle = 0;
    size_t taken = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    start(&s, null, p[0], null, (struct stdio_wish){0});
    fcntl(s.inside[1], F_SETFL, O_WRONLY | O_NONBLOCK);
    while (idle < 10) {
        ssize_t n = write(s.inside[1], block, sizeof block);

        taken += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        turn(&s, 0);
    }
    assert_true(s.out.len > 0 && s.out.len <= STDIO_FLOW_BUF);
    assert_true(taken < 4 * 1024 * 1024);
    close(p[1]); /* the reader goes away: the command must learn of it */
    turn(&s, 10);
    assert_int_equal(write(s.inside[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    stdio_done(&s);
    close(p[0]);
    close(null);
}

static void test_stopped_terminal_does_not_block(void **state) {
    static char block[4096];
    int master, outer, slave, null = null_fd(), idle = 0;
    size_t taken = 0;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    memset(block, 'x', sizeof block);
    slave = start_pty(&s, null, outer, outer, (struct stdio_wish){0});
    assert_int_equal(tcflow(outer, TCOOFF), 0); /* Ctrl-S */
    fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
    while (idle < 20) {
        ssize_t n = write(slave, block, sizeof block);

        taken += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        turn(&s, 5);
    }
    assert_true(taken < 1024 * 1024);
    stdio_done(&s);
    close(slave);
    close(outer);
    close(master);
    close(null);
}

static void test_shared_flags_are_not_touched(void **state) {
    int master, outer, slave, p[2];
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    slave = start_pty(&s, outer, p[1], outer, (struct stdio_wish){.force_tty = true});
    assert_int_equal(fcntl(outer, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
    stdio_done(&s);
    close(slave);
    close(outer);
    close(master);
    close(p[0]);
    close(p[1]);
}

static void test_drain_does_not_wait_for_a_holder(void **state) {
    struct stdio s;
    int p[2], null = null_fd();
    char got[16];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    start(&s, null, p[0], null, (struct stdio_wish){0});
    type(s.inside[1], "rest"); /* and stays open, as a daemon outside our reach would keep it */
    stdio_finish(&s);
    assert_int_equal(stdio_drain(&s, -1), 0);
    assert_int_equal(read(p[1], got, sizeof got), 4);
    stdio_done(&s);
    close(p[0]);
    close(p[1]);
    close(null);
}

static void test_drain_wakes_for_signals(void **state) {
    struct stdio s;
    int p[2], wake[2], null = null_fd();

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    assert_int_equal(pipe2(wake, O_CLOEXEC), 0);
    start(&s, null, p[0], null, (struct stdio_wish){0});
    type(wake[1], "!");
    stdio_finish(&s);
    assert_int_equal(stdio_drain(&s, wake[0]), 1);
    stdio_done(&s);
    close(wake[0]);
    close(wake[1]);
    close(p[0]);
    close(p[1]);
    close(null);
}

/* Terminals -------------------------------------------------------------------------------------------------- */

static void expect_modes(int fd, const struct termios *want) {
    struct termios t;

    assert_int_equal(tcgetattr(fd, &t), 0);
    assert_int_equal(t.c_iflag, want->c_iflag);
    assert_int_equal(t.c_oflag, want->c_oflag);
    assert_int_equal(t.c_lflag, want->c_lflag);
    assert_memory_equal(t.c_cc, want->c_cc, sizeof t.c_cc);
}

static bool is_raw(int fd) {
    struct termios t;

    return tcgetattr(fd, &t) == 0 && !(t.c_lflag & (ICANON | ECHO | ISIG));
}

static void test_raw_terminal_is_restored(void **state) {
    int master, outer, slave;
    struct termios user;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    tcgetattr(outer, &user);
    user.c_cc[VINTR] = 'x'; /* a setting of the user's own */
    tcsetattr(outer, TCSANOW, &user);

    slave = start_pty(&s, outer, outer, outer, (struct stdio_wish){0});
    assert_true(is_raw(outer));
    expect_modes(slave, &user);
    stdio_suspend(&s);
    expect_modes(outer, &user);
    turn(&s, 0);
    expect_modes(outer, &user);
    user.c_cc[VINTR] = 'y'; /* stty at the shell's prompt */
    tcsetattr(outer, TCSANOW, &user);
    stdio_resume(&s);
    assert_true(is_raw(outer));
    stdio_resume(&s); /* SIGSTOP and SIGCONT, which nobody saw: what we set ourselves is not the user's wish */
    stdio_done(&s);
    expect_modes(outer, &user);
    close(slave);
    close(outer);
    close(master);
}

static void test_raw_keys_and_screen(void **state) {
    int master, outer, slave;
    char got[64];
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    slave = start_pty(&s, outer, outer, outer, (struct stdio_wish){0});
    type(master, "hi\r");
    expect_read(&s, master, "hi\r\n"); /* echoed by the inner terminal only */
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 3);
    assert_string_equal(got, "hi\n");
    type(slave, "a\x1b]52;c;eA==\ab\x1b[31mc\n");
    expect_read(&s, master, "ab\x1b[31mc\r\n");
    stdio_done(&s);
    close(slave);
    close(outer);
    close(master);
}

static void test_pipe_is_not_filtered(void **state) {
    int slave, p[2], null = null_fd();
    struct stdio s;

    (void)state;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    slave = start_pty(&s, null, p[1], p[1], (struct stdio_wish){.force_tty = true});
    type(slave, "a\x1b]52;c;eA==\ab");
    expect_read(&s, p[0], "a\x1b]52;c;eA==\ab");
    stdio_done(&s);
    close(slave);
    close(p[0]);
    close(p[1]);
    close(null);
}

static void test_no_tty_is_filtered_too(void **state) {
    int master, outer;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    start(&s, outer, outer, outer, (struct stdio_wish){.no_tty = true});
    stdio_start(&s);
    assert_int_equal(stdio_classify(s.inside[0]), STDIO_PIPE);
    assert_int_equal(stdio_classify(s.inside[1]), STDIO_PIPE);
    type(s.inside[1], "a\x1b[21tb\n");
    expect_read(&s, master, "ab\r\n");
    type(master, "line\n");
    expect_read(&s, s.inside[0], "line\n");
    stdio_done(&s);
    close(outer);
    close(master);
}

static void test_window_size_follows(void **state) {
    int master, outer, slave;
    struct winsize size = {.ws_row = 50, .ws_col = 132}, got;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    slave = start_pty(&s, outer, outer, outer, (struct stdio_wish){0});
    ioctl(slave, TIOCGWINSZ, &got);
    assert_int_equal(got.ws_row * 1000 + got.ws_col, 33077);
    ioctl(master, TIOCSWINSZ, &size);
    stdio_resize(&s);
    ioctl(slave, TIOCGWINSZ, &got);
    assert_int_equal(got.ws_row * 1000 + got.ws_col, 50132);
    stdio_done(&s);
    close(slave);
    close(outer);
    close(master);
}

static void test_cooked_lines_and_end_of_file(void **state) {
    int master, outer, slave, p[2];
    char got[64];
    struct termios user;
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    tcgetattr(outer, &user);
    slave = start_pty(&s, outer, p[1], p[1], (struct stdio_wish){0});
    assert_int_equal(s.plan.term, STDIO_TERM_COOKED);
    expect_modes(outer, &user);

    type(master, "helxx\x7f\x7flo\n"); /* edited by the real terminal */
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 6);
    assert_string_equal(got, "hello\n");
    type(master, "abc\x04"); /* sends a line without its newline */
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 3);
    assert_string_equal(got, "abc");
    type(master, "\x16\x04q\x16\x03\n"); /* ^V^D q ^V^C are data */
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 4);
    assert_string_equal(got, "\x04q\x03\n");
    type(master, "\x04");
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 0);
    type(master, "on\n"); /* the end of file of a terminal is not the end */
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 3);
    stdio_done(&s);
    expect_modes(outer, &user);
    close(slave);
    close(outer);
    close(master);
    close(p[0]);
    close(p[1]);
}

static void test_forced_pty_ends_with_its_input(void **state) {
    int slave, in[2], out[2];
    char got[64];
    struct stdio s;

    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    slave = start_pty(&s, in[0], out[1], out[1], (struct stdio_wish){.force_tty = true});
    type(in[1], "one\ntwo");
    close(in[1]);
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 4);
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 3);
    assert_string_equal(got, "two");
    assert_int_equal(turn_and_read(&s, slave, got, sizeof got), 0);
    stdio_done(&s);
    close(slave);
    close(in[0]);
    close(out[0]);
    close(out[1]);
}

static void test_forced_pty_without_stdout(void **state) {
    int slave;
    struct stdio s;

    (void)state;
    slave = start_pty(&s, -1, -1, -1, (struct stdio_wish){.force_tty = true});
    for (int i = 0; i < 100; i++) {
        type(slave, "into the void\n");
        turn(&s, 0);
    }
    close(slave);
    stdio_finish(&s);
    assert_int_equal(stdio_drain(&s, -1), 0);
    stdio_done(&s);
}

static void test_drain_of_pty_loses_nothing(void **state) {
    int p[2], null = null_fd(), slave;
    struct stdio s;
    size_t total = 0;
    char got[4096];
    ssize_t n;

    (void)state;
    for (int round = 0; round < 200; round++) {
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        slave = start_pty(&s, null, p[1], p[1], (struct stdio_wish){.force_tty = true});
        type(slave, "0123456789012345678901234567890123456789");
        type(slave, "the last words");
        close(slave);
        stdio_finish(&s);
        assert_int_equal(stdio_drain(&s, -1), 0);
        stdio_done(&s);
        close(p[1]);
        for (total = 0; (n = read(p[0], got, sizeof got)) > 0;)
            total += (size_t)n;
        assert_int_equal(total, 54);
        close(p[0]);
    }
    close(null);
}

/* The command closes its terminal and opens it again: output of both times arrives, and meanwhile nothing spins. */
static void test_pty_survives_a_hangup(void **state) {
    int master, outer, slave, null = null_fd(), again;
    char name[64];
    struct stdio s;

    (void)state;
    outer_open(&master, &outer);
    slave = start_pty(&s, null, outer, outer, (struct stdio_wish){0});
    assert_int_equal(ttyname_r(slave, name, sizeof name), 0);
    close(slave);
    while (!s.hup_until)
        turn(&s, 10);
    again = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(again >= 0);
    type(again, "back");
    expect_read(&s, master, "back");
    stdio_done(&s);
    close(again);
    close(outer);
    close(master);
    close(null);
}

/* Job control ------------------------------------------------------------------------------------------------- */

static void give_up(void) {
    _exit(99);
}

/* In the background: touch nothing, read nothing, get no SIGTTOU or SIGTTIN. Then fg: raw, and keys pass. */
static void background_job(int outer, int report) {
    int slave;
    char got[16];
    struct stdio s;

    setpgid(0, 0);
    slave = start_pty(&s, outer, outer, outer, (struct stdio_wish){0});
    for (int i = 0; i < 5; i++)
        turn(&s, 10);
    if (is_raw(outer) || stdio_timeout_ms(&s) < 0 || write(report, "b", 1) != 1)
        give_up();
    if (turn_and_read(&s, slave, got, sizeof got) != 5 || memcmp(got, "keys\n", 5) != 0 || !is_raw(outer))
        give_up();
    stdio_done(&s);
    _exit(is_raw(outer) ? 2 : 0);
}

static void session(int master, int outer, void (*job)(int outer, int report)) {
    int report[2], status;
    char c;
    pid_t pid;

    setsid();
    ioctl(outer, TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN); /* as a shell has it */
    if (pipe2(report, O_CLOEXEC) < 0)
        _exit(10);
    pid = fork();
    if (pid == 0) {
        signal(SIGTTOU, SIG_DFL);
        job(outer, report[1]);
    }
    if (read(report[0], &c, 1) != 1)
        _exit(11);
    tcsetpgrp(outer, pid);
    if (write(master, "keys\r", 5) != 5 || waitpid(pid, &status, WUNTRACED) != pid)
        _exit(12);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 13);
}

static void run_session(void (*job)(int outer, int report)) {
    int master, outer;
    pid_t pid;

    outer_open(&master, &outer);
    pid = fork();
    if (pid == 0)
        session(master, outer, job);
    assert_int_equal(child_status(pid), 0);
    close(outer);
    close(master);
}

static void test_background_leaves_terminal_alone(void **state) {
    (void)state;
    run_session(background_job);
}

/* `git log | bawn run -- less`: stdin is no terminal, but the command reads keys from its own. */
static void pager_job(int outer, int report) {
    int slave, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct termios t;
    char got[16];
    struct stdio s;

    setpgid(0, 0);
    slave = start_pty(&s, null, outer, outer, (struct stdio_wish){0});
    turn(&s, 0);
    if (s.keys.active || is_raw(outer) || write(report, "b", 1) != 1)
        give_up();
    while (!tty_is_foreground(outer))
        usleep(1000);
    tcgetattr(slave, &t);
    t.c_lflag &= ~(tcflag_t)ICANON;
    tcsetattr(slave, TCSANOW, &t);
    if (turn_and_read(&s, slave, got, sizeof got) != 5 || !is_raw(outer))
        give_up();
    t.c_lflag |= ICANON;
    tcsetattr(slave, TCSANOW, &t);
    turn(&s, 0);
    if (is_raw(outer) || !s.keys.src_paused)
        give_up();
    stdio_done(&s);
    _exit(0);
}

static void test_terminal_follows_a_pager(void **state) {
    (void)state;
    run_session(pager_job);
}

static void test_stop_stops_and_continues(void **state) {
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        setpgid(0, 0);
        tty_stop_job(SIGTSTP);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTSTP);
    kill(pid, SIGCONT);
    assert_int_equal(child_status(pid), 0);
}

static void test_stop_in_orphaned_group_returns(void **state) {
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        setsid();
        tty_stop_job(SIGTSTP);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFEXITED(status));
}

static void test_log_lines_on_a_raw_terminal(void **state) {
    int master, outer;
    struct termios t;
    char got[64] = "";
    pid_t pid;

    (void)state;
    outer_open(&master, &outer);
    tcgetattr(outer, &t);
    t = tty_raw(&t, false);
    tcsetattr(outer, TCSANOW, &t);
    pid = fork();
    if (pid == 0) {
        dup2(outer, 2);
        tty_log_sink("bawn: x\n", 8);
        _exit(0);
    }
    assert_int_equal(child_status(pid), 0);
    assert_int_equal(read(master, got, sizeof got - 1), 10);
    assert_string_equal(got, "\rbawn: x\r\n");
    close(outer);
    close(master);
}

static int remember_fds(void **state) {
    *state = (void *)count_fds();
    return 0;
}

static int no_fd_leaked(void **state) {
    return count_fds() == (size_t)*state ? 0 : -1;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, remember_fds, no_fd_leaked)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_plans),
        TEST(test_directory_is_refused),
        TEST(test_closed_fds_become_null),
        TEST(test_reserve_fills_holes),
        TEST(test_bulk_socket_to_stdin),
        TEST(test_bulk_stdout_to_socket),
        TEST(test_bulk_through_files),
        TEST(test_bulk_through_pty),
        TEST(test_same_socket_shares_one_pipe),
        TEST(test_no_descriptor_crosses_a_socket),
        TEST(test_back_pressure),
        TEST(test_stopped_terminal_does_not_block),
        TEST(test_shared_flags_are_not_touched),
        TEST(test_drain_does_not_wait_for_a_holder),
        TEST(test_drain_wakes_for_signals),
        TEST(test_raw_terminal_is_restored),
        TEST(test_raw_keys_and_screen),
        TEST(test_pipe_is_not_filtered),
        TEST(test_no_tty_is_filtered_too),
        TEST(test_window_size_follows),
        TEST(test_cooked_lines_and_end_of_file),
        TEST(test_forced_pty_ends_with_its_input),
        TEST(test_forced_pty_without_stdout),
        TEST(test_drain_of_pty_loses_nothing),
        TEST(test_pty_survives_a_hangup),
        TEST(test_background_leaves_terminal_alone),
        TEST(test_terminal_follows_a_pager),
        TEST(test_stop_stops_and_continues),
        TEST(test_stop_in_orphaned_group_returns),
        TEST(test_log_lines_on_a_raw_terminal),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
