/* SPDX-License-Identifier: Apache-2.0 */
/* Inside place: renames that lose nothing. `dir` has all names; 0 or -errno, -ESTALE if something else than `expect` is there (place.h). */
#pragma once

#include "workspace/copy/place.h"

enum { PLACE_TEMP_SIZE = sizeof PLACE_TEMP + 16 };
int place_temp_name(char ret[static PLACE_TEMP_SIZE]);

/* Without replacing anything: -EEXIST. On failure temp stays. */
int place_move_new(int dir, const char *from, const char *to);
/* temp takes the place of name. On failure temp is removed, unless it was written to. */
int place_swap(int dir, const char *temp, const char *name, const struct manifest_stamp *expect);
int place_take_away(int dir, const char *name, const struct manifest_stamp *expect);
