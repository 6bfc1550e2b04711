/* SPDX-License-Identifier: Apache-2.0 */
/* The completion script for zsh. */
#include "base/str.h"
#include "cli/help/completion.h"

static const char head[] =
    "#compdef bawn\n"
    "# zsh completion for bawn; made by 'bawn completion zsh'\n"
    "_bawn_profiles() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(bawn profile ls 2>/dev/null | awk '$1 ~ /^[a-z0-9]/ { print $1 }')\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_bawn_runs() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(bawn review --list 2>/dev/null | awk '$2 ~ /^(direct|overlay|sync|worktree|ro)$/ { print $1 }')\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_bawn_secrets() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(bawn secret ls 2>/dev/null | awk 'NR > 1 { print $1 }')\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_bawn_sandboxes() {\n"
    "    local -a names\n"
    "    names=(${XDG_STATE_HOME:-$HOME/.local/state}/bawn/sandboxes/*(N/:t))\n"
    "    compadd -a names\n"
    "}\n"
    "_bawn_transfer() {\n"
    "    local -a names\n"
    "    names=(${XDG_STATE_HOME:-$HOME/.local/state}/bawn/sandboxes/*(N/:t))\n"
    "    compadd -S : -a names\n"
    "    _files\n"
    "}\n"
    "_bawn_behind_dashes() {\n"
    "    local at=${words[(i)--]}\n"
    "    (( at < CURRENT )) || return 1\n"
    "    shift $at words\n"
    "    (( CURRENT -= at ))\n"
    "    _normal\n"
    "    return 0\n"
    "}\n"
    "_bawn_agents() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(bawn agents 2>/dev/null | awk '{ print $1 }')\"})\n"
    "    compadd -a names\n"
    "}\n";

static const char tail[] = "if [[ $funcstack[1] == _bawn ]]; then\n"
                           "    _bawn \"$@\"\n"
                           "else\n"
                           "    compdef _bawn bawn\n"
                           "fi\n";

/* Text inside a spec of _arguments or _describe, where brackets and colons mean something. */
static void plain(const char *s, struct buf *b) {
    for (; *s; s++) {
        if (strchr("[]:\\", *s))
            buf_addc(b, '\\');
        buf_addc(b, *s);
    }
}

static void action(const char *values, struct buf *b) {
    const struct completion_hint *hint = completion_hint(values);

    if (hint) {
        buf_adds(b, hint->zsh);
    } else if (values) {
        buf_addc(b, '(');
        completion_words(values, b);
        buf_addc(b, ')');
    }
}

/* One spec such as '*--dir=[use this folder]:DIR:_directories', as a shell word. */
static void spec(const struct opt *o, const char *dashes, const char *name, struct buf *b) {
    CLEANUP(buf_done) struct buf s = BUF_INIT(4096);
    bool optional = o->arg && o->arg[0] == '[';
    bool is_long = dashes[1] == '-';

    buf_addf(&s, "*%s%s", dashes, name);
    if (o->arg)
        buf_adds(&s, optional ? (is_long ? "=-" : "") : (is_long ? "=" : "+"));
    buf_addc(&s, '[');
    plain(o->help, &s);
    buf_addc(&s, ']');
    if (o->arg && (is_long || !optional)) {
        buf_adds(&s, optional ? "::" : ":");
        plain(optional ? o->name : o->arg, &s);
        buf_addc(&s, ':');
        action(o->values, &s);
    }
    buf_adds(b, " \\\n            ");
    buf_add_shell(b, buf_str(&s));
}

static void operands(const struct verb *v, struct buf *b) {
    const struct completion_operands o = completion_operands(v);

    if (o.values) {
        buf_addf(b, " \\\n            '%s:operand:", o.once ? "1" : "*");
        action(o.values, b);
        buf_addc(b, '\'');
    }
    if (o.command >= 0)
        buf_adds(b, " \\\n            '*:::command:_normal'");
}

static void arguments(const struct verb *v, struct buf *b) {
    const struct opt help = {1, 'h', "help", NULL, "show help", NULL};
    int command = completion_operands(v).command;
    bool has_help = false;

    buf_addf(b, "    '%s')\n", v->name);
    if (command == COMPLETION_BEHIND_DASHES)
        buf_adds(b, "        _bawn_behind_dashes && return\n");
    /* -S: no options behind "--". -A: none behind the first operand, if what comes then is a command's. */
    buf_addf(b, "        _arguments -s -S%s", command >= 0 ? " -A '-*'" : "");
    for (size_t i = 0; i <= v->n_opts; i++) {
        const struct opt *o = i < v->n_opts ? &v->opts[i] : &help;
        char letter[2] = {o->letter, 0};

        if (o == &help && has_help)
            break;
        has_help |= o->name && str_eq(o->name, "help");
        if (o->name)
            spec(o, "--", o->name, b);
        if (o->letter)
            spec(o, "-", letter, b);
    }
    operands(v, b);
    buf_adds(b, " ;;\n");
}

static void described(const char *word, size_t len, const char *summary, struct buf *b) {
    CLEANUP(buf_done) struct buf s = BUF_INIT(4096);

    buf_addf(&s, "%.*s:", (int)len, word);
    plain(summary, &s);
    buf_adds(b, "\n        ");
    buf_add_shell(b, buf_str(&s));
}

static void first_words(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_first_words() {\n    local -a list=(");
    for (size_t i = 0; i < m->n; i++) {
        const struct verb *v = m->verbs[i];
        size_t len = completion_first_word(v);

        if (completion_opens_group(m, i))
            described(v->name, len, v->name[len] ? "several commands" : v->summary, b);
    }
    buf_adds(b, "\n    )\n    _describe command list\n}\n");
}

static void second_words(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_second_words() {\n    local -a list\n    case $1 in\n");
    for (size_t i = 0; i < m->n; i++) {
        size_t len = completion_first_word(m->verbs[i]);

        if (!completion_opens_group(m, i) || !completion_has_second(m, i))
            continue;
        buf_addf(b, "    %.*s) list=(", (int)len, m->verbs[i]->name);
        for (size_t k = i; k < m->n; k++) {
            if (!completion_is_second(m->verbs[k], m->verbs[i]))
                continue;
            described(m->verbs[k]->name + len + 1, strlen(m->verbs[k]->name + len + 1), m->verbs[k]->summary, b);
        }
        buf_adds(b, "\n    )\n");
        if (!m->verbs[i]->name[len]) /* a verb by itself, too: its own arguments come beside them */
            buf_adds(b, "    if (( $2 )); then\n        _describe command list\n        return 1\n    fi\n"
                        "    (( ${list[(I)$3:*]} )) || return 1\n");
        buf_adds(b, "    ;;\n");
    }
    buf_adds(b, "    *) return 1 ;;\n    esac\n    (( $2 )) && _describe command list\n    return 0\n}\n");
}

void completion_zsh(const struct manual *m, struct buf *b) {
    buf_adds(b, head);
    first_words(m, b);
    second_words(m, b);
    buf_adds(b, "_bawn() {\n"
                "    local verb\n"
                "    if (( CURRENT == 2 )); then\n"
                "        _bawn_first_words\n"
                "        return\n"
                "    fi\n"
                "    verb=$words[2]\n"
                "    shift words\n"
                "    (( CURRENT-- ))\n"
                "    if _bawn_second_words $verb $(( CURRENT == 2 )) \"$words[2]\"; then\n"
                "        (( CURRENT == 2 )) && return\n"
                "        verb+=\" $words[2]\"\n"
                "        shift words\n"
                "        (( CURRENT-- ))\n"
                "    fi\n"
                "    case $verb in\n");
    for (size_t i = 0; i < m->n; i++)
        arguments(m->verbs[i], b);
    buf_adds(b, "    esac\n}\n");
    buf_adds(b, tail);
}
