/* SPDX-License-Identifier: Apache-2.0 */
/* Why a command was not found inside: mostly the host has it where the sandbox does not look. */
#pragma once

#include "base/macros.h"

struct notice;

/* Says it in one line. Only names, and only what a look through the user's own PATH finds. sandbox: a persistent one; NULL: a run.
 * workspace: what is in there is inside; NULL: not known. */
void tool_say_missing(const struct notice *n, const char *name, const char *workspace, const char *sandbox);
