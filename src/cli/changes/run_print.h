/* SPDX-License-Identifier: Apache-2.0 */
/* How `bawn apply`, `discard` and `rollback` name changes. Paths are the agent's bytes: escaped, always. */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "workspace/change/change.h"

struct err;
struct jsonout;

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

/* Asks on the terminal; -ECANCELED if the answer is not yes. look: what to do where there is no terminal, before --yes. */
int run_print_ask(const char *question, const char *look, const char *refused, struct err *err);
