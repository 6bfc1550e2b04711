/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that another engine made, found by a process that is in them: read, never changed. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"

static bool holds(const struct cgroup_group *g, const char *file, uint64_t most) {
    return cgroup_get(g->dir, file, NULL, UINT64_MAX) <= most;
}

/* The same numbers that cgroup_apply() would have written. */
static void read_limits(struct cgroup *cg, const struct cgroup_group *g, const struct limits *l) {
    const struct cgroup_ops *ops = cgroup_ops_of(g->unified);

    if (g->controllers & CGROUP_CPU && l->cpus_milli)
        cg->enforces.cpu |= holds(g, g->unified ? "cpu.max" : "cpu.cfs_quota_us", l->cpus_milli * (CGROUP_PERIOD_US / 1000));
    if (g->controllers & CGROUP_MEMORY && l->memory) {
        cg->enforces.memory |= holds(g, ops->memory_max, l->memory);
        cg->enforces.swap |= faccessat(g->dir, ops->swap_max, F_OK, 0) < 0 ||
                             holds(g, ops->swap_max, l->swap + (ops->swap_has_memory ? l->memory : 0));
    }
    if (g->controllers & CGROUP_PIDS && l->pids)
        cg->enforces.pids |= holds(g, "pids.max", l->pids + CGROUP_OURS);
}

static bool find_groups(const char *proc_file, struct cgroup_host *ret) {
    char text[CGROUP_TEXT_MAX];

    if (fd_read_file_at(AT_FDCWD, proc_file, text, sizeof text) <= 0)
        return false;
    cgroup_locate(ret, "/sys/fs/cgroup", text, NULL);
    return true;
}

static bool is_in(const struct cgroup_host *h, const char *path) {
    for (unsigned i = 0; i < h->n; i++)
        if (str_eq(h->dirs[i].path, path))
            return true;
    return false;
}

/* A group that we are in, too, is not the container's: an engine without rights to any leaves its containers where they are. */
void cgroup_adopt(struct cgroup *cg, pid_t pid, const struct limits *l) {
    struct cgroup_host host = {0}, ours = {0};
    char path[64];

    *cg = (struct cgroup){.kind = CGROUP_NONE, .adopted = true};
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (!find_groups(path, &host) || !find_groups("/proc/self/cgroup", &ours))
        return;
    for (unsigned i = 0; i < host.n; i++) {
        struct cgroup_group *g = &cg->groups[cg->n];

        if (is_in(&ours, host.dirs[i].path))
            continue;
        *g = (struct cgroup_group){.enter = -1,
                                   .unified = host.dirs[i].unified,
                                   .controllers = host.dirs[i].unified ? host.dirs[i].enabled : host.dirs[i].controllers};
        snprintf(g->path, sizeof g->path, "%s", host.dirs[i].path);
        g->dir = open(g->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (g->dir < 0)
            continue;
        cg->kind = host.kind;
        cg->n++;
        read_limits(cg, g, l);
    }
}

void cgroup_remember(struct cgroup *cg) {
    if (!cg->adopted || cg->n == 0)
        return;
    cgroup_hits(cg, &cg->last_hits);
    cgroup_usage(cg, &cg->last_usage);
    for (unsigned i = 0; i < cg->n; i++)
        closep(&cg->groups[i].dir);
    cg->n = 0;
}
