/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn review --interactive`: one change after the other, then all that was decided at once, so that one undo takes it back. */
#pragma once

#include "cli/changes/review_options.h"

/* p is locked. Returns the exit status, or negative. */
int review_ask(struct run_pick *p, const struct review_args *a, struct err *err);
