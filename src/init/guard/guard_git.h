/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's own files. What the host's git obeys is judged by what is in it, not by its name alone, so that git works inside:
 *   - a configuration, and a .gitmodules, that a program renames into place is read once, judged (workspace/git/gitconfig_judge.h), and written
 *     anew by the guard: the file that the host's git reads is one that no process inside ever had open for writing;
 *   - what git writes in place is judged when it is closed (guard_stage.h);
 *   - a repository may be made: its folder .git, the folders hooks and branches in it, and hooks whose name ends in .sample, which git does not run;
 *   - what may be made may be removed, but for the workspace's own repository.
 * Only what the built-in rules protect is judged so. What a line of the user's protects, or a link of the host leads to, is refused as it was.
 */
#pragma once

#include "init/guard/guard_place.h"

enum git_role {
    GIT_NONE,
    GIT_CONFIG,
    GIT_MODULES,   /* .gitmodules */
    GIT_POINTER,   /* .git that is a file: of a submodule, of a linked worktree */
    GIT_COMMONDIR, /* of a linked worktree: where its repository is */
    GIT_GITDIR     /* of a linked worktree: where its .git is */
};

/* What a file of this path is to git; GIT_NONE: no rule of this kind says anything. */
enum git_role guard_git_role(const struct guard *g, const char *rel);
/* A .gitmodules, in every spelling: it is in no list, and so every operation that could bring one about has to ask. */
bool guard_git_is_modules(const char *rel);

/* Both for what the rules refuse. */
bool guard_git_may_make(const struct guard *g, const char *rel, enum rules_kind kind);
bool guard_git_may_remove(const struct guard *g, const struct place *p);
/* git init turns the executable bit of its configuration on and off, to see whether the file system has one. */
bool guard_git_may_chmod(const struct guard *g, const struct place *p, mode_t mode);
/* git init makes a link to see whether there are any. */
bool guard_git_is_probe(const char *rel, const char *target);
/* Directly in .git/worktrees/NAME, also of a submodule. */
bool guard_git_is_in_worktree(const char *rel);
/* A folder in which git keeps a repository: .git/modules/NAME and .git/worktrees/NAME. */
bool guard_git_is_home(const char *rel);

/* Judges and puts the file `from` in the place of `to`, whose role it is. 0, GUARD_LATER, or -errno after telling the supervisor. */
int guard_git_put(struct guard *g, const struct place *from, const struct place *to, enum git_role role);
