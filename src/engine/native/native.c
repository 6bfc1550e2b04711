/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: capabilities and start. */
#include "engine/native/native.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/link_start.h"
#include "engine/startmsg.h"
#include "jail/apply/blank.h"
#include "jail/apply/ground.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"

/* Moves them to the sandbox. */
static void keep_listeners(struct sandbox *sb, struct listeners *n) {
    static_assert(sizeof sb->net + sizeof sb->net_named == sizeof n->fds, "a place for each");
    memcpy(sb->net, n->fds, sizeof sb->net);
    memcpy(sb->net_named, n->fds + NETWORK_NAMED, sizeof sb->net_named);
    if (!(n->has & NETWORK_EVERY_PORT))
        log_note("no packet rules on this kernel: only well-known TCP ports lead to the network (see 'bawn doctor')");
    *n = (struct listeners)LISTENERS_INIT;
}

static void use_ground(struct launch *l, struct sandbox *sb) {
    ground_done(&sb->ground);
    l->ground = ground_take(l->plan, environ, &sb->ground) < 0 ? NULL : &sb->ground;
}

/* Whatever goes wrong with a blank, a start without one is tried, and says what is wrong if it is not the blank. */
static bool start_blank(struct plan *plan, struct launch *l, struct sandbox *sb) {
    CLEANUP(blank_done) struct blank b = BLANK_INIT;
    const struct plan_ids own = plan->ids;
    struct err ignored;
    int r;

    /* The pool's trees have home and /tmp in memory. Root cannot be born into a cgroup2 group from inside a blank, and to move there afterwards takes longer than a start. */
    if (!plan->network || plan->tmp_size || plan->image || plan->writable_system || plan->nested ||
        (plan->ids.by_root && cgroup_clone_fd(l->cgroup) >= 0) || blank_take(environ, plan, &b) < 0)
        return false;
    l->blank = &b;
    l->named_ports = !(b.listeners.has & NETWORK_EVERY_PORT);
    if (b.tree < 0)
        use_ground(l, sb);
    r = jail_launch(l, &ignored);
    l->blank = NULL;
    if (r < 0) {
        plan->ids = own;
        return false;
    }
    keep_listeners(sb, &b.listeners);
    return true;
}

/* Where network namespaces alone are refused, the rest of the full rung is available. */
static enum rung next_rung(const struct launch *l) {
    if (!l->no_userns)
        return RUNG_FULL;
    return l->no_netns && l->plan->rung == RUNG_FULL ? RUNG_SHARED_NET : RUNG_LANDLOCK;
}

static int start_full(struct plan *plan, struct launch *l, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    bool shared = plan->rung == RUNG_SHARED_NET;
    int r = private_dir_fill(plan, err);
    struct listeners n;
    bool taken;

    if (r == 0 && shared)
        r = native_way_to_gate(plan, sb, err);
    if (r < 0)
        return r;
    taken = !l->linked && !shared && start_blank(plan, l, sb);
    if (!taken)
        use_ground(l, sb);
    r = taken ? 0 : jail_launch(l, err);
    *ret_next = r < 0 ? next_rung(l) : RUNG_FULL;
    if (r < 0)
        return r;
    sb->pid = l->pid;
    sb->pidfd = l->pidfd;
    if (taken || shared || (!plan->network && !l->linked)) /* over a byte link it also says that the far end is there */
        return 0;
    /* Sent by the child before it became bawn-init, so that they wait in the socket when the launch returns. */
    r = network_receive(sb->control, &n, err);
    if (r == 0)
        keep_listeners(sb, &n);
    return r;
}

/* For tests only: as if the sandbox were on another kernel. The same jail, but what bawn-init would have goes to bawn-link, and bawn-init
 * gets the other end of a stream. */
static bool link_wanted(void) {
    return str_eq(getenv("BAWN_TEST_LINK") ?: "", "bytes");
}

static int start_linked(const struct engine_request *req, struct launch *l, struct sandbox *sb, enum rung *ret_next,
                        struct err *err) {
    CLEANUP(closep) int theirs = -1, ours = -1;
    int pair[2], r;

    if (req->guard >= 0)
        return err_set(
            err, -EOPNOTSUPP,
            "direct mode needs a sandbox on this machine's kernel; use a mode that works on a copy (--workspace sync)");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, -errno, "stream of the link");
    ours = pair[0];
    theirs = pair[1];
    link_plan(req->plan);
    r = link_start(req, l->control_fd, l->start_fd, ours, sb, err);
    if (r < 0)
        return r;
    *l = (struct launch){.plan = l->plan,
                         .cgroup = l->cgroup,
                         .init_fd = l->init_fd,
                         .control_fd = -1,
                         .start_fd = -1,
                         .guard_fd = -1,
                         .stdio = {theirs, theirs, -1},
                         .old_mask = l->old_mask,
                         .not_before_ns = l->not_before_ns,
                         .linked = true};
    sb->bytes = true;
    return start_full(req->plan, l, sb, ret_next, err);
}

static int native_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    char path[PATH_MAX];
    CLEANUP(closep) int init_fd = engine_helper("bawn-init", path, sizeof path), start_fd = -1, theirs = -1;
    struct launch l = {.plan = req->plan,
                       .cgroup = &sb->cgroup,
                       .stdio = {req->stdio[0], req->stdio[1], req->stdio[2]},
                       .guard_fd = req->guard,
                       .old_mask = req->old_mask,
                       .not_before_ns = req->not_before_ns};
    int pair[2], r;

    *ret_next = RUNG_FULL;
    if (init_fd < 0)
        return err_sys(err, init_fd, "bawn-init, which belongs beside the bawn program or in ../libexec/bawn");
    r = engine_make_cgroup(&req->plan->limits, !rung_has_root(req->plan->rung), sb, err);
    r = r < 0 ? r : startmsg_make(req, &sb->cgroup, &start_fd, err);
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
    if (link_wanted() && req->plan->rung == RUNG_FULL)
        return start_linked(req, &l, sb, ret_next, err);
    return rung_has_root(req->plan->rung) ? start_full(req->plan, &l, sb, ret_next, err) : native_start_bare(&l, sb, err);
}

static void native_stop(struct sandbox *sb) {
    closep(&sb->control); /* tells a bawn-init that is not PID 1 to end everything itself */
    if (sb->pid <= 0)
        return;
    if (!sb->bare)
        kill(sb->pid, SIGKILL);
    process_wait_cpu(sb->pid, &sb->cpu_us);
    sb->pid = -1;
    link_stop(sb);
}

static void native_finish(struct sandbox *sb) {
    native_stop(sb);
    link_stop(sb);
    closep(&sb->pidfd);
    sandbox_close_listeners(sb);
    cgroup_done(&sb->cgroup);
    ground_done(&sb->ground);
}

const struct engine_ops engine_native = {
    .name = "native",
    .summary = "namespaces, seccomp, Landlock and cgroups of this Linux; nothing to install",
    .can_keep = ENFORCES_EVERYTHING & ~ENFORCES_KERNEL,
    .has_gate = true,
    .has_guard = true,
    .waits = true,
    .modes = (1 << WORKSPACE_MODES) - 1,
    .takes_image = true,
    .has_system = true,
    .has_nested = true,
    .probe = native_probe,
    .start = native_start,
    .stop = native_stop,
    .finish = native_finish,
};
