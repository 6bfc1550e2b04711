#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/castock.h"
#include "supervisor/castock_priv.h"

enum { ABOVE = 16, FDS_MAX = 5, MESSAGE_MAX = 900 };

/* What a new bawn-broker is: fds become 0, 1, 2, ... */
struct job {
    int exe;
    char *const *argv;
    char *const *envp;
    int fds[FDS_MAX];
    size_t n_fds;
};

/* Default signals, none blocked, and out of the terminal's group: Ctrl-C is for the command inside. */
static void NORETURN become(const struct job *j) {
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD};
    sigset_t none;

    sigemptyset(&none);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        signal(signals[i], SIG_DFL);
    setpgid(0, 0);
    for (size_t i = 0; i < j->n_fds; i++)
        if (dup2(j->fds[i], (int)i) < 0)
            _exit(EXIT_SANDBOX);
    if (sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        fexecve(j->exe, j->argv, j->envp);
    _exit(EXIT_SANDBOX);
}

/* It dies with us. */
static pid_t job_start(const struct job *j) {
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(EXIT_SANDBOX);
    become(j);
}

/* A copy out of the way of the numbers that the child fills. */
static int lift(int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);

    return copy < 0 ? -errno : copy;
}

static void job_done(struct job *j) {
    closep(&j->exe);
    for (size_t i = 0; i < FDS_MAX; i++)
        closep(&j->fds[i]);
}
/* clang-format off */
#define JOB_INIT {.exe = -1, .fds = {-1, -1, -1, -1, -1}}
/* clang-format on */

static int job_find(struct job *j, struct err *err) {
    char path[PATH_MAX];
    CLEANUP(closep) int exe = engine_helper("bawn-broker", path, sizeof path);

    if (exe < 0)
        return err_sys(err, exe, "find bawn-broker, which belongs beside bawn or in ../libexec/bawn");
    j->exe = lift(exe);
    return j->exe < 0 ? err_sys(err, TAKE(j->exe, -1), "start bawn-broker") : 0;
}

static int job_add(struct job *j, int fd, struct err *err) {
    int copy = lift(fd);

    if (copy < 0)
        return err_sys(err, copy, "start bawn-broker");
    j->fds[j->n_fds++] = copy;
    return 0;
}

/* Input and output: nothing. messages: where stderr goes, -1 for nowhere. */
static int job_stdio(struct job *j, int messages, struct err *err) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null < 0 ? err_sys(err, -errno, "open /dev/null") : job_add(j, null, err);

    r = r < 0 ? r : job_add(j, null, err);
    return r < 0 ? r : job_add(j, messages < 0 ? null : messages, err);
}

static int wait_for(pid_t pid, int messages, struct err *err) {
    char text[MESSAGE_MAX];
    ssize_t n = fd_read_some(messages, text, sizeof text - 1);
    const char *line = text;
    int status = 0;

    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "wait for bawn-broker");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        return err_set(err, -EIO, "bawn-broker was ended by signal %d", WTERMSIG(status));
    if (str_starts(line, "bawn: "))
        line += strlen("bawn: ");
    return err_set(err, -EIO, "%s", line[0] ? line : "bawn-broker failed and did not say why");
}

/* The only variable that bawn-broker --make looks at. */
static char *trust_variable(void) {
    const char *value = getenv("SSL_CERT_FILE");

    return str_dupf("SSL_CERT_FILE=%s", value ? value : "");
}

int castock_make(const char *path, struct err *err) {
    CLEANUP(freep) char *variable = trust_variable();
    CLEANUP(job_done) struct job j = JOB_INIT;
    CLEANUP(closep) int in = -1, out = -1;
    char *argv[] = {"bawn-broker", "--make", (char *)(uintptr_t)path, NULL}, *envp[] = {variable, NULL};
    int pipe_fds[2], r = job_find(&j, err);
    pid_t pid;

    if (r < 0 || !variable)
        return r < 0 ? r : err_oom(err);
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "start bawn-broker");
    in = pipe_fds[0];
    out = pipe_fds[1];
    r = job_stdio(&j, out, err);
    j.argv = argv;
    j.envp = envp;
    pid = r < 0 ? r : job_start(&j);
    if (pid < 0)
        return r < 0 ? r : err_sys(err, pid, "start bawn-broker");
    closep(&out);
    job_done(&j);
    return wait_for(pid, in, err);
}

/* For the next run, while this one goes on. If it fails, the next run waits. */
static pid_t refill(const struct castock *c) {
    const char *slash = strrchr(c->path, '/'), *word = strrchr(c->path, '-');
    CLEANUP(freep) char *path = str_dupf("%.*s/free-%s", (int)(slash - c->path), c->path, word + 1);
    CLEANUP(freep) char *variable = trust_variable();
    CLEANUP(job_done) struct job j = JOB_INIT;
    char *argv[] = {"bawn-broker", "--make", path, NULL}, *envp[] = {variable, NULL};
    pid_t pid;

    if (!path || !variable || job_find(&j, NULL) < 0 || job_stdio(&j, -1, NULL) < 0)
        return 0;
    j.argv = argv;
    j.envp = envp;
    pid = job_start(&j);
    return pid < 0 ? 0 : pid;
}

void castock_wait_maker(struct castock *c) {
    while (c->maker > 0 && waitpid(c->maker, NULL, 0) < 0 && errno == EINTR)
        ;
    c->maker = 0;
}

int castock_broker(struct castock *c, int *ret_sock, int *ret_pid, struct err *err) {
    CLEANUP(job_done) struct job j = JOB_INIT;
    CLEANUP(closep) int ours = -1, theirs = -1, dir = -1;
    char *argv[] = {"bawn-broker", "--serve", NULL}, *envp[] = {NULL};
    int pair[2], r = job_find(&j, err);
    pid_t pid;

    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "start bawn-broker");
    ours = pair[0];
    theirs = pair[1];
    dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(err, -errno, "open the certificate authority");
    r = job_stdio(&j, STDERR_FILENO, err);
    r = r < 0 ? r : job_add(&j, theirs, err);
    r = r < 0 ? r : job_add(&j, dir, err);
    j.argv = argv;
    j.envp = envp;
    pid = r < 0 ? r : job_start(&j);
    if (pid < 0)
        return r < 0 ? r : err_sys(err, pid, "start bawn-broker");
    if (!c->used)
        c->maker = refill(c);
    c->used = true;
    *ret_sock = TAKE_FD(ours);
    *ret_pid = pid;
    return 0;
}
