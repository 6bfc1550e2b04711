/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on one path. Each: read the arguments, find the place, see that the caller still waits, judge, tell, do. */
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_git.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

enum { XATTR_NAME_SIZE = 256, XATTR_VALUE_MAX = 65536, FOLDER_READ = 0500, FOLDER_OPEN = 0700 };

/* Finds the place that argument `arg` names, from the folder in the argument before it. 1: go on; 0: the caller is gone. */
static int find(const struct call *c, unsigned arg, bool follow, struct place *ret) {
    char path[PATH_MAX];
    int r = caller_path(c, arg, path);

    r = r < 0 ? r : place_find(c, (int)c->arg[arg - 1], path, follow, ret);
    return r < 0 ? r : caller_waits(c);
}

/* For what can only be new: where something stands the kernel says EEXIST, and nothing has to be judged. */
static int before_creation(const struct call *c, const struct place *p, enum rules_kind kind) {
    int r;

    if (p->exists || p->object >= 0)
        return -EEXIST;
    r = judge_create(c->g, p, kind);
    r = r < 0 ? r : guard_touch(c->g, p, false);
    return r < 0 ? r : caller_umask(c);
}

static long result_of(int r) {
    return r < 0 ? -errno : 0;
}

/* Takes the bits back that only let the supervisor in. */
static int close_folder(struct guard *g, const struct place *p, mode_t mode) {
    CLEANUP(closep) int fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : guard_look(g, p->rel, true);

    if (r == 0 && fchmod(fd, st.st_mode & 07777 & ~(FOLDER_OPEN & ~mode)) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(p->dir, p->name, AT_REMOVEDIR);
    return r;
}

/* One that its owner cannot read could not be watched: it is open until it is. */
static int make_folder(struct guard *g, const struct place *p, mode_t mode) {
    mode_t masked = mode & ~g->umask_.now;
    bool closed = p->rel && (masked & FOLDER_READ) != FOLDER_READ;
    mode_t before = closed ? umask(0) : 0;
    int r = (int)result_of(mkdirat(p->dir, p->name, closed ? masked | FOLDER_OPEN : mode));

    if (closed)
        umask(before);
    return r == 0 && closed ? close_folder(g, p, masked) : r;
}

long guard_run_mkdir(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    int making, r = find(c, 1, false, &p);

    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    r = before_creation(c, &p, RULES_FOLDER);
    making = r < 0 ? r : guard_making(c->g, &p, RULES_FOLDER);
    r = making < 0 ? making : make_folder(c->g, &p, (mode_t)c->arg[2] & 07777);
    if (making > 0)
        guard_made_there(c->g, &p, r == 0);
    return r;
}

long guard_run_mknod(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    int r = find(c, 1, false, &p);

    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    r = before_creation(c, &p, RULES_FILE);
    r = r < 0 ? r : (int)result_of(mknodat(p.dir, p.name, (mode_t)c->arg[2], (dev_t)(uint32_t)c->arg[3]));
    if (r == 0 && stat_born(p.dir, p.name, AT_SYMLINK_NOFOLLOW, &p.st, &p.birth_ns) == 0)
        known_add(c->g, &p.st, p.birth_ns, false);
    return r;
}

long guard_run_symlink(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char target[PATH_MAX];
    int r = caller_string(c, c->arg[0], target, sizeof target);

    r = r < 0 ? r : find(c, 2, false, &p);
    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    r = before_creation(c, &p, p.rel && guard_git_is_probe(p.rel, target) ? RULES_FILE : RULES_LINK);
    return r < 0 ? r : result_of(symlinkat(target, p.dir, p.name));
}

/* To the inside hidden files do not exist; what is shown in their place cannot be removed. So that `git clean -fdx` and `rm -r` go on as if
 * they were gone, removing one, or a folder that holds nothing else, succeeds and does nothing. The report of the run names it. */
long guard_run_unlink(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    int r = find(c, 1, false, &p), flags = (int)c->arg[2];

    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    if (flags & ~AT_REMOVEDIR)
        return -EINVAL;
    if (p.rel && !p.exists)
        return -ENOENT;
    if (p.rel && guard_rules_hide(&c->g->rules, p.rel, place_kind(&p)))
        return guard_refuse(c->g, p.rel, GUARD_WHY_HIDDEN, S_ISDIR(p.st.st_mode) == !!(flags & AT_REMOVEDIR) ? 0 : -EPERM);
    if (p.exists) {
        r = judge_remove_shown(c->g, &p);
        r = r < 0 ? r : guard_touch(c->g, &p, true);
    }
    r = r < 0 ? r : (int)result_of(unlinkat(p.dir, p.name, flags));
    return r == -ENOTEMPTY && judge_holds_only_hidden(c->g, &p) ? 0 : r;
}

long guard_run_link(struct call *c) {
    CLEANUP(place_done) struct place from = PLACE_INIT;
    CLEANUP(place_done) struct place to = PLACE_INIT;
    int making, r, flags = (int)c->arg[4];
    char proc[GUARD_PROC_PATH];

    if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) /* an empty path is ENOENT, as without the capability that it needs */
        return -EINVAL;
    r = find(c, 1, flags & AT_SYMLINK_FOLLOW, &from);
    r = r <= 0 ? r : find(c, 3, false, &to);
    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    if (!from.exists)
        return -ENOENT;
    r = judge_write(c->g, &from);
    if (r == 0 && to.rel && guard_rules_in_git_core(to.rel))
        r = guard_refuse(c->g, to.rel, GUARD_WHY_PROTECTED, -EACCES);
    r = r < 0 ? r : before_creation(c, &to, place_kind(&from));
    r = r < 0 ? r : guard_touch(c->g, &from, false); /* what is written through the new name changes the old one */
    making = r < 0 ? r : guard_making(c->g, &to, RULES_FILE);
    if (making < 0)
        return making;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", from.object);
    r = (int)result_of(from.object < 0 ? linkat(from.dir, from.name, to.dir, to.name, 0)
                                       : linkat(AT_FDCWD, proc, to.dir, to.name, AT_SYMLINK_FOLLOW));
    if (making)
        guard_made_there(c->g, &to, r == 0);
    return r;
}

/* *ret is a path that leads to exactly what was judged. */
static int pin_place(const struct call *c, struct place *p, char ret[static GUARD_PROC_PATH]) {
    int r = guard_touch(c->g, p, false);

    if (r < 0)
        return r;
    if (p->object < 0)
        p->object = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (p->object < 0)
        return -errno;
    snprintf(ret, GUARD_PROC_PATH, "/proc/self/fd/%d", p->object);
    return 0;
}

/* What changes something that exists. */
static int before_change(const struct call *c, struct place *p, char ret[static GUARD_PROC_PATH]) {
    int r = p->exists ? judge_write(c->g, p) : -ENOENT;

    return r < 0 ? r : pin_place(c, p, ret);
}

static int find_and_judge(const struct call *c, bool follow, struct place *p, char proc[static GUARD_PROC_PATH]) {
    int r = find(c, 1, follow, p);

    if (r <= 0)
        return r < 0 ? r : -ESRCH; /* no process is left to get it */
    return before_change(c, p, proc);
}

static int judge_fd(const struct call *c, struct place *p, char proc[static GUARD_PROC_PATH]) {
    int r = place_of_fd(c, (int)c->arg[0], p);

    if (r < 0 || !caller_waits(c))
        return r < 0 ? r : -ESRCH;
    return before_change(c, p, proc);
}

long guard_run_truncate(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = find_and_judge(c, true, &p, proc);

    return r < 0 ? r : result_of(truncate(proc, (off_t)c->arg[2]));
}

/* Folders whose owner cannot read them, from now on: an ACL says it, too. */
static int before_closing(struct guard *g, const struct place *p, mode_t mode) {
    return S_ISDIR(p->st.st_mode) && (mode & FOLDER_READ) != FOLDER_READ ? guard_look(g, p->rel, true) : 0;
}

long guard_run_chmod(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = find(c, 1, true, &p);

    if (r <= 0)
        return r < 0 ? r : GUARD_ANSWERED;
    r = guard_git_may_chmod(c->g, &p, (mode_t)c->arg[2]) ? pin_place(c, &p, proc) : before_change(c, &p, proc);
    r = r < 0 ? r : before_closing(c->g, &p, (mode_t)c->arg[2]);
    return r < 0 ? r : result_of(chmod(proc, (mode_t)c->arg[2] & 07777));
}

long guard_run_fchmod(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = judge_fd(c, &p, proc);

    r = r < 0 ? r : before_closing(c->g, &p, (mode_t)c->arg[1]);
    return r < 0 ? r : result_of(chmod(proc, (mode_t)c->arg[1] & 07777));
}

static int attribute_name(const struct call *c, char name[static XATTR_NAME_SIZE]) {
    int len = caller_string(c, c->arg[2], name, XATTR_NAME_SIZE);

    return len == -ENAMETOOLONG || len == 0 ? -ERANGE : len;
}

/* The arguments of all forms: folder or descriptor, path, name, value, size, flags. */
static int set_attribute(const struct call *c, const struct place *p, const char *proc) {
    size_t size = (size_t)c->arg[4];
    char name[XATTR_NAME_SIZE];
    CLEANUP(freep) char *value = NULL;
    int r = attribute_name(c, name);

    if (r < 0 || size > XATTR_VALUE_MAX)
        return r < 0 ? r : -E2BIG;
    value = malloc(size + 1);
    if (!value)
        return -ENOMEM;
    r = caller_bytes(c, c->arg[3], value, size);
    if (r < 0 || !caller_waits(c))
        return r < 0 ? r : -ESRCH;
    r = str_eq(name, "system.posix_acl_access") ? before_closing(c->g, p, 0) : 0;
    if (r < 0)
        return r;
    return setxattr(proc, name, value, size, (int)c->arg[5]) < 0 ? -errno : 0;
}

long guard_run_setxattr(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = find_and_judge(c, c->follow, &p, proc);

    return r < 0 ? r : set_attribute(c, &p, proc);
}

long guard_run_fsetxattr(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = judge_fd(c, &p, proc);

    return r < 0 ? r : set_attribute(c, &p, proc);
}

static int remove_attribute(const struct call *c, const char *proc) {
    char name[XATTR_NAME_SIZE];
    int r = attribute_name(c, name);

    if (r < 0 || !caller_waits(c))
        return r < 0 ? r : -ESRCH;
    return removexattr(proc, name) < 0 ? -errno : 0;
}

long guard_run_removexattr(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = find_and_judge(c, c->follow, &p, proc);

    return r < 0 ? r : remove_attribute(c, proc);
}

long guard_run_fremovexattr(struct call *c) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char proc[GUARD_PROC_PATH];
    int r = judge_fd(c, &p, proc);

    return r < 0 ? r : remove_attribute(c, proc);
}
