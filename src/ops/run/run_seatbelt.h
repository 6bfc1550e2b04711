/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn run --dry-run --engine sandbox-exec` prints: the profile of the run, and how it is used (engine/seatbelt/sbpl.h). */
#pragma once

#include "base/macros.h"

struct buf;
struct err;
struct run_prepared;

/* json: {"profile": TEXT, "argv": [...]}; else the profile, with the command line as its last comment. */
int run_seatbelt_print(const struct run_prepared *p, bool json, struct buf *out, struct err *err);
