/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of commands: made, handed over, resized. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/execreq.h"

enum { ROWS = 24, COLUMNS = 80 };

/* The pty belongs to the sandbox's own devpts, so that ttyname() works inside; its master goes to the supervisor,
 * who sets modes and size before the command starts (GO). */
static int hand_over(struct init *in, int master, struct err *err) {
    struct init_msg msg = {.type = INIT_MSG_PTY};
    long n;
    int r = sock_send(in->control, &msg, sizeof msg, &master, 1);

    if (r < 0)
        return err_sys(err, r, "hand the terminal over");
    do {
        n = sock_recv(in->control, &msg, sizeof msg, NULL, NULL);
        if (n != (long)sizeof msg)
            return err_set(err, -EPROTO, "the supervisor did not set up the terminal");
        if (msg.type == INIT_MSG_SIGNAL && in->n_early < INIT_EARLY_MAX) /* the user is faster than we are */
            in->early[in->n_early++] = msg;
    } while (msg.type != INIT_MSG_GO);
    return 0;
}

/* gVisor cannot open the other end by its master. The name is in the devpts that the engine made, where no other process makes any. */
static int open_by_number(int master) {
    unsigned number;
    char path[32];

    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -1;
    snprintf(path, sizeof path, "/dev/pts/%u", number);
    return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int open_pty(int *ret_master, int *ret_slave, struct err *err) {
    CLEANUP(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0, slave;

    if (master < 0)
        return err_sys(err, -errno, "open a pseudo-terminal");
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, -errno, "unlock the pseudo-terminal");
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 && errno == ENOTTY)
        slave = open_by_number(master);
    if (slave < 0)
        return err_sys(err, -errno, "open the pseudo-terminal's other end (needs Linux 4.13)");
    *ret_slave = slave;
    *ret_master = TAKE_FD(master);
    return 0;
}

int terminal_open(struct init *in, struct err *err) {
    CLEANUP(closep) int master = -1;
    int r = open_pty(&master, &in->tty, err);

    if (r < 0)
        return r;
    in->early = calloc(INIT_EARLY_MAX, sizeof *in->early);
    if (!in->early)
        return err_oom(err);
    if (ioctl(in->tty, TIOCSCTTY, 0) < 0)
        return err_sys(err, -errno, "controlling terminal");
    return hand_over(in, master, err);
}

/* What the client's terminal has, but for the speed of its line. */
static int set_modes(int slave, const struct exec_request *r) {
    struct termios t;

    if (!(r->flags & EXEC_TERMIOS))
        return 0;
    if (tcgetattr(slave, &t) < 0)
        return -errno;
    t.c_iflag = r->modes[0];
    t.c_oflag = r->modes[1];
    t.c_cflag = (t.c_cflag & CBAUD) | (r->modes[2] & ~(tcflag_t)CBAUD);
    t.c_lflag = r->modes[3];
    memcpy(t.c_cc, r->cc, sizeof r->cc);
    return tcsetattr(slave, TCSANOW, &t) < 0 ? -errno : 0;
}

int terminal_make(const struct exec_request *r, int *ret_master, int *ret_slave, struct err *err) {
    CLEANUP(closep) int master = -1;
    CLEANUP(closep) int slave = -1;
    const struct winsize size = {.ws_row = (unsigned short)(r->rows ? r->rows : ROWS),
                                 .ws_col = (unsigned short)(r->cols ? r->cols : COLUMNS)};
    int e = open_pty(&master, &slave, err);

    if (e < 0)
        return e;
    if (ioctl(master, TIOCSWINSZ, &size) < 0)
        return err_sys(err, -errno, "size of the terminal");
    e = set_modes(slave, r);
    if (e < 0)
        return err_sys(err, e, "modes of the terminal");
    *ret_master = TAKE_FD(master);
    *ret_slave = TAKE_FD(slave);
    return 0;
}

void terminal_foreground(int tty, pid_t group) {
    if (tty >= 0 && group > 0)
        tcsetpgrp(tty, group); /* SIGTTOU is blocked in bawn-init; the command may be gone already */
}

/* Only its session may ask the terminal itself, and holding its master would keep it from hanging up. */
pid_t terminal_group(pid_t leader) {
    char path[32], stat[1024];
    const char *p;
    int group;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)leader);
    if (fd_read_file_at(AT_FDCWD, path, stat, sizeof stat) <= 0)
        return -1;
    p = strrchr(stat, ')');
    return p && sscanf(p + 2, "%*c %*d %*d %*d %*d %d", &group) == 1 ? group : -1;
}
