/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn exec`, `shell` and `attach` have in common: options. */
#pragma once

#include "base/opt.h"
#include "ops/sandbox/exec_run.h"

opt_call exec_option_env; /* to: struct exec_args */
opt_call exec_option_cwd; /* to: const char * */

/* Operands "[SANDBOX] [JOB]", at most two; a single number is a job of the project's own sandbox. *ret_job 0: none named. */
int exec_operands(int n, char **words, const char **ret_name, uint64_t *ret_job, struct err *err);
