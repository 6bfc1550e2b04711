/* SPDX-License-Identifier: Apache-2.0 */
/* Which control sequences pass the terminal filter. */
#include "proto/termfilter_rules.h"

#include <string.h>

#include "base/str.h"

enum {
    PARAM_MAX = 65535, /* CSI 2000000000 b keeps some terminals busy for minutes */
    PARAMS_MAX = 64,
    TITLE_MAX = 256,
    LINK_MAX = 2083,
    PATH_LEN_MAX = 2048,
    COLOUR_MAX = 2048,
};

struct termfilter_span {
    const uint8_t *s;
    size_t n;
};

static bool span_is(struct termfilter_span a, const char *text) {
    return a.n == strlen(text) && memcmp(a.s, text, a.n) == 0;
}

static bool span_starts(struct termfilter_span a, const char *text) {
    size_t n = strlen(text);

    return a.n >= n && memcmp(a.s, text, n) == 0;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* ESC ------------------------------------------------------------------------------------------------------- */

bool termrule_esc(const uint8_t *s, size_t n) {
    if (n == 1)
        return memchr("78=>DEHMc69", s[0], 11) != NULL;
    if (n != 2)
        return false;
    if (s[0] == '#')
        return memchr("34568", s[1], 5) != NULL;
    /* Designates a 94-character set: DEC graphics, ASCII and the national ones; none changes how controls are read. */
    return memchr("()*+", s[0], 4) && memchr("0AB12", s[1], 5);
}

/* CSI ------------------------------------------------------------------------------------------------------- */

struct csi {
    char prefix, inter, final; /* 0: none */
    size_t n;                  /* parameters; an empty one is 0 */
    uint16_t param[PARAMS_MAX];
};

static bool parse_param(const uint8_t *s, size_t n, size_t *pos, uint16_t *ret) {
    uint32_t v = 0;

    while (*pos < n && is_digit(s[*pos])) {
        v = v * 10 + (uint32_t)(s[(*pos)++] - '0');
        if (v > PARAM_MAX)
            return false;
    }
    *ret = (uint16_t)v;
    return true;
}

static bool csi_parse(const uint8_t *s, size_t n, struct csi *ret) {
    struct csi c = {0};
    size_t i = 0;

    if (n == 0)
        return false;
    if (s[0] >= '<' && s[0] <= '?')
        c.prefix = (char)s[i++];
    while (i < n && (is_digit(s[i]) || s[i] == ';' || s[i] == ':')) {
        if (c.n == PARAMS_MAX || !parse_param(s, n, &i, &c.param[c.n]))
            return false;
        c.n++;
        if (i < n && (s[i] == ';' || s[i] == ':'))
            i++;
    }
    if (i < n && s[i] >= 0x20 && s[i] <= 0x2f)
        c.inter = (char)s[i++];
    if (i + 1 != n || s[i] < 0x40 || s[i] > 0x7e)
        return false;
    c.final = (char)s[i];
    *ret = c;
    return true;
}

typedef bool csi_check(const struct csi *c);

static bool in_set(const uint16_t *set, size_t n, uint16_t v) {
    for (size_t i = 0; i < n; i++)
        if (set[i] == v)
            return true;
    return false;
}

static bool all_in(const struct csi *c, const uint16_t *set, size_t n) {
    for (size_t i = 0; i < c->n; i++)
        if (!in_set(set, n, c->param[i]))
            return false;
    return c->n > 0;
}

static bool no_params(const struct csi *c) {
    return c->n == 0 || (c->n == 1 && c->param[0] == 0);
}

/* 4 is insert mode. 2 locks the keyboard and 12 echoes locally: those may only be switched back. */
static bool ansi_set(const struct csi *c) {
    static const uint16_t modes[] = {4};

    return all_in(c, modes, ARRAY_LEN(modes));
}

static bool ansi_reset(const struct csi *c) {
    static const uint16_t modes[] = {2, 4, 20};

    return all_in(c, modes, ARRAY_LEN(modes));
}

static bool private_mode(const struct csi *c) {
    static const uint16_t modes[] = {
        1,    3,    4,    5,    6,    7,    8,    9,    12,   25,   40,   45,   47,   66,   69,   1000, 1002, 1003, 1004,
        1005, 1006, 1007, 1015, 1016, 1034, 1036, 1039, 1042, 1045, 1047, 1048, 1049, 2004, 2026, 2027, 2031, 2048,
    };

    return all_in(c, modes, ARRAY_LEN(modes));
}

static bool status_report(const struct csi *c) {
    return c->n == 1 && (c->param[0] == 5 || c->param[0] == 6);
}

static bool private_report(const struct csi *c) {
    return c->n == 1 && (c->param[0] == 6 || c->param[0] == 996);
}

/* Sizes in pixels and cells, and the title stack. Everything else moves the window or reports its title. */
static bool window_op(const struct csi *c) {
    static const uint16_t alone[] = {14, 16, 18, 19}, stack[] = {22, 23};

    if (c->n == 0)
        return false;
    if (in_set(alone, ARRAY_LEN(alone), c->param[0]))
        return c->n == 1 || (c->n == 2 && c->param[0] == 14 && c->param[1] == 2);
    return in_set(stack, ARRAY_LEN(stack), c->param[0]) && c->n <= 3 && (c->n < 2 || c->param[1] <= 2);
}

/* With five parameters T starts highlight tracking, which hangs xterm until the program answers. */
static bool scroll_down(const struct csi *c) {
    return c->n <= 1;
}

static const struct {
    char prefix, inter;
    const char *finals;
    csi_check *check; /* NULL: any parameters */
} csi_rules[] = {
    {0, 0, "@ABCDEFGHIJKLMPSXZ`abdefgmrsu", NULL},
    {0, 0, "T", scroll_down},
    {0, 0, "h", ansi_set},
    {0, 0, "l", ansi_reset},
    {0, 0, "n", status_report},
    {0, 0, "c", no_params},
    {0, 0, "t", window_op},
    {0, ' ', "q@A", NULL},     /* cursor shape; shift left and right */
    {0, '!', "p", NULL},       /* soft reset */
    {0, '"', "q", NULL},       /* character protection */
    {0, '#', "{}pqPQ", NULL},  /* stacks of SGR and colours */
    {0, '$', "prtvxz{", NULL}, /* DECRQM; rectangles: change, copy, fill, erase */
    {0, '*', "x", NULL},       /* extent of the rectangle changes */
    {0, '\'', "}~", NULL},     /* columns */
    {'?', 0, "hlsr", private_mode},
    {'?', 0, "JK", NULL},
    {'?', 0, "W", NULL}, /* tab stops every 8 columns */
    {'?', 0, "n", private_report},
    {'?', 0, "mu", NULL}, /* queries of modifyOtherKeys and the kitty keyboard */
    {'?', '$', "p", NULL},
    {'>', 0, "mn", NULL},      /* modifyOtherKeys */
    {'>', 0, "cq", no_params}, /* DA2, XTVERSION */
    {'>', 0, "u", NULL},
    {'<', 0, "u", NULL},
    {'=', 0, "u", NULL},
};

bool termrule_csi(const uint8_t *s, size_t n) {
    struct csi c;

    if (!csi_parse(s, n, &c))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(csi_rules); i++)
        if (csi_rules[i].prefix == c.prefix && csi_rules[i].inter == c.inter && strchr(csi_rules[i].finals, c.final))
            return !csi_rules[i].check || csi_rules[i].check(&c);
    return false;
}

/* OSC ------------------------------------------------------------------------------------------------------- */

static size_t utf8_len_at(struct termfilter_span a, size_t i) {
    char c[5] = {0};

    memcpy(c, a.s + i, MIN_OF(a.n - i, (size_t)4));
    return c[0] ? str_utf8_len(c) : 0;
}

/* Text as it may stand inside a sequence: every terminal must agree on where the sequence ends. */
static bool plain_text(struct termfilter_span a, size_t max) {
    if (a.n > max)
        return false;
    for (size_t i = 0; i < a.n;) {
        size_t len = utf8_len_at(a, i);

        if (len == 0 || a.s[i] < 0x20 || a.s[i] == 0x7f || (a.s[i] == 0xc2 && a.s[i + 1] < 0xa0))
            return false;
        i += len;
    }
    return true;
}

static bool ascii_graph(struct termfilter_span a, size_t max) {
    if (a.n > max)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (a.s[i] <= 0x20 || a.s[i] >= 0x7f)
            return false;
    return true;
}

static bool osc_title(struct termfilter_span a) {
    return plain_text(a, TITLE_MAX);
}

/* Colour names, "rgb:ff/ff/ff", "#rrggbb", "?"; the answer to "?" is always of the form rgb:... */
static bool osc_colour(struct termfilter_span a) {
    if (a.n > COLOUR_MAX)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (!is_digit(a.s[i]) && !((a.s[i] | 0x20) >= 'a' && (a.s[i] | 0x20) <= 'z') && !memchr("#:/?.;- ", a.s[i], 8))
            return false;
    return true;
}

static bool osc_directory(struct termfilter_span a) {
    return span_starts(a, "file://") && ascii_graph(a, PATH_LEN_MAX);
}

/* "params;uri": file: and the private schemes of desktop programs would let a click start something. */
static bool osc_link(struct termfilter_span a) {
    const uint8_t *semi = memchr(a.s, ';', a.n);
    struct termfilter_span uri;

    if (!semi || !ascii_graph(a, LINK_MAX))
        return false;
    uri.s = semi + 1;
    uri.n = a.n - (size_t)(uri.s - a.s);
    return uri.n == 0 || span_starts(uri, "http://") || span_starts(uri, "https://");
}

static bool osc_notify(struct termfilter_span a) {
    if (a.n > 0 && is_digit(a.s[0])) {
        if (!span_starts(a, "4;"))
            return false;
        for (size_t i = 0; i < a.n; i++)
            if (!is_digit(a.s[i]) && a.s[i] != ';')
                return false;
        return a.n <= 16;
    }
    return plain_text(a, TITLE_MAX);
}

static bool osc_prompt(struct termfilter_span a) {
    for (size_t i = 0; i < a.n; i++)
        if (!is_digit(a.s[i]) && !((a.s[i] | 0x20) >= 'a' && (a.s[i] | 0x20) <= 'z') && !memchr(";=_-", a.s[i], 4))
            return false;
    return a.n <= 64;
}

static bool osc_urxvt(struct termfilter_span a) {
    return span_starts(a, "notify;") && plain_text(a, TITLE_MAX);
}

static const struct {
    const char *number;
    bool (*check)(struct termfilter_span rest); /* what follows "number;" */
} osc_rules[] = {
    {"0", osc_title},    {"1", osc_title},    {"2", osc_title},    {"4", osc_colour},   {"5", osc_colour},   {"7", osc_directory},
    {"8", osc_link},     {"9", osc_notify},   {"10", osc_colour},  {"11", osc_colour},  {"12", osc_colour},  {"13", osc_colour},
    {"14", osc_colour},  {"15", osc_colour},  {"16", osc_colour},  {"17", osc_colour},  {"18", osc_colour},  {"19", osc_colour},
    {"104", osc_colour}, {"105", osc_colour}, {"110", osc_colour}, {"111", osc_colour}, {"112", osc_colour}, {"113", osc_colour},
    {"114", osc_colour}, {"115", osc_colour}, {"116", osc_colour}, {"117", osc_colour}, {"118", osc_colour}, {"119", osc_colour},
    {"133", osc_prompt}, {"777", osc_urxvt},
};

bool termrule_osc(const uint8_t *s, size_t n) {
    struct termfilter_span number = {s, 0}, rest = {s + n, 0};

    while (number.n < n && s[number.n] != ';')
        number.n++;
    if (number.n < n) {
        rest.s = s + number.n + 1;
        rest.n = n - number.n - 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(osc_rules); i++)
        if (span_is(number, osc_rules[i].number))
            return osc_rules[i].check(rest);
    return false;
}
