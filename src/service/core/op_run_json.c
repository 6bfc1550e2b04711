/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and sandboxes as JSON (Run and Sandbox of spec/openapi.yaml). */
#include <fcntl.h>
#include <string.h>

#include "base/jsonout.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/file.h"
#include "proto/api/jsonline.h"
#include "service/core/core_boxes.h"
#include "service/task/taskmsg.h"
#include "service/task/taskreq.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };

static void time_json(struct jsonout *j, const char *key, uint64_t ns) {
    char text[CLOCK_TEXT_SIZE];

    jsonout_text(j, key, ns ? clock_text(ns, CLOCK_ISO_MS, text) : NULL);
}

/* A text of len bytes without NUL; the request was checked when it came. */
static void add_bytes(struct jsonout *j, const char *key, const char *data, size_t len) {
    CLEANUP(buf_done) struct buf copy = BUF_INIT(RUN_REQUEST_MAX);

    buf_add(&copy, data, len);
    jsonout_text(j, key, buf_str(&copy));
}

static void command_json(struct jsonout *j, const struct buf *request) {
    struct taskreq_field f;

    jsonout_open(j, "command", '[');
    for (size_t at = 0; taskreq_next(request, &at, &f) > 0;)
        if (str_eq(f.name, "command"))
            add_bytes(j, NULL, f.data, f.len);
    jsonout_close(j, ']');
}

/* Names of labels are of letters that need no quoting (spec/openapi.yaml). */
static void labels_json(struct jsonout *j, const struct buf *request) {
    struct taskreq_field f;

    jsonout_open(j, "labels", '{');
    for (size_t at = 0; taskreq_next(request, &at, &f) > 0;) {
        size_t key = strnlen(f.data, f.len);

        if (str_eq(f.name, "labels") && key < f.len)
            add_bytes(j, f.data, f.data + key + 1, f.len - key - 1);
    }
    jsonout_close(j, '}');
}

/* What bawn-task stored is the tenant's: it is only passed on if it is one JSON object. */
static void result_json(struct core *c, const struct run_row *row, struct jsonout *j) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(TASK_RESULT_MAX);
    struct tenant *t = core_tenant(c, row->tenant);
    CLEANUP(closep) int fd = t && row->state >= RUN_DONE ? place_run_file(c, t, row->id, "result", O_RDONLY) : -1;

    if (fd < 0 || file_read_fd(fd, 0, &text) < 0 || !jsonline_is_object(buf_str(&text), text.len)) {
        jsonout_null(j, "result");
        return;
    }
    jsonout_key(j, "result");
    buf_add(j->to, text.data, text.len);
}

void run_json(struct core *c, const struct run_row *row, bool whole, struct buf *to) {
    struct jsonout j = {.to = to, .compact = true};
    bool ended = row->state >= RUN_DONE;

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "id", row->id);
    jsonout_text(&j, "state", run_state_names[row->state]);
    command_json(&j, &row->request);
    labels_json(&j, &row->request);
    time_json(&j, "created", row->created_ns);
    time_json(&j, "started", row->started_ns);
    time_json(&j, "ended", row->ended_ns);
    if (ended && row->status >= 0)
        jsonout_int(&j, "status", row->status);
    else
        jsonout_null(&j, "status");
    jsonout_text(&j, "reason", row->reason[0] ? row->reason : NULL);
    if (whole)
        result_json(c, row, &j);
    jsonout_u64(&j, "stdout_bytes", row->stdout_bytes);
    jsonout_u64(&j, "stderr_bytes", row->stderr_bytes);
    jsonout_close(&j, '}');
}

void call_run(struct api_call *call, unsigned status, const struct run_row *row) {
    struct buf b = BUF_INIT(ANSWER_MAX);

    run_json(call->core, row, true, &b);
    call_json(call, status, &b);
}

/* -- sandboxes ---------------------------------------------------------------------------------------------------------------- */

void box_json(const struct box_row *b, struct buf *to) {
    struct jsonout j = {.to = to, .compact = true};
    char text[CLOCK_TEXT_SIZE];

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "id", b->id);
    jsonout_text(&j, "state", box_state_names[b->state]);
    labels_json(&j, &b->request);
    jsonout_text(&j, "created", clock_text(b->created_ns, CLOCK_ISO_MS, text));
    jsonout_text(&j, "reason", b->reason[0] ? b->reason : NULL);
    jsonout_null(&j, "details");
    jsonout_close(&j, '}');
}
