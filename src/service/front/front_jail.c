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
    CELL_CALLS_OF_ITSELF,
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
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
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
    CELL_MEMORY(FRONT_MEMORY_MAX),
    {RLIMIT_NOFILE, FRONT_FILES_MAX, FRONT_FILES_MAX},
    {RLIMIT_CORE, 0, 0},
    {RLIMIT_NPROC, 0, 0},
};

int front_lock(struct err *err) {
    const struct cell_plan plan = {.filter = CELL_FILTER("bawn-front", arguments, allowed),
                                   .ids_first = FRONT_IDS_FIRST,
                                   .id_plain = FRONT_ID_PLAIN,
                                   .limits = limits,
                                   .n_limits = ARRAY_LEN(limits),
                                   .deny_tcp = true};

    return cell_lock(&plan, err);
}
