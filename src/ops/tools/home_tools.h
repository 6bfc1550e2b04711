/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs of the user's home a sandbox sees: folders of PATH that the table of toolchains knows (toolchain.h), with what their
 * programs need, also where only links lead there. They come in read-only, at the same place: scripts and environments have absolute paths.
 *
 * A folder comes in only if it, and each folder on the way from the home, is the user's or root's, no other user can write to it, and it is
 * no link. Nothing that is not in the table comes in, whatever links say.
 */
#pragma once

#include "jail/plan/plan_tools.h"

struct err;
struct host_facts;
struct settings;

enum { HOME_TOOLS_MAX = 96, HOME_TOOLS_LINKS_MAX = 4096 }; /* mounts; entries of a folder that are looked at */

/* Adds notes to s, each of them once for a user unless it is a dry run. Settings without home_tools: finds nothing. */
int home_tools_find(const struct host_facts *facts, struct settings *s, bool dry_run, struct plan_tools *ret, struct err *err);
