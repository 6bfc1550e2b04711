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
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "supervisor/terminal/tty.h"

static const char *const stream_names[3] = {"standard input", "standard output", "standard error"};

enum stdio_class stdio_classify(int fd) {
    struct stat st;
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) < 0)
        return STDIO_CLOSED;
    if (S_ISDIR(st.st_mode))
        return STDIO_DIRECTORY;
    if (flags & O_PATH)
        return STDIO_PATH;
    if (S_ISFIFO(st.st_mode))
        return STDIO_PIPE;
    if (S_ISREG(st.st_mode))
        return STDIO_FILE;
    if (S_ISSOCK(st.st_mode))
        return STDIO_SOCKET;
    if (!S_ISCHR(st.st_mode))
        return STDIO_DEVICE;
    if (st.st_rdev == makedev(1, 3))
        return STDIO_NULLDEV;
    return isatty(fd) ? STDIO_TERMINAL : STDIO_DEVICE;
}

bool stdio_same_object(int a, int b) {
    struct stat x, y;

    return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Without options. A socket could carry descriptors in (ATTACKS 26), or be the host's network. */
static const enum stdio_way default_way[] = {
    [STDIO_CLOSED] = STDIO_WAY_NULL,    [STDIO_TERMINAL] = STDIO_WAY_PTY,   [STDIO_PIPE] = STDIO_WAY_DIRECT,
    [STDIO_NULLDEV] = STDIO_WAY_DIRECT, [STDIO_FILE] = STDIO_WAY_RELAY,     [STDIO_SOCKET] = STDIO_WAY_RELAY,
    [STDIO_DEVICE] = STDIO_WAY_RELAY,   [STDIO_DIRECTORY] = STDIO_WAY_NULL, [STDIO_PATH] = STDIO_WAY_NULL,
};
static_assert(ARRAY_LEN(default_way) == STDIO_CLASS_COUNT, "a way for each class");

static int choose_screen(const enum stdio_class cls[3], const struct stdio_wish *wish) {
    static const int order[] = {1, 2, 0};

    if (wish->force_tty)
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (cls[order[i]] == STDIO_TERMINAL)
            return order[i];
    return -1;
}

/* `bawn run -- cat | less`: less has the terminal. `bawn run -- fzf > choice`: no other program has it. */
static enum stdio_term choose_term(const enum stdio_class cls[3]) {
    bool in = cls[0] == STDIO_TERMINAL, out = cls[1] == STDIO_TERMINAL, err = cls[2] == STDIO_TERMINAL;
    bool pipeline = cls[1] == STDIO_PIPE || cls[1] == STDIO_SOCKET;

    if (in)
        return out || (err && !pipeline) ? STDIO_TERM_RAW : STDIO_TERM_COOKED;
    return out || err ? STDIO_TERM_OUTPUT : STDIO_TERM_NONE;
}

static int refuse_escapes(const enum stdio_class cls[3], struct err *err) {
    for (int i = 0; i < 3; i++) {
        if (cls[i] == STDIO_DIRECTORY)
            return err_set(err, -EISDIR,
                           "%s is a directory, through which the sandboxed program could open files outside; "
                           "redirect it to a file or a pipe",
                           stream_names[i]);
        if (cls[i] == STDIO_PATH)
            return err_set(err, -EBADF, "%s was opened with O_PATH and cannot be read or written", stream_names[i]);
    }
    return 0;
}

int stdio_plan(const enum stdio_class cls[3], bool same, const struct stdio_wish *wish, struct stdio_plan *ret, struct err *err) {
    struct stdio_plan plan = {.screen = -1};
    int r = refuse_escapes(cls, err);

    if (r < 0)
        return r;
    if (wish->force_tty && wish->no_tty)
        return err_usage(err, "a terminal cannot be both forced and forbidden");
    for (int i = 0; i < 3; i++) {
        plan.way[i] = wish->force_tty                            ? STDIO_WAY_PTY
                      : wish->no_tty && cls[i] == STDIO_TERMINAL ? STDIO_WAY_RELAY
                                                                 : default_way[cls[i]];
        plan.pty |= plan.way[i] == STDIO_WAY_PTY;
    }
    plan.merged = same && plan.way[1] == STDIO_WAY_RELAY && plan.way[2] == STDIO_WAY_RELAY;
    if (plan.pty) {
        plan.screen = choose_screen(cls, wish);
        plan.term = choose_term(cls);
    }
    *ret = plan;
    return 0;
}

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
    int r = i == 0 ? fd_pipe(&s->inside[i], &s->ours[i]) : fd_pipe(&s->ours[i], &s->inside[i]);

    if (r < 0)
        return r;
    open_to_sandbox(s->inside[i]);
    return fcntl(s->ours[i], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
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
    struct termios t = s->modes.user;

    if (!s->modes.have_user)
        return false;
    if (s->plan.term == STDIO_TERM_COOKED) { /* the real terminal edits lines and echoes: only VEOF and VLNEXT mean something */
        for (size_t i = 0; i < NCCS; i++)
            if (i != VMIN && i != VTIME)
                t.c_cc[i] = _POSIX_VDISABLE;
        t.c_cc[VEOF] = 'D' - '@';
        t.c_cc[VLNEXT] = 'V' - '@';
        t.c_iflag &= ~(tcflag_t)(ISTRIP | INLCR | IGNCR | ICRNL | IUCLC | IXON | IXOFF | IXANY);
        t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ISIG);
        t.c_lflag |= ICANON | IEXTEN;
    }
    if (s->plan.term == STDIO_TERM_COOKED || s->plan.term == STDIO_TERM_OUTPUT) /* the real terminal processes output */
        t.c_oflag &= ~(tcflag_t)OPOST;
    *ret = t;
    return true;
}

static void set_inner_modes(struct stdio *s) {
    static const struct winsize usual = {.ws_row = 24, .ws_col = 80};
    struct termios t;

    if (!s->modes.set && stdio_inner_modes(s, &t)) {
        t.c_lflag |= s->modes.external ? EXTPROC : 0;
        tcsetattr(s->master, TCSANOW, &t);
    }
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
