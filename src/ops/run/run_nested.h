/* SPDX-License-Identifier: Apache-2.0 */
/* A container engine inside: whether it is available, and what a run with it is like. */
#pragma once

#include "base/macros.h"

struct engine_ops;
struct err;
struct run_prepared;

/* The program of this machine's that it needs and that is not there; NULL: all are. */
const char *run_nested_missing(void);

/* For the setting `nested`: by the user's own word alone. The default mode of the workspace becomes overlay. */
int run_nested_allow(struct run_prepared *p, const struct engine_ops *e, struct err *err) MUST_USE;
