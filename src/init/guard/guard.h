/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of direct mode. Every system call of the sandboxed command that could change a file comes here by seccomp
 * notification. The guard resolves the path as the caller would, judges the place it leads to, and does the operation itself.
 *
 * Why nothing can slip through between judging and doing: the path is copied out of the caller once; what is judged is the path
 * of the folder that was opened, after all links, and the operation is done relative to that descriptor; and this one thread
 * does all renames and links of everything inside, so nothing moves meanwhile. SECCOMP_USER_NOTIF_FLAG_CONTINUE, which would
 * let the kernel read the path again from memory that another thread can change, is used for umask(2) only, whose argument is a
 * number.
 *
 * Refused (EACCES; EPERM for unlink), and reported to the supervisor:
 *   - to create, write, truncate, chmod, unlink, rename, replace or link from what the protect rules match, by whatever name;
 *   - to make a name that the hide rules match, or to change what has one (the host may have made it after the start);
 *   - to rename `.git`, or to make or remove it but as guard_git.h says; to put a folder or a link where a protected path would lead through it; to move a tree
 *     so that something in it becomes protected, or stops being it; to make a folder that git takes for a repository;
 *   - to change what programs of the host save a protected file by, or (EBUSY, after a while) what one of them is just saving (guard_fresh.c);
 *   - to write to a file that has lost the name by which it was opened, unless it has no other and was made or opened for writing inside.
 * Configurations and other files of git's are let in if what is in them makes the host's git run nothing (guard_git.h, guard_stage.h).
 * What is at a path below the workspace is put away before its first change: in the spool (workspace/run/spool.h), or by the supervisor (proto/guardmsg.h).
 *
 * The operation is done with bawn-init's credentials, Landlock domain and mounts, which are the caller's: no process inside can
 * have others, as namespaces, chroot and further Landlock domains are refused (the latter here, because they would not hold for
 * what the guard does). What bawn-init may and the caller may not is refused by name: bawn-init's own files in /proc.
 *
 * Differences that a program can see: getsockname() of a unix socket that was bound through links or ".." shows its last name only; opening a terminal does not make it the controlling one (TIOCSCTTY does);
 * a signal handler runs only after the call, and if it was installed without SA_RESTART, a call that the guard has not begun
 * yet ends with EINTR; PR_SET_DUMPABLE 0 is ignored; what can be attached to by ptrace can be opened in /proc; a program that
 * may be executed but not read cannot change files; what the host has just saved is written a little later.
 */
#pragma once

#include "base/macros.h"

struct err;
struct init_start;
struct pollfd;
struct guard;

/* Before lockdown. control: bawn-init's socket, which the guard's own children must not hold; sock: the guard's (descriptor
 * 5), -1 without INIT_FLAG_GUARD; gate: where connections go (guard_sock.h), -1 without INIT_FLAG_SOCKETS. */
enum {
    GUARD_GATE_FDS = 3
}; /* the way to the gate, and sockets of the host's that bawn-init cannot reach by their path (spec/init-protocol.md); -1: none */
int guard_new(const struct init_start *s, int control, int sock, const int gate[static GUARD_GATE_FDS], struct guard **ret,
              struct err *err);
/* INIT_FLAG_SOCKETS: a connection to a server inside, as for --publish; 0 or -errno. */
int guard_inside(struct guard *g, int port, int *ret_fd);

/* In a command's process, right before it execs: from here on its calls wait for the guard. The listener's descriptor is left
 * in *g, so the process must share memory and descriptors with bawn-init, or the copy that holds its session, until it execs. -EAGAIN: too many commands. */
int guard_install(struct guard *g, struct err *err);

/* Where it was not bawn-init's own memory and descriptors: the listener that guard_install() left last, and handing it over. Takes fd. */
int guard_newest(const struct guard *g);
void guard_add(struct guard *g, int listener);

/* For poll(): the listeners that there are, each for what one command started; returns how many, at most GUARD_POLL_MAX. */
enum { GUARD_POLL_MAX = 512 };
size_t guard_poll(const struct guard *g, struct pollfd *ret);
/* The supervisor's end (no events, only to see it close; -1 once it has). */
int guard_socket(const struct guard *g);
/* The supervisor is gone: from here on nothing below the workspace can be changed. */
void guard_orphan(struct guard *g);
/* How many milliseconds to sleep at most; 0: calls were taken from the kernel and wait; -1: there are none. */
int guard_timeout(const struct guard *g);
/* Answers one call, if there is one; p: what poll() said of the n listeners of guard_poll(). Listeners behind which no process is left are
 * closed. Blocks only while the supervisor puts away what is about to change. */
void guard_handle(struct guard *g, const struct pollfd *p, size_t n);
/* Files that are written in place and judged when they are closed (guard_stage.h): readable when one was, -1: there is none; and judging them, which
 * guard_handle() does, too. */
int guard_staged(const struct guard *g);
void guard_settle(struct guard *g);
