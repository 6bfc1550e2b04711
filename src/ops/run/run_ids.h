/* SPDX-License-Identifier: Apache-2.0 */
/* How many ids a writable system has: by the setting `system_ids`, by what the administrator gave to the user, and by what else the sandbox may write to. */
#pragma once

#include "base/macros.h"

struct err;
struct run_prepared;

/* Fills p->input.more, or leaves it empty: one id. With `many` the default mode of the workspace becomes overlay, and what is in the way is a refusal. */
int run_ids(struct run_prepared *p, struct err *err) MUST_USE;
