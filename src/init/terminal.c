#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "os/sock.h"

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

int terminal_open(struct init *in, struct err *err) {
    CLEANUP(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0;

    if (master < 0)
        return err_sys(err, -errno, "open a pseudo-terminal");
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, -errno, "unlock the pseudo-terminal");
    in->tty = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (in->tty < 0)
        return err_sys(err, -errno, "open the pseudo-terminal's other end (needs Linux 4.13)");
    if (ioctl(in->tty, TIOCSCTTY, 0) < 0)
        return err_sys(err, -errno, "controlling terminal");
    return hand_over(in, master, err);
}

void terminal_foreground(const struct init *in) {
    if (in->tty >= 0 && in->command > 0)
        tcsetpgrp(in->tty, in->command); /* SIGTTOU is blocked in bawn-init; the command may be gone already */
}
