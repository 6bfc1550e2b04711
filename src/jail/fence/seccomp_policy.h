/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which system calls a sandboxed process may make. Data only: tools/seccomp-gen compiles it at build time into BPF
 * tables, and tests/unit/jail/test_seccomp.c evaluates those tables against it.
 *
 * Three answers for a call that is in no list or that no rule allows:
 *   - not listed: ENOSYS, as on a kernel that does not have it, so that libc and runtimes take their older path. That is
 *     what happens to every call newer than this table, and to dead ones (uselib, ustat, sysfs, _sysctl, nfsservctl...);
 *   - listed as refused: EPERM, which is what an unprivileged caller of such a call expects;
 *   - another ABI (i386 by int 0x80, x32): the process is killed. Every number means something else there, and nothing
 *     on a 64-bit system uses them by accident.
 *
 * Arguments are compared as 32 bits because the kernel truncates them so: every argument tested here is an int, an
 * unsigned int or a mode_t to the kernel (and clone takes the low half of its flags). Comparing 64 bits is how
 * CVE-2019-7303 let TIOCSTI through with a bit set in the upper half.
 *
 * Memory behind pointers cannot be inspected (another thread may change it after the check), therefore clone3 and openat2
 * do not exist in here: their flags and modes are in memory, while those of clone, open and openat are in registers.
 */
#pragma once

#include <errno.h>
#include <linux/seccomp.h>

#include "base/macros.h"

/* Which variants of the filter a line belongs to; see seccomp.h. */
enum {
    IN_YARD = 1,
    IN_BARE = 2,
    IN_NET = 4,   /* as BARE, with sockets that the guard makes: a filter with notification is always on top of it */
    IN_GUARD = 8, /* for bawn-init itself there */
    IN_NESTED = 16,
    IN_SHARED = 32,                   /* as YARD, but for the network, which is the host's: sockets as in NET */
    IN_OWN_NET = IN_YARD | IN_NESTED, /* with a network namespace of its own */
    IN_OWN = IN_OWN_NET | IN_SHARED,  /* with the other namespaces */
    IN_SOCKETS = IN_NET | IN_SHARED,
    IN_EVERY_BARE = IN_BARE | IN_NET | IN_GUARD,
    IN_ALL = IN_OWN | IN_EVERY_BARE,
    IN_SIMPLE = IN_ALL & ~IN_NESTED /* without an engine inside */
};

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE(e) (SECCOMP_RET_ERRNO | (e))

struct policy_list {
    unsigned variants;
    uint32_t action;
    const char *names; /* separated by spaces; a name that one architecture does not have is left out there */
};

enum policy_op { OP_NONE, OP_EQ, OP_NE };

/* Added to the number of an argument: its upper half, for what is a pointer to the kernel. */
enum { UPPER_HALF = 8 };

struct policy_test { /* (argument & mask) == or != value */
    enum policy_op op;
    unsigned arg; /* 0 to 5, the lower half; see UPPER_HALF */
    uint32_t mask, value;
};

enum { POLICY_TESTS_MAX = 3, POLICY_RULES_MAX = 18 };

struct policy_rule {
    struct policy_test when[POLICY_TESTS_MAX]; /* all must hold; none: always */
    uint32_t action;
};

struct policy_check {
    unsigned variants;
    const char *names;
    struct policy_rule rules[POLICY_RULES_MAX]; /* the first that holds decides; the last has no tests */
};

/* Before the rules of a check with this one name: allowed if the argument is one of these, in ascending order. A binary search. */
struct policy_values {
    const char *name;
    unsigned arg;
    size_t n;
    const uint32_t *v;
};

/* clang-format off */
#define IS(arg, value) {OP_EQ, arg, UINT32_MAX, value}
#define ISNT(arg, value) {OP_NE, arg, UINT32_MAX, value}
#define PART_IS(arg, mask, value) {OP_EQ, arg, mask, value}
#define PART_ISNT(arg, mask, value) {OP_NE, arg, mask, value}
#define SOME_OF(arg, mask) {OP_NE, arg, mask, 0}
/* clang-format on */

static const struct policy_list policy_lists[] = {
    /* Files: data */
    {IN_ALL, ALLOW,
     "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 "
     "pipe pipe2 sendfile splice tee vmsplice copy_file_range fallocate ftruncate truncate fadvise64 readahead "
     "fsync fdatasync sync syncfs sync_file_range flock"},

    /* Files: names and attributes. Links, renames and xattrs are bounded by the mounts and by Landlock; setting
     * security.capability needs a capability that no process has in here. mkdir takes no setuid or setgid bit at all (the
     * kernel masks the mode), so it needs no check. name_to_handle_at alone opens nothing: its other half is refused. */
    {IN_ALL, ALLOW,
     "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getcwd chdir fchdir "
     "getdents getdents64 mkdir mkdirat rmdir unlink unlinkat rename renameat link linkat symlink symlinkat umask "
     "chown fchown lchown fchownat utime utimes utimensat futimesat name_to_handle_at "
     "getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr "
     "removexattr lremovexattr fremovexattr"},

    /* Memory. memfd_secret only hides memory from the kernel. NUMA placement of one's own memory is used by databases
     * and the JVM and stays within the cpuset; moving the pages of others is refused below. */
    {IN_ALL, ALLOW,
     "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 munlock mlockall munlockall remap_file_pages "
     "memfd_create memfd_secret membarrier pkey_alloc pkey_free pkey_mprotect process_madvise process_mrelease "
     "get_mempolicy set_mempolicy mbind set_mempolicy_home_node"},

    /* Processes and identity. Changing ids needs capabilities that no process has; programs that drop privileges call them
     * with their own ids and expect success. */
    {IN_ALL, ALLOW,
     "execve execveat exit exit_group fork vfork wait4 waitid getpid getppid gettid getpgid setpgid getpgrp getsid setsid "
     "getuid geteuid getgid getegid getgroups setgroups getresuid setresuid getresgid setresgid setuid setgid setreuid "
     "setregid setfsuid setfsgid capget capset prctl arch_prctl set_tid_address set_robust_list get_robust_list rseq "
     "getrlimit setrlimit getrusage times uname sysinfo getcpu pidfd_open pidfd_send_signal restart_syscall getrandom "
     "sched_yield sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
     "getpriority ioprio_get"},

    /* Debuggers: gdb and strace must work on what runs in here. The kernel's ptrace check is the fence: another process
     * namespace or another Landlock domain cannot be attached to, and bawn-init is not dumpable. pidfd_getfd, kcmp and
     * process_vm_* make the same check. Since Linux 4.8 a tracer cannot change a call after the filter has seen it. */
    {IN_ALL, ALLOW, "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"},

    /* Further sandboxes inside: filters and Landlock layers only ever narrow (browsers, other agents' sandboxes). */
    {IN_ALL, ALLOW, "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"},

    /* Signals, time, waiting */
    {IN_ALL, ALLOW,
     "rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo "
     "rt_tgsigqueueinfo sigaltstack kill tkill tgkill pause alarm signalfd signalfd4 "
     "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep getitimer setitimer "
     "timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime "
     "futex futex_waitv select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 "
     "eventfd eventfd2 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},

    /* Native AIO (io_setup...) is not listed: its requests are counted for the whole machine (fs.aio-max-nr), so that one process inside
     * would take it from every database on the host. Programs fall back to threads. */

    /* Talking over sockets that exist. BARE has no network namespace, yet these need no rule there: the only sockets that
     * a process can come by are connected AF_UNIX pairs (see socketpair below), which ignore or refuse an address given
     * to sendto and sendmsg; the starter of the command hands in no other socket, /proc/PID/fd cannot open one, and
     * pidfd_getfd reaches no process outside the Landlock domain. */
    {IN_ALL, ALLOW, "recvfrom recvmsg recvmmsg shutdown getsockname getpeername getsockopt"},
    {IN_ALL & ~IN_SOCKETS, ALLOW, "sendto sendmsg sendmmsg setsockopt"},
    {IN_ALL & ~IN_BARE, ALLOW, "bind connect listen accept accept4"},
    {IN_BARE, REFUSE(EACCES), "socket bind connect listen accept accept4"},
    {IN_GUARD, ALLOW, "socket"},

    /* System V IPC and message queues are private in the yard. Without an IPC namespace they would be the host's: absent. */
    {IN_OWN, ALLOW,
     "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl "
     "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},

    /* Namespaces, mounts, roots: what the sandbox is made of. With an engine inside, what its runtime needs: the kernel grants it in a
     * user namespace below ours only, where our mounts are locked (not to be removed, moved, remounted or bound around). The newer calls
     * for mounts stay away: runtimes do without, and their options are parsed by young code (CVE-2022-0185). */
    {IN_SIMPLE, REFUSE(EPERM), "mount umount2 pivot_root chroot unshare setns sethostname setdomainname"},
    {IN_NESTED, ALLOW, "mount umount2 pivot_root chroot setns sethostname setdomainname"},
    /* Layers of images have set-id files. With an engine inside no folder of the host's can be written to but Bawn's own (0700). */
    {IN_NESTED, ALLOW, "chmod fchmod creat fchmodat open openat"},
    {IN_ALL, REFUSE(EPERM), "open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"},

    /* Opens a file of any mounted file system by its number, past every path check ("Shocker") */
    {IN_ALL, REFUSE(EPERM), "open_by_handle_at"},

    /* Large kernel surface with a history of exploits. io_uring also performs calls that no filter sees (a socket by
     * IORING_OP_SOCKET); libuv and others fall back on EPERM, which kernel.io_uring_disabled gives as well. */
    {IN_ALL, REFUSE(EPERM),
     "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register fanotify_init fanotify_mark "
     "modify_ldt vhangup migrate_pages move_pages lookup_dcookie"},

    /* Kernel keyrings are not bound to a user namespace: the host user's keys would be in reach */
    {IN_ALL, REFUSE(EPERM), "add_key request_key keyctl"},

    /* The machine. adjtimex and clock_adjtime read with modes = 0 and set otherwise, but modes is behind a pointer. */
    {IN_ALL, REFUSE(EPERM),
     "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog quotactl "
     "quotactl_fd settimeofday clock_settime adjtimex clock_adjtime iopl ioperm"},

    /* Exist only with their arguments in memory (see the top); glibc, musl, Go and Rust fall back to the older call */
    {IN_ALL, REFUSE(ENOSYS), "clone3 openat2"},
};

/* Numbers of the kernel ABI that both architectures share; the build machine's headers may be those of another. */
enum {
    NAMESPACE_FLAGS = 0x7e020000, /* CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; clone cannot pass CLONE_NEWTIME */
    /* Of these, and CLONE_NEWTIME, which only unshare can pass, no engine inside gets NET (the only network is ours, and rules of packet
     * filters stay out of reach), CGROUP (mounting the hierarchy takes one: a limit's file may belong to our user) and TIME. */
    NAMESPACES_NOT_NESTED = 0x42000080,
    NAMESPACES_NOT_CLONED = 0x42000000, /* 0x80 is a part of the signal there */
    CREATES = 020000100,                /* O_CREAT, __O_TMPFILE: without them open ignores its mode, which may be garbage */
    SETID = 06000,                      /* S_ISUID, S_ISGID */
    TYPE_OF_NODE = 0170000,             /* S_IFMT */
    NODE_FIFO = 0010000,
    NODE_FILE = 0100000,
    NODE_SOCKET = 0140000,
    FAMILY_UNIX = 1,
    FAMILY_INET = 2,
    FAMILY_INET6 = 10,
    FAMILY_NETLINK = 16,
    ROUTE = 0,            /* NETLINK_ROUTE */
    TYPE_OF_SOCKET = 0xf, /* the rest are SOCK_CLOEXEC and SOCK_NONBLOCK */
    STREAM = 1,
    DGRAM = 2,
    RAW = 3,
    SEQPACKET = 5,
    PACKET = 10,
    FASTOPEN = 0x20000000, /* MSG_FASTOPEN */
    LEVEL_IP = 0,
    LEVEL_SOCKET = 1,
    LEVEL_TCP = 6,
    LEVEL_IPV6 = 41
};

/* clang-format off */
/*
 * The requests of ioctl(2) that exist in here. By list, because a file system answers requests on a descriptor that was opened for
 * reading, or on a folder: btrfs makes subvolumes and snapshots (protected names, past the guard) and shows the names and contents
 * of hidden files (TREE_SEARCH, INO_LOOKUP), XFS opens by handle, ext4 exchanges extents, and all of them set flags. What is not here is
 * ENOTTY, as from a kernel without it, and programs do without.
 */
static const uint32_t ioctls_allowed[] = {
    0x00000002, /* FIGETBSZ */
    0x00005401, 0x00005402, 0x00005403, 0x00005404, /* TCGETS, TCSETS, TCSETSW, TCSETSF */
    0x00005405, 0x00005406, 0x00005407, 0x00005408, /* TCGETA, TCSETA, TCSETAW, TCSETAF */
    0x00005409, 0x0000540a, 0x0000540b,             /* TCSBRK, TCXONC, TCFLSH */
    0x0000540c, 0x0000540d, 0x0000540e,             /* TIOCEXCL, TIOCNXCL, TIOCSCTTY */
    0x0000540f, 0x00005410, 0x00005411,             /* TIOCGPGRP, TIOCSPGRP, TIOCOUTQ (SIOCOUTQ) */
    0x00005413, 0x00005414,                         /* TIOCGWINSZ, TIOCSWINSZ */
    0x0000541b,                                     /* FIONREAD (SIOCINQ) */
    0x00005420, 0x00005421, 0x00005422, 0x00005424, /* TIOCPKT, FIONBIO, TIOCNOTTY, TIOCGETD */
    0x00005425, 0x00005429,                         /* TCSBRKP, TIOCGSID */
    0x00005441,                                     /* TIOCGPTPEER */
    0x00005450, 0x00005451, 0x00005452, 0x00005460, /* FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE */
    0x00008901, 0x00008902, 0x00008903, 0x00008904, /* FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP */
    0x00008905, 0x00008906, 0x00008907,             /* SIOCATMARK, SIOCGSTAMP, SIOCGSTAMPNS */
    0x00008910, 0x00008912, 0x00008913, 0x00008915, /* SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR */
    0x00008917, 0x00008919, 0x0000891b, 0x0000891d, /* SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC */
    0x00008921, 0x00008927, 0x00008933,             /* SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX */
    0x00008942, 0x0000894b, 0x00008970,             /* SIOCGIFTXQLEN, SIOCOUTQNSD, SIOCGIFMAP */
    0x40045431, 0x40045436,                         /* TIOCSPTLCK, TIOCSIG */
    0x40049409,                                     /* FICLONE: the destination is open for writing */
    0x40082102, 0x40082104, 0x40182103,             /* SECCOMP_IOCTL_NOTIF_ID_VALID, _SET_FLAGS, _ADDFD: the guard is behind this filter, too */
    0x4020940d,                                     /* FICLONERANGE */
    0x402c542b, 0x402c542c, 0x402c542d,             /* TCSETS2, TCSETSW2, TCSETSF2 */
    0x80045200,                                     /* RNDGETENTCNT */
    0x80045430, 0x80045432, 0x80045438, 0x80045439, /* TIOCGPTN, TIOCGDEV, TIOCGPKT, TIOCGPTLCK */
    0x80045440,                                     /* TIOCGEXCL */
    0x80086601,                                     /* FS_IOC_GETFLAGS */
    0x80108906, 0x80108907,                         /* SIOCGSTAMP_NEW, SIOCGSTAMPNS_NEW */
    0x801c581f,                                     /* FS_IOC_FSGETXATTR */
    0x802c542a,                                     /* TCGETS2 */
    0xc0182101, 0xc0502100,                         /* SECCOMP_IOCTL_NOTIF_SEND, _RECV */
};


static const struct policy_values policy_values[] = {{"ioctl", 1, ARRAY_LEN(ioctls_allowed), ioctls_allowed}};

static const struct policy_check policy_checks[] = {
    {IN_SIMPLE, "clone", {{{SOME_OF(0, NAMESPACE_FLAGS)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_NESTED, "clone", {{{SOME_OF(0, NAMESPACES_NOT_CLONED)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_NESTED, "unshare", {{{SOME_OF(0, NAMESPACES_NOT_NESTED)}, REFUSE(EPERM)}, {{}, ALLOW}}},

    /* A setuid or setgid file does nothing in here (nosuid), but in a shared tree the host sees it with the user's id.
     * fchmodat2 is newer than this table: ENOSYS, and libc emulates it. */
    {IN_SIMPLE, "chmod fchmod creat", {{{SOME_OF(1, SETID)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_SIMPLE, "fchmodat", {{{SOME_OF(2, SETID)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_SIMPLE, "open", {{{SOME_OF(1, CREATES), SOME_OF(2, SETID)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_SIMPLE, "openat", {{{SOME_OF(2, CREATES), SOME_OF(3, SETID)}, REFUSE(EPERM)}, {{}, ALLOW}}},

    /* A lease on a file of the workspace makes the host's open() wait for up to lease-break-time (45 s), again and again; F_NOTIFY
     * is its older sibling of inotify, without a limit. EINVAL is what file systems without them say. */
    {IN_ALL, "fcntl",
     {{{IS(1, 1024 /* F_SETLEASE */)}, REFUSE(EINVAL)}, {{IS(1, 1026 /* F_NOTIFY */)}, REFUSE(EINVAL)}, {{}, ALLOW}}},

    /* RENAME_WHITEOUT leaves a device node, which the host sees; overlayfs itself does not come by here */
    {IN_ALL, "renameat2", {{{SOME_OF(4, 4)}, REFUSE(EINVAL)}, {{}, ALLOW}}},

    /* No devices, and no overlayfs whiteouts: those are character devices that need no privilege since Linux 5.8 */
    {IN_ALL, "mknod",
     {{{SOME_OF(1, SETID)}, REFUSE(EPERM)},
      {{PART_IS(1, TYPE_OF_NODE, 0)}, ALLOW},
      {{PART_IS(1, TYPE_OF_NODE, NODE_FILE)}, ALLOW},
      {{PART_IS(1, TYPE_OF_NODE, NODE_FIFO)}, ALLOW},
      {{PART_IS(1, TYPE_OF_NODE, NODE_SOCKET)}, ALLOW},
      {{}, REFUSE(EPERM)}}},
    {IN_ALL, "mknodat",
     {{{SOME_OF(2, SETID)}, REFUSE(EPERM)},
      {{PART_IS(2, TYPE_OF_NODE, 0)}, ALLOW},
      {{PART_IS(2, TYPE_OF_NODE, NODE_FILE)}, ALLOW},
      {{PART_IS(2, TYPE_OF_NODE, NODE_FIFO)}, ALLOW},
      {{PART_IS(2, TYPE_OF_NODE, NODE_SOCKET)}, ALLOW},
      {{}, REFUSE(EPERM)}}},

    /* TIOCSTI and TIOCLINUX type into the terminal that started us; TIOCSETD loads line disciplines (n_gsm, n_hdlc...) */
    {IN_ALL, "ioctl",
     {{{IS(1, 0x5412)}, REFUSE(EPERM)},
      {{IS(1, 0x541c)}, REFUSE(EPERM)},
      {{IS(1, 0x5423)}, REFUSE(EPERM)},
      {{}, REFUSE(ENOTTY)}}},

    /* Query, reset, linux32, and ADDR_NO_RANDOMIZE for gdb. Not READ_IMPLIES_EXEC, MMAP_PAGE_ZERO or foreign systems. */
    {IN_ALL, "personality",
     {{{IS(0, UINT32_MAX)}, ALLOW},
      {{IS(0, 0)}, ALLOW},
      {{IS(0, 0x0000008)}, ALLOW},
      {{IS(0, 0x0040000)}, ALLOW},
      {{IS(0, 0x0040008)}, ALLOW},
      {{}, REFUSE(EPERM)}}},

    /* libc's getifaddrs needs NETLINK_ROUTE. Other families (packet, vsock, alg, bluetooth, xdp...) do not exist, and of
     * the internet family only what the gateway carries, plus ping and MPTCP, which Go asks for first: naming another
     * protocol or type (SCTP, DCCP, L2TP...) would make the kernel load its module. */
    {IN_OWN_NET, "socket",
     {{{IS(0, FAMILY_NETLINK), IS(2, ROUTE)}, ALLOW},
      {{IS(0, FAMILY_NETLINK)}, REFUSE(EPROTONOSUPPORT)},
      {{ISNT(0, FAMILY_UNIX), ISNT(0, FAMILY_INET), ISNT(0, FAMILY_INET6)}, REFUSE(EAFNOSUPPORT)},
      {{PART_IS(1, TYPE_OF_SOCKET, RAW)}, REFUSE(EPERM)},
      {{PART_IS(1, TYPE_OF_SOCKET, PACKET)}, REFUSE(EPERM)},
      {{IS(0, FAMILY_UNIX)}, ALLOW},
      {{PART_ISNT(1, TYPE_OF_SOCKET, STREAM), PART_ISNT(1, TYPE_OF_SOCKET, DGRAM)}, REFUSE(ESOCKTNOSUPPORT)},
      {{IS(2, 0 /* the type's own */)}, ALLOW},
      {{IS(2, 6 /* TCP */)}, ALLOW},
      {{IS(2, 17 /* UDP */)}, ALLOW},
      {{IS(2, 1 /* ICMP */)}, ALLOW},
      {{IS(2, 58 /* ICMPv6 */)}, ALLOW},
      {{IS(2, 262 /* MPTCP */)}, ALLOW},
      {{}, REFUSE(EPROTONOSUPPORT)}}},
    /* What the guard makes, and nothing that could send without a connection that it made: a datagram says in memory where it goes. What it gives for UDP
     * is a unix socket. */
    {IN_SOCKETS, "socket",
     {{{ISNT(0, FAMILY_UNIX), ISNT(0, FAMILY_INET), ISNT(0, FAMILY_INET6)}, REFUSE(EAFNOSUPPORT)},
      {{PART_IS(1, TYPE_OF_SOCKET, STREAM), IS(2, 0)}, ALLOW},
      {{ISNT(0, FAMILY_UNIX), PART_IS(1, TYPE_OF_SOCKET, STREAM), IS(2, 6 /* TCP */)}, ALLOW},
      {{IS(0, FAMILY_UNIX), PART_IS(1, TYPE_OF_SOCKET, SEQPACKET), IS(2, 0)}, ALLOW},
      {{ISNT(0, FAMILY_UNIX), PART_IS(1, TYPE_OF_SOCKET, DGRAM), IS(2, 0)}, ALLOW},
      {{ISNT(0, FAMILY_UNIX), PART_IS(1, TYPE_OF_SOCKET, DGRAM), IS(2, 17 /* UDP */)}, ALLOW},
      {{PART_IS(1, TYPE_OF_SOCKET, STREAM)}, REFUSE(EPROTONOSUPPORT)},
      {{PART_IS(1, TYPE_OF_SOCKET, RAW)}, REFUSE(EPERM)},
      {{PART_IS(1, TYPE_OF_SOCKET, PACKET)}, REFUSE(EPERM)},
      {{}, REFUSE(EACCES)}}},

    /* MSG_FASTOPEN connects, to an address that is in memory */
    {IN_SOCKETS, "sendto sendmmsg", {{{SOME_OF(3, FASTOPEN)}, REFUSE(EOPNOTSUPP)}, {{}, ALLOW}}},
    {IN_SOCKETS, "sendmsg", {{{SOME_OF(2, FASTOPEN)}, REFUSE(EOPNOTSUPP)}, {{}, ALLOW}}},

    /* Options by list. Not: what chooses a device, a route, a source or a mark; keys of signatures (TCP_MD5SIG), by which the guard
     * says who may connect to a server inside; TCP_FASTOPEN_CONNECT, TCP_REPAIR and TCP_ULP, which change what connect() does. SO_REUSEPORT and TCP_DEFER_ACCEPT do nothing and say
     * that they did: a second listener of one port could be made without the guard's key. */
    {IN_SOCKETS, "setsockopt",
     {{{IS(1, LEVEL_SOCKET), IS(2, 15 /* SO_REUSEPORT */)}, REFUSE(0)},
      {{IS(1, LEVEL_SOCKET), IS(2, 25 /* SO_BINDTODEVICE */)}, REFUSE(EPERM)},
      {{IS(1, LEVEL_SOCKET), PART_IS(2, ~1u, 26 /* SO_ATTACH_FILTER, SO_DETACH_FILTER */)}, REFUSE(EPERM)},
      {{IS(1, LEVEL_SOCKET), PART_IS(2, ~15u, 0)}, ALLOW},
      {{IS(1, LEVEL_SOCKET), PART_IS(2, ~15u, 16)}, ALLOW},
      {{IS(1, LEVEL_SOCKET), PART_IS(2, ~3u, 64 /* times in 64 bits */)}, ALLOW},
      {{IS(1, LEVEL_TCP), IS(2, 9 /* TCP_DEFER_ACCEPT */)}, REFUSE(0)},
      {{IS(1, LEVEL_TCP), PART_IS(2, ~1u, 14 /* TCP_MD5SIG */)}, REFUSE(EPERM)},
      {{IS(1, LEVEL_TCP), PART_IS(2, ~15u, 0)}, ALLOW},
      {{IS(1, LEVEL_TCP), IS(2, 18 /* TCP_USER_TIMEOUT */)}, ALLOW},
      {{IS(1, LEVEL_TCP), IS(2, 25 /* TCP_NOTSENT_LOWAT */)}, ALLOW},
      {{IS(1, LEVEL_IP), PART_IS(2, ~3u, 0 /* IP_TOS, IP_TTL */)}, ALLOW},
      {{IS(1, LEVEL_IP), PART_IS(2, ~1u, 10 /* IP_MTU_DISCOVER, IP_RECVERR */)}, ALLOW},
      {{IS(1, LEVEL_IPV6), IS(2, 25 /* IPV6_RECVERR */)}, ALLOW},
      {{IS(1, LEVEL_IPV6), IS(2, 26 /* IPV6_V6ONLY */)}, ALLOW},
      {{IS(1, LEVEL_IPV6), IS(2, 67 /* IPV6_TCLASS */)}, ALLOW},
      {{}, REFUSE(ENOPROTOOPT)}}},
    {IN_OWN_NET, "socketpair", {{{IS(0, FAMILY_UNIX)}, ALLOW}, {{}, REFUSE(EAFNOSUPPORT)}}},

    /* A datagram pair could be connected again, to a socket of the host; stream and seqpacket pairs cannot */
    {IN_EVERY_BARE | IN_SHARED, "socketpair",
     {{{ISNT(0, FAMILY_UNIX)}, REFUSE(EAFNOSUPPORT)},
      {{PART_IS(1, TYPE_OF_SOCKET, STREAM)}, ALLOW},
      {{PART_IS(1, TYPE_OF_SOCKET, SEQPACKET)}, ALLOW},
      {{}, REFUSE(EACCES)}}},

    /* bawn-init has the ids of the command, so only these lines keep its limits, priority and CPUs from being changed: a limit of 0
     * descriptors or of a second of CPU is the end of the guard. Other processes may be read, not set (Linux asks for equal ids only,
     * whether they are dumpable or not). A thread's number is as good as 0 for the scheduler, so 1 alone is refused there; PRIO_USER and
     * IOPRIO_WHO_USER mean PID 1 as well. */
    {IN_OWN, "prlimit64",
     {{{IS(0, 0)}, ALLOW}, {{IS(2, 0), IS(2 | UPPER_HALF, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_OWN, "sched_setaffinity sched_setattr sched_setparam sched_setscheduler", {{{IS(0, 1)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_OWN, "setpriority",
     {{{IS(0, 2 /* PRIO_USER */)}, REFUSE(EPERM)}, {{IS(1, 1)}, REFUSE(EPERM)}, {{}, ALLOW}}},
    {IN_OWN, "ioprio_set",
     {{{IS(0, 3 /* IOPRIO_WHO_USER */)}, REFUSE(EPERM)}, {{IS(1, 1)}, REFUSE(EPERM)}, {{}, ALLOW}}},

    /* Without a process namespace these would reach the user's other processes, which no Landlock hook guards: only oneself. */
    {IN_EVERY_BARE, "prlimit64", {{{IS(0, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "sched_setaffinity", {{{IS(0, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "sched_setattr", {{{IS(0, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "sched_setparam", {{{IS(0, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "sched_setscheduler", {{{IS(0, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "setpriority", {{{IS(0, 0 /* PRIO_PROCESS */), IS(1, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
    {IN_EVERY_BARE, "ioprio_set", {{{IS(0, 1 /* IOPRIO_WHO_PROCESS */), IS(1, 0)}, ALLOW}, {{}, REFUSE(EPERM)}}},
};
/* clang-format on */
