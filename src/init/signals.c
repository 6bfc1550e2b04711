/* SPDX-License-Identifier: Apache-2.0 */
/* Default dispositions for all signals. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/init.h"

enum { FIRST_REALTIME = 32 }; /* for the kernel; SIGRTMIN is the first that the C library leaves to others */

void signal_default(int sig) {
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } kernels = {.handler = SIG_DFL};

    syscall(SYS_rt_sigaction, sig, &kernels, NULL, sizeof kernels.mask);
}

bool signal_is_ending(int sig) {
    return sig == SIGTERM || sig == SIGHUP || sig == SIGINT || sig == SIGQUIT;
}

void signals_of_libc_default(void) {
    for (int sig = FIRST_REALTIME; sig < SIGRTMIN; sig++)
        signal_default(sig);
}
