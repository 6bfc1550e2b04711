/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do something for one request as the tenant: `bawn VERB --json`, or bawn-task for files. What they print goes to the front
 * by descriptor, unread; what they say when they fail is the detail of the problem.
 */
#pragma once

#include "service/core/core.h"

struct core_worker;
typedef void worker_done(struct core *c, struct core_worker *w, struct api_call *call, int status);

struct core_worker {
    pid_t pid;
    uint64_t request; /* of its call, which may be gone by then */
    struct tenant *tenant;
    char id[RANDID_SIZE];     /* of the run or sandbox; "" */
    bool stays;               /* goes on if the client is gone */
    bool alone;               /* others that change the same sandbox wait for it */
    int said;                 /* a memfd: its stderr */
    int out;                  /* the pipe to the front, if something is to be written behind its output; -1 */
    const char *behind;       /* that */
    uint16_t inside, outside; /* of a port that it serves; 0: none */
    worker_done *done;        /* call: NULL if the client is gone. It answers */
};

struct worker_plan {
    const char *program; /* NULL: bawn */
    struct strv argv;    /* belongs to the plan */
    int in, out, cwd;    /* borrowed; -1: /dev/null, and the root folder */
    bool stays, alone;
    worker_done *done;
};
#define WORKER_PLAN_INIT \
    { .in = -1, .out = -1, .cwd = -1 }

/* 0: it runs, and call waits (WAIT_WORKER); or the call was answered with the failure, -errno. */
int worker_start(struct core *c, struct api_call *call, const char *id, struct worker_plan *p);
/* The same for no call (request 0), or one that is not to be failed. */
int worker_detached(struct core *c, struct tenant *t, uint64_t request, const char *id, struct worker_plan *p, struct err *err);
/* The answer is what it prints: JSON, between `before` and `behind` (constants; may be NULL). flags: API_FLAG_JSON or API_FLAG_STREAM. */
void worker_answer(struct core *c, struct api_call *call, const char *id, struct worker_plan *p, unsigned flags,
                   const char *before, const char *behind);
void worker_reaped(struct core *c, pid_t pid, int status);
void worker_cancel(struct core *c, uint64_t request);
/* Starts, stops and removes of one sandbox go one after the other. True: one is at work. */
bool worker_alone(const struct core *c, const struct tenant *t, const char *id);
/* The same for a call, which waits then; its operation begins anew when that worker has ended. */
bool call_waits_turn(struct core *c, struct api_call *call, const char *id);
/* The last line that it said, cleaned; for details of problems. */
void worker_reason(const struct core_worker *w, char *ret, size_t size);

/* 204, or the problem by the exit status (enum task_exit). */
worker_done worker_nothing;
