/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of sync: copies and syncs a workspace by given rules, in a run called demo. */
#pragma once

#include "os/clock.h"
#include "sides.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/sync.h"

static inline struct ignore *rules(const char *text) {
    struct ignore *ig = ignore_new();

    assert_int_equal(ignore_add_file(ig, "", ".sandboxignore", text, strlen(text), NULL), 0);
    return ig;
}

static inline int copy_in_by(struct sides *s, const char *hide, const struct progress *p, struct strv *notes, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = rules(hide);
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};
    int r = sync_copy_in(&rd, s->host, ig, p, notes, err);

    clock_pass(clock_coarse());
    return r;
}

static inline void copy_in(struct sides *s, const char *hide) {
    struct err err = {0};

    if (copy_in_by(s, hide, NULL, NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline void both_by(struct sides *s, const char *hide, sync_hold_fn *hold, struct sync_result *ret) {
    CLEANUP(ignore_freep) struct ignore *ig = rules(hide);
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};
    struct err err = {0};

    if (sync_both(&rd, s->host, ig, &(struct sync_hooks){.hold = hold}, ret, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Expects these numbers of files out, in, and conflicts. */
static inline void both(struct sides *s, size_t out, size_t in, size_t conflicts) {
    CLEANUP(sync_result_done) struct sync_result r = {0};

    both_by(s, "secret\n", NULL, &r);
    for (size_t i = 0; i < r.conflicts.len && r.conflicts.len != conflicts; i++)
        print_message("%s\n", r.conflicts.v[i]);
    assert_int_equal(r.conflicts.len, conflicts);
    assert_int_equal(r.out, out);
    assert_int_equal(r.in, in);
    assert_int_equal(r.held.len, 0);
}
