/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a keeper: forked, prepares and starts the sandbox, answers the starter, serves, writes down state and audit events, and
 * takes everything down again. */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/session/audit_run.h"
#include "supervisor/session/box_run.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/session/sweep.h"

enum { LOG_MAX = 1024 * 1024 };

/* The answer to the starter: it runs (0), or why not. */
struct keep_word {
    int r;
    bool wants_copy;
    struct err err;
};

/* The keeper's log ------------------------------------------------------------------------------------------------- */

static void log_with_time(const char *line, size_t len) {
    char text[1200], time[CLOCK_TEXT_SIZE];
    size_t n = (size_t)snprintf(text, sizeof text, "%s ", clock_text(clock_mark(), CLOCK_ISO, time));

    n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)MIN_OF(len, sizeof text - n - 1), line);
    fd_write_all(STDERR_FILENO, text, MIN_OF(n, sizeof text - 1));
}

static int open_keeper_log(const struct box *b) {
    return openat(b->fd, "log/keeper.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
}

/* From now on messages go to the log; the terminal, and what else the starter had, is closed. */
static int begin_log(const struct box *b) {
    CLEANUP(closep) int fd = open_keeper_log(b);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_MAX / 2 &&
        renameat(b->fd, "log/keeper.log", b->fd, "log/keeper.log.1") == 0) {
        close(fd);
        fd = open_keeper_log(b);
    }
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return -errno;
    log_set_sink(log_with_time);
    log_set_quiet(false); /* the starter's wish is not about this log */
    return 0;
}

void keep_rotate_log(const struct keeper *k) {
    struct stat st;

    if (k->ready < 0 && fstat(STDERR_FILENO, &st) == 0 && st.st_size > LOG_MAX / 2)
        begin_log(k->box);
}

/* Once; messages go to the log from then on. -EPIPE: it has ended. */
static int keep_answer(struct keeper *k, int r, const struct err *err) {
    CLEANUP(closep) int fd = TAKE_FD(k->ready);
    struct keep_word w = {.r = r, .wants_copy = k->result.wants_copy};
    int log = r < 0 ? 0 : begin_log(k->box);

    if (fd < 0)
        return 0;
    if (err)
        w.err = *err;
    if (log < 0)
        w.r = err_sys(&w.err, log, "log of the sandbox");
    return fd_write_all(fd, &w, sizeof w) < 0 ? -EPIPE : w.r;
}

/* What is written down -------------------------------------------------------------------------------------------- */

/* A state that cannot be written misleads `bawn ps`, not the sandbox: its life is the lock. */
void keep_save(struct keeper *k, enum box_phase phase) {
    struct box_state *s = &k->box->state;
    struct err err = {0};

    if (phase != k->phase || phase == BOX_STARTING) {
        s->since_ns = clock_mark();
        s->used_ns = phase == BOX_STARTING ? s->since_ns : s->used_ns;
    }
    k->phase = s->phase = phase;
    if (phase == BOX_STARTING) {
        s->pid = getpid();
        s->start_time = process_start_time(s->pid);
        s->init = 0;
        s->status = 0;
        s->why[0] = 0;
        box_boot_id(s->boot);
    }
    if (phase == BOX_RUNNING)
        session_describe(&k->session, k->opt->profile, s);
    if (phase == BOX_STOPPED || phase == BOX_FAILED)
        strv_done(&s->cgroups);
    if (phase == BOX_STOPPED || phase == BOX_FAILED)
        str_set(&s->tmp, NULL);
    if (box_save_state(k->box, &err) < 0)
        log_err(&err);
    k->at.saved_ms = clock_ms();
    k->at.save_ms = 0;
}

void keep_touch(struct keeper *k) {
    k->at.used_ms = clock_ms();
    k->box->state.used_ns = clock_mark();
    if (!k->at.save_ms)
        k->at.save_ms = MAX_OF(k->at.saved_ms + KEEP_SAVE_MS, k->at.used_ms);
}

/* The audit log ---------------------------------------------------------------------------------------------------- */

static int keep_audit_start(void *arg, const struct session *s, struct err *err) {
    struct keeper *k = arg;

    return audit_run_start(k->audit, &s->plan, s->opt->settings, s->engine->name, false, err);
}

void keep_audit_exit(struct keeper *k, const struct keep_job *j) {
    uint64_t ms = clock_ms() - j->started_ms;

    if (j->end & EXEC_END_NOEXEC)
        audit_run_exit(k->audit, j->id, err_exec_status(j->status), 0, j->status, ms);
    else
        audit_run_exit(k->audit, j->id, process_exit_status(j->status), WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0, 0, ms);
}

void keep_audit_limit(struct keeper *k, enum run_limit which) {
    audit_run_limit(k->audit, which);
    audit_flush(k->audit); /* in the log before a client gets the answer */
    k->result.hit[which] = true;
}

/* The terminal was needed until now: a locked store of secrets is unlocked on it. */
static int leave_terminal(struct err *err) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return err_sys(err, -errno, "/dev/null");
    setsid(); /* fails only for the leader of a group, which a forked process is not */
    prctl(PR_SET_NAME, "bawn-keeper");
    return 0;
}

/* What overlay, sync and worktree keep goes on where it ended; the other modes keep nothing aside. */
static const char *stage_name(const struct keeper *k) {
    enum workspace_mode mode = settings_workspace_mode(k->opt->run.settings);

    return mode == WORKSPACE_DIRECT || mode == WORKSPACE_RO ? NULL : k->box->name;
}

static int prepare_sandbox(struct keeper *k, const struct plan_input *input, struct err *err) {
    const struct host_facts *f = k->opt->run.facts;
    const struct audit_ids ids = {.log = k->box->info.id, .sandbox = k->box->info.id, .run = "", .tenant = ""};
    int r = audit_run_open(f->environ_, f->home, &ids, &k->audit, err);

    r = r < 0 ? r : session_prepare(&k->session, &k->opt->run, input, stage_name(k), err);
    r = r < 0 ? r : leave_terminal(err);
    return r < 0 ? r : loop_signals(&k->session.old_mask, &k->signals, err);
}

static int ask_root(struct keeper *k, struct err *err) {
    struct init_msg m = {.type = INIT_MSG_OPEN, .value = EXEC_OPEN_FOLDER, .job = k->next.open++};
    int control = k->session.sandbox.control, r;

    if (fcntl(control, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "control socket");
    r = keep_send(k, &m, "/", 1, NULL, 0);
    return r < 0 ? err_sys(err, r, "talk to bawn-init") : 0;
}

static int start_sandbox(struct keeper *k, struct err *err) {
    const struct host_facts *f = k->opt->run.facts;
    const struct session_how how = {.stdio = {-1, -1, -1}, .resident = true};
    const struct run_network_opts network = {.name = k->box->name, .audit = k->audit, .no_control = true};
    int r;

    sweep_if_due(f->environ_, f->home);
    k->session.planned = keep_audit_start;
    k->session.arg = k;
    r = session_start(&k->session, &how, err);
    r = r < 0 ? r : ask_root(k, err);
    r = r < 0 ? r : session_begin(&k->session, &network, false, err);
    r = r < 0 ? r : keep_listen(k, err);
    return r < 0 ? r : control_server_new(f->environ_, keep_command, k, &k->control, err);
}

void keep_is_running(struct keeper *k) {
    k->at.used_ms = clock_ms();
    keep_save(k, BOX_RUNNING);
    if (keep_answer(k, 0, NULL) < 0)
        keep_stop(k, -1, "the process that started it has ended");
    castock_refill(&k->session.network.ca);
}

/* Nothing inside runs any more when clients get the end of their jobs. */
static void end_sandbox(struct keeper *k) {
    struct session *s = &k->session;

    inside_thaw(k);
    if (k->phase == BOX_RUNNING) /* so that a client that finds no socket from here on gets the right message */
        keep_save(k, BOX_STOPPING);
    keep_unlisten(k);
    if (s->launched) {
        session_stop(s);
        jobs_end(k);
        session_limits(s, &k->result);
    }
    for (size_t i = 0; i < k->n_clients; i++) {
        client_flush(k, k->clients[i]);
        client_drop(k, k->clients[i]);
    }
    control_server_free(TAKE_PTR(k->control));
    if (s->launched)
        session_finish(s);
    if (s->stage.opt)
        session_end(s, &k->result);
    if (s->launched) {
        audit_run_landed(k->audit, &s->landing);
        audit_run_stop(k->audit, k->result.status, clock_ms() - k->at.begun_ms, k->result.changes, k->result.run);
    }
}

static void keeper_done(struct keeper *k) {
    keep_forget_outgoing(k);
    clients_sweep(k);
    free(k->clients);
    jobs_free(k);
    audit_free(k->audit);
    run_result_done(&k->result);
    session_done(&k->session);
    closep(&k->signals);
}

static void write_end(struct keeper *k, int r, const struct err *err) {
    struct box_state *s = &k->box->state;
    bool failed = r < 0 || !k->asked;

    s->status = failed ? err_exit_status(err) : 0;
    snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, failed ? err->msg : "");
    keep_save(k, failed ? BOX_FAILED : BOX_STOPPED);
}

static int keep_run(struct keeper *k, struct err *err) {
    const struct host_facts *facts = k->opt->run.facts;
    struct plan_input input = *k->opt->run.input;
    CLEANUP(freep) char *home = str_dupf("%s/home", k->box->path);
    const struct settings *set = k->opt->run.settings;
    bool said = set->origin[SETTING_IDLE_TIMEOUT] && !str_starts(set->origin[SETTING_IDLE_TIMEOUT], "built-in");
    int r;

    if (!home)
        return err_oom(err);
    input.home.persistent = home;
    input.hostname = k->box->name;
    k->err = err;
    k->outbox.last = &k->outbox.first;
    k->at.begun_ms = k->at.used_ms = clock_ms();
    k->next.open = 1;
    k->next.job = keep_first_job(k);
    k->at.idle_ms = k->box->info.project && !said ? KEEP_PROJECT_IDLE_MS : set->idle_timeout_ms;
    box_rename_settle(facts->environ_, facts->home, k->box);
    sweep_groups(k->box); /* of its last life, if that was killed: the new state has other names */
    keep_save(k, BOX_STARTING);
    r = prepare_sandbox(k, &input, err);
    r = r < 0 ? r : start_sandbox(k, err);
    r = r < 0 ? r : keep_loop(k, err);
    k->ended = true;
    r = r < 0 ? r : k->asked ? 0 : err->code;
    k->result.status = r < 0 ? EXIT_SANDBOX : 0;
    k->result.wants_copy = r < 0 && k->session.wants_copy;
    end_sandbox(k);
    write_end(k, r, err);
    keeper_done(k);
    return r;
}

/* The keeper's process --------------------------------------------------------------------------------------------- */

/* Whatever the starter, or the shell before it, had open would stay open as long as the sandbox lives. */
static void close_others(const int *ours, size_t n) {
    int last = STDERR_FILENO;

    for (size_t i = 0; i < n; i++)
        last = MAX_OF(last, ours[i]);
    for (int fd = STDERR_FILENO + 1; fd < last; fd++) {
        bool keep = false;

        for (size_t i = 0; i < n; i++)
            keep |= fd == ours[i];
        if (!keep)
            close(fd);
    }
    fd_close_from((unsigned)last + 1);
}

static NORETURN void be_keeper(const struct keep_options *opt, int ready) {
    struct keeper k = {.opt = opt,
                       .box = opt->box,
                       .session = SESSION_INIT,
                       .ready = ready,
                       .signals = -1,
                       .exec = {.folder = -1, .listener = -1},
                       .freeze = {.by = -1}};
    struct err err = {0};
    int r;

    const int ours[] = {ready, opt->box->fd, opt->box->lock, opt->run.input->image ? opt->run.input->image->lock : -1};

    close_others(ours, ARRAY_LEN(ours));
    r = keep_run(&k, &err);
    if (r < 0 && k.ready < 0)
        log_err(&err);
    if (k.ready >= 0)
        keep_answer(&k, r < 0 ? r : err_set(&err, -ECANCELED, "the sandbox was stopped while it was being started"), &err);
    closep(&opt->box->lock); /* last of all: from here on it may be started again */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}

/* The starter ------------------------------------------------------------------------------------------------------ */

static int read_answer(int fd, pid_t keeper, bool *ret_wants_copy, struct err *err) {
    struct keep_word w;
    ssize_t n = fd_read_full(fd, &w, sizeof w);

    if (n == (ssize_t)sizeof w && w.r == 0)
        return 0;
    process_wait(keeper);
    if (n < (ssize_t)sizeof w)
        return err_set(err, -ECHILD, "the supervisor of the sandbox was killed while it was starting");
    *ret_wants_copy = w.wants_copy;
    *err = w.err;
    return w.r;
}

int keep_start(const struct keep_options *opt, bool *ret_wants_copy, struct err *err) {
    CLEANUP(closep) int reads = -1;
    CLEANUP(closep) int writes = -1;
    int r = fd_pipe(&reads, &writes);
    pid_t pid;

    *ret_wants_copy = false;
    if (r < 0)
        return err_sys(err, r, "pipe");
    reads = fd_move_above(reads, 3);
    writes = fd_move_above(writes, 3);
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return err_sys(err, -errno, "start the sandbox's supervisor");
    if (pid == 0) {
        closep(&reads);
        be_keeper(opt, TAKE_FD(writes));
    }
    closep(&writes);
    r = read_answer(reads, pid, ret_wants_copy, err);
    if (r == 0)
        closep(&opt->box->lock);
    return r;
}
