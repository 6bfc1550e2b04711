/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn shell` and `bawn attach` share: a job in the background on our terminal, and what is said afterwards. */
#pragma once

#include "supervisor/keep/exec_client.h"

struct err;

/* Returns the exit status: the job's, or 0 if the user detached. */
int attach_run(int sock, const struct attach_options *opt, bool json, struct err *err);
