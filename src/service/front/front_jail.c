/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-front may still do once it is locked in. */
#include "service/front/front_jail.h"

#include <asm/termbits.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "jail/fence/cell.h"

/* What one loop over sockets takes. libc, libmicrohttpd and GnuTLS call others too, and live without them. */
static const uint32_t allowed[] = {
    __NR_read,
    __NR_write,
    __NR_readv,
    __NR_writev,
    __NR_pread64,
    __NR_sendfile,
    __NR_recvfrom,
    __NR_recvmsg,
    __NR_sendto,
    __NR_sendmsg,
    __NR_accept4,
    __NR_getsockopt,
    __NR_setsockopt,
    __NR_getsockname,
    __NR_getpeername,
    __NR_shutdown,
    __NR_close,
    __NR_lseek,
    __NR_fcntl,
    __NR_memfd_create,
    __NR_epoll_create1,
    __NR_epoll_ctl,
    __NR_epoll_pwait,
#ifdef __NR_epoll_wait
    __NR_epoll_wait,
#endif
#ifdef __NR_poll
    __NR_poll,
#endif
    __NR_ppoll,
    __NR_eventfd2,
    __NR_munmap,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_futex,
    __NR_getrandom,
    __NR_clock_gettime,
    __NR_gettimeofday,
    __NR_restart_syscall,
    __NR_rt_sigreturn,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_sigaltstack,
    __NR_getpid,
    __NR_gettid,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
    __NR_sched_yield,
    __NR_exit,
    __NR_exit_group,
};

static const struct sock_filter arguments[] = {
    CELL_BEGIN,
    CELL_NO_EXEC,
    /* for a WebSocket within TLS */
    CELL_UNIX_PAIRS,
    CELL_NO_NEW_CODE,
    /* ioctl: non-blocking, bytes that can be read, the size of a terminal; nothing that types into one (TIOCSTI) */
    CELL_IF_EQ(__NR_ioctl, 0, 6),
    CELL_LOAD(args[1]),
    CELL_IF_EQ(FIONBIO, 2, 0),
    CELL_IF_EQ(FIONREAD, 1, 0),
    CELL_IF_EQ(TIOCSWINSZ, 0, 1),
    CELL_ALLOW,
    CELL_DENY,
};

static const struct cell_limit limits[] = {
    {RLIMIT_AS, CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)FRONT_MEMORY_MAX,
     CELL_SANITIZED ? RLIM_INFINITY : (rlim_t)FRONT_MEMORY_MAX},
    {RLIMIT_NOFILE, FRONT_FILES_MAX, FRONT_FILES_MAX},
    {RLIMIT_CORE, 0, 0},
    {RLIMIT_NPROC, 0, 0},
};

int front_lock(struct err *err) {
    const struct cell_filter filter = {.program = "bawn-front",
                                       .arguments = arguments,
                                       .n_arguments = ARRAY_LEN(arguments),
                                       .calls = allowed,
                                       .n_calls = ARRAY_LEN(allowed)};
    int r = cell_drop(FRONT_IDS_FIRST, FRONT_ID_PLAIN, err);

    r = r < 0 ? r : cell_fence(true, err);
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    return r < 0 ? r : cell_install(&filter, err);
}
