/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a git configuration that was written inside may become one that the host's git obeys. Compared are the present file and the new one, key by key: a
 * key that was added, changed or removed must be in a table of keys that make git run nothing and look nowhere else (gitconfig_keys.c), and each of its new values must be
 * one that the table allows. Everything else must be as it was, in the same order. Pure: bytes in, verdict out.
 */
#pragma once

#include "base/macros.h"

enum { GITCONFIG_JUDGED_MAX = 256 * 1024, GITCONFIG_WHY_MAX = 256 };

/* What the values are about. */
struct gitconfig_scene {
    const char *workspace; /* absolute, without a '/' at the end */
    const char *folder;    /* where the file lies, from the workspace on: ".git/modules/x"; "" for the workspace itself */
    bool is_module;        /* git's own place of a submodule: it may have a core.worktree */
    bool (*is_private)(void *arg, const char *path); /* the host has nothing of the sandbox's at this absolute path */
    bool (*may_hold)(void *arg, const char *rel);    /* git may check files out to this folder of the workspace */
    void *arg;
};

struct buf;

/* 0: it may, as the text that was added to ret: the new one, or, while `git remote rename` is at work, with the new name in the branches, too. -EACCES: why names the key and the reason. -EBADMSG: why says that it is not plain (gitconfig_plain.h). -ENOMEM. */
int gitconfig_judge(const struct gitconfig_scene *s, const char *old, size_t old_len, const char *new, size_t new_len,
                    struct buf *ret, char why[static GITCONFIG_WHY_MAX]);
/* A .gitmodules, by itself: what git would run or follow from it. */
int gitconfig_judge_modules(const struct gitconfig_scene *s, const char *data, size_t len, char why[static GITCONFIG_WHY_MAX]);
