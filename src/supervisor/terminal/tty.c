/* SPDX-License-Identifier: Apache-2.0 */
/* The user's real terminal. */
#include "supervisor/terminal/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/fd.h"

bool tty_is_foreground(int fd) {
    pid_t group = tcgetpgrp(fd);

    return group < 0 || group == getpgrp();
}

int tty_set(int fd, const struct termios *t) {
    sigset_t ttou, before;
    int r;

    if (!tty_is_foreground(fd))
        return 1;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &before);
    do
        r = tcsetattr(fd, TCSADRAIN, t) < 0 ? -errno : 0;
    while (r == -EINTR);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}

struct termios tty_raw(const struct termios *user, bool keep_output) {
    struct termios t = *user;

    cfmakeraw(&t);
    t.c_cc[VMIN] = 1;
    t.c_cc[VTIME] = 0;
    if (keep_output)
        t.c_oflag = user->c_oflag;
    return t;
}

int tty_copy_size(int from, int to) {
    struct winsize a, b;

    if (ioctl(from, TIOCGWINSZ, &a) < 0)
        return -errno;
    if (ioctl(to, TIOCGWINSZ, &b) == 0 && memcmp(&a, &b, sizeof a) == 0)
        return 0;
    return ioctl(to, TIOCSWINSZ, &a) < 0 ? -errno : 0;
}

void tty_stop_job(int sig) {
    bool whole_job = sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
    struct sigaction stop = {.sa_handler = SIG_DFL}, before;
    sigset_t set, mask;

    if (!whole_job) {
        kill(getpid(), SIGSTOP);
        return;
    }
    /* While blocked the signal waits for us; unblocking it is the moment at which we stop. */
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_BLOCK, &set, &mask);
    sigaction(sig, &stop, &before);
    kill(0, sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(sig, &before, NULL);
}

bool tty_has_us(void) {
    CLEANUP(closep) int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    return fd >= 0 && tcgetpgrp(fd) == getpgrp();
}

void tty_log_sink(const char *line, size_t len) {
    struct termios t;
    bool raw = tcgetattr(STDERR_FILENO, &t) == 0 && !((t.c_oflag & OPOST) && (t.c_oflag & ONLCR));
    bool newline = raw && len > 0 && line[len - 1] == '\n';
    struct iovec parts[] = {
        {"\r", raw ? 1 : 0},
        {(void *)line, newline ? len - 1 : len},
        {"\r\n", newline ? 2 : 0},
    };

    if (writev(STDERR_FILENO, parts, ARRAY_LEN(parts)) < 0)
        return; /* there is no terminal left */
}
