/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail of bawn-review, entered before it reads a byte that an agent wrote. Afterwards the process can read below the given
 * folders, write to the pipes it has, and nothing else: no other file, no new process, no socket, no privilege.
 *
 * Landlock is left out where the kernel has none; the system call filters, which then still keep it from writing, creating,
 * deleting and executing anything, are not.
 */
#pragma once

#include "base/macros.h"

struct err;

/* roots: descriptors of folders that stay readable; every descriptor >= first_closed is closed. */
int review_lock(const int *roots, size_t n, unsigned first_closed, struct err *err) MUST_USE;
