/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The landlock rung: there are no namespaces, so bawn-init is an ordinary child. It keeps out of the Landlock domain
 * itself, adopts the command's orphans and ends them all; the command runs inside the domain and the bare filter.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/native/native.h"
#include "jail/fence/caps.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "proto/initmsg.h"

enum { GATE_QUEUE = 1024 * 1024 /* bytes of connections that wait for the gate */ };

/* Root becomes the owner of the workspace. The raw calls: see apply_ids.c. */
static int become_owner(struct launch *l) {
    const struct plan_ids *ids = &l->plan->ids;

    if (!ids->by_root)
        return 0;
    if (caps_drop_bounding(&l->err) < 0)
        return l->err.code;
    if (ids->host_uid == getuid()) /* root of a user namespace, who is just the user outside */
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, ids->host_gid, ids->host_gid, ids->host_gid) < 0 ||
        syscall(SYS_setresuid, ids->host_uid, ids->host_uid, ids->host_uid) < 0)
        return err_sys(&l->err, -errno, "become the owner of the workspace");
    return 0;
}

static int child_main(void *arg) {
    struct launch *l = arg;
    int r = cgroup_enter(l->cgroup, false);

    if (r < 0)
        err_sys(&l->err, r, "enter the cgroup");
    else if (apply_fds(l) == 0 && become_owner(l) == 0)
        apply_exec(l);
    return EXIT_SANDBOX;
}

/* One end waits in the socket for bawn-init, before it is started; the other is where a listener would be. */
/* The sockets of socket_rules() (startmsg.c), in their order, where bawn-init could not go to them: they are behind folders of root's. */
static int open_sockets(const struct plan *plan, int fds[static PLAN_SOCKETS], struct err *err) {
    const bool closed = plan->rung == RUNG_LANDLOCK && plan->ids.by_root && plan->ids.host_uid;
    int n = 0;

    for (size_t i = 0; closed && n < PLAN_SOCKETS && i < plan->n_steps; i++) {
        const struct step *s = &plan->steps[i];

        if (!plan_is_socket(s))
            continue;
        fds[n] = open(s->from, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fds[n] < 0)
            return err_sys(err, -errno, "open '%s'", s->from);
        n++;
    }
    return n;
}

int native_way_to_gate(const struct plan *plan, struct sandbox *sb, struct err *err) {
    const struct init_msg msg = {.type = INIT_MSG_NETWORK};
    int pair[2], size = GATE_QUEUE, fds[1 + PLAN_SOCKETS] = {-1, -1, -1}, r, n;

    if (!plan->network)
        return 0;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "socket to the gate");
    sb->net[NETWORK_TCP4] = pair[0];
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK) < 0 || fcntl(pair[1], F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        r = -errno;
    fds[0] = pair[1];
    n = r < 0 ? 0 : open_sockets(plan, fds + 1, err);
    if (r == 0 && n >= 0)
        r = sock_send(sb->control, &msg, sizeof msg, fds, 1 + (size_t)n);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        closep(&fds[i]);
    return n < 0 ? n : r < 0 ? err_sys(err, r, "socket to the gate") : 0;
}

int native_start_bare(struct launch *l, struct sandbox *sb, struct err *err) {
    const struct plan *plan = l->plan;
    pid_t pid;
    int r;

    if (plan->landlock_abi < NATIVE_BARE_ABI)
        return err_set(
            err, -EOPNOTSUPP,
            "user namespaces and Landlock (Linux 6.2) are both missing here: nothing can enforce a sandbox (see 'bawn doctor --fix')");
    if (plan->ids.host_root) /* uid 0 owns the host's files: without any capability it could still change their modes */
        return err_set(
            err, -EPERM,
            "root cannot be sandboxed without user namespaces; run Bawn as an ordinary user, or give the workspace to one "
            "(chown), whose id is then taken (see 'bawn doctor --fix')");
    if (plan->ids.by_root && plan->ids.host_uid && !caps_can_change_ids())
        return err_set(err, -EPERM, "root without CAP_SETUID, CAP_SETGID and CAP_CHOWN cannot become the owner of the workspace");
    if (plan->home_persistent && plan->ids.by_root &&
        plan->ids.host_uid) /* the workspace's owner cannot reach a home in root's folders */
        return err_set(err, -EPERM,
                       "root cannot keep a sandbox for the owner of the workspace without user namespaces; run Bawn as that user "
                       "(see 'bawn doctor --fix')");
    if (plan->tmp_size && plan->ids.by_root && plan->ids.host_uid)
        return err_set(
            err, -EPERM,
            "root cannot have home and /tmp on disk (--tmp-size) for the owner of the workspace without user namespaces; run "
            "Bawn as that user (see 'bawn doctor --fix')");
    r = private_dir_fill(plan, err);
    r = r < 0 ? r : native_way_to_gate(plan, sb, err);
    if (r < 0)
        return r;
    sb->bare = true;
    pid = process_clone(child_main, l, CLONE_VM | CLONE_VFORK, NULL);
    if (pid < 0)
        return err_sys(err, pid, "start bawn-init");
    sb->pid = pid;
    if (l->err.code) {
        *err = l->err;
        return err->code;
    }
    return 0;
}
