/* SPDX-License-Identifier: Apache-2.0 */
/* Where the output of tasks goes, and one task as a process: ourselves again, as `bawn run`. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/batch/batch.h"
#include "ops/run/run_request.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/spawn.h"

enum { RESULT_FD = 3, STAMP_TRIES = 100 };
static_assert(5 + 40 + 1 + 16 + 2 <= RUNDIR_NAME_MAX, "bawn-NAME-<ts>-9 is the name of a run");

/* Whether it is ours from now on: `bawn prune` may have come between mkdir and flock. */
static int lock_folder(struct batch *b, const char *path, struct err *err) {
    struct stat st;

    closep(&b->lock);
    b->lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (b->lock < 0 && errno == ENOENT)
        return 0;
    if (b->lock < 0 || flock(b->lock, LOCK_SH) < 0 || fstat(b->lock, &st) < 0)
        return err_sys(err, -errno, "lock '%s'", path);
    return st.st_nlink > 0;
}

/* A second that no other batch of this user has: the one that makes the folder has it. */
static int make_folder(struct batch *b, const char *top, struct err *err) {
    uint64_t now = clock_mark();

    for (uint64_t i = 0; i < STAMP_TRIES; i++) {
        CLEANUP(freep) char *path = NULL;
        char stamp[CLOCK_TEXT_SIZE];
        int r;

        snprintf(b->stamp, sizeof b->stamp, "%s", clock_text(now + i * 1000000000, CLOCK_STAMP, stamp));
        path = str_dupf("%s/%s", top, b->stamp);
        if (!path)
            return err_oom(err);
        r = mkdir(path, 0700) == 0 ? lock_folder(b, path, err) : errno == EEXIST ? 0 : err_sys(err, -errno, "make '%s'", path);
        if (r > 0)
            b->folder = TAKE_PTR(path);
        if (r)
            return MIN_OF(r, 0);
    }
    return err_set(err, -EEXIST, "more than %d batches were started in this moment", STAMP_TRIES);
}

int batch_open_logs(struct batch *b, struct err *err) {
    CLEANUP(freep) char *home = NULL, *top = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : paths_state(environ, home, "batch", &top, err);
    if (r >= 0 && !top)
        r = err_set(err, -ENOENT, "there is no place for what tasks print and change; set HOME or XDG_STATE_HOME");
    r = r < 0 ? r : paths_make_dirs(top, err);
    r = r < 0 ? r : make_folder(b, top, err);
    if (r >= 0 && b->opts.log_dir) {
        r = paths_make_dirs(b->opts.log_dir, err);
        r = r < 0 ? r : paths_workspace(b->opts.log_dir, &b->logs, err);
    } else if (r >= 0) {
        b->logs = strdup(b->folder);
        r = b->logs ? 0 : err_oom(err);
    }
    if (r < 0)
        return r;
    b->logs_fd = open(b->logs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return b->logs_fd < 0 ? err_sys(err, -errno, "open '%s'", b->logs) : 0;
}

/* '~' is in no name. */
void batch_log_name(const struct batch_task *t, const char *end, char ret[static 64]) {
    if (t->attempts > 1)
        snprintf(ret, 64, "%s~%u%s", t->name, t->attempts, end);
    else
        snprintf(ret, 64, "%s%s", t->name, end);
}

/* A new file: an old one of that name is never written to. */
static int open_log(const struct batch *b, const struct batch_task *t, const char *end, struct err *err) {
    char name[64];
    int fd;

    batch_log_name(t, end, name);
    if (unlinkat(b->logs_fd, name, 0) < 0 && errno != ENOENT)
        return err_sys(err, -errno, "remove '%s/%s'", b->logs, name);
    fd = openat(b->logs_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(err, -errno, "make '%s/%s'", b->logs, name) : fd;
}

static bool has_name(enum workspace_mode m) {
    return m == WORKSPACE_OVERLAY || m == WORKSPACE_SYNC || m == WORKSPACE_WORKTREE;
}

static int add_option(struct strv *v, const char *name, const char *value) {
    return value ? strv_addf(v, "--%s=%s", name, value) : 0;
}

int batch_argv(const struct batch *b, const struct batch_task *t, struct strv *ret, struct err *err) {
    const struct {
        const char *option, *value;
    } own[] = {
        {"directory", t->directory ? t->directory : b->request->dir},
        {"profile", t->profile},
        {"agent", t->agent},
        {"timeout", t->timeout},
        {"workspace", workspace_mode_names[t->mode]},
        {"name", has_name(t->mode) && t->id[0] ? t->id : NULL},
    };
    int r = strv_add(ret, "bawn") < 0 ? -ENOMEM : strv_add(ret, "run");

    for (size_t i = 0; r >= 0 && i < b->words.len; i++)
        r = strv_add(ret, b->words.v[i]);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(own); i++)
        r = add_option(ret, own[i].option, own[i].value);
    for (size_t i = 0; r >= 0 && i < t->env.len; i++)
        r = add_option(ret, "env", t->env.v[i]);
    if (r >= 0 && t->id[0])
        r = strv_addf(ret, "--result-fd=%d", RESULT_FD);
    r = r < 0 ? r : strv_add(ret, "--");
    for (size_t i = 0; r >= 0 && i < t->command.len; i++)
        r = strv_add(ret, t->command.v[i]);
    return r < 0 ? err_oom(err) : 0;
}

static void make_id(const struct batch *b, struct batch_task *t) {
    if (t->attempts > 1)
        snprintf(t->id, sizeof t->id, "bawn-%s-%s-%u", t->name, b->stamp, t->attempts);
    else
        snprintf(t->id, sizeof t->id, "bawn-%s-%s", t->name, b->stamp);
}

static int spawn_task(struct batch_task *t, char *const *argv, const int fds[static RESULT_FD + 1], struct err *err) {
    const struct spawn s = {.path = "/proc/self/exe",
                            .argv = argv,
                            .envp = environ,
                            .fds = fds,
                            .n_fds = RESULT_FD + 1,
                            .cwd = SPAWN_CWD_STAY,
                            .group = SPAWN_SESSION, /* the terminal's ^C is ours alone */
                            .outlives = true};      /* the end of the socket ends it, with time to clean up */
    int r = spawn_start(&s, &t->pid, NULL);

    return r < 0 ? err_sys(err, r, "start the task") : 0;
}

int batch_spawn(const struct batch *b, struct batch_task *t, struct err *err) {
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(closep) int out = -1;
    CLEANUP(closep) int errors = -1;
    CLEANUP(closep) int link = -1;
    int pair[2], r;

    make_id(b, t);
    r = batch_argv(b, t, &argv, err);
    if (r < 0 || (out = open_log(b, t, ".out", err)) < 0 || (errors = open_log(b, t, ".err", err)) < 0)
        return r < 0 ? r : err->code;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, -errno, "socket of a task");
    link = pair[0];
    r = spawn_task(t, argv.v, (const int[]){-1, out, errors, pair[1]}, err);
    close(pair[1]);
    if (r == 0)
        t->link = TAKE_FD(link);
    return r;
}
