/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the bytes of a git configuration file as git does (git 2.39 is the judge, tests/integration/test_worktree_git.py asks
 * it), without running git: its own answer would already obey what the file says. Nothing is followed: include.path is a key
 * like any other, and the caller sees it.
 *
 *     [core]
 *         fsmonitor = evil.sh     ->  each("core.fsmonitor", "evil.sh", 2, ...)
 *     [remote "Origin"] URL = x   ->  each("remote.Origin.url", "x", 3, ...)
 *     [a.B] c                     ->  each("a.b.c", NULL, 4, ...)
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/strv.h"

enum { GITCONFIG_SIZE_MAX = 4 * 1024 * 1024 };

/* key: section and name in lower case, the subsection between them as it is written; the last dot ends it. value is NULL where
 * there is no "=", which git takes for true. line, from 1, is where the name is. A NUL in the file ends the string, as it
 * does for git. Negative ends the reading. */
typedef int gitconfig_fn(const char *key, const char *value, unsigned line, void *arg, struct err *err);

/* -EBADMSG: git would refuse the file too (err says the line); what comes before that line was reported. -EFBIG: too large. */
int gitconfig_parse(const char *data, size_t len, gitconfig_fn *each, void *arg, struct err *err);

/* Whether key is SECTION.*.NAME: the subsection may be any, or none. */
bool gitconfig_is(const char *key, const char *section, const char *name);

/* extensions.objectFormat of a repository's configuration. What git cannot read either has no say. */
bool gitconfig_is_sha256(const char *data, size_t len);
/* A value or subsection in quotes, as git reads it back. */
void gitconfig_add_quoted(struct buf *b, const char *s, size_t len);

/*
 * The places in the workspace that the configuration of its repository makes git run or obey: core.hooksPath and the files that
 * it includes, and those that these include. Paths relative to the workspace, added to ret; they need not exist (ATTACKS 36).
 * workspace: descriptor of the folder; path: its absolute path; more: further files to read first, such as ~/.gitconfig,
 * NULL-terminated, may be NULL. *ret_hooks (may be NULL) is the core.hooksPath that counts if it lies in there, else NULL.
 */
int gitconfig_places(int workspace, const char *path, const char *const *more, struct strv *ret, char **ret_hooks,
                     struct err *err);
