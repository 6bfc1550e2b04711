/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of a sandbox whose processes are our own children. */
#include <limits.h>

#include "base/err.h"
#include "engine/engine.h"
#include "os/fd.h"

/* With a pid namespace, ending PID 1 ends everything: the cgroup2 group that hybrid hosts have only for killing is not made,
 * which saves a start some 80 us. */
static void leave_killing_to_pidns(struct cgroup_host *host) {
    if (host->kind != CGROUP_HYBRID)
        return;
    for (unsigned i = 0; i < host->n; i++)
        if (host->dirs[i].unified) {
            host->dirs[i] = host->dirs[--host->n];
            host->kind = CGROUP_V1;
            return;
        }
}

int engine_make_cgroup(const struct limits *limits, bool kills, struct sandbox *sb, struct err *err) {
    char name[CGROUP_NAME_MAX], helper[PATH_MAX];
    CLEANUP(closep) int helper_fd = -1;
    int r = cgroup_name(name, err);

    if (r < 0)
        return r;
    cgroup_probe(&sb->cgroup_host);
    if (!kills)
        leave_killing_to_pidns(&sb->cgroup_host);
    if (sb->cgroup_host.kind == CGROUP_SYSTEMD)
        helper_fd = engine_helper("bawn-scope", helper, sizeof helper);
    return cgroup_create(&sb->cgroup, &sb->cgroup_host, limits, name, helper_fd >= 0 ? helper : NULL, err);
}
