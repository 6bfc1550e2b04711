/* SPDX-License-Identifier: Apache-2.0 */
/* A new run: what it may be, quotas, idempotency. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/limits.h"
#include "os/clock.h"
#include "service/core/core_boxes.h"
#include "service/task/taskreq.h"
#include "service/task/tasksource.h"

/* Of the request itself, not of the run. */
static bool is_of_the_run(unsigned field) {
    return field != API_FIELD_BEARER && field != API_FIELD_REQUEST_ID && field != API_FIELD_STREAM &&
           field != API_FIELD_IDEMPOTENCY_KEY && field != API_FIELD_WAIT;
}

/* By names, in the order of the fields: the same request is the same bytes. */
int call_pack(const struct api_fields *f, struct buf *to) {
    for (size_t i = 0; i < f->n; i++) {
        const struct api_value *v = &f->v[i];
        size_t len = v->is_pair ? (size_t)v->key_len + 1 + v->len : v->len;

        if (is_of_the_run(v->field))
            taskreq_add(to, api_field_names[v->field], f->text.data + v->at, len);
    }
    return buf_ok(to) ? 0 : -E2BIG;
}

/* -- what is refused ---------------------------------------------------------------------------------------------------------- */

/* 1: it is, 0: there is none, -EBUSY */
static int run_is_over(struct core *c, struct tenant *t, const char *id) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    struct err ignored = {0};

    if (core_find_run(c, t, id))
        return -EBUSY;
    if (box_find(c, t, id, &b) > 0)
        return b.state == BOX_ROW_STOPPED || b.state == BOX_ROW_FAILED ? 1 : -EBUSY;
    return ledger_run_get(&c->db, t->row.name, id, &row, &ignored) > 0;
}

/* The secrets of each class of runs are in the configuration. Once there are classes, a run has those of its own class or none. */
static const struct core_class *class_of(const struct api_call *call) {
    const struct core_conf *conf = &call->core->conf;
    const char *name = call_text(call, API_FIELD_SHAPE_CLASS);

    for (size_t i = 0; name && i < conf->n_classes; i++)
        if (str_eq(conf->classes[i].name, name))
            return &conf->classes[i];
    return NULL;
}

static bool refuse_secrets(struct api_call *call) {
    const struct core_class *class = class_of(call);

    if (call_text(call, API_FIELD_SHAPE_CLASS) && !class) {
        call_fail_field(call, API_FIELD_SHAPE_CLASS, "there is no such class of runs");
        return true;
    }
    for (size_t i = 0; call->core->conf.n_classes && i < api_field_count(&call->fields, API_FIELD_SHAPE_SECRETS); i++)
        if (!class || !strv_has(&class->secrets, api_field_get(&call->fields, API_FIELD_SHAPE_SECRETS, i))) {
            call_fail_field(call, API_FIELD_SHAPE_SECRETS, "has one that does not go with this class of runs");
            return true;
        }
    return false;
}

/* Where memory has a quota there is a limit that says what counts. */
static void pack_memory(const struct api_call *call, struct buf *to) {
    uint64_t most = call->tenant->row.quotas[QUOTA_MEMORY];
    char text[24];

    if (most == QUOTA_NONE || call_text(call, API_FIELD_SHAPE_LIMITS_MEMORY))
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)MIN_OF(most, LIMITS_MEMORY_USUAL));
    taskreq_add(to, "shape.limits.memory", text, strlen(text));
}

int call_pack_request(const struct api_call *call, struct buf *to) {
    const struct core_class *class = class_of(call);
    int r = call_pack(&call->fields, to);

    pack_memory(call, to);
    if (r >= 0 && !buf_ok(to))
        r = -E2BIG;
    if (!call->core->conf.n_classes || call_text(call, API_FIELD_SHAPE_SECRETS))
        return r;
    for (size_t i = 0; class && i < class->secrets.len; i++)
        taskreq_add(to, "shape.secrets", class->secrets.v[i], strlen(class->secrets.v[i]));
    if (!class || !class->secrets.len)
        taskreq_add(to, "no_secrets", "1", 1);
    return r < 0 ? r : buf_ok(to) ? 0 : -E2BIG;
}

/* One source at most; a workspace that is copied belongs to the tenant, and nothing runs in it. */
static bool refuse_source(struct api_call *call) {
    const char *git = call_text(call, API_FIELD_SHAPE_SOURCE_GIT), *run = call_text(call, API_FIELD_SHAPE_SOURCE_RUN),
               *branch = call_text(call, API_FIELD_SHAPE_SOURCE_BRANCH);
    CLEANUP(freep) char *host = NULL;
    struct err err = {0};
    int r;

    if ((git && run) || (call_text(call, API_FIELD_SHAPE_SOURCE_PATH) && (git || run)))
        call_fail_field(call, API_FIELD_SHAPE_SOURCE_GIT, "only one source is possible");
    else if (branch && (!git || branch[0] == '-'))
        call_fail_field(call, API_FIELD_SHAPE_SOURCE_BRANCH,
                        git ? "is not the name of a branch" : "is only possible with a repository");
    else if (git && tasksource_host(git, &host, &err) < 0)
        call_fail_field(call, API_FIELD_SHAPE_SOURCE_GIT, err.msg);
    else if (run && (r = run_is_over(call->core, call->tenant, run)) <= 0) {
        if (r < 0)
            call_fail(call, API_PROBLEM_CONFLICT, "'%s' has not ended", run);
        else
            call_fail_field(call, API_FIELD_SHAPE_SOURCE_RUN, "there is no such run");
    } else
        return false;
    return true;
}

static bool refuse_shape(struct api_call *call) {
    const char *path = call_text(call, API_FIELD_SHAPE_SOURCE_PATH);

    if (refuse_source(call) || refuse_secrets(call))
        return true;
    if (path && !place_listed(call->tenant, path)) {
        call_fail_field(call, API_FIELD_SHAPE_SOURCE_PATH, "this tenant may not use this folder");
        return true;
    }
    if (call->route->op == API_OP_RUN_CREATE && !call_text(call, API_FIELD_COMMAND) && !call_text(call, API_FIELD_AGENT_NAME)) {
        call_fail_field(call, API_FIELD_COMMAND, "is empty");
        return true;
    }
    return false;
}

/* A limit on memory that is more than the tenant may use would never start. */
static bool refuse_memory(struct api_call *call) {
    const char *text = call_text(call, API_FIELD_SHAPE_LIMITS_MEMORY);
    uint64_t bytes = 0, most = call->tenant->row.quotas[QUOTA_MEMORY];
    struct err err = {0};

    if (!text)
        return false;
    if (parse_size(text, &bytes, &err) < 0) {
        call_fail_field(call, API_FIELD_SHAPE_LIMITS_MEMORY, err.msg);
        return true;
    }
    if (most == QUOTA_NONE || (bytes && bytes <= most)) /* 0: no limit */
        return false;
    call_fail_field(call, API_FIELD_SHAPE_LIMITS_MEMORY, "is more than this tenant may use");
    return true;
}

bool call_refused(struct api_call *call) {
    return refuse_shape(call) || refuse_memory(call);
}

static unsigned seconds_to_next_minute(uint64_t now_ns) {
    return 60 - (unsigned)(now_ns / 1000000000 % 60);
}

static bool refuse_quota(struct core *c, struct api_call *call) {
    struct tenant *t = call->tenant;
    const uint64_t *q = t->row.quotas;
    uint64_t now = clock_mark();
    struct usage_part use;

    traffic_count(c, t);
    use = hour_sum(&t->use, now);
    if (q[QUOTA_RUNNING] == 0 || (q[QUOTA_QUEUED] != QUOTA_NONE && t->queued >= q[QUOTA_QUEUED]))
        call_retry(call, API_PROBLEM_QUOTA, 1, "this tenant has as many runs waiting as it may have");
    else if (q[QUOTA_RUNS] != QUOTA_NONE && use.runs >= q[QUOTA_RUNS])
        call_retry(call, API_PROBLEM_QUOTA, seconds_to_next_minute(now),
                   "this tenant has made as many runs in this hour as it may");
    else if (q[QUOTA_CPU] != QUOTA_NONE && use.cpu_us / 1000000 >= q[QUOTA_CPU])
        call_retry(call, API_PROBLEM_QUOTA, seconds_to_next_minute(now), "this tenant has used its CPU time of this hour");
    else if (q[QUOTA_OUT] != QUOTA_NONE && use.sent >= q[QUOTA_OUT])
        call_retry(call, API_PROBLEM_QUOTA, seconds_to_next_minute(now),
                   "this tenant has sent as many bytes in this hour as it may");
    else if (call_disk_full(call))
        return true;
    else if (c->n_queued >= c->conf.queued)
        call_retry(call, API_PROBLEM_QUEUE_FULL, 5, "the service has as many runs waiting as it can have");
    else
        return false;
    return true;
}

/* -- making it ---------------------------------------------------------------------------------------------------------------- */

static struct live_run *new_run(struct api_call *call, struct err *err) {
    struct live_run *r = calloc(1, sizeof *r);

    if (!r) {
        err_oom(err);
        return NULL;
    }
    *r = (struct live_run){.row = RUN_ROW_INIT, .tenant = call->tenant, .dir = -1, .task = -1};
    snprintf(r->row.tenant, sizeof r->row.tenant, "%s", call->tenant->row.name);
    r->row.created_ns = clock_mark();
    r->row.held = api_field_bool(&call->fields, API_FIELD_HOLD, false);
    if (randid_make("run", r->row.id) < 0 || call_pack_request(call, &r->row.request) < 0) {
        run_row_done(&r->row);
        free(r);
        err_set(err, -EIO, "a new run");
        return NULL;
    }
    return r;
}

void call_hash(const struct api_call *call, unsigned char *ret) {
    struct buf b = BUF_INIT(RUN_REQUEST_MAX);

    call_pack(&call->fields, &b);
    sha256_of(buf_str(&b), b.len, ret);
    buf_done(&b);
}

static void wait_or_answer(struct api_call *call, struct live_run *r) {
    uint64_t wait = api_field_number(&call->fields, API_FIELD_WAIT, 0);

    if (wait == 0) {
        call_run(call, 201, &r->row);
        return;
    }
    call->wait = WAIT_END;
    call->run = r;
    call->status = 201;
    call->deadline_ms = clock_ms() + wait * 1000;
}

/* 1: it was answered; 0: a new key, or none; -errno */
static int repeat(struct core *c, struct api_call *call, const char *key, const unsigned char *hash, struct err *err) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    char id[RANDID_SIZE];
    struct live_run *r;
    int n = ledger_key_find(&c->db, call->tenant->row.name, key, hash, clock_mark(), id, err);

    if (n == -EEXIST) {
        call_fail(call, API_PROBLEM_IDEMPOTENCY_CONFLICT, "%s", err->msg);
        return 1;
    }
    if (n <= 0)
        return n;
    r = core_find_run(c, call->tenant, id);
    if (r) {
        wait_or_answer(call, r);
        return 1;
    }
    n = ledger_run_get(&c->db, call->tenant->row.name, id, &row, err);
    if (n > 0)
        call_run(call, 201, &row);
    else if (n == 0)
        call_fail(call, API_PROBLEM_IDEMPOTENCY_CONFLICT, "the run of this idempotency key was removed");
    return n < 0 ? n : 1;
}

static int accept_run(struct core *c, struct api_call *call, const char *key, const unsigned char *hash, struct err *err) {
    struct live_run *r = new_run(call, err);
    int n;

    if (!r)
        return err->code;
    n = ledger_begin(&c->db, err);
    if (n >= 0 && key)
        n = ledger_key_add(&c->db, r->row.tenant, key, hash, r->row.id, r->row.created_ns, err);
    n = n < 0 ? n : core_add_run(c, r, err);
    if (n < 0) {
        run_row_done(&r->row);
        free(r);
        return n;
    }
    wait_or_answer(call, r);
    return 0;
}

void op_run_create(struct core *c, struct api_call *call) {
    const char *key = call_text(call, API_FIELD_IDEMPOTENCY_KEY);
    unsigned char hash[SHA256_LEN];
    struct err err = {0};
    int n = 0;

    if (key) {
        call_hash(call, hash);
        n = repeat(c, call, key, hash, &err);
    }
    if (n < 0)
        call_broken(call, &err);
    if (n != 0)
        return;
    if (c->draining) {
        call_retry(call, API_PROBLEM_DRAINING, 5, "the service is ending");
        return;
    }
    if (call_refused(call) || refuse_quota(c, call))
        return;
    if (accept_run(c, call, key, hash, &err) < 0)
        call_broken(call, &err);
}
