/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of the terminal filter. */
#include "proto/termfilter.h"

#include <string.h>

#include "base/str.h"
#include "proto/termfilter_rules.h"

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f, PALETTE_DIGITS = 7 };

struct sink {
    uint8_t *p;
    size_t n;
};

static void put(struct sink *o, const void *data, size_t n) {
    memcpy(o->p + o->n, data, n);
    o->n += n;
}

static void enter(struct termfilter *f, enum termfilter_state state) {
    f->state = state;
    f->len = 0;
    f->skipped = 0;
}

static void hold(struct termfilter *f, uint8_t c) {
    if (f->len < sizeof f->seq)
        f->seq[f->len++] = c;
}

static bool held_whole(const struct termfilter *f) {
    return f->len < sizeof f->seq;
}

static void put_invalid(struct termfilter *f, struct sink *o) {
    put(o, "\xef\xbf\xbd", 3);
    enter(f, TF_GROUND);
}

void termfilter_init(struct termfilter *f) {
    enter(f, TF_GROUND);
    f->utf8_len = 0;
}

static uint8_t utf8_expected(uint8_t lead) {
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/* Each step_* returns whether it used the byte up; if not, the byte is given to the state entered meanwhile. */

static bool step_ground(struct termfilter *f, uint8_t c, struct sink *o) {
    if (c == ESC) {
        enter(f, TF_ESC);
    } else if (c >= 0x80) {
        enter(f, TF_UTF8);
        hold(f, c);
        f->utf8_len = utf8_expected(c);
        if (f->utf8_len == 0)
            put_invalid(f, o);
    } else if (c >= 0x20 ? c != DEL : c == 0 || (c >= BEL && c <= 0x0f)) {
        put(o, &c, 1);
    }
    return true;
}

static bool step_utf8(struct termfilter *f, uint8_t c, struct sink *o) {
    if ((c & 0xc0) != 0x80) {
        put_invalid(f, o);
        return false;
    }
    hold(f, c);
    if (f->len < f->utf8_len)
        return true;
    f->seq[f->len] = 0;
    if (str_utf8_len((const char *)f->seq) != f->len) {
        put_invalid(f, o);
        return true;
    }
    if (f->seq[0] != 0xc2 || f->seq[1] >= 0xa0)
        put(o, f->seq, f->len);
    enter(f, TF_GROUND);
    return true;
}

static bool step_esc(struct termfilter *f, uint8_t c, struct sink *o) {
    if (c < 0x20 || c >= DEL) {
        enter(f, TF_GROUND);
        return false;
    }
    if (c <= 0x2f) {
        hold(f, c);
        return true;
    }
    if (f->len == 0 && c == '[') {
        enter(f, TF_CSI);
    } else if (f->len == 0 && c == ']') {
        enter(f, TF_OSC);
    } else if (f->len == 0 && memchr("PX^_k", c, 5)) {
        enter(f, TF_STRING);
    } else {
        hold(f, c);
        if (held_whole(f) && termrule_esc(f->seq, f->len)) {
            put(o, "\x1b", 1);
            put(o, f->seq, f->len);
        }
        enter(f, TF_GROUND);
    }
    return true;
}

/* Terminals obey C0 controls in the middle of a CSI; no program needs that, so here they end it, unsent. */
static bool step_csi(struct termfilter *f, uint8_t c, struct sink *o) {
    if (c < 0x20 || c >= DEL) {
        enter(f, TF_GROUND);
        return false;
    }
    hold(f, c);
    if (c < 0x40)
        return true;
    if (held_whole(f) && termrule_csi(f->seq, f->len)) {
        put(o, "\x1b[", 2);
        put(o, f->seq, f->len);
    }
    enter(f, TF_GROUND);
    return true;
}

static void end_osc(struct termfilter *f, struct sink *o, const char *terminator) {
    if (held_whole(f) && termrule_osc(f->seq, f->len)) {
        put(o, "\x1b]", 2);
        put(o, f->seq, f->len);
        put(o, terminator, strlen(terminator));
    }
    enter(f, TF_GROUND);
}

static bool step_osc(struct termfilter *f, uint8_t c, struct sink *o) {
    if (f->len == 0 && (c == 'P' || c == 'R'))
        enter(f, c == 'P' ? TF_PALETTE : TF_GROUND);
    else if (c == BEL)
        end_osc(f, o, "\a");
    else if (c == ESC)
        f->state = TF_OSC_ESC;
    else if (c == CAN || c == SUB || ++f->skipped > TERMFILTER_SKIP_MAX)
        enter(f, TF_GROUND);
    else if (c >= 0x20 && c != DEL)
        hold(f, c);
    return true;
}

static bool step_palette(struct termfilter *f, uint8_t c, struct sink *o) {
    (void)o;
    if (!c || !strchr("0123456789abcdefABCDEF", c)) {
        enter(f, TF_GROUND);
        return false;
    }
    hold(f, c);
    if (f->len == PALETTE_DIGITS)
        enter(f, TF_GROUND);
    return true;
}

static bool step_string(struct termfilter *f, uint8_t c, struct sink *o) {
    (void)o;
    if (c == ESC)
        f->state = TF_STRING_ESC;
    else if (c == CAN || c == SUB || ++f->skipped > TERMFILTER_SKIP_MAX)
        enter(f, TF_GROUND);
    return true;
}

static bool step_string_end(struct termfilter *f, uint8_t c, struct sink *o) {
    if (c != '\\') {
        enter(f, TF_ESC);
        return false;
    }
    if (f->state == TF_OSC_ESC)
        end_osc(f, o, "\x1b\\");
    else
        enter(f, TF_GROUND);
    return true;
}

static bool (*const steps[])(struct termfilter *f, uint8_t c, struct sink *o) = {
    [TF_GROUND] = step_ground,
    [TF_UTF8] = step_utf8,
    [TF_ESC] = step_esc,
    [TF_CSI] = step_csi,
    [TF_OSC] = step_osc,
    [TF_PALETTE] = step_palette,
    [TF_STRING] = step_string,
    [TF_OSC_ESC] = step_string_end,
    [TF_STRING_ESC] = step_string_end,
};
static_assert(ARRAY_LEN(steps) == TF_STRING_ESC + 1, "a step for each state");

size_t termfilter_feed(struct termfilter *f, const void *in, size_t n, void *out) {
    const uint8_t *p = in;
    struct sink o = {out, 0};

    for (size_t i = 0; i < n;) {
        size_t run = i;

        while (f->state == TF_GROUND && run < n && p[run] >= 0x20 && p[run] < DEL)
            run++;
        put(&o, p + i, run - i);
        i = run;
        if (i < n && steps[f->state](f, p[i], &o))
            i++;
    }
    return o.n;
}

size_t termfilter_end(struct termfilter *f, void *out) {
    struct sink o = {out, 0};

    if (f->state == TF_UTF8)
        put_invalid(f, &o);
    enter(f, TF_GROUND);
    return o.n;
}
