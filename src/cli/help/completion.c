/* SPDX-License-Identifier: Apache-2.0 */
/* What the three writers share. */
#include "cli/help/completion.h"

#include "base/str.h"

static const struct completion_hint hints[] = {
    {"@file", "", "_files", "-r -F"},
    {"@dir", "_bawn_dirs", "_directories", "-x -a '(__fish_complete_directories)'"},
    {"@command", "_bawn_commands", "_command_names -e", "-x -a '(__fish_complete_command)'"},
    {"@profile", "_bawn_words \"$(_bawn_profiles)\"", "_bawn_profiles", "-x -a '(__bawn_profiles)'"},
    {"@run", "_bawn_words \"$(_bawn_runs)\"", "_bawn_runs", "-x -a '(__bawn_runs)'"},
    {"@secret", "_bawn_words \"$(_bawn_secrets)\"", "_bawn_secrets", "-x -a '(__bawn_secrets)'"},
    {"@agent", "_bawn_words \"$(_bawn_agents)\"", "_bawn_agents", "-x -a '(__bawn_agents)'"},
    {"@sandbox", "_bawn_words \"$(_bawn_sandboxes)\"", "_bawn_sandboxes", "-x -a '(__bawn_sandboxes)'"},
    {"@transfer", "_bawn_transfer", "_bawn_transfer", "-F -a '(__bawn_sandboxes):'"},
    {"@engine", "_bawn_words 'auto native none'", "(auto native none)", "-x -a 'auto native none'"},
    {"@group", "_bawn_words '@registries @models @git'", "(@registries @models @git)", "-x -a '@registries @models @git'"},
    {"@verb", "_bawn_words \"$(_bawn_group '')\"", "_bawn_first_words", "-x -a '(__bawn_first_words)'"},
};

const struct completion_hint *completion_hint(const char *values) {
    for (size_t i = 0; values && i < ARRAY_LEN(hints); i++)
        if (str_eq(hints[i].name, values))
            return &hints[i];
    return NULL;
}

static const char *operand_values(const struct verb *v) {
    static const struct {
        const char *in_synopsis, *values;
    } operands[] = {
        {"SANDBOX:PATH", "@transfer"},
        {"SANDBOX", "@sandbox"},
        {"PROFILE", "@profile"},
        {"FILE", "@file"},
        {"DIR", "@dir"},
        {"VERB", "@verb"},
        {"RUN", "@run"},
        {"SECRET", "@secret"},
    };
    const char *last = strrchr(v->synopsis, ' ');

    for (size_t i = 0; i < ARRAY_LEN(operands); i++)
        if (strstr(v->synopsis, operands[i].in_synopsis))
            return operands[i].values;
    if (!strchr(v->name, ' ') && (strstr(v->synopsis, "NAME") || strstr(v->synopsis, "OLD ")))
        return "@sandbox"; /* elsewhere a profile or a secret has the name */
    last = last ? last + 1 : v->synopsis;
    return strchr(last, '|') && strspn(last, "abcdefghijklmnopqrstuvwxyz|-") == strlen(last) ? last : NULL;
}

struct completion_operands completion_operands(const struct verb *v) {
    struct completion_operands ret = {.command = COMPLETION_NO_COMMAND};

    if (!v->synopsis)
        return ret;
    ret.values = operand_values(v);
    ret.once =
        ret.values && str_eq(ret.values, "@sandbox") && !strstr(v->synopsis, "SANDBOX...") && !strstr(v->synopsis, "NAME...");
    if (strstr(v->synopsis, "[-- COMMAND"))
        ret.command = COMPLETION_BEHIND_DASHES;
    else if (strstr(v->synopsis, "COMMAND"))
        ret.command = ret.values ? 1 : 0;
    return ret;
}

void completion_words(const char *values, struct buf *b) {
    for (; *values; values++)
        buf_addc(b, (char)(*values == '|' ? ' ' : *values));
}

size_t completion_first_word(const struct verb *v) {
    return strcspn(v->name, " ");
}

static bool same_first_word(const struct verb *a, const struct verb *b) {
    size_t len = completion_first_word(a);

    return len == completion_first_word(b) && strncmp(a->name, b->name, len) == 0;
}

bool completion_opens_group(const struct manual *m, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (same_first_word(m->verbs[k], m->verbs[i]))
            return false;
    return true;
}

bool completion_has_second(const struct manual *m, size_t i) {
    for (size_t k = 0; k < m->n; k++)
        if (completion_is_second(m->verbs[k], m->verbs[i]))
            return true;
    return false;
}

bool completion_is_second(const struct verb *v, const struct verb *first) {
    return v->name[completion_first_word(v)] && same_first_word(v, first);
}

bool completion_script(const struct manual *m, const char *shell, struct buf *b) {
    static const struct {
        const char *shell;
        void (*write)(const struct manual *m, struct buf *b);
    } writers[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

    for (size_t i = 0; i < ARRAY_LEN(writers); i++)
        if (str_eq(writers[i].shell, shell)) {
            writers[i].write(m, b);
            return true;
        }
    return false;
}
