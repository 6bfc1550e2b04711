/*
 * Other names of hidden files: hard links in the workspace that no rule hides. They were made
 * outside, before the run: inside, a hidden file cannot be linked.
 */
#pragma once

#include "base/strv.h"

struct err;
struct ignore;

enum {
    HARDLINKS_MAX = 4096,          /* hidden files with several names */
    HARDLINKS_ENTRIES_MAX = 20000, /* looked at in hidden folders */
};

/*
 * Appends the visible names to ret, relative to the workspace. hidden: what is hidden, files and whole folders; rules: by which.
 * Returns 1 if a ceiling was met and not all was looked at, else 0. One system call for each hidden file; the workspace is gone
 * through only if one of them has names that are not accounted for.
 */
int hardlinks_of_hidden(int workspace, const struct strv *hidden, const struct ignore *rules, struct strv *ret, struct err *err);
