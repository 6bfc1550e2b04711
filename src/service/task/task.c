/* SPDX-License-Identifier: Apache-2.0 */
/* One run: starts `bawn run`, stores what it prints, and writes the record when all has ended. */
#include "service/task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "os/spawn.h"
#include "service/task/task_priv.h"
#include "service/task/taskreq.h"
#include "service/task/tasksetup.h"
#include "service/task/tasksource.h"
#include "service/task/tasktraffic.h"

enum { RESULT_FD = 3, SETUP_FD, BAWN_FDS, REQUEST_MAX = 32 * 1024 * 1024, LATE_MS = 5000 };

static void task_done(struct run_task *t) {
    const int fds[] = {t->link, t->out[0], t->out[1], t->input, t->signals};

    fd_close_all(fds, ARRAY_LEN(fds));
    fd_close_all(t->clients, TASK_CLIENTS_MAX);
    buf_done(&t->request);
    buf_done(&t->result);
    buf_done(&t->streams[0].rest);
    buf_done(&t->streams[1].rest);
    taskspare_done(&t->spare);
}

/* -- start ------------------------------------------------------------------------------------------------------------------- */

static int read_request(struct run_task *t, struct err *err) {
    CLEANUP(freep) char *parse = NULL;
    int r = file_read_fd(TASK_FD_REQUEST, 0, &t->request);

    r = r < 0 ? r : taskreq_get(&t->request, "parse", &parse);
    if (r < 0)
        return err_sys(err, r, "read the request");
    t->streams[0] = (struct task_stream){.name = "stdout", .file = TASK_FD_STDOUT, .max = t->plan->output_max};
    t->streams[1] = (struct task_stream){.name = "stderr", .file = TASK_FD_STDERR, .max = t->plan->output_max};
    t->streams[0].lines = parse && str_eq(parse, "jsonl");
    return 0;
}

/* What is sent to it before it reads signals waits. */
static int spawn_bawn(struct run_task *t, char *const *argv, const int fds[static BAWN_FDS]) {
    static const int wait[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
    struct spawn s = {.path = t->plan->bawn,
                      .argv = argv,
                      .envp = environ,
                      .fds = fds,
                      .n_fds = fds[SETUP_FD] >= 0 ? BAWN_FDS : SETUP_FD,
                      .cwd = SPAWN_CWD_STAY,
                      .group = SPAWN_SESSION,
                      .outlives = true}; /* the end of the socket ends it, with time to clean up */
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < ARRAY_LEN(wait); i++)
        sigaddset(&mask, wait[i]);
    s.mask = &mask;
    return spawn_start(&s, &t->pid, NULL);
}

static int make_pipes(struct run_task *t, int theirs[static BAWN_FDS]) {
    int pair[2], r = taskreq_flag(&t->request, "stdin") ? fd_pipe(&theirs[0], &t->input) : 0;

    r = r < 0 ? r : fd_pipe(&t->out[0], &theirs[1]);
    r = r < 0 ? r : fd_pipe(&t->out[1], &theirs[2]);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    t->link = pair[0];
    theirs[RESULT_FD] = pair[1];
    if (t->input >= 0 && fcntl(t->input, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

static int start_bawn(struct run_task *t, struct err *err) {
    CLEANUP(strv_done) struct strv argv = {0};
    int theirs[BAWN_FDS] = {-1, -1, -1, -1, -1}, setup = tasksetup_open(&t->request, err);
    int r = setup < 0 && setup != -ENOENT
                ? setup
                : taskreq_argv(&t->request, t->plan->name, RESULT_FD, setup < 0 ? -1 : SETUP_FD, &argv, err);

    theirs[SETUP_FD] = setup < 0 ? -1 : setup;
    if (r >= 0) {
        r = make_pipes(t, theirs);
        r = r < 0 ? r : spawn_bawn(t, argv.v, theirs);
        r = r < 0 ? err_sys(err, r, "start '%s'", t->plan->bawn) : 0;
    }
    fd_close_all(theirs, ARRAY_LEN(theirs));
    return r;
}

/* -- the loop ---------------------------------------------------------------------------------------------------------------- */

enum slot { SLOT_SIGNALS, SLOT_LINK, SLOT_OUT, SLOT_ERR, SLOT_FROM, SLOT_TO, SLOT_LISTEN, SLOT_CLIENTS };

static void prepare_task(struct evloop *l, void *arg) {
    struct run_task *t = arg;

    evloop_want(l, t->signals, POLLIN);
    evloop_want(l, t->link, POLLIN);
    evloop_want(l, t->out[0], POLLIN);
    evloop_want(l, t->out[1], POLLIN);
    evloop_want(l, task_input_from(t), POLLIN);
    evloop_want(l, task_input_to(t), POLLOUT);
    evloop_want(l, TASK_FD_SOCKET, POLLIN);
    for (size_t i = 0; i < TASK_CLIENTS_MAX; i++)
        evloop_want(l, t->clients[i], POLLIN);
    evloop_wake_at(l, t->give_up_ms);
}

static void remember_tail(struct run_task *t, const char *data, size_t len) {
    size_t keep;

    if (len >= sizeof t->tail) {
        memcpy(t->tail, data + len - sizeof t->tail, sizeof t->tail);
        t->tail_len = sizeof t->tail;
        return;
    }
    keep = MIN_OF(t->tail_len, sizeof t->tail - len);
    memmove(t->tail, t->tail + t->tail_len - keep, keep);
    memcpy(t->tail + keep, data, len);
    t->tail_len = keep + len;
}

/* A disk that is full must not stop the command, which would wait for us forever: the rest is dropped, and the record says so. */
static void read_stream(struct run_task *t, int i) {
    char part[TASK_READ_MAX];
    ssize_t n = fd_read_some(t->out[i], part, sizeof part);
    struct task_stream *s = &t->streams[i];

    if (n <= 0) {
        closep(&t->out[i]);
        return;
    }
    if (i == 1)
        remember_tail(t, part, (size_t)n);
    if (taskevents_output(TASK_FD_EVENTS, s, part, (size_t)n) < 0) {
        s->cut = true;
        s->max = s->stored;
    }
}

static void read_link(struct run_task *t) {
    char part[16 * 1024];
    ssize_t n = recv(t->link, part, sizeof part, MSG_DONTWAIT);

    if (n > 0)
        buf_add(&t->result, part, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        closep(&t->link);
}

static void read_signals(struct run_task *t) {
    struct signalfd_siginfo info;

    while (sigfd_next(t->signals, &info))
        if (info.ssi_signo == SIGTERM)
            task_end_politely(t);
    if (t->pid && waitpid(t->pid, &t->wait_status, WNOHANG) == t->pid) {
        t->pid = 0;
        t->give_up_ms = clock_ms() + LATE_MS;
        task_input_stop(t);
    }
}

static int on_task(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    struct run_task *t = arg;

    if (fds[SLOT_OUT].revents)
        read_stream(t, 0);
    if (fds[SLOT_ERR].revents)
        read_stream(t, 1);
    if (fds[SLOT_LINK].revents)
        read_link(t);
    if (fds[SLOT_FROM].revents)
        task_input_read(t);
    if (fds[SLOT_TO].revents)
        task_input_write(t);
    for (size_t i = 0; i < TASK_CLIENTS_MAX; i++)
        if (fds[SLOT_CLIENTS + i].revents)
            task_client_ready(t, i);
    if (fds[SLOT_LISTEN].revents)
        task_client_new(t);
    if (fds[SLOT_SIGNALS].revents)
        read_signals(t);
    return 0;
}

static bool task_over(const struct run_task *t) {
    bool streams = t->out[0] < 0 && t->out[1] < 0 && t->link < 0;

    return !t->pid && (streams || clock_left_ms(t->give_up_ms) == 0);
}

static int loop_task(struct run_task *t, struct err *err) {
    struct evloop_source all = {.prepare = prepare_task, .ready = on_task, .arg = t, .fd = -1};
    struct evloop l = EVLOOP_INIT;
    int r = evloop_add(&l, &all);

    while (r == 0 && !task_over(t))
        r = evloop_turn(&l);
    evloop_done(&l);
    return r < 0 ? err_sys(err, r, "wait") : 0;
}

/* -- the end ----------------------------------------------------------------------------------------------------------------- */

/* The first line of bawn's own in the last of what was said: hints follow it. Else the last line. */
static void find_reason(struct run_task *t) {
    static const char ours[] = "bawn: ";
    const char *end = t->tail + t->tail_len, *last = t->tail;

    for (const char *p = t->tail, *eol; p < end; p = eol + 1) {
        eol = memchr(p, '\n', (size_t)(end - p));
        eol = eol ? eol : end;
        last = eol > p ? p : last;
        if ((size_t)(eol - p) > strlen(ours) && memcmp(p, ours, strlen(ours)) == 0) {
            last = p + strlen(ours);
            break;
        }
    }
    end = last < end ? memchr(last, '\n', (size_t)(end - last)) : last;
    end = end ? end : t->tail + t->tail_len;
    if (last == end)
        snprintf(t->record.reason, sizeof t->record.reason, "bawn ended with exit status %d and gave no reason",
                 t->record.status);
    else
        snprintf(t->record.reason, sizeof t->record.reason, "%.*s", (int)MIN_OF(end - last, (long)sizeof t->record.reason - 1),
                 last);
}

static void take_result(struct run_task *t) {
    CLEANUP(json_decrefp) json_t *root = NULL;
    struct err ignored = {0};

    t->record.status = process_exit_status(t->wait_status);
    while (t->result.len && t->result.data[t->result.len - 1] == '\n')
        t->result.len--;
    if (t->result.len == 0 || !buf_ok(&t->result) ||
        json_parse_object(t->result.data, t->result.len, TASK_RESULT_MAX, &root, &ignored) < 0) {
        t->record.flags |= TASK_NO_RESULT;
        t->result.len = 0;
        find_reason(t);
        return;
    }
    t->record.status = (int)json_get_int(root, "status", t->record.status);
    t->record.cpu_us = (uint64_t)json_get_int(root, "cpu_us", 0);
    tasktraffic_read(json_object_get(root, "network"), &t->record);
    tasktimes_read(json_object_get(root, "times_us"), &t->record);
    t->record.memory_peak = (uint64_t)json_get_int(root, "memory_peak", 0);
}

static void end_streams(struct run_task *t) {
    static const unsigned cut[] = {TASK_CUT_STDOUT, TASK_CUT_STDERR};
    uint64_t *const bytes[] = {&t->record.stdout_bytes, &t->record.stderr_bytes};

    for (int i = 0; i < 2; i++) {
        if (taskevents_end(TASK_FD_EVENTS, &t->streams[i]) < 0)
            t->streams[i].cut = true;
        t->record.flags |= t->streams[i].cut ? cut[i] : 0;
        *bytes[i] = t->streams[i].stored;
    }
}

/* The result first: what the record speaks of is there. */
static int write_record(struct run_task *t, struct err *err) {
    char exit_event[64];
    ssize_t n = t->result.len ? pwrite(TASK_FD_RESULT, t->result.data, t->result.len, 0) : 0;

    if (n < 0 || (size_t)n != t->result.len)
        return err_sys(err, n < 0 ? -errno : -ENOSPC, "write the result");
    snprintf(exit_event, sizeof exit_event, "{\"status\":%d}", t->record.status);
    taskevents_add(TASK_FD_EVENTS, "exit", exit_event);
    t->record.result_len = (uint32_t)t->result.len;
    t->record.ended_ns = clock_mark();
    t->record.ended = TASK_ENDED;
    n = pwrite(TASK_FD_RECORD, &t->record, sizeof t->record, TASK_RECORD_AT);
    return n == (ssize_t)sizeof t->record ? 0 : err_sys(err, n < 0 ? -errno : -ENOSPC, "write the record");
}

static int start_task(struct run_task *t, struct err *err) {
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    int r;

    signal(SIGCHLD, SIG_DFL);
    t->signals = sigfd_open(signals, ARRAY_LEN(signals), NULL);
    if (t->signals < 0)
        return err_sys(err, t->signals, "read signals");
    t->record.started_ns = clock_mark();
    r = read_request(t, err);
    r = r < 0 ? r : tasksource_fill(&t->request, t->plan->bawn, err);
    if (r >= 0 && !taskreq_has(&t->request, "shape.source.path")) /* a folder of the host has caches of its own */
        taskspare_find(&t->spare);
    taskspare_take(&t->spare);
    r = r < 0 ? r : start_bawn(t, err);
    if (r == 0)
        taskevents_add(TASK_FD_EVENTS, "state", "{\"state\":\"running\"}");
    return r;
}

int task_perform(const struct task_plan *p, struct err *err) {
    CLEANUP(task_done)
    struct run_task t = {
        .plan = p, .link = -1, .out = {-1, -1}, .input = -1, .signals = -1, .request = {.ceiling = REQUEST_MAX + 1}};
    int r;

    t.result.ceiling = TASK_RESULT_MAX;
    for (size_t i = 0; i < TASK_CLIENTS_MAX; i++)
        t.clients[i] = -1;
    r = start_task(&t, err);
    if (r < 0) {
        t.record.flags |= TASK_NO_RESULT;
        t.record.status = EXIT_SANDBOX;
        snprintf(t.record.reason, sizeof t.record.reason, "%.*s", TASK_REASON_MAX - 1, err->msg);
        return write_record(&t, err);
    }
    r = loop_task(&t, err);
    if (r < 0)
        return r;
    end_streams(&t);
    take_result(&t);
    r = write_record(&t, err);
    taskspare_give(&t.spare);
    return r;
}
