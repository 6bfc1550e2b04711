/* SPDX-License-Identifier: Apache-2.0 */
/* The allow-list behind termfilter.h: which complete sequences may reach the user's terminal. */
#pragma once

#include "base/macros.h"

/* All take what follows the introducer. esc: intermediates and final byte. csi: parameters to final byte. */
bool termrule_esc(const uint8_t *s, size_t n);
bool termrule_csi(const uint8_t *s, size_t n);
/* osc: the payload without its terminator; control characters were removed, other bytes are arbitrary. */
bool termrule_osc(const uint8_t *s, size_t n);
