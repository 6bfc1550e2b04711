/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints and forks of sandboxes: `bawn checkpoint` and `bawn fork` as the tenant. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "service/core/core_boxes.h"
#include "service/core/core_worker.h"
#include "service/task/taskreq.h"

static int box_plan(struct core *c, struct api_call *call, struct worker_plan *p, const char *const *words) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    int r = 0;

    if (!call_box(c, call, &b))
        return -1;
    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(&p->argv, words[i]);
    if (r < 0) {
        strv_done(&p->argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
    }
    return r < 0 ? -1 : 0;
}

void op_checkpoint_list(struct core *c, struct api_call *call) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = WORKER_PLAN_INIT;

    p.program = program;
    if (!program)
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
    else if (box_plan(c, call, &p,
                      (const char *const[]){"bawn-task", "--items", "checkpoints", "10000", c->conf.bawn, "checkpoint", "ls",
                                            "--json", call_text(call, API_FIELD_ID), NULL}) == 0)
        worker_answer(c, call, NULL, &p, API_FLAG_JSON, NULL, NULL);
}

void op_checkpoint_create(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;

    if (call_disk_full(call))
        return;
    core_measure_soon(c);
    if (box_plan(c, call, &p,
                 (const char *const[]){"bawn", "checkpoint", "--json", "--", call_text(call, API_FIELD_ID),
                                       call_text(call, API_FIELD_TAG), NULL}) == 0)
        worker_answer(c, call, call_text(call, API_FIELD_ID), &p, API_FLAG_JSON, NULL, NULL);
}

void op_checkpoint_delete(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;

    p.done = worker_nothing;
    if (box_plan(c, call, &p,
                 (const char *const[]){"bawn", "checkpoint", "rm", "--", call_text(call, API_FIELD_ID),
                                       call_text(call, API_FIELD_TAG), NULL}) == 0)
        worker_start(c, call, call_text(call, API_FIELD_ID), &p);
}

/* -- forks -------------------------------------------------------------------------------------------------------------------- */

/* What the fork is started with again: the original's request, but with its own labels. */
static int fork_request(const struct api_call *call, const struct buf *from, struct buf *to) {
    size_t n = api_field_count(&call->fields, API_FIELD_LABELS);
    struct taskreq_field f;
    int r;

    for (size_t at = 0; (r = taskreq_next(from, &at, &f)) > 0;)
        if (!str_eq(f.name, "labels"))
            taskreq_add(to, f.name, f.data, f.len);
    for (size_t i = 0; r >= 0 && i < n; i++) {
        CLEANUP(buf_done) struct buf pair = BUF_INIT(1024);
        const char *key = api_field_key(&call->fields, API_FIELD_LABELS, i);

        buf_add(&pair, key, strlen(key) + 1);
        buf_adds(&pair, api_field_get(&call->fields, API_FIELD_LABELS, i));
        taskreq_add(to, "labels", buf_str(&pair), pair.len);
    }
    return r < 0 ? r : buf_ok(to) ? 0 : -E2BIG;
}

static int plan_fork(struct worker_plan *p, const struct api_call *call, const char *id, const char *from) {
    const char *tag = call_text(call, API_FIELD_CHECKPOINT);
    int r = strv_add(&p->argv, "bawn");

    r = r < 0 ? r : strv_add(&p->argv, "fork");
    r = r < 0 ? r : strv_add(&p->argv, "--start");
    r = r < 0 ? r : strv_addf(&p->argv, "--name=%s", id);
    r = r < 0 || !tag ? r : strv_addf(&p->argv, "--from=%s", tag);
    return r < 0 ? r : strv_add(&p->argv, from);
}

void op_box_fork(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row from = BOX_ROW_INIT, b = BOX_ROW_INIT;
    CLEANUP(closep) int dir = -1;
    struct worker_plan p = WORKER_PLAN_INIT;
    struct err err = {0};

    if (box_repeated(c, call) || !call_box(c, call, &from) || box_refused(c, call, &from.request))
        return;
    dir = place_start_dir(c, call->tenant, from.id, &from.request);
    if (dir < 0) {
        call_fail(call, API_PROBLEM_CANNOT_SANDBOX, "%s", place_source_refused);
        return;
    }
    if (fork_request(call, &from.request, &b.request) < 0 || box_add(c, call, &b, &err) < 0) {
        call_broken(call, &err);
        return;
    }
    if (plan_fork(&p, call, b.id, from.id) < 0) {
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
        return;
    }
    p.done = box_started;
    box_begin(c, call, b.id, &p, 201);
}
