/* SPDX-License-Identifier: Apache-2.0 */
/* Starting our other programs (bawn-gate, bawn-broker, bawn-vault): born with exactly these descriptors and variables, and they die with us. */
#pragma once

#include <sys/types.h>

#include "proto/gatemsg.h"

struct cgroup;
struct err;

enum { HELPER_FDS_MAX = GATE_FDS_MAX /* the gate's are the most */ };

struct helper {
    const char *name;    /* beside us, see engine_helper() */
    const char *program; /* instead of it, for tests; NULL: none */
    char *const *argv, *const *envp;
    int fds[HELPER_FDS_MAX]; /* what becomes descriptor i, borrowed; -1: /dev/null */
    size_t n_fds;
    const struct cgroup *cgroup; /* the sandbox's, which pays for what it uses; NULL: it is ours. Borrowed */
    bool terminal; /* stays in our process group, so that it may read from the terminal and Ctrl-C reaches it, too */
};

int helper_start(const struct helper *h, pid_t *ret_pid, struct err *err);

/* A socket and a pipe for messages (stderr), ours and those of the program. All but its end of the socket do not block. */
struct helper_ends {
    int sock, messages;
    int their_sock, their_messages;
};
#define HELPER_ENDS_INIT \
    { .sock = -1, .messages = -1, .their_sock = -1, .their_messages = -1 }
int helper_ends_open(struct helper_ends *ret, const char *name, struct err *err);
void helper_ends_done(struct helper_ends *e);
/* The first line that it wrote there, without "bawn: "; "": none. Returns a part of text. */
const char *helper_message(int messages, char *text, size_t size);

/* Until it ends: process_exit_status(). */
int helper_wait(const char *name, pid_t pid, int *ret_status, struct err *err);
/* One message of this size. 1: there is one; 0: none now; -EPIPE: it has ended; -EBADMSG: it has another size. */
int helper_recv(int sock, void *ret, size_t size);
/* "was ended by signal 9", or "had to be ended, WHY" if why is not NULL. */
enum { HELPER_END_SIZE = 100 };
const char *helper_how_ended(int wait_status, const char *why, char ret[static HELPER_END_SIZE]);
/* Of a name "PREFIX<pid>-<start time>...", as folders of ours have it: is that process provably gone? */
bool helper_owner_is_dead(const char *name, const char *prefix);
