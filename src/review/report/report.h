/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outputs of bawn-review. Each writer appends to a buffer that is flushed as it grows, so that a review of any size needs
 * little memory and a pager has something to show at once. Everything of the agent's goes through escape.h.
 */
#pragma once

#include "review/report/diff.h"
#include "review/review_judge.h"

struct report {
    const struct review_request *q;
    const struct judgement *j;
    struct buf b;
    int fd;                /* where b is flushed to; -1: nowhere, it only grows (tests) */
    uint64_t bytes, lines; /* content that diffs have read; see DIFF_TOTAL_MAX */
};
#define REPORT_INIT(request, judged, to) \
    { .q = (request), .j = (judged), .b = BUF_INIT(REPORT_HELD_MAX), .fd = (to) }
enum { REPORT_HELD_MAX = 64 * 1024 * 1024, REPORT_FLUSH = 64 * 1024 };
void report_done(struct report *r);

/* In the format that was asked for, to the end. */
int report_write(struct report *r, struct err *err);

/* The formats. */
int report_text(struct report *r, struct err *err);
int report_json(struct report *r, struct err *err);
int report_sarif(struct report *r, struct err *err);
int report_patch(struct report *r, struct err *err);
int report_stat(struct report *r, struct err *err);

/* Folders of dependencies, one entry each. */
bool report_lists(const struct report *r, const struct verdict *v); /* by itself, not only in its folder */
void report_folds(struct report *r);
void report_folds_summary(struct report *r);
void report_folds_json(struct report *r); /* , "folders": [...] */

/* Parts that several of them use. */
int report_flush(struct report *r, bool all, struct err *err); /* all: also a little */
void report_colour(struct report *r, const char *sgr);         /* "1;31"; "" for back to normal; nothing if not wanted */

enum report_content { CONTENT_TEXT, CONTENT_BINARY, CONTENT_TOO_LARGE, CONTENT_UNKNOWN /* old one not stored */, CONTENT_SAME };
struct report_delta {
    enum report_content content;
    struct diff_count count;
    char why[120]; /* for CONTENT_TOO_LARGE and CONTENT_UNKNOWN */
};
/* The whole section of one file, git-like. */
int report_section(struct report *r, const struct change *c, struct report_delta *ret, struct err *err);

const char *report_type(mode_t mode); /* "file", "link", "folder", ... */
