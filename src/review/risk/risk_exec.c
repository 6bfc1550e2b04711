/* SPDX-License-Identifier: Apache-2.0 */
/* What can be run: modes, interpreters, machine code (ATTACKS 41). */
#include "base/str.h"
#include "review/risk/risk_rule.h"

enum { INTERPRETER_MAX = 128 };

/* The program behind "#!", and its argument if that is the program (env). False: no script. */
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
        risk_add(c, RISK_BINARY, RISK_MEDIUM, 0, "%s was replaced by another of the same size, %llu bytes", what,
                 (unsigned long long)ch->new_.size);
    else
        risk_add(c, RISK_BINARY, RISK_MEDIUM, 0, "%s was replaced: %llu bytes instead of %llu", what,
                 (unsigned long long)ch->new_.size, (unsigned long long)ch->old_.size);
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
