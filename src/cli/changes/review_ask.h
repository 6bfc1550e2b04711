/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn review --interactive`: one change after the other, then all that was decided at once, so that one undo takes it back. */
#pragma once

#include "base/strv.h"
#include "ops/changes/run_pick.h"

/* p is locked. words: options for bawn-review that choose changes (--only). Returns the exit status, or negative. */
int review_ask(struct run_pick *p, const struct strv *words, bool colour, struct err *err);
