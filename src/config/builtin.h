/* profiles/<name>.json, put into the program by tools/embed.py at build time. */
#pragma once

#include "base/macros.h"

struct builtin_profile {
    const char *name;
    const char *text;
    size_t len;
};

extern const struct builtin_profile builtin_profiles[];
extern const size_t n_builtin_profiles;
