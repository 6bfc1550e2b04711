/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language between a supervisor and bawn-init, the PID 1 of a sandbox (spec/init-protocol.md).
 *
 * Control socket: SOCK_SEQPACKET, fixed-size messages `struct init_msg`. A START message comes with one
 * descriptor, a memfd that holds an encoded `struct init_start`; further descriptors travel with PTY, NETWORK and INSIDE.
 * bawn-init trusts its supervisor, but decodes with every bound checked: other engines carry these bytes
 * through channels that a workload may reach.
 */
#pragma once

#include "base/macros.h"

struct buf;

enum { INIT_PROTOCOL = 3, INIT_START_MAX = 8 * 1024 * 1024, INIT_STRINGS_MAX = 200000, INIT_TEXTS_MAX = 8192 };

enum init_msg_type {
    INIT_MSG_SIGNAL =
        1,        /* to init: value = signal, extra = 1: to the command's process group, 0: to the command, INIT_SIGNAL_FRONT */
    INIT_MSG_GO,  /* to init: the terminal is set up, start the command */
    INIT_MSG_PTY, /* from init, with the master's descriptor */
    INIT_MSG_STARTED, /* from init: value = pid inside; with the pty's master if the request has EXEC_TTY */
    INIT_MSG_STOPPED, /* from init: value = the signal that stopped the command */
    INIT_MSG_EXITED,  /* from init: value = wait status; extra: enum init_exited */
    INIT_MSG_FAILED,  /* from init: value = errno, text = what failed; nothing was started */
    INIT_MSG_LIMIT,   /* from init: the watchdog stopped everything; value = enum init_limit */
    INIT_MSG_NETWORK, /* before init: value = set of the places of the listeners that come with it; extra 1: more follow */
    INIT_MSG_INSIDE,  /* to init: value = port, extra = id; from init: extra = id, with a socket, or value = errno */
    /* Only with INIT_FLAG_RESIDENT; `job` is a number of the supervisor's, > 0, in every message about one. STARTED with job 0 says that
     * the sandbox is ready: everything is locked down, and commands can be executed. */
    INIT_MSG_EXEC, /* to init: an encoded struct exec_request (execreq.h) behind the message, or, extra 1, in a memfd that is the first
                      descriptor; then the streams that its flags name. Answer: STARTED or EXITED with extra 1, or FAILED for this job */
    INIT_MSG_OPEN, /* to init: value = enum exec_open, the path behind the message; from init: with a descriptor, or value = errno */
    INIT_MSG_ALL /* to init: value = a signal for every process inside but init; without INIT_FLAG_RESIDENT, from init: it was sent */
};

enum init_limit { INIT_LIMIT_MEMORY = 1 };

enum init_exited {                         /* a set */
                   INIT_EXITED_NOEXEC = 1, /* execve failed, value = errno; alone */
                   INIT_EXITED_FULL = 2,   /* home and /tmp, which are one tmpfs, are full */
                   INIT_EXITED_PIDS = 4    /* as many processes ran as RLIMIT_NPROC lets be; a cgroup counts itself */
};

/* To the process group in front of its terminal, as a key does it: the far end of a byte link, where the kernel does not. */
enum { INIT_SIGNAL_FRONT = 2 };

struct init_msg {
    uint32_t type;
    int32_t value;
    int32_t extra;
    int32_t job; /* 0: the command of the start message */
    char text[240];
};

enum init_flag {
    INIT_FLAG_TTY = 1,       /* open a pty, make it the controlling terminal */
    INIT_FLAG_TTY_STDIN = 2, /* which of 0, 1, 2 are the pty's slave */
    INIT_FLAG_TTY_STDOUT = 4,
    INIT_FLAG_TTY_STDERR = 8,
    INIT_FLAG_NO_PIDNS = 16, /* not PID 1: adopt orphans, end every descendant at the end */
    INIT_FLAG_GUARD = 32,    /* descriptor 5 is the guard's socket: whatever changes a file goes through the guard (guardmsg.h) */
    INIT_FLAG_RESIDENT =
        64, /* no command of its own (argc 0): executes what INIT_MSG_EXEC asks for until the supervisor is gone */
    INIT_FLAG_ONE_ID = 128, /* calls that change owners and ids do nothing, and say that they did (jail/fence/one_id.h) */
    INIT_FLAG_MANY_IDS =
        512, /* root inside has the capabilities of caps_of_many_ids (jail/fence/caps.h); set-id bits are not set */
    INIT_FLAG_SOCKETS =
        256 /* no network namespace: the guard makes the sockets (init/guard/guard_sock.h). The first message is NETWORK, to init,
                               with the socket on which connections are handed to the gate */
};
enum { INIT_FLAGS_TTY = INIT_FLAG_TTY | INIT_FLAG_TTY_STDIN | INIT_FLAG_TTY_STDOUT | INIT_FLAG_TTY_STDERR };

enum init_landlock {
    INIT_LANDLOCK_NONE,
    INIT_LANDLOCK_FENCE,   /* behind mounts: no write, signal or abstract socket goes past them */
    INIT_LANDLOCK_WALL,    /* instead of mounts: nothing is reached that no rule names, no TCP */
    INIT_LANDLOCK_OFFERED, /* FENCE, if the kernel has Landlock: the supervisor does not know it */
    INIT_LANDLOCK_SCOPES   /* no fence around files, behind which nothing can be mounted; signals and abstract sockets only */
};

/* How a Landlock rule opens a path; numbers are part of the protocol. */
enum init_access {
    INIT_ACCESS_READ,
    INIT_ACCESS_EXEC,
    INIT_ACCESS_WRITE,
    INIT_ACCESS_SOCKET /* INIT_FLAG_SOCKETS: no rule of Landlock's, but a unix socket of the host's that may be connected to */
};

struct init_rule {
    uint32_t access;
    uint32_t optional; /* a path that is not there is no error */
    const char *path;
};

struct init_rlimit {
    uint32_t resource;
    uint32_t hard_only_down; /* keep the current hard limit if it is already lower */
    uint64_t value;
};

/* The text of one file with rules in the syntax of .gitignore; any bytes, no NUL at its end. */
struct init_text {
    const char *dir, *origin; /* as for ignore_add_file() */
    const char *data;
    size_t len;
};

/* Everything that PID 1 must know to start the command. Strings point into the decoded bytes. */
struct init_start {
    uint32_t flags, umask, seccomp, landlock; /* landlock: enum init_landlock */
    uint64_t watch_memory;                    /* bytes for the watchdog; 0: the kernel limits it */
    uint64_t cpu_affinity;                    /* run on this many CPUs; 0: all */
    const char *cwd, *search_path;            /* search_path: PATH for finding argv[0] */
    char **argv, **envp;                      /* NULL-terminated */
    size_t argc, envc;
    struct init_rule *rules;
    size_t n_rules;
    struct init_rlimit *rlimits;
    size_t n_rlimits;
    const char *guard_root; /* INIT_FLAG_GUARD: the workspace as it is called inside; NULL and "" are the same */
    struct init_text *hide; /* names that no process inside may make */
    size_t n_hide;
    struct init_text *protect; /* paths that no process inside may change */
    size_t n_protect;
};

int init_start_encode(const struct init_start *s, struct buf *out);
/* bytes must stay alive and be followed by nothing; the arrays are malloc'ed: init_start_done(). */
int init_start_decode(char *bytes, size_t len, struct init_start *ret);
void init_start_done(struct init_start *s);
