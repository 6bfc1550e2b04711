/* SPDX-License-Identifier: Apache-2.0 */
/* What the `bawn policy` commands have in common on the command line: options that choose a policy. */
#pragma once

#include "cli/verb.h"
#include "ops/policy/policy_here.h"

enum { POLICY_OUTPUT_MAX = 64 * 1024 * 1024 };

/* Rows for the option tables of a request that has a struct policy_here_opts as `member`. */
#define POLICY_VIEW_DIR(type, member) \
    { 0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", OPT_TO_TEXT(type, member.dir) }
#define POLICY_VIEW_OPTS(type, m)                                                                                      \
    POLICY_VIEW_DIR(type, m),                                                                                          \
        {0, 'p', "profile", "NAME", "as if this profile had been named", "@profile", OPT_TO_TEXT(type, m.profile)},    \
        {0, 'a', "agent", "NAME", "as if this agent were run", "@agent", OPT_TO_TEXT(type, m.agent)},                  \
        {0, 0, "network", "MODE", "as if said to 'bawn run'", "none|list|limited|full", OPT_TO_TEXT(type, m.network)}, \
        {0, 0, "allow", "HOST[:PORT]", "the same; can be repeated", "@group", OPT_TO_LIST(type, m.allow)}, {           \
        0, 0, "deny", "HOST[:PORT]", "the same; can be repeated", "@group", OPT_TO_LIST(type, m.deny)                  \
    }
