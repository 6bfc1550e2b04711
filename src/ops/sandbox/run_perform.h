/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of `bawn run`: what run_prepare() prepared runs in a new sandbox, or with "keep_alive" in the project's own, which is
 * started if it is not there and stays. Any number of runs at once share that one: the run that has its lock starts it, the others wait
 * for that and connect.
 *
 * A run that has a name or an agent has a sandbox to itself, because its rights, hosts and credentials are not for the project's other
 * commands. So has a task of a batch.
 */
#pragma once

#include "supervisor/session/run.h"

struct run_prepared;

/* As run_command() (supervisor/session/run.h). With keep_alive the result has what is known of one command. */
int run_perform(const struct run_prepared *p, struct run_result *ret, struct err *err);
