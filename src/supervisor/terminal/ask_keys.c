/* SPDX-License-Identifier: Apache-2.0 */
/* Keys at a question: which are an answer, and which belong to an escape sequence. */
#include "supervisor/terminal/ask_keys.h"

#include <string.h>

enum { MOUSE_BYTES = 3, PASTE_BEGIN = 200, PASTE_END = 201, PARAM_MAX = 100000, ESC = 27, BEL = 7 };

static enum ask_key plain(uint8_t c) {
    static const char *const keys[] = {
        [ASK_KEY_ONCE] = "oO", [ASK_KEY_SESSION] = "sS", [ASK_KEY_ALWAYS] = "aA", [ASK_KEY_DENY] = "dDnN\r\n\003"};

    for (int i = ASK_KEY_ONCE; c && i <= ASK_KEY_DENY; i++)
        if (strchr(keys[i], c))
            return (enum ask_key)i;
    return ASK_KEY_NONE;
}

static void after_esc(struct ask_keys *k, uint8_t c) {
    k->param = 0;
    k->first = k->bare = true;
    if (c == '[')
        k->state = ASK_KEYS_CSI;
    else if (c == 'O')
        k->state = ASK_KEYS_SS3;
    else if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X')
        k->state = ASK_KEYS_STRING;
    else
        k->state = c == ESC ? ASK_KEYS_ESC : ASK_KEYS_GROUND; /* Alt and a key */
}

static void end_csi(struct ask_keys *k, uint8_t final) {
    k->state = ASK_KEYS_GROUND;
    if (final == 'M' && k->bare)
        k->skip = MOUSE_BYTES; /* X10's report has its coordinates behind the end */
    if (final == '~' && k->param == PASTE_BEGIN)
        k->pasting = true;
    if (final == '~' && k->param == PASTE_END)
        k->pasting = false;
}

static void in_csi(struct ask_keys *k, uint8_t c) {
    if (c >= '0' && c <= '9' && k->first && k->param < PARAM_MAX)
        k->param = k->param * 10 + (c - '0');
    else if (c < 0x40)
        k->first = false;
    k->bare = false;
}

static enum ask_key step_key(struct ask_keys *k, uint8_t c) {
    if (k->skip) {
        k->skip--;
        return ASK_KEY_NONE;
    }
    switch (k->state) {
    case ASK_KEYS_GROUND:
        if (c == ESC)
            k->state = ASK_KEYS_ESC;
        else if (!k->pasting)
            return plain(c);
        break;
    case ASK_KEYS_ESC:
        after_esc(k, c);
        break;
    case ASK_KEYS_CSI:
        if (c == ESC)
            k->state = ASK_KEYS_ESC;
        else if (c >= 0x40 && c <= 0x7e)
            end_csi(k, c);
        else
            in_csi(k, c);
        break;
    case ASK_KEYS_SS3:
        k->state = ASK_KEYS_GROUND;
        break;
    case ASK_KEYS_STRING:
        k->state = c == BEL ? ASK_KEYS_GROUND : c == ESC ? ASK_KEYS_STRING_ESC : ASK_KEYS_STRING;
        break;
    case ASK_KEYS_STRING_ESC:
        k->state = c == '\\' ? ASK_KEYS_GROUND : c == ESC ? ASK_KEYS_STRING_ESC : ASK_KEYS_STRING;
        break;
    }
    return ASK_KEY_NONE;
}

enum ask_key ask_keys_feed(struct ask_keys *k, const uint8_t *in, size_t n) {
    enum ask_key key = ASK_KEY_NONE;

    for (size_t i = 0; i < n; i++)
        key = step_key(k, in[i]);
    return n == 1 ? key : ASK_KEY_NONE;
}

bool ask_keys_in_esc(const struct ask_keys *k) {
    return k->state == ASK_KEYS_ESC && !k->pasting;
}
