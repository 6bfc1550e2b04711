/* SPDX-License-Identifier: Apache-2.0 */
/* One vault at a time: locks on bytes of one file, so that a name needs no file of its own. Gone with the process. */
#pragma once

#include "base/macros.h"

struct err;

enum { LOCKFILE_STORE = 0 }; /* the file store; names have other numbers */

/* A number above 0 for the tokens of this credential. Two names that share one wait for each other, no more. */
uint64_t lockfile_of_name(const char *name);
/* Waits up to VAULT_LOCK_TIMEOUT_MS. The lock goes with the descriptor. dir is made if need be. */
int lockfile_take(const char *dir, uint64_t which, int *ret_fd, struct err *err);
