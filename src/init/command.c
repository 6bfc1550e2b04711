#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "init/init.h"
#include "os/fd.h"

enum { STACK = 128 * 1024, PATH_BUF = 4096, INIT_SCRIPT_ARGS_MAX = 4096 };

struct child {
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

/* A look costs a tenth of an execve() that fails. */
static bool is_absent(const char *path) {
    return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
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
    struct child *child = arg;
    struct init *in = child->in;
    const struct command *c = child->command;
    const struct init_start *s = &in->start;

    if (take_place(c, &child->err) < 0 || take_streams(c, &child->err) < 0)
        return EXIT_SANDBOX;
    if ((s->flags & INIT_FLAG_NO_PIDNS) && lockdown(s, &child->err) < 0)
        return EXIT_SANDBOX;
    if (chdir(c->cwd) < 0) {
        err_sys(&child->err, -errno, "enter the working directory '%s'", c->cwd);
        return EXIT_SANDBOX;
    }
    umask((mode_t)s->umask);
    sigprocmask(SIG_SETMASK, &in->old_mask, NULL);
    if (in->guard && guard_install(in->guard, &child->err) < 0) /* last of all: only execve may follow, nobody answers yet */
        return EXIT_SANDBOX;
    child->exec_errno = search_and_exec(c);
    return EXIT_NOTFOUND;
}

pid_t command_clone(int (*f)(void *), void *arg, int flags) {
    static char stack[STACK] __attribute__((aligned(16))); /* not allocated: the limits on memory are already in force */
    /* Shares memory until it execs: nothing is copied, and errors come back as they are. */
    pid_t pid = clone(f, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD | flags, arg);

    return pid < 0 ? -errno : pid;
}

int command_start(struct init *in, const struct command *c, pid_t *ret_pid, int *ret_errno, struct err *err) {
    struct child child = {.in = in, .command = c};
    /* With a guard it shares the descriptors too, so that the listener is ours at once; our 0, 1 and 2 are then the command's. */
    pid_t pid = command_clone(child_main, &child, in->guard ? CLONE_FILES : 0);

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
