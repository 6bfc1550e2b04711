/* SPDX-License-Identifier: Apache-2.0 */
/* How `bawn apply`, `discard` and `rollback` name changes. Paths are the agent's bytes: escaped, always. */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "workspace/change/change.h"

struct err;
struct jsonout;
struct verb;

enum { RUN_PRINT_MAX = 1024 * 1024 * 1024 };

/* "A applied   src/new.c (why)", "R applied   old -> new". why may be NULL or "". */
void run_print_line(struct buf *b, const struct change *c, const char *outcome, const char *why);
/* An element of an array, on a line of its own: {"kind": ..., "path": ..., "from": ..., "outcome": ..., "why": ...}; a name that is not UTF-8 also as "path_bytes", base64. */
void run_print_json(struct jsonout *j, const struct change *c, const char *outcome, const char *why);
/* "key": ["a", "b"] */
void run_print_json_list(struct jsonout *j, const char *key, const struct strv *paths);
/* "left as it is: PATH", one line each. */
void run_print_left(struct buf *b, const struct strv *left, const char *why);
/* "file" or "files" */
const char *run_print_files(size_t n);

/* The whole of it, or why not. For any verb. */
int run_print_out(const struct buf *b, struct err *err);
/* The same as the end of a verb; returns the exit status. */
int run_print_result(const struct verb *self, const struct buf *b, int status);

/* Asks on the terminal; false if the answer is not yes. */
bool run_print_ask(const char *question);
