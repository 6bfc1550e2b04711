/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the network (supervisor/network/netlog.h): one JSON object on each line. Strings in it come from sandboxes. */
#pragma once

#include <jansson.h>

#include "base/macros.h"

struct err;

enum { POLICY_LOG_LINES_MAX = 100000, POLICY_LOG_LINE_MAX = 16 * 1024, POLICY_LOG_TIME_SIZE = 32 };

struct policy_log_filter {
    bool denied;                      /* only what was denied */
    const char *host, *sandbox;       /* NULL: all */
    char since[POLICY_LOG_TIME_SIZE]; /* a time as lines have it, or the beginning of one; "": no limit */
    uint64_t lines;                   /* only the last ones, at most POLICY_LOG_LINES_MAX; 0: all */
    bool follow;                      /* goes on with what is added, until fn fails */
};

typedef int policy_log_fn(const json_t *event, void *arg, struct err *err);
int policy_log_read(const struct policy_log_filter *f, policy_log_fn *fn, void *arg, struct err *err);
