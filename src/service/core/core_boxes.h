/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that stay: their rows, and the way to their keepers. */
#pragma once

#include "service/core/core.h"

enum box_row_state { BOX_ROW_STARTING, BOX_ROW_RUNNING, BOX_ROW_STOPPING, BOX_ROW_STOPPED, BOX_ROW_FAILED, BOX_ROW_STATES };

extern const char *const box_state_names[BOX_ROW_STATES];

struct box_row {
    uint64_t seq, created_ns;
    char id[RANDID_SIZE], reason[RUN_REASON_MAX + 1];
    enum box_row_state state;
    struct buf request;
};
#define BOX_ROW_INIT                                 \
    {                                                \
        .request = {.ceiling = RUN_REQUEST_MAX + 1 } \
    }
static inline void box_row_done(struct box_row *b) {
    buf_done(&b->request);
}

/* The sandbox of the call, by tenant and id; false: it was answered. */
bool call_box(struct core *c, struct api_call *call, struct box_row *ret);
bool call_box_named(struct core *c, struct api_call *call, const char *id, struct box_row *ret);

/* 1: it is there, 0: it is not, -errno */
int box_find(struct core *c, const struct tenant *t, const char *id, struct box_row *ret);

/* op_run_json.c */
void box_json(const struct box_row *b, struct buf *to);

/* op_boxes.c: making one. True: the call was answered. */
bool box_repeated(struct core *c, struct api_call *call);
bool box_refused(struct core *c, struct api_call *call, const struct buf *request); /* by quotas */
/* Its row and folder; b has the request, and gets the id. */
int box_add(struct core *c, struct api_call *call, struct box_row *b, struct err *err);
/* The worker that starts it; if there can be none it has failed. Its p->done is box_started(). */
struct worker_plan;
void box_begin(struct core *c, struct api_call *call, const char *id, struct worker_plan *p, unsigned status);
/* The worker that started it has ended. */
void box_started(struct core *c, struct core_worker *w, struct api_call *call, int status);

/* Those that stopped by themselves are stopped: their memory is free again. */
void boxes_look(struct core *c, struct tenant *t);

/* A connection to the keeper's exec socket, which belongs to the tenant's user; it does not block. -errno */
int box_connect(struct core *c, const struct tenant *t, const char *id);
