/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters that deceive the reader of a name or a diff: bidirectional controls (Trojan Source, CVE-2021-42574), invisible ones,
 * tags that smuggle text to language models, terminal escapes (ATTACKS 42). Only lines that the old version does not have count.
 */
#include <errno.h>

#include "base/str.h"
#include "review/risk/risk_rule.h"

static const struct {
    unsigned first, last;
    enum risk_level level;
    const char *what;
} ranges[] = {
    {0x01, 0x08, RISK_MEDIUM, "a control character"},
    {0x0b, 0x0b, RISK_MEDIUM, "a control character"},
    {0x0e, 0x1a, RISK_MEDIUM, "a control character"},
    {0x1b, 0x1b, RISK_MEDIUM, "a terminal escape"},
    {0x1c, 0x1f, RISK_MEDIUM, "a control character"},
    {0x7f, 0x7f, RISK_MEDIUM, "a control character"},
    {0x80, 0x9f, RISK_MEDIUM, "a terminal control of the C1 set"},
    {0xad, 0xad, RISK_LOW, "an invisible hyphen"},
    {0x61c, 0x61c, RISK_MEDIUM, "a bidirectional control"},
    {0x115f, 0x1160, RISK_MEDIUM, "an invisible filler"},
    {0x17b4, 0x17b5, RISK_MEDIUM, "an invisible vowel"},
    {0x180b, 0x180e, RISK_MEDIUM, "an invisible separator"},
    {0x200b, 0x200b, RISK_MEDIUM, "a space of no width"},
    {0x200c, 0x200d, RISK_LOW, "an invisible joiner"},
    {0x200e, 0x200f, RISK_MEDIUM, "a bidirectional control"},
    {0x2028, 0x2029, RISK_MEDIUM, "a line end that editors do not show"},
    {0x202a, 0x202e, RISK_HIGH, "a bidirectional control"},
    {0x2060, 0x2065, RISK_MEDIUM, "an invisible operator"},
    {0x2066, 0x2069, RISK_HIGH, "a bidirectional control"},
    {0x206a, 0x206f, RISK_MEDIUM, "an invisible format character"},
    {0x3164, 0x3164, RISK_MEDIUM, "an invisible letter"},
    {0xfeff, 0xfeff, RISK_MEDIUM, "a space of no width"},
    {0xffa0, 0xffa0, RISK_MEDIUM, "an invisible letter"},
    {0xfff9, 0xfffb, RISK_MEDIUM, "an invisible annotation mark"},
    {0x1bca0, 0x1bca3, RISK_MEDIUM, "an invisible format character"},
    {0x1d173, 0x1d17a, RISK_MEDIUM, "an invisible format character"},
    {0xe0000, 0xe007f, RISK_HIGH, "a tag character, which people do not see and language models read"},
    {0xe0100, 0xe01ef, RISK_HIGH, "an invisible selector, in which text can be hidden"},
};

struct hidden {
    const char *what; /* NULL: nothing */
    enum risk_level level;
    unsigned code;
};

static unsigned decode(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned c = u[0] & mask[n];

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (u[i] & 0x3fu);
    return c;
}

/* Joiners are spelling in Arabic, Persian and the scripts of India, and make emoji out of several. */
static bool joins(unsigned code, unsigned before) {
    return (code == 0x200c || code == 0x200d) && ((before >= 0x600 && before < 0x1100) || before >= 0x2190);
}

/* The worst of a line. */
static struct hidden look(const char *s, size_t len, bool first_line) {
    struct hidden worst = {0};
    unsigned before = 0;

    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        size_t n = c >= 0x20 && c < 0x7f ? 1 : c ? str_utf8_len(s + i) : 0;
        unsigned code = n ? decode(s + i, n) : 0;

        for (size_t k = 0; n && !(n == 1 && c >= 0x20 && c < 0x7f) && k < ARRAY_LEN(ranges); k++)
            if (code >= ranges[k].first && code <= ranges[k].last && ranges[k].level > worst.level && !joins(code, before) &&
                !(code == 0xfeff && i == 0 && first_line))
                worst = (struct hidden){ranges[k].what, ranges[k].level, code};
        if (c == '\r' && i + 1 < len && worst.level < RISK_MEDIUM)
            worst = (struct hidden){"a carriage return in the middle, which hides the text before it", RISK_MEDIUM, c};
        if (n)
            before = code;
        i += MAX_OF(n, (size_t)1);
    }
    return worst;
}

void risk_judge_name(struct risk_case *c) {
    struct hidden h = look(c->path, strlen(c->path), false);

    if (c->change->new_.mode == 0)
        return;
    if (strpbrk(c->path, "\n\t\r\f"))
        h = (struct hidden){"a line end or tab", RISK_MEDIUM, (unsigned char)*strpbrk(c->path, "\n\t\r\f")};
    if (h.what)
        risk_add(c, RISK_HIDDEN_TEXT, MAX_OF(h.level, RISK_MEDIUM), 0, "its name contains %s (U+%04X)", h.what, h.code);
    else if (!str_is_utf8(c->path))
        risk_add(c, RISK_HIDDEN_TEXT, RISK_LOW, 0, "its name is not UTF-8, so programs show it in different ways");
}

/* Most files have no byte that needs a closer look. */
static bool plain(const struct risk_text *t) {
    for (size_t i = 0; i < t->len; i++) {
        unsigned char c = (unsigned char)t->data[i];

        if ((c < 0x20 && c != '\n' && c != '\t' && !(c == '\r' && t->data[i + 1] == '\n')) || c >= 0x7f)
            return false;
    }
    return true;
}

enum { BEGINNING = 8000 }; /* where git looks for a NUL */

/* What git takes for text; and not the output of a compressor that happens to have no NUL. */
static bool is_text(const struct risk_text *t) {
    size_t n = MIN_OF(t->len, (size_t)BEGINNING), controls = 0, broken = 0;

    if (memchr(t->data, 0, n))
        return false;
    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(t->data + i);

        controls += len == 1 && (unsigned char)t->data[i] < 0x20 && !strchr("\n\r\t\f", t->data[i]);
        broken += len == 0;
        i += MAX_OF(len, (size_t)1);
    }
    return broken * 20 <= n || controls * 20 <= n;
}

/* Text that language models read: what people do not see in it is meant for them. */
static bool is_instructions(const struct risk_path *path) {
    for (const struct risk_rule *r = risk_rules; r->pattern; r++)
        if ((r->class == RISK_INSTRUCTIONS || r->class == RISK_AGENT) && risk_path_match(r->pattern, path))
            return true;
    return false;
}

void risk_judge_text(struct risk_case *c, const struct risk_text *before) {
    CLEANUP(freep) struct text_line *lines = NULL;
    struct risk_path path;
    bool instructions;
    int n;

    risk_path_split(c->path, &path);
    if (!c->new_.there || plain(&c->new_) || risk_path_match(".git/objects/**|.git/modules/**/objects/**|.git/lfs/**", &path))
        return;
    if (!is_text(&c->new_)) {
        if (before->len && is_text(before))
            risk_add(c, RISK_HIDDEN_TEXT, RISK_MEDIUM, 0,
                     "it was text, and diffs show it no more: it has bytes that make it binary");
        return;
    }
    n = risk_new_lines(before, &c->new_, &lines);
    if (n == -E2BIG)
        risk_add(c, RISK_HIDDEN_TEXT, RISK_MEDIUM, 0, "it has too many lines to look for hidden characters");
    else if (n < 0)
        c->failed = true;
    instructions = n > 0 && is_instructions(&path);
    for (int i = 0; i < n; i++) {
        struct hidden h = look(lines[i].s, lines[i].len, lines[i].number == 1);

        if (h.what)
            risk_add(c, RISK_HIDDEN_TEXT, instructions ? RISK_HIGH : h.level, lines[i].number, "line %u contains %s (U+%04X)",
                     lines[i].number, h.what, h.code);
    }
}
