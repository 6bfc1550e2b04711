/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text diffs and three-way merges of hostile bytes, by libgit2's buffer functions: no repository, no configuration, no file is
 * opened by it. Everything has a ceiling, and what was left out because of one is said, never silently missing.
 */
#pragma once

#include "base/buf.h"

struct err;

enum {
    DIFF_FILE_MAX = 4 * 1024 * 1024,
    DIFF_LINES_MAX = 100 * 1000,         /* of one version: past it, lines chosen for it keep the algorithm busy for minutes */
    DIFF_TOTAL_MAX = 256 * 1024 * 1024,  /* bytes of content that all diffs of one call may read */
    DIFF_TOTAL_LINES = 20 * 1000 * 1000, /* the same in lines: half a minute at worst, a second for ordinary text */
    DIFF_OUTPUT_MAX = 4 * DIFF_FILE_MAX, /* of one file: each byte that must be escaped becomes four */
    DIFF_BINARY_LOOK = 8 * 1024,         /* git looks as far */
};

/* Before and after all others; jailed or not, it reads nothing that matters (no HOME, no configuration). */
int diff_begin(struct err *err);
void diff_end(void);

/* The content of an open file. 0, -EFBIG past DIFF_FILE_MAX, -errno. */
int diff_load(int fd, struct buf *ret);
/* NUL, or more than a few control characters, near the beginning. */
bool diff_is_binary(const struct buf *content);
size_t diff_lines(const struct buf *content);

struct diff_style {
    bool colour;
    bool keep_cr; /* escape_content() */
};
struct diff_count {
    size_t added, removed;
};
/* Appends the hunks; b NULL: only counts. -EFBIG: too many lines. */
int diff_hunks(const struct buf *old_, const struct buf *new_, const struct diff_style *style, struct buf *b,
               struct diff_count *ret, struct err *err);

/* Three-way merge. 0: *ret has the result, 1: both changed the same lines, or it is no text; negative: failed. */
int diff_merge(const struct buf *base, const struct buf *ours, const struct buf *theirs, struct buf *ret, struct err *err);
