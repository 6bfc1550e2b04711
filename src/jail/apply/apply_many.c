/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user namespace of a sandbox with several ids. It is made before the sandbox's first process, by helpers that end before that begins (os/user/idspace.h).
 *
 * The kernel counts processes, queued signals and message queues for each id, so that a sandbox with many ids would have each limit as many times. But it also
 * counts what all ids of a namespace have together, for the user who made it, and compares that with the limits which that user had then. So these are lowered
 * for the moment (Linux 5.14; before, only a control group limits processes here).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/apply_priv.h"
#include "jail/cgroup/cgroup.h"
#include "os/dir.h"
#include "os/fd.h"

enum { SETUP_TASKS = 8 /* our own, until the sandbox runs */, STATUS_MAX = 4096 };

static uint64_t number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Processes and threads that count as this user's. */
static uint64_t tasks_of(uid_t uid) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    char path[300], text[STATUS_MAX];
    const struct dirent *e;
    uint64_t sum = 0;

    dir_open_at(AT_FDCWD, "/proc", &d);
    while ((e = dir_next(&d))) {
        snprintf(path, sizeof path, "%s/status", e->d_name);
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && fd_read_file_at(d.fd, path, text, sizeof text) > 0 &&
            number_after(text, "\nUid:\t") == uid)
            sum += number_after(text, "\nThreads:\t");
    }
    return sum;
}

static uint64_t wanted_limit(const struct launch *l, int resource, rlim_t now) {
    const struct limits *want = &l->plan->limits;

    if (resource != RLIMIT_NPROC) /* as startmsg.c for one id */
        return now == RLIM_INFINITY ? now : now / 4;
    return want->pids && !l->cgroup->enforces.pids ? want->pids + tasks_of(l->plan->ids.host_uid) + SETUP_TASKS : now;
}

int apply_many_userns(struct launch *l, struct err *err) {
    static const int resources[] = {RLIMIT_NPROC, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};
    const struct plan_ids *ids = &l->plan->ids;
    const struct id_map map = id_map_of(ids->host_uid, ids->host_gid, ids->more_uids, ids->more_gids);
    struct rlimit before[ARRAY_LEN(resources)];

    for (size_t i = 0; i < ARRAY_LEN(resources); i++) {
        struct rlimit lower;

        if (getrlimit(resources[i], &before[i]) < 0)
            return err_sys(err, -errno, "read resource limits");
        lower = before[i];
        lower.rlim_cur = MIN_OF(lower.rlim_cur, (rlim_t)wanted_limit(l, resources[i], before[i].rlim_cur));
        if (setrlimit(resources[i], &lower) < 0)
            return err_sys(err, -errno, "lower resource limits");
    }
    l->userns = idspace_make(&map, ids->by_root);
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (setrlimit(resources[i], &before[i]) < 0)
            return err_sys(err, -errno, "restore resource limits");
    return l->userns < 0 ? err_sys(err, l->userns, "map several ids%s; use --system-ids one",
                                   ids->by_root ? "" : " by newuidmap and newgidmap, as /etc/subuid and /etc/subgid say")
                         : 0;
}
