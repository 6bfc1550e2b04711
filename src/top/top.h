/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-top: persistent sandboxes on one screen. What is shown comes from files (registry, control groups, network log), so looking disturbs nothing;
 * only questions that wait are asked of the supervisors that have a control socket, and answered there.
 *
 * Everything on the screen that an agent chose (hosts, paths) is escaped: a name cannot move the cursor.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "registry/usage.h"

struct err;

enum { TOP_FEED_LINES = 256, TOP_FEED_TEXT = 256, TOP_ASKS_MAX = 32, TOP_TEXT = 256 };

/* model.c */
struct top_row {
    enum box_kind kind;
    char name[BOX_ID_MAX + 1], mode[16], profile[64], workspace[TOP_TEXT], why[TOP_TEXT];
    enum box_phase phase;
    bool crashed;
    uint64_t since_ns;
    struct box_usage usage;
    uint64_t memory_max, pids_max, cpus_milli;
    double cpu; /* percent of one CPU since the refresh before; < 0: not known yet */
};
struct top_model {
    struct top_row *v;
    size_t n, running;
    uint64_t at_us; /* CLOCK_MONOTONIC */
};
int model_refresh(struct top_model *m, const char *boxes, struct err *err);
void model_done(struct top_model *m);
enum top_order { TOP_BY_NAME, TOP_BY_CPU, TOP_BY_MEMORY, TOP_ORDERS };
extern const char *const top_order_names[TOP_ORDERS];
void model_sort(struct top_model *m, enum top_order order); /* running ones first */
void model_json(const struct top_model *m, struct buf *out);

/* feed.c: the last verdicts of the network log */
struct top_feed {
    char *path;
    int fd;
    uint64_t ino;
    struct buf part; /* of a line that is not whole yet */
    char lines[TOP_FEED_LINES][TOP_FEED_TEXT];
    bool denied[TOP_FEED_LINES];
    char what[TOP_FEED_LINES][TOP_FEED_TEXT]; /* denied: sandbox, host and port; the same again is counted there */
    uint64_t times[TOP_FEED_LINES];
    size_t n; /* ever added; the last TOP_FEED_LINES are there */
};
int feed_open(struct top_feed *f, const char *state, struct err *err);
void feed_refresh(struct top_feed *f);
void feed_done(struct top_feed *f);

/* asks.c: questions that wait */
struct top_ask {
    char socket[108 + 64], text[TOP_TEXT];
    long long id;
};
struct top_asks {
    struct top_ask v[TOP_ASKS_MAX];
    size_t n, chosen;
    uint64_t chosen_ms; /* since when that one is in front of the user */
};
void asks_refresh(struct top_asks *a);
void asks_next(struct top_asks *a);
/* Of the chosen one. how: deny, once, session, always. A key that comes too soon was meant for another question (ASKER_DEAF_MS): it does
 * nothing. A question that is gone is no error. */
int asks_answer(const struct top_asks *a, const char *how, struct err *err);

/* screen.c */
struct top_view {
    size_t chosen; /* row */
    enum top_order order;
    char note[TOP_TEXT]; /* what went wrong, in place of the keys; "": nothing */
};
int view_begin(struct err *err); /* endwin() ends it */
void view_draw(const struct top_view *v, const struct top_model *m, const struct top_feed *f, const struct top_asks *a);
