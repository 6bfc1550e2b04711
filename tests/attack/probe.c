/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks that need C. `probe NAME [ARG...]` ends with 0 if the attack worked, 3 if the system refused it.
 *
 * `probe syscall NAME` calls one system call with arguments that stop right behind the kernel's permission check (a magic
 * number that is wrong, a descriptor that is -1), in a child. "Worked" is every answer but EPERM, EACCES, ENOSYS and death
 * by SIGSYS: the kernel's own code was reached. `probe list` prints NAME WHO, one per line; WHO is "root" if
 * root can show outside that the call works, "maybe" if that depends on what the kernel was built with.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { WORKED = 0, REFUSED = 3, BROKEN = 2 };

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define HIGH (1ULL << 32) /* bits the kernel ignores in an int argument, but a filter that compares 64 bits sees */

static char buffer[65536];

static int judge(long r, const char *what) {
    if (r >= 0) {
        printf("worked: %s = %ld\n", what, r);
        return WORKED;
    }
    printf("refused: %s: %s\n", what, strerror(errno));
    return REFUSED;
}

static int refusal(int e) {
    return e == EPERM || e == EACCES || e == ENOSYS;
}

struct call {
    const char *name;
    long nr;
    const char *who;
    uint64_t arg[6];
};

#define P(s) ((uint64_t)(uintptr_t)(s))
#define NOWHERE P("/nonexistent-bawn-probe")

static const struct call calls[] = {
    /* mounts */
    {"mount", SYS_mount, "root", {P("none"), NOWHERE, P("tmpfs")}},
    {"umount2", SYS_umount2, "root", {NOWHERE}},
    {"pivot_root", SYS_pivot_root, "root", {NOWHERE, NOWHERE}},
    {"chroot", SYS_chroot, "root", {P(".")}},
    {"open_tree", 428, "root", {-100, NOWHERE}},
    {"move_mount", 429, "root", {-1, P(""), -1, P("")}},
    {"fsopen", 430, "root", {P("bawn-no-such-fs")}},
    {"fsconfig", 431, "root", {-1, 99}},
    {"fsmount", 432, "root", {-1}},
    {"fspick", 433, "root", {-1, P("")}},
    {"mount_setattr", 442, "root", {-1, P("")}},
    {"open_tree_attr", 467, "maybe", {-100, NOWHERE}},
    {"swapon", SYS_swapon, "root", {NOWHERE}},
    {"swapoff", SYS_swapoff, "root", {NOWHERE}},
    {"quotactl_fd", 443, "root", {-1}},
    {"open_by_handle_at", SYS_open_by_handle_at, "root", {-1}},
    {"fanotify_init", SYS_fanotify_init, "root", {0xffffffff}},
    /* namespaces */
    {"unshare-user", SYS_unshare, "root", {CLONE_NEWUSER}},
    {"unshare-mount", SYS_unshare, "root", {CLONE_NEWNS}},
    {"unshare-pid", SYS_unshare, "root", {CLONE_NEWPID}},
    {"unshare-net", SYS_unshare, "root", {CLONE_NEWNET}},
    {"unshare-ipc", SYS_unshare, "root", {CLONE_NEWIPC}},
    {"unshare-uts", SYS_unshare, "root", {CLONE_NEWUTS}},
    {"unshare-cgroup", SYS_unshare, "root", {CLONE_NEWCGROUP}},
    {"unshare-time", SYS_unshare, "root", {CLONE_NEWTIME}},
    {"setns", SYS_setns, "root", {-1}},
    /* keys */
    {"keyctl", SYS_keyctl, "root", {0xffff}},
    {"add_key", SYS_add_key, "root", {0}},
    {"request_key", SYS_request_key, "root", {0}},
    /* the kernel's large and young surfaces */
    {"bpf", SYS_bpf, "root", {0xffff}},
    {"perf_event_open", SYS_perf_event_open, "root", {0}},
    {"userfaultfd", SYS_userfaultfd, "root", {0xffffffff}},
    {"io_uring_setup", SYS_io_uring_setup, "root", {0}},
    {"io_uring_enter", SYS_io_uring_enter, "root", {-1}},
    {"io_uring_register", SYS_io_uring_register, "root", {-1}},
    {"kexec_load", SYS_kexec_load, "maybe", {0, 0, 0, 0xffffffff}},
    {"kexec_file_load", SYS_kexec_file_load, "maybe", {-1, -1, 0, 0, 0xffff}},
    {"init_module", SYS_init_module, "maybe", {0}},
    {"finit_module", SYS_finit_module, "maybe", {-1, P(""), 0xffff}},
    {"delete_module", SYS_delete_module, "maybe", {P("bawn-no-such-module"), O_NONBLOCK}},
    {"modify_ldt", SYS_modify_ldt, "root", {0, 0, 0}},
    {"iopl", SYS_iopl, "maybe", {3}},
    {"ioperm", SYS_ioperm, "maybe", {0x80, 1, 1}},
    {"personality-read-implies-exec", SYS_personality, "root", {0x0400000}},
    {"lookup_dcookie", SYS_lookup_dcookie, "maybe", {0}},
    {"syslog", SYS_syslog, "root", {10}},
    /* the machine */
    {"reboot", SYS_reboot, "root", {0}},
    {"acct", SYS_acct, "root", {NOWHERE}},
    {"sethostname", SYS_sethostname, "root", {0, -1}},
    {"setdomainname", SYS_setdomainname, "root", {0, -1}},
    {"settimeofday", SYS_settimeofday, "root", {0, 0}},
    {"sched-fifo", SYS_sched_setscheduler, "root", {0, SCHED_FIFO, P(&(struct sched_param){1})}},
    {"nice-up", SYS_setpriority, "root", {0, 0, -5}},
    /* identity */
    {"setuid-root", SYS_setuid, "root", {0}},
    {"setgid-root", SYS_setgid, "root", {0}},
    {"setresuid-root", SYS_setresuid, "root", {0, 0, 0}},
    {"setgroups", SYS_setgroups, "root", {1, P(&(gid_t){0})}},
    {"setfsuid-root", SYS_setfsuid, "root", {0}},
    {"mknod-chr", SYS_mknod, "root", {P("probe-chr"), S_IFCHR | 0600, 0x103}},
    {"mknod-blk", SYS_mknod, "root", {P("probe-blk"), S_IFBLK | 0600, 0x700}},
    {"mknodat-chr", SYS_mknodat, "root", {-100, P("probe-chr"), S_IFCHR | 0600, 0x103}},
    /* sockets that lead out of an empty network namespace, or into rarely used kernel code */
    {"socket-vsock", SYS_socket, "root", {40, SOCK_STREAM, 0}},
    {"socket-vsock-high-bits", SYS_socket, "root", {40 | HIGH, SOCK_STREAM, 0}},
    {"socket-packet", SYS_socket, "root", {AF_PACKET, SOCK_RAW, 0}},
    {"socket-packet-old", SYS_socket, "root", {AF_INET, SOCK_PACKET, 0}},
    {"socket-raw", SYS_socket, "root", {AF_INET, SOCK_RAW, 1}},
    {"socket-raw6", SYS_socket, "root", {AF_INET6, SOCK_RAW, 58}},
    {"socket-netfilter", SYS_socket, "root", {AF_NETLINK, SOCK_RAW, 12}},
    {"socket-alg", SYS_socket, "maybe", {38, SOCK_SEQPACKET, 0}},
    {"socket-key", SYS_socket, "maybe", {15, SOCK_RAW, 2}},
    {"socket-bluetooth", SYS_socket, "maybe", {31, SOCK_RAW, 0}},
    {"socket-tipc", SYS_socket, "maybe", {30, SOCK_RDM, 0}},
    {"socket-xdp", SYS_socket, "root", {44, SOCK_RAW, 0}},
    {"socket-can", SYS_socket, "maybe", {29, SOCK_RAW, 1}},
    {"socket-rds", SYS_socket, "maybe", {21, SOCK_SEQPACKET, 0}},
    {"socket-smc", SYS_socket, "maybe", {43, SOCK_STREAM, 0}},
    {"socket-kcm", SYS_socket, "maybe", {41, SOCK_DGRAM, 0}},
};

/* In a child, because a filter may kill and because some calls change the caller. */
static int in_child(int (*fn)(const void *), const void *arg, const char *what) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        return BROKEN;
    if (pid == 0) {
        int r = fn(arg);
        fflush(stdout);
        _exit(r);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(status)) {
        printf("%s: %s ended by signal %d\n", WTERMSIG(status) == SIGSYS ? "refused" : "broken", what, WTERMSIG(status));
        return WTERMSIG(status) == SIGSYS ? REFUSED : BROKEN;
    }
    return WEXITSTATUS(status);
}

static int call_now(const void *arg) {
    const struct call *c = arg;
    errno = 0;
    long r = syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4], c->arg[5]);
    int e = errno;
    if (strncmp(c->name, "setfsuid", 8) == 0) /* never fails: ask again what it is now */
        r = syscall(c->nr, -1) == 0 ? 0 : -1, e = EPERM;
    int absent = strncmp(c->name, "socket", 6) == 0 && (e == EAFNOSUPPORT || e == EPROTONOSUPPORT || e == ESOCKTNOSUPPORT);
    int unmapped = strncmp(c->name, "set", 3) == 0 && e == EINVAL && strstr(c->name, "-root");
    printf("%s: %s\n", c->name, r >= 0 ? "done" : strerror(e));
    return r < 0 && (refusal(e) || absent || unmapped) ? REFUSED : WORKED;
}

static int do_syscall(char **arg) {
    for (size_t i = 0; i < LEN(calls); i++)
        if (strcmp(calls[i].name, arg[0]) == 0)
            return in_child(call_now, &calls[i], arg[0]);
    return BROKEN;
}

static int do_list(char **arg) {
    (void)arg;
    for (size_t i = 0; i < LEN(calls); i++)
        printf("%s %s\n", calls[i].name, calls[i].who);
    return 0;
}

/* Namespaces by clone and clone3: the flags of clone3 sit in memory, where no filter can read them. */
static int by_clone(const void *arg) {
    long pid = syscall(SYS_clone, *(const uint64_t *)arg | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return judge(pid, "clone");
}

static int by_clone3(const void *arg) {
    struct clone_args a = {.flags = *(const uint64_t *)arg, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &a, sizeof(a));
    if (pid == 0)
        _exit(0);
    return judge(pid, "clone3");
}

static int do_clone(char **arg) {
    uint64_t flags = strtoull(arg[0], NULL, 0);
    return in_child(by_clone, &flags, "clone");
}

static int do_clone3(char **arg) {
    uint64_t flags = strtoull(arg[0], NULL, 0);
    return in_child(by_clone3, &flags, "clone3");
}

/* Other ABIs number their calls differently, so that a filter for one lets the other's pass. */
static int int80(const void *arg) {
    (void)arg;
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20 /* getpid */), "b"(0) : "memory", "r8", "r9", "r10", "r11");
    printf("i386 getpid = %ld\n", r);
    return r > 0 ? WORKED : REFUSED;
}

static int x32(const void *arg) {
    (void)arg;
    long r = syscall(0x40000000 + 39);
    return judge(r, "x32 getpid");
}

static int do_int80(char **arg) {
    (void)arg;
    return in_child(int80, NULL, "int 0x80");
}

static int do_x32(char **arg) {
    (void)arg;
    return in_child(x32, NULL, "x32");
}

/* Other processes */
static int do_ptrace(char **arg) {
    pid_t pid = atoi(arg[0]);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 || ptrace(PTRACE_ATTACH, pid, 0, 0) == 0) {
        ptrace(PTRACE_DETACH, pid, 0, 0);
        return judge(0, "ptrace");
    }
    return judge(-1, "ptrace");
}

static int do_process_vm_readv(char **arg) {
    pid_t pid = atoi(arg[0]);
    struct iovec here = {buffer, 16}, there = {(void *)strtoull(arg[1], NULL, 0), 16};
    return judge(process_vm_readv(pid, &here, 1, &there, 1, 0), "process_vm_readv");
}

static int do_pidfd_getfd(char **arg) {
    long pidfd = syscall(SYS_pidfd_open, atoi(arg[0]), 0);
    if (pidfd < 0)
        return judge(-1, "pidfd_open");
    return judge(syscall(SYS_pidfd_getfd, pidfd, atoi(arg[1]), 0), "pidfd_getfd");
}

static int do_kcmp(char **arg) {
    return judge(syscall(SYS_kcmp, getpid(), atoi(arg[0]), 2 /* KCMP_FILES */, 0, 0), "kcmp");
}

static int do_kill(char **arg) {
    return judge(kill(atoi(arg[0]), atoi(arg[1])), "kill");
}

/* Terminal: puts characters into the queue of the terminal that the user types into. */
static int do_tiocsti(char **arg) {
    uint64_t bits = strtoull(arg[0], NULL, 0);
    long r = 0;
    for (const char *c = "injected\n"; *c && r >= 0; c++)
        r = syscall(SYS_ioctl, 0, (uint64_t)TIOCSTI | bits, c);
    return judge(r, "TIOCSTI");
}

/* Reached = the terminal's driver answers (ENOTTY on a pty); a filter answers EPERM. */
static int do_tioclinux(char **arg) {
    char subcode = 2;
    long r = syscall(SYS_ioctl, 0, (uint64_t)0x541c | strtoull(arg[0], NULL, 0), &subcode);
    printf("TIOCLINUX: %s\n", r < 0 ? strerror(errno) : "done");
    return r < 0 && refusal(errno) ? REFUSED : WORKED;
}

/* Files that run with somebody else's rights; each way to ask for the bit. */
static int open_mode(const char *path, mode_t m) {
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, m);
    return fd;
}

static int set_mode(const char *how, const char *path, mode_t m) {
    if (strcmp(how, "open") == 0)
        return open_mode(path, m);
    if (strcmp(how, "creat") == 0)
        return (int)syscall(SYS_creat, path, m);
    if (strcmp(how, "openat2") == 0) {
        uint64_t open_how[3] = {O_CREAT | O_WRONLY | O_EXCL, m, 0};
        return (int)syscall(SYS_openat2, AT_FDCWD, path, open_how, sizeof(open_how));
    }
    if (strcmp(how, "mknod") == 0)
        return (int)syscall(SYS_mknod, path, S_IFREG | m, 0);
    if (strcmp(how, "mknodat") == 0)
        return (int)syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | m, 0);
    int fd = open_mode(path, 0755);
    if (fd < 0)
        return -1;
    if (strcmp(how, "chmod") == 0)
        return (int)syscall(SYS_chmod, path, m);
    if (strcmp(how, "chmod-high-bits") == 0)
        return (int)syscall(SYS_chmod, path, m | HIGH);
    if (strcmp(how, "fchmod") == 0)
        return fchmod(fd, m);
    if (strcmp(how, "fchmodat") == 0)
        return (int)syscall(SYS_fchmodat, AT_FDCWD, path, m);
    if (strcmp(how, "fchmodat2") == 0)
        return (int)syscall(452, AT_FDCWD, path, m, 0);
    if (strcmp(how, "xattr") == 0) { /* cap_sys_admin+ep, VFS_CAP_REVISION_2 */
        uint32_t cap[5] = {0x02000001, 1u << 21, 0, 0, 0};
        return (int)syscall(SYS_fsetxattr, fd, "security.capability", cap, sizeof(cap), 0);
    }
    errno = EINVAL;
    return -1;
}

static int do_setid(char **arg) {
    umask(0);
    struct stat st;
    const char *how = arg[0], *path = arg[1];
    mode_t m = (mode_t)strtoul(arg[2], NULL, 8);
    int r = set_mode(how, path, m), e = errno;
    if (strcmp(how, "xattr") == 0) {
        errno = e;
        return judge(r, how);
    }
    int is = stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID));
    printf("%s: %s: %s\n", is ? "worked" : "refused", how, r < 0 ? strerror(e) : "no such bit on the file");
    return is ? WORKED : REFUSED;
}

/* Descriptors above 2 that came from outside. */
static int do_fds(char **arg) {
    (void)arg;
    int found = 0;
    for (int fd = 3; fd < 70000; fd++)
        if (fcntl(fd, F_GETFD) >= 0) {
            ssize_t n = (snprintf(buffer, 64, "/proc/self/fd/%d", fd), readlink(buffer, buffer + 64, 1000));
            printf("descriptor %d: %.*s\n", fd, (int)(n < 0 ? 0 : n), buffer + 64);
            found++;
        }
    return found ? WORKED : REFUSED;
}

static int do_whoami(char **arg) {
    (void)arg;
    printf("uid %d euid %d gid %d egid %d\n", getuid(), geteuid(), getgid(), getegid());
    return geteuid() != getuid() || geteuid() == 0 ? WORKED : REFUSED;
}

static const struct probe {
    const char *name;
    int args;
    int (*run)(char **arg);
} probes[] = {
    {"syscall", 1, do_syscall},
    {"list", 0, do_list},
    {"clone", 1, do_clone},
    {"clone3", 1, do_clone3},
    {"int80", 0, do_int80},
    {"x32", 0, do_x32},
    {"ptrace", 1, do_ptrace},
    {"process_vm_readv", 2, do_process_vm_readv},
    {"pidfd_getfd", 2, do_pidfd_getfd},
    {"kcmp", 1, do_kcmp},
    {"kill", 2, do_kill},
    {"tiocsti", 1, do_tiocsti},
    {"tioclinux", 1, do_tioclinux},
    {"setid", 3, do_setid},
    {"fds", 0, do_fds},
    {"whoami", 0, do_whoami},
};

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < LEN(probes); i++)
        if (strcmp(probes[i].name, argv[1]) == 0 && argc - 2 >= probes[i].args)
            return probes[i].run(argv + 2);
    fprintf(stderr, "probe: no such probe, or too few arguments\n");
    return BROKEN;
}
