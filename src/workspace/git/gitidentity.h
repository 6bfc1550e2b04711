/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's git configuration for the inside: who commits, and how git behaves, but nothing that is a credential, runs a program
 * of the host's, or leads to a file that is not there (DESIGN: Credentials). An allow-list; what git learns to do with a new
 * key is not in it.
 */
#pragma once

#include "base/err.h"

#include "base/buf.h"

struct strv;

struct git_identity {
    struct buf config; /* the allowed keys of $XDG_CONFIG_HOME/git/config (or ~/.config/git/config) and ~/.gitconfig */
    struct buf ignore; /* what the user has git ignore in all repositories (core.excludesFile), and what is hidden */
};
#define GIT_IDENTITY_INIT \
    { .config = BUF_INIT(1024 * 1024), .ignore = BUF_INIT(4 * 1024 * 1024) }
void git_identity_done(struct git_identity *g);

/* Files that are missing or cannot be read add nothing: it is a convenience, not a promise. hidden: paths below the workspace that git
 * inside sees as files it cannot read; may be NULL. */
int git_identity_read(char *const *environ_, const char *home, const struct strv *hidden, struct git_identity *ret,
                      struct err *err);
