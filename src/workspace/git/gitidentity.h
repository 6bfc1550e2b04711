/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's git configuration for the inside: who commits, and how git behaves, but nothing that is a credential, runs a program
 * of the host's, or leads to a file that is not there (DESIGN: Credentials). An allow-list; what git learns to do with a new
 * key is not in it.
 */
#pragma once

#include "base/err.h"

struct buf;

/* Appends the allowed keys of $XDG_CONFIG_HOME/git/config (or ~/.config/git/config) and ~/.gitconfig. Files that are missing or
 * cannot be read add nothing: it is a convenience, not a promise. */
int git_identity(char *const *environ_, const char *home, struct buf *out, struct err *err);
