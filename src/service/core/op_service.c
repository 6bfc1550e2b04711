/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations; health and metrics. */
#include <inttypes.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "os/fd.h"
#include "service/core/core_boxes.h"

core_op *const core_ops[API_OPS] = {
    [API_OP_HEALTH] = op_health,
    [API_OP_METRICS] = op_metrics,
    [API_OP_ME] = op_me,
    [API_OP_LINK_CREATE] = op_link_create,
    [API_OP_SESSION_CREATE] = op_session_create,
    [API_OP_SESSION_END] = op_session_end,
    [API_OP_USAGE] = op_usage,
    [API_OP_VERDICTS] = op_verdicts,
    [API_OP_ENGINES] = op_engines,
    [API_OP_SECRETS] = op_secrets,
    [API_OP_IMAGES] = op_images,
    [API_OP_AUDIT] = op_audit,
    [API_OP_POLICY_ADD] = op_policy_add,
    [API_OP_POLICY_REMOVE] = op_policy_remove,
    [API_OP_QUESTION_ANSWER] = op_question_answer,
    [API_OP_POLICY_GET] = op_policy_get,
    [API_OP_QUESTION_LIST] = op_question_list,
    [API_OP_DIFF] = op_diff,
    [API_OP_REVIEW] = op_review,
    [API_OP_APPLY] = op_apply,
    [API_OP_DISCARD] = op_discard,
    [API_OP_FILE_LIST] = op_file_list,
    [API_OP_FILE_READ] = op_file_read,
    [API_OP_FILE_WRITE] = op_file_write,
    [API_OP_FILE_DELETE] = op_file_delete,
    [API_OP_ARCHIVE_READ] = op_archive_read,
    [API_OP_ARCHIVE_WRITE] = op_archive_write,
    [API_OP_BOX_LIST] = op_box_list,
    [API_OP_BOX_CREATE] = op_box_create,
    [API_OP_BOX_GET] = op_box_get,
    [API_OP_BOX_DELETE] = op_box_delete,
    [API_OP_BOX_START] = op_box_start,
    [API_OP_BOX_STOP] = op_box_stop,
    [API_OP_BOX_EXEC] = op_box_exec,
    [API_OP_TENANT_EVENTS] = op_tenant_events,
    [API_OP_FILE_WATCH] = op_file_watch,
    [API_OP_BOX_TERMINAL] = op_box_terminal,
    [API_OP_BOX_FORK] = op_box_fork,
    [API_OP_BOX_EXPOSE] = op_box_expose,
    [API_OP_CHECKPOINT_LIST] = op_checkpoint_list,
    [API_OP_CHECKPOINT_CREATE] = op_checkpoint_create,
    [API_OP_CHECKPOINT_DELETE] = op_checkpoint_delete,
    [API_OP_RUN_LIST] = op_run_list,
    [API_OP_RUN_CREATE] = op_run_create,
    [API_OP_RUN_GET] = op_run_get,
    [API_OP_RUN_DELETE] = op_run_delete,
    [API_OP_RUN_CANCEL] = op_run_cancel,
    [API_OP_RUN_SIGNAL] = op_run_signal,
    [API_OP_RUN_STDIN] = op_run_stdin,
    [API_OP_RUN_OUTPUT] = op_run_output,
    [API_OP_RUN_EVENTS] = op_run_events,
    [API_OP_TENANT_LIST] = op_tenant_list,
    [API_OP_TENANT_CREATE] = op_tenant_create,
    [API_OP_TENANT_GET] = op_tenant_get,
    [API_OP_TENANT_CHANGE] = op_tenant_change,
    [API_OP_TENANT_DELETE] = op_tenant_delete,
    [API_OP_TOKEN_LIST] = op_token_list,
    [API_OP_TOKEN_CREATE] = op_token_create,
    [API_OP_TOKEN_DELETE] = op_token_delete,
};

void op_health(struct core *c, struct api_call *call) {
    struct buf b = BUF_INIT(4096);
    struct jsonout j = {.to = &b, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "status", c->draining ? "draining" : "ok");
    jsonout_text(&j, "version", BAWN_VERSION);
    jsonout_close(&j, '}');
    call_json(call, 200, &b);
}

/* -- metrics ------------------------------------------------------------------------------------------------------------------ */

static void metric(struct buf *b, const char *name, const char *type, const char *help) {
    buf_addf(b, "# HELP bawn_%s %s\n# TYPE bawn_%s %s\n", name, help, name, type);
}

static void gauge(struct buf *b, const char *name, const char *type, const char *help, uint64_t value) {
    metric(b, name, type, help);
    buf_addf(b, "bawn_%s %" PRIu64 "\n", name, value);
}

static void histogram(struct buf *b, const char *name, const char *help, const uint64_t *buckets, uint64_t sum_us) {
    uint64_t n = 0;

    metric(b, name, "histogram", help);
    for (size_t i = 0; i < CORE_LATENCIES; i++) {
        n += buckets[i];
        buf_addf(b, "bawn_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)core_latency_ms[i] / 1000, n);
    }
    n += buckets[CORE_LATENCIES];
    buf_addf(b, "bawn_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nbawn_%s_sum %g\nbawn_%s_count %" PRIu64 "\n", name, n, name,
             (double)sum_us / 1e6, name, n);
}

static void add_boxes(struct core *c, struct buf *b) {
    uint64_t n[BOX_ROW_STATES] = {0};
    struct err err = {0};
    int r = ledger_ask(&c->db, LEDGER_BOX_STATES, &err, "");

    while (r >= 0 && (r = ledger_next(&c->db, LEDGER_BOX_STATES, &err)) > 0) {
        int64_t state = ledger_int(&c->db, LEDGER_BOX_STATES, 0);

        if (state >= 0 && state < BOX_ROW_STATES)
            n[state] = (uint64_t)ledger_int(&c->db, LEDGER_BOX_STATES, 1);
    }
    ledger_end(&c->db, LEDGER_BOX_STATES);
    metric(b, "sandboxes", "gauge", "Sandboxes, by state");
    for (int i = 0; i < BOX_ROW_STATES; i++)
        buf_addf(b, "bawn_sandboxes{state=\"%s\"} %" PRIu64 "\n", box_state_names[i], n[i]);
}

void op_metrics(struct core *c, struct api_call *call) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    const struct core_counts *n = &c->counts;
    int fd;

    metric(&b, "requests_total", "counter", "Requests answered, by the first digit of the status");
    for (int i = 2; i <= 5; i++)
        buf_addf(&b, "bawn_requests_total{code=\"%dxx\"} %" PRIu64 "\n", i, n->requests[i]);
    histogram(&b, "request_seconds", "From a request to its answer, in bawnd", n->latency, n->latency_us);
    gauge(&b, "runs_accepted_total", "counter", "Runs accepted", n->accepted);
    metric(&b, "runs_ended_total", "counter", "Runs ended, by state");
    for (int i = RUN_DONE; i < RUN_STATES; i++)
        buf_addf(&b, "bawn_runs_ended_total{state=\"%s\"} %" PRIu64 "\n", run_state_names[i], n->ended[i]);
    histogram(&b, "queue_seconds", "From accepting a run to its start", n->wait, n->wait_us);
    gauge(&b, "runs_running", "gauge", "Runs that run", c->n_running);
    gauge(&b, "runs_queued", "gauge", "Runs that wait", c->n_queued);
    add_boxes(c, &b);
    gauge(&b, "sent_bytes_total", "counter", "Bytes that runs which have ended sent over the network", n->sent);
    gauge(&b, "disk_bytes", "gauge", "Bytes of all tenants on disk, if quotas or a budget need them", c->disk);
    gauge(&b, "tenants", "gauge", "Tenants", c->n_tenants);
    gauge(&b, "quota_hits_total", "counter", "Requests refused because of a quota", n->quota);
    gauge(&b, "unauthorized_total", "counter", "Requests without a valid token", n->unauthorized);
    gauge(&b, "fronts_started_total", "counter", "How often bawn-front was started", n->fronts);
    fd = buf_ok(&b) ? fd_memory("metrics", b.data, b.len) : -1;
    if (fd < 0)
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
    else
        call_fd(call, API_FLAG_PART, (uint64_t[]){0, b.len}, 16, fd);
}
