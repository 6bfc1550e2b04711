/* SPDX-License-Identifier: Apache-2.0 */
/* Makes user namespaces with several ids, and works in them. */
#include "os/user/idspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "os/spawn.h"
#include "os/user/passwd.h"

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

enum { NUMBER = 16, MAP_TEXT = 128, PATH_ROOM = 64 };

/* Of the process that is the first in the namespace. It waits until it is mapped: the other end of `wait` says so by a byte. */
struct idspace_child {
    int wait, other;
    int (*fn)(void *arg);
    void *arg;
    int *result; /* shared with us */
};

struct id_map id_map_of(uid_t uid, gid_t gid, struct id_range uids, struct id_range gids) {
    return (struct id_map){.uids = {{0, uid, 1}, {1, uids.first, uids.n}}, .gids = {{0, gid, 1}, {1, gids.first, gids.n}}};
}

static int child_main(void *arg) {
    struct idspace_child *c = arg;
    char go;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(c->other);
    if (read(c->wait, &go, 1) != 1 || !c->fn)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        *c->result = -errno;
    else
        *c->result = c->fn(c->arg);
    return 0;
}

static int write_map(pid_t pid, const char *file, const struct id_extent e[static IDSPACE_EXTENTS]) {
    char path[PATH_ROOM], text[MAP_TEXT];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    snprintf(text, sizeof text, "%u %u %u\n%u %u %u\n", e[0].inside, e[0].outside, e[0].n, e[1].inside, e[1].outside, e[1].n);
    return fd_write_file_at(AT_FDCWD, path, text);
}

/* Numbers only: neither its environment nor its descriptors have anything of ours. */
static int run_helper(const char *program, pid_t pid, const struct id_extent e[static IDSPACE_EXTENTS]) {
    enum { ARGS = 2 + 3 * IDSPACE_EXTENTS };
    char text[ARGS][NUMBER];
    char *argv[ARGS + 1] = {0};
    const struct spawn s = {.path = program, .argv = argv};
    int r;

    snprintf(text[0], NUMBER, "map");
    snprintf(text[1], NUMBER, "%d", (int)pid);
    for (size_t i = 0; i < IDSPACE_EXTENTS; i++) {
        snprintf(text[2 + 3 * i], NUMBER, "%u", e[i].inside);
        snprintf(text[3 + 3 * i], NUMBER, "%u", e[i].outside);
        snprintf(text[4 + 3 * i], NUMBER, "%u", e[i].n);
    }
    for (size_t i = 0; i < ARGS; i++)
        argv[i] = text[i];
    r = spawn_run(&s);
    return r < 0 ? r : process_exit_status(r) == 0 ? 0 : -EPERM;
}

static int map_child(pid_t pid, const struct id_map *map, bool by_root) {
    int r = by_root ? write_map(pid, "gid_map", map->gids) : run_helper(NEWGIDMAP, pid, map->gids);

    if (r < 0)
        return r;
    return by_root ? write_map(pid, "uid_map", map->uids) : run_helper(NEWUIDMAP, pid, map->uids);
}

static int open_space(pid_t pid) {
    char path[PATH_ROOM];
    int fd;

    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Its pid; *ret_go is written to once it is mapped, or closed. */
static pid_t start_child(struct idspace_child *c, int *ret_go) {
    int pair[2];
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    c->wait = pair[0];
    c->other = pair[1];
    pid = process_clone(child_main, c, CLONE_NEWUSER, NULL);
    close(pair[0]);
    if (pid < 0)
        close(pair[1]);
    else
        *ret_go = pair[1];
    return pid;
}

/* newuidmap believes who owns /proc/PID, which is root for a process that cannot be dumped. */
static pid_t start_mapped(struct idspace_child *c, const struct id_map *map, bool by_root, int *ret_go) {
    int dumpable = prctl(PR_GET_DUMPABLE), r;
    pid_t pid;

    prctl(PR_SET_DUMPABLE, 1);
    pid = start_child(c, ret_go);
    prctl(PR_SET_DUMPABLE, dumpable == 1);
    r = pid < 0 ? pid : map_child(pid, map, by_root);
    if (pid >= 0 && r < 0) {
        close(*ret_go);
        process_end(pid);
    }
    return r < 0 ? r : pid;
}

int idspace_make(const struct id_map *map, bool by_root) {
    struct idspace_child c = {.wait = -1};
    int go, fd;
    pid_t pid = start_mapped(&c, map, by_root, &go);

    if (pid < 0)
        return pid;
    fd = open_space(pid);
    close(go);
    process_end(pid);
    return fd;
}

int idspace_run(const struct id_map *map, int (*fn)(void *arg), void *arg) {
    int *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), go, r;
    struct idspace_child c = {.fn = fn, .arg = arg, .result = result};
    pid_t pid;

    if (result == MAP_FAILED)
        return -errno;
    *result = -ECHILD; /* of a child that was killed */
    pid = start_mapped(&c, map, false, &go);
    if (pid >= 0) {
        (void)!write(go, "", 1);
        close(go);
        process_wait(pid);
    }
    r = pid < 0 ? pid : *result;
    munmap(result, sizeof *result);
    return r;
}

int idspace_ranges(struct id_range *ret_uids, struct id_range *ret_gids) {
    CLEANUP(passwd_done) struct passwd_entry e = {0};
    struct id_range uids, gids;
    uid_t uid = getuid();
    int r = passwd_find(uid, &e);

    if (r == -ENOMEM)
        return r;
    r = subid_read("/etc/subuid", e.name, uid, &uids);
    r = r < 0 ? r : subid_read("/etc/subgid", e.name, uid, &gids); /* both by the user, not by the group */
    if (r < 0)
        return r;
    if (uid != 0 && (access(NEWUIDMAP, X_OK) < 0 || access(NEWGIDMAP, X_OK) < 0))
        return -ENOEXEC;
    *ret_uids = uids;
    *ret_gids = gids;
    return 0;
}

int idspace_own(struct id_map *ret) {
    struct id_range uids, gids;
    int r = idspace_ranges(&uids, &gids);

    if (r < 0)
        return r;
    /* Other ids have the numbers of outside, so that none looks like one that is not mapped (65534). */
    *ret = (struct id_map){.uids = {{0, getuid(), 1}, {uids.first, uids.first, uids.n}},
                           .gids = {{0, getgid(), 1}, {gids.first, gids.first, gids.n}}};
    return 0;
}

struct idspace_removal {
    int parent;
    const char *name;
};

static int remove_in_space(void *arg) {
    const struct idspace_removal *a = arg;

    return remove_tree(a->parent, a->name);
}

int idspace_remove_tree(int parent, const char *name) {
    struct idspace_removal a = {parent, name};
    int r = remove_tree(parent, name);
    struct id_map map;

    if ((r != -EACCES && r != -EPERM && r != -ENOTEMPTY) || geteuid() == 0 || idspace_own(&map) < 0)
        return r;
    return idspace_run(&map, remove_in_space, &a);
}
