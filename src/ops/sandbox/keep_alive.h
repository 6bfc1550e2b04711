/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn run` with "keep_alive": the project's own sandbox is started if it is not there, stays, and the command is executed
 * in it. Any number of runs at once share one sandbox: whoever has its lock starts it, the others wait for that and connect.
 *
 * Not for a run that has a name or an agent (its rights, hosts and credentials are not for the project's other commands), nor
 * for a task of a batch: each of these has a sandbox to itself.
 */
#pragma once

#include "cli/run/run_options.h"
#include "supervisor/session/run.h"

struct sandbox_start;

bool keep_alive_wanted(const struct run_args *a, const struct settings *s);
/* start: the options of this run, for the sandbox's folder. What `bawn run` would tell, as far as it is known of one
 * command. */
int keep_alive_run(const struct run_args *a, const struct host_facts *facts, const struct settings *s,
                   struct sandbox_start *start, const bool closed[3], struct run_result *ret, struct err *err);
