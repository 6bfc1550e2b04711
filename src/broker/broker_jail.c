/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-broker may still do once it serves. */
#include "broker/broker_jail.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "jail/fence/cell.h"

/*
 * Sockets that it has or is given, memory (mlock: values stay out of the swap), time, random numbers, the size and bytes of a memfd;
 * and one line of complaint on stderr. Nothing opens, connects or starts.
 */
static const uint32_t allowed[] = {
    __NR_recvmsg,      __NR_sendmsg,      __NR_recvfrom,        __NR_sendto,        __NR_read,
    __NR_write,        __NR_close,        __NR_lseek,           __NR_pread64,       __NR_ppoll,
    __NR_munmap,       __NR_mremap,       __NR_madvise,         __NR_mlock,         __NR_munlock,
    __NR_brk,          __NR_futex,        __NR_getrandom,       __NR_clock_gettime, __NR_gettimeofday,
    __NR_rt_sigreturn, __NR_rt_sigaction, __NR_rt_sigprocmask,  __NR_sigaltstack,   __NR_getpid,
    __NR_gettid,       __NR_sched_yield,  __NR_restart_syscall, __NR_exit,          __NR_exit_group,
#ifdef __NR_poll
    __NR_poll,
#endif
#ifdef __NR_time
    __NR_time,
#endif
};

/* mmap, mprotect: no code that was not there before. */
static const struct sock_filter arguments[] = {
    CELL_BEGIN,         CELL_IF_EQ(__NR_mmap, 1, 0),  CELL_IF_EQ(__NR_mprotect, 0, 4),
    CELL_LOAD(args[2]), CELL_IF_ANY(PROT_EXEC, 1, 0), CELL_ALLOW,
    CELL_DENY,
};

static const struct cell_limit limits[] = {
    {RLIMIT_AS, CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)BROKER_MEMORY_MAX,
     CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)BROKER_MEMORY_MAX},
    {RLIMIT_NOFILE, BROKER_FILES_MAX, BROKER_FILES_MAX},
    {RLIMIT_CORE, 0, 0},
    {RLIMIT_NPROC, 0, 0},
    {RLIMIT_FSIZE, 0, 0},
};

int broker_lock(struct err *err) {
    const struct cell_filter filter = {.program = "bawn-broker",
                                       .arguments = arguments,
                                       .n_arguments = ARRAY_LEN(arguments),
                                       .calls = allowed,
                                       .n_calls = ARRAY_LEN(allowed)};
    int r = cell_drop(BROKER_IDS_FIRST, BROKER_ID_PLAIN, err);

    r = r < 0 ? r : cell_fence(true, err);
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    return r < 0 ? r : cell_install(&filter, err);
}
