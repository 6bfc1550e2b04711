/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `bawn secret set`. */
#pragma once

#include "base/opt.h"
#include "ops/secret/secret_change.h"

enum { N_SECRET_SET_OPTS = 18 };
extern const struct opt secret_set_opts[N_SECRET_SET_OPTS];

/* ret->c is filled with what is known about its host, and checked. */
int secret_set_read(int argc, char **argv, struct secret_set *ret, struct err *err);
