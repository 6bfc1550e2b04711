/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs from the moment they are accepted to their end. The queue is fair: each tenant has its own, and they take turns, so that one with a
 * thousand runs delays another's by no more than the run that has the place it gets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/limits.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"
#include "service/core/core.h"
#include "service/task/taskmsg.h"
#include "service/task/taskreq.h"

/* -- by id -------------------------------------------------------------------------------------------------------------------- */

static size_t bucket_of(const char *id) {
    size_t h = 0;

    for (const char *p = id; *p; p++)
        h = h * 31 + (unsigned char)*p;
    return h % CORE_BUCKETS;
}

struct live_run *core_find_run(struct core *c, const struct tenant *t, const char *id) {
    struct live_run *r = c->buckets[bucket_of(id)];

    while (r && (r->tenant != t || !str_eq(r->row.id, id)))
        r = r->bucket_next;
    return r;
}

static void forget_run(struct core *c, struct live_run *r) {
    struct live_run **p = &c->buckets[bucket_of(r->row.id)];

    while (*p && *p != r)
        p = &(*p)->bucket_next;
    if (*p)
        *p = r->bucket_next;
    closep(&r->dir);
    closep(&r->task);
    run_row_done(&r->row);
    free(r);
}

/* -- the queue ---------------------------------------------------------------------------------------------------------------- */

static void queue_add(struct core *c, struct live_run *r) {
    struct tenant *t = r->tenant;

    r->queue_next = NULL;
    if (t->last)
        t->last->queue_next = r;
    else
        t->first = r;
    t->last = r;
    t->queued++;
    c->n_queued++;
}

static void queue_remove(struct core *c, struct live_run *r) {
    struct tenant *t = r->tenant;
    struct live_run *before = NULL;

    for (struct live_run *p = t->first; p && p != r; p = p->queue_next)
        before = p;
    if (before)
        before->queue_next = r->queue_next;
    else
        t->first = r->queue_next;
    if (t->last == r)
        t->last = before;
    t->queued--;
    c->n_queued--;
}

static bool fits_quota(const struct tenant *t, const struct live_run *r) {
    const uint64_t *q = t->row.quotas;

    if (q[QUOTA_RUNNING] != QUOTA_NONE && t->running + t->boxes >= q[QUOTA_RUNNING])
        return false;
    return q[QUOTA_MEMORY] == QUOTA_NONE || t->memory + t->box_memory + r->memory <= q[QUOTA_MEMORY] ||
           t->memory + t->box_memory == 0; /* the quota was more when the run came */
}

/* The next tenant, from the one whose turn it is, that has a run that may start. */
static struct live_run *next_run(struct core *c) {
    for (size_t i = 0; i < c->n_tenants; i++) {
        size_t at = (c->turn + i) % c->n_tenants;
        struct live_run *r = c->tenants[at]->first;

        while (r && r->row.held)
            r = r->queue_next;
        if (r && fits_quota(c->tenants[at], r)) {
            c->turn = (at + 1) % c->n_tenants;
            return r;
        }
    }
    return NULL;
}

static int mark_running(struct core *c, struct live_run *r, struct err *err) {
    if (VEC_ADD(c->running, c->n_running, r) < 0)
        return err_oom(err);
    r->tenant->running++;
    r->tenant->memory += r->memory;
    return 0;
}

int core_pick_runs(struct core *c, struct err *err) {
    struct live_run *r;
    int n = 0;

    while (n == 0 && !c->draining && c->n_running < c->conf.running && (r = next_run(c))) {
        uint64_t now = clock_mark();

        queue_remove(c, r);
        r->row.state = RUN_STARTING;
        r->row.started_ns = now;
        core_count_time(c->counts.wait, &c->counts.wait_us, now > r->row.created_ns ? (now - r->row.created_ns) / 1000 : 0);
        core_event(c, r->tenant, "run", r->row.id, run_state_names[RUN_STARTING], NULL);
        n = ledger_begin(&c->db, err);
        n = n < 0 ? n : ledger_run_state(&c->db, &r->row, err);
        n = n < 0 ? n : mark_running(c, r, err);
        n = n < 0 ? n : VEC_ADD(c->starting, c->n_starting, r) < 0 ? err_oom(err) : 0;
    }
    return n;
}

void core_start_runs(struct core *c) {
    size_t n = c->n_starting;

    c->n_starting = 0; /* those that fail may end others' waits, never start one */
    for (size_t i = 0; i < n; i++) {
        struct live_run *r = c->starting[i];
        struct err err = {0};

        if (place_start(c, r, &err) == 0) {
            r->row.state = RUN_RUNNING;
            if (r->doomed)
                core_cancel_run(c, r);
            continue;
        }
        r->row.state = RUN_FAILED;
        r->row.status = EXIT_SANDBOX;
        snprintf(r->row.reason, sizeof r->row.reason, "%.*s", RUN_REASON_MAX, err.msg);
        core_log(c, "error", "start", r->row.id, "%s", err.msg);
        core_end_run(c, r);
    }
}

/* -- new and old ------------------------------------------------------------------------------------------------------------- */

uint64_t core_request_memory(const struct buf *request) {
    CLEANUP(freep) char *text = NULL;
    struct err ignored = {0};
    uint64_t bytes;

    if (taskreq_get(request, "shape.limits.memory", &text) < 0 || !text || parse_size(text, &bytes, &ignored) < 0)
        return LIMITS_MEMORY_USUAL;
    return bytes ? MIN_OF(bytes, MEMORY_COUNTED_MAX) : MEMORY_COUNTED_MAX;
}

static void index_run(struct core *c, struct live_run *r) {
    size_t i = bucket_of(r->row.id);

    r->memory = core_request_memory(&r->row.request);
    r->bucket_next = c->buckets[i];
    c->buckets[i] = r;
}

int core_add_run(struct core *c, struct live_run *r, struct err *err) {
    int n = ledger_begin(&c->db, err);

    n = n < 0 ? n : ledger_run_add(&c->db, &r->row, err);
    n = n < 0 ? n : usage_add(c, r->tenant, &(struct usage_part){.runs = 1}, err);
    if (n < 0)
        return n;
    index_run(c, r);
    queue_add(c, r);
    core_event(c, r->tenant, "run", r->row.id, run_state_names[RUN_QUEUED], NULL);
    c->counts.accepted++;
    return 0;
}

void core_release_run(struct core *c, struct live_run *r) {
    struct err err = {0};

    if (!r->row.held)
        return;
    r->row.held = false;
    if (ledger_begin(&c->db, &err) < 0 || ledger_run_state(&c->db, &r->row, &err) < 0)
        core_log(c, "error", "database", r->row.id, "%s", err.msg);
}

static int adopt_run(struct core *c, struct live_run *r, struct err *err) {
    bool begun = false;
    int n = place_adopt(c, r, &begun, err);

    if (n < 0)
        return n;
    if (!begun) {
        r->row.state = RUN_QUEUED; /* it was never started */
        queue_add(c, r);
        return 0;
    }
    r->row.state = RUN_RUNNING;
    if (mark_running(c, r, err) < 0)
        return -ENOMEM;
    if (n == 0) {
        core_task_ready(c, r);
        return ledger_begin(&c->db, err);
    }
    return 0;
}

struct run_loader {
    struct core *core;
    struct live_run **v;
    size_t n;
};

static int load_run(struct run_row *row, void *arg) {
    struct run_loader *l = arg;
    struct tenant *t = core_tenant(l->core, row->tenant);
    struct live_run *r = t ? calloc(1, sizeof *r) : NULL;

    if (!t)
        return 0; /* a tenant is only removed without runs */
    if (!r || VEC_ADD(l->v, l->n, r) < 0) {
        free(r);
        return -ENOMEM;
    }
    r->row = TAKE(*row, (struct run_row)RUN_ROW_INIT);
    r->tenant = t;
    r->dir = r->task = -1;
    return 0;
}

int core_load_runs(struct core *c, struct err *err) {
    struct run_loader l = {.core = c};
    int n = ledger_ask(&c->db, LEDGER_RUN_OPEN, err, "");

    n = n < 0 ? n : ledger_runs(&c->db, LEDGER_RUN_OPEN, load_run, &l, err);
    for (size_t i = 0; n >= 0 && i < l.n; i++) {
        index_run(c, l.v[i]);
        if (l.v[i]->row.state == RUN_QUEUED)
            queue_add(c, l.v[i]);
        else
            n = adopt_run(c, l.v[i], err);
    }
    free(l.v);
    return n;
}

/* -- the end ------------------------------------------------------------------------------------------------------------------ */

static void end_waits(struct core *c, struct live_run *r) {
    CLEANUP(closep) int events = -1;
    struct stat st = {0};

    for (struct api_call *call = c->calls, *next; call; call = next) {
        next = call->next;
        if (call->run != r)
            continue;
        call->run = NULL;
        if (call->wait == WAIT_END)
            call_run(call, call->status, &r->row);
        else if (call->wait == WAIT_TASK)
            call_fail(call, API_PROBLEM_ENDED, "the run has ended");
        else if (call->wait == WAIT_EVENTS) {
            uint64_t size;
            struct api_msg m = {.kind = API_LAST, .request = call->request};

            events = events >= 0 || r->dir < 0 ? events : place_run_file(c, r->tenant, r->row.id, "events", O_RDONLY);
            size = events >= 0 && fstat(events, &st) == 0 ? (uint64_t)st.st_size : 0;
            m.body = malloc(sizeof size);
            if (m.body)
                memcpy(m.body, &size, sizeof size);
            m.len = sizeof size;
            core_send(c, &m);
            call_free(call);
        }
    }
}

void core_end_run(struct core *c, struct live_run *r) {
    struct err err = {0};
    struct tenant *t = r->tenant;

    for (size_t i = 0; i < c->n_running; i++)
        if (c->running[i] == r) {
            VEC_REMOVE(c->running, c->n_running, i);
            t->running--;
            t->memory -= r->memory;
            break;
        }
    if (!r->row.ended_ns)
        r->row.ended_ns = clock_mark();
    if (ledger_begin(&c->db, &err) < 0 || ledger_run_end(&c->db, &r->row, &err) < 0)
        core_log(c, "error", "database", r->row.id, "%s", err.msg);
    if (r->row.state == RUN_FAILED || (r->row.state == RUN_CANCELLED && r->task < 0))
        place_fail_event(c, r);
    usage_end(c, t, r->row.cpu_us);
    traffic_count(c, t);
    core_event(c, t, "run", r->row.id, run_state_names[r->row.state], r->row.reason);
    c->counts.sent += r->row.sent;
    t->sent += r->row.sent;
    core_count_traffic(&c->counts.traffic, &r->traffic);
    core_count_traffic(&t->traffic, &r->traffic);
    core_log_run(c, &r->row);
    core_trace_run(c, r);
    core_measure_soon(c);
    c->counts.ended[r->row.state]++;
    end_waits(c, r);
    forget_run(c, r);
}

void core_cancel_run(struct core *c, struct live_run *r) {
    const struct task_msg m = {.type = TASK_MSG_CANCEL};

    if (r->row.state == RUN_QUEUED) {
        queue_remove(c, r);
        r->row.state = RUN_CANCELLED;
        core_end_run(c, r);
        return;
    }
    r->doomed = true;
    if (r->task >= 0)
        sock_send(r->task, &m, sizeof m, NULL, 0);
}

static void task_answered(struct core *c, const struct task_msg *m) {
    struct api_call *call = m->tag ? core_find_call(c, m->tag) : NULL;

    if (!call || call->wait != WAIT_TASK)
        return;
    if (m->value == 0)
        call_nothing(call);
    else if (m->value == EPIPE)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the command's standard input is closed, or the run was made without \"stdin\"");
    else if (m->value == EINVAL)
        call_fail_field(call, API_FIELD_SIGNAL, "this signal is not passed on");
    else
        call_fail(call, API_PROBLEM_CONFLICT, "%s", strerror(m->value));
}

void core_task_ready(struct core *c, struct live_run *r) {
    struct task_msg m;
    long n = r->task >= 0 ? sock_recv(r->task, &m, sizeof m, NULL, NULL) : 0;

    if (n == -EAGAIN)
        return;
    if (n == (long)sizeof m) {
        if (m.type == TASK_MSG_ANSWER)
            task_answered(c, &m);
        return;
    }
    if (!place_record(c, r)) {
        r->row.state = r->doomed ? RUN_CANCELLED : RUN_FAILED;
        r->row.status = -1;
        snprintf(r->row.reason, sizeof r->row.reason, "the supervisor of the run was killed, so it is not known how it ended");
        closep(&r->task);
    }
    core_end_run(c, r);
}
