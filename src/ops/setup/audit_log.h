/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log, read and verified (`bawn log`, `bawn log verify`). */
#pragma once

#include "audit/verify.h"
#include "audit/view.h"

struct audit_log_request {
    struct view_filter filter; /* name: checked; id is found by it */
    uint64_t tail;             /* only the last ones; 0: all */
    bool follow;               /* goes on with what is added */
    int reader;                /* follow ends when this pipe has no reader any more; -1: it has none */
};

/* Lines, merged by time. What they tell is the agent's bytes. A negative answer ends it. */
typedef int audit_log_fn(const struct view_line *v, size_t n, void *arg, struct err *err);
/* -ENOENT: no line has this name, with the nearest one. */
int audit_log_read(struct audit_log_request *q, audit_log_fn *fn, void *arg, struct err *err);

/* *ret_missing: the folder, malloc'ed, if there is no log yet; else NULL. */
int audit_log_verify(struct verify *ret, char **ret_missing, struct err *err);
