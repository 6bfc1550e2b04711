/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what is hidden in a workspace now, and reads every `.sandboxignore` on the way.
 *
 * An agent may have written the tree: it is walked by folder descriptors, no symbolic link is followed,
 * nothing but folders and regular files named .sandboxignore is opened, nothing is waited for. What cannot be read or is too
 * deep ends the scan with an error, for a rule or a name that was not seen would be a secret that is not hidden. Git's own
 * folder is walked like any other: patterns may name something in it, and `git gc` keeps its loose objects few.
 */
#pragma once

#include "base/err.h"
#include "workspace/hide/ignore.h"

enum { SCAN_ENTRIES_MAX = 256 * 1024 * 1024 }; /* bytes of the directory entries that are held at once */

struct ignore_found {
    const char *path; /* relative to the workspace; gone after the call */
    bool is_dir;
    bool linked;     /* a regular file with other names: hard links */
    bool unreadable; /* a folder that could not be read, and so has to be hidden; no rule says it */
    struct ignore_why why;
};

/* Gets the topmost entries that are excluded: a hidden folder, and nothing inside it. Negative ends the scan. */
typedef int ignore_found_fn(const struct ignore_found *f, void *arg, struct err *err);

/*
 * Walks the workspace open as `root` (O_PATH is enough) and adds its files to `ig`. If it has no .sandboxignore of its own, the
 * built-in defaults take its place. `found` may be NULL. Afterwards ig also answers for files that appear later.
 */
int ignore_scan(struct ignore *ig, int root, ignore_found_fn *found, void *arg, struct err *err);

/* The same with what an earlier one met (workspace/hide/walk_memo.h), which it replaces by what this one meets; NULL: none. ig is empty. */
struct walk_memo;
int ignore_scan_memo(struct ignore *ig, int root, struct walk_memo *memo, ignore_found_fn *found, void *arg, struct err *err);

/* The same walk by the rules that ig has already; no file of the tree is read, and no default added. */
int ignore_scan_by(struct ignore *ig, int root, ignore_found_fn *found, void *arg, struct err *err);
