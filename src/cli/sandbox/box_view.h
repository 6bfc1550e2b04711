/* SPDX-License-Identifier: Apache-2.0 */
/* How kept sandboxes are shown by `bawn ps`, `inspect`, `status` and `prune`: words, usage, JSON. No keeper is asked for any of it. */
#pragma once

#include "base/buf.h"
#include "registry/usage.h"

enum { BOX_VIEW_MAX = 64 * 1024 * 1024, BOX_WORD_MAX = 300 };

/* What it is now; the last two are no phases of a keeper's. */
enum box_sight {
    BOX_SIGHT_STARTING,
    BOX_SIGHT_RUNNING,
    BOX_SIGHT_STOPPING,
    BOX_SIGHT_STOPPED,
    BOX_SIGHT_FAILED,
    BOX_SIGHT_CRASHED, /* its keeper was killed, or the machine went down */
    BOX_SIGHT_CREATED, /* it never ran */
    BOX_SIGHTS
};
extern const char *const box_sight_names[BOX_SIGHTS];
enum box_sight box_sight(const struct box *b);
bool box_sight_active(enum box_sight s); /* somebody keeps it */

/* "running 5m", "stopped 2h ago", "failed: why", "crashed": safe on a terminal. */
void box_view_status(const struct box *b, uint64_t now_ns, char ret[static BOX_WORD_MAX]);
/* "32s", "5m", "2h", "9d" */
void box_view_age(uint64_t ns, char ret[static 24]);
uint64_t box_view_now(void); /* CLOCK_REALTIME */
/* ANSI colour of a sight; "" without colours. box_view_plain(): back to normal. */
const char *box_view_colour(enum box_sight s, bool colours);
const char *box_view_plain(bool colours);
/* The path with the home as ~, safe on a terminal. */
void box_view_path(const char *path, const char *home, struct buf *out);

/* "12 MiB/4 GiB", "3.2s", "5/512"; "-": not known. */
void box_usage_words(const struct box *b, const struct box_usage *u, char memory[static 64], char cpu[static 64],
                     char pids[static 64]);

/* Members of a JSON object, without its braces: what every verb says of a sandbox. */
void box_view_json(const struct box *b, const struct box_usage *u, struct buf *out);
/* One member each, with ", " in front unless a brace was just opened; NULL: null. */
void box_view_json_text(struct buf *out, const char *key, const char *value);
void box_view_json_list(struct buf *out, const char *key, const struct strv *list);
/* "2026-11-15T19:54:02Z"; null for 0. */
void box_view_json_time(struct buf *out, const char *key, uint64_t ns);

/* Cells, `columns` of them (16 at most) for each line, the first line being titles: aligned and added to out. */
void box_view_table(const struct strv *cells, size_t columns, struct buf *out);
