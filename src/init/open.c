/* SPDX-License-Identifier: Apache-2.0 */
/* Files for `bawn cp` and the like: opened here, because only in here a path means what it means to the commands. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/str.h"
#include "init/init.h"
#include "link/far.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "proto/execmsg.h"

#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif

/* "/a//b/./c/" to "a/b/c"; "." for the root. */
static int clean(const char *path, size_t len, char to[static PATH_MAX]) {
    size_t n = 0;

    if (len == 0 || path[0] != '/' || memchr(path, 0, len))
        return -EINVAL;
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    for (size_t at = 0; at < len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t part = slash ? (size_t)(slash - path) - at : len - at;

        if (part == 2 && memcmp(path + at, "..", 2) == 0)
            return -EXDEV;
        if (part > 0 && !(part == 1 && path[at] == '.')) {
            if (n > 0)
                to[n++] = '/';
            memcpy(to + n, path + at, part);
            n += part;
        }
        at += part + 1;
    }
    if (n == 0)
        to[n++] = '.';
    to[n] = 0;
    return 0;
}

/* Files that are not stored but made by the kernel when they are read: some would wait, some act, some lead elsewhere. */
static bool is_made_up(int fd) {
    static const unsigned long kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                          DEVPTS_SUPER_MAGIC};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if ((unsigned long)fs.f_type == kinds[i])
            return true;
    return false;
}

static int judge_open(int fd, int how) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (is_made_up(fd))
        return -EACCES;
    if (S_ISDIR(st.st_mode))
        return 0;
    if (how == EXEC_OPEN_FOLDER)
        return -ENOTDIR;
    return S_ISREG(st.st_mode) ? 0 : -ENXIO;
}

int open_inside(const char *path, size_t len, int how, int *ret_fd) {
    CLEANUP(closep) int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int found = -1;
    char rel[PATH_MAX], proc[32];
    int fd, r = how == EXEC_OPEN_READ || how == EXEC_OPEN_FOLDER ? clean(path, len, rel) : -EINVAL;

    if (r < 0 || root < 0)
        return r < 0 ? r : -errno;
    found = safepath_open(root, rel, O_PATH);
    r = found < 0 ? found : judge_open(found, how);
    if (r < 0)
        return r;
    /* Exactly what was judged; without waiting, should another process hold a lease on it. */
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", found);
    fd = open(proc, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

struct open_apart {
    const struct init_start *start;
    const char *path;
    size_t len;
    int how, fd, result;
};

static int open_locked_down(void *arg) {
    struct open_apart *a = arg;
    struct err err = {0};
    int r = lockdown(a->start, LOCKDOWN_COMMAND, &err);

    a->result = r < 0 ? r : open_inside(a->path, a->len, a->how, &a->fd);
    return 0;
}

/* Without namespaces we are outside the wall ourselves, so a process that is behind it does it. */
static int open_apart(const struct init *in, const char *path, size_t len, int how, int *ret_fd) {
    struct open_apart a = {.start = &in->start, .path = path, .len = len, .how = how, .fd = -1, .result = -ECHILD};
    pid_t pid = command_clone(open_locked_down, &a, CLONE_FILES);

    if (pid < 0 || a.result < 0)
        return pid < 0 ? pid : a.result;
    *ret_fd = a.fd;
    return 0;
}

void open_answer(struct init *in, const struct init_msg *ask, const char *path, size_t len) {
    struct init_msg msg = {.type = INIT_MSG_OPEN, .job = ask->job};
    bool outside = in->start.flags & INIT_FLAG_NO_PIDNS;
    int fd = -1, r = outside ? open_apart(in, path, len, ask->value, &fd) : open_inside(path, len, ask->value, &fd);

    if (r == 0 && far_is_on() && folder_is(fd))
        r = folder_serve(&fd);
    if (r < 0)
        closep(&fd);
    msg.value = -r;
    out_send(in, &msg, fd);
}
