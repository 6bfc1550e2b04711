/* SPDX-License-Identifier: Apache-2.0 */
/* What only the keeper of a sandbox knows, above all its commands (spec/control-socket.md). Text from inside is hostile. */
#pragma once

#include <jansson.h>

#include "base/macros.h"

struct box;
struct err;

/* One request to a keeper's socket, and its answer, an object: json_decref(). ret NULL: it is not needed. An answer with "error" fails. */
int sandbox_call(const char *socket, const char *request, json_t **ret, struct err *err);
int sandbox_request(const struct box *b, const char *request, json_t **ret, struct err *err); /* the same to its keeper */
/* The answer to {"cmd": cmd}, an object: json_decref(). */
int sandbox_ask(const struct box *b, const char *cmd, json_t **ret, struct err *err);
/* Newest last; json_decref() it. */
int sandbox_jobs(const struct box *b, json_t **ret, struct err *err);
bool sandbox_job_runs(const json_t *job);
/* How many run now. */
size_t sandbox_jobs_running(const json_t *jobs);
/* The one of this number; 0: the latest in the background, of those that run if any does. NULL: none. */
const json_t *sandbox_job_find(const json_t *jobs, int number);
