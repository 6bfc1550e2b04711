/* SPDX-License-Identifier: Apache-2.0 */
/* Between castock.c (the stock) and castock_spawn.c (bawn-broker as a process). */
#pragma once

#include "base/macros.h"

struct castock;
struct err;

enum { CASTOCK_WORD_SIZE = 17 };

/* Runs bawn-broker --make PATH and waits for it. */
int castock_make(const char *path, struct err *err);
/* Until the next CA is made, if one is being made. */
void castock_wait_maker(struct castock *c);
