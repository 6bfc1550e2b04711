/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-gate may still do once it is locked in. */
#include "gateway/gate_jail.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "jail/fence/cell.h"

/* What one loop over sockets takes. libc, libuv, c-ares and OpenSSL call others too, and live without them. */
static const uint32_t allowed[] = {
    CELL_CALLS_OF_ITSELF,
    __NR_read,
    __NR_write,
    __NR_readv,
    __NR_writev,
    __NR_pread64, /* trust bundles and configurations, which came as descriptors */
    __NR_recvfrom,
    __NR_recvmsg,
    __NR_recvmmsg,
    __NR_sendto,
    __NR_sendmsg,
    __NR_sendmmsg,
    __NR_splice,
    __NR_accept4,
    __NR_connect,
    __NR_getsockopt,
    __NR_setsockopt,
    __NR_getsockname,
    __NR_getpeername,
    __NR_shutdown,
    __NR_close,
    __NR_lseek,
    __NR_fcntl,
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
    __NR_pipe2,
    __NR_eventfd2,
    __NR_clock_nanosleep,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
};

/* The calls whose arguments count, each with its own end. The kind of a socket has flags in its upper bits. */
static const struct sock_filter arguments[] = {
    CELL_BEGIN,
    CELL_NO_EXEC,
    /* socket: internet only, streams and datagrams only */
    CELL_IF_EQ(__NR_socket, 0, 9),
    CELL_LOAD(args[0]),
    CELL_IF_EQ(AF_INET, 1, 0),
    CELL_IF_EQ(AF_INET6, 0, 5),
    CELL_LOAD(args[1]),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    CELL_IF_EQ(SOCK_STREAM, 1, 0),
    CELL_IF_EQ(SOCK_DGRAM, 0, 1),
    CELL_ALLOW,
    CELL_DENY,
    CELL_NO_NEW_CODE,
    /* ioctl: non-blocking, bytes that can be read */
    CELL_IF_EQ(__NR_ioctl, 0, 5),
    CELL_LOAD(args[1]),
    CELL_IF_EQ(FIONBIO, 1, 0),
    CELL_IF_EQ(FIONREAD, 0, 1),
    CELL_ALLOW,
    CELL_DENY,
};

static const struct cell_limit limits[] = {
    CELL_MEMORY(GATE_MEMORY_MAX), {RLIMIT_NOFILE, GATE_FILES_MAX, GATE_FILES_MAX}, {RLIMIT_CORE, 0, 0}, {RLIMIT_NPROC, 0, 0},
    {RLIMIT_FSIZE, 0, 0},
};

/* As cell_lock(), with one question before the filter forbids it. */
int gate_lock(size_t *ret_files, struct err *err) {
    const struct cell_filter filter = CELL_FILTER("bawn-gate", arguments, allowed);
    struct rlimit files;
    int r = cell_drop(GATE_IDS_FIRST, GATE_ID_PLAIN, err);

    r = r < 0 ? r : cell_fence(false, err);
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    if (r < 0)
        return r;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_sys(err, -errno, "read a resource limit");
    *ret_files = files.rlim_cur;
    return cell_install(&filter, err);
}
