/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in other scripts, the careful way: not all of IDNA, only what every program reads alike.
 *
 *     "bücher"            ->  "xn--bcher-kva"
 *     "xn--bcher-kva"     ->  as it is
 *     "BÜCHER", "straße"  ->  refused: programs disagree about the lower case, and about ß (IDNA 2003 and 2008 differ)
 *
 * A label written in its own script may hold the letters of one script (idn.c has the table), digits and hyphens. Scripts that need
 * combining marks or are written from right to left have to be given in their ASCII form, where nothing is left to convert.
 */
#pragma once

#include "base/macros.h"

struct err;

enum { IDN_LABEL_MAX = 63 };

/* One label with at least one byte >= 0x80. Returns the length of the ASCII form, which gets no NUL. */
int idn_to_ascii(const char *label, size_t len, char out[static IDN_LABEL_MAX], struct err *err);

/* A label that starts with "xn--", in lower case: whether it is what an encoder would have written, and nothing invisible. */
int idn_check_ascii(const char *label, size_t len, struct err *err);
