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

static unsigned decode_char(const char *s, size_t n) {
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
        unsigned code = n ? decode_char(s + i, n) : 0;

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
        c->asks_old = true;
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

/* -- modes, interpreters, programs ---------------------------------------------------------------------------------------- */

/* What can be run: modes, interpreters, machine code (ATTACKS 41). */

enum { INTERPRETER_MAX = 128 };

/* The program after "#!", and its argument if that is the program (env). False: no script. */
static bool interpreter(const struct risk_text *t, char out[static INTERPRETER_MAX]) {
    size_t n = t->len >= 2 ? MIN_OF(strcspn(t->data, "\r\n"), (size_t)INTERPRETER_MAX + 1) : 0, start = 2;

    if (n < 3 || t->data[0] != '#' || t->data[1] != '!')
        return false;
    while (start < n && t->data[start] == ' ')
        start++;
    n = MIN_OF(n - start, (size_t)INTERPRETER_MAX - 1);
    memcpy(out, t->data + start, n);
    out[n] = 0;
    return n > 0;
}

static void judge_mode(struct risk_case *c) {
    mode_t was = c->change->old_.mode, is = c->change->new_.mode, gained = is & ~was;
    bool only_mode = c->change->kind == CHANGE_MODIFIED && c->change->what == CHANGE_MODE;

    if (gained & (S_ISUID | S_ISGID))
        risk_add(c, RISK_EXECUTABLE, RISK_HIGH, 0, "it is %s now: every user who runs it has the rights of its %s",
                 gained & S_ISUID ? "setuid" : "setgid", gained & S_ISUID ? "owner" : "group");
    if (S_ISREG(was) && (gained & 0111))
        risk_add(c, RISK_EXECUTABLE, RISK_MEDIUM, 0, "it became executable%s",
                 only_mode ? ", while its content, which a diff shows, is the same" : "");
    else if (S_ISREG(is) && only_mode)
        risk_add(c, RISK_EXECUTABLE, RISK_LOW, 0, "only its mode changed, from %04o to %04o", was & 07777, is & 07777);
    if (S_ISREG(is) && (gained & 0022 & (was ? ~0u : 0002u)))
        risk_add(c, RISK_EXECUTABLE, RISK_LOW, 0, "others than its owner can write it now");
}

static void judge_script(struct risk_case *c) {
    char was[INTERPRETER_MAX], is[INTERPRETER_MAX];
    bool before = interpreter(&c->old_, was), now = interpreter(&c->new_, is);

    if (now && before && !str_eq(was, is))
        risk_add(c, RISK_EXECUTABLE, RISK_MEDIUM, 1, "its interpreter is '%s' now, and was '%s'", is, was);
    else if (now && !before && c->old_.there && c->old_.whole)
        risk_add(c, RISK_EXECUTABLE, RISK_MEDIUM, 1, "it is a script for '%s' now", is);
    else if (now && !before && c->change->new_.mode & 0111)
        risk_add(c, RISK_EXECUTABLE, RISK_LOW, 1, "it is a new executable script for '%s'", is);
    else if (!now && !S_ISREG(c->change->old_.mode) && c->change->new_.mode & 0111)
        risk_add(c, RISK_EXECUTABLE, RISK_LOW, 0, "it is a new executable file");
}

static const struct {
    const char *magic;
    size_t len;
    const char *what;
} magics[] = {
    {"\x7f"
     "ELF",
     4, "an ELF program or library"},
    {"MZ\x90\0", 4, "a Windows program or library"},
    {"\xfe\xed\xfa\xce", 4, "a Mach-O program or library"},
    {"\xfe\xed\xfa\xcf", 4, "a Mach-O program or library"},
    {"\xce\xfa\xed\xfe", 4, "a Mach-O program or library"},
    {"\xcf\xfa\xed\xfe", 4, "a Mach-O program or library"},
    {"\xca\xfe\xba\xbe", 4, "Java bytecode or a Mach-O program"},
    {"\0asm", 4, "WebAssembly"},
    {"dex\n", 4, "Android bytecode"},
    {"!<arch>\n", 8, "a library of object files"},
    {"BC\xc0\xde", 4, "LLVM bitcode"},
    {"\x1bLua", 4, "Lua bytecode"},
};
static const struct {
    const char *pattern, *what;
} extensions[] = {
    {"*.so|*.so.*|*.dylib|*.dll|*.node|*.pyd|*.a|*.o|*.lib|*.ko", "a library or object file"},
    {"*.jar|*.war|*.ear|*.aar|*.class|*.apk|*.dex", "Java or Android bytecode"},
    {"*.pyc|*.pyo|*.elc|*.beam|*.luac|*.hbc", "bytecode"},
    {"*.whl|*.egg|*.gem|*.crate|*.nupkg|*.vsix|*.deb|*.rpm|*.msi|*.dmg|*.pkg|*.appimage|*.snap|*.flatpak",
     "a package of programs"},
    {"*.exe|*.com|*.scr|*.wasm|*.efi", "a program"},
};

static const char *binary_kind(const struct risk_case *c) {
    const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;

    for (size_t i = 0; i < ARRAY_LEN(magics); i++)
        if (c->new_.len >= magics[i].len && memcmp(c->new_.data, magics[i].magic, magics[i].len) == 0)
            return magics[i].what;
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (risk_glob(extensions[i].pattern, name, strlen(name)))
            return extensions[i].what;
    return NULL;
}

static void judge_binary(struct risk_case *c) {
    const char *what = binary_kind(c);
    const struct change *ch = c->change;

    if (!what)
        return;
    if (!S_ISREG(ch->old_.mode) || ch->kind == CHANGE_RENAMED)
        risk_add(c, RISK_BINARY, RISK_MEDIUM, 0, "%s was %s", what, ch->kind == CHANGE_RENAMED ? "moved here" : "added");
    else if (ch->old_.size == ch->new_.size)
        risk_add(c, RISK_BINARY, RISK_MEDIUM, 0, "%s was replaced by another of the same size, %llu %s", what,
                 (unsigned long long)ch->new_.size, str_plural((uint64_t)ch->new_.size, "byte", "bytes"));
    else
        risk_add(c, RISK_BINARY, RISK_MEDIUM, 0, "%s was replaced: %llu %s instead of %llu", what,
                 (unsigned long long)ch->new_.size, str_plural((uint64_t)ch->new_.size, "byte", "bytes"),
                 (unsigned long long)ch->old_.size);
}

void risk_judge_exec(struct risk_case *c) {
    if (c->change->new_.mode == 0 || S_ISLNK(c->change->new_.mode))
        return;
    if (S_ISREG(c->change->new_.mode) || (c->change->new_.mode & ~c->change->old_.mode & S_ISUID))
        judge_mode(c);
    if (!c->new_.there)
        return;
    judge_script(c);
    judge_binary(c);
}
