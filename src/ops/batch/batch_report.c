/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a batch: from the JSON of each `bawn run` to one for all (spec/batch.schema.json). */
#include <errno.h>
#include <inttypes.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "ops/batch/batch.h"
#include "os/process.h"

const char *const batch_state_names[BATCH_STATES] = {"waiting", "running", "ok", "failed", "skipped"};

size_t batch_count(const struct batch *b, enum batch_state state) {
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++)
        n += b->v[i].state == state;
    return n;
}

static void result_clear(struct batch_result *r) {
    strv_done(&r->hosts);
    strv_done(&r->limits);
    *r = (struct batch_result){0};
}

static uint64_t number(const json_t *root, const char *key) {
    double d = json_number_value(json_object_get(root, key));

    return d > 0 && d < 1e18 ? (uint64_t)d : 0;
}

static void take_hosts(struct strv *list, const json_t *reached) {
    size_t i;
    json_t *h;

    json_array_foreach(reached, i, h) {
        const char *host = json_string_value(json_object_get(h, "host"));
        uint64_t port = number(h, "port");

        if (host && port)
            strv_addf(list, strchr(host, ':') ? "[%s]:%" PRIu64 : "%s:%" PRIu64, host, port);
        else if (host)
            strv_add(list, host);
    }
}

static void take_json(struct batch_result *r, const json_t *root) {
    size_t i;
    json_t *v;

    r->signal = (int)number(root, "signal");
    r->memory_peak = number(root, "memory_peak");
    r->cpu_us = number(root, "cpu_us");
    r->changes = number(root, "changes");
    snprintf(r->run, sizeof r->run, "%s", json_get_text(root, "run"));
    json_array_foreach(json_object_get(root, "limits_hit"), i, v) if (json_is_string(v))
        strv_add(&r->limits, json_string_value(v));
    take_hosts(&r->hosts, json_object_get(json_object_get(root, "network"), "reached"));
}

void batch_take_report(struct batch_task *t, int wait_status, uint64_t now_ms) {
    json_t *root = buf_ok(&t->report) ? json_loadb(buf_str(&t->report), t->report.len, 0, NULL) : NULL;

    result_clear(&t->result);
    if (root)
        take_json(&t->result, root);
    json_decref(root);
    buf_clear(&t->report);
    t->result.duration_ms = now_ms - t->begun_ms;
    t->result.status = process_exit_status(wait_status);
    if (WIFSIGNALED(wait_status))
        t->result.signal = WTERMSIG(wait_status);
}

static void add_log(const struct batch *b, const struct batch_task *t, const char *key, struct jsonout *j) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(8192);
    char end[8], name[64];

    snprintf(end, sizeof end, ".%s", key);
    batch_log_name(t, end, name);
    buf_addf(&path, "%s/%s", b->logs, name);
    jsonout_text(j, key, buf_str(&path));
}

static void add_ran(const struct batch *b, const struct batch_task *t, struct jsonout *j) {
    const struct batch_result *r = &t->result;

    jsonout_text(j, "sandbox", t->id);
    jsonout_text(j, "run", r->run[0] ? r->run : NULL);
    jsonout_int(j, "exit", r->status);
    jsonout_int(j, "signal", r->signal);
    jsonout_u64(j, "duration_ms", r->duration_ms);
    jsonout_u64(j, "peak_memory", r->memory_peak);
    jsonout_u64(j, "cpu_ms", r->cpu_us / 1000);
    jsonout_u64(j, "files_changed", r->changes);
    jsonout_list(j, "hosts", &r->hosts);
    jsonout_list(j, "limits", &r->limits);
    jsonout_list(j, "earlier_runs", &t->earlier);
    jsonout_open(j, "log", '{');
    add_log(b, t, "out", j);
    add_log(b, t, "err", j);
    jsonout_close(j, '}');
}

void batch_json(const struct batch *b, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "tasks", '[');
    for (size_t i = 0; i < b->n; i++) {
        const struct batch_task *t = &b->v[i];

        jsonout_break(&j, "\n");
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "name", t->name);
        jsonout_text(&j, "state", batch_state_names[t->state]);
        jsonout_text(&j, "workspace", workspace_mode_names[t->mode]);
        jsonout_u64(&j, "attempts", t->attempts);
        if (t->attempts)
            add_ran(b, t, &j);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
    jsonout_break(&j, "\n");
    jsonout_u64(&j, "ok", batch_count(b, BATCH_OK));
    jsonout_u64(&j, "failed", batch_count(b, BATCH_FAILED));
    jsonout_u64(&j, "skipped", batch_count(b, BATCH_SKIPPED));
    jsonout_text(&j, "logs", b->logs);
    buf_adds(out, "}\n");
}
