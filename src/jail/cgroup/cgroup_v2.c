/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v2, spoken to directly. A group gives controllers to its children only if its `cgroup.subtree_control` names them,
 * and apart from the root it cannot do so while it holds processes. So there are three cases:
 *   - the controllers are handed out already, or the caller is in the root group (a machine without systemd): just do it
 *   - the caller is alone in its group (a scope or service that was delegated to it): it moves into a child first
 *   - others are in the group too (a shell in a login session): nothing is available here; moving them is not our business
 *
 * memory.oom.group stays off: a test that eats all memory should die, not the agent that started it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"

static const struct {
    unsigned bit;
    const char *on, *off;
} switches[] = {{CGROUP_CPU, "+cpu", "-cpu"}, {CGROUP_MEMORY, "+memory", "-memory"}, {CGROUP_PIDS, "+pids", "-pids"}};

/* One at a time: a controller that is missing must not keep the others away. */
static int hand_out(int dir, unsigned wanted) {
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        if (wanted & switches[i].bit) {
            int one = fd_write_file_at(dir, "cgroup.subtree_control", switches[i].on);

            r = r ? r : one;
        }
    return r;
}

static int move_to_leaf(int dir) {
    if (mkdirat(dir, CGROUP_LEAF, 0755) < 0 && errno != EEXIST)
        return -errno;
    return fd_write_file_at(dir, CGROUP_LEAF "/cgroup.procs", "0");
}

/*
 * Asked before anything is handed out, not after a refusal: cpu and pids are handed out by a group with processes too, but
 * that makes it a "threaded domain", whose children nothing but its own threads can enter.
 */
static bool must_move(int dir) {
    char procs[64];

    return faccessat(dir, "cgroup.type", F_OK, 0) == 0 && fd_read_file_at(dir, "cgroup.procs", procs, sizeof procs) > 0;
}

static void v2_prepare(struct cgroup *cg, const struct cgroup_dir *d, unsigned wanted) {
    CLEANUP(closep) int dir = -1;
    int r = 0;

    wanted &= ~d->enabled;
    if (!wanted)
        return;
    dir = open(d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (must_move(dir)) {
        r = move_to_leaf(dir);
        cg->moved = r == 0;
    }
    if (r == 0)
        r = hand_out(dir, wanted);
    if (r < 0)
        cgroup_because(cg, "its own cgroup cannot hand out controllers: %s", strerror(-r));
}

void cgroup_v2_restore(const char *base) {
    CLEANUP(closep) int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    /* Two links of its own and one per child: more than the leaf means other sandboxes, whose limits would go. */
    if (dir < 0 || fstat(dir, &st) < 0 || st.st_nlink > 3)
        return;
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        fd_write_file_at(dir, "cgroup.subtree_control", switches[i].off);
    if (fd_write_file_at(dir, "cgroup.procs", "0") == 0)
        unlinkat(dir, CGROUP_LEAF, AT_REMOVEDIR);
}

/* "200000 100000": how much of each period. */
static bool apply_cpu(struct cgroup *cg, int dir, uint64_t milli) {
    uint64_t quota = milli * (CGROUP_PERIOD_US / 1000), now_quota, now_period;
    char text[64], now[64];
    int r;

    snprintf(text, sizeof text, "%" PRIu64 " %d", quota, CGROUP_PERIOD_US);
    r = fd_write_file_at(dir, "cpu.max", text);
    if (r == 0 && fd_read_file_at(dir, "cpu.max", now, sizeof now) > 0 &&
        sscanf(now, "%" SCNu64 " %" SCNu64, &now_quota, &now_period) == 2 && now_quota <= quota && now_period >= CGROUP_PERIOD_US)
        return true;
    cgroup_because(cg, "cpu.max does not keep the value %s%s%s", text, r ? ": " : "", r ? strerror(-r) : "");
    return false;
}

static void v2_usage_cpu(const struct cgroup_group *g, struct cgroup_usage *ret) {
    if (g->controllers & CGROUP_CPU)
        ret->throttled_us = cgroup_get(g->dir, "cpu.stat", "throttled_usec", 0);
    ret->cpu_us = cgroup_get(g->dir, "cpu.stat", "usage_usec", ret->cpu_us); /* there even without the controller */
}

const struct cgroup_ops cgroup_v2_ops = {
    .enter_file = "cgroup.procs",
    .memory_max = "memory.max",
    .swap_max = "memory.swap.max",
    .memory_peak = "memory.peak",
    .oom_kills = "memory.events",
    .prepare = v2_prepare,
    .apply_cpu = apply_cpu,
    .usage_cpu = v2_usage_cpu,
};
