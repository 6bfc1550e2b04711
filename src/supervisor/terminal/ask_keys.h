/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which key answers a question on the terminal. What comes from a terminal is not only what a person types: it answers queries that the
 * command sent before the question was shown (their text may hold any letter), reports the mouse, and pastes. None of that may answer, so
 * sequences are passed over whole, and a letter counts only if it came alone.
 */
#pragma once

#include "base/macros.h"

enum { ASK_KEYS_ESC_MS = 100 }; /* an ESC that nothing follows for so long is the key of that name */

enum ask_key { ASK_KEY_NONE, ASK_KEY_ONCE, ASK_KEY_SESSION, ASK_KEY_ALWAYS, ASK_KEY_DENY };

enum ask_keys_state {
    ASK_KEYS_GROUND,
    ASK_KEYS_ESC,
    ASK_KEYS_CSI,
    ASK_KEYS_SS3,
    ASK_KEYS_STRING, /* OSC, DCS, APC, PM, SOS: until BEL or ST */
    ASK_KEYS_STRING_ESC
};

struct ask_keys {
    enum ask_keys_state state;
    bool pasting;
    unsigned skip;  /* bytes of a mouse report that still follow */
    unsigned param; /* first number of a CSI */
    bool first, bare;
};

/* The bytes of one read(2). */
enum ask_key ask_keys_feed(struct ask_keys *k, const uint8_t *in, size_t n);
bool ask_keys_in_esc(const struct ask_keys *k); /* an ESC has come, and nothing behind it yet */
