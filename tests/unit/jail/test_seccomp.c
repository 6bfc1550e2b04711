/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated tables are evaluated in three ways: by a small interpreter, for every architecture, against cases written
 * down here and against the whole policy; by the kernel, in children that make the refused calls; and by real programs,
 * which have to work.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SECCOMP_TABLES_ALL
#include "base/err.h"
#include "jail/fence/seccomp.h"
#include "jail/fence/seccomp_policy.h"
#include "jail/seccomp_tables.h"
#include "unit/jail/bpf.h"

struct table {
    const char *name;
    uint32_t scmp_arch, audit_arch;
    unsigned bit;
    const struct sock_filter *code;
    size_t n;
};

#define TABLE(name, arch, audit, bit) \
    { #name, arch, audit, bit, seccomp_##name, ARRAY_LEN(seccomp_##name) }
static const struct table tables[] = {
    TABLE(yard_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_YARD),
    TABLE(bare_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_BARE),
    TABLE(net_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_NET),
    TABLE(guard_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_GUARD),
    TABLE(shared_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_SHARED),
    TABLE(shared_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_SHARED),
    TABLE(net_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_NET),
    TABLE(guard_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_GUARD),
    TABLE(yard_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_YARD),
    TABLE(bare_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_BARE),
    TABLE(nested_x86_64, SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, IN_NESTED),
    TABLE(nested_aarch64, SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, IN_NESTED),
};

static uint32_t ask(const struct table *t, uint32_t arch, int nr, const uint64_t args[6]) {
    struct seccomp_data data = {.nr = nr, .arch = arch};

    memcpy(data.args, args, sizeof data.args);
    return bpf_run(t->name, t->code, t->n, &data);
}

static const uint64_t no_args[6];
#define HIGH (1ULL << 40) /* the kernel ignores it in 32-bit arguments */
#define PERM REFUSE(EPERM)
#define NOSYS REFUSE(ENOSYS)
#define NOTTY REFUSE(ENOTTY)
#define NOFAMILY REFUSE(EAFNOSUPPORT)
#define ACCES REFUSE(EACCES)

/* Refused calls are also made for real, by an unprivileged child: the arguments must do no harm if the kernel takes them. */
static const struct call {
    const char *name;
    uint64_t args[6];
    uint32_t yard, bare;
} calls[] = {
    {"read", {0}, ALLOW, ALLOW},
    {"openat", {0, 0, O_RDONLY, 07777}, ALLOW, ALLOW},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 0644}, ALLOW, ALLOW},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 04755}, PERM, PERM},
    {"openat", {0, 0, O_TMPFILE | O_WRONLY, 02755}, PERM, PERM},
    {"openat", {0, 0, HIGH | O_CREAT | O_WRONLY, HIGH | 04755}, PERM, PERM},
    {"open", {0, O_CREAT | O_WRONLY, 04755}, PERM, PERM},
    {"open", {0, O_RDONLY, 04755}, ALLOW, ALLOW},
    {"creat", {0, 02755}, PERM, PERM},
    {"creat", {0, 0755}, ALLOW, ALLOW},
    {"openat2", {0}, NOSYS, NOSYS},
    {"chmod", {0, 0755}, ALLOW, ALLOW},
    {"chmod", {0, 04755}, PERM, PERM},
    {"chmod", {0, 02755}, PERM, PERM},
    {"fchmod", {999, 06755}, PERM, PERM},
    {"fchmodat", {0, 0, 04700}, PERM, PERM},
    {"fchmodat", {0, 0, 01777}, ALLOW, ALLOW},
    {"mknodat", {0, 0, S_IFIFO | 0600}, ALLOW, ALLOW},
    {"mknodat", {0, 0, S_IFSOCK | 0600}, ALLOW, ALLOW},
    {"mknodat", {0, 0, 0600}, ALLOW, ALLOW},
    {"mknodat", {0, 0, S_IFREG | 04755}, PERM, PERM},
    {"mknodat", {0, 0, S_IFCHR | 0600}, PERM, PERM},
    {"mknodat", {0, 0, S_IFBLK | 0600}, PERM, PERM},
    {"mknod", {0, S_IFCHR | 0600}, PERM, PERM},
    {"mknod", {0, S_IFIFO | 0600}, ALLOW, ALLOW},
    {"fcntl", {999, F_GETFL}, ALLOW, ALLOW},
    {"fcntl", {999, F_OFD_SETLK}, ALLOW, ALLOW},
    {"fcntl", {999, F_SETLEASE}, REFUSE(EINVAL), REFUSE(EINVAL)},
    {"fcntl", {999, HIGH | F_NOTIFY}, REFUSE(EINVAL), REFUSE(EINVAL)},
    {"io_setup", {1, 0}, NOSYS, NOSYS},
    {"renameat2", {0, 0, 0, 0, 1}, ALLOW, ALLOW},
    {"renameat2", {0, 0, 0, 0, 2}, ALLOW, ALLOW},
    {"renameat2", {0, 0, 0, 0, 4}, REFUSE(EINVAL), REFUSE(EINVAL)}, /* RENAME_WHITEOUT */
    {"renameat2", {0, 0, 0, 0, HIGH | 5}, REFUSE(EINVAL), REFUSE(EINVAL)},
    {"clone", {SIGCHLD}, ALLOW, ALLOW},
    {"clone", {0x3d0f00}, ALLOW, ALLOW}, /* a thread */
    {"clone", {SIGCHLD | 0x10000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x00020000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x02000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x04000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x08000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x20000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x40000000}, PERM, PERM},
    {"clone", {HIGH | SIGCHLD | 0x50000000}, PERM, PERM},
    {"clone3", {0}, NOSYS, NOSYS},
    {"unshare", {0x10000000}, PERM, PERM},
    {"setns", {999, 0}, PERM, PERM},
    {"mount", {0}, PERM, PERM},
    {"umount2", {0}, PERM, PERM},
    {"open_tree", {0}, PERM, PERM},
    {"move_mount", {0}, PERM, PERM},
    {"fsopen", {0}, PERM, PERM},
    {"fsconfig", {999}, PERM, PERM},
    {"fsmount", {999}, PERM, PERM},
    {"fspick", {0}, PERM, PERM},
    {"mount_setattr", {999}, PERM, PERM},
    {"pivot_root", {0}, PERM, PERM},
    {"chroot", {0}, PERM, PERM},
    {"bpf", {0}, PERM, PERM},
    {"perf_event_open", {0}, PERM, PERM},
    {"io_uring_setup", {0}, PERM, PERM},
    {"io_uring_enter", {999}, PERM, PERM},
    {"io_uring_register", {999}, PERM, PERM},
    {"userfaultfd", {1 << 30}, PERM, PERM},
    {"keyctl", {999}, PERM, PERM},
    {"add_key", {0}, PERM, PERM},
    {"request_key", {0}, PERM, PERM},
    {"kexec_load", {0, 999, 0, 999}, PERM, PERM},
    {"kexec_file_load", {999, 999, 0, 0, 999}, PERM, PERM},
    {"init_module", {0}, PERM, PERM},
    {"finit_module", {999}, PERM, PERM},
    {"delete_module", {0}, PERM, PERM},
    {"open_by_handle_at", {999}, PERM, PERM},
    {"fanotify_init", {1 << 30}, PERM, PERM},
    {"modify_ldt", {999}, PERM, PERM},
    {"quotactl", {0}, PERM, PERM},
    {"swapon", {0}, PERM, PERM},
    {"swapoff", {0}, PERM, PERM},
    {"reboot", {0}, PERM, PERM},
    {"syslog", {999}, PERM, PERM},
    {"acct", {1}, PERM, PERM},
    {"settimeofday", {1, 1}, PERM, PERM},
    {"clock_settime", {999}, PERM, PERM},
    {"adjtimex", {0}, PERM, PERM},
    {"iopl", {999}, PERM, PERM},
    {"ioperm", {1 << 30}, PERM, PERM},
    {"vhangup", {0}, PERM, PERM},
    {"move_pages", {0}, PERM, PERM},
    {"migrate_pages", {0}, PERM, PERM},
    {"sethostname", {0, 1 << 30}, PERM, PERM},
    {"ioctl", {999, 0x5401}, ALLOW, ALLOW}, /* TCGETS */
    {"ioctl", {999, 0x5412}, PERM, PERM},
    {"ioctl", {999, HIGH | 0x5412}, PERM, PERM},
    {"ioctl", {999, HIGH | 0x541c}, PERM, PERM},
    {"ioctl", {999, 0x5423}, PERM, PERM},
    {"ioctl", {999, 0x40049409}, ALLOW, ALLOW}, /* FICLONE */
    {"ioctl", {999, 0x80086601}, ALLOW, ALLOW}, /* FS_IOC_GETFLAGS */
    {"ioctl", {999, HIGH | 0x541b}, ALLOW, ALLOW},
    {"ioctl", {999, 0}, NOTTY, NOTTY},
    {"ioctl", {999, UINT32_MAX}, NOTTY, NOTTY},
    {"ioctl", {999, 0x40086602}, NOTTY, NOTTY},        /* FS_IOC_SETFLAGS */
    {"ioctl", {999, HIGH | 0x5000940e}, NOTTY, NOTTY}, /* BTRFS_IOC_SUBVOL_CREATE */
    {"ioctl", {999, 0x50009417}, NOTTY, NOTTY},        /* BTRFS_IOC_SNAP_CREATE_V2 */
    {"ioctl", {999, 0x5000940f}, NOTTY, NOTTY},        /* BTRFS_IOC_SNAP_DESTROY */
    {"ioctl", {999, 0xd0009411}, NOTTY, NOTTY},        /* BTRFS_IOC_TREE_SEARCH */
    {"ioctl", {999, 0xc038586b}, NOTTY, NOTTY},        /* XFS_IOC_OPEN_BY_HANDLE */
    {"ioctl", {999, 0xc0c0583b}, NOTTY, NOTTY},        /* FS_IOC_GETFSMAP */
    {"ioctl", {999, 0xc028660f}, NOTTY, NOTTY},        /* EXT4_IOC_MOVE_EXT */
    {"personality", {0xffffffff}, ALLOW, ALLOW},
    {"personality", {0x0040000}, ALLOW, ALLOW},
    {"personality", {0x0400000}, PERM, PERM}, /* READ_IMPLIES_EXEC */
    {"personality", {0x0440000}, PERM, PERM},
    {"ptrace", {0}, ALLOW, ALLOW},
    {"process_vm_readv", {0}, ALLOW, ALLOW},
    {"seccomp", {0}, ALLOW, ALLOW},
    {"landlock_create_ruleset", {0}, ALLOW, ALLOW},
    {"socket", {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW, ACCES},
    {"socket", {AF_UNIX, SOCK_DGRAM}, ALLOW, ACCES},
    {"socket", {AF_INET, SOCK_STREAM}, ALLOW, ACCES},
    {"socket", {AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 17}, ALLOW, ACCES},
    {"socket", {AF_INET, SOCK_STREAM, 262}, ALLOW, ACCES},
    {"socket", {AF_INET, SOCK_STREAM, 132}, REFUSE(EPROTONOSUPPORT), ACCES},
    {"socket", {AF_INET, SOCK_SEQPACKET}, REFUSE(ESOCKTNOSUPPORT), ACCES},
    {"socket", {AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1}, PERM, ACCES},
    {"socket", {AF_INET6, SOCK_RAW, 58}, PERM, ACCES},
    {"socket", {AF_INET, SOCK_PACKET}, PERM, ACCES},
    {"socket", {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW, ACCES},
    {"socket", {AF_NETLINK, SOCK_RAW, 12}, REFUSE(EPROTONOSUPPORT), ACCES}, /* NETLINK_NETFILTER */
    {"socket", {AF_PACKET, SOCK_RAW}, NOFAMILY, ACCES},
    {"socket", {AF_VSOCK, SOCK_STREAM}, NOFAMILY, ACCES},
    {"socket", {AF_ALG, SOCK_SEQPACKET}, NOFAMILY, ACCES},
    {"socket", {AF_BLUETOOTH, SOCK_RAW}, NOFAMILY, ACCES},
    {"socket", {AF_XDP, SOCK_RAW}, NOFAMILY, ACCES},
    {"socket", {HIGH | AF_VSOCK, SOCK_STREAM}, NOFAMILY, ACCES},
    {"socketpair", {AF_UNIX, SOCK_STREAM}, ALLOW, ALLOW},
    {"socketpair", {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}, ALLOW, ALLOW},
    {"socketpair", {AF_UNIX, SOCK_DGRAM}, ALLOW, ACCES},
    {"socketpair", {AF_UNIX, SOCK_RAW}, ALLOW, ACCES},
    {"socketpair", {AF_INET, SOCK_STREAM}, NOFAMILY, NOFAMILY},
    {"connect", {999}, ALLOW, ACCES},
    {"bind", {999}, ALLOW, ACCES},
    {"listen", {999}, ALLOW, ACCES},
    {"accept4", {999}, ALLOW, ACCES},
    {"shmget", {0, 0}, ALLOW, NOSYS},
    {"msgget", {0, 0}, ALLOW, NOSYS},
    {"mq_open", {0}, ALLOW, NOSYS},
    {"prlimit64", {0, RLIMIT_CORE}, ALLOW, ALLOW},
    {"prlimit64", {1, RLIMIT_CORE}, ALLOW, PERM},
    {"prlimit64", {1, RLIMIT_CORE, 4096}, PERM, PERM},
    {"prlimit64", {1, RLIMIT_CORE, HIGH}, PERM, PERM}, /* no null pointer, though its lower half is 0 */
    {"prlimit64", {4711, RLIMIT_CORE, 4096}, PERM, PERM},
    {"prlimit64", {HIGH, RLIMIT_CORE, 4096}, ALLOW, ALLOW},
    {"setpriority", {PRIO_PROCESS, 0, 5}, ALLOW, ALLOW},
    {"setpriority", {PRIO_PROCESS, 4711, 5}, ALLOW, PERM},
    {"setpriority", {PRIO_PROCESS, 1, 5}, PERM, PERM},
    {"setpriority", {PRIO_PGRP, HIGH | 1, 5}, PERM, PERM},
    {"setpriority", {PRIO_USER, 0, 5}, PERM, PERM},
    {"ioprio_set", {1, 4711, 0}, ALLOW, PERM},
    {"ioprio_set", {1, 1, 0}, PERM, PERM},
    {"ioprio_set", {3, 0, 0}, PERM, PERM},
    {"sched_setaffinity", {4711}, ALLOW, PERM},
    {"sched_setaffinity", {1}, PERM, PERM},
    {"sched_setscheduler", {1}, PERM, PERM},
};

/* Where the filter for an engine inside answers otherwise than that of the yard. */
static const struct call nested_calls[] = {
    {"mount", {0}, ALLOW, ALLOW},
    {"umount2", {0}, ALLOW, ALLOW},
    {"pivot_root", {0}, ALLOW, ALLOW},
    {"chroot", {0}, ALLOW, ALLOW},
    {"setns", {999, 0}, ALLOW, ALLOW},
    {"sethostname", {0}, ALLOW, ALLOW},
    {"setdomainname", {0}, ALLOW, ALLOW},
    {"unshare", {0x10000000}, ALLOW, ALLOW},
    {"unshare", {0x2c020000}, ALLOW, ALLOW},
    {"unshare", {0x40000000}, PERM, PERM}, /* NEWNET */
    {"unshare", {0x02000000}, PERM, PERM}, /* NEWCGROUP */
    {"unshare", {0x00000080}, PERM, PERM}, /* NEWTIME */
    {"unshare", {HIGH | 0x50020000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x10000000}, ALLOW, ALLOW},
    {"clone", {SIGCHLD | 0x2c020000}, ALLOW, ALLOW},
    {"clone", {SIGCHLD | 0x40000000}, PERM, PERM},
    {"clone", {SIGCHLD | 0x52020000}, PERM, PERM},
    {"clone", {HIGH | SIGCHLD | 0x50000000}, PERM, PERM},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 04755}, ALLOW, ALLOW},
    {"chmod", {0, 04755}, ALLOW, ALLOW},
    {"open_tree", {0}, PERM, PERM},
    {"move_mount", {0}, PERM, PERM},
    {"fsopen", {0}, PERM, PERM},
    {"fsconfig", {0}, PERM, PERM},
    {"mount_setattr", {0}, PERM, PERM},
    {"mknodat", {0, 0, S_IFCHR | 0600}, PERM, PERM},
    {"bpf", {0}, PERM, PERM},
    {"keyctl", {0}, PERM, PERM},
    {"io_uring_setup", {0}, PERM, PERM},
    {"clone3", {0}, NOSYS, NOSYS},
};

/* In no other way than these: a name that is not among them is answered as in the yard. */
static bool nested_differs(const char *name) {
    for (size_t c = 0; c < ARRAY_LEN(nested_calls); c++)
        if (strcmp(nested_calls[c].name, name) == 0)
            return true;
    return strcmp(name, "open") == 0 || strcmp(name, "creat") == 0 || strcmp(name, "fchmod") == 0 ||
           strcmp(name, "fchmodat") == 0;
}

static void an_engine_inside_gets_what_it_needs(void **state) {
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t c = 0; tables[t].bit == IN_NESTED && c < ARRAY_LEN(nested_calls); c++) {
            int nr = seccomp_syscall_resolve_name_arch(tables[t].scmp_arch, nested_calls[c].name);

            if (nr >= 0 && ask(&tables[t], tables[t].audit_arch, nr, nested_calls[c].args) != nested_calls[c].yard)
                fail_msg("%s: %s (case %zu) is not 0x%x", tables[t].name, nested_calls[c].name, c, nested_calls[c].yard);
        }
}

/* What is not as in the bare filter where the guard makes the sockets. */
static const struct net_call {
    const char *name;
    uint64_t args[6];
    uint32_t net, guard;
} net_calls[] = {
    {"socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, ALLOW, ALLOW},
    {"socket", {AF_INET6, SOCK_STREAM, 6}, ALLOW, ALLOW},
    {"socket", {AF_UNIX, SOCK_SEQPACKET, 0}, ALLOW, ALLOW},
    {"socket", {AF_INET, SOCK_DGRAM, 0}, ALLOW, ALLOW},
    {"socket", {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 17}, ALLOW, ALLOW},
    {"socket", {AF_INET, SOCK_DGRAM, 1}, ACCES, ALLOW},
    {"socket", {AF_INET, SOCK_DGRAM, 136}, ACCES, ALLOW},
    {"socket", {AF_UNIX, SOCK_DGRAM, 0}, ACCES, ALLOW},
    {"socket", {AF_INET, SOCK_STREAM, 262}, REFUSE(EPROTONOSUPPORT), ALLOW},
    {"socket", {AF_INET, SOCK_RAW, 6}, PERM, ALLOW},
    {"socket", {HIGH | AF_NETLINK, SOCK_RAW, 0}, NOFAMILY, ALLOW},
    {"socket", {40, SOCK_STREAM, 0}, NOFAMILY, ALLOW},
    {"sendto", {0, 0, 0, 0x4000}, ALLOW, ALLOW},
    {"sendto", {0, 0, 0, HIGH | 0x20000000}, REFUSE(EOPNOTSUPP), ALLOW},
    {"sendmsg", {0, 0, 0x20004000}, REFUSE(EOPNOTSUPP), ALLOW},
    {"sendmmsg", {0, 0, 0, 0x20000000}, REFUSE(EOPNOTSUPP), ALLOW},
    {"setsockopt", {0, 6, 1}, ALLOW, ALLOW},
    {"setsockopt", {0, 1, 25}, PERM, ALLOW},
    {"setsockopt", {0, HIGH | 1, HIGH | 26}, PERM, ALLOW},
    {"setsockopt", {0, 6, 14}, PERM, ALLOW},
    {"setsockopt", {0, 6, 30}, REFUSE(ENOPROTOOPT), ALLOW},
    {"setsockopt", {0, 6, 32}, REFUSE(ENOPROTOOPT), ALLOW},
    {"setsockopt", {0, 0, 19}, REFUSE(ENOPROTOOPT), ALLOW},
    {"setsockopt", {0, 1, 15}, REFUSE(0), ALLOW},
    {"socketpair", {AF_UNIX, SOCK_DGRAM}, ACCES, ACCES},
    {"io_uring_setup", {8, 0}, PERM, PERM},
};

static const struct net_call *find_net_call(const struct call *c) {
    for (size_t i = 0; i < ARRAY_LEN(net_calls); i++)
        if (strcmp(net_calls[i].name, c->name) == 0)
            return &net_calls[i];
    return NULL;
}

static void sockets_by_the_guard(void **state UNUSED) {
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t c = 0; tables[t].bit & (IN_SOCKETS | IN_GUARD) && c < ARRAY_LEN(net_calls); c++) {
            int nr = seccomp_syscall_resolve_name_arch(tables[t].scmp_arch, net_calls[c].name);
            uint32_t want = tables[t].bit == IN_GUARD ? net_calls[c].guard : net_calls[c].net;

            if (nr >= 0 && ask(&tables[t], tables[t].audit_arch, nr, net_calls[c].args) != want)
                fail_msg("%s: %s (case %zu) is not 0x%x", tables[t].name, net_calls[c].name, c, want);
        }
}

static bool is_about_sockets(const char *name) {
    return strcmp(name, "bind") == 0 || strcmp(name, "connect") == 0 || strcmp(name, "listen") == 0 ||
           strncmp(name, "accept", 6) == 0;
}

static void decides_as_written_on_every_architecture(void **state) {
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t c = 0; c < ARRAY_LEN(calls); c++) {
            int nr = seccomp_syscall_resolve_name_arch(tables[t].scmp_arch, calls[c].name);
            uint32_t want = tables[t].bit & IN_EVERY_BARE ? calls[c].bare : calls[c].yard;

            if (tables[t].bit == IN_NESTED && nested_differs(calls[c].name))
                continue;
            if (tables[t].bit & (IN_SOCKETS | IN_GUARD) && (find_net_call(&calls[c]) || is_about_sockets(calls[c].name)))
                continue;
            assert_int_not_equal(nr, __NR_SCMP_ERROR);
            if (nr >= 0 && ask(&tables[t], tables[t].audit_arch, nr, calls[c].args) != want)
                fail_msg("%s: %s (case %zu) is not 0x%x", tables[t].name, calls[c].name, c, want);
        }
}

static const struct policy_values *values_of(const struct policy_check *check) {
    for (size_t i = 0; i < ARRAY_LEN(policy_values); i++)
        if (strcmp(policy_values[i].name, check->names) == 0)
            return &policy_values[i];
    return NULL;
}

/* The policy, read as its header says. */
static uint32_t expected(const struct policy_check *check, const uint64_t args[6]) {
    const struct policy_values *values = values_of(check);

    for (size_t i = 0; values && i < values->n; i++)
        if ((uint32_t)args[values->arg] == values->v[i])
            return ALLOW;
    for (size_t r = 0; r < POLICY_RULES_MAX; r++) {
        bool holds = true;

        for (size_t i = 0; i < POLICY_TESTS_MAX && check->rules[r].when[i].op != OP_NONE; i++) {
            const struct policy_test *t = &check->rules[r].when[i];
            uint64_t arg = args[t->arg & ~(unsigned)UPPER_HALF];

            holds = holds && (((uint32_t)(t->arg & UPPER_HALF ? arg >> 32 : arg) & t->mask) == t->value) == (t->op == OP_EQ);
        }
        if (holds)
            return check->rules[r].action;
    }
    fail_msg("%s: no rule holds", check->names);
    return 0;
}

static void compare_check(const struct table *t, const struct policy_check *check, const char *name) {
    /* clang-format off */
    static const uint64_t corners[] = {0, 1, 2, 3, 5, 6, 8, 10, 16, 17, 40, 0x5401, 0x5412, 0x541c, 0x5423, 0100, 0644, 02755,
                                       04755, 010600, 020600, 0100644, 0140600, 020000000, 0x40000, 0x10000011, UINT32_MAX,
                                       HIGH, HIGH | 1, HIGH | 3, HIGH | 0x5412, HIGH | 04755, HIGH | 0x10000000, UINT64_MAX};
    /* clang-format on */
    int nr = seccomp_syscall_resolve_name_arch(t->scmp_arch, name);

    for (size_t i = 0; nr >= 0 && i < ARRAY_LEN(corners) * ARRAY_LEN(corners) * ARRAY_LEN(corners); i++) {
        uint64_t x = corners[i % ARRAY_LEN(corners)], y = corners[i / ARRAY_LEN(corners) % ARRAY_LEN(corners)];
        uint64_t z = corners[i / ARRAY_LEN(corners) / ARRAY_LEN(corners)], args[6] = {x, y, z, x};

        if (ask(t, t->audit_arch, nr, args) != expected(check, args))
            fail_msg("%s: %s differs from the policy", t->name, name);
    }
}

/* Each listed value, and its neighbours on both sides, with and without the half that the kernel ignores. */
static void compare_values(const struct table *t, const struct policy_check *check, const char *name) {
    const struct policy_values *values = values_of(check);
    int nr = seccomp_syscall_resolve_name_arch(t->scmp_arch, name);

    for (size_t i = 0; nr >= 0 && values && i < 6 * values->n; i++) {
        uint64_t value = (uint32_t)(values->v[i / 6] + i % 3 - 1) | (i / 3 % 2 ? HIGH : 0), args[6] = {0};

        args[values->arg] = value;
        if (ask(t, t->audit_arch, nr, args) != expected(check, args))
            fail_msg("%s: %s with 0x%llx differs from the policy", t->name, name, (unsigned long long)value);
    }
}

/* Copies the next word of *names; false at the end. */
static bool next_name(const char **names, char word[static 64]) {
    int used;

    if (sscanf(*names, " %63s%n", word, &used) != 1)
        return false;
    *names += used;
    return true;
}

static void every_line_of_the_policy_is_in_the_tables(void **state) {
    char name[64];

    (void)state;
    for (const struct table *t = tables; t < tables + ARRAY_LEN(tables); t++) {
        for (size_t l = 0; l < ARRAY_LEN(policy_lists); l++)
            for (const char *names = policy_lists[l].names; next_name(&names, name);) {
                int nr = seccomp_syscall_resolve_name_arch(t->scmp_arch, name);

                if (nr >= 0 && policy_lists[l].variants & t->bit)
                    assert_int_equal(ask(t, t->audit_arch, nr, no_args), policy_lists[l].action);
            }
        for (size_t c = 0; c < ARRAY_LEN(policy_checks); c++)
            for (const char *names = policy_checks[c].names; next_name(&names, name);)
                if (policy_checks[c].variants & t->bit) {
                    compare_check(t, &policy_checks[c], name);
                    compare_values(t, &policy_checks[c], name);
                }
    }
}

static bool has_name(const char *names, const char *name) {
    char word[64];

    while (next_name(&names, word))
        if (strcmp(word, name) == 0)
            return true;
    return false;
}

static bool listed(unsigned bit, const char *name) {
    for (size_t l = 0; l < ARRAY_LEN(policy_lists); l++)
        if (policy_lists[l].variants & bit && has_name(policy_lists[l].names, name))
            return true;
    for (size_t c = 0; c < ARRAY_LEN(policy_checks); c++)
        if (policy_checks[c].variants & bit && has_name(policy_checks[c].names, name))
            return true;
    return false;
}

static void everything_else_does_not_exist(void **state) {
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (int nr = 0; nr < 2000; nr++) {
            char *name = seccomp_syscall_resolve_num_arch(tables[t].scmp_arch, nr);

            if (!name || !listed(tables[t].bit, name))
                assert_int_equal(ask(&tables[t], tables[t].audit_arch, nr, no_args), NOSYS);
            free(name);
        }
}

static void other_abis_are_killed_in_the_tables(void **state) {
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        assert_int_equal(ask(&tables[t], AUDIT_ARCH_I386, 20, no_args), SECCOMP_RET_KILL_PROCESS);
        assert_int_equal(ask(&tables[t], AUDIT_ARCH_ARM, 20, no_args), SECCOMP_RET_KILL_PROCESS);
        assert_int_equal(ask(&tables[t], tables[t].audit_arch, -1, no_args), NOSYS); /* skipped by a tracer */
        if (tables[t].scmp_arch == SCMP_ARCH_X86_64)
            for (int nr = 0; nr < 600; nr++)
                assert_int_equal(ask(&tables[t], AUDIT_ARCH_X86_64, 0x40000000 | nr, no_args), SECCOMP_RET_KILL_PROCESS);
    }
}

static void filter_self(enum seccomp_variant v) {
    struct rlimit no_core = {0, 0};
    struct err err;

    setrlimit(RLIMIT_CORE, &no_core);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_install(v, &err) < 0)
        _exit(99);
}

/* As nobody, so that a hole in the filter meets an unprivileged caller. */
static void become_nobody(void) {
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
        _exit(98);
}

static int wait_for(pid_t pid) {
    int status;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* The errno of one raw system call made under the filter, 0 for success. */
static int errno_under(enum seccomp_variant v, long nr, const uint64_t a[6]) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        become_nobody();
        filter_self(v);
        _exit(syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0);
    }
    status = wait_for(pid);
    if (!WIFEXITED(status))
        fail_msg("system call %ld ended the child with status 0x%x", nr, status);
    return WEXITSTATUS(status);
}

static void the_kernel_refuses_them(void **state) {
    static const enum seccomp_variant both[] = {SECCOMP_YARD, SECCOMP_BARE};

    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(both); v++)
        for (size_t c = 0; c < ARRAY_LEN(calls); c++) {
            int got, nr = seccomp_syscall_resolve_name(calls[c].name);
            uint32_t want = both[v] == SECCOMP_YARD ? calls[c].yard : calls[c].bare;

            if (nr < 0 || want == ALLOW)
                continue;
            got = errno_under(both[v], nr, calls[c].args);
            if (got != (int)(want & SECCOMP_RET_DATA))
                fail_msg("%s (case %zu): %s", calls[c].name, c, strerror(got));
        }
}

static void the_kernel_allows_work(void **state) {
    (void)state;
    for (int v = 0; v < SECCOMP_VARIANTS; v++) {
        assert_int_equal(errno_under(v, SYS_getpid, no_args), 0);
        assert_int_equal(errno_under(v, SYS_socketpair, (uint64_t[6]){AF_UNIX, SOCK_STREAM, 0, 1}), EFAULT);
        assert_int_equal(errno_under(v, SYS_personality, (uint64_t[6]){0x0040000}), 0);
        assert_int_equal(errno_under(v, SYS_prlimit64, (uint64_t[6]){0, RLIMIT_CORE}), 0);
        assert_int_equal(errno_under(v, 1999, no_args), ENOSYS);
    }
    assert_int_equal(errno_under(SECCOMP_YARD, SYS_socket, (uint64_t[6]){AF_UNIX, SOCK_STREAM}), 0);
    assert_int_equal(errno_under(SECCOMP_YARD, SYS_socket, (uint64_t[6]){AF_NETLINK, SOCK_RAW}), 0);
}

#ifdef __x86_64__
static long call_i386(void) {
    long r;

    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
    return r;
}

static long call_x32(void) {
    return syscall(0x40000000 | SYS_getpid);
}

static int status_of(long (*call)(void), bool filtered) {
    pid_t pid = fork();

    if (pid == 0) {
        if (filtered)
            filter_self(SECCOMP_YARD);
        call();
        _exit(0);
    }
    return wait_for(pid);
}

static void other_abis_are_killed_by_the_kernel(void **state) {
    int status = status_of(call_x32, true);

    (void)state;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    if (!WIFEXITED(status_of(call_i386, false))) {
        print_message("this kernel has no i386 ABI\n");
        return;
    }
    status = status_of(call_i386, true);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}
#endif

static void needs_no_new_privs(void **state) {
    pid_t pid = fork();
    struct err err;

    (void)state;
    if (pid == 0) {
        become_nobody();
        _exit(seccomp_install(SECCOMP_YARD, &err) == -EACCES && strstr(err.msg, "filter") ? 0 : 1);
    }
    assert_int_equal(wait_for(pid), 0);
}

/* The result of seccomp_install, made positive, on a kernel that lacks seccomp(2) and perhaps filters altogether. */
static int install_without(bool also_prctl) {
    scmp_filter_ctx ctx;
    struct err err;
    int r;
    pid_t pid = fork();

    if (pid == 0) {
        ctx = seccomp_init(SCMP_ACT_ALLOW);
        seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(seccomp), 0);
        if (also_prctl)
            seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, PR_SET_SECCOMP));
        if (seccomp_load(ctx) < 0)
            _exit(99);
        r = seccomp_install(SECCOMP_YARD, &err);
        _exit(r == 0 && syscall(SYS_keyctl, 999) < 0 && errno != EPERM ? 97 : -r);
    }
    return WEXITSTATUS(wait_for(pid));
}

static void falls_back_to_prctl_and_then_refuses(void **state) {
    (void)state;
    assert_int_equal(install_without(false), 0);
    assert_int_equal(install_without(true), EOPNOTSUPP);
}

static const struct work {
    unsigned variants;
    const char *program, *script;
} works[] = {
    {IN_ALL, "sh", "mkfifo f && (echo hi >f &) && read x <f && test $x = hi && nice -n 3 true && ulimit -c 0"},
    {IN_ALL, "gcc", "printf '#include <stdio.h>\\nint main(void){return puts(\"x\")<0;}' >a.c && gcc -O1 -pipe a.c -o a && ./a"},
    {IN_ALL, "clang", "echo 'int main(void){return 0;}' >b.c && clang b.c -o b && ./b"},
    {IN_ALL, "make", "printf 'all: a b c\\na b c:\\n\\techo $@ >$@.out\\n' >Makefile && make -j3 && test -s c.out"},
    {IN_ALL, "cmake", "echo 'project(x C)' >CMakeLists.txt && cmake -S . -B build && cmake --build build"},
    {IN_ALL, "python3",
     "python3 -c 'import subprocess, tempfile, threading, multiprocessing as m\n"
     "t = threading.Thread(target=print); t.start(); t.join(); m.Queue()\n"
     "with m.Pool(2) as p: assert p.map(abs, [-1]) == [1]\n"
     "subprocess.check_call([\"true\"])'"},
    {IN_YARD, "python3",
     "python3 -c 'import socket, threading; socket.if_nameindex()\n"
     "for f, a in ((socket.AF_UNIX, \"s\"), (socket.AF_INET, (\"127.0.0.1\", 0))):\n"
     " l = socket.socket(f); l.bind(a); l.listen(); c = socket.socket(f); c.connect(l.getsockname())\n"
     " s = l.accept()[0]; s.sendall(b\"x\"); assert c.recv(1) == b\"x\"'"},
    {IN_ALL, "node",
     "node -e 'const c = require(\"child_process\"); c.execSync(\"true\");"
     "require(\"fs\").promises.readFile(\"/dev/null\").then(() => new (require(\"worker_threads\").Worker)(\"0\", {eval: true}))'"},
    {IN_YARD, "node",
     "node -e 'const s = require(\"net\").createServer(c => c.end(\"x\")).listen(\"n\", () =>"
     "require(\"net\").connect(\"n\").on(\"data\", () => process.exit(0)))'"},
    {IN_ALL, "git",
     "git init -q r && cd r && echo x >x && git add x && git -c user.name=x -c user.email=x@x commit -qm x"
     " && git clone -q . ../r2 && git gc -q"},
    {IN_ALL, "strace", "strace -f -o t sh -c 'true; /bin/true' && grep -q execve t"},
    {IN_ALL, "strace", "! strace -o t --inject=uname:error=EXDEV uname && grep -q INJECTED t"}, /* call skipped by number -1 */
    {IN_ALL, "gdb",
     "gdb -nx -batch -ex run --args /bin/true >g 2>&1 </dev/null; cat g; "
     "grep -q 'exited normally' g && ! grep -q 'disabling address space' g"},
    {IN_ALL, "java", "java -version"},
    {IN_ALL, "javac",
     "echo 'class A { public static void main(String[] a) throws Exception {"
     " new ProcessBuilder(\"true\").start().waitFor(); } }' >A.java && javac A.java && java -cp . A"},
    {IN_ALL, "rustc", "echo 'fn main() { std::thread::spawn(|| ()).join().unwrap(); }' >r.rs && rustc r.rs && ./r"},
    {IN_ALL, "go",
     "mkdir g && cd g && printf 'package main\\nfunc main() { c := make(chan int); go func() { c <- 1 }(); <-c }'"
     " >m.go && GOCACHE=$PWD/c GO111MODULE=off go run m.go"},
    {IN_ALL, "vim", "vim -u NONE -es -c 'normal ix' -c 'wq! v' && test -s v"},
    {IN_YARD, "tmux", "tmux -S t.s -f /dev/null new-session -d 'sleep 9' && tmux -S t.s kill-server"},
    {IN_ALL, "perl", "perl -e 'use IO::Pipe; my $p = IO::Pipe->new; $p->reader(\"echo\", \"x\"); exit(<$p> ne \"x\\n\")'"},
    {IN_ALL, "tar", "mkdir d && echo x >d/x && tar -czf d.tgz d && rm -r d && tar -xzf d.tgz && test -s d/x"},
};

/* The exit status of the script in a directory of its own; its output is shown when it fails under a filter. */
static int run_script(const char *script, const enum seccomp_variant *filter) {
    char dir[] = "/tmp/bawn-test-XXXXXX", command[100];
    int status;
    pid_t pid;

    assert_non_null(mkdtemp(dir));
    pid = fork();
    if (pid == 0) {
        if (chdir(dir) < 0 || !freopen("log", "w", stdout) || dup2(1, 2) < 0)
            _exit(98);
        if (filter)
            filter_self(*filter);
        execl("/bin/sh", "sh", "-ec", script, NULL);
        _exit(99);
    }
    status = wait_for(pid);
    snprintf(command, sizeof command, "%s %s/log >&2; rm -rf %s", status && filter ? "tail -n 20" : ": ", dir, dir);
    pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(99);
    }
    wait_for(pid);
    return status;
}

static const struct {
    unsigned bit; /* whose programs work with it */
    const char *name;
} variants[] = {
    [SECCOMP_YARD] = {IN_YARD, "the yard"},
    [SECCOMP_BARE] = {IN_BARE, "the bare variant"},
    [SECCOMP_NET] = {IN_NET, "the filter below the guard's"},
    [SECCOMP_GUARD] = {IN_GUARD, "the guard's own filter"},
    [SECCOMP_SHARED] = {IN_NET, "the filter below the guard's in the host's network"},
    [SECCOMP_NESTED] = {IN_YARD, "the filter for engines inside"},
};
static_assert(ARRAY_LEN(variants) == SECCOMP_VARIANTS, "each variant has its row");

static void real_programs_work(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(works); i++) {
        if (run_script(works[i].script, NULL) != 0) {
            print_message("does not work here even without a filter: %s\n", works[i].program);
            continue;
        }
        for (enum seccomp_variant v = 0; v < SECCOMP_VARIANTS; v++)
            if (works[i].variants & variants[v].bit && run_script(works[i].script, &v) != 0)
                fail_msg("%s does not work in %s", works[i].program, variants[v].name);
    }
}

static uint64_t now_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void prints_size_and_cost(void **state) {
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        print_message("%s: %zu instructions\n", tables[t].name, tables[t].n);
    for (int v = 0; v < SECCOMP_VARIANTS; v++) {
        pid_t pid = fork();

        if (pid == 0) {
            uint64_t start = now_ns();

            filter_self(v);
            fprintf(stderr, "variant %d: installed in %llu us\n", v, (unsigned long long)(now_ns() - start) / 1000);
            _exit(0);
        }
        assert_int_equal(wait_for(pid), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_as_written_on_every_architecture),
        cmocka_unit_test(an_engine_inside_gets_what_it_needs),
        cmocka_unit_test(sockets_by_the_guard),
        cmocka_unit_test(every_line_of_the_policy_is_in_the_tables),
        cmocka_unit_test(everything_else_does_not_exist),
        cmocka_unit_test(other_abis_are_killed_in_the_tables),
        cmocka_unit_test(the_kernel_refuses_them),
        cmocka_unit_test(the_kernel_allows_work),
#ifdef __x86_64__
        cmocka_unit_test(other_abis_are_killed_by_the_kernel),
#endif
        cmocka_unit_test(needs_no_new_privs),
        cmocka_unit_test(falls_back_to_prctl_and_then_refuses),
        cmocka_unit_test(real_programs_work),
        cmocka_unit_test(prints_size_and_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
