/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the user's, found by PATH: in a session of its own, with no terminal and none of our descriptors; it outlives us. */
#pragma once

#include "base/macros.h"

int detach_start(const char *program, char *const *argv, char *const *envp); /* -ENOENT: there is no such program */
