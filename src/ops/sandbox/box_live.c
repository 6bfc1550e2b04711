/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/box_live.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/sandbox/box_view.h"
#include "ops/policy/policy_live.h"
#include "ops/sandbox/sandbox_pick.h"

enum { CELL_MAX = 4096, COMMAND_SHOWN = 60 };

int box_live_ask(const struct box *b, const char *cmd, json_t **ret, struct err *err) {
    CLEANUP(freep) char *socket = NULL;
    char request[64];
    int r = sandbox_control(b, &socket, err);

    snprintf(request, sizeof request, "{\"cmd\": \"%s\"}", cmd);
    return r < 0 ? r : policy_live_call(socket, request, ret, err);
}

void box_live_add_json(const json_t *answer, const char *key, struct buf *out) {
    const json_t *v = json_object_get(answer, key);
    CLEANUP(freep) char *text = v ? json_dumps(v, JSON_ENSURE_ASCII | JSON_ENCODE_ANY) : NULL;

    buf_adds(out, text ? text : "null");
}

/* A string or a number, cut and escaped; "-": neither. */
static void add_cell(struct strv *cells, const json_t *object, const char *key) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CELL_MAX);
    const json_t *v = json_object_get(object, key);
    char cut[4 * COMMAND_SHOWN + 1];

    if (json_is_string(v)) {
        snprintf(cut, sizeof cut, "%s", json_string_value(v));
        buf_add_printable(&b, cut);
    } else if (json_is_integer(v)) {
        buf_addf(&b, "%lld", (long long)json_integer_value(v));
    } else {
        buf_adds(&b, json_is_true(v) ? "yes" : "-");
    }
    strv_add(cells, buf_str(&b)[0] ? buf_str(&b) : "-");
}

/* "running", "exit 3", "signal 9" */
static void add_job_status(struct strv *cells, const json_t *job) {
    const json_t *ended = json_object_get(job, "ended"), *signal = json_object_get(job, "signal");
    bool over = ended && !json_is_null(ended) && !(json_is_integer(ended) && json_integer_value(ended) == 0);

    if (!over)
        strv_add(cells, "running");
    else if (json_integer_value(signal) > 0)
        strv_addf(cells, "signal %lld", (long long)json_integer_value(signal));
    else
        strv_addf(cells, "exit %lld", (long long)json_integer_value(json_object_get(job, "status")));
}

void box_live_jobs(const json_t *answer, struct buf *out) {
    const json_t *jobs = json_object_get(answer, "jobs");
    CLEANUP(strv_done) struct strv cells = {0};
    static const char *const titles[] = {"JOB", "STATUS", "PID", "BACKGROUND", "COMMAND"};

    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        strv_add(&cells, titles[i]);
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);

        add_cell(&cells, job, "job");
        add_job_status(&cells, job);
        add_cell(&cells, job, "pid");
        add_cell(&cells, job, "background");
        add_cell(&cells, job, "command");
    }
    if (json_array_size(jobs))
        box_view_table(&cells, ARRAY_LEN(titles), out);
    else
        buf_adds(out, "no commands\n");
}

void box_live_processes(const json_t *answer, struct buf *out) {
    const json_t *processes = json_object_get(answer, "processes");
    static const char *const keys[] = {"pid", "inside", "command"}, *const titles[] = {"PID", "PID INSIDE", "COMMAND"};
    CLEANUP(strv_done) struct strv cells = {0};

    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        strv_add(&cells, titles[i]);
    for (size_t i = 0; i < json_array_size(processes); i++)
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            add_cell(&cells, json_array_get(processes, i), keys[k]);
    if (json_array_size(processes))
        box_view_table(&cells, ARRAY_LEN(titles), out);
    else
        buf_adds(out, "no processes\n");
}
