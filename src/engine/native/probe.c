/* SPDX-License-Identifier: Apache-2.0 */
/* Tries what the native engine needs of the host. */
#include "engine/native/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/native/native.h"
#include "jail/apply/jail_apply.h"
#include "jail/fence/caps.h"
#include "jail/fence/landlock.h"
#include "jail/fence/seccomp.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/mountapi.h"
#include "os/process.h"

/* A root with one step of every kind that a container, a security module or an old kernel may refuse. */
static const struct step steps[] = {
    {.kind = STEP_DIR, .to = "/dev"},
    {.kind = STEP_DIR, .to = "/dev/pts"},
    {.kind = STEP_DIR, .to = "/proc"},
    {.kind = STEP_DIR, .to = "/var/cache"},
    {.kind = STEP_RO, .to = "/usr", .from = "/usr"},
    {.kind = STEP_PRIVATE, .to = "/tmp", .mode = 01777},
    {.kind = STEP_PRIVATE, .to = "/dev/shm", .mode = 01777},
    {.kind = STEP_DEVICE, .to = "/dev/null", .from = "/dev/null"},
    {.kind = STEP_PTS, .to = "/dev/pts"},
    {.kind = STEP_PROC, .to = "/proc"},
    {.kind = STEP_PROC_RO, .to = "/proc/sys"},
    {.kind = STEP_MASK, .to = "/proc/keys", .optional = true},
};

enum { PROBE_ID_BASE = 0x70000000, PROBE_ID_INSIDE = 1000, PROBE_SIZE = 1 << 20, TEXT_MAX = 4096 };

/* What the throw-away process finds out; in memory that it shares with us. */
struct probe_attempt {
    struct launch launch; /* the first: its steps find the rest from here */
    struct plan plan;
    struct step steps[ARRAY_LEN(steps)];
    int trees[ARRAY_LEN(steps)];
    struct native_facts f;
};

static int overlay_try(void) {
    static const struct fs_param params[] = {
        {"lowerdir", "/usr"}, {"upperdir", "/tmp/upper"}, {"workdir", "/tmp/work"}, {"userxattr", NULL}};
    CLEANUP(closep) int fd = -1;

    if (mkdir("/tmp/upper", 0700) < 0 || mkdir("/tmp/work", 0700) < 0)
        return -errno;
    fd = mount_new("overlay", params, ARRAY_LEN(params), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? fd : 0;
}

/* As apply_network() of launch.c, but the listeners are not used. Where there is no network, a run without one may do. */
static int network_try(struct launch *l) {
    struct probe_attempt *a = (struct probe_attempt *)l;
    struct listeners n = LISTENERS_INIT;

    if (a->plan.rung != RUNG_FULL)
        return 0;
    a->f.network = network_make(NETWORK_EVERYTHING, &n, NULL);
    a->f.network_has = n.has;
    a->f.network_rules = n.rules;
    network_done(&n);
    return a->f.network < 0 ? apply_network(l) : 0;
}

/* As apply_names() of launch.c. */
static int name_try(struct launch *l) {
    if (sethostname("bawn", strlen("bawn")) == 0)
        return 0;
    l->no_userns = errno == EPERM;
    return err_sys(&l->err, -errno, "set the host name");
}

static int (*const launch_steps[])(struct launch *) = {apply_ids, network_try, name_try, apply_root, apply_enter};

/* As child_main() of launch.c, without cgroup and exec. */
static int inside(void *arg) {
    struct probe_attempt *a = arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    a->f.launch_cloned = true;
    a->f.launch = 0;
    for (size_t i = 0; a->f.launch >= 0 && i < ARRAY_LEN(launch_steps); i++)
        a->f.launch = launch_steps[i](&a->launch);
    if (a->f.launch >= 0)
        a->f.overlay = overlay_try();
    return 0;
}

static void launch_try(struct probe_attempt *a) {
    unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_VM | CLONE_VFORK |
                          (a->plan.rung == RUNG_FULL ? CLONE_NEWNET : 0ul);
    pid_t pid = process_clone(inside, a, flags, NULL);

    if (pid < 0) {
        a->f.launch = err_sys(&a->launch.err, pid, "create namespaces");
        a->launch.no_userns = a->launch.no_netns =
            pid == -EPERM || pid == -ENOSPC || pid == -EINVAL || pid == -ENOSYS || pid == -EUSERS || pid == -EACCES;
        return;
    }
    process_wait(pid);
}

static void launch_init(struct probe_attempt *a, enum rung rung) {
    for (size_t i = 0; i < ARRAY_LEN(a->trees); i++)
        a->trees[i] = -1;
    a->plan.rung = rung;
    a->launch = (struct launch){.plan = &a->plan, .trees = a->trees, .root_fd = -1};
}

/* Perhaps it was the network namespace alone. What is reported about the full rung stays. */
static void shared_try(struct probe_attempt *a) {
    const struct native_facts full = a->f;
    const struct launch launch = a->launch;
    int r, overlay;

    if (a->f.launch == 0 || !a->launch.no_netns)
        return;
    launch_init(a, RUNG_SHARED_NET);
    launch_try(a);
    r = a->f.launch;
    overlay = a->f.overlay;
    a->f = full;
    a->f.shared = r;
    a->f.overlay = overlay;
    a->launch = launch;
}

static int idmap_try(const struct plan_ids *ids) {
    CLEANUP(closep) int tree = -1;
    CLEANUP(closep) int userns = -1;
    struct stat st;

    if (stat(".", &st) < 0)
        return -errno;
    tree = mount_clone(AT_FDCWD, ".", true);
    if (tree < 0)
        return tree;
    userns = idmap_userns(st.st_uid, ids->host_uid, st.st_gid, ids->host_gid);
    return userns < 0 ? userns : mount_idmap(tree, userns);
}

/* As take_ids() of launch.c; there is no way back, and none is needed. */
static int take_ids(const struct plan_ids *ids) {
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, -1, ids->host_gid, -1) < 0 || syscall(SYS_setresuid, -1, ids->host_uid, -1) < 0 ||
        prctl(PR_SET_DUMPABLE, 1) < 0)
        return -errno;
    return 0;
}

/* What the guard in bawn-init asks for: Linux 5.19, and no other process around us that answers system calls. */
static int notify_try(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog prog = {.len = ARRAY_LEN(allow), .filter = allow};
    const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    CLEANUP(closep) int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);

    return fd < 0 ? -errno : 0;
}

static void try_everything(struct probe_attempt *a) {
    const struct plan_ids *ids = &a->plan.ids;
    int r;

    a->f.ids = ids->by_root ? take_ids(ids) : 0;
    if (a->f.ids < 0) {
        a->f.launch = err_sys(&a->launch.err, a->f.ids, "take the sandbox's ids");
        a->launch.no_userns = true;
    } else {
        launch_try(a);
        shared_try(a);
        if (ids->by_root)
            a->f.idmap = idmap_try(ids);
    }
    r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
    a->f.notify = r < 0 ? r : notify_try();
    a->f.seccomp = r < 0 ? r : seccomp_install(SECCOMP_BARE, NULL); /* last: it forbids what was tried before */
}

static void attempt_init(struct probe_attempt *a) {
    unsigned id = PROBE_ID_BASE + (unsigned)getpid();
    bool root = getuid() == 0;

    memcpy(a->steps, steps, sizeof steps);
    launch_init(a, RUNG_FULL);
    a->plan.steps = a->steps;
    a->plan.n_steps = ARRAY_LEN(a->steps);
    a->plan.private_size = PROBE_SIZE;
    a->plan.ids =
        root ? (struct plan_ids){.by_root = true,
                                 .host_uid = id,
                                 .host_gid = id,
                                 .inside_uid = PROBE_ID_INSIDE,
                                 .inside_gid = PROBE_ID_INSIDE}
             : (struct plan_ids){.host_uid = getuid(), .host_gid = getgid(), .inside_uid = getuid(), .inside_gid = getgid()};
    a->f.launch = a->f.seccomp = a->f.notify = -EIO; /* what stays if the process is killed */
    a->f.idmap = a->f.overlay = a->f.network = a->f.shared = NOT_TRIED;
}

/* In a process of its own: root gives its ids away for good, and the filter cannot be taken off again. */
static void attempt_run(struct probe_attempt *a) {
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        try_everything(a);
        _exit(0);
    }
    if (pid < 0)
        a->f.launch = err_sys(&a->launch.err, -errno, "fork");
    else
        process_wait(pid);
}

static void look_at_launch(struct native_facts *ret) {
    struct probe_attempt *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ret->launch = ret->seccomp = ret->notify = ret->network = -ENOMEM;
    if (a == MAP_FAILED)
        return;
    a->f = *ret;
    attempt_init(a);
    attempt_run(a);
    *ret = a->f;
    ret->launch_userns = a->launch.no_userns;
    ret->launch_err = a->launch.err;
    if (ret->launch < 0 && !ret->launch_err.code)
        err_set(&ret->launch_err, ret->launch, "the process that tried it was killed");
    munmap(a, sizeof *a);
}

static int look_for(const char *name) {
    char path[PATH_MAX];
    CLEANUP(closep) int fd = engine_helper(name, path, sizeof path);

    if (fd < 0)
        return fd;
    return access(path, X_OK) < 0 ? -errno : 0;
}

static int memfd_try(void) {
    CLEANUP(closep) int fd = memfd_create("bawn-doctor", MFD_CLOEXEC);

    return fd < 0 ? -errno : 0;
}

static int64_t read_switch(const char *path) {
    uint64_t n;

    return file_number(AT_FDCWD, path, NULL, &n) < 0 || n > INT64_MAX ? SWITCH_ABSENT : (int64_t)n;
}

/* With Yama at 2 or 3 reading the memory of others needs a capability, even of descendants. */
static int yama_check(void) {
    int64_t scope = read_switch("/proc/sys/kernel/yama/ptrace_scope");

    return scope >= 2 ? -EPERM : 0;
}

static int guard_main(void *arg) {
    int *ret = arg;

    *ret = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : notify_try();
    return 0;
}

/* In a process of its own, for a filter cannot be taken off again; on our memory, because copying it is most of what this would cost. */
int native_can_guard(void) {
    int found = -EIO;
    pid_t pid = process_clone(guard_main, &found, CLONE_VM | CLONE_VFORK, NULL);

    if (pid < 0)
        return pid;
    process_wait(pid);
    return found < 0 ? found : yama_check();
}

static bool was_filtered(void) {
    char text[TEXT_MAX];
    const char *line;

    if (fd_read_file_at(AT_FDCWD, "/proc/self/status", text, sizeof text) <= 0)
        return false;
    line = strstr(text, "\nSeccomp:\t");
    return line && line[strlen("\nSeccomp:\t")] != '0';
}

/* The value of container= in PID 1's environment, which only root may read; systemd leaves it in a file for all. */
static void container_word(char out[static TEXT_MAX]) {
    char text[TEXT_MAX];
    ssize_t n;

    if (fd_read_file_at(AT_FDCWD, "/run/systemd/container", out, TEXT_MAX) > 0)
        return;
    out[0] = 0;
    n = fd_read_file_at(AT_FDCWD, "/proc/1/environ", text, sizeof text);
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(text + i) + 1)
        if (str_starts(text + i, "container="))
            snprintf(out, TEXT_MAX, "%s", text + i + strlen("container="));
}

/* In the first namespaces of all we are in no container, whatever files the image of a virtual machine was made with. */
static bool in_first_namespaces(void) {
    static const struct {
        const char *path;
        ino_t first; /* fixed numbers: include/linux/proc_ns.h of the kernel */
    } known[] = {{"/proc/self/ns/pid", 0xEFFFFFFC}, {"/proc/self/ns/uts", 0xEFFFFFFE}, {"/proc/self/ns/ipc", 0xEFFFFFFF}};
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (stat(known[i].path, &st) < 0 || st.st_ino != known[i].first)
            return false;
    return true;
}

static enum container look_around(void) {
    char word[TEXT_MAX], cgroup[TEXT_MAX];

    if (in_first_namespaces())
        return CONTAINER_NO;
    if (getenv("KUBERNETES_SERVICE_HOST"))
        return CONTAINER_KUBERNETES;
    if (access("/run/.containerenv", F_OK) == 0)
        return CONTAINER_PODMAN;
    if (access("/.dockerenv", F_OK) == 0)
        return CONTAINER_DOCKER;
    container_word(word);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", cgroup, sizeof cgroup) <= 0)
        cgroup[0] = 0;
    return container_guess(word, cgroup);
}

void native_look(struct native_facts *ret) {
    struct stat here;

    *ret = (struct native_facts){
        .root = getuid() == 0,
        .stuck = host_is_root() && !caps_can_change_ids(),
        .root_owns = host_is_root() && stat(".", &here) == 0 && here.st_uid == 0,
        .init = look_for("bawn-init"),
        .scope = look_for("bawn-scope"),
        .memfd = memfd_try(),
        .landlock_abi = landlock_abi(),
        .userns_clone = read_switch("/proc/sys/kernel/unprivileged_userns_clone"),
        .userns_max = read_switch("/proc/sys/user/max_user_namespaces"),
        .userns_apparmor = read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        .filtered = was_filtered(),
        .container = look_around(),
        .shared = NOT_TRIED,
    };
    cgroup_probe(&ret->cgroup);
    look_at_launch(ret);
}

size_t native_probe(struct engine_state *ret, const char **ret_names, size_t max) {
    struct engine_state rungs[RUNG_COUNT];
    struct native_facts f;
    size_t n = MIN_OF(max, (size_t)RUNG_COUNT);

    native_look(&f);
    native_judge(&f, rungs);
    for (size_t i = 0; i < n; i++) {
        ret[i] = rungs[i];
        ret_names[i] = rung_names[i];
    }
    return n;
}
