/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: a process of the user's that keeps blanks (jail/apply/blank.h) ready and gives one to each `bawn run`, `bawn start`...
 * that asks for one at its socket (spec/pool-socket.md). It is started by `bawn pool on`, and ends by `bawn pool off`, when
 * no blank was taken for a while, or when its program was replaced. It holds descriptors only: kill it and the blanks that
 * were not taken are gone, while those that were taken go on.
 */
#pragma once

#include "base/macros.h"

struct err;
struct pool_reply;

enum { POOL_SIZE = 16, POOL_SIZE_MAX = 512, POOL_IDLE_MS = 10 * 60 * 1000 };

struct pool_options {
    uint64_t size, idle_ms;
    char *const *environ_;
};

/* Starts the pool in the background and returns when it is filled. 1: there was one already, which stays as it is. */
int pool_start(const struct pool_options *opt, struct err *err);
/* -ENOENT or -ECONNREFUSED: there is no pool. */
int pool_query(char *const *environ_, struct pool_reply *ret);
int pool_stop(char *const *environ_); /* afterwards no blank can be taken from it, and another pool can begin */
