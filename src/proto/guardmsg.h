/*
 * The guard, in bawn-init, and its supervisor (spec/init-protocol.md). In direct mode every system call that would change a file
 * comes to the guard first, by seccomp notification; it judges the place, lets the supervisor put away what stands there
 * before the first change, and does the operation itself. This is what the two say to each other: SOCK_SEQPACKET, one
 * message each, a header and a path.
 */
#pragma once

#include "base/macros.h"

enum { GUARD_PATH_MAX = 4096 };

/* Origin of the rules that let the command make hidden names in folders of dependencies. */
#define GUARD_DEPENDENCIES "folders of dependencies"

enum guard_msg_type {
    GUARD_MSG_TOUCH = 1, /* to the supervisor: `path` is about to change for the first time; a descriptor comes with it if it is a
                            regular file. Answered by GUARD_MSG_GO if wait is set */
    GUARD_MSG_REFUSED,   /* to the supervisor: an operation was refused; why: enum guard_why */
    GUARD_MSG_GO,        /* to the guard: go on; value 0, or a negative errno for the caller */
    GUARD_MSG_LOOK, /* to the supervisor: the folder `path` was moved, or (value 1) is about to be closed to us: watch it and cover
                            what is hidden in it before GO */
    GUARD_MSG_MAKING, /* to the supervisor: the command makes `path`, whose name is hidden, where it may (dependencies). Answered by GO */
    GUARD_MSG_MADE /* to the supervisor: it did, and a descriptor of it comes with the message; or it failed, and none does */
};

enum guard_why { GUARD_WHY_PROTECTED = 1, GUARD_WHY_HIDDEN, GUARD_WHY_BARE_REPO };

struct guard_msg {
    uint32_t type;
    uint32_t wait;      /* TOUCH: the guard waits for GO */
    uint32_t unlinking; /* TOUCH: the name goes away, the inode is not written to */
    int32_t value;      /* REFUSED: enum guard_why; GO: result */
    uint32_t mode;      /* TOUCH: st_mode of what is there now; 0: nothing */
    uint32_t path_len;  /* follows the header, relative to the workspace, without NUL */
    uint64_t size, mtime_ns, dev, ino;
};
