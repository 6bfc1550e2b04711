/* SPDX-License-Identifier: Apache-2.0 */
/* What only the keeper of a sandbox knows: its commands and what runs inside (spec/control-socket.md). Text from inside is printed escaped. */
#pragma once

#include <jansson.h>

#include "base/buf.h"

struct box;
struct err;

/* The answer to {"cmd": cmd}, an object: json_decref(). */
int box_live_ask(const struct box *b, const char *cmd, json_t **ret, struct err *err);
/* Tables of "jobs" and "processes" of such answers. */
void box_live_jobs(const json_t *answer, struct buf *out);
void box_live_processes(const json_t *answer, struct buf *out);
/* The member of an answer as JSON text; "null" if there is none. */
void box_live_add_json(const json_t *answer, const char *key, struct buf *out);
