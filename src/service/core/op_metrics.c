/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics in the text format of Prometheus. */
#include <inttypes.h>

#include "base/err.h"
#include "os/fd.h"
#include "policy/rules/verdict.h"
#include "service/core/core_boxes.h"

enum { METRICS_MAX = 256 * 1024, METRICS_TENANTS = 200 };
#define RUN_COUNT_MAX (UINT64_C(1) << 48)

static_assert(POLICY_CODES <= (int)TASK_CODES, "the record has room for every code");
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

/* -- the network -------------------------------------------------------------------------------------------------------------- */

/* The records are written by processes of tenants: none of them makes a counter wrap round. */
static void add_count(uint64_t *to, uint64_t n) {
    *to += MIN_OF(n, RUN_COUNT_MAX);
}

void core_count_traffic(struct task_traffic *to, const struct task_traffic *run) {
    add_count(&to->received, run->received);
    add_count(&to->allowed, run->allowed);
    add_count(&to->failed, run->failed);
    for (size_t i = 0; i < TASK_CODES; i++)
        add_count(&to->denied[i], run->denied[i]);
}

static void add_traffic(struct buf *b, const struct core_counts *n) {
    metric(b, "network_verdicts_total", "counter", "Connections and requests of runs that have ended, by what the gate decided");
    buf_addf(b, "bawn_network_verdicts_total{verdict=\"allowed\",code=\"%s\"} %" PRIu64 "\n", policy_codes[POLICY_ALLOWED].name,
             n->traffic.allowed);
    for (int i = POLICY_ASK; i < POLICY_CODES; i++)
        buf_addf(b, "bawn_network_verdicts_total{verdict=\"denied\",code=\"%s\"} %" PRIu64 "\n", policy_codes[i].name,
                 n->traffic.denied[i]);
    gauge(b, "network_failed_total", "counter", "Allowed, and could not be reached; of runs that have ended", n->traffic.failed);
    metric(b, "network_bytes_total", "counter", "Bytes through the gates of runs that have ended");
    buf_addf(b, "bawn_network_bytes_total{direction=\"sent\"} %" PRIu64 "\n", n->sent);
    buf_addf(b, "bawn_network_bytes_total{direction=\"received\"} %" PRIu64 "\n", n->traffic.received);
}

static uint64_t denied_of(const struct task_traffic *t) {
    uint64_t sum = 0;

    for (size_t i = 0; i < TASK_CODES; i++)
        sum += t->denied[i];
    return sum;
}

/* Names of tenants have no character that a label would need to escape. Past the ceiling there are no more labels, only the sums above. */
static void add_tenants(const struct core *c, struct buf *b) {
    size_t n = MIN_OF(c->n_tenants, (size_t)METRICS_TENANTS);

    metric(b, "tenant_network_bytes_total", "counter", "Bytes through the gates of a tenant's runs that have ended");
    for (size_t i = 0; i < n; i++) {
        const struct tenant *t = c->tenants[i];

        buf_addf(b, "bawn_tenant_network_bytes_total{tenant=\"%s\",direction=\"sent\"} %" PRIu64 "\n", t->row.name, t->sent);
        buf_addf(b, "bawn_tenant_network_bytes_total{tenant=\"%s\",direction=\"received\"} %" PRIu64 "\n", t->row.name,
                 t->traffic.received);
    }
    metric(b, "tenant_network_verdicts_total", "counter", "What the gates of a tenant's runs that have ended decided");
    for (size_t i = 0; i < n; i++) {
        const struct tenant *t = c->tenants[i];

        buf_addf(b, "bawn_tenant_network_verdicts_total{tenant=\"%s\",verdict=\"allowed\"} %" PRIu64 "\n", t->row.name,
                 t->traffic.allowed);
        buf_addf(b, "bawn_tenant_network_verdicts_total{tenant=\"%s\",verdict=\"denied\"} %" PRIu64 "\n", t->row.name,
                 denied_of(&t->traffic));
    }
}

void op_metrics(struct core *c, struct api_call *call) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(METRICS_MAX);
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
    add_traffic(&b, n);
    add_tenants(c, &b);
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
