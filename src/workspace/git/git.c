/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/git.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <grp.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"

/*
 * Theory of operation: git reads its configuration from $GIT_DIR/config, from files that the environment names, and from -c.
 * The first is ours, the second are /dev/null, the third are not used. Hooks are looked for in $GIT_DIR/hooks, which does not
 * exist. Everything else that could start a program (filters, fsmonitor, external diff, pager, editor, ssh, helpers, gpg)
 * needs a key in the configuration or a variable in the environment. The object store has neither.
 */

#define SCRATCH ".bawn-git-"
enum { SCRATCH_YOUNG_S = 60 };

static const char *const programs[] = {"/usr/bin/git", "/usr/local/bin/git", "/bin/git"};

static const char config_text[] = "[core]\n"
                                  "\trepositoryFormatVersion = %d\n"
                                  "\tbare = false\n"
                                  "\thooksPath = /dev/null\n"
                                  "\tattributesFile = /dev/null\n"
                                  "\texcludesFile = /dev/null\n"
                                  "\tfsmonitor = false\n"
                                  "\tuntrackedCache = false\n"
                                  "\tsplitIndex = false\n"
                                  "\tlogAllRefUpdates = false\n"
                                  "[protocol]\n"
                                  "\tallow = never\n"
                                  "[gc]\n"
                                  "\tauto = 0\n"
                                  "[maintenance]\n"
                                  "\tauto = false\n"
                                  "[index]\n"
                                  "\tversion = 2\n"
                                  "\tthreads = 1\n"
                                  "[pack]\n"
                                  "\tthreads = 1\n"
                                  "%s";

/* Where the child has its descriptors. */
enum { CHILD_IN, CHILD_OUT, CHILD_ERR, CHILD_OBJECTS, CHILD_MORE, CHILD_FDS };
#define PROC_FD "/proc/self/fd/%d"

static const char *const fixed_env[] = {
    "PATH=/usr/bin:/bin",       "HOME=/nonexistent",           "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C",
    "GIT_CONFIG_NOSYSTEM=1",    "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",  "GIT_ATTR_NOSYSTEM=1",
    "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",         "GIT_ALLOW_PROTOCOL=",          "GIT_TERMINAL_PROMPT=0",
    "GIT_ASKPASS=/bin/false",   "GIT_SSH_COMMAND=/bin/false",  "GIT_EDITOR=/bin/false",        "GIT_PAGER=cat",
    "GIT_OPTIONAL_LOCKS=0",
};
enum { ENV_OWN = 5, ENV_MAX = ARRAY_LEN(fixed_env) + ENV_OWN + 1, ENV_LINE = 4200 };

static const char *find_program(void) {
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (access(programs[i], X_OK) == 0)
            return programs[i];
    return NULL;
}

static int write_file(const struct git *g, const char *name, const char *text, struct err *err) {
    CLEANUP(closep) int fd = openat(g->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

    if (r >= 0 && g->drop && fchown(fd, g->uid, g->gid) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, r, "write '%s/%s'", g->dir, name) : 0;
}

static int fill(const struct git *g, const struct git_opts *opts, struct err *err) {
    static const char *const folders[] = {"objects", "objects/pack", "refs", "tree"};
    char config[sizeof config_text + 100];
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdirat(g->fd, folders[i], 0700) < 0 ||
            (g->drop && fchownat(g->fd, folders[i], g->uid, g->gid, AT_SYMLINK_NOFOLLOW) < 0))
            return err_sys(err, -errno, "make '%s/%s'", g->dir, folders[i]);
    snprintf(config, sizeof config, config_text, opts->sha256, opts->sha256 ? "[extensions]\n\tobjectFormat = sha256\n" : "");
    r = write_file(g, "config", config, err);
    r = r < 0 ? r : write_file(g, "HEAD", "ref: refs/heads/none\n", err);
    if (r >= 0 && opts->shallow)
        r = write_file(g, "shallow", opts->shallow, err);
    /* Last: from here on it is theirs. */
    if (r >= 0 && g->drop && fchown(g->fd, g->uid, g->gid) < 0)
        return err_sys(err, -errno, "give '%s' to its user", g->dir);
    return r;
}

static int choose_ids(struct git *g, int owner, struct err *err) {
    struct stat st;

    if (fstat(owner, &st) < 0)
        return err_sys(err, -errno, "look at the owner of the workspace");
    g->uid = st.st_uid;
    g->gid = st.st_gid;
    g->drop = geteuid() == 0 && st.st_uid != 0;
    return 0;
}

/* What was left in a shared folder by one of us that was killed: nobody holds its lock. Young ones may not be locked yet. */
static void sweep(const char *folder, int parent) {
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        CLEANUP(closep) int fd = -1;
        struct stat st;

        if (!str_starts(e->d_name, SCRATCH))
            continue;
        fd = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime + SCRATCH_YOUNG_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(parent, e->d_name);
    }
    if (d)
        closedir(d);
}

int git_init(struct git *ret, const struct git_opts *opts, struct err *err) {
    CLEANUP(git_done) struct git g = GIT_INIT;
    const char *folder;
    int r = choose_ids(&g, opts->owner, err);

    if (r < 0)
        return r;
    g.program = find_program();
    if (!g.program)
        return err_set(err, -ENOENT, "git is not installed (looked for %s, %s and %s)", programs[0], programs[1], programs[2]);
    folder = g.drop ? "/var/tmp" : opts->folder; /* root's own folders are closed to them */
    g.dir = str_dupf("%s/" SCRATCH "XXXXXX", folder);
    if (!g.dir)
        return err_oom(err);
    g.parent = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (g.parent < 0 || !mkdtemp(g.dir))
        return err_sys(err, -errno, "make a folder in '%s'", folder);
    g.fd = open(g.dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (g.fd < 0 || flock(g.fd, LOCK_EX) < 0)
        return err_sys(err, -errno, "open '%s'", g.dir);
    if (g.drop)
        sweep(folder, g.parent);
    r = fill(&g, opts, err);
    if (r < 0)
        return r;
    *ret = g;
    g = (struct git)GIT_INIT;
    return 0;
}

void git_done(struct git *g) {
    if (g->fd >= 0)
        remove_tree(g->parent, strrchr(g->dir, '/') + 1);
    closep(&g->fd);
    closep(&g->parent);
    freep(&g->dir);
}

struct launch_git {
    const struct git *git;
    const struct git_call *call;
    int fds[CHILD_FDS];
    pid_t parent;
    char *argv[GIT_ARGS_MAX + 2];
    char *envp[ENV_MAX];
    char lines[ENV_OWN][ENV_LINE];
    char tree[ENV_LINE]; /* see enter() */
};

static int prepare(struct launch_git *l, struct err *err) {
    const struct git_call *c = l->call;
    size_t n = 0, own = 0;

    l->argv[n++] = (char *)"git";
    for (size_t i = 0; c->argv[i]; i++) {
        if (i == GIT_ARGS_MAX)
            BUG("too many arguments for git");
        l->argv[n++] = (char *)c->argv[i];
    }
    for (n = 0; n < ARRAY_LEN(fixed_env); n++)
        l->envp[n] = (char *)fixed_env[n];
    if (strlen(l->git->dir) > ENV_LINE - 100)
        return err_set(err, -ENAMETOOLONG, "'%s' is too long a path for git", l->git->dir);
    snprintf(l->tree, sizeof l->tree, "%s/tree", l->git->dir);
    snprintf(l->lines[own++], ENV_LINE, "GIT_DIR=%s", l->git->dir);
    snprintf(l->lines[own++], ENV_LINE, "GIT_INDEX_FILE=%s/%s", l->git->dir, c->index ? c->index : "index");
    if (c->cwd >= 0)
        snprintf(l->lines[own++], ENV_LINE, "GIT_WORK_TREE=.");
    if (c->objects >= 0)
        snprintf(l->lines[own++], ENV_LINE, "GIT_OBJECT_DIRECTORY=" PROC_FD, CHILD_OBJECTS);
    if (c->more >= 0)
        snprintf(l->lines[own++], ENV_LINE, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" PROC_FD, CHILD_MORE);
    for (size_t i = 0; i < own; i++)
        l->envp[n++] = l->lines[i];
    return 0;
}

static bool place_fds(struct launch_git *l) {
    for (int i = 0; i < CHILD_FDS; i++) /* out of the way first: one may stand where another has to go */
        if (l->fds[i] >= 0 && (l->fds[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, 2 * CHILD_FDS)) < 0)
            return false;
    for (int i = 0; i < CHILD_FDS; i++)
        if (l->fds[i] >= 0 ? dup2(l->fds[i], i) < 0 : close(i) < 0 && errno != EBADF)
            return false;
    return fd_close_from(CHILD_FDS) == 0;
}

static bool become(const struct git *g) {
    return !g->drop ||
           (setgroups(0, NULL) == 0 && setresgid(g->gid, g->gid, g->gid) == 0 && setresuid(g->uid, g->uid, g->uid) == 0);
}

/* git changes to the working tree by its path. For somebody else that may lead through folders of root's, so the tree is
 * mounted where they can reach it, for this process alone. */
static bool enter(const struct launch_git *l) {
    if (fchdir(l->call->cwd >= 0 ? l->call->cwd : l->git->fd) < 0)
        return false;
    return !l->git->drop || l->call->cwd < 0 ||
           (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount(".", l->tree, NULL, MS_BIND, NULL) == 0 && chdir(l->tree) == 0);
}

static bool limit(void) {
    const rlim_t max = (rlim_t)1 << GIT_FILE_MAX_LOG2;
    struct rlimit l;

    if (getrlimit(RLIMIT_FSIZE, &l) < 0)
        return false;
    l.rlim_max = MIN_OF(l.rlim_max, max);
    l.rlim_cur = MIN_OF(l.rlim_cur, max);
    return setrlimit(RLIMIT_FSIZE, &l) == 0;
}

/* In the child; only system calls. */
NORETURN static void exec_git(struct launch_git *l) {
    char failed[100];
    sigset_t none;

    sigemptyset(&none);
    /* A session of its own: no terminal to ask on, no ^C in the middle of a write; it ends with us. The death signal comes
     * after the change of ids, which clears it. */
    if (enter(l) && place_fds(l) && limit() && setsid() >= 0 && become(l->git) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == l->parent && sigprocmask(SIG_SETMASK, &none, NULL) == 0 &&
        signal(SIGPIPE, SIG_DFL) != SIG_ERR)
        execve(l->git->program, l->argv, l->envp);
    snprintf(failed, sizeof failed, "cannot be started: %s\n", strerror(errno));
    (void)!write(l->fds[CHILD_ERR], failed, strlen(failed));
    _exit(EXIT_NOTFOUND);
}

/* Both pipes to their ends. What git says is kept up to a limit, what it answers up to the buffer's. */
static int collect(int out_fd, int err_fd, struct buf *out, struct buf *said) {
    struct pollfd p[] = {{.fd = out_fd, .events = POLLIN}, {.fd = err_fd, .events = POLLIN}};
    char data[65536];

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return -errno;
        for (size_t i = 0; i < ARRAY_LEN(p); i++) {
            ssize_t n = p[i].fd >= 0 && p[i].revents ? fd_read_some(p[i].fd, data, sizeof data) : -EAGAIN;

            if (n == 0 || (n < 0 && n != -EAGAIN))
                p[i].fd = -1;
            else if (n > 0 && i == 0)
                buf_add(out, data, (size_t)n);
            else if (n > 0)
                buf_add(said, data, MIN_OF((size_t)n, said->ceiling - MIN_OF(said->len, said->ceiling)));
        }
        if (out && !buf_ok(out))
            return -EFBIG;
    }
    return 0;
}

static int git_failed(const struct git_call *c, int status, const struct buf *said, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(8 * GIT_STDERR_MAX);
    size_t len = strcspn(buf_str(said), "\n");
    CLEANUP(freep) char *line = strndup(buf_str(said), len);

    buf_add_printable(&text, line ? line : "");
    if (WIFSIGNALED(status))
        return err_set(err, -EIO, "git %s was ended by signal %d", c->argv[0], WTERMSIG(status));
    return err_set(err, -EIO, "git %s: %s", c->argv[0], text.len ? buf_str(&text) : "failed");
}

static int finish(const struct git_call *c, pid_t pid, int r, const struct buf *said, struct err *err) {
    int status;

    if (r < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "wait for git");
    if (r == -EFBIG)
        return err_set(err, r, "git %s: the answer is too long", c->argv[0]);
    if (r < 0)
        return err_sys(err, r, "read what git %s answers", c->argv[0]);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 1 && c->may_fail)))
        return WEXITSTATUS(status);
    return git_failed(c, status, said, err);
}

static int make_pipe(int *ret_read, int *ret_write) {
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return 0;
}

int git_run(const struct git *g, const struct git_call *call, struct buf *out, struct err *err) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(closep) int out_read = -1;
    CLEANUP(closep) int out_write = -1;
    CLEANUP(closep) int err_read = -1;
    CLEANUP(closep) int err_write = -1;
    CLEANUP(buf_done) struct buf said = BUF_INIT(GIT_STDERR_MAX);
    struct launch_git l = {.git = g, .call = call, .parent = getpid()};
    int r = prepare(&l, err);
    pid_t pid;

    if (r < 0)
        return r;
    r = null < 0 ? -errno : make_pipe(&err_read, &err_write);
    if (r == 0 && out && call->out < 0)
        r = make_pipe(&out_read, &out_write);
    if (r < 0)
        return err_sys(err, r, "prepare to run git");
    l.fds[CHILD_IN] = call->in >= 0 ? call->in : null;
    l.fds[CHILD_OUT] = call->out >= 0 ? call->out : out ? out_write : null;
    l.fds[CHILD_ERR] = err_write;
    l.fds[CHILD_OBJECTS] = call->objects;
    l.fds[CHILD_MORE] = call->more;
    pid = fork();
    if (pid == 0)
        exec_git(&l);
    if (pid < 0)
        return err_sys(err, -errno, "start git");
    closep(&out_write);
    closep(&err_write);
    return finish(call, pid, collect(out_read, err_read, out, &said), &said, err);
}

int git_input(const struct buf *text, struct err *err) {
    CLEANUP(closep) int fd = memfd_create("git-input", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, buf_str(text), text->len);

    if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, r, "prepare what git reads") : TAKE_FD(fd);
}
