/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated part is six functions of `case` tables; _bawn itself is the same for every table. It works without the
 * bash-completion package.
 */
#include "base/str.h"
#include "cli/help/completion.h"

static const char helpers[] =
    "# bash completion for bawn; made by 'bawn completion bash'\n"
    "_bawn_profiles() {\n"
    "    bawn profile ls 2>/dev/null | awk '$1 ~ /^[a-z0-9]/ { print $1 }'\n"
    "}\n"
    "_bawn_runs() {\n"
    "    bawn review --list 2>/dev/null | awk '$2 ~ /^(direct|overlay|sync|worktree|ro)$/ { print $1 }'\n"
    "}\n"
    "_bawn_secrets() {\n"
    "    bawn secret ls 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
    "}\n"
    "_bawn_agents() {\n"
    "    bawn agents 2>/dev/null | awk '{ print $1 }'\n"
    "}\n"
    "_bawn_sandboxes() {\n"
    "    ls \"${XDG_STATE_HOME:-$HOME/.local/state}/bawn/sandboxes\" 2>/dev/null\n"
    "}\n"
    "_bawn_words() {\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
    "}\n"
    "_bawn_dirs() {\n"
    "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "    compopt -o filenames 2>/dev/null\n"
    "}\n"
    "_bawn_transfer() {\n"
    "    _bawn_words \"$(_bawn_sandboxes | sed 's/$/:/')\"\n"
    "    [[ ${#COMPREPLY[@]} -gt 0 ]] && compopt -o nospace 2>/dev/null\n"
    "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    compopt -o filenames 2>/dev/null\n"
    "}\n"
    "_bawn_commands() {\n"
    "    [[ $cur != */* ]] && mapfile -t COMPREPLY < <(compgen -c -- \"$cur\" | sort -u)\n"
    "}\n";

/* COMP_WORDS has "--opt=value" as three words, because '=' breaks words for readline: they are joined first. */
static const char driver[] =
    "_bawn() {\n"
    "    local cur verb option='' operand=0 command inside=-1 i=1 n word second also='' words=()\n"
    "    for ((n = 1; n <= COMP_CWORD; n++)); do\n"
    "        word=${COMP_WORDS[n]}\n"
    "        if [[ ${#words[@]} -gt 0 && ( $word == '=' || ${words[-1]} == --*= ) ]]; then\n"
    "            words[-1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    n=$((${#words[@]} - 1))\n"
    "    cur=${words[n]}\n"
    "    COMPREPLY=()\n"
    "    if ((n == 0)); then\n"
    "        _bawn_words \"$(_bawn_group '') --help --version\"\n"
    "        return\n"
    "    fi\n"
    "    verb=${words[0]}\n"
    "    second=$(_bawn_group \"$verb\")\n"
    "    if [[ -n $second && -z $(_bawn_options \"$verb\") ]]; then\n"
    "        if ((n == 1)); then\n"
    "            _bawn_words \"$second\"\n"
    "            return\n"
    "        fi\n"
    "        verb+=\" ${words[1]}\"\n"
    "        i=2\n"
    "    elif ((n == 1)); then # a verb by itself, too\n"
    "        also=$second\n"
    "    elif [[ \" $second\" == *\" ${words[1]} \"* ]]; then\n"
    "        verb+=\" ${words[1]}\"\n"
    "        i=2\n"
    "    fi\n"
    "    command=$(_bawn_command \"$verb\")\n"
    "    for (( ; i < n && inside < 0; i++)); do\n"
    "        case ${words[i]} in\n"
    "        --) inside=$((n - i - 1)) ;;\n"
    "        -*)\n"
    "            if _bawn_takes_value \"$verb\" \"${words[i]}\"; then\n"
    "                ((i + 1 == n)) && option=${words[i]}\n"
    "                ((i++))\n"
    "            fi\n"
    "            ;;\n"
    "        *)\n"
    "            [[ $operand == \"$command\" ]] && inside=$((n - i))\n"
    "            ((++operand))\n"
    "            ;;\n"
    "        esac\n"
    "    done\n"
    "    [[ $inside -lt 0 && $operand == \"$command\" && ( $operand -gt 0 || $cur != -* ) && -z $option ]] && inside=0\n"
    "    if [[ -n $option ]]; then\n"
    "        _bawn_value \"$verb\" \"$option\"\n"
    "    elif ((inside < 0)) && [[ $cur == --*=* ]]; then\n"
    "        option=${cur%%=*} cur=${cur#*=}\n"
    "        _bawn_value \"$verb\" \"$option\"\n"
    "    elif ((inside < 0)) && [[ $cur == -* ]]; then\n"
    "        _bawn_words \"$(_bawn_options \"$verb\")\"\n"
    "    elif ((inside >= 0)) && [[ -n $command ]]; then\n"
    "        ((inside == 0)) && _bawn_commands\n"
    "    else\n"
    "        _bawn_operand \"$verb\"\n"
    "        [[ -n $also ]] && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$also\" -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "complete -o default -F _bawn bawn\n";

static void groups(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_group() {\n    case $1 in\n    '') echo '");
    for (size_t i = 0; i < m->n; i++)
        if (completion_opens_group(m, i))
            buf_addf(b, "%.*s ", (int)completion_first_word(m->verbs[i]), m->verbs[i]->name);
    buf_adds(b, "' ;;\n");
    for (size_t i = 0; i < m->n; i++) {
        size_t len = completion_first_word(m->verbs[i]);

        if (!completion_opens_group(m, i) || !completion_has_second(m, i))
            continue;
        buf_addf(b, "    %.*s) echo '", (int)len, m->verbs[i]->name);
        for (size_t k = i; k < m->n; k++)
            if (completion_is_second(m->verbs[k], m->verbs[i]))
                buf_addf(b, "%s ", m->verbs[k]->name + len + 1);
        buf_adds(b, "' ;;\n");
    }
    buf_adds(b, "    esac\n}\n");
}

static void options(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_options() {\n    case $1 in\n");
    for (size_t i = 0; i < m->n; i++) {
        const struct verb *v = m->verbs[i];

        buf_addf(b, "    '%s') echo '", v->name);
        for (size_t k = 0; k < v->n_opts; k++)
            if (v->opts[k].name && !str_eq(v->opts[k].name, "help"))
                buf_addf(b, "--%s ", v->opts[k].name);
        buf_adds(b, "--help' ;;\n");
    }
    buf_adds(b, "    esac\n}\n");
}

/* The pattern of a case: 'run --dir' | 'run -C' */
static void pattern(const struct verb *v, const struct opt *o, struct buf *b) {
    buf_adds(b, "    ");
    if (o->name)
        buf_addf(b, "'%s --%s'", v->name, o->name);
    if (o->letter)
        buf_addf(b, "%s'%s -%c'", o->name ? " | " : "", v->name, o->letter);
    buf_adds(b, ") ");
}

static void action(const char *values, struct buf *b) {
    const struct completion_hint *hint = completion_hint(values);

    if (hint) {
        buf_adds(b, *hint->bash ? hint->bash : ":");
    } else {
        buf_adds(b, "_bawn_words '");
        completion_words(values, b);
        buf_addc(b, '\'');
    }
    buf_adds(b, " ;;\n");
}

/* Which options take a value, or what to offer for it. */
static void option_cases(const struct manual *m, bool offer, struct buf *b) {
    buf_addf(b, "%s() {\n    case \"$1 $2\" in\n", offer ? "_bawn_value" : "_bawn_takes_value");
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < m->verbs[i]->n_opts; k++) {
            const struct opt *o = &m->verbs[i]->opts[k];

            if (offer ? !o->values : !o->arg || o->arg[0] == '[')
                continue;
            pattern(m->verbs[i], o, b);
            if (offer)
                action(o->values, b);
            else
                buf_adds(b, "return 0 ;;\n");
        }
    buf_adds(b, offer ? "    esac\n}\n" : "    esac\n    return 1\n}\n");
}

/* "exec 1": one operand precedes the command. */
static void commands(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_command() {\n    case $1 in\n");
    for (size_t i = 0; i < m->n; i++) {
        int before = completion_operands(m->verbs[i]).command;

        if (before == COMPLETION_NO_COMMAND)
            continue;
        buf_addf(b, "    '%s') echo ", m->verbs[i]->name);
        if (before == COMPLETION_BEHIND_DASHES)
            buf_adds(b, "-- ;;\n");
        else
            buf_addf(b, "%d ;;\n", before);
    }
    buf_adds(b, "    esac\n}\n");
}

static void operands(const struct manual *m, struct buf *b) {
    buf_adds(b, "_bawn_operand() {\n    case $1 in\n");
    for (size_t i = 0; i < m->n; i++) {
        const struct completion_operands o = completion_operands(m->verbs[i]);

        if (!o.values)
            continue;
        buf_addf(b, "    '%s') %s", m->verbs[i]->name, o.once ? "((operand == 0)) && " : "");
        action(o.values, b);
    }
    buf_adds(b, "    esac\n}\n");
}

void completion_bash(const struct manual *m, struct buf *b) {
    buf_adds(b, helpers);
    groups(m, b);
    options(m, b);
    option_cases(m, false, b);
    option_cases(m, true, b);
    commands(m, b);
    operands(m, b);
    buf_adds(b, driver);
}
