/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn cp` and `put` say at the end. */
#pragma once

#include "ops/files/files.h"

/* What was left out, as lines for people; and, with json, the result as an object. Returns the exit status: 1 if something was left out. */
int files_print(const struct transfer *t, bool json, struct err *err);
