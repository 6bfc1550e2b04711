/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups whose supervisor was killed. The name tells the owner; a group is removed only if that owner provably no longer
 * exists. The owner of a group that is being created at this moment is alive, so there is no race with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/cgroup/cgroup_priv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"

uint64_t cgroup_pidns(void) {
    static uint64_t known; /* a process never leaves it */
    struct stat st;

    if (!known && stat("/proc/self/ns/pid", &st) == 0)
        known = st.st_ino;
    return known;
}

bool cgroup_name_dead(const char *name, uint64_t pidns) {
    int pid, len = 0;
    uint64_t start, ns;

    if (sscanf(name, "bawn-%d-%" SCNu64 "-%" SCNu64 "%n", &pid, &start, &ns, &len) != 3 || pid <= 0)
        return false;
    if (name[len] && name[len] != '-' && name[len] != '.')
        return false;
    return ns == pidns && process_is_leftover(pid, start);
}

int cgroup_scan(const char *path, bool unified, int (*hit)(const char *path, bool unified)) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    uint64_t pidns = cgroup_pidns();
    const struct dirent *e;
    int n = 0;

    dir_open_linked(path, &d);
    while (pidns && (e = dir_next(&d))) {
        char full[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
        struct stat st;
        int len = snprintf(full, sizeof full, "%s/%s", path, e->d_name);

        if (len < 0 || (size_t)len >= sizeof full || !cgroup_name_dead(e->d_name, pidns))
            continue;
        if (lstat(full, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && hit(full, unified) == 0)
            n++;
    }
    return n;
}

static int remove_dead(const char *path, bool unified) {
    struct cgroup_group g = {.unified = unified};
    int r;

    snprintf(g.path, sizeof g.path, "%s", path);
    g.dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (g.dir < 0)
        return -errno;
    r = cgroup_group_remove(&g);
    close(g.dir);
    return r;
}

int cgroup_sweep(const struct cgroup_host *host) {
    int n = 0;

    for (unsigned i = host->n; i-- > 0;) { /* cgroup2 comes last: its cgroup.kill empties the others too */
        const struct cgroup_dir *d = &host->dirs[i];
        struct stat st;

        /* A directory has two links of its own and one per child, so most often there is nothing to read. */
        if (stat(d->path, &st) == 0 && st.st_nlink > 2)
            n += cgroup_scan(d->path, d->unified, remove_dead);
    }
    return n;
}
