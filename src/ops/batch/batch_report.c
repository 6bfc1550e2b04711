/* SPDX-License-Identifier: Apache-2.0 */
/* What came out: from the JSON of each `bawn run` to one for all (spec/batch.schema.json), and a table for people. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/batch/batch.h"

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
    const char *run = json_string_value(json_object_get(root, "run"));
    size_t i;
    json_t *v;

    r->signal = (int)number(root, "signal");
    r->memory_peak = number(root, "memory_peak");
    r->cpu_us = number(root, "cpu_us");
    r->changes = number(root, "changes");
    snprintf(r->run, sizeof r->run, "%s", run ? run : "");
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
    t->result.status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (WIFSIGNALED(wait_status))
        t->result.signal = WTERMSIG(wait_status);
}

static void add_list(struct buf *out, const char *key, const struct strv *list) {
    buf_addf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < list->len; i++) {
        buf_adds(out, i ? "," : "");
        buf_add_json(out, list->v[i]);
    }
    buf_addc(out, ']');
}

static void add_log(const struct batch *b, const struct batch_task *t, const char *end, struct buf *out) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(8192);
    char name[64];

    batch_log_name(t, end, name);
    buf_addf(&path, "%s/%s", b->logs, name);
    buf_add_json(out, buf_str(&path));
}

static void add_ran(const struct batch *b, const struct batch_task *t, struct buf *out) {
    const struct batch_result *r = &t->result;

    buf_adds(out, ",\"sandbox\":");
    buf_add_json(out, t->id);
    buf_adds(out, ",\"run\":");
    if (r->run[0])
        buf_add_json(out, r->run);
    else
        buf_adds(out, "null");
    buf_addf(out, ",\"exit\":%d,\"signal\":%d,\"duration_ms\":%" PRIu64 ",\"peak_memory\":%" PRIu64 ",\"cpu_ms\":%" PRIu64,
             r->status, r->signal, r->duration_ms, r->memory_peak, r->cpu_us / 1000);
    buf_addf(out, ",\"files_changed\":%" PRIu64, r->changes);
    add_list(out, "hosts", &r->hosts);
    add_list(out, "limits", &r->limits);
    add_list(out, "earlier_runs", &t->earlier);
    buf_adds(out, ",\"log\":{\"out\":");
    add_log(b, t, ".out", out);
    buf_adds(out, ",\"err\":");
    add_log(b, t, ".err", out);
    buf_addc(out, '}');
}

void batch_json(const struct batch *b, struct buf *out) {
    buf_adds(out, "{\"tasks\":[");
    for (size_t i = 0; i < b->n; i++) {
        const struct batch_task *t = &b->v[i];

        buf_adds(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        buf_add_json(out, t->name);
        buf_addf(out, ",\"state\":\"%s\",\"workspace\":\"%s\",\"attempts\":%u", batch_state_names[t->state],
                 workspace_mode_names[t->mode], t->attempts);
        if (t->attempts)
            add_ran(b, t, out);
        buf_addc(out, '}');
    }
    buf_addf(out, "],\n\"ok\":%zu,\"failed\":%zu,\"skipped\":%zu,\"logs\":", batch_count(b, BATCH_OK),
             batch_count(b, BATCH_FAILED), batch_count(b, BATCH_SKIPPED));
    buf_add_json(out, b->logs);
    buf_adds(out, "}\n");
}
