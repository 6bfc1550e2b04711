/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn exec`, `shell` and `attach` have in common: options, and the result of a job on our terminal. */
#pragma once

#include "base/opt.h"
#include "ops/sandbox/exec_run.h"

struct exec_keys {
    bool given;
    char keys[EXEC_KEYS_MAX + 1];
};

opt_call exec_option_env;  /* to: struct exec_args */
opt_call exec_option_cwd;  /* to: const char * */
opt_call exec_option_keys; /* to: struct exec_keys */

/* Operands "[SANDBOX] [JOB]", at most two; a single number is a job of the project's own sandbox. *ret_job 0: none named. */
int exec_operands(int n, char **words, const char **ret_name, uint64_t *ret_job, struct err *err);

/* What is said at the end of `bawn shell` and `attach`. Returns the exit status: the job's, or 0 if the user detached. */
int exec_print_attached(const struct attach_result *r, bool json);
