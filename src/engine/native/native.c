/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: capabilities and start. */
#include "engine/native/native.h"

#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "jail/apply/blank.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"

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

static int make_cgroup(const struct engine_request *req, struct sandbox *sb, struct err *err) {
    char name[CGROUP_NAME_MAX], helper[PATH_MAX];
    CLEANUP(closep) int helper_fd = -1;
    int r = cgroup_name(name, err);

    if (r < 0)
        return r;
    cgroup_probe(&sb->cgroup_host);
    if (req->plan->rung == RUNG_FULL)
        leave_killing_to_pidns(&sb->cgroup_host);
    if (sb->cgroup_host.kind == CGROUP_SYSTEMD)
        helper_fd = engine_helper("bawn-scope", helper, sizeof helper);
    return cgroup_create(&sb->cgroup, &sb->cgroup_host, &req->plan->limits, name, helper_fd >= 0 ? helper : NULL, err);
}

static int open_init(struct err *err) {
    char path[PATH_MAX];
    int fd = engine_helper("bawn-init", path, sizeof path);

    if (fd < 0)
        return err_sys(err, fd, "bawn-init, which belongs beside the bawn program or in ../libexec/bawn");
    return fd;
}

/* Moves them to the sandbox. */
static void keep_listeners(struct sandbox *sb, struct listeners *n) {
    static_assert(sizeof sb->net + sizeof sb->net_named == sizeof n->fds, "a place for each");
    memcpy(sb->net, n->fds, sizeof sb->net);
    memcpy(sb->net_named, n->fds + NETWORK_NAMED, sizeof sb->net_named);
    if (!(n->has & NETWORK_EVERY_PORT))
        log_line("no packet rules on this kernel: only well-known TCP ports lead to the network (see 'bawn doctor')");
    *n = (struct listeners)LISTENERS_INIT;
}

/* Sent by the child before it became bawn-init, so that they wait in the socket when the launch returns. */
static int take_listeners(struct sandbox *sb, struct err *err) {
    struct listeners n;
    int r = network_receive(sb->control, &n, err);

    if (r == 0)
        keep_listeners(sb, &n);
    return r;
}

/* Root cannot be born into a cgroup2 group from inside a blank, and to move there afterwards takes longer than a start. */
static bool may_take(const struct launch *l) {
    return l->plan->network && !(l->plan->ids.by_root && cgroup_clone_fd(l->cgroup) >= 0);
}

/* Whatever goes wrong with a blank, a start without one is tried, and says what is wrong if it is not the blank. */
static bool start_blank(struct plan *plan, struct launch *l, struct sandbox *sb) {
    CLEANUP(blank_done) struct blank b = BLANK_INIT;
    const struct plan_ids own = plan->ids;
    struct err ignored;
    int r;

    if (!may_take(l) || blank_take(environ, plan, &b) < 0)
        return false;
    l->blank = &b;
    r = jail_launch(l, &ignored);
    l->blank = NULL;
    if (r < 0) {
        plan->ids = own;
        return false;
    }
    keep_listeners(sb, &b.listeners);
    return true;
}

static int start_full(struct plan *plan, struct launch *l, struct sandbox *sb, bool *ret_weaker, struct err *err) {
    bool taken = start_blank(plan, l, sb);
    int r = taken ? 0 : jail_launch(l, err);

    *ret_weaker = r < 0 && l->no_userns;
    if (r < 0)
        return r;
    sb->pid = l->pid;
    sb->pidfd = l->pidfd;
    return l->plan->network && !taken ? take_listeners(sb, err) : 0;
}

static int native_start(const struct engine_request *req, struct sandbox *sb, bool *ret_weaker, struct err *err) {
    CLEANUP(closep) int init_fd = open_init(err);
    CLEANUP(closep) int start_fd = -1;
    CLEANUP(closep) int theirs = -1;
    struct launch l = {.plan = req->plan,
                       .cgroup = &sb->cgroup,
                       .stdio = {req->stdio[0], req->stdio[1], req->stdio[2]},
                       .guard_fd = req->guard,
                       .old_mask = req->old_mask};
    int pair[2], r;

    *ret_weaker = false;
    if (init_fd < 0)
        return init_fd;
    r = make_cgroup(req, sb, err);
    r = r < 0 ? r : native_start_message(req, &sb->cgroup, &start_fd, err);
    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "control socket");
    sb->control = pair[0];
    theirs = pair[1];
    l.control_fd = theirs;
    l.init_fd = init_fd;
    l.start_fd = start_fd;
    return req->plan->rung == RUNG_FULL ? start_full(req->plan, &l, sb, ret_weaker, err) : native_start_bare(&l, sb, err);
}

static void native_stop(struct sandbox *sb) {
    closep(&sb->control); /* tells a bawn-init that is not PID 1 to end everything itself */
    if (sb->pid <= 0)
        return;
    if (!sb->private_dir[0])
        kill(sb->pid, SIGKILL);
    process_wait(sb->pid);
    sb->pid = -1;
}

static void native_finish(struct sandbox *sb) {
    native_stop(sb);
    closep(&sb->pidfd);
    for (size_t i = 0; i < ARRAY_LEN(sb->net); i++)
        closep(&sb->net[i]);
    for (size_t i = 0; i < ARRAY_LEN(sb->net_named); i++)
        closep(&sb->net_named[i]);
    cgroup_done(&sb->cgroup);
    if (sb->private_dir[0])
        private_dir_remove(sb->private_dir);
}

const struct engine_ops engine_native = {
    .name = "native",
    .summary = "namespaces, seccomp, Landlock and cgroups of this Linux; nothing to install",
    .can_keep = ENFORCES_FILES | ENFORCES_PROCESSES | ENFORCES_NETWORK | ENFORCES_SOCKETS | ENFORCES_SYSCALLS | ENFORCES_CPU |
                ENFORCES_MEMORY | ENFORCES_PIDS | ENFORCES_DISK | ENFORCES_TIME | ENFORCES_END,
    .probe = native_probe,
    .start = native_start,
    .stop = native_stop,
    .finish = native_finish,
};
