/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: clone into namespaces, and proof of who is alive. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

/*
 * Runs child(arg) in a new process made with these clone flags. With CLONE_VM|CLONE_VFORK the caller sleeps until
 * the child execs or exits and sees what the child wrote to memory. The child must not return to the caller's
 * frames: its return value is its exit status. *ret_pidfd (may be NULL) is close-on-exec; -1 if the kernel has none.
 */
pid_t process_clone(int (*child)(void *), void *arg, unsigned long flags, int *ret_pidfd);

/*
 * The same, born in the cgroup2 group of this descriptor (clone3, Linux 5.7). Moving a process there afterwards takes a lock
 * that waits for an RCU grace period, often 10 ms; being born there is free. -ENOSYS where the kernel or this build has no
 * clone3: the caller then moves the child.
 */
pid_t process_clone_into(int (*child)(void *), void *arg, unsigned long flags, int cgroup_fd, int *ret_pidfd);

/* Runs child(arg) to its end in a process that shares our memory and descriptors; `flags` name its own namespaces. 0 or -errno. */
int process_clone_run(int (*child)(void *), void *arg, unsigned long flags);

/* Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat), 0 if there is no such process. */
uint64_t process_start_time(pid_t pid);

/*
 * Whether the process of this number and start time (0: not known) provably exists no more. One that was killed and that no parent has
 * reaped, as in containers whose PID 1 does not care, has let go of everything and is dead, too. With hidepid a process of ours may
 * have no start time that we see: that proves nothing.
 */
bool process_is_dead(pid_t pid, uint64_t start);

/* The same for those who clear up after others, in several places one after the other: who was seen alive in the last tenth of a second is not
 * looked at again, so what it leaves may stay for the next one to clear up. Never to be waited with. */
bool process_is_leftover(pid_t pid, uint64_t start);

/* Whether the process of this pidfd has begun to end (PF_EXITING), though it may have to wait for others before it is gone. False where /proc
 * does not say. */
bool process_is_exiting(int pidfd);

/* Ends a child of ours (SIGKILL) and waits for that; returns its wait status, -errno if it is no child. */
int process_end(pid_t pid);

/* Waits for a child of ours; returns its wait status, -errno if it is no child. */
int process_wait(pid_t pid);
/* The same, with the CPU time of it and of all below it that were waited for. Nothing is written on failure. */
int process_wait_cpu(pid_t pid, uint64_t *ret_us);

/* What a shell would have as $?: the exit status, or PROCESS_SIGNALLED + the signal that ended it. */
enum { PROCESS_SIGNALLED = 128 };
int process_exit_status(int wait_status);

/* Before a long wait: gives back what is free in the heap, and the stack that earlier work has used. */
void process_give_memory_back(void);
