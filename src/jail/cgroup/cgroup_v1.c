/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v1. A child enters through `tasks`, not `cgroup.procs`: a thread that moves only itself needs no lock over all
 * forks of the machine, which kernels without `favordynmods` pay with an RCU grace period (milliseconds). The child that
 * enters has one thread, so the result is the same.
 */
#include <errno.h>

#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"

static bool apply_cpu(struct cgroup *cg, int dir, uint64_t milli) {
    uint64_t quota = milli * (CGROUP_PERIOD_US / 1000);
    char text[24];
    int r;

    snprintf(text, sizeof text, "%llu", (unsigned long long)quota);
    r = fd_write_file_at(dir, "cpu.cfs_quota_us", text);
    if (r == -EINVAL) /* the only reason for a sane number: a group above allows less, and goes on doing so */
        return true;
    if (r == 0 && cgroup_get(dir, "cpu.cfs_quota_us", NULL, UINT64_MAX) <= quota &&
        cgroup_get(dir, "cpu.cfs_period_us", NULL, 0) >= CGROUP_PERIOD_US)
        return true;
    cgroup_because(cg, "cpu.cfs_quota_us does not keep the value %s", text);
    return false;
}

static void v1_usage_cpu(const struct cgroup_group *g, struct cgroup_usage *ret) {
    if (g->controllers & CGROUP_CPU) {
        ret->cpu_us = cgroup_get(g->dir, "cpuacct.usage", NULL, 0) / 1000;
        ret->throttled_us = cgroup_get(g->dir, "cpu.stat", "throttled_time", 0) / 1000;
    }
}

const struct cgroup_ops cgroup_v1_ops = {
    .enter_file = "tasks",
    .memory_max = "memory.limit_in_bytes",
    .swap_max = "memory.memsw.limit_in_bytes",
    .memory_peak = "memory.max_usage_in_bytes",
    .oom_kills = "memory.oom_control",
    .swap_has_memory = true,
    .apply_cpu = apply_cpu,
    .usage_cpu = v1_usage_cpu,
};
