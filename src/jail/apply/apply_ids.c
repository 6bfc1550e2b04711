/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids. An unprivileged process may map exactly its own effective id into a user namespace it made, without help
 * from outside. So root first takes the sandbox's unprivileged id as its effective one (keeping its capabilities,
 * SECBIT_NO_SETUID_FIXUP), and root and ordinary users go the same way from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/jail_apply.h"
#include "jail/plan/plan.h"
#include "os/fd.h"
#include "os/process.h"

static int write_maps(uid_t inside_uid, uid_t host_uid, gid_t inside_gid, gid_t host_gid) {
    char map[64];
    int r = fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");

    if (r < 0 && r != -ENOENT)
        return r;
    snprintf(map, sizeof map, "%u %u 1\n", inside_uid, host_uid);
    r = fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map);
    if (r < 0)
        return r;
    snprintf(map, sizeof map, "%u %u 1\n", inside_gid, host_gid);
    return fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map);
}

int apply_ids(struct launch *l) {
    const struct plan_ids *ids = &l->plan->ids;
    const bool mapped = l->blank || plan_ids_many(ids);
    int r = mapped ? 0 : write_maps(ids->inside_uid, ids->host_uid, ids->inside_gid, ids->host_gid);

    if (r < 0) {
        l->no_userns = r == -EPERM || r == -EACCES;
        return err_sys(&l->err, r, "map user ids");
    }
    if (plan_ids_many(ids) && syscall(SYS_setgroups, 0, NULL) < 0)
        return err_sys(&l->err, -errno, "leave the user's groups");
    /* The raw calls: glibc's would try to change "all threads", and ours share memory with the supervisor. */
    if (syscall(SYS_setresgid, ids->inside_gid, ids->inside_gid, ids->inside_gid) < 0 ||
        syscall(SYS_setresuid, ids->inside_uid, ids->inside_uid, ids->inside_uid) < 0)
        return err_sys(&l->err, -errno, "take the sandbox's user id");
    return 0;
}

int ids_take(const struct plan_ids *ids, struct err *err) {
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, -1, ids->host_gid, -1) < 0 || syscall(SYS_setresuid, -1, ids->host_uid, -1) < 0)
        return err_sys(err, -errno, "take the sandbox's ids");
    prctl(PR_SET_DUMPABLE, 1); /* changing ids cleared it */
    return 0;
}

void ids_return(void) {
    bool fixed = prctl(PR_GET_SECUREBITS) & SECBIT_NO_SETUID_FIXUP; /* not if ids_take() failed for lack of CAP_SETPCAP */

    if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0 ||
        (fixed && prctl(PR_SET_SECUREBITS, 0) < 0))
        BUG("root cannot take its ids back");
}

struct apply_idmap {
    uid_t owner_uid, host_uid;
    gid_t owner_gid, host_gid;
    int fd;
};

/* Shares our memory and descriptors: leaves the namespace's descriptor behind and is gone. */
static int idmap_child(void *arg) {
    struct apply_idmap *m = arg;
    int r = write_maps(m->owner_uid, m->host_uid, m->owner_gid, m->host_gid);

    m->fd = r < 0 ? r : open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (r == 0 && m->fd < 0)
        m->fd = -errno;
    return 0;
}

int idmap_userns(uid_t owner_uid, uid_t host_uid, gid_t owner_gid, gid_t host_gid) {
    struct apply_idmap m = {owner_uid, host_uid, owner_gid, host_gid, -EIO};
    int r = process_clone_run(idmap_child, &m, CLONE_NEWUSER);

    return r < 0 ? r : m.fd;
}
