/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a sandbox: clone, namespaces, mounts, fences, bawn-init. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/blank.h"
#include "jail/apply/ground.h"
#include "jail/apply/jail_apply.h"
#include "jail/cgroup/cgroup.h"
#include "jail/fence/caps.h"
#include "jail/network/network.h"
#include "jail/plan/plan.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/process.h"

enum { FD_CONTROL = 3, FD_START = 4, FD_GUARD = 5, FD_FIRST_CLOSED = 6, KEYCTL_JOIN_SESSION = 1 };

/* An empty network namespace: with only loopback, so that programs can talk to themselves, or with our listeners. The descriptors
 * are the child's own, so they have to be sent; our copies are closed with the rest before bawn-init is executed. */
int apply_network(struct launch *l) {
    struct listeners n;
    int r;

    if (l->blank || l->plan->rung != RUNG_FULL)
        return 0;
    if (l->linked && l->plan->network) /* /proc/sys is read-only where bawn-init runs */
        fd_write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    r = l->plan->network && !l->linked ? network_make(NETWORK_EVERYTHING, &n, &l->err) : network_loopback(&l->err);
    l->no_userns = l->no_netns = r == -EPERM || r == -EACCES;
    if (r < 0 || !l->plan->network || l->linked)
        return r;
    l->named_ports = !(n.has & NETWORK_EVERY_PORT);
    return network_send(l->control_fd, &n, &l->err);
}

static int apply_cgroup(struct launch *l) {
    int r = cgroup_enter(l->cgroup, l->born_in_cgroup);

    if (r < 0)
        return err_sys(&l->err, r, "enter the cgroup");
    /* Only now, so that the sandbox's own group is the root of what it sees. */
    if (unshare(CLONE_NEWCGROUP) == 0 || errno == EINVAL)
        return 0;
    l->no_userns = errno == EPERM; /* Ubuntu's AppArmor restriction: a user namespace without capabilities */
    return err_sys(&l->err, -errno, "cgroup namespace");
}

static int apply_names(struct launch *l) {
    if (sethostname(l->plan->hostname, strlen(l->plan->hostname)) < 0) {
        l->no_userns = errno == EPERM; /* podman's filter lets namespaces be made, and refuses this */
        return err_sys(&l->err, -errno, "set the host name");
    }
    /* A session keyring of its own: keys of the user's login are not to be found (ATTACKS 79). */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
        return err_sys(&l->err, -errno, "new session keyring");
    return 0;
}

/* The supervisor watches the workspace for files that appear under hidden names; the inside, which counts as the same user, must
 * not use up all the watches, nor those of the user's other programs: a quarter, so that three sandboxes leave some. Where these cannot be set (/proc/sys of a container) the supervisor tells if it runs out. */
int apply_quota(struct launch *l) {
    char text[24];
    long max = 0;

    if (l->blank)
        return 0;
    if (fd_read_file_at(AT_FDCWD, "/proc/sys/fs/inotify/max_user_watches", text, sizeof text) > 0)
        max = strtol(text, NULL, 10);
    snprintf(text, sizeof text, "%ld", max / 4);
    if (max > 3 && fd_write_file_at(AT_FDCWD, "/proc/sys/user/max_inotify_watches", text) == 0)
        fd_write_file_at(AT_FDCWD, "/proc/sys/user/max_inotify_instances", "32"); /* of 128 */
    return 0;
}

/* Exactly the planned descriptors: 0, 1, 2, the control socket, the start message, and the guard's socket if there is one. */
int apply_fds(struct launch *l) {
    int wanted[FD_FIRST_CLOSED] = {l->stdio[0], l->stdio[1], l->stdio[2], l->control_fd, l->start_fd, l->guard_fd};
    int n = l->guard_fd < 0 ? FD_GUARD : FD_FIRST_CLOSED;
    int init_fd = fd_move_above(fcntl(l->init_fd, F_DUPFD_CLOEXEC, 2 * FD_FIRST_CLOSED), 2 * FD_FIRST_CLOSED);

    if (init_fd < 0)
        return err_sys(&l->err, init_fd == -1 ? -errno : init_fd, "arrange descriptors");
    for (int i = 0; i < n; i++) {
        if (wanted[i] < 0)
            wanted[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        wanted[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD_CLOEXEC, FD_FIRST_CLOSED);
        if (wanted[i] < 0)
            return err_sys(&l->err, -errno, "arrange descriptors");
    }
    for (int i = 0; i < n; i++)
        if (dup3(wanted[i], i, 0) < 0)
            return err_sys(&l->err, -errno, "arrange descriptors");
    l->child_init_fd = init_fd;
    return 0;
}

int apply_exec(struct launch *l) {
    static char *const plain[] = {"bawn-init", NULL}, *const linked[] = {"bawn-init", "--link", NULL};
    static char proxy[] = "BAWN_PROXY=http://127.0.0.1:15001";
    char private_dev[40];
    char *const envp[] = {private_dev, l->named_ports ? proxy : NULL, NULL};
    sigset_t mask = l->old_mask;
    int fd = dup3(l->child_init_fd, FD_FIRST_CLOSED, O_CLOEXEC), r;

    if (fd < 0)
        return err_sys(&l->err, -errno, "arrange descriptors");
    if (l->guard_fd < 0)
        close(FD_GUARD);
    r = fd_close_from(FD_FIRST_CLOSED + 1);
    if (r < 0)
        return err_sys(&l->err, r, "close other descriptors");
    snprintf(private_dev, sizeof private_dev, "BAWN_PRIVATE=%" PRIu64, l->private_dev);
    clock_pass(l->not_before_ns); /* most of the wait was for something */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    prctl(PR_SET_DUMPABLE,
          0); /* of our parent, too, whose memory this is: it may come to that later than the command to its work */
    syscall(SYS_execveat, FD_FIRST_CLOSED, "", l->linked ? linked : plain, envp, AT_EMPTY_PATH);
    return err_sys(&l->err, -errno, "execute bawn-init");
}

/* Executing bawn-init as an ordinary id empties the other sets; the bounding set has to be emptied before. */
static int apply_caps(struct launch *l) {
    int r;

    if (plan_ids_many(&l->plan->ids))
        return caps_bound(caps_of_many_ids, &l->err);
    r = l->linked && l->plan->network ? caps_keep_net_admin(&l->err) : 0;

    return r < 0 ? r : caps_drop_bounding(&l->err);
}

static int (*const child_steps[])(struct launch *) = {
    apply_cgroup, apply_ids, apply_quota, apply_network, apply_names, apply_root, apply_enter, apply_fds, apply_caps, apply_exec,
};

/* Runs in the new namespaces, on our memory. Only system calls and code that keeps no state. */
static int child_main(void *arg) {
    struct launch *l = arg;

    /* If the supervisor is killed while we are setting up, so are we; bawn-init asks again for itself. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < ARRAY_LEN(child_steps); i++)
        if (child_steps[i](l) < 0)
            break;
    return EXIT_SANDBOX;
}

/* Refusals that mean "no user namespace for you": filters, security modules, switches, ids that are not mapped here. */
static bool is_refusal(int r) {
    return r == -EPERM || r == -EACCES || r == -ENOSPC || r == -EINVAL || r == -ENOSYS || r == -EUSERS;
}

/* A user namespace costs a process; the folders of a sandbox mostly have one owner. */
static int map_owner(struct launch *l, uid_t uid, gid_t gid, struct id_extent more) {
    const struct plan_ids *ids = &l->plan->ids;
    const struct id_map map = {
        .uids = {{uid, ids->host_uid, 1}, more},
        .gids = {{gid, ids->host_gid, 1}, {more.inside == 1 ? 1 : ids->more_gids.first, ids->more_gids.first, ids->more_gids.n}}};

    if (l->idmap.fd >= 0 && l->idmap.uid == uid && l->idmap.gid == gid && l->idmap.more.inside == more.inside)
        return 0;
    closep(&l->idmap.fd);
    l->idmap.fd = more.n ? idspace_make(&map, true) : idmap_userns(uid, ids->host_uid, gid, ids->host_gid);
    l->idmap.uid = uid;
    l->idmap.gid = gid;
    l->idmap.more = more;
    return l->idmap.fd < 0 ? l->idmap.fd : 0;
}

/* By root, with several ids: which of them a tree has besides its owner. Folders of the system have those of the sandbox as they are, those of the host
 * its own; nothing else has any, the workspace least of all. */
static struct id_extent more_ids_of(const struct plan_ids *ids, const struct step *s, const struct stat *st) {
    bool of_sandbox = s->kind == STEP_UPPER || (s->kind == STEP_PRIVATE && s->on_disk);

    if (!plan_ids_many(ids) || st->st_uid != 0 || st->st_gid != 0 ||
        (!of_sandbox && s->kind != STEP_COW && s->kind != STEP_LAYER))
        return (struct id_extent){0};
    return (struct id_extent){of_sandbox ? ids->more_uids.first : 1, ids->more_uids.first, ids->more_uids.n};
}

/* By root: the user's files as idmapped mounts, so that what is written inside belongs to the owner outside. */
static int idmap_tree(struct launch *l, const struct step *s, const char *from, struct err *err) {
    const struct plan *p = l->plan;
    CLEANUP(closep) int tree = -1;
    struct stat st;
    int r;

    if (stat(from, &st) < 0)
        return err_sys(err, -errno, "mount '%s'", s->from);
    if (s->kind == STEP_OVERLAY) { /* upper/ holds the workspace's files, whichever user has the run's folder */
        st.st_uid = p->ids.workspace_uid;
        st.st_gid = p->ids.workspace_gid;
    }
    tree = mount_clone(AT_FDCWD, from, true);
    l->no_userns = tree == -EPERM || tree == -EACCES; /* root of a container, without CAP_SYS_ADMIN */
    if (tree < 0)
        return err_sys(err, tree, "mount '%s'%s", s->from, tree == -ENOSYS ? " (Bawn needs the mount calls of Linux 5.12)" : "");
    r = map_owner(l, st.st_uid, st.st_gid, more_ids_of(&p->ids, s, &st));
    l->no_userns = r < 0 && is_refusal(r);
    if (r < 0)
        return err_sys(err, r, "user namespace for mapping the owner of '%s'", s->from);
    r = mount_idmap(tree, l->idmap.fd);
    l->no_userns = r == -EPERM || r == -EACCES;
    if (r < 0)
        return err_sys(err, r, "map the owner of '%s' (its file system must support idmapped mounts; else run Bawn as the owner)",
                       s->from);
    return TAKE_FD(tree);
}

/* What is gone, or lies on a file system that maps no owners, is shown as it is, or not at all. */
static int idmap_optional(struct launch *l, const struct step *s) {
    struct err ignored = {0};
    int r = idmap_tree(l, s, s->from, &ignored);

    l->no_userns = false;
    return MAX_OF(r, -1);
}

/* Behind folders of root's, as our own folders are. What cannot be mounted is made in memory. */
static void clone_ground(struct launch *l) {
    if (l->ground && !(l->blank && l->blank->tree >= 0))
        l->ground_tree = ground_mount(l->ground);
}

static int idmap_trees(struct launch *l, struct err *err) {
    clone_ground(l);
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];

        int r = 0;

        if (s->kind == STEP_WORKSPACE)
            r = l->trees[i] = idmap_tree(l, s, ".", err);
        else if (s->kind == STEP_EXTRA && s->optional)
            l->trees[i] = idmap_optional(l, s);
        else if (s->kind == STEP_EXTRA || (s->kind == STEP_PRIVATE && s->on_disk))
            r = l->trees[i] = idmap_tree(l, s, s->from, err);
        else if (s->kind == STEP_COW && s->optional && access(s->from, F_OK) < 0)
            continue;
        else if (s->kind == STEP_LAYER || s->kind == STEP_UPPER || s->kind == STEP_COW)
            r = l->trees[i] = idmap_tree(l, s, s->from, err);
        else if (s->kind == STEP_RO && s->ours) /* behind folders of root's; readable by all, so it need not be mapped */
            r = l->trees[i] = mount_clone(AT_FDCWD, s->from, false);
        else if (s->kind == STEP_OVERLAY && (r = l->lower = idmap_tree(l, s, ".", err)) >= 0)
            r = l->run = idmap_tree(l, s, s->from, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool made_before(const struct step *s) {
    return s->kind == STEP_WORKSPACE || s->kind == STEP_EXTRA || s->kind == STEP_RO || s->kind == STEP_LAYER ||
           s->kind == STEP_UPPER || s->kind == STEP_COW || s->on_disk;
}

/* In the host's network sockets are made by the guard. */
static unsigned long namespaces(const struct launch *l) {
    return CLONE_NEWIPC | CLONE_NEWUTS | (l->plan->rung == RUNG_FULL ? CLONE_NEWNET : 0ul);
}

static pid_t clone_with(struct launch *l, unsigned long flags) {
    int cgroup_fd = cgroup_clone_fd(l->cgroup);
    pid_t pid = -ENOSYS;

    flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_VM | CLONE_VFORK;
    if (cgroup_fd >= 0) {
        l->born_in_cgroup = true;
        pid = process_clone_into(child_main, l, flags, cgroup_fd, &l->pidfd);
    }
    if (pid < 0) { /* no clone3, or this group cannot be born into: enter it as a child of ours */
        l->born_in_cgroup = false;
        pid = process_clone(child_main, l, flags, &l->pidfd);
    }
    return pid;
}

/* Shares our memory and descriptors, for a process cannot come back from another user namespace. What it starts is our child. */
static int blank_main(void *arg) {
    struct launch *l = arg;
    int r = blank_enter(l->blank);

    l->pid = r < 0 ? r : clone_with(l, CLONE_PARENT);
    return 0;
}

/* The same with a user namespace that has several ids. */
static int many_main(void *arg) {
    struct launch *l = arg;

    l->pid = setns(l->userns, CLONE_NEWUSER) < 0 ? -errno : clone_with(l, CLONE_PARENT | namespaces(l));
    return 0;
}

static int nothing_main(void *arg UNUSED) {
    return 0;
}

/* A refusal does not say which namespace it is about. */
static bool network_alone_is_refused(const struct launch *l) {
    const unsigned long others = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    pid_t pid = l->plan->rung == RUNG_FULL ? process_clone(nothing_main, NULL, others | CLONE_VM | CLONE_VFORK, NULL) : -1;

    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid > 0;
}

static int clone_child(struct launch *l, struct err *err) {
    bool entered = l->blank || l->userns >= 0;
    pid_t pid =
        entered ? process_clone_run(l->blank ? blank_main : many_main, l, 0) : clone_with(l, CLONE_NEWUSER | namespaces(l));

    if (entered && pid == 0)
        pid = l->pid;
    l->pid = -1;
    if (pid < 0) {
        l->no_userns = is_refusal(pid);
        l->no_netns = l->no_userns && network_alone_is_refused(l);
        return err_sys(err, pid, "create namespaces");
    }
    if (l->err.code) { /* the child failed before it could execute bawn-init */
        waitpid(pid, NULL, 0);
        closep(&l->pidfd);
        *err = l->err;
        return err->code;
    }
    l->pid = pid;
    return 0;
}

static int make_userns(struct launch *l, struct err *err) {
    return plan_ids_many(&l->plan->ids) ? apply_many_userns(l, err) : 0;
}

static int launch_with_trees(struct launch *l, struct err *err) {
    const struct plan_ids *ids = &l->plan->ids;
    int r;

    if (!ids->by_root)
        return (r = make_userns(l, err)) < 0 ? r : clone_child(l, err);
    r = ids_take(ids, err);
    l->no_userns = r < 0 && is_refusal(r); /* root of a user namespace that has no such ids */
    r = r < 0 ? r : make_userns(l, err);
    r = r < 0 ? r : idmap_trees(l, err);
    r = r < 0 ? r : clone_child(l, err);
    ids_return();
    return r;
}

int jail_launch(struct launch *l, struct err *err) {
    size_t n = l->plan->n_steps;
    int r;

    l->trees = calloc(n + 1, sizeof *l->trees);
    if (!l->trees)
        return err_oom(err);
    for (size_t i = 0; i < n; i++)
        l->trees[i] = -1;
    l->pid = l->pidfd = l->userns = l->lower = l->run = l->idmap.fd = l->ground_tree = -1;
    l->err = (struct err){0};
    l->no_userns = l->no_netns = l->made_attached = false;
    l->private_dev = 0;
    /* The child, on our memory, must be able to open its own /proc/self/uid_map; otherwise no process reads ours. */
    prctl(PR_SET_DUMPABLE, 1);
    r = launch_with_trees(l, err);
    prctl(PR_SET_DUMPABLE, 0);
    for (size_t i = 0; i < n; i++) /* the other numbers are the child's own descriptors */
        if (l->plan->ids.by_root && made_before(&l->plan->steps[i]))
            closep(&l->trees[i]);
    if (l->plan->ids.by_root) {
        closep(&l->lower);
        closep(&l->run);
        closep(&l->ground_tree);
    }
    closep(&l->idmap.fd);
    closep(&l->userns);
    free(TAKE_PTR(l->trees));
    return r;
}
