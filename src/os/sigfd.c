/* SPDX-License-Identifier: Apache-2.0 */
/* Signals by a descriptor. */
#include "os/sigfd.h"

#include <errno.h>

#include "os/fd.h"

int sigfd_open(const int *signals, size_t n, sigset_t *ret_old) {
    sigset_t set, old;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, signals[i]);
    if (sigprocmask(SIG_BLOCK, &set, &old) < 0)
        return -errno;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        fd = -errno;
        sigprocmask(SIG_SETMASK, &old, NULL);
        return fd;
    }
    if (ret_old)
        *ret_old = old;
    return fd;
}

bool sigfd_next(int fd, struct signalfd_siginfo *ret) {
    return fd_read_some(fd, ret, sizeof *ret) == (ssize_t)sizeof *ret;
}

int sigfd_default(const sigset_t *mask) {
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGTTIN, SIGTTOU};
    sigset_t none;

    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (signal(signals[i], SIG_DFL) == SIG_ERR)
            return -errno;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, mask ? mask : &none, NULL) < 0 ? -errno : 0;
}
