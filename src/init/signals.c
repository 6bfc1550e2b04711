/* SPDX-License-Identifier: Apache-2.0 */
/* Default dispositions for all signals. */
#include <signal.h>

#include "init/init.h"
#include "os/sigfd.h"

enum { FIRST_REALTIME = 32 }; /* for the kernel; SIGRTMIN is the first that the C library leaves to others */

bool signal_is_ending(int sig) {
    return sig == SIGTERM || sig == SIGHUP || sig == SIGINT || sig == SIGQUIT;
}

void signals_of_libc_default(void) {
    for (int sig = FIRST_REALTIME; sig < SIGRTMIN; sig++)
        signal_default(sig);
}
