/* SPDX-License-Identifier: Apache-2.0 */
/* How persistent sandboxes are shown by `bawn ps`, `inspect`, `status` and `prune`. Text from inside is printed escaped. */
#pragma once

#include "base/buf.h"
#include "base/jsonout.h"
#include "ops/sandbox/sandbox_look.h"

enum { BOX_VIEW_MAX = 64 * 1024 * 1024, BOX_WORD_MAX = 300 };

/* "running 5m", "stopped 2h ago", "failed: why", "crashed": safe on a terminal. */
void box_view_status(const struct box *b, char ret[static BOX_WORD_MAX]);
/* ANSI colour of a sight; "" without colours. box_view_plain(): back to normal. */
const char *box_view_colour(enum box_sight s, bool colours);
const char *box_view_plain(bool colours);
/* The path with the home as ~, safe on a terminal. */
void box_view_path(const char *path, const char *home, struct buf *out);
/* "12 MiB/4 GiB", "3.2s", "5/512"; "-": not known. */
void box_usage_words(const struct box *b, const struct box_usage *u, char memory[static 64], char cpu[static 64],
                     char pids[static 64]);

/* Members of a JSON object: what every verb says of a sandbox. */
void box_view_json(const struct box *b, const struct box_usage *u, struct jsonout *j);

/* Tables of "jobs" and "processes" of a keeper's answers, and a member as JSON under `key`; null if there is none. */
void box_view_jobs(const json_t *answer, struct buf *out);
void box_view_processes(const json_t *answer, struct buf *out);
void box_view_answer(const json_t *answer, const char *key, const char *member, struct jsonout *j);
