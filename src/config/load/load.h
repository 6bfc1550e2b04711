/* SPDX-License-Identifier: Apache-2.0 */
/* Loading, with the project's file already in hand. For settings_load() and for `bawn trust`, which must judge exactly
 * the bytes whose hash it records. */
#pragma once

#include "config/load/project.h"
#include "config/settings.h"

/* project may be NULL. Untrusted: it can only narrow, and s->notes says what it did not get. */
int load_settings(const struct settings_sources *src, const struct project *project, bool trusted, struct settings *ret,
                  struct err *err);
