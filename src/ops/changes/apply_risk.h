/* SPDX-License-Identifier: Apache-2.0 */
/* Asks bawn-review which of the changes that would be applied are of high risk. */
#pragma once

#include "base/strv.h"
#include "ops/changes/run_pick.h"
#include "workspace/apply/apply.h"

/* Paths of high risk among what `r` says would be brought in. A change that the review does not name counts as one: it was not
 * judged. Negative: nothing could be judged. */
int apply_risks(const struct run_pick *p, const struct apply_result *r, struct strv *ret_risky, struct err *err);
