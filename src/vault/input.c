/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values and passphrases from pipes, files and terminals. */
#include "vault/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"

static int too_long(struct err *err, size_t max) {
    err_usage(err, "the value has more than %zu bytes", max);
    return err ? (err->code = -E2BIG) : -E2BIG;
}

int input_read(int fd, size_t max, struct secret *ret, struct err *err) {
    CLEANUP(secret_done) struct secret s = {0};
    ssize_t n = 1;

    if (secret_alloc(&s, max + 2) < 0)
        return err_oom(err);
    while (n > 0 && s.len < max + 2) {
        n = fd_read_some(fd, s.p + s.len, max + 2 - s.len);
        s.len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        return err_sys(err, (int)n, "read the value");
    if (s.len > 0 && s.p[s.len - 1] == '\n')
        s.p[--s.len] = 0;
    if (s.len > max)
        return too_long(err, max);
    *ret = TAKE(s, (struct secret){0});
    return 0;
}

/* The terminal while it does not show what is typed. */
struct quiet {
    int tty, signals;
    struct termios before;
    sigset_t mask;
};

static int quiet_begin(struct quiet *q, const char *question, struct err *err) {
    struct termios off = q->before;

    off.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    off.c_lflag |= ICANON | ISIG;
    /* TCSAFLUSH: what was typed before, with echo, is not the answer. */
    if (tcsetattr(q->tty, TCSAFLUSH, &off) < 0)
        return err_sys(err, -errno, "switch off the terminal's echo");
    return fd_write_all(q->tty, question, strlen(question));
}

static void quiet_end(struct quiet *q) {
    tcsetattr(q->tty, TCSANOW, &q->before);
    (void)fd_write_all(q->tty, "\n", 1);
}

static void quiet_done(struct quiet *q) {
    closep(&q->tty);
    closep(&q->signals);
    sigprocmask(SIG_SETMASK, &q->mask, NULL);
}

static int quiet_open(struct quiet *q, struct err *err) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    sigset_t set;

    q->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (q->tty < 0)
        return -ENXIO;
    if (tcgetattr(q->tty, &q->before) < 0)
        return err_sys(err, -errno, "look at the terminal");
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaddset(&set, caught[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    q->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return q->signals < 0 ? err_sys(err, -errno, "signalfd") : 0;
}

/* The signal again, now that the terminal is as it was: it ends us, or stops us until SIGCONT. */
static void pass_on(struct quiet *q) {
    struct signalfd_siginfo info;
    sigset_t blocked;

    if (fd_read_some(q->signals, &info, sizeof info) != sizeof info)
        return;
    /* The process that started us may ignore Ctrl-C while it waits for us; here it means: no. */
    sigprocmask(SIG_SETMASK, &q->mask, &blocked);
    signal((int)info.ssi_signo, SIG_DFL);
    raise((int)info.ssi_signo);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* 1: a whole line; 0: a signal came; -errno. */
static int read_line(struct quiet *q, struct secret *s) {
    for (;;) {
        struct pollfd p[] = {{.fd = q->signals, .events = POLLIN}, {.fd = q->tty, .events = POLLIN}};
        ssize_t n;

        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return -errno;
        if (p[0].revents)
            return 0;
        if (!p[1].revents)
            continue;
        n = s->len < s->cap ? fd_read_some(q->tty, s->p + s->len, s->cap - s->len) : -E2BIG;
        if (n <= 0)
            return n < 0 ? (int)n : -ECANCELED;
        s->len += (size_t)n;
        if (s->p[s->len - 1] == '\n') {
            s->p[--s->len] = 0;
            return 1;
        }
    }
}

static int line_check(int r, const struct secret *s, size_t max, struct err *err) {
    if (r == -ECANCELED)
        return err_set(err, r, "nothing was typed");
    if (r < 0 && r != -E2BIG)
        return err_sys(err, r, "read from the terminal");
    if (r == -E2BIG || s->len > max)
        return too_long(err, max);
    if (s->len >= INPUT_LINE_MAX)
        return err_usage(err, "a terminal cannot take a line of more than %d bytes: give the value through a pipe",
                         INPUT_LINE_MAX - 1);
    return 0;
}

int input_ask(const char *question, size_t max, struct secret *ret, struct err *err) {
    CLEANUP(quiet_done) struct quiet q = {.tty = -1, .signals = -1};
    CLEANUP(secret_done) struct secret s = {0};
    int r;

    sigprocmask(SIG_SETMASK, NULL, &q.mask);
    r = quiet_open(&q, err);
    if (r < 0)
        return r;
    if (secret_alloc(&s, MAX_OF(max, (size_t)INPUT_LINE_MAX) + 2) < 0)
        return err_oom(err);
    do {
        secret_clear(&s);
        r = quiet_begin(&q, question, err);
        if (r < 0)
            return r;
        r = read_line(&q, &s);
        quiet_end(&q);
        if (r == 0)
            pass_on(&q);
    } while (r == 0);
    r = line_check(r, &s, max, err);
    if (r < 0)
        return r;
    *ret = TAKE(s, (struct secret){0});
    return 0;
}
