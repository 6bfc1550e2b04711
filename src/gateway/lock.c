#include "gateway/lock.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/caps.h"
#include "jail/landlock.h"

/* AddressSanitizer maps terabytes that it never uses, and looks at /proc/self. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "the gate's system call filter does not know this machine"
#endif

/* What one loop over sockets takes. libc, libuv, c-ares and OpenSSL call others too, and live without them. */
static const uint32_t allowed[] = {
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
    __NR_munmap,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_futex,
    __NR_getrandom,
    __NR_clock_gettime,
    __NR_gettimeofday,
    __NR_clock_nanosleep,
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

#define LOAD_NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define RET(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define IF_EQ(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))
#define DENY RET(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW RET(SECCOMP_RET_ALLOW)

/* The calls whose arguments count, each with its own end. The kind of a socket has flags in its upper bits. */
static const struct sock_filter arguments[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
    IF_EQ(THIS_ARCH, 1, 0),
    RET(SECCOMP_RET_KILL_PROCESS),
    LOAD_NR,
    /* No program ever: this one has no reason to try. */
    IF_EQ(__NR_execve, 1, 0),
    IF_EQ(__NR_execveat, 0, 1),
    RET(SECCOMP_RET_KILL_PROCESS),
    /* socket: internet only, streams and datagrams only */
    IF_EQ(__NR_socket, 0, 9),
    LOAD_ARG(0),
    IF_EQ(AF_INET, 1, 0),
    IF_EQ(AF_INET6, 0, 5),
    LOAD_ARG(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    IF_EQ(SOCK_STREAM, 1, 0),
    IF_EQ(SOCK_DGRAM, 0, 1),
    ALLOW,
    DENY,
    /* mmap, mprotect: no code that was not there before */
    IF_EQ(__NR_mmap, 1, 0),
    IF_EQ(__NR_mprotect, 0, 4),
    LOAD_ARG(2),
    IF_ANY(PROT_EXEC, 1, 0),
    ALLOW,
    DENY,
    /* ioctl: non-blocking, bytes that can be read */
    IF_EQ(__NR_ioctl, 0, 5),
    LOAD_ARG(1),
    IF_EQ(FIONBIO, 1, 0),
    IF_EQ(FIONREAD, 0, 1),
    ALLOW,
    DENY,
};

static int filter_install(struct err *err) {
    struct sock_filter code[ARRAY_LEN(arguments) + ARRAY_LEN(allowed) + 2];
    size_t n = ARRAY_LEN(arguments), left = ARRAY_LEN(allowed);
    struct sock_fprog prog = {.filter = code};

    memcpy(code, arguments, sizeof arguments);
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++, left--)
        code[n++] = (struct sock_filter)IF_EQ(allowed[i], (uint8_t)left, 0);
    code[n++] = (struct sock_filter)DENY;
    code[n++] = (struct sock_filter)ALLOW;
    prog.len = (unsigned short)n;
    static_assert(ARRAY_LEN(allowed) < UINT8_MAX, "a jump has eight bits");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
        return err_sys(err, -errno, "install the system call filter of bawn-gate");
    return 0;
}

static int become(uint32_t id) {
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -errno;
    return 0;
}

/* Root's files and root's processes are none of its business. In a user namespace with one id there is no other one to take:
 * then the capabilities go, and outside it never was root. */
static int drop_ids(struct err *err) {
    int r;

    if (geteuid() != 0)
        return 0;
    r = become(GATE_IDS_FIRST + (uint32_t)getpid());
    if (r == -EINVAL)
        r = become(GATE_ID_PLAIN);
    return r == 0 || r == -EINVAL ? 0 : err_sys(err, r, "take an id of its own");
}

static int caps_none(struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return err_sys(err, -errno, "clear ambient capabilities");
    return syscall(SYS_capset, &head, none) < 0 ? err_sys(err, -errno, "drop capabilities") : 0;
}

static const struct {
    __rlimit_resource_t what;
    rlim_t max;
} limits[] = {
    {RLIMIT_AS, SANITIZED ? RLIM_INFINITY : (rlim_t)GATE_MEMORY_MAX},
    {RLIMIT_NOFILE, GATE_FILES_MAX},
    {RLIMIT_CORE, 0},
    {RLIMIT_NPROC, 0},
    {RLIMIT_FSIZE, 0},
};

static int limits_set(size_t *ret_files, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct rlimit now;

        if (getrlimit(limits[i].what, &now) < 0)
            return err_sys(err, -errno, "read a resource limit");
        now.rlim_cur = now.rlim_max = MIN_OF(now.rlim_max, limits[i].max);
        if (setrlimit(limits[i].what, &now) < 0)
            return err_sys(err, -errno, "set a resource limit");
        if (limits[i].what == RLIMIT_NOFILE)
            *ret_files = now.rlim_cur;
    }
    return 0;
}

/* Where the kernel has no Landlock the filter alone keeps files away: nothing in it opens one. */
static int fence(struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true};
    int r = landlock_restrict(NULL, 0, &opts, err);

    return r == -EOPNOTSUPP ? 0 : r;
}

int gate_lock(size_t *ret_files, struct err *err) {
    int r = caps_drop_bounding(err);

    r = r < 0 ? r : drop_ids(err);
    r = r < 0 ? r : caps_none(err);
    if (r < 0)
        return r;
    /* Another id makes the kernel forget the signal that the supervisor had chosen for its own death. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, -errno, "give up privileges");
    r = fence(err);
    r = r < 0 ? r : limits_set(ret_files, err);
    return r < 0 ? r : filter_install(err);
}
