/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that stay: `bawn start`, `stop` and `rm` as the tenant; the id is the sandbox's name there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "service/core/core_boxes.h"
#include "service/core/core_worker.h"
#include "service/task/taskreq.h"

enum { LIST_USUAL = 100, LIST_BYTES = 16 * 1024 * 1024, REASON_SIZE = 500, ORPHAN_MS = 60 * 1000 };

const char *const box_state_names[BOX_ROW_STATES] = {"starting", "running", "stopping", "stopped", "failed"};

/* -- rows --------------------------------------------------------------------------------------------------------------------- */

static void read_box(struct ledger *l, enum ledger_statement s, struct box_row *ret) {
    int64_t state = ledger_int(l, s, 3);

    ret->seq = (uint64_t)ledger_int(l, s, 0);
    ledger_chars(l, s, 1, ret->id, sizeof ret->id);
    ret->state = state >= 0 && state < BOX_ROW_STATES ? (enum box_row_state)state : BOX_ROW_FAILED;
    ret->created_ns = (uint64_t)ledger_int(l, s, 4);
    ledger_chars(l, s, 5, ret->reason, sizeof ret->reason);
    ledger_bytes(l, s, 6, &ret->request);
}

static int find_box(struct core *c, const struct tenant *t, const char *id, struct box_row *ret, struct err *err) {
    int n = ledger_ask(&c->db, LEDGER_BOX_GET, err, "tt", t->row.name, id);

    n = n < 0 ? n : ledger_next(&c->db, LEDGER_BOX_GET, err);
    if (n > 0)
        read_box(&c->db, LEDGER_BOX_GET, ret);
    ledger_end(&c->db, LEDGER_BOX_GET);
    return n;
}

int box_find(struct core *c, const struct tenant *t, const char *id, struct box_row *ret) {
    struct err ignored = {0};

    return find_box(c, t, id, ret, &ignored);
}

bool call_box_named(struct core *c, struct api_call *call, const char *id, struct box_row *ret) {
    struct err err = {0};
    int n = find_box(c, call->tenant, id, ret, &err);

    if (n < 0)
        call_broken(call, &err);
    else if (n == 0)
        call_fail(call, API_PROBLEM_NOT_FOUND, "there is no sandbox '%s'", id);
    return n > 0;
}

bool call_box(struct core *c, struct api_call *call, struct box_row *ret) {
    return call_box_named(c, call, call_text(call, API_FIELD_ID), ret);
}

static void answer_box(struct api_call *call, unsigned status, const struct box_row *b) {
    struct buf out = BUF_INIT(LIST_BYTES);

    box_json(b, &out);
    call_json(call, status, &out);
}

static void recount(struct core *c, struct tenant *t) {
    struct err err = {0};

    if (core_count_boxes(c, t, &err) < 0)
        core_log(c, "error", "database", "", "%s", err.msg);
}

static void set_state(struct core *c, struct tenant *t, const char *id, enum box_row_state state, const char *reason) {
    struct err err = {0};

    if (ledger_begin(&c->db, &err) < 0 || ledger_do(&c->db, LEDGER_BOX_STATE, &err, "ttit", t->row.name, id, (int64_t)state,
                                                    reason && reason[0] ? reason : NULL) < 0)
        core_log(c, "error", "database", id, "%s", err.msg);
    core_event(c, t, "sandbox", id, box_state_names[state], reason);
    recount(c, t);
}

/*
 * What the row says may be old: the sandbox may have stopped by itself, or a bawnd that was killed was about to start or stop it. What that one
 * had begun goes on for a while.
 */
static void look_at_box(struct core *c, struct tenant *t, struct box_row *b) {
    CLEANUP(closep) int fd = worker_alone(c, t, b->id) ? -EBUSY : box_connect(c, t, b->id);
    bool runs = fd >= 0 || fd == -EAGAIN, gone = fd == -ENOENT || fd == -ECONNREFUSED; /* else it is not known: -EBUSY, -EMFILE */
    const char *reason = "";

    if ((!runs && !gone) || runs == (b->state == BOX_ROW_RUNNING))
        return;
    if (runs) {
        b->state = BOX_ROW_RUNNING;
    } else if (b->state == BOX_ROW_RUNNING) {
        b->state = BOX_ROW_STOPPED;
        reason = "it has stopped by itself";
    } else if (b->state == BOX_ROW_STARTING && clock_ms() > c->begun_ms + ORPHAN_MS) {
        b->state = BOX_ROW_FAILED;
        reason = "the service has ended while it was started; start it again";
    } else {
        return;
    }
    snprintf(b->reason, sizeof b->reason, "%s", reason);
    set_state(c, t, b->id, b->state, reason);
}

void boxes_look(struct core *c, struct tenant *t) {
    CLEANUP(strv_done) struct strv ids = {0};
    struct err err = {0};
    int r = ledger_ask(&c->db, LEDGER_BOX_RUNNING, &err, "t", t->row.name);

    while (r >= 0 && (r = ledger_next(&c->db, LEDGER_BOX_RUNNING, &err)) > 0) {
        char id[RANDID_SIZE];

        ledger_chars(&c->db, LEDGER_BOX_RUNNING, 0, id, sizeof id);
        r = strv_add(&ids, id);
    }
    ledger_end(&c->db, LEDGER_BOX_RUNNING);
    if (r < 0)
        core_log(c, "error", "database", "", "%s", err.msg);
    for (size_t i = 0; i < ids.len; i++) {
        CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;

        if (box_find(c, t, ids.v[i], &b) > 0)
            look_at_box(c, t, &b);
    }
}

/* -- operations --------------------------------------------------------------------------------------------------------------- */

void op_box_get(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;

    if (!call_box(c, call, &b))
        return;
    look_at_box(c, call->tenant, &b);
    answer_box(call, 200, &b);
}

void op_box_list(struct core *c, struct api_call *call) {
    const char *page = call_text(call, API_FIELD_PAGE);
    uint64_t before = INT64_MAX, limit = api_field_number(&call->fields, API_FIELD_LIMIT, LIST_USUAL), n = 0, last = 0;
    struct buf out = BUF_INIT(LIST_BYTES);
    struct err err = {0};
    int r;

    if (page && parse_u64(page, 1, INT64_MAX, &before, &err) < 0) {
        call_fail_field(call, API_FIELD_PAGE, "is not the \"next\" of an answer");
        return;
    }
    buf_adds(&out, "{\"items\":[");
    r = ledger_ask(&c->db, LEDGER_BOX_LIST, &err, "ti", call->tenant->row.name, (int64_t)before);
    while (r >= 0 && n <= limit && (r = ledger_next(&c->db, LEDGER_BOX_LIST, &err)) > 0 && ++n <= limit) {
        CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;

        read_box(&c->db, LEDGER_BOX_LIST, &b);
        last = b.seq;
        box_json(&b, &out);
    }
    ledger_end(&c->db, LEDGER_BOX_LIST);
    if (r < 0) {
        buf_done(&out);
        call_broken(call, &err);
        return;
    }
    if (n > limit)
        buf_addf(&out, "],\"next\":\"%llu\"}", (unsigned long long)last);
    else
        buf_adds(&out, "],\"next\":null}");
    call_json(call, 200, &out);
}

/* -- start -------------------------------------------------------------------------------------------------------------------- */

void box_started(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    char reason[REASON_SIZE] = "";

    if (status)
        worker_reason(w, reason, sizeof reason);
    set_state(c, w->tenant, w->id, status ? BOX_ROW_FAILED : BOX_ROW_RUNNING, reason);
    if (!call)
        return;
    if (status)
        call_fail(call, API_PROBLEM_CANNOT_SANDBOX, "%s", reason);
    else if (call_box_named(c, call, w->id, &b))
        answer_box(call, call->status, &b);
}

static void start_box(struct core *c, struct api_call *call, const char *id, const struct buf *request, unsigned status);

static void source_done(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    char reason[REASON_SIZE];

    if (status || !call) {
        worker_reason(w, reason, sizeof reason);
        set_state(c, w->tenant, w->id, BOX_ROW_FAILED, status ? reason : "the client went before its workspace was filled");
        worker_nothing(c, w, call, status);
    } else if (call_box_named(c, call, w->id, &b))
        start_box(c, call, b.id, &b.request, 201);
}

/* A repository or another workspace comes first; then it is started. */
static void fill_box(struct core *c, struct api_call *call, const struct box_row *b) {
    CLEANUP(closep) int cwd = place_workspace(c, call->tenant, b->id);
    CLEANUP(closep) int request = fd_memory("request", buf_str(&b->request), b->request.len);
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = WORKER_PLAN_INIT;

    if (cwd < 0 || request < 0 || !program || strv_add(&p.argv, "bawn-task") < 0 || strv_add(&p.argv, "--source") < 0 ||
        strv_add(&p.argv, c->conf.bawn) < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "the sandbox's folder cannot be used");
        set_state(c, call->tenant, b->id, BOX_ROW_FAILED, "its folder cannot be used");
        return;
    }
    p.program = program;
    p.in = request;
    p.cwd = cwd;
    p.alone = true;
    p.done = source_done;
    if (worker_start(c, call, b->id, &p) < 0)
        set_state(c, call->tenant, b->id, BOX_ROW_FAILED, "its workspace could not be filled");
}

void box_begin(struct core *c, struct api_call *call, const char *id, struct worker_plan *p, unsigned status) {
    p->stays = p->alone = true;
    call->status = status;
    if (worker_start(c, call, id, p) < 0)
        set_state(c, call->tenant, id, BOX_ROW_FAILED, "it could not be started");
}

static void start_box(struct core *c, struct api_call *call, const char *id, const struct buf *request, unsigned status) {
    CLEANUP(closep) int cwd = place_start_dir(c, call->tenant, id, request);
    struct worker_plan p = WORKER_PLAN_INIT;
    struct err err = {0};

    if (cwd < 0 && taskreq_has(request, "shape.source.path")) {
        call_fail(call, API_PROBLEM_CANNOT_SANDBOX, "%s", place_source_refused);
        set_state(c, call->tenant, id, BOX_ROW_FAILED, place_source_refused);
        return;
    }
    if (cwd < 0 || taskreq_start_argv(request, id, &p.argv, &err) < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "the sandbox's folder or request is damaged");
        set_state(c, call->tenant, id, BOX_ROW_FAILED, "its folder or request is damaged");
        return;
    }
    p.cwd = cwd;
    p.done = box_started;
    box_begin(c, call, id, &p, status);
}

/* The same request with the same key is the same sandbox. */
bool box_repeated(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    const char *key = call_text(call, API_FIELD_IDEMPOTENCY_KEY);
    unsigned char hash[SHA256_LEN];
    char id[RANDID_SIZE];
    struct err err = {0};
    int n = 0;

    if (key) {
        call_hash(call, hash);
        n = ledger_key_find(&c->db, call->tenant->row.name, key, hash, clock_mark(), id, &err);
    }
    if (n == -EEXIST)
        call_fail(call, API_PROBLEM_IDEMPOTENCY_CONFLICT, "%s", err.msg);
    else if (n < 0)
        call_broken(call, &err);
    else if (n > 0 && !call_waits_turn(c, call, id) && call_box_named(c, call, id, &b)) {
        if (b.state == BOX_ROW_FAILED)
            call_fail(call, API_PROBLEM_CANNOT_SANDBOX, "%s", b.reason);
        else
            answer_box(call, 201, &b);
    }
    return n != 0;
}

/* It needs a place among what runs, and its memory. */
static bool quota_refuses(struct api_call *call, bool place, const struct buf *request) {
    const struct tenant *t = call->tenant;
    const uint64_t *q = t->row.quotas, memory = core_request_memory(request);

    if (place && q[QUOTA_RUNNING] != QUOTA_NONE && t->running + t->boxes >= q[QUOTA_RUNNING])
        call_retry(call, API_PROBLEM_QUOTA, 5, "this tenant has as many runs and sandboxes as it may have");
    else if (q[QUOTA_MEMORY] != QUOTA_NONE && t->memory + t->box_memory + memory > q[QUOTA_MEMORY])
        call_retry(call, API_PROBLEM_QUOTA, 5,
                   "what this tenant runs may not have so much memory: stop a sandbox, or ask for less");
    else
        return false;
    return true;
}

bool box_refused(struct core *c, struct api_call *call, const struct buf *request) {
    if (c->draining)
        call_retry(call, API_PROBLEM_DRAINING, 5, "the service is ending");
    else
        return quota_refuses(call, true, request) || call_disk_full(call);
    return true;
}

int box_add(struct core *c, struct api_call *call, struct box_row *b, struct err *err) {
    struct live_run place = {.tenant = call->tenant, .dir = -1, .task = -1};
    const char *key = call_text(call, API_FIELD_IDEMPOTENCY_KEY);
    unsigned char hash[SHA256_LEN];
    int r = randid_make("box", b->id);

    b->created_ns = clock_mark();
    if (r < 0)
        return err_sys(err, r, "random bytes");
    snprintf(place.row.id, sizeof place.row.id, "%s", b->id);
    r = r < 0 ? r : place_make(c, &place, err);
    closep(&place.dir);
    r = r < 0 ? r : ledger_begin(&c->db, err);
    r = r < 0
            ? r
            : ledger_do(&c->db, LEDGER_BOX_ADD, err, "ttiibi", b->id, call->tenant->row.name, (int64_t)BOX_ROW_STARTING,
                        (int64_t)b->created_ns, buf_str(&b->request), b->request.len, (int64_t)core_request_memory(&b->request));
    if (r >= 0 && key) {
        call_hash(call, hash);
        r = ledger_key_add(&c->db, call->tenant->row.name, key, hash, b->id, b->created_ns, err);
    }
    return r < 0 ? r : core_count_boxes(c, call->tenant, err);
}

void op_box_create(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    struct err err = {0};

    if (box_repeated(c, call) || call_refused(call))
        return;
    if (call_pack_request(call, &b.request) < 0)
        call_fail(call, API_PROBLEM_TOO_LARGE, "the request is too large");
    else if (box_refused(c, call, &b.request))
        return;
    else if (box_add(c, call, &b, &err) < 0)
        call_broken(call, &err);
    else if (call_text(call, API_FIELD_SHAPE_SOURCE_GIT) || call_text(call, API_FIELD_SHAPE_SOURCE_RUN))
        fill_box(c, call, &b);
    else
        start_box(c, call, b.id, &b.request, 201);
}

void op_box_start(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;

    if (!call_box(c, call, &b) || call_waits_turn(c, call, b.id))
        return;
    look_at_box(c, call->tenant, &b);
    if (b.state == BOX_ROW_RUNNING)
        answer_box(call, 200, &b);
    else if (b.state < BOX_ROW_STOPPED || !quota_refuses(call, b.state == BOX_ROW_FAILED, &b.request)) {
        set_state(c, call->tenant, b.id, BOX_ROW_STARTING, NULL);
        start_box(c, call, b.id, &b.request, 200);
    }
}

/* -- stop and rm -------------------------------------------------------------------------------------------------------------- */

static void stop_done(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;

    if (status) {
        worker_nothing(c, w, call, status);
        return;
    }
    if (box_find(c, w->tenant, w->id, &b) > 0 && b.state != BOX_ROW_FAILED) { /* a failed one has no place that it could keep */
        b.state = BOX_ROW_STOPPED;
        b.reason[0] = 0;
        set_state(c, w->tenant, w->id, b.state, NULL);
    }
    if (call)
        answer_box(call, 200, &b);
}

static void forget_done(struct core *c, struct core_worker *w, struct api_call *call, int status UNUSED) {
    struct err err = {0};

    if (place_trash(c, w->tenant, w->id) < 0 || ledger_begin(&c->db, &err) < 0 ||
        ledger_do(&c->db, LEDGER_BOX_REMOVE, &err, "tt", w->tenant->row.name, w->id) < 0)
        core_log(c, "error", "remove", w->id, "%s", err.msg[0] ? err.msg : "its folder cannot be moved");
    core_event(c, w->tenant, "sandbox", w->id, "removed", NULL);
    recount(c, w->tenant);
    if (call)
        call_nothing(call);
}

/* What the tenant's home has of its workspace goes as well; then its folder and its row. */
static void remove_done(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    CLEANUP(closep) int cwd = place_workspace(c, w->tenant, w->id);
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = {
        .program = program, .in = -1, .out = -1, .cwd = cwd, .stays = true, .alone = true, .done = forget_done};
    struct err err = {0};
    char reason[REASON_SIZE] = "";

    if (status)
        worker_reason(w, reason, sizeof reason);
    if (status && !str_starts(reason, "no sandbox '")) { /* one whose first start failed is not there */
        worker_nothing(c, w, call, status);
        return;
    }
    if (!program || strv_add(&p.argv, "bawn-task") < 0 || strv_add(&p.argv, "--forget") < 0 ||
        worker_detached(c, w->tenant, w->request, w->id, &p, &err) < 0) {
        strv_done(&p.argv);
        forget_done(c, w, call, 0);
    }
}

static void box_verb(struct core *c, struct api_call *call, const char *const *words, worker_done *done) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    struct worker_plan p = WORKER_PLAN_INIT;
    int r;

    if (!call_box(c, call, &b) || call_waits_turn(c, call, b.id))
        return;
    look_at_box(c, call->tenant, &b);
    r = strv_add(&p.argv, "bawn");
    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(&p.argv, words[i]);
    r = r < 0 ? r : strv_add(&p.argv, b.id);
    if (r < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
        return;
    }
    p.stays = p.alone = true;
    p.done = done;
    worker_start(c, call, b.id, &p);
}

void op_box_stop(struct core *c, struct api_call *call) {
    box_verb(c, call, (const char *const[]){"stop", "--force", NULL}, stop_done);
}

void op_box_delete(struct core *c, struct api_call *call) {
    box_verb(c, call, (const char *const[]){"rm", "--force", "--discard-changes", NULL}, remove_done);
}
