/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bawn-link may still do once it is locked in: move bytes between descriptors that it has, make sockets and memory for new ones.
 *
 * Should: keep the stream, the control socket, pipes, socket pairs, memfds, terminals that its maker gives it (near_maker.c).
 * Mustn't: open any file, start a program or a process, reach the network, be traced or dumped, send signals, keep a capability.
 */
#include <asm/termbits.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "jail/fence/cell.h"
#include "link/near.h"

enum { NEAR_FILES_MAX = 8192, NEAR_MEMORY_MAX = 512 * 1024 * 1024 };

static const uint32_t allowed[] = {
    __NR_read,         __NR_write,          __NR_readv,      __NR_writev,        __NR_pwritev2,
    __NR_pread64,      __NR_recvfrom,       __NR_recvmsg,    __NR_sendto,        __NR_sendmsg,
    __NR_shutdown,     __NR_close,          __NR_lseek,      __NR_fcntl,         __NR_fstat,
#ifdef __NR_newfstatat
    __NR_newfstatat,
#endif
    __NR_fchmod,       __NR_memfd_create,   __NR_setsockopt,
#ifdef __NR_poll
    __NR_poll,
#endif
    __NR_ppoll,        __NR_munmap,         __NR_brk,        __NR_clock_gettime, __NR_restart_syscall,
    __NR_rt_sigreturn, __NR_rt_sigprocmask, __NR_exit,       __NR_exit_group,
};

static const struct sock_filter arguments[] = {
    CELL_BEGIN,
    CELL_NO_EXEC,
    CELL_UNIX_PAIRS,
    CELL_NO_NEW_CODE,
    /* ioctl: of terminals, and nothing that types into one (TIOCSTI) or makes one controlling */
    CELL_IF_EQ(__NR_ioctl, 0, 6),
    CELL_LOAD(args[1]),
    CELL_IF_EQ(TCGETS, 2, 0),
    CELL_IF_EQ(TCSETS, 1, 0),
    CELL_IF_EQ(TIOCGWINSZ, 0, 1),
    CELL_ALLOW,
    CELL_DENY,
};

static const struct cell_limit limits[] = {
    CELL_MEMORY(NEAR_MEMORY_MAX), {RLIMIT_NOFILE, NEAR_FILES_MAX, NEAR_FILES_MAX}, {RLIMIT_CORE, 0, 0},
    {RLIMIT_NPROC, 0, 0},         {RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY}, /* output goes to the user's own files; received ones are bounded by NEAR_FILE_MAX */
};

int near_lock(struct err *err) {
    const struct cell_plan plan = {.filter = CELL_FILTER("bawn-link", arguments, allowed),
                                   .ids_first = NEAR_IDS_FIRST,
                                   .id_plain = NEAR_ID_PLAIN,
                                   .limits = limits,
                                   .n_limits = ARRAY_LEN(limits),
                                   .deny_tcp = true};

    return cell_lock(&plan, err);
}
