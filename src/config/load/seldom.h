/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that would be noise at every command: said once a day, or once. */
#pragma once

#include "base/macros.h"

/* True if a day has passed since it was true for this key (a file name) and user, or if that cannot be known. */
bool seldom_due(char *const *environ_, const char *home, const char *key);
/* True if it was never true for this key before, or if that cannot be known. */
bool seldom_first(char *const *environ_, const char *home, const char *key);
