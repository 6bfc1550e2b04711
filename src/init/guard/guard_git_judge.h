/* SPDX-License-Identifier: Apache-2.0 */
/* What is in git's own files, and the guard's copies of them. */
#pragma once

#include "init/guard/guard_git.h"

struct buf;

/* ret: what to write, which is `new` in another form at most. 0, or -errno after telling the supervisor why. */
int guard_git_judge(struct guard *g, const char *rel, enum git_role role, const struct buf *old, const struct buf *new,
                    struct buf *ret);
/* Everything that is in it may be written inside, so that it may be gone, too. */
bool guard_git_is_harmless(const struct guard *g, const struct place *p, enum git_role role);
/* guard_git_links.c: the text of a .git, commondir or gitdir, as it is written; -EACCES. */
int guard_git_link(const struct guard *g, const char *rel, enum git_role role, const struct buf *text, struct buf *ret);
/* A file of the guard's own in the place of p. */
int guard_git_write(struct guard *g, const struct place *p, mode_t mode, const struct buf *text);
