/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: the numbers of struct limits, enforced by the kernel for everything inside one sandbox.
 *
 *     struct cgroup_host host;
 *     CLEANUP(cgroup_done) struct cgroup cg = CGROUP_INIT;
 *     cgroup_probe(&host);                            what this host and this user can have
 *     cgroup_sweep(&host);                            groups of supervisors that died (nothing to do: ~10 µs)
 *     cgroup_name(name);
 *     cgroup_create(&cg, &host, &limits, name, helper, err);
 *     ... say aloud every limit that was asked for and that cg.enforces lacks, with cg.why ...
 *     clone ...                                       in the child, first of all: cgroup_enter(&cg, false),
 *                                                     then unshare(CLONE_NEWCGROUP): its root is where the child is
 *     ... reap ...
 *     cgroup_hits(&cg, &hits);                        which limit ended it
 *     cgroup_done(&cg);
 *
 * Five kinds of host:
 *   hybrid    v1 controllers limit, a cgroup2 group without controllers kills (`cgroup.kill`)
 *   v1        the same without cgroup2: killing is a loop over `cgroup.procs`
 *   v2        groups below the caller's own group, if it may have any (see cgroup_v2.c)
 *   systemd   the helper program bawn-scope asks systemd for a delegated scope and moves *the caller* into it;
 *             from then on it is v2. The caller stays in the scope, beside the sandbox's group, until it exits.
 *   none      nothing is available. Not an error: the caller falls back to rlimits and a watchdog, and says so
 * Groups are made below the caller's own group, so that whatever limits the caller limits the sandbox too.
 *
 * No limit counts as enforced because a write succeeded; every one is read back from the group.
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;
struct limits;

enum cgroup_kind {
    CGROUP_NONE,
    CGROUP_V1,
    CGROUP_HYBRID,
    CGROUP_V2,
    CGROUP_SYSTEMD,
    CGROUP_KIND_N,
};

enum { /* bits: the controllers that matter here */
       CGROUP_CPU = 1,
       CGROUP_MEMORY = 2,
       CGROUP_PIDS = 4,
};

enum {
    CGROUP_DIRS_MAX = 4,    /* v1: cpu, memory, pids, each on its own, and cgroup2 */
    CGROUP_PATH_MAX = 1024, /* a longer path to the caller's own group makes that hierarchy unusable */
    CGROUP_NAME_MAX = 72,
};

struct cgroup_caps {
    bool cpu, memory, swap, pids;
    bool kill; /* all processes at once, so that a fork bomb cannot outrun it */
};

/* One hierarchy: the place where groups can be made. */
struct cgroup_dir {
    unsigned controllers; /* v2: those that a group in it can have */
    unsigned enabled;     /* v2: those that a group in it has at once */
    bool unified;         /* cgroup2 */
    char path[CGROUP_PATH_MAX];
};

struct cgroup_host {
    enum cgroup_kind kind;
    struct cgroup_caps can; /* systemd: what its manager has; only the group itself tells the truth */
    const char *why;        /* why not more; NULL if everything is available */
    const char *remedy;     /* what a person can do about it; NULL if nothing is needed */
    unsigned n;
    struct cgroup_dir dirs[CGROUP_DIRS_MAX];
};

struct cgroup_group {
    int dir;   /* O_PATH */
    int enter; /* `tasks` (v1) or `cgroup.procs` (v2), opened with the credentials of the creator */
    unsigned controllers;
    bool unified;
    char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
};

/* Limits that were hit. */
struct cgroup_hits {
    uint64_t oom_kills; /* processes that the kernel killed for memory */
    uint64_t pids;      /* forks that were refused */
};

struct cgroup_usage {
    uint64_t memory_peak;  /* bytes */
    uint64_t pids_peak;    /* 0 before kernel 6.1 */
    uint64_t cpu_us;       /* 0 where cpuacct is not mounted together with cpu (v1): see struct sandbox */
    uint64_t throttled_us; /* time that work waited because of the cpu limit */
};

struct cgroup {
    enum cgroup_kind kind;
    struct cgroup_caps enforces;  /* asked for, and read back from the group */
    char why[160];                /* why something that was asked for is not enforced; "" if all is */
    bool adopted;                 /* another engine's: cgroup_adopt() */
    struct cgroup_hits last_hits; /* adopted: cgroup_remember() */
    struct cgroup_usage last_usage;
    bool moved; /* the caller had to leave its own group for a child of it (cgroup_v2.c) */
    unsigned n;
    struct cgroup_group groups[CGROUP_DIRS_MAX];
};

#define CGROUP_INIT \
    { .kind = CGROUP_NONE }

const char *cgroup_kind_name(enum cgroup_kind kind);

/* Cheap enough for every start (~30 µs): reads /proc/self/cgroup once, and mountinfo only on unusual hosts. */
void cgroup_probe(struct cgroup_host *ret);

/*
 * "bawn-PID-START-PIDNS" of the calling process. With the start time (clock ticks) and the inode of the pid namespace,
 * a sweeper can prove that the owner is dead, and never mistakes an owner in another pid namespace for a dead one.
 * A process with several sandboxes at a time adds "-N" to it.
 */
int cgroup_name(char ret[static CGROUP_NAME_MAX], struct err *err);

/*
 * Makes the groups and sets the limits. `helper` is the path of bawn-scope, NULL to do without systemd.
 * 0 also if nothing, or not everything, can be enforced (cg->enforces, cg->why); on failure nothing is left.
 * With kind systemd or v2 the caller itself may have moved (to a group beside the sandbox's): call it before other
 * processes are started that should be where the caller is.
 */
int cgroup_create(struct cgroup *cg, const struct cgroup_host *host, const struct limits *l, const char *name, const char *helper,
                  struct err *err);

/*
 * Puts the calling process into the groups. For a child that is fresh from clone and has one thread; async-signal-safe,
 * may share memory with its parent. `cloned`: it was made with CLONE_INTO_CGROUP and cgroup_clone_fd(), so only v1 is left.
 */
int cgroup_enter(const struct cgroup *cg, bool cloned);
/*
 * The same for a process of ours that works for the sandbox (bawn-gate, bawn-broker): its memory and CPU time are the sandbox's, so that a
 * flood of connections is paid for by the sandbox that makes it. Not where only processes are counted or killed (v1, hybrid): there is nothing to
 * count, and it is not to be killed before its end. In cgroup2 it counts as one process.
 */
int cgroup_charge(const struct cgroup *cg);
/* For clone_args.cgroup with CLONE_INTO_CGROUP (the fastest way into cgroup2); -1 if there is no cgroup2 group. */
int cgroup_clone_fd(const struct cgroup *cg);

/* Both work when all processes are dead, until cgroup_done(). What a group does not have counts as 0. */
void cgroup_hits(const struct cgroup *cg, struct cgroup_hits *ret);
uint64_t cgroup_pids_hits(const struct cgroup *cg); /* hits.pids alone */
void cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret);

/*
 * The groups that this process is in, which another engine made: what they limit is read from them, and they are neither changed nor removed. They
 * vanish with the last process; what is needed after that, cgroup_remember() stores.
 */
void cgroup_adopt(struct cgroup *cg, pid_t pid, const struct limits *l);
void cgroup_remember(struct cgroup *cg);

/* Kills what is left, removes the groups and closes. -EBUSY: something will not die; the next cgroup_sweep() gets it. */
int cgroup_done(struct cgroup *cg);

/*
 * Removes groups of supervisors that no longer exist, with whatever still runs in them. Never one whose owner lives, that
 * belongs to another user, or whose name says nothing about its owner. Returns how many were removed.
 */
int cgroup_sweep(const struct cgroup_host *host);
