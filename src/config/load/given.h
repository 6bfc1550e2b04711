/* SPDX-License-Identifier: Apache-2.0 */
/* What was said for this one run: the environment and the flags. */
#pragma once

#include "config/load/layer.h"

/* BAWN_SANDBOX (true, false, require or an engine), BAWN_PROFILE, BAWN_SANDBOX_IMAGE. */
int given_environment(char *const *environ_, struct layer *l, struct err *err);
int given_flags(const struct settings_flags *flags, const char *home, struct layer *l, struct err *err);
