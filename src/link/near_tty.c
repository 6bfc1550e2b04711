/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals. The real one is inside; the supervisor gets the master of a second one, here, that processes nothing (EXTPROC) and whose modes
 * read as those of the real one. The kernel signals a new size to a foreground process group only, so the size is polled.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "link/near.h"
#include "os/fd.h"

static_assert(NCCS <= LINK_TTY_CC, "room for all of them");

/* Bytes pass as they are, whatever else the modes say. */
static void process_nothing(struct termios *t) {
    t->c_lflag |= EXTPROC;
    t->c_oflag &= ~(tcflag_t)OPOST;
    t->c_iflag &= ~(tcflag_t)(IXON | IXOFF | IXANY | INLCR | ICRNL | IGNCR | ISTRIP | IUCLC | PARMRK);
    t->c_cc[VMIN] = 1;
    t->c_cc[VTIME] = 0;
}

int near_tty_open(const struct near *n, struct chan *c) {
    int master, slave, r = near_maker_ask(n, &master, &slave);
    struct termios t;

    if (r < 0)
        return r;
    if (tcgetattr(slave, &t) == 0) {
        process_nothing(&t);
        tcsetattr(slave, TCSANOW, &t);
    }
    c->rfd = c->wfd = slave;
    c->io = CHAN_NONBLOCK;
    c->held = master;
    return 0;
}

/* As near_tty_open() and near_tty_modes() leave a terminal. */
static bool is_plain(const struct termios *t) {
    struct termios plain = *t;

    process_nothing(&plain);
    return plain.c_iflag == t->c_iflag && plain.c_oflag == t->c_oflag && plain.c_lflag == t->c_lflag;
}

static int slave_of(const struct chan *c) {
    return c->rfd >= 0 ? c->rfd : c->wfd;
}

void near_tty_modes(struct chan *c, const struct link_tty *t) {
    struct termios now = {0};
    int fd = slave_of(c);

    /* Others are those that the supervisor set, and that are still to be sent. */
    if (t->what != LINK_TTY_MODES || fd < 0 || tcgetattr(fd, &now) < 0 || !is_plain(&now))
        return;
    now.c_iflag = t->modes[0];
    now.c_oflag = t->modes[1];
    now.c_cflag = (now.c_cflag & CBAUD) | (t->modes[2] & ~(tcflag_t)CBAUD);
    now.c_lflag = t->modes[3];
    memcpy(now.c_cc, t->cc, NCCS);
    process_nothing(&now);
    tcsetattr(fd, TCSANOW, &now);
}

static void send_size(struct chan *c, int fd) {
    struct link_tty t = {.what = LINK_TTY_SIZE};
    struct winsize w;

    if (ioctl(fd, TIOCGWINSZ, &w) < 0)
        return;
    t.size[0] = w.ws_row;
    t.size[1] = w.ws_col;
    t.size[2] = w.ws_xpixel;
    t.size[3] = w.ws_ypixel;
    if (c->tag ? memcmp(t.size, c->tty[0].size, sizeof t.size) == 0 : !w.ws_row && !w.ws_col)
        return; /* as it was sent, or never set */
    c->tag = 1;
    mux_tty(c, &t);
}

static void send_modes(struct chan *c, int fd) {
    struct link_tty t = {.what = LINK_TTY_MODES};
    struct termios now = {0};

    if (tcgetattr(fd, &now) < 0 || is_plain(&now))
        return; /* the supervisor left them alone */
    now.c_lflag &= ~(tcflag_t)EXTPROC;
    t.modes[0] = now.c_iflag;
    t.modes[1] = now.c_oflag;
    t.modes[2] = now.c_cflag;
    t.modes[3] = now.c_lflag;
    memcpy(t.cc, now.c_cc, NCCS);
    mux_tty(c, &t);
    process_nothing(&now);
    tcsetattr(fd, TCSANOW, &now);
}

void near_tty_sync(struct near *n, bool modes) {
    n->terminals = 0;
    for (size_t i = 0; i < n->m.n_live; i++) {
        struct chan *c = &n->m.chans[n->m.live[i]];
        int fd = c->kind == LINK_TERMINAL ? slave_of(c) : -1;

        if (fd < 0)
            continue;
        n->terminals++;
        if (modes)
            send_modes(c, fd);
        if (!c->awaited) /* before the supervisor has it there is no size to speak of */
            send_size(c, fd);
    }
}
