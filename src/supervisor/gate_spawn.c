#include "supervisor/gate_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"

enum { ABOVE = GATE_FDS_MAX + 1 }; /* all that the child gets, and its program */

/* Shared with the child, which runs on our memory until it has become bawn-gate (CLONE_VFORK). */
struct birth {
    int exe, fds[GATE_FDS_MAX];
    size_t n_fds;
    char *envp[2];
    pid_t parent;
    int error;
};

static int be_born(struct birth *b) {
    static const struct rlimit none = {0, 0};
    int exe = (int)b->n_fds, r;
    sigset_t empty;

    /* Own group: the terminal's ^C is for the command. Without us it has nothing to live for. */
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (getppid() != b->parent)
        return -ESRCH;
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < b->n_fds; i++)
        if (dup2(b->fds[i], (int)i) < 0)
            return -errno;
    /* Whoever started bawn may have left descriptors open. */
    r = dup3(b->exe, exe, O_CLOEXEC) < 0 ? -errno : fd_close_from((unsigned)exe + 1);
    if (r < 0)
        return r;
    sigemptyset(&empty);
    if (sigprocmask(SIG_SETMASK, &empty, NULL) < 0 || chdir("/") < 0)
        return -errno;
    fexecve(exe, (char *[]){"bawn-gate", NULL}, b->envp);
    return -errno;
}

static int child(void *arg) {
    struct birth *b = arg;

    b->error = be_born(b);
    return EXIT_SANDBOX;
}

/* Copies above the numbers where they go, so that none is overwritten before it was copied down. */
static int lift(const struct gate_spawn *s, int control, int messages, struct birth *b) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (b->n_fds = 0; b->n_fds < s->n_fds; b->n_fds++) {
        const int own[] = {-1, -1, messages, control};
        int from = b->n_fds < ARRAY_LEN(own) ? own[b->n_fds] : s->fds[b->n_fds];
        int fd = fcntl(from >= 0 ? from : null, F_DUPFD_CLOEXEC, ABOVE);

        if (fd < 0)
            return -errno;
        b->fds[b->n_fds] = fd;
    }
    return 0;
}

static int open_program(const char *program, struct err *err) {
    char path[PATH_MAX];
    int fd = program ? open(program, O_RDONLY | O_CLOEXEC) : engine_helper("bawn-gate", path, sizeof path);

    if (program && fd < 0)
        fd = -errno;
    fd = fd < 0 ? fd : fd_move_above(fd, ABOVE);
    return fd < 0 ? err_sys(err, fd, "find bawn-gate, which belongs beside bawn or in ../libexec/bawn") : fd;
}

static int start(const struct gate_spawn *s, int exe, int control, int messages, pid_t *ret_pid) {
    CLEANUP(freep) char *trust = s->trust ? str_dupf("SSL_CERT_FILE=%s", s->trust) : NULL;
    struct birth b = {.exe = exe, .parent = getpid(), .envp = {trust}};
    int r = lift(s, control, messages, &b);
    pid_t pid = -1;

    if (r == 0) {
        pid = process_clone(child, &b, CLONE_VM | CLONE_VFORK, NULL);
        r = pid < 0 ? (int)pid : b.error;
    }
    for (size_t i = 0; i < b.n_fds; i++)
        close(b.fds[i]);
    if (pid > 0 && r < 0)
        process_end(pid);
    if (r == 0)
        *ret_pid = pid;
    return r;
}

int gate_spawn(const struct gate_spawn *s, struct gate_child *ret, struct err *err) {
    CLEANUP(closep) int exe = open_program(s->program, err), theirs = -1, messages = -1;
    struct gate_child c = {.pid = -1, .sock = -1, .messages = -1};
    int pair[2], r;

    if (exe < 0)
        return exe;
    r = sock_pair(pair);
    if (r == 0) {
        c.sock = pair[0];
        theirs = pair[1];
        r = pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
    }
    if (r == 0) {
        c.messages = pair[0];
        messages = pair[1];
        r = start(s, exe, theirs, messages, &c.pid);
    }
    if (r == 0) {
        *ret = c;
        return 0;
    }
    closep(&c.sock);
    closep(&c.messages);
    return err_sys(err, r, "start bawn-gate");
}
