/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of the workspace that git ignored when the run began, and in which it tracks nothing: node_modules, target, build. What they hold can
 * be made again, and there is much of it; so the journal records by name only what changes in them (workspace.skip_ignored). A single file
 * that git ignores, .env say, is stored like any other, and so is a folder with another repository in it: a worktree, a clone.
 *
 * What counts is what was there before the run: .gitignore files and the index are read from the journal if the run has changed them, else
 * from the host's side. So nothing inside can make a folder one of these.
 */
#pragma once

#include "base/macros.h"

struct journal;
struct ignored_folders;

/* workspace is not owned. NULL: no memory. */
struct ignored_folders *ignored_folders_new(int workspace);
void ignored_folders_free(struct ignored_folders *f);

/* How long the name of the folder is that `path` is in and that is such a one; 0: none is. Nothing may change in the workspace during the call: to be asked
 * while the guard waits, when all that it said before is in the journal. Whatever cannot be known is none. */
size_t ignored_folders_find(struct ignored_folders *f, const struct journal *j, const char *path);
/* Whether the path is in one that was found before. */
bool ignored_folders_found(const struct ignored_folders *f, const char *path);
