/* SPDX-License-Identifier: Apache-2.0 */
/* The completion script for fish. */
#include "base/str.h"
#include "cli/help/completion.h"

/* fish reads \' and \\ inside single quotes, unlike a POSIX shell. */
static void quoted(const char *s, struct buf *b) {
    buf_addc(b, '\'');
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            buf_addc(b, '\\');
        buf_addc(b, *s);
    }
    buf_addc(b, '\'');
}

static void group_names(const struct manual *m, struct buf *b) {
    for (size_t i = 0; i < m->n; i++) {
        size_t len = completion_first_word(m->verbs[i]);

        if (completion_opens_group(m, i) && m->verbs[i]->name[len])
            buf_addf(b, " %.*s", (int)len, m->verbs[i]->name);
    }
}

/* Is the first word of this verb one by itself, too? */
static bool is_mixed(const struct manual *m, const struct verb *v) {
    for (size_t i = 0; i < m->n; i++)
        if (!m->verbs[i]->name[completion_first_word(m->verbs[i])] && completion_is_second(v, m->verbs[i]))
            return true;
    return false;
}

static void functions(const struct manual *m, struct buf *b) {
    buf_adds(b, "# fish completion for bawn; made by 'bawn completion fish'\n"
                "function __bawn_profiles\n"
                "    bawn profile ls 2>/dev/null | awk '$1 ~ /^[a-z0-9]/ { print $1 }'\n"
                "end\n"
                "function __bawn_runs\n"
                "    bawn review --list 2>/dev/null | awk '$2 ~ /^(direct|overlay|sync|worktree|ro)$/ { print $1 }'\n"
                "end\n"
                "function __bawn_secrets\n"
                "    bawn secret ls 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
                "end\n"
                "function __bawn_agents\n"
                "    bawn agents 2>/dev/null | awk '{ print $1 }'\n"
                "end\n"
                "function __bawn_sandboxes\n"
                "    set -l state $XDG_STATE_HOME\n"
                "    test -n \"$state\"; or set state ~/.local/state\n"
                "    ls $state/bawn/sandboxes 2>/dev/null\n"
                "end\n"
                "function __bawn_named --description 'has a sandbox been named?'\n"
                "    for word in (commandline -opc)[3..-1]\n"
                "        contains -- $word (__bawn_sandboxes); and return\n"
                "    end\n"
                "    return 1\n"
                "end\n"
                "function __bawn_dashes\n"
                "    contains -- -- (commandline -opc)\n"
                "end\n"
                "function __bawn_first_words\n    printf '%s\\n'");
    for (size_t i = 0; i < m->n; i++)
        if (completion_opens_group(m, i))
            buf_addf(b, " %.*s", (int)completion_first_word(m->verbs[i]), m->verbs[i]->name);
    buf_adds(b, "\nend\n"
                "function __bawn_at --description 'is this the command being typed?'\n"
                "    set -l typed (commandline -opc)[2..-1]\n"
                "    set -l verb \"$typed[1]\"\n"
                "    contains -- \"$verb\" ''");
    group_names(m, b);
    buf_adds(b, "; and test -n \"$verb\"; and set verb \"$verb $typed[2]\"\n"
                "    contains -- \"$verb $typed[2]\" ''");
    for (size_t i = 0; i < m->n; i++)
        if (is_mixed(m, m->verbs[i]))
            buf_addf(b, " '%s'", m->verbs[i]->name);
    buf_adds(b, "; and set verb \"$verb $typed[2]\"\n"
                "    test \"$verb\" = \"$argv[1]\"\n"
                "end\n"
                "complete -c bawn -f\n");
}

/* more: behind the name; and: another condition, or "" */
static void condition(const char *verb, size_t len, const char *more, const char *and, struct buf *b) {
    buf_addf(b, "complete -c bawn -n '__bawn_at \"%.*s%s\"%s'", (int)len, verb, more, and);
}

static void words(const struct manual *m, struct buf *b) {
    for (size_t i = 0; i < m->n; i++) {
        const struct verb *v = m->verbs[i];
        size_t len = completion_first_word(v);

        if (completion_opens_group(m, i)) {
            condition("", 0, "", "", b);
            buf_addf(b, " -a %.*s -d ", (int)len, v->name);
            quoted(v->name[len] ? "several commands" : v->summary, b);
            buf_addc(b, '\n');
        }
        if (v->name[len]) {
            condition(v->name, len, is_mixed(m, v) ? "" : " ", "", b);
            buf_addf(b, " -a %s -d ", v->name + len + 1);
            quoted(v->summary, b);
            buf_addc(b, '\n');
        }
    }
}

static void arguments(const char *values, struct buf *b) {
    const struct completion_hint *hint = completion_hint(values);

    if (hint) {
        buf_addf(b, " %s", hint->fish);
    } else {
        buf_adds(b, " -x");
        if (values) {
            buf_adds(b, " -a '");
            completion_words(values, b);
            buf_addc(b, '\'');
        }
    }
}

static void option(const struct verb *v, const struct opt *o, struct buf *b) {
    condition(v->name, strlen(v->name), "", "", b);
    if (o->name)
        buf_addf(b, " -l %s", o->name);
    if (o->letter)
        buf_addf(b, " -s %c", o->letter);
    if (o->arg && o->arg[0] == '[' && o->values && o->values[0] != '@') { /* -a without -r: an optional value */
        buf_adds(b, " -f -a '");
        completion_words(o->values, b);
        buf_addc(b, '\'');
    } else if (o->arg && o->arg[0] != '[') {
        arguments(o->values, b);
    }
    buf_adds(b, " -d ");
    quoted(o->help, b);
    buf_addc(b, '\n');
}

static void operands(const struct verb *v, struct buf *b) {
    const struct completion_operands o = completion_operands(v);
    const char *command = "";

    if (o.values) {
        condition(v->name, strlen(v->name), "", o.once ? "; and not __bawn_named" : "", b);
        if (str_eq(o.values, "@file"))
            buf_adds(b, " -F");
        else
            arguments(o.values, b);
        buf_addc(b, '\n');
    }
    if (o.command == COMPLETION_NO_COMMAND)
        return;
    if (o.command != 0)
        command = o.command == COMPLETION_BEHIND_DASHES ? "; and __bawn_dashes" : "; and __bawn_named";
    condition(v->name, strlen(v->name), "", command, b);
    arguments("@command", b);
    buf_addc(b, '\n');
}

void completion_fish(const struct manual *m, struct buf *b) {
    const struct opt help = {1, 'h', "help", NULL, "show help", NULL};

    functions(m, b);
    words(m, b);
    for (size_t i = 0; i < m->n; i++) {
        const struct verb *v = m->verbs[i];
        bool has_help = false;

        for (size_t k = 0; k < v->n_opts; k++) {
            option(v, &v->opts[k], b);
            has_help |= v->opts[k].name && str_eq(v->opts[k].name, "help");
        }
        if (!has_help)
            option(v, &help, b);
        operands(v, b);
    }
}
