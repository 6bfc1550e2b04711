/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job in the background of a sandbox wrote. The keeper writes log/job-N.out and .err, cuts the older half off when one grows too
 * large, and tells attached clients about output. So following is: attach, read the files on each message, and once more at the end.
 */
#pragma once

#include "registry/registry.h"

struct err;

enum { JOB_LOG_CHUNK = 16 * 1024 };

struct job_log_opts {
    const char *name, *dir; /* as in struct sandbox_pick_opts */
    uint64_t job;           /* 0: the latest */
    uint64_t tail;          /* only so many lines of what is there; UINT64_MAX: all */
    bool follow;            /* until the job ends */
    bool keeper;            /* what the keeper said instead; stream 1 */
    bool skip[2];           /* not stdout, not stderr */
    /* At most JOB_LOG_CHUNK bytes of stream 1 or 2. A negative result ends it. */
    int (*output)(int stream, const char *data, size_t n, void *arg);
    void *arg;
};
struct job_log_result {
    char sandbox[BOX_NAME_MAX + 1];
    uint64_t job; /* 0: of the keeper */
};
/* The number of the latest job that has a file in a sandbox's log folder; 0: none. */
int job_log_latest(int folder);
/* A negative result of output() is returned as it is. */
int job_log(const struct job_log_opts *o, struct job_log_result *ret, struct err *err);
