/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that are read from a descriptor, and the ones that a new program begins with. */
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include "base/macros.h"

/* Blocks these signals; they are read from the descriptor, which does not block, from now on. ret_old (may be NULL) is the mask as it
 * was, for sigprocmask() or a program that is started. -errno */
int sigfd_open(const int *signals, size_t n, sigset_t *ret_old);
/* The next one that came; false: no more. */
bool sigfd_next(int fd, struct signalfd_siginfo *ret);

/* A signal that asks us to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT) came and is blocked. It is not taken. */
bool sigfd_end_waits(void);

/* What a signal does is its default again, also for those that the C library reserves and refuses to touch (32 and 33): our starter may
 * ignore them, and a program could not undo that by the library's functions. */
void signal_default(int sig);
/* For a process that is about to become another program: what is ignored or blocked would stay so. mask NULL: nothing is blocked.
 * Only system calls. 0 or -errno */
int sigfd_default(const sigset_t *mask);
