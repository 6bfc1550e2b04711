/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: waited for, ended, recognised. */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"

enum { CHILD_STACK = 256 * 1024, STAT_SIZE = 1024, LEFTOVERS_KNOWN = 64, LEFTOVER_KNOWN_MS = 100 };

pid_t process_clone(int (*child)(void *), void *arg, unsigned long flags, int *ret_pidfd) {
    int pidfd = -1, saved;
    pid_t pid;
    char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

    if (stack == MAP_FAILED)
        return -errno;
    if (ret_pidfd)
        flags |= CLONE_PIDFD;
    pid = clone(child, stack + CHILD_STACK, (int)(flags | SIGCHLD), arg, ret_pidfd ? &pidfd : NULL);
    saved = errno;
    munmap(stack, CHILD_STACK);
    if (pid < 0)
        return -saved;
    if (ret_pidfd)
        *ret_pidfd = pidfd;
    return pid;
}

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ull
#endif

/* struct clone_args of Linux 5.7; <linux/sched.h> cannot be included beside <sched.h>. */
struct clone3_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

/*
 * libc has no clone3() that starts a function on a new stack, and a child that shares our memory must not return through a
 * C frame of ours. So: system call; in the child, call and exit; in the parent, go on.
 */
#if defined(__x86_64__)
static long clone3_call(struct clone3_args *args, int (*child)(void *), void *arg) {
    register long nr asm("rax") = SYS_clone3;
    register void *a asm("rdi") = args;
    register size_t n asm("rsi") = sizeof *args;
    register int (*fn)(void *) asm("r12") = child;
    register void *fn_arg asm("r13") = arg;

    asm volatile("syscall\n\t"
                 "test %%rax, %%rax\n\t"
                 "jnz 1f\n\t"
                 "xor %%ebp, %%ebp\n\t"
                 "mov %%r13, %%rdi\n\t"
                 "call *%%r12\n\t"
                 "mov %%eax, %%edi\n\t"
                 "mov %[exit_nr], %%eax\n\t"
                 "syscall\n\t"
                 "1:"
                 : "+r"(nr)
                 : "r"(a), "r"(n), "r"(fn), "r"(fn_arg), [exit_nr] "i"(SYS_exit)
                 : "rcx", "r11", "memory");
    return nr;
}
#elif defined(__aarch64__)
static long clone3_call(struct clone3_args *args, int (*child)(void *), void *arg) {
    register long nr asm("x8") = SYS_clone3;
    register long x0 asm("x0") = (long)args;
    register size_t n asm("x1") = sizeof *args;
    register int (*fn)(void *) asm("x10") = child;
    register void *fn_arg asm("x11") = arg;

    asm volatile("svc #0\n\t"
                 "cbnz x0, 1f\n\t"
                 "mov x29, xzr\n\t"
                 "mov x0, x11\n\t"
                 "blr x10\n\t"
                 "mov x8, %[exit_nr]\n\t"
                 "svc #0\n\t"
                 "1:"
                 : "+r"(x0)
                 : "r"(nr), "r"(n), "r"(fn), "r"(fn_arg), [exit_nr] "i"(SYS_exit)
                 : "x30", "memory");
    return x0;
}
#else
static long clone3_call(struct clone3_args *args UNUSED, int (*child)(void *) UNUSED, void *arg UNUSED) {
    return -ENOSYS;
}
#endif

pid_t process_clone_into(int (*child)(void *), void *arg, unsigned long flags, int cgroup_fd, int *ret_pidfd) {
    int pidfd = -1;
    char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    struct clone3_args args = {.flags = flags | CLONE_PIDFD | CLONE_INTO_CGROUP,
                               .pidfd = (uintptr_t)&pidfd,
                               .exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD, /* a sibling has the caller's */
                               .stack = (uintptr_t)stack,
                               .stack_size = CHILD_STACK,
                               .cgroup = (uint64_t)cgroup_fd};
    long pid;

    if (stack == MAP_FAILED)
        return -errno;
    pid = clone3_call(&args, child, arg);
    munmap(stack, CHILD_STACK);
    if (pid >= 0 && ret_pidfd)
        *ret_pidfd = pidfd;
    else if (pid >= 0)
        close(pidfd);
    return (pid_t)pid;
}

/* What stands in this field of /proc/PID/stat, of those behind the name, which may contain anything. NULL: there is no such process, or it is
 * not for us to see. The kernel gives the whole line with one read. */
static const char *stat_field(pid_t pid, int field, char stat[static STAT_SIZE]) {
    enum { FIRST_BEHIND_NAME = 3 };
    char path[32];
    const char *p;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    n = fd < 0 ? -1 : read(fd, stat, STAT_SIZE - 1);
    if (n <= 0)
        return NULL;
    stat[n] = 0;
    p = strrchr(stat, ')');
    for (int at = FIRST_BEHIND_NAME - 1; p && at < field; at++)
        p = (p = strchr(p, ' ')) ? p + 1 : NULL;
    return p;
}

static uint64_t stat_start(pid_t pid) {
    enum { START_TIME = 22 };
    char stat[STAT_SIZE];
    const char *p = stat_field(pid, START_TIME, stat);

    return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t process_start_time(pid_t pid) {
    static struct {
        pid_t pid;
        uint64_t start;
    } own;

    if (pid != getpid())
        return stat_start(pid);
    if (own.pid != pid) {
        own.start = stat_start(pid);
        own.pid = pid;
    }
    return own.start;
}

bool process_is_dead(pid_t pid, uint64_t start) {
    enum { STATE = 3, START_TIME = 22 };
    char stat[STAT_SIZE];
    const char *p;

    if (pid == getpid())
        return start && process_start_time(pid) != start;
    p = stat_field(pid, START_TIME, stat);
    if (!p)
        return kill(pid, 0) < 0 && errno == ESRCH;
    if (start && strtoull(p, NULL, 10) != start)
        return true;
    p = strrchr(stat, ')');
    return str_starts(p, ") Z") || str_starts(p, ") X");
}

bool process_is_leftover(pid_t pid, uint64_t start) {
    static struct {
        pid_t pid;
        uint64_t start, until_ms;
    } alive[LEFTOVERS_KNOWN];
    static size_t next;
    uint64_t now = clock_ms();

    for (size_t i = 0; i < ARRAY_LEN(alive); i++)
        if (alive[i].pid == pid && alive[i].start == start && now < alive[i].until_ms)
            return false;
    if (process_is_dead(pid, start))
        return true;
    alive[next].pid = pid;
    alive[next].start = start;
    alive[next].until_ms = now + LEFTOVER_KNOWN_MS;
    next = (next + 1) % ARRAY_LEN(alive);
    return false;
}

/* 0: not a pidfd, or the process was reaped. */
static pid_t pidfd_number(int pidfd) {
    char path[64], info[512];
    const char *p;
    int pid;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (fd_read_file_at(AT_FDCWD, path, info, sizeof info) <= 0)
        return 0;
    p = strstr(info, "\nPid:");
    return p && sscanf(p, " Pid: %d", &pid) == 1 && pid > 0 ? pid : 0;
}

bool process_is_exiting(int pidfd) {
    enum { EXITING = 0x4, FLAGS = 9 }; /* PF_EXITING of the kernel's sched.h */
    char stat[STAT_SIZE];
    pid_t pid = pidfd_number(pidfd);
    const char *p = pid ? stat_field(pid, FLAGS, stat) : NULL;

    return p && strtoul(p, NULL, 10) & EXITING;
}

int process_wait_cpu(pid_t pid, uint64_t *ret_us) {
    struct rusage used;
    int status;

    while (wait4(pid, &status, 0, &used) < 0)
        if (errno != EINTR)
            return -errno;
    *ret_us = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
              (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return status;
}

int process_wait(pid_t pid) {
    uint64_t us;

    return process_wait_cpu(pid, &us);
}

int process_clone_run(int (*child)(void *), void *arg, unsigned long flags) {
    pid_t pid = process_clone(child, arg, flags | CLONE_VM | CLONE_VFORK | CLONE_FILES, NULL);

    if (pid >= 0)
        (void)process_wait(pid);
    return MIN_OF(pid, 0);
}

int process_end(pid_t pid) {
    kill(pid, SIGKILL);
    return process_wait(pid);
}

int process_exit_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? PROCESS_SIGNALLED + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* Memory ----------------------------------------------------------------------------------------------------------- */

enum { STACK_NEAR = 16 * 1024 /* left alone: this call, and those that it makes */, STACK_USED = 1024 * 1024 };

/* The stack grows down; what is below us is garbage. Below its mapping there is nothing, and the kernel passes over that. */
static void drop_stack(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = ((uintptr_t)__builtin_frame_address(0) - STACK_NEAR) & ~(page - 1);

    madvise((void *)(end - STACK_USED), STACK_USED, MADV_DONTNEED);
}

void process_give_memory_back(void) {
    malloc_trim(0);
    drop_stack();
}
