/* SPDX-License-Identifier: Apache-2.0 */
/* Punycode (RFC 3492): the ASCII form of one label of a name in other scripts, without its "xn--". */
#pragma once

#include "base/macros.h"

enum { PUNYCODE_POINTS_MAX = 63 }; /* a label has no more, so neither direction needs to allocate */

/* Both return how much they wrote, or -EINVAL if the input is no such label or the output does not fit. out of the first gets no
 * NUL. ASCII is taken as it is: what may stand in a name is the caller's affair. */
int punycode_encode(const uint32_t *points, size_t n, char *out, size_t cap);
int punycode_decode(const char *text, size_t len, uint32_t *out, size_t cap);
