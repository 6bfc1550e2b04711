/* SPDX-License-Identifier: Apache-2.0 */
/* Inside place: renames that lose nothing. `dir` holds all names; 0 or -errno, -ESTALE if not `expect` stands there (place.h). */
#pragma once

#include "workspace/copy/manifest.h"

/* Without replacing anything: -EEXIST. On failure temp stays. */
int place_move_new(int dir, const char *from, const char *to);
/* temp takes the place of name. On failure temp is removed, unless somebody wrote into it. */
int place_swap(int dir, const char *temp, const char *name, const struct manifest_stamp *expect);
int place_take_away(int dir, const char *name, const struct manifest_stamp *expect);
