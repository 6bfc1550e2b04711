/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: for each run that has ended, a line of OTLP/JSON (an ExportTraceServiceRequest), as the file receiver of OpenTelemetry's collector reads it.
 * The ids are made from the run's, so that a line that is written twice is the same span twice. A run's own times come from a process of its tenant:
 * they are put in order, and between what bawnd saw itself.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/jsonout.h"
#include "base/sha256.h"
#include "os/fd.h"
#include "service/core/core.h"

enum { TRACE_LINE_MAX = 16 * 1024, TRACE_ID = 16, SPAN_ID = 8, SPAN_KIND_INTERNAL = 1, STATUS_OK = 1, STATUS_ERROR = 2 };

struct span {
    const char *name;
    uint64_t from, to;
};

static void add_id(struct jsonout *j, const char *key, const char *run, const char *name, size_t len) {
    unsigned char hash[SHA256_LEN];
    char text[RANDID_SIZE + 32], hex[2 * TRACE_ID + 1];

    snprintf(text, sizeof text, "%s/%.24s", run, name);
    sha256_of(text, strlen(text), hash);
    hex_encode(hash, len, hex);
    jsonout_text(j, key, hex);
}

/* 64 bits are texts in JSON of protobuf. */
static void add_number(struct jsonout *j, const char *key, uint64_t n) {
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, n);
    jsonout_text(j, key, text);
}

static void open_attribute(struct jsonout *j, const char *key) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "key", key);
    jsonout_open(j, "value", '{');
}

static void close_attribute(struct jsonout *j) {
    jsonout_close(j, '}');
    jsonout_close(j, '}');
}

static void text_attribute(struct jsonout *j, const char *key, const char *text) {
    open_attribute(j, key);
    jsonout_text(j, "stringValue", text);
    close_attribute(j);
}

static void number_attribute(struct jsonout *j, const char *key, uint64_t n) {
    open_attribute(j, key);
    add_number(j, "intValue", n);
    close_attribute(j);
}

static void span_open(struct jsonout *j, const char *run, const struct span *s, const char *parent) {
    jsonout_open(j, NULL, '{');
    add_id(j, "traceId", run, "", TRACE_ID);
    add_id(j, "spanId", run, s->name, SPAN_ID);
    if (parent)
        add_id(j, "parentSpanId", run, parent, SPAN_ID);
    jsonout_text(j, "name", s->name);
    jsonout_u64(j, "kind", SPAN_KIND_INTERNAL);
    add_number(j, "startTimeUnixNano", s->from);
    add_number(j, "endTimeUnixNano", s->to);
}

static void add_root(struct jsonout *j, const struct live_run *r, const struct span *s) {
    const struct run_row *row = &r->row;

    span_open(j, row->id, s, NULL);
    jsonout_open(j, "attributes", '[');
    text_attribute(j, "bawn.run", row->id);
    text_attribute(j, "bawn.tenant", row->tenant);
    text_attribute(j, "bawn.state", run_state_names[row->state]);
    if (row->status >= 0)
        number_attribute(j, "process.exit.code", (uint64_t)row->status);
    number_attribute(j, "bawn.cpu_us", row->cpu_us);
    number_attribute(j, "bawn.sent", row->sent);
    jsonout_close(j, ']');
    jsonout_open(j, "status", '{');
    if (row->state != RUN_DONE)
        jsonout_text(j, "message", row->reason[0] ? row->reason : run_state_names[row->state]);
    jsonout_u64(j, "code", row->state == RUN_DONE ? STATUS_OK : STATUS_ERROR);
    jsonout_close(j, '}');
    jsonout_close(j, '}');
}

/* From one moment to the next, each not before the last. A phase that was not reached has no span. */
static void add_phases(struct jsonout *j, const struct live_run *r, const struct span *root) {
    static const char *const names[TASK_TIMES] = {"started", "command", "review", "teardown", NULL};
    uint64_t before = r->row.started_ns ? MAX_OF(r->row.started_ns, root->from) : root->to;
    struct span s = {"queued", root->from, MIN_OF(before, root->to)};

    span_open(j, r->row.id, &s, "run");
    jsonout_close(j, '}');
    for (size_t i = 0; i + 1 < TASK_TIMES && r->row.started_ns; i++) {
        uint64_t end = r->times[i + 1] ? MIN_OF(MAX_OF(r->times[i + 1], s.to), root->to) : 0;

        if (!end)
            continue;
        s = (struct span){names[i], s.to, i + 2 == TASK_TIMES ? root->to : end};
        span_open(j, r->row.id, &s, "run");
        jsonout_close(j, '}');
    }
}

void core_trace_run(struct core *c, const struct live_run *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TRACE_LINE_MAX);
    struct jsonout j = {.to = &b, .compact = true};
    const struct span root = {"run", r->row.created_ns, MAX_OF(r->row.ended_ns, r->row.created_ns)};

    if (c->trace < 0)
        return;
    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "resourceSpans", '[');
    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "resource", '{');
    jsonout_open(&j, "attributes", '[');
    text_attribute(&j, "service.name", "bawnd");
    text_attribute(&j, "service.version", BAWN_VERSION);
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
    jsonout_open(&j, "scopeSpans", '[');
    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "scope", '{');
    jsonout_text(&j, "name", "bawn");
    jsonout_close(&j, '}');
    jsonout_open(&j, "spans", '[');
    add_root(&j, r, &root);
    add_phases(&j, r, &root);
    for (const char *end = "]}]}]}"; *end; end++)
        jsonout_close(&j, *end);
    core_write_line(c, c->conf.trace, &c->trace, &b);
}
