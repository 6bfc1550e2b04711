/* SPDX-License-Identifier: Apache-2.0 */
/* The standard streams of a run: opened, attached to a pty, closed. */
#include "supervisor/terminal/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "supervisor/terminal/tty.h"

int stdio_reserve(bool ret_closed[3]) {
    bool closed[3];

    for (int i = 0; i < 3; i++) {
        closed[i] = fcntl(i, F_GETFD) < 0;
        if (closed[i] && open("/dev/null", O_RDWR | O_CLOEXEC) != i)
            return -errno;
    }
    memcpy(ret_closed, closed, sizeof closed);
    return 0;
}

/* A second description of the same object, whose O_NONBLOCK affects no other process. */
static int own_description(int fd, int mode) {
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/*
 * The sandbox's user may be another one than ours, and `echo > /dev/stderr` opens the pipe anew. Others reach an
 * unnamed pipe only through /proc/PID/fd of its holders, so its mode guards nothing. A named FIFO is left alone.
 */
static void open_to_sandbox(int fd) {
    struct statfs fs;

    if (fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
        fchmod(fd, 0666);
}

static int make_relay(struct stdio *s, int i) {
    int p[2], inside, flags;

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    inside = i == 0 ? 0 : 1;
    s->inside[i] = p[inside];
    s->ours[i] = p[!inside];
    open_to_sandbox(s->inside[i]);
    flags = fcntl(s->ours[i], F_GETFL);
    return fcntl(s->ours[i], F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int make_inside(struct stdio *s, int i) {
    switch (s->plan.way[i]) {
    case STDIO_WAY_PTY:
        return 0;
    case STDIO_WAY_NULL:
        s->inside[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case STDIO_WAY_DIRECT:
        s->inside[i] = fcntl(s->host[i], F_DUPFD_CLOEXEC, 3);
        open_to_sandbox(s->inside[i]);
        break;
    case STDIO_WAY_RELAY:
        if (i != 2 || !s->plan.merged)
            return make_relay(s, i);
        s->inside[2] = fcntl(s->inside[1], F_DUPFD_CLOEXEC, 3);
        break;
    }
    return s->inside[i] < 0 ? -errno : 0;
}

/* Terminals and pipes can be opened anew without side effects; other devices might rewind, reset, or dial. */
static void open_own(struct stdio *s) {
    int screen = s->plan.screen;

    for (int i = 0; i < 3; i++)
        if (s->cls[i] == STDIO_TERMINAL || (s->cls[i] == STDIO_PIPE && s->plan.way[i] == STDIO_WAY_PTY))
            s->own[i] = own_description(s->host[i], i == 0 ? O_RDONLY : O_WRONLY);
    if (screen == 0)
        s->own_screen = own_description(s->host[0], O_WRONLY);
    else if (screen > 0 && s->cls[screen] == STDIO_CLOSED)
        s->own_screen = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static void find_terminal(struct stdio *s) {
    if (!s->plan.pty)
        return;
    for (int i = 0; i < 3 && s->tty < 0; i++)
        if (s->cls[i] == STDIO_TERMINAL)
            s->tty = s->host[i];
    s->modes.have_user = s->tty >= 0 && tcgetattr(s->tty, &s->modes.user) == 0;
}

static int set_up(struct stdio *s, struct err *err) {
    int r;

    for (int i = 0; i < 3; i++) {
        r = make_inside(s, i);
        if (r < 0)
            return err_sys(err, r, "prepare descriptor %d of the sandbox", i);
    }
    open_own(s);
    find_terminal(s);
    r = stdio_open_relays(s);
    return r < 0 ? err_oom(err) : 0;
}

int stdio_init(struct stdio *s, const struct stdio_opts *opts, struct err *err) {
    int r;

    *s = (struct stdio){.master = -1, .tty = -1, .dev_tty = -1, .own_screen = -1};
    for (int i = 0; i < 3; i++) {
        s->host[i] = opts->fd[i];
        s->cls[i] = stdio_classify(opts->fd[i]);
        s->inside[i] = s->ours[i] = s->own[i] = -1;
        termfilter_init(&s->filters[i]);
    }
    r = stdio_plan(s->cls, stdio_same_object(s->host[1], s->host[2]), &opts->wish, &s->plan, err);
    if (r == 0)
        r = set_up(s, err);
    if (r < 0)
        stdio_done(s);
    return r;
}

void stdio_close_inside(struct stdio *s) {
    for (int i = 0; i < 3; i++)
        closep(&s->inside[i]);
}

void stdio_done(struct stdio *s) {
    stdio_suspend(s);
    stdio_close_relays(s);
    stdio_close_inside(s);
    for (int i = 0; i < 3; i++) {
        closep(&s->ours[i]);
        closep(&s->own[i]);
    }
    closep(&s->master);
    closep(&s->dev_tty);
    closep(&s->own_screen);
    s->tty = -1;
}

bool stdio_inner_modes(const struct stdio *s, struct termios *ret) {
    static const enum tty_inner inner[] = {
        [STDIO_TERM_NONE] = TTY_INNER_SAME,
        [STDIO_TERM_RAW] = TTY_INNER_SAME,
        [STDIO_TERM_COOKED] = TTY_INNER_COOKED,
        [STDIO_TERM_OUTPUT] = TTY_INNER_OUTPUT,
    };

    if (s->modes.have_user)
        *ret = tty_inner(&s->modes.user, inner[s->plan.term]);
    return s->modes.have_user;
}

static void set_inner_modes(struct stdio *s) {
    static const struct winsize usual = {.ws_row = 24, .ws_col = 80};
    struct termios t;

    if (!s->modes.set && stdio_inner_modes(s, &t))
        tcsetattr(s->master, TCSANOW, &t);
    if (s->tty < 0 || tty_copy_size(s->tty, s->master) < 0)
        ioctl(s->master, TIOCSWINSZ, &usual);
}

int stdio_attach_master(struct stdio *s, int master_fd, struct err *err) {
    int flags = fcntl(master_fd, F_GETFL);

    closep(&s->master);
    s->master = master_fd;
    if (!s->plan.pty)
        BUG("a pty that was not planned");
    if (flags < 0 || fcntl(master_fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(master_fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_sys(err, -errno, "set up the sandbox's terminal");
    set_inner_modes(s);
    return stdio_open_pty_flows(s) < 0 ? err_oom(err) : 0;
}

int stdio_open_pty(struct stdio *s, int *ret_slave, struct err *err) {
    CLEANUP(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
    int unlock = 0, r;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, -errno, "open a terminal for the command");
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return err_sys(err, -errno, "open a terminal for the command");
    r = stdio_attach_master(s, TAKE_FD(master), err);
    if (r == 0)
        *ret_slave = TAKE_FD(slave);
    return r;
}
