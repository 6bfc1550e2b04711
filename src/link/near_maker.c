/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maker of terminals: a child of bawn-link, which itself may open nothing. No rule of Landlock could let it have new terminals but not those
 * of its user, because the kernel opens both below /dev/pts.
 *
 *   Should: answer each byte with the two ends of a new pty.
 *   Mustn't: read anything else, have any other descriptor, or live longer than bawn-link.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/fence/cell.h"
#include "link/near.h"
#include "os/fd.h"
#include "os/sock.h"

static const uint32_t allowed[] = {
    __NR_openat, __NR_recvmsg, __NR_sendmsg, __NR_close, __NR_rt_sigreturn, __NR_exit, __NR_exit_group,
};

static const struct sock_filter arguments[] = {
    CELL_BEGIN,         CELL_IF_EQ(__NR_execve, 1, 0), CELL_IF_EQ(__NR_execveat, 0, 1), CELL_KILL,  CELL_IF_EQ(__NR_ioctl, 0, 5),
    CELL_LOAD(args[1]), CELL_IF_EQ(TIOCSPTLCK, 1, 0),  CELL_IF_EQ(TIOCGPTPEER, 0, 1),   CELL_ALLOW, CELL_DENY,
};

static int make_terminal(int *ret_master, int *ret_slave) {
    CLEANUP(closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0, slave;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (slave < 0)
        return -errno;
    *ret_slave = slave;
    *ret_master = TAKE_FD(master);
    return 0;
}

static NORETURN void maker_main(int sock) {
    const struct cell_filter filter = CELL_FILTER("bawn-link", arguments, allowed);
    struct err err = {0};
    char c;

    if (dup2(sock, 0) < 0 || fd_close_from(1) < 0 || cell_drop(NEAR_IDS_FIRST, NEAR_ID_PLAIN, &err) < 0 ||
        cell_install(&filter, &err) < 0)
        _exit(EXIT_SANDBOX);
    while (sock_recv(0, &c, 1, NULL, NULL) == 1) {
        int fds[2] = {-1, -1}, r = make_terminal(&fds[0], &fds[1]);

        sock_send(0, &r, sizeof r, fds, r < 0 ? 0 : 2);
        closep(&fds[0]);
        closep(&fds[1]);
    }
    _exit(0);
}

int near_maker_start(struct near *n, struct err *err) {
    int pair[2], r = sock_pair(pair);
    pid_t pid;

    if (r < 0)
        return err_sys(err, r, "socket of the maker of terminals");
    pid = fork();
    if (pid == 0)
        maker_main(pair[1]);
    close(pair[1]);
    n->maker = pair[0];
    return pid < 0 ? err_sys(err, -errno, "start the maker of terminals") : 0;
}

int near_maker_ask(const struct near *n, int *ret_master, int *ret_slave) {
    int fds[2] = {-1, -1}, result = -EIO, r = n->maker < 0 ? -ENOTTY : sock_send(n->maker, "t", 1, NULL, 0);
    size_t n_fds = 2;

    if (r < 0)
        return r;
    if (sock_recv(n->maker, &result, sizeof result, fds, &n_fds) != (long)sizeof result || result < 0)
        return result < 0 ? result : -EIO;
    if (n_fds != 2) {
        fd_close_all(fds, n_fds);
        return -EMFILE;
    }
    *ret_master = fds[0];
    *ret_slave = fds[1];
    return 0;
}
