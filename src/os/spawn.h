/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs, started with exactly what is written down here. The child runs on our memory until it has become the other program
 * (CLONE_VM, CLONE_VFORK): that is cheap however large we are, and every failure up to execve(2) is known.
 *
 *     const struct spawn s = {.path = "/usr/bin/certutil", .argv = argv, .cwd = dir};
 *     int status = spawn_run(&s);
 *
 * What is left out has the strictest meaning: no variables, /dev/null and no other descriptors, the folder "/", a process group of its own, signals as
 * a new program expects them, and death by SIGKILL with us.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/macros.h"

struct buf;

enum { SPAWN_FDS_MAX = 64, SPAWN_CWD_ROOT = 0, SPAWN_CWD_STAY = -1 };

enum spawn_group {
    SPAWN_GROUP,    /* its own process group: the terminal's ^C does not reach it */
    SPAWN_SESSION,  /* its own session: no terminal to ask at */
    SPAWN_TERMINAL, /* stays in our group: may read from the terminal, and ^C reaches it, too */
};

struct spawn {
    const char *path; /* the program */
    bool search;      /* path may be a name that is looked for in our PATH */
    int exe;          /* instead of path: a descriptor of the program (no script: it closes itself); 0: none. Borrowed */
    char *const *argv, *const *envp;
    const int
        *fds; /* what becomes descriptor i; -1, and 0 to 2 if they are left out: /dev/null. Borrowed; all others are closed */
    size_t n_fds;
    int cwd; /* the folder it begins in: a descriptor, SPAWN_CWD_ROOT or SPAWN_CWD_STAY */
    enum spawn_group group;
    bool outlives;        /* does not die with us */
    int end_signal;       /* what it gets when we die; 0: SIGKILL */
    bool own_memory;      /* `before` changes ids: a process of another user must not share our memory, however briefly */
    bool same_signals;    /* what we ignore and block it ignores and blocks, too */
    int limit_ms;         /* of spawn_collect(): it is ended then (-ETIMEDOUT); 0: never */
    bool heeds_end;       /* with a limit: also once a signal that asks us to end came and is blocked (-EINTR) */
    const sigset_t *mask; /* blocked from its beginning; NULL: nothing */
    /* Called in the child before all but the group, for what is special: limits, ids, cgroups, mounts. Only system calls, and raw ones
     * for ids (those of the C library concern all threads of a memory). 0 or -errno, which spawn_start() returns. */
    int (*before)(void *arg);
    void *arg;
};

/* 0 or -errno, that of execve(2) included: then nothing is left of the child. ret_pidfd (may be NULL): close-on-exec; -1 if the kernel
 * has none. The caller waits with process_wait(), or ends it with process_end(). */
int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd);

/* Starts it and waits for its end; returns its wait status (process_exit_status()) or -errno. */
int spawn_run(const struct spawn *s);

/*
 * The same, and collects what it writes to descriptor 1 and 2 instead of what fds says about them. Either may be NULL. An answer past the
 * ceiling of `out` ends it (-EFBIG); of what it says, the first part is enough.
 */
int spawn_collect(const struct spawn *s, struct buf *out, struct buf *said);
