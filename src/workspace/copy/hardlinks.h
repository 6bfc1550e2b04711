/* SPDX-License-Identifier: Apache-2.0 */
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
 * Appends the visible names to ret, relative to the workspace. linked: what is hidden and may have other names: files that do
 * (ignore_scan.h), and whole folders; rules: what hides them. Returns 1 if a ceiling was met and not all was looked at, else 0.
 * The workspace is gone through only if one of the files has names that are not accounted for.
 */
int hardlinks_of_hidden(int workspace, const struct strv *linked, const struct ignore *rules, struct strv *ret, struct err *err);
