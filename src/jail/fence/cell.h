/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jails that our own helper programs enter by themselves (bawn-gate, bawn-broker, bawn-review): steps that they share. Each program
 * has its own list of calls and its own order of steps in its *_jail.c, which says why.
 */
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/macros.h"

struct err;

/* AddressSanitizer maps terabytes that it never uses, and looks at /proc/self. */
#if defined(__SANITIZE_ADDRESS__)
#define CELL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CELL_SANITIZED 1
#endif
#endif
#ifndef CELL_SANITIZED
#define CELL_SANITIZED 0
#endif

#if defined(__x86_64__)
#define CELL_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CELL_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system call filters do not know this machine"
#endif

/* Words for the part of a filter that looks at arguments. */
#define CELL_LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define CELL_IF_EQ(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define CELL_IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))
#define CELL_ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define CELL_DENY BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define CELL_KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
/* How most of them begin: the machine is the one that the numbers are for, and the number of the call is loaded. */
#define CELL_BEGIN CELL_LOAD(arch), CELL_IF_EQ(CELL_ARCH, 1, 0), CELL_KILL, CELL_LOAD(nr)

/* No program ever: none of them has a reason to try. */
#define CELL_NO_EXEC CELL_IF_EQ(__NR_execve, 1, 0), CELL_IF_EQ(__NR_execveat, 0, 1), CELL_KILL
/* mmap, mprotect: no code that was not there before. */
#define CELL_NO_NEW_CODE                                                                                                        \
    CELL_IF_EQ(__NR_mmap, 1, 0), CELL_IF_EQ(__NR_mprotect, 0, 4), CELL_LOAD(args[2]), CELL_IF_ANY(PROT_EXEC, 1, 0), CELL_ALLOW, \
        CELL_DENY
/* socketpair: unix only. */
#define CELL_UNIX_PAIRS CELL_IF_EQ(__NR_socketpair, 0, 4), CELL_LOAD(args[0]), CELL_IF_EQ(AF_UNIX, 0, 1), CELL_ALLOW, CELL_DENY

/* Its own memory, clock, signals and end: what the C library takes, and what reaches nothing outside. */
#define CELL_CALLS_OF_ITSELF                                                                                             \
    __NR_munmap, __NR_mremap, __NR_madvise, __NR_brk, __NR_futex, __NR_getrandom, __NR_clock_gettime, __NR_gettimeofday, \
        __NR_restart_syscall, __NR_rt_sigreturn, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_sigaltstack, __NR_getpid,  \
        __NR_gettid, __NR_sched_yield, __NR_exit, __NR_exit_group

enum { CELL_ARGUMENTS_MAX = 64, CELL_CALLS_MAX = 200 };

struct cell_filter {
    const char *program;                 /* for messages */
    const struct sock_filter *arguments; /* the calls whose arguments count; falls through at its end with the number loaded */
    size_t n_arguments;
    const uint32_t *calls; /* allowed whatever their arguments; every other one gets EPERM */
    size_t n_calls;
};
#define CELL_FILTER(name, arguments_, calls_)                                                                  \
    {                                                                                                          \
        .program = (name), .arguments = (arguments_), .n_arguments = ARRAY_LEN(arguments_), .calls = (calls_), \
        .n_calls = ARRAY_LEN(calls_)                                                                           \
    }
int cell_install(const struct cell_filter *f, struct err *err) MUST_USE;

struct cell_limit {
    __rlimit_resource_t what;
    rlim_t soft, hard; /* lowered to what there is */
};
#define CELL_MEMORY(max) \
    { RLIMIT_AS, CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)(max), CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)(max) }
int cell_limit(const struct cell_limit *limits, size_t n, struct err *err) MUST_USE;

/*
 * Root's files and processes are none of its business: takes the id first + pid, or `plain` where such a large one is not mapped. In a
 * user namespace with one id there is no other to take; outside it never was root. Then no capability, no new privileges, not dumpable,
 * and SIGKILL when the supervisor dies (another id makes the kernel forget that).
 */
int cell_drop(uint32_t first, uint32_t plain, struct err *err) MUST_USE;

/* No file at all, no signals and abstract sockets outside. Where the kernel has no Landlock the filter alone keeps files away. */
int cell_fence(bool deny_tcp, struct err *err) MUST_USE;

/* All of it, in this order: another id, no file, limits, the filter. */
struct cell_plan {
    struct cell_filter filter;
    uint32_t ids_first, id_plain;
    const struct cell_limit *limits;
    size_t n_limits;
    bool deny_tcp;
};
int cell_lock(const struct cell_plan *p, struct err *err) MUST_USE;
