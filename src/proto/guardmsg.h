/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard, in bawn-init, and its supervisor (spec/init-protocol.md). In direct mode every system call that would change a file
 * comes to the guard first, by seccomp notification; it judges the place, lets the supervisor put away what is there
 * before the first change, and does the operation itself. This is what the two say to each other: SOCK_SEQPACKET, one
 * message each, a header and a path.
 */
#pragma once

#include "base/macros.h"

enum { GUARD_PATH_MAX = 4096 };

/* Origin of the rules that let the command make hidden names in folders of dependencies. */
#define GUARD_DEPENDENCIES "folders of dependencies"

enum guard_msg_type {
    GUARD_MSG_TOUCH = 1, /* to the supervisor: `path` is about to change for the first time. Answered by GUARD_MSG_GO if wait is
                            set */
    GUARD_MSG_REFUSED, /* to the supervisor: an operation was refused; why: enum guard_why. Behind the path there may be a NUL and what exactly is refused */
    GUARD_MSG_GO,      /* to the guard: go on; value 0, or a negative errno for the caller */
    GUARD_MSG_SHARE, /* to the supervisor, before the first change: a descriptor of the memory that both share (struct guard_share). Answered by
                            GUARD_MSG_GO once what the supervisor knows is in it */
    GUARD_MSG_OPEN, /* to the supervisor: does a program of the host have `path`, with dev and ino, open for writing? Answered by
                            GUARD_MSG_GO: -EBUSY yes, 0 no, -EEXIST no, and a rename brought it to this name; else it cannot be known */
    GUARD_MSG_LOOK, /* to the supervisor: the folder `path` was moved, or (value 1) is about to be closed to us: watch it and cover
                            what is hidden in it before GO */
    GUARD_MSG_MAKING, /* to the supervisor: the command makes `path`, whose name is hidden, where it may (dependencies). Answered by GO */
    GUARD_MSG_MADE, /* to the supervisor: it did, and a descriptor of it comes with the message; or it failed, and none does */
    GUARD_MSG_SPOOL /* to the supervisor: before the first change, and when the spool (workspace/run/spool.h) is full. Answered by GO once all that is in it is
                            in the journal; the first time with a descriptor of it, to write to. Without one there is no spool */
};

enum guard_why { GUARD_WHY_PROTECTED = 1, GUARD_WHY_HIDDEN, GUARD_WHY_BARE_REPO, GUARD_WHY_SAVE, GUARD_WHY_BUSY, GUARD_WHY_GIT };

struct guard_msg {
    uint32_t type;
    uint32_t wait;      /* TOUCH: the guard waits for GO */
    uint32_t unlinking; /* TOUCH: the name goes away, the inode is not written to */
    int32_t value;      /* REFUSED: enum guard_why; GO: result */
    uint32_t mode;      /* TOUCH: st_mode of what is there now; 0: nothing. With wait 0 it is not 0 only below a GO's folder */
    uint32_t
        folder_len; /* GO to a TOUCH: so much of its path is a folder in which files and folders are recorded by name only: the guard need
                            not wait there */
    uint32_t path_len; /* follows the header, relative to the workspace, without NUL */
    uint32_t spooled;  /* from the guard: how many bytes of the spool count */
    uint64_t size, mtime_ns, dev, ino;
};

/*
 * Memory that the guard and its supervisor share, because what it is for cannot wait for a message: a file may be renamed into a protected
 * place at any moment, and the supervisor must then know whether the inside ever had that file open for writing.
 *
 * written: a key (guardmsg_key()) for each file that was opened for writing inside, in the order in which they were; bit 0 (GUARD_KEY_HOSTS) is set if the
 * host had made it a few seconds before. turn is odd while the guard is at work on a call: what it is about to open is not among them yet.
 *
 * links: the other way, what the supervisor found: links of the host in protected places. Pairs of strings, each with its NUL: a place, and the path that
 * leads there. aliases counts up when a file appeared in a protected place.
 */
enum {
    GUARD_WRITTEN_MAX = 2 * 1024 * 1024, /* files; past it: full, and every file may be one of them */
    GUARD_LINKS_BYTES = 64 * 1024
};
#define GUARD_KEY_HOSTS UINT64_C(1)

struct guard_share {
    _Atomic uint32_t turn, full, aliases, links_len;
    _Atomic uint64_t n_written;
    char links[GUARD_LINKS_BYTES];
    uint64_t written[GUARD_WRITTEN_MAX];
};

/* Which file it is, not only which number it has: that one is used again for the next file. Without times of birth it is the number alone. Never 0,
 * and bit 0 is free. */
static inline uint64_t guardmsg_key(uint64_t dev, uint64_t ino, uint64_t birth_ns) {
    uint64_t x = ino ^ (dev << 48 | dev >> 16);

    for (int i = 0; i < 2; i++) {
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x = (x ^ (x >> 31)) + (i == 0 ? birth_ns : 0);
    }
    return (x & ~GUARD_KEY_HOSTS) ? x & ~GUARD_KEY_HOSTS : 2;
}
