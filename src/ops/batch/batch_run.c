/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks as processes, and the loop that starts them as others end, and ends them when the user interrupts or one fails. */
#include "ops/batch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/run/run_request.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "os/spawn.h"
#include "supervisor/session/run.h"

/* -- one task: ourselves again, as `bawn run` ----------------------------------------------------------------------------- */

enum { RESULT_FD = 3, STAMP_TRIES = 100, READ_STEP = 64 * 1024, OUTPUT_MAX = 1024 * 1024 * 1024 };
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

static int open_logs(struct batch *b, struct err *err) {
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

static int add_option(struct strv *v, const char *name, const char *value) {
    return value ? strv_addf(v, "--%s=%s", name, value) : 0;
}

int batch_argv(const struct batch *b, const struct batch_task *t, struct strv *ret, struct err *err) {
    bool named = t->mode != WORKSPACE_DIRECT && t->mode != WORKSPACE_RO && t->id[0];
    const struct {
        const char *option, *value;
    } own[] = {
        {"directory", t->directory ? t->directory : b->request->dir},
        {"profile", t->profile},
        {"agent", t->agent},
        {"timeout", t->timeout},
        {"workspace", workspace_mode_names[t->mode]},
        {"name", named ? t->id : NULL},
    };
    int r = strv_add(ret, "bawn") < 0 ? -ENOMEM : strv_add(ret, "run");

    r = r < 0 ? r : strv_add_all(ret, &b->words);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(own); i++)
        r = add_option(ret, own[i].option, own[i].value);
    for (size_t i = 0; r >= 0 && i < t->env.len; i++)
        r = add_option(ret, "env", t->env.v[i]);
    if (r >= 0 && t->id[0])
        r = strv_addf(ret, "--result-fd=%d", RESULT_FD);
    r = r < 0 ? r : strv_add(ret, "--");
    return r < 0 || strv_add_all(ret, &t->command) < 0 ? err_oom(err) : 0;
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

static int start_process(const struct batch *b, struct batch_task *t, struct err *err) {
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

/* -- the loop ------------------------------------------------------------------------------------------------------------- */

struct batch_loop {
    struct batch *b;
    const struct batch_watch *watch;
    int signals;
    sigset_t old;
    size_t running;
    struct batch_task *polled[BATCH_JOBS_MAX]; /* the tasks of the sources' slots, in their order */
    bool stopping;                             /* nothing more is started */
    int interrupts;
};

static int open_signals(struct batch_loop *l, struct err *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH, SIGPIPE};

    signal(SIGCHLD, SIG_DFL); /* our parent may have ignored it, and then no child can be waited for */
    l->signals = sigfd_open(wanted, ARRAY_LEN(wanted), &l->old);
    return l->signals < 0 ? err_sys(err, l->signals, "read signals") : 0;
}

/* A task that is not yet in its loop gets the order when it is. */
static void order_all(struct batch_loop *l, char order) {
    for (size_t i = 0; i < l->b->n; i++)
        if (l->b->v[i].link >= 0)
            send(l->b->v[i].link, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void interrupt_batch(struct batch_loop *l) {
    l->stopping = true;
    switch (++l->interrupts) {
    case 1:
        notice_say(&l->watch->notice, "ending %zu running, starting no more; once more kills them", l->running);
        order_all(l, RUN_PARENT_END);
        break;
    case 2:
        notice_say(&l->watch->notice, "killing %zu running", l->running);
        order_all(l, RUN_PARENT_KILL);
        break;
    default:
        for (size_t i = 0; i < l->b->n; i++)
            if (l->b->v[i].state == BATCH_RUNNING)
                kill(l->b->v[i].pid, SIGKILL); /* not yet waited for: the number is still its own */
    }
}

static void finish_failed_task(struct batch_loop *l, struct batch_task *t) {
    bool again = !l->stopping && t->attempts <= l->b->opts.retries;
    char time[24];

    format_duration(t->result.duration_ms, time);
    notice_say(&l->watch->notice, "%s: failed with exit status %d after %s%s", t->name, t->result.status, time,
               again ? ", trying again" : "");
    if (again && t->result.run[0])
        strv_add(&t->earlier, t->result.run);
    t->state = again ? BATCH_WAITING : BATCH_FAILED;
    if (again || l->stopping || !l->b->opts.stop_on_failure)
        return;
    l->stopping = true;
    if (l->running)
        notice_say(&l->watch->notice, "--stop-on-failure: ending %zu running", l->running);
    order_all(l, RUN_PARENT_END);
}

static void finish_task(struct batch_loop *l, struct batch_task *t) {
    char time[24];

    l->running--;
    if (t->result.status) {
        finish_failed_task(l, t);
        return;
    }
    t->state = BATCH_OK;
    format_duration(t->result.duration_ms, time);
    if (!l->watch->live)
        notice_say(&l->watch->notice, "%s: done after %s", t->name, time);
}

static void read_link(struct batch_task *t) {
    CLEANUP(freep) char *part = malloc(READ_STEP);
    ssize_t n = 1;

    while (part && t->link >= 0 && n > 0) {
        n = recv(t->link, part, READ_STEP, MSG_DONTWAIT);
        if (n > 0)
            buf_add(&t->report, part, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            closep(&t->link);
    }
}

static void reap_tasks(struct batch_loop *l) {
    for (size_t i = 0; i < l->b->n && l->running; i++) {
        struct batch_task *t = &l->b->v[i];
        int status;

        if (t->state != BATCH_RUNNING || waitpid(t->pid, &status, WNOHANG) != t->pid)
            continue;
        read_link(t);
        closep(&t->link);
        batch_take_report(t, status, clock_ms());
        finish_task(l, t);
    }
}

static int on_signals(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    struct batch_loop *l = arg;
    struct signalfd_siginfo info;

    while (sigfd_next(l->signals, &info))
        switch (info.ssi_signo) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
            interrupt_batch(l);
            break;
        case SIGWINCH:
            l->watch->resized(l->watch->arg);
            break;
        }
    reap_tasks(l);
    return 0;
}

/* What cannot be started is as if it had failed; the others go on. */
static void start_task(struct batch_loop *l, struct batch_task *t) {
    struct err err = {0};

    t->attempts++;
    t->begun_ms = clock_ms();
    t->state = BATCH_RUNNING;
    l->running++;
    if (start_process(l->b, t, &err) >= 0) {
        if (!l->watch->live)
            notice_say(&l->watch->notice, "%s: started%s", t->name, t->attempts > 1 ? " again" : "");
        return;
    }
    notice_say(&l->watch->notice, "%s: %s", t->name, err.msg);
    batch_take_report(t, EXIT_SANDBOX << 8, clock_ms());
    finish_task(l, t);
}

static struct batch_task *next_waiting(struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            return &b->v[i];
    return NULL;
}

static void want_links(struct evloop *e, void *arg) {
    struct batch_loop *l = arg;
    size_t n = 0;

    evloop_wake_in(e, l->watch->draw(l->b, l->interrupts > 0, l->watch->arg));
    for (size_t i = 0; i < l->b->n && n < ARRAY_LEN(l->polled); i++)
        if (l->b->v[i].link >= 0) {
            l->polled[n++] = &l->b->v[i];
            evloop_want(e, l->b->v[i].link, POLLIN);
        }
}

static int on_links(void *arg, const struct pollfd *fds, size_t n) {
    struct batch_loop *l = arg;

    for (size_t i = 0; i < n; i++)
        if (fds[i].revents)
            read_link(l->polled[i]);
    return 0;
}

static int turn_until_done(struct batch_loop *l, struct err *err) {
    struct evloop e = EVLOOP_INIT;
    struct evloop_source links = {.prepare = want_links, .ready = on_links, .arg = l},
                         signals = {.fd = l->signals, .events = POLLIN, .ready = on_signals, .arg = l};
    int r = evloop_add(&e, &links);

    r = r < 0 ? r : evloop_add(&e, &signals);
    while (r >= 0) {
        struct batch_task *t;

        while (!l->stopping && l->running < l->b->opts.jobs && (t = next_waiting(l->b)))
            start_task(l, t);
        if (!l->running)
            break;
        r = evloop_turn(&e);
    }
    evloop_done(&e);
    return r < 0 ? err_sys(err, r, "wait for tasks") : 0;
}

static int run_tasks(struct batch *b, const struct batch_watch *w, struct err *err) {
    struct batch_loop l = {.b = b, .watch = w, .signals = -1};
    int r = open_signals(&l, err);

    if (r < 0)
        return r;
    r = turn_until_done(&l, err);
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            b->v[i].state = b->v[i].attempts ? BATCH_FAILED : BATCH_SKIPPED;
    closep(&l.signals);
    sigprocmask(SIG_SETMASK, &l.old, NULL);
    return r < 0 ? r : l.interrupts;
}

/* The result stays beside the logs. A folder that has nothing in it was only a name. */
static int save_result(const struct batch *b, struct err *err) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(OUTPUT_MAX);
    int r;

    batch_json(b, &json);
    if (!buf_ok(&json))
        return err_oom(err);
    r = paths_publish_at(b->logs_fd, b->logs, "result.json", 0600, json.data, json.len, PUBLISH_REPLACE, err);
    if (b->opts.log_dir)
        rmdir(b->folder);
    return r;
}

int batch_perform(struct batch *b, const struct batch_watch *w, int *ret_interrupts, struct err *err) {
    int r = open_logs(b, err);

    r = r < 0 ? r : run_tasks(b, w, err);
    if (r < 0)
        return r;
    *ret_interrupts = r;
    return save_result(b, err);
}
