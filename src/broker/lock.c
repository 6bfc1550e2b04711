#include "broker/lock.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/caps.h"
#include "jail/landlock.h"

/* AddressSanitizer maps terabytes that it never uses. */
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
#error "the broker's system call filter does not know this machine"
#endif

/* One socket, memory, time, random numbers; and one line of complaint on stderr. */
static const uint32_t allowed[] = {
    __NR_recvmsg,       __NR_sendmsg,      __NR_write,        __NR_close,        __NR_munmap,
    __NR_mremap,        __NR_madvise,      __NR_brk,          __NR_futex,        __NR_getrandom,
    __NR_clock_gettime, __NR_gettimeofday, __NR_rt_sigreturn, __NR_rt_sigaction, __NR_rt_sigprocmask,
    __NR_sigaltstack,   __NR_getpid,       __NR_gettid,       __NR_sched_yield,  __NR_restart_syscall,
    __NR_exit,          __NR_exit_group,
#ifdef __NR_time
    __NR_time,
#endif
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RET(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define IF_EQ(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

/* mmap, mprotect: no code that was not there before. */
static const struct sock_filter arguments[] = {
    LOAD(arch),
    IF_EQ(THIS_ARCH, 1, 0),
    RET(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    IF_EQ(__NR_mmap, 1, 0),
    IF_EQ(__NR_mprotect, 0, 4),
    LOAD(args[2]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
    RET(SECCOMP_RET_ALLOW),
    RET(SECCOMP_RET_ERRNO | EPERM),
};

static int install(struct err *err) {
    struct sock_filter code[ARRAY_LEN(arguments) + ARRAY_LEN(allowed) + 2];
    size_t n = ARRAY_LEN(arguments), left = ARRAY_LEN(allowed);
    struct sock_fprog prog = {.filter = code};

    memcpy(code, arguments, sizeof arguments);
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++, left--)
        code[n++] = (struct sock_filter)IF_EQ(allowed[i], (uint8_t)left, 0);
    code[n++] = (struct sock_filter)RET(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
    prog.len = (unsigned short)n;
    static_assert(ARRAY_LEN(allowed) < UINT8_MAX, "a jump has eight bits");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
        return err_sys(err, -errno, "install the system call filter of bawn-broker");
    return 0;
}

static int become(uint32_t id) {
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    return setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ? -errno : 0;
}

/* In a user namespace with one id there is no other to take; outside it never was root. */
static int drop_ids(struct err *err) {
    int r = geteuid() != 0 ? 0 : become(BROKER_IDS_FIRST + (uint32_t)getpid());

    if (r == -EINVAL)
        r = become(BROKER_ID_PLAIN);
    return r == 0 || r == -EINVAL ? 0 : err_sys(err, r, "take an id of its own");
}

static int limit(struct err *err) {
    static const struct {
        __rlimit_resource_t what;
        rlim_t max;
    } limits[] = {
        {RLIMIT_AS, SANITIZED ? RLIM_INFINITY : (rlim_t)BROKER_MEMORY_MAX},
        {RLIMIT_NOFILE, BROKER_FILES_MAX},
        {RLIMIT_CORE, 0},
        {RLIMIT_NPROC, 0},
        {RLIMIT_FSIZE, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct rlimit now;

        if (getrlimit(limits[i].what, &now) < 0)
            return err_sys(err, -errno, "read a resource limit");
        now.rlim_cur = now.rlim_max = MIN_OF(now.rlim_max, limits[i].max);
        if (setrlimit(limits[i].what, &now) < 0)
            return err_sys(err, -errno, "set a resource limit");
    }
    return 0;
}

/* Where the kernel has no Landlock the filter alone keeps files away: nothing in it opens one. */
static int fence(struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .deny_tcp = true};
    int r = landlock_restrict(NULL, 0, &opts, err);

    return r == -EOPNOTSUPP ? 0 : r;
}

int broker_lock(struct err *err) {
    int r = caps_drop_bounding(err); /* while it still can */

    r = r < 0 ? r : drop_ids(err);
    r = r < 0 ? r : caps_drop_all(err);
    if (r < 0)
        return r;
    /* Another id makes the kernel forget the signal for the supervisor's death. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, -errno, "give up privileges");
    r = fence(err);
    r = r < 0 ? r : limit(err);
    return r < 0 ? r : install(err);
}
