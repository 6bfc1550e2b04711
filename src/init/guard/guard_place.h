/* SPDX-License-Identifier: Apache-2.0 */
/* The call that the guard answers, what only its caller knows, and where its paths lead. */
#pragma once

#include "init/guard/guard_priv.h"

/* One system call that waits for its answer. */
struct call {
    struct guard *g;
    int listener;
    uint64_t id;
    pid_t tid;
    uint64_t arg[6]; /* in the order of the *at form of the call */
    bool follow;     /* the last name too, where the call does not say it in a flag */
};

/* Where a path leads, all links followed but perhaps the last. */
struct place {
    int dir;                 /* its folder, O_PATH */
    int object;              /* instead: what a descriptor or a magic link (/proc/PID/fd/N) leads to, O_PATH; else -1 */
    char name[NAME_MAX + 2]; /* in dir; a '/' at the end if the caller wrote one; "." for dir itself */
    char path[PATH_MAX + NAME_MAX + 2]; /* absolute, without a '/' at the end */
    const char *rel;                    /* the same from the workspace on, "" for itself; NULL: outside */
    bool exists;
    struct stat st;    /* if it exists; of a link itself, if it was not followed */
    uint64_t birth_ns; /* 0: unknown */
    enum {
        PLACE_NAMED,
        PLACE_GONE,  /* an object that has no name any more */
        PLACE_ASTRAY /* an object that has one, but not the one by which it was opened: it may be any file's */
    } trace;
};

#define PLACE_INIT \
    { .dir = -1, .object = -1 }

/* guard_caller.c: what only the caller knows. Everything read is checked by caller_waits() before it is used. */
bool caller_waits(const struct call *c); /* it is still the process that made the call, and still in it */
int caller_path(const struct call *c, unsigned arg, char path[static PATH_MAX]);
int caller_string(const struct call *c, uint64_t address, char *to, size_t size); /* length, or -errno; -ENAMETOOLONG */
int caller_bytes(const struct call *c, uint64_t address, void *to, size_t len);
int caller_status(const struct call *c, const char *key, int base, long *ret); /* a number of /proc/TID/status */
int caller_terminal(const struct call *c, unsigned *ret_major, unsigned *ret_minor);
int caller_umask(const struct call *c); /* makes the caller's file mode mask ours */
long guard_run_umask(struct call *c);

/* guard_path.c, guard_follow.c */
enum { GUARD_OPEN_FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC };
void place_done(struct place *p);
/* *ret: PLACE_INIT; place_done() is due also when they fail. */
int place_find(const struct call *c, int dirfd, const char *path, bool follow, struct place *ret);
int place_of_fd(const struct call *c, int fd, struct place *ret); /* -EBADF also for what was opened with O_PATH */
int place_open(const struct place *p, int flags, mode_t mode);    /* follows no link; close-on-exec; or -errno */
enum rules_kind place_kind(const struct place *p);
bool place_holds_root(const struct guard *g, const struct place *p); /* the workspace, or a folder it is in */

/* for guard_follow.c and guard_mounts.c */
const char *path_below(const char *path, const char *folder); /* from the folder on, "" for itself; NULL: outside */
int follow_from(const struct call *c, int dirfd, const char *path, bool follow,
                struct place *p); /* leaves the path to be filled in */
int place_open_base(const struct call *c, int dirfd, const char *path);
int place_path_of(int fd, char path[static PATH_MAX]);                                  /* its length, or -errno */
bool place_is_own(const struct guard *g, const char *path);                             /* of bawn-init itself, in /proc */
int place_set_object(struct place *p, int fd);                                          /* takes fd */
int place_set_name(struct place *p, int dir, const char *name, size_t len, bool slash); /* takes dir only on success */
