/* SPDX-License-Identifier: Apache-2.0 */
/* Signals by a descriptor. */
#include "os/sigfd.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool sigfd_end_waits(void) {
    sigset_t waiting;

    return sigpending(&waiting) == 0 && (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
                                         sigismember(&waiting, SIGHUP) == 1 || sigismember(&waiting, SIGQUIT) == 1);
}

void signal_default(int sig) {
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } kernels = {.handler = SIG_DFL};

    syscall(SYS_rt_sigaction, sig, &kernels, NULL, sizeof kernels.mask);
}

int sigfd_default(const sigset_t *mask) {
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        signal_default(sig);
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, mask ? mask : &none, NULL) < 0 ? -errno : 0;
}
