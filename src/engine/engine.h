/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: who puts a command behind the wall. One const table each; the profile's needs are compared with what
 * the engine says it keeps, and a missing one is a refusal (or, for the native engine in auto mode, a weaker rung
 * that is announced). bawn-init is PID 1 behind every engine, so the supervisor drives them all the same way.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/macros.h"
#include "config/limits.h"
#include "jail/cgroup/cgroup.h"
#include "jail/plan/plan.h"

struct err;
struct settings;
struct ignore;

/* What can be enforced; an engine's vector is a set of these. */
enum guarantee {
    ENFORCES_FILES = 1 << 0,     /* nothing of the host but the workspace and read-only tools */
    ENFORCES_PROCESSES = 1 << 1, /* no process outside can be seen, signalled or read */
    ENFORCES_NETWORK = 1 << 2,   /* no packet leaves */
    ENFORCES_SOCKETS = 1 << 3,   /* no unix socket of the host can be reached */
    ENFORCES_SYSCALLS = 1 << 4,  /* kernel surface cut by a filter */
    ENFORCES_CPU = 1 << 5,
    ENFORCES_MEMORY = 1 << 6,
    ENFORCES_PIDS = 1 << 7,
    ENFORCES_DISK = 1 << 8,
    ENFORCES_TIME = 1 << 9,
    ENFORCES_END = 1 << 10 /* nothing outlives the run */
};
enum { GUARANTEE_COUNT = 11 };
extern const char *const guarantee_names[GUARANTEE_COUNT];   /* "files", ... */
extern const char *const guarantee_meaning[GUARANTEE_COUNT]; /* a clause for people */

/* One rung or variant of an engine, as this host has it. */
struct engine_state {
    bool available;
    unsigned keeps;   /* set of enum guarantee */
    char why[240];    /* why it is not available, or not whole; "" if all is well */
    char remedy[400]; /* what a person can type; "" if nothing */
};

/* What the caller wants started. */
struct engine_request {
    const struct settings *settings;
    struct plan *plan;
    int stdio[3];                        /* what becomes 0, 1, 2 inside; -1: nothing */
    int guard;                           /* socket for the guard inside; -1: none */
    const struct ignore *hide, *protect; /* the guard's rules */
    unsigned tty;                        /* set of enum init_flag TTY bits; 0: no terminal */
    bool resident;                       /* no command: bawn-init waits for INIT_MSG_EXEC; the plan's argc is 0 */
    sigset_t old_mask;                   /* the signal mask of the command */
};

/* A sandbox that runs. The supervisor talks to its PID 1 through `control`. */
struct sandbox {
    const struct engine_ops *engine;
    pid_t pid;
    int pidfd, control;
    int net[4]; /* listeners made inside: tcp4, tcp6, udp4, udp6; -1: none. Taking one leaves -1 */
    int net_named
        [12]; /* TCP of single ports, for IPv4 and IPv6, where not every port is available (jail/network/network.h); -1: none */
    struct cgroup cgroup;
    struct cgroup_host cgroup_host;
    char private_dir[128]; /* landlock rung: removed at the end; "" otherwise */
};
#define SANDBOX_INIT                                                                         \
    {                                                                                        \
        .pid = -1, .pidfd = -1, .control = -1, .net = {-1, -1, -1, -1},                      \
        .net_named = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, .cgroup = CGROUP_INIT \
    }

struct engine_ops {
    const char *name, *summary;
    unsigned can_keep; /* at best; what this host really has: probe() */
    bool for_tests;    /* not listed, not chosen by auto */
    /* The engine's rungs on this host, strongest first; returns how many were written. */
    size_t (*probe)(struct engine_state *ret, const char **ret_names, size_t max);
    /* -EOPNOTSUPP with *ret_weaker set: not at this rung; the caller may plan for the weaker one. */
    int (*start)(const struct engine_request *req, struct sandbox *sb, bool *ret_weaker, struct err *err);
    /* Ends whatever still runs inside and waits for its end. */
    void (*stop)(struct sandbox *sb);
    /* stop(), and removes every trace. Safe on a sandbox that was never started. */
    void (*finish)(struct sandbox *sb);
};

extern const struct engine_ops engine_native, engine_none, engine_fake;
extern const struct engine_ops *const engines[];
extern const size_t n_engines;

/* NULL with an error that names the known ones, or says that this build does not drive it yet. */
const struct engine_ops *engine_find(const char *name, struct err *err);

/* Finds a program that belongs to Bawn: beside the running executable or in ../libexec/bawn. Never by PATH or the
 * current directory (ATTACKS 7). Writes its path; returns an O_PATH-free, executable descriptor or -errno. */
int engine_helper(const char *name, char *ret_path, size_t size);
