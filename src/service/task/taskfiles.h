/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a workspace, by a process of the tenant's whose current directory it is. No link is followed, and Landlock lets it write nowhere
 * else, so that no race and no archive leads out of it: `bawn-task --list|--write|--delete|--tar|--untar ...`.
 */
#pragma once

#include "base/macros.h"

struct err;

/* argv[0] is the verb; returns 0 or -errno, for which taskfiles_status() has the exit status. */
int taskfiles_main(int argc, char **argv, struct err *err);
int taskfiles_status(int r);
bool taskfiles_knows(const char *verb);
