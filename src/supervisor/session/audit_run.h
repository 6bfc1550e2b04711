/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a sandbox's life for the audit log (audit/audit.h, spec/audit-events.md), by `bawn run` and by the keeper.
 *
 * Start and exec are written before they happen: a caller that gets an error starts nothing. Exit and limit wait for the next event,
 * audit_run_stop() or audit_flush(): a keeper calls audit_flush() before it waits. Every a may be NULL.
 */
#pragma once

#include "audit/audit.h"
#include "supervisor/session/run.h"

struct landing;
struct plan;
struct settings;

/* *ret NULL: the user has no home, or none in which a log can be made; a line says so. log "user": a run of
 * no persistent sandbox. */
int audit_run_open(char *const *environ_, const char *home, const struct audit_ids *ids, struct audit **ret, struct err *err);

/* A rung is about to be started. engine: its name. exec: for the plan's command, whose event is in the same write. */
int audit_run_start(struct audit *a, const struct plan *plan, const struct settings *s, const char *engine, bool exec,
                    struct err *err);
/* job: 0 for the command of `bawn run`. cwd "": the workspace; NULL: the same. */
int audit_run_exec(struct audit *a, int job, char *const *argv, size_t argc, const char *cwd, struct err *err);

/* status: the exit status, signal 0: it was not ended by one. exec_errno: it could not be executed; 0: it was. */
void audit_run_exit(struct audit *a, int job, int status, int signal, int exec_errno, uint64_t ms);
void audit_run_limit(struct audit *a, enum run_limit which);
void audit_run_landed(struct audit *a, const struct landing *l);
/* The sandbox has ended. run: the folder with what was changed; "": none. Events that wait are written, too. */
void audit_run_stop(struct audit *a, int status, uint64_t ms, size_t changes, const char *run);
