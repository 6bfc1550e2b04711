/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: what was asked for over the exec socket, from the request to the last word about it. */
#include <errno.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/session/audit_run.h"

struct keep_job *job_find(const struct keeper *k, int id) {
    for (size_t i = k->n_jobs; i-- > 0;)
        if (k->jobs[i]->id == id && !k->jobs[i]->gone)
            return k->jobs[i];
    return NULL;
}

struct keep_job *job_latest_background(const struct keeper *k) {
    for (size_t i = k->n_jobs; i-- > 0;)
        if ((k->jobs[i]->flags & EXEC_BACKGROUND) && !k->jobs[i]->gone && k->jobs[i]->pid)
            return k->jobs[i];
    return NULL;
}

/* The beginning ---------------------------------------------------------------------------------------------------- */

static char *describe_command(const struct exec_request *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SIZE_MAX);

    for (size_t i = 0; i < r->argc && b.len < KEEP_COMMAND_MAX; i++) {
        buf_adds(&b, i ? " " : "");
        buf_add(&b, r->argv[i], strnlen(r->argv[i], KEEP_COMMAND_MAX));
    }
    if (b.len > KEEP_COMMAND_MAX) {
        b.len = KEEP_COMMAND_MAX;
        b.data[b.len] = 0;
        buf_adds(&b, "...");
    }
    return buf_take(&b);
}

static struct keep_job *add_job(struct keeper *k, struct keep_client *c, const struct exec_request *r) {
    uint64_t most = k->opt->run.settings->limits.timeout_ms, wish = r->timeout_ms, now = clock_ms();
    uint64_t limit = most && wish ? MIN_OF(most, wish) : MAX_OF(most, wish);
    struct keep_job *j = calloc(1, sizeof *j);

    if (!j || VEC_ADD(k->jobs, k->n_jobs, j) < 0) {
        free(j);
        return NULL;
    }
    *j = (struct keep_job){.id = k->next.job++,
                           .flags = r->flags,
                           .command = describe_command(r),
                           .owner = c,
                           .started_ns = clock_mark(),
                           .started_ms = now,
                           .timeout_at_ms = limit ? now + limit : 0};
    k->n_running++;
    c->kind = CLIENT_EXEC;
    c->job = j;
    return j;
}

/* It never ran, and is not reported. */
static void forget_job(struct keeper *k, struct keep_job *j) {
    if (!j->exited)
        k->n_running--;
    j->exited = j->over = j->gone = true;
    if (j->owner)
        j->owner->job = NULL;
    j->owner = NULL;
}

static int send_long(struct keeper *k, struct init_msg *m, const char *bytes, size_t len, const int *fds, size_t n_fds) {
    int all[EXEC_FDS_MAX + 1];

    all[0] = fd_memory("bawn-exec", bytes, len);
    if (n_fds)
        memcpy(all + 1, fds, n_fds * sizeof *fds);
    m->extra = 1;
    if (all[0] >= 0)
        return keep_send(k, m, NULL, 0, all, n_fds + 1);
    fd_close_all(fds, n_fds);
    return all[0];
}

/* Takes fds. */
static int forward(struct keeper *k, const struct keep_job *j, const char *bytes, size_t len, const int *fds, size_t n_fds,
                   struct err *err) {
    struct init_msg m = {.type = INIT_MSG_EXEC, .job = j->id};
    int r = len <= EXEC_INLINE_MAX ? keep_send(k, &m, bytes, len, fds, n_fds) : send_long(k, &m, bytes, len, fds, n_fds);

    return r < 0 ? err_sys(err, r, "hand the command to bawn-init") : 0;
}

/* The streams of a job in the background are ours. */
static int forward_background(struct keeper *k, struct keep_job *j, struct exec_request *r, struct err *err) {
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(EXEC_REQUEST_MAX);
    int inside[3] = {-1, -1, -1}, e = job_io_new(k, j, inside, err);

    if (e < 0)
        return e;
    r->flags |= r->flags & EXEC_TTY ? 0 : EXEC_FLAGS_FDS;
    if (exec_request_encode(r, &bytes) < 0) {
        fd_close_all(inside, r->flags & EXEC_TTY ? 0 : 3);
        return err_set(err, -E2BIG, "the command is too long");
    }
    return forward(k, j, bytes.data, bytes.len, inside, r->flags & EXEC_TTY ? 0 : 3, err);
}

static int check_request(const struct keeper *k, const struct exec_request *r, size_t n_fds, struct err *err) {
    size_t wanted = (size_t)__builtin_popcount(r->flags & EXEC_FLAGS_FDS);

    if (wanted != n_fds || ((r->flags & EXEC_BACKGROUND) && wanted))
        return err_set(err, -EINVAL, "the request does not fit its descriptors");
    if (k->n_running >= KEEP_RUNNING_MAX)
        return err_set(err, -EAGAIN, "%d commands run in this sandbox already", KEEP_RUNNING_MAX);
    return 0;
}

static int start_decoded(struct keeper *k, struct keep_client *c, struct exec_request *r, const char *bytes, size_t len, int *fds,
                         size_t *n_fds, struct err *err) {
    int e = check_request(k, r, *n_fds, err);
    struct keep_job *j = e < 0 ? NULL : add_job(k, c, r);

    if (e < 0)
        return e;
    if (!j)
        return err_oom(err);
    e = audit_run_exec(k->audit, j->id, r->argv, r->argc, r->cwd, err); /* what cannot be recorded is not done */
    if (e >= 0 && (e = session_wake(&k->session, err)) < 0)
        keep_fail(k, e, err->msg);
    if (e >= 0 && (r->flags & EXEC_BACKGROUND))
        e = forward_background(k, j, r, err);
    else if (e >= 0)
        e = forward(k, j, bytes, len, fds, TAKE(*n_fds, 0), err);
    if (e < 0)
        forget_job(k, j);
    else
        keep_touch(k);
    return e;
}

int job_start(struct keeper *k, struct keep_client *c, char *bytes, size_t len, int *fds, size_t n_fds, struct err *err) {
    struct exec_request r;
    int e = exec_request_decode(bytes, len, &r);

    if (e == 0) {
        e = start_decoded(k, c, &r, bytes, len, fds, &n_fds, err);
        exec_request_done(&r);
    } else {
        err_sys(err, e, "the request is not understood");
    }
    fd_close_all(fds, n_fds);
    return e;
}

/* What becomes of it ----------------------------------------------------------------------------------------------- */

void job_signal(struct keeper *k, const struct keep_job *j, int sig, bool group) {
    struct init_msg m = {.type = INIT_MSG_SIGNAL, .value = sig, .extra = group, .job = j->id};

    keep_send(k, &m, NULL, 0, NULL, 0); /* a bawn-init that is gone is noticed when it is read from */
}

void job_send(struct keeper *k, const struct keep_job *j, struct exec_msg m, const void *body) {
    if (j->owner)
        client_send(k, j->owner, m, body, -1);
    for (size_t i = 0; i < k->n_clients; i++)
        if (k->clients[i]->job == j && k->clients[i] != j->owner)
            client_send(k, k->clients[i], m, body, -1);
}

static void end_clients(struct keeper *k, const struct keep_job *j) {
    for (size_t i = 0; i < k->n_clients; i++)
        if (k->clients[i]->job == j) {
            k->clients[i]->job = NULL;
            k->clients[i]->ending = true;
            client_flush(k, k->clients[i]);
        }
}

void job_started(struct keeper *k, struct keep_job *j, pid_t pid, int master) {
    CLEANUP(closep) int owned = master;
    struct keep_client *c = j->owner;
    struct exec_msg m = {.type = EXEC_MSG_STARTED, .value = j->id, .extra = pid};
    bool background = j->flags & EXEC_BACKGROUND;

    j->pid = pid;
    if (background && owned >= 0)
        job_io_master(j, TAKE_FD(owned));
    if (!c)
        return;
    if (background) {
        j->owner = NULL;
        c->kind = CLIENT_ATTACHED;
    }
    client_send(k, c, m, NULL, owned);
}

/* One event for all that was refused meanwhile: a fork bomb is refused thousands of times. */
static bool note_pids(struct keeper *k) {
    uint64_t hits = cgroup_pids_hits(&k->session.sandbox.cgroup);

    if (hits <= k->seen.pids_hits)
        return false;
    k->seen.pids_hits = hits;
    keep_audit_limit(k, RUN_LIMIT_PIDS);
    return true;
}

/* bawn-init's words are made harmless: a terminal may show them. */
void job_failed(struct keeper *k, struct keep_job *j, int error, const char *what) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(4096);

    buf_add_printable(&text, what);
    if (note_pids(k) || error == EAGAIN)
        buf_addf(&text, ": the most processes that this sandbox may have, %" PRIu64 ", are running", k->session.plan.limits.pids);
    j->end |= EXEC_END_NOEXEC;
    j->status = error;
    keep_audit_exit(k, j);
    if (j->owner) {
        client_fail(k, j->owner, -MAX_OF(error, 1), buf_str(&text));
        client_flush(k, j->owner);
    }
    forget_job(k, j);
    keep_touch(k);
}

static void finish_job(struct keeper *k, struct keep_job *j) {
    j->linger_at_ms = 0;
    j->over = true;
    j->gone = !(j->flags & EXEC_BACKGROUND);
    job_send(k, j, (struct exec_msg){.type = EXEC_MSG_EXITED, .value = j->status, .extra = (int32_t)j->end}, NULL);
    end_clients(k, j);
    j->owner = NULL;
}

/* The kernel counts how many it killed, not which: it is charged to the job that ended by SIGKILL. */
static bool was_memory(struct keeper *k, int status) {
    struct cgroup_hits hits;

    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return false;
    cgroup_hits(&k->session.sandbox.cgroup, &hits);
    if (hits.oom_kills <= k->seen.oom_kills)
        return false;
    k->seen.oom_kills = hits.oom_kills;
    return true;
}

void job_exited(struct keeper *k, struct keep_job *j, int status, unsigned end) {
    j->exited = true;
    j->status = status;
    j->end |= end;
    j->ended_ns = clock_mark();
    j->timeout_at_ms = j->kill_at_ms = 0;
    k->n_running--;
    if (!(end & EXEC_END_NOEXEC) && was_memory(k, status)) {
        j->end |= EXEC_END_MEMORY;
        keep_audit_limit(k, RUN_LIMIT_MEMORY);
    }
    if (j->end & EXEC_END_PIDS)
        keep_audit_limit(k, RUN_LIMIT_PIDS);
    else if (note_pids(k))
        j->end |= EXEC_END_PIDS;
    if (j->end & EXEC_END_PRIVATE)
        keep_audit_limit(k, RUN_LIMIT_PRIVATE);
    keep_audit_exit(k, j);
    keep_touch(k);
    if (j->pid && !job_io_silent(j))
        j->linger_at_ms = clock_ms() + KEEP_LINGER_MS;
    else /* also if it never began: its clients get the answer at once */
        finish_job(k, j);
}

/* What does not end by this signal is killed a little later. */
static void ask_to_end(struct keeper *k, struct keep_job *j, int sig) {
    job_signal(k, j, sig, true);
    job_signal(k, j, SIGCONT, true);
    j->kill_at_ms = clock_ms() + KEEP_GRACE_MS;
}

void job_hang_up(struct keeper *k, struct keep_job *j) {
    if (!j->exited)
        ask_to_end(k, j, SIGHUP);
}

/* Time ------------------------------------------------------------------------------------------------------------- */

void job_tick(struct keeper *k, struct keep_job *j, uint64_t now) {
    if (j->linger_at_ms && (now >= j->linger_at_ms || job_io_silent(j)))
        finish_job(k, j);
    if (j->timeout_at_ms && now >= j->timeout_at_ms) {
        j->timeout_at_ms = 0;
        j->end |= EXEC_END_TIMEOUT;
        ask_to_end(k, j, SIGTERM);
    }
    if (j->kill_at_ms && now >= j->kill_at_ms) {
        j->kill_at_ms = 0;
        job_signal(k, j, SIGKILL, true);
    }
}

/* The end ---------------------------------------------------------------------------------------------------------- */

void jobs_end(struct keeper *k) {
    enum { DRAIN_TURNS = 64 };

    for (size_t i = 0; i < k->n_jobs; i++) {
        struct keep_job *j = k->jobs[i];

        for (int turn = 0; !job_io_silent(j) && turn < DRAIN_TURNS; turn++)
            job_io_handle(k, j, (const struct pollfd[JOB_IO_POLL]){{.revents = POLLIN}, {.revents = POLLIN}});
        if (!j->exited)
            job_exited(k, j, SIGKILL, EXEC_END_STOP | k->lost);
        if (j->linger_at_ms)
            finish_job(k, j);
    }
}

static void free_job(const struct keeper *k, struct keep_job *j) {
    if (j->io && !k->ended)
        job_drop_logs(k, j->id);
    job_io_free(j);
    free(j->command);
    free(j);
}

void jobs_sweep(struct keeper *k) {
    size_t n = 0, finished = 0;

    for (size_t i = k->n_jobs; i-- > 0;) {
        struct keep_job *j = k->jobs[i];

        if (!j->over || j->gone)
            continue;
        finished++;
        j->gone = finished > KEEP_FINISHED_MAX;
        if (finished > KEEP_HISTORY_MAX && j->io)
            keep_ring_done(&j->io->history);
    }
    for (size_t i = 0; i < k->n_jobs; i++)
        if (k->jobs[i]->gone)
            free_job(k, k->jobs[i]);
        else
            k->jobs[n++] = k->jobs[i];
    k->n_jobs = n;
}

void jobs_free(struct keeper *k) {
    for (size_t i = 0; i < k->n_jobs; i++)
        free_job(k, k->jobs[i]);
    free(TAKE_PTR(k->jobs));
    k->n_jobs = 0;
}
