/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The toolchains that people have in their homes: which folders a sandbox sees of each, read-only and in the same place, and which it
 * never does. A row comes in only if PATH leads there (home_tools.h). What is not named in a row is not inside.
 *
 * Paths are below `root`, names may be patterns (fnmatch), "**" is anything. "$" is the name that a pattern of `root` or `path` stood for: of nvm only the
 * version that is in PATH comes in.
 */
#pragma once

#include "base/macros.h"

enum { TOOLCHAIN_WORDS = 12 };

struct toolchain {
    const char *name, *root;              /* root: below the home, or absolute */
    const char *variable;                 /* names the root, where it is elsewhere below the home */
    const char *needs;                    /* this is there, or it is another folder of the same name */
    const char *program;                  /* comes with this program: it stands in a folder of PATH that comes in */
    const char *path[TOOLCHAIN_WORDS];    /* folders that stand in PATH; none: only links lead there */
    const char *parts[TOOLCHAIN_WORDS];   /* what comes in; none: nothing, and nothing is said about it */
    const char *without[TOOLCHAIN_WORDS]; /* of that, what does not; with a pattern: what is there at the start */
    const char *sets[4];                  /* variables inside that are the root */
    const char *passes[4];                /* variables of the host that are passed if they lead into the root */
    const char *reason;
};

extern const struct toolchain toolchains[];
extern const size_t n_toolchains;

enum { TOOLCHAIN_NAME_SIZE = 256 };

/* Compares a path name by name with a root and a pattern below it, which may be "". prefix: the path may go on behind them. `name` becomes the
 * first name that a pattern or "$" stood for. */
bool toolchain_match(const char *root, const char *pattern, const char *path, bool prefix, char name[static TOOLCHAIN_NAME_SIZE]);
bool toolchain_is_pattern(const char *pattern);
/* The pattern with this name for "$" and, if `all`, for every name that is a pattern. NULL: no memory. */
char *toolchain_fill(const char *pattern, const char *name, bool all);
/* Adds the paths below `top` that are there and match, without following links. 0 or -ENOMEM */
struct strv;
int toolchain_expand(const char *top, const char *pattern, struct strv *ret);
