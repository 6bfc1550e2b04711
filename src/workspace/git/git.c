/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/git.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/remove.h"
#include "os/spawn.h"

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
    int r = file_create_at(g->fd, name, 0600, text, strlen(text));

    if (r >= 0 && g->drop && fchownat(g->fd, name, g->uid, g->gid, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, r, "write '%s/%s'", g->dir, name) : 0;
}

static int fill_dir(const struct git *g, const struct git_opts *opts, struct err *err) {
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

/* What a killed process of ours left in a shared folder: its lock is free. Young ones may not be locked yet. */
static void sweep_scratch(int parent) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(parent, ".", &d);
    while ((e = dir_next(&d))) {
        CLEANUP(closep) int fd = -1;
        struct stat st;

        if (!str_starts(e->d_name, SCRATCH))
            continue;
        fd = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime + SCRATCH_YOUNG_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(parent, e->d_name);
    }
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
        sweep_scratch(g.parent);
    r = fill_dir(&g, opts, err);
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
    char *argv[GIT_ARGS_MAX + 2];
    char *envp[ENV_MAX];
    char lines[ENV_OWN][ENV_LINE];
    char tree[ENV_LINE]; /* see enter_tree() */
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

static bool become_owner(const struct git *g) {
    return !g->drop || (syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, g->gid, g->gid, g->gid) == 0 &&
                        syscall(SYS_setresuid, g->uid, g->uid, g->uid) == 0);
}

/* git changes to the working tree by its path. That may lead through folders that only root can pass, so the tree is mounted where
 * the owner can reach it, for this process alone. */
static bool enter_tree(const struct launch_git *l) {
    if (fchdir(l->call->cwd >= 0 ? l->call->cwd : l->git->fd) < 0)
        return false;
    return !l->git->drop || l->call->cwd < 0 ||
           (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount(".", l->tree, NULL, MS_BIND, NULL) == 0 && chdir(l->tree) == 0);
}

static bool limit_files(void) {
    const rlim_t max = (rlim_t)1 << GIT_FILE_MAX_LOG2;
    struct rlimit l;

    if (getrlimit(RLIMIT_FSIZE, &l) < 0)
        return false;
    l.rlim_max = MIN_OF(l.rlim_max, max);
    l.rlim_cur = MIN_OF(l.rlim_cur, max);
    return setrlimit(RLIMIT_FSIZE, &l) == 0;
}

/* In the child; only system calls. */
static int become_git(void *arg) {
    const struct launch_git *l = arg;

    return enter_tree(l) && limit_files() && become_owner(l->git) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;
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

int git_run(const struct git *g, const struct git_call *call, struct buf *out, struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(GIT_STDERR_MAX);
    struct launch_git l = {.git = g, .call = call};
    const int fds[CHILD_FDS] = {call->in, call->out, -1, call->objects, call->more};
    /* A session of its own: no terminal to ask on, no ^C in the middle of a write. */
    const struct spawn s = {.path = g->program,
                            .argv = l.argv,
                            .envp = l.envp,
                            .fds = fds,
                            .n_fds = call->more >= 0      ? CHILD_FDS
                                     : call->objects >= 0 ? CHILD_MORE
                                                          : CHILD_OBJECTS,
                            .cwd = SPAWN_CWD_STAY,
                            .group = SPAWN_SESSION,
                            .own_memory = g->drop,
                            .before = become_git,
                            .arg = &l};
    int status = prepare(&l, err);

    if (status < 0)
        return status;
    status = spawn_collect(&s, call->out < 0 ? out : NULL, &said);
    if (status == -EFBIG)
        return err_set(err, status, "git %s: the answer is too long", call->argv[0]);
    if (status < 0)
        return err_sys(err, status, "run git %s", call->argv[0]);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 1 && call->may_fail)))
        return WEXITSTATUS(status);
    return git_failed(call, status, &said, err);
}

int git_input(const struct buf *text, struct err *err) {
    int fd = fd_memory("git-input", buf_str(text), text->len);

    return fd < 0 ? err_sys(err, fd, "prepare what git reads") : fd;
}
