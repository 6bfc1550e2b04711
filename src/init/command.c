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
    int exec_errno; /* results, written by the child into our memory */
    struct err err;
};

static int take_terminal(const struct init *in, struct err *err) {
    static const uint32_t flag[3] = {INIT_FLAG_TTY_STDIN, INIT_FLAG_TTY_STDOUT, INIT_FLAG_TTY_STDERR};

    for (int i = 0; in->tty >= 0 && i < 3; i++)
        if ((in->start.flags & flag[i]) && dup2(in->tty, i) < 0)
            return err_sys(err, -errno, "terminal as descriptor %d", i);
    return 0;
}

/* A script without "#!" runs in the shell, as with execvp(). */
static int exec_path(const struct init_start *s, const char *path) {
    char *argv[INIT_SCRIPT_ARGS_MAX + 2] = {"/bin/sh", (char *)(uintptr_t)path};

    execve(path, s->argv, s->envp);
    if (errno != ENOEXEC || s->argc > INIT_SCRIPT_ARGS_MAX)
        return errno;
    for (size_t i = 1; i < s->argc; i++)
        argv[i + 1] = s->argv[i];
    execve(argv[0], argv, s->envp);
    return errno;
}

/* Like a shell: a name without a slash is looked for in PATH; a file that may not be executed is remembered as EACCES. */
static int search_and_exec(const struct init_start *s) {
    char path[PATH_BUF];
    const char *name = s->argv[0], *dir = s->search_path;
    int result = ENOENT;

    if (strchr(name, '/') || *name == 0)
        return exec_path(s, name);
    while (*dir) {
        size_t len = strcspn(dir, ":");
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)len, len ? dir : ".", name);

        if (n > 0 && (size_t)n < sizeof path) {
            int e = exec_path(s, path);

            if (e == EACCES)
                result = EACCES;
            else if (e != ENOENT && e != ENOTDIR)
                return e;
        }
        dir += len + (dir[len] == ':');
    }
    return result;
}

static int child_main(void *arg) {
    struct child *c = arg;
    struct init *in = c->in;
    const struct init_start *s = &in->start;

    setpgid(0, 0);
    in->command = getpid();
    terminal_foreground(in);
    if (take_terminal(in, &c->err) < 0)
        return EXIT_SANDBOX;
    if ((s->flags & INIT_FLAG_NO_PIDNS) && lockdown(s, &c->err) < 0)
        return EXIT_SANDBOX;
    if (chdir(s->cwd) < 0) {
        err_sys(&c->err, -errno, "enter the working directory '%s'", s->cwd);
        return EXIT_SANDBOX;
    }
    umask((mode_t)s->umask);
    sigprocmask(SIG_SETMASK, &in->old_mask, NULL);
    if (in->guard && guard_install(in->guard, &c->err) < 0) /* last of all: only execve may follow, nobody answers yet */
        return EXIT_SANDBOX;
    c->exec_errno = search_and_exec(s);
    return EXIT_NOTFOUND;
}

int command_start(struct init *in, int *ret_errno, struct err *err) {
    static char stack[STACK] __attribute__((aligned(16))); /* not allocated: the limits on memory are already in force */
    struct child c = {.in = in};
    /* Shares memory until it execs: nothing is copied, and errors come back as they are. With a guard it shares the descriptors
     * too, so that the listener is ours at once; what it does to 0, 1 and 2 is no loss, we close them anyway. */
    int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (in->guard ? CLONE_FILES : 0);
    pid_t pid = clone(child_main, stack + STACK, flags, &c);

    if (pid < 0)
        return err_sys(err, -errno, "start the command");
    in->command = pid;
    if (c.err.code) {
        *err = c.err;
        return err->code;
    }
    if (c.exec_errno) {
        *ret_errno = c.exec_errno;
        return 1;
    }
    return 0;
}
