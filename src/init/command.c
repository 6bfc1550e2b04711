/* SPDX-License-Identifier: Apache-2.0 */
/* Starts one command. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "init/init.h"
#include "link/far.h"
#include "os/fd.h"

enum { STACK = 128 * 1024, PATH_BUF = 4096, INIT_SCRIPT_ARGS_MAX = 4096, TICK_MS = 20 };

struct command_child {
    struct init *in;
    const struct command *command;
    int exec_errno; /* results, written by the child into our memory */
    struct err err;
};

/* Not part of exec_path(), so that only scripts without "#!" pay for the room on the stack. */
static __attribute__((noinline)) int exec_script(const struct command *c, const char *path) {
    char *argv[INIT_SCRIPT_ARGS_MAX + 2];

    if (c->argc > INIT_SCRIPT_ARGS_MAX)
        return ENOEXEC;
    argv[0] = "/bin/sh";
    argv[1] = (char *)(uintptr_t)path;
    for (size_t i = 1; i <= c->argc; i++) /* with the NULL at the end */
        argv[i + 1] = c->argv[i];
    execve(argv[0], argv, c->envp);
    return errno;
}

/* A script without "#!" runs in the shell, as with execvp(). */
static int exec_path(const struct command *c, const char *path) {
    execve(path, c->argv, c->envp);
    return errno == ENOEXEC ? exec_script(c, path) : errno;
}

/* A look costs a tenth of an execve() that fails. ELOOP: a folder of PATH is in the home, where the inside may have left a link to itself. */
static bool is_absent(const char *path) {
    return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

/* Like a shell: a name without a slash is looked for in PATH; a file that may not be executed is remembered as EACCES. */
static int search_and_exec(const struct command *c) {
    char path[PATH_BUF];
    const char *name = c->argv[0], *dir = c->search_path;
    int result = ENOENT;

    if (strchr(name, '/') || *name == 0)
        return exec_path(c, name);
    while (*dir) {
        size_t len = strcspn(dir, ":");
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)len, len ? dir : ".", name);

        if (n > 0 && (size_t)n < sizeof path && !is_absent(path)) {
            int e = exec_path(c, path);

            if (e == EACCES)
                result = EACCES;
            else if (e != ENOENT && e != ENOTDIR)
                return e;
        }
        dir += len + (dir[len] == ':');
    }
    return result;
}

/* Its own session, or, with a terminal, a process group in that of its parent, who lets ^Z stop it. */
static int take_place(const struct command *c, struct err *err) {
    if (c->session)
        return setsid() < 0 ? err_sys(err, -errno, "own session") : 0;
    setpgid(0, 0);
    terminal_foreground(c->tty, getpid());
    return 0;
}

static int take_streams(const struct command *c, struct err *err) {
    for (int i = 0; i < 3; i++)
        if (c->fds[i] >= 0 && dup2(c->fds[i], i) < 0)
            return err_sys(err, -errno, "descriptor %d of the command", i);
    return 0;
}

static int child_main(void *arg) {
    struct command_child *child = arg;
    struct init *in = child->in;
    const struct command *c = child->command;
    const struct init_start *s = &in->start;

    if (take_place(c, &child->err) < 0 || take_streams(c, &child->err) < 0)
        return EXIT_SANDBOX;
    if (s->flags & (INIT_FLAG_NO_PIDNS | INIT_FLAG_SOCKETS) && lockdown(s, LOCKDOWN_COMMAND, &child->err) < 0)
        return EXIT_SANDBOX;
    if (chdir(c->cwd) < 0) {
        err_sys(&child->err, -errno, "enter the working directory '%s'", c->cwd);
        return EXIT_SANDBOX;
    }
    umask((mode_t)s->umask);
    sigprocmask(SIG_SETMASK, &in->old_mask, NULL);
    if (far_is_on() && shield_install(&child->err) < 0)
        return EXIT_SANDBOX;
    if (!in->guard && s->flags & INIT_FLAG_SOCKETS) { /* nothing would stand between the command and the host's network */
        err_set(&child->err, -EPERM, "sockets without a guard");
        return EXIT_SANDBOX;
    }
    if (in->guard && guard_install(in->guard, &child->err) < 0) /* last of all: only execve may follow, no answer comes yet */
        return EXIT_SANDBOX;
    child->exec_errno = search_and_exec(c);
    return EXIT_NOTFOUND;
}

struct command_apart {
    int (*f)(void *);
    void *arg;
    int runs;    /* the kernel makes it 0, and wakes us, when the process execs or ends */
    int pipe[2]; /* over a byte link, because gVisor does that only when it ends: exec closes its copy of the second; -1: none */
};

static int apart_main(void *arg) {
    struct command_apart *a = arg;

    syscall(SYS_set_tid_address, &a->runs);
    return a->f(a->arg);
}

/* The system call as it is: the C library's function would write errno, which is the child's, too, while it lasts. */
static void sleep_while(const int *address, int value) {
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
#ifdef __x86_64__
    register const struct timespec *r10 __asm__("r10") = &tick;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"((long)SYS_futex), "D"(address), "S"((long)FUTEX_WAIT), "d"((long)value), "r"(r10)
                     : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = SYS_futex, x1 __asm__("x1") = FUTEX_WAIT, x2 __asm__("x2") = value;
    register const void *x0 __asm__("x0") = address, *x3 __asm__("x3") = &tick;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
#endif
}

bool command_unstop(pid_t pid, unsigned *stops) {
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid != pid)
        return true;
    kill(pid, ++*stops > COMMAND_STOPS_MAX ? SIGKILL : SIGCONT);
    return *stops <= COMMAND_STOPS_MAX;
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static bool is_apart(const struct command_apart *a) {
    struct pollfd p = {.fd = a->pipe[0], .events = POLLIN};

    return !__atomic_load_n(&a->runs, __ATOMIC_SEQ_CST) || (p.fd >= 0 && poll(&p, 1, 0) > 0);
}

static void wait_apart(const struct command_apart *a) {
    struct pollfd p = {.fd = a->pipe[0], .events = POLLIN};

    if (p.fd >= 0)
        poll(&p, 1, TICK_MS); /* errno is left alone: all signals are blocked */
    else
        sleep_while(&a->runs, 1);
}

/* Not CLONE_VFORK: a process can be stopped from inside before it execs, and we would wait for it in the kernel, for ever. */
pid_t command_clone(int (*f)(void *), void *arg, int flags) {
    static char stack[STACK] __attribute__((aligned(16))); /* not allocated: the limits on memory are already in force */
    struct command_apart a = {.f = f, .arg = arg, .runs = 1, .pipe = {-1, -1}};
    bool fine = true;
    unsigned stops = 0;
    pid_t pid;
    int r;

    if (far_is_on() && !(flags & CLONE_FILES) && pipe2(a.pipe, O_CLOEXEC) < 0)
        return -errno;
    /* Shares memory until it execs: nothing is copied, and errors come back as they are. */
    pid = clone(apart_main, stack + STACK, CLONE_VM | SIGCHLD | flags, &a);
    r = pid < 0 ? -errno : 0;
    closep(&a.pipe[1]);
    while (r == 0 && !is_apart(&a) && !has_ended(pid)) {
        wait_apart(&a);
        if (!is_apart(&a))
            fine = command_unstop(pid, &stops) && fine;
    }
    closep(&a.pipe[0]);
    return r < 0 ? r : fine ? pid : -EAGAIN;
}

int command_start(struct init *in, const struct command *c, pid_t *ret_pid, int *ret_errno, struct err *err) {
    struct command_child child = {.in = in, .command = c};
    /* With a guard it shares the descriptors too, so that the listener is ours at once; our 0, 1 and 2 are then the command's. */
    pid_t pid = command_clone(child_main, &child, in->guard ? CLONE_FILES : 0);

    if (pid == -EAGAIN)
        return err_set(
            err, pid,
            "the command could not be started: something inside stops it before it begins, or there are too many processes");
    if (pid < 0)
        return err_sys(err, pid, "start the command");
    if (child.err.code) {
        *err = child.err;
        return err->code;
    }
    if (child.exec_errno) {
        *ret_errno = child.exec_errno;
        return 1;
    }
    *ret_pid = pid;
    return 0;
}
