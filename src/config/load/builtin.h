/* SPDX-License-Identifier: Apache-2.0 */
/* profiles/<name>.json and profiles/agents/<name>.json, put into the program by tools/embed.py at build time. */
#pragma once

#include "base/macros.h"

struct builtin_file {
    const char *name;
    const char *text;
    size_t len;
};

extern const struct builtin_file builtin_profiles[], builtin_agents[];
extern const size_t n_builtin_profiles, n_builtin_agents;
const struct builtin_file *builtin_find(const struct builtin_file *files, size_t n, const char *name); /* or NULL */
