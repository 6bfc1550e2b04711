/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a workspace that the user has accepted. .sandboxignore lies in the workspace, so whatever runs in a sandbox can
 * write one; a rule that shows more must not count until the user has seen it (ATTACKS 6). The files as they were at the first
 * run, or at the last `bawn init --accept`, are stored in $XDG_STATE_HOME/bawn/ignore, one file per workspace, out of any
 * sandbox's reach. Until a change is accepted, a path is hidden if either the accepted or the present rules hide it: changes
 * that hide more count at once.
 */
#pragma once

#include "workspace/hide/ignore.h"

/* The folder of the pins; *ret is NULL if the user has no home, or one that does not exist (as services have it). */
int pin_folder(char *const *environ_, const char *home, char **ret, struct err *err);

/* dir: folder of the pins, NULL if the user has none (no home): then the built-in defaults are what was accepted. */

/* Compares `now`, filled by ignore_scan(), with what was accepted. Returns 0 if it is the same, or 1 with the accepted rules,
 * for ignore_scan_by(). The first time, `now` is accepted if record is set; if it cannot be written down, the defaults count. */
int pin_check(const char *dir, const char *workspace, const struct ignore *now, bool record, struct ignore **ret_accepted,
              struct err *err);
int pin_accept(const char *dir, const char *workspace, const struct ignore *now, struct err *err);
