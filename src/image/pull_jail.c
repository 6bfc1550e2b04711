/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, Landlock and system call filter of bawn-pull. */
#include "image/pull_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "image/image_layer.h"
#include "image/pull.h"
#include "jail/fence/cell.h"
#include "jail/fence/landlock.h"
#include "os/fd.h"

enum { FILES_MAX = 1024, PLAIN_ID = 65534 };
#define GIB (1ull << 30)

static const struct cell_limit limits[] = {
    CELL_MEMORY(4 * GIB),
    {RLIMIT_FSIZE, 64 * GIB, 64 * GIB},
    {RLIMIT_NOFILE, FILES_MAX, FILES_MAX},
    {RLIMIT_CORE, 0, 0},
};

/* Where the C library and OpenSSL look for names and authorities. */
static const char *const looked_up[] = {
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/localtime",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/nix/store",
    "/dev/urandom",
    "/dev/null",
};

static const uint32_t needed[] = {
    CELL_CALLS_OF_ITSELF,
    __NR_read,
    __NR_pread64,
    __NR_readv,
    __NR_write,
    __NR_pwrite64,
    __NR_writev,
    __NR_close,
    __NR_close_range,
    __NR_fstat,
    __NR_statx,
    __NR_newfstatat,
    __NR_statfs,
    __NR_fstatfs,
    __NR_lseek,
    __NR_openat,
    __NR_openat2,
    __NR_getdents64,
    __NR_readlinkat,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_copy_file_range,
    __NR_fchmod,
    __NR_mkdirat,
    __NR_mknodat,
    __NR_symlinkat,
    __NR_linkat,
    __NR_unlinkat,
    __NR_utimensat,
    __NR_fgetxattr,
    __NR_fsetxattr,
    __NR_flock,
    __NR_fsync,
    __NR_umask,
    __NR_fcntl,
    __NR_dup,
    __NR_dup3,
    __NR_fadvise64,
    __NR_mmap,
    __NR_mprotect,
    __NR_set_robust_list,
    __NR_rseq,
    __NR_prctl,
    __NR_clock_nanosleep,
    __NR_nanosleep,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
    __NR_sched_getaffinity,
    __NR_prlimit64,
    __NR_sysinfo,
    __NR_uname,
    __NR_pipe2,
    __NR_eventfd2,
    __NR_ppoll,
    __NR_tgkill,
#ifdef __NR_open
    __NR_open,
    __NR_access,
    __NR_poll,
    __NR_stat,
    __NR_readlink,
    __NR_unlink,
    __NR_time,
#endif
    __NR_faccessat,
    __NR_faccessat2,
    __NR_clone3,
};

static const uint32_t of_network[] = {
    __NR_connect,     __NR_sendto,     __NR_recvfrom,   __NR_sendmsg, __NR_sendmmsg, __NR_recvmsg,    __NR_getsockname,
    __NR_getpeername, __NR_setsockopt, __NR_getsockopt, __NR_bind,    __NR_ioctl,    __NR_socketpair,
};

/* Threads, no processes; of sockets those of the internet, and netlink, by which the C library asks for addresses. clone3() keeps its flags in
 * memory that a filter cannot read: it is answered with ENOSYS, and the C library takes clone(). */
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
static const struct sock_filter arguments[] = {
    CELL_BEGIN,
    CELL_IF_EQ(__NR_clone3, 0, 1),
    REFUSE(ENOSYS),
    CELL_IF_EQ(__NR_clone, 0, 4),
    CELL_LOAD(args[0]),
    CELL_IF_ANY(0x00010000 /* CLONE_THREAD */, 0, 1),
    CELL_ALLOW,
    CELL_DENY,
    CELL_IF_EQ(__NR_socket, 0, 6),
    CELL_LOAD(args[0]),
    CELL_IF_EQ(AF_INET, 3, 0),
    CELL_IF_EQ(AF_INET6, 2, 0),
    CELL_IF_EQ(AF_NETLINK, 1, 0),
    REFUSE(EAFNOSUPPORT),
    CELL_ALLOW,
};
/* Without a registry. */
static const struct sock_filter arguments_offline[] = {CELL_BEGIN};

static int pull_fence(bool network, struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .deny_tcp = !network};
    struct landlock_rule rules[ARRAY_LEN(looked_up) + 6] = {
        {.fd = PULL_FD_STAGING, .access = LANDLOCK_LAYERS},
        {.fd = PULL_FD_LAYERS, .access = LANDLOCK_READ},
        {.fd = PULL_FD_PARTIAL, .access = LANDLOCK_WRITE},
    };
    struct stat st;
    size_t n = 3;
    int r;

    if (!network && fstat(PULL_FD_SOURCE, &st) == 0 && !S_ISFIFO(st.st_mode)) /* a pipe is no place */
        rules[n++] = (struct landlock_rule){.fd = PULL_FD_SOURCE, .access = LANDLOCK_READ};
    for (size_t i = 0; network && i < ARRAY_LEN(looked_up); i++)
        rules[n++] = (struct landlock_rule){.path = looked_up[i], .access = LANDLOCK_READ, .optional = true};
    if (network && getenv("SSL_CERT_FILE"))
        rules[n++] = (struct landlock_rule){.path = getenv("SSL_CERT_FILE"), .access = LANDLOCK_READ, .optional = true};
    r = landlock_restrict(rules, n, &opts, err);
    return r == -EOPNOTSUPP ? 0 : r;
}

int pull_lock(bool network, struct err *err) {
    uint32_t calls[ARRAY_LEN(needed) + ARRAY_LEN(of_network)];
    struct cell_filter filter = {.program = "bawn-pull",
                                 .arguments = network ? arguments : arguments_offline,
                                 .n_arguments = network ? ARRAY_LEN(arguments) : ARRAY_LEN(arguments_offline),
                                 .calls = calls,
                                 .n_calls = ARRAY_LEN(needed)};
    int r = fd_close_from(PULL_FDS);

    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    memcpy(calls, needed, sizeof needed);
    memcpy(calls + ARRAY_LEN(needed), of_network, sizeof of_network);
    filter.n_calls += network ? ARRAY_LEN(of_network) : 0;
    r = cell_drop(IMAGE_ID - (uint32_t)getpid(), PLAIN_ID, err); /* one id for all pulls: they share a store */
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    r = r < 0 ? r : pull_fence(network, err);
    return r < 0 ? r : cell_install(&filter, err);
}
