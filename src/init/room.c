/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ran out while a command ran, for its last word: the command itself says so at best in its own words.
 *
 * A fork that RLIMIT_NPROC refuses leaves no trace. But the kernel counts the processes and threads of our user in our user namespace, which
 * are those that we see, up to the limit exactly: if there are so many at a look, the limit is reached. Looked is once per tick, and when a
 * command has failed: those that it has started before are still there then, and it was one of them. A peak between two looks is not
 * seen. Without a pid namespace the limit is about all of the user's processes, of which we may not see each.
 */
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "init/init.h"

uint64_t room_watch_pids(const struct init *in) {
    for (size_t i = 0; !(in->start.flags & INIT_FLAG_NO_PIDNS) && i < in->start.n_rlimits; i++)
        if (in->start.rlimits[i].resource == RLIMIT_NPROC)
            return in->start.rlimits[i].value;
    return 0;
}

void room_look(struct init *in) {
    uint64_t most = room_watch_pids(in);

    in->pids_reached |= most && tree_tasks() >= most;
}

/* In a run home and /tmp are one file system in memory; a persistent home is not in it. What is on disk has no end of its own. */
static bool is_full(const struct init *in) {
    enum { BLOCKS_LEFT = 16 };
    struct statfs s;

    return !(in->start.flags & INIT_FLAG_NO_PIDNS) && statfs("/tmp", &s) == 0 && s.f_type == TMPFS_MAGIC &&
           ((s.f_blocks && s.f_bfree < BLOCKS_LEFT) || (s.f_files && s.f_ffree == 0));
}

int room_ran_out(struct init *in, int status) {
    bool resident = in->start.flags & INIT_FLAG_RESIDENT, pids = TAKE(in->pids_reached, false);
    uint64_t most = room_watch_pids(in);
    int set = 0;

    if (pids || (most && status && tree_tasks() + 1 >= most))
        set |= INIT_EXITED_PIDS;
    if ((status || !resident) &&
        is_full(in)) /* it may be full for long: another command that all is well with is not concerned */
        set |= INIT_EXITED_FULL;
    return set;
}
