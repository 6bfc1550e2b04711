/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals inside, by their masters. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "link/far.h"
#include "os/fd.h"

static int master_of(const struct chan *c) {
    return c->rfd >= 0 ? c->rfd : c->wfd;
}

void far_tty_set(struct chan *c, const struct link_tty *t) {
    const struct winsize size = {.ws_row = t->size[0], .ws_col = t->size[1], .ws_xpixel = t->size[2], .ws_ypixel = t->size[3]};
    struct termios now = {0}; /* the kernel fills less than the C library has */
    int fd = master_of(c);

    if (t->what == LINK_TTY_SIZE) {
        ioctl(fd, TIOCSWINSZ, &size);
        return;
    }
    if (tcgetattr(fd, &now) < 0)
        return;
    now.c_iflag = t->modes[0];
    now.c_oflag = t->modes[1];
    now.c_cflag = (now.c_cflag & CBAUD) | (t->modes[2] & ~(tcflag_t)CBAUD);
    now.c_lflag = t->modes[3];
    memcpy(now.c_cc, t->cc, MIN_OF(sizeof now.c_cc, sizeof t->cc));
    tcsetattr(fd, TCSANOW, &now);
}

static void send_modes(struct chan *c) {
    struct link_tty t = {.what = LINK_TTY_MODES};
    struct termios now = {0}; /* the kernel fills less than the C library has */

    if (tcgetattr(master_of(c), &now) < 0)
        return;
    t.modes[0] = now.c_iflag;
    t.modes[1] = now.c_oflag;
    t.modes[2] = now.c_cflag;
    t.modes[3] = now.c_lflag;
    memcpy(t.cc, now.c_cc, MIN_OF(sizeof now.c_cc, sizeof t.cc));
    if (memcmp(&t, &c->tty[1], sizeof t) != 0)
        mux_tty(c, &t);
}

size_t far_tty_sync(struct mux *m) {
    size_t n = 0;

    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]];

        if (c->kind != LINK_TERMINAL || master_of(c) < 0)
            continue;
        send_modes(c);
        n++;
    }
    return n;
}

/* Everything inside is dead: what a terminal does not have now never comes. Linux says so itself (EIO), gVisor does not. */
void far_tty_end(struct mux *m) {
    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]];
        struct pollfd p = {.fd = c->rfd, .events = POLLIN};

        if (c->kind == LINK_TERMINAL && c->rfd >= 0 && !c->end_due && !c->end_sent && poll(&p, 1, 0) == 0)
            mux_end(c, 0);
    }
}

/* Linux has both since 4.13; gVisor (2022) neither. */
bool far_tty_signals(int master) {
    CLEANUP(closep) int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    return peer >= 0;
}

static int signal_of(const struct termios *modes, uint8_t key) {
    static const struct { int place, sig; } keys[] = {{VINTR, SIGINT}, {VQUIT, SIGQUIT}, {VSUSP, SIGTSTP}};

    for (size_t i = 0; modes->c_lflag & ISIG && key && i < ARRAY_LEN(keys); i++)
        if (modes->c_cc[keys[i].place] == key)
            return keys[i].sig;
    return 0;
}

ssize_t far_tty_write(struct chan *c, const uint8_t *bytes, size_t len) {
    struct termios modes = {0};
    size_t n = 0;

    if (tcgetattr(c->wfd, &modes) < 0)
        modes.c_lflag = 0;
    while (n < len && !signal_of(&modes, bytes[n]))
        n++;
    if (n > 0)
        return write(c->wfd, bytes, n);
    if (far_key(c, signal_of(&modes, bytes[0])))
        return 1;
    errno = EAGAIN;
    return -1;
}
