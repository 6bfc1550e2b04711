/* SPDX-License-Identifier: Apache-2.0 */
/* What the back-ends of cgroup.h share. Included by cgroup*.c and their unit test only. */
#pragma once

#include "config/limits.h"
#include "jail/cgroup/cgroup.h"

/*
 * A process may not be in a cgroup2 group that hands controllers to its children. Where the caller is alone in a group
 * that was delegated to it, it moves itself into a child of this name first.
 */
#define CGROUP_LEAF "bawn-supervisor"

enum {
    CGROUP_TEXT_MAX = 8192,    /* /proc/self/cgroup, cpu.stat and the like */
    CGROUP_PERIOD_US = 100000, /* the kernel's own default, v1 and v2 */
    CGROUP_OURS = 1,           /* pids: bawn-init, which the user did not count */
};

/* How one hierarchy is spoken to; there are two, and a hybrid host has groups of both. */
struct cgroup_ops {
    const char *enter_file, *memory_max, *swap_max, *memory_peak, *oom_kills; /* files of a group */
    bool swap_has_memory;                                                     /* swap_max limits both together */
    /* Makes a child of this directory able to have these controllers. A controller that is not available is no failure. */
    void (*prepare)(struct cgroup *cg, const struct cgroup_dir *dir, unsigned wanted);
    bool (*apply_cpu)(struct cgroup *cg, int dir, uint64_t milli);
    void (*usage_cpu)(const struct cgroup_group *g, struct cgroup_usage *ret);
};

extern const struct cgroup_ops cgroup_v1_ops, cgroup_v2_ops;

static inline const struct cgroup_ops *cgroup_ops_of(bool unified) {
    return unified ? &cgroup_v2_ops : &cgroup_v1_ops;
}

/* cgroup_find.c */
unsigned cgroup_controllers_parse(const char *list, char separator); /* "cpu,cpuacct" to bits */
/*
 * Where the caller's own groups are, from the text of /proc/self/cgroup and, if not NULL, /proc/self/mountinfo. Without
 * the latter the usual places below `sysfs` are tried. Only directories that exist count.
 */
void cgroup_locate(struct cgroup_host *ret, const char *sysfs, const char *cgroup_text, const char *mountinfo_text);
/* Directory that the bus socket of the caller's systemd is in, or NULL. buf holds it. */
const char *cgroup_bus_dir(char *buf, size_t size);

/* cgroup.c */
void cgroup_because(struct cgroup *cg, const char *fmt, ...) PRINTF_LIKE(2, 3); /* the first reason stays */
void cgroup_apply(struct cgroup *cg, const struct cgroup_group *g, const struct limits *l);
/* First number of a file ("max" and "-1" are UINT64_MAX), or of its line that begins with `key`. fallback: not there. */
uint64_t cgroup_get(int dir, const char *file, const char *key, uint64_t fallback);

/* cgroup_v2.c: takes the caller back out of CGROUP_LEAF below `base`, if no sandbox is left beside it. */
void cgroup_v2_restore(const char *base);

/* cgroup_systemd.c: moves the caller into a delegated scope. 1 if it is there now, 0 if not (cg->why says why). */
int cgroup_systemd_scope(struct cgroup *cg, const char *name, const char *helper);

/* cgroup_kill.c */
/* Removes the group, with what still runs in it. -EBUSY if that will not die. */
int cgroup_group_remove(const struct cgroup_group *g);

/* cgroup_sweep.c */
uint64_t cgroup_pidns(void); /* inode of the caller's pid namespace, 0 if unknown */
/* "bawn-PID-START-PIDNS", perhaps with more behind it: is its owner provably gone? */
bool cgroup_name_dead(const char *name, uint64_t pidns);
/* Calls hit() for every child group of `path` that is the caller's and whose owner is dead. Returns how many hits said 0. */
int cgroup_scan(const char *path, bool unified, int (*hit)(const char *path, bool unified));
