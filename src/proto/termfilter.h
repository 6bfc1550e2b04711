/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters what a sandboxed program writes to the user's terminal (ATTACKS 77, 78). Bytes in, bytes out, no
 * allocation; the result does not depend on how the input is cut into pieces.
 *
 * Theory of operation. A sequence is held back until it is complete, looked up in an allow-list
 * (termfilter_rules.c), and then either written whole or not at all. So the terminal never sees the start of a
 * sequence whose end was not judged, and it does not matter in which of the many ways a terminal would have
 * resynchronised after a broken one. What comes out is always valid UTF-8 in which the only bytes below 0x20 are
 * BEL BS HT LF VT FF CR SO SI NUL and the ESC of an allowed sequence; filtering it again changes nothing.
 *
 * Passed:
 *   text       all valid UTF-8 except U+0080..U+009F, which xterm and VTE obey as control characters
 *   ESC        7 8 = > D E H M c 6 9, # 3..6 8, and ( ) * + with a 94-character set (line drawing)
 *   CSI        cursor, erase, insert, delete, scroll, tabs, SGR, margins, REP, rectangles, cursor shape, soft reset,
 *              modes 4, private modes of full-screen programs (screen buffers, mouse, paste, focus, sync ...),
 *              modifyOtherKeys, kitty keyboard, push and pop of title, SGR and colours
 *   queries    those whose answer is made of numbers only: DA1 DA2 XTVERSION DSR 5/6/?6/?996 DECRQM,
 *              sizes (14 16 18 19 t), kitty keyboard flags, modifyOtherKeys
 *   OSC        0 1 2 title (256 bytes), 4 5 10..19 104 105 110..119 colours and colour queries, 7 file:// directory,
 *              8 links to http and https, 9 notification and 9;4 progress, 133 prompt marks, 777;notify
 * Removed, each because of what it can do:
 *   OSC 52 (clipboard), 50 (font query echoes text), 1337 (files, iTerm2), 3, 46, 51, 99, 633 and all others;
 *   OSC 9 followed by a digit other than progress (ConEmu runs macros and programs);
 *   CSI t window operations, above all 20 and 21 (title report types attacker's text), resize, raise, iconify;
 *   CSI i (printer), CSI * y and # y (reads the screen), CSI $ w, $ u, x, CSI " p (8-bit answers), CSI * z (macros),
 *   CSI 2 h (locks the keyboard), 12 h/l, private modes 2 (VT52), 38 (Tektronix), 42, 46 (log file), ...;
 *   every DCS (DECRQSS, XTGETTCAP, DECUDK, macros, tmux pass-through, sixel: image decoders are a parser of
 *   hostile bytes in another program's memory), every APC (kitty graphics read files), PM, SOS, ESC k;
 *   ESC % (leaving UTF-8 turns bytes of text into C1 controls), ESC SP, locking shifts;
 *   ENQ (answerback), CAN (ZMODEM's start makes some terminals receive files), DEL, and the other C0 controls.
 * Bytes that are not UTF-8 become U+FFFD, as a UTF-8 terminal shows them; so 8-bit C1 controls cannot pass.
 */
#pragma once

#include "base/macros.h"

enum {
    TERMFILTER_SEQ_MAX = 4096,         /* a longer sequence is dropped even if its kind is allowed */
    TERMFILTER_SKIP_MAX = 1024 * 1024, /* a string that is still open after this many bytes is text again */
};

enum termfilter_state {
    TF_GROUND,
    TF_UTF8, /* inside a multi-byte character */
    TF_ESC,  /* after ESC, and its intermediate bytes */
    TF_CSI,
    TF_OSC,
    TF_PALETTE, /* ESC ] P nrrggbb of the Linux console, which has no terminator */
    TF_STRING,  /* DCS, APC, PM, SOS, ESC k: never passed */
    TF_OSC_ESC, /* ESC inside an OSC or another string: ST if a backslash follows */
    TF_STRING_ESC,
};

struct termfilter {
    enum termfilter_state state;
    size_t len;     /* bytes in seq; stays at TERMFILTER_SEQ_MAX once too long */
    size_t skipped; /* bytes of the present string */
    uint8_t utf8_len;
    uint8_t seq[TERMFILTER_SEQ_MAX];
};

/* Room that the output of n bytes may need: U+FFFD is three bytes, and a held sequence may come out. */
#define TERMFILTER_OUT_MAX(n) (3 * (size_t)(n) + TERMFILTER_SEQ_MAX + 3)

void termfilter_init(struct termfilter *f);
/* Returns how many bytes were written to out, which has room for TERMFILTER_OUT_MAX(n). */
size_t termfilter_feed(struct termfilter *f, const void *in, size_t n, void *out);
/* The input has ended: what is still held is given up. Returns bytes written (at most 3); the filter is as new. */
size_t termfilter_end(struct termfilter *f, void *out);
