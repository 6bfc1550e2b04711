/* SPDX-License-Identifier: Apache-2.0 */
/* What the scripts contain; that shells understand them is shown by tests/integration/test_cli_docs.py. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "cli/help/completion.h"

static const struct opt opts[] = {
    {1, 'C', "dir", "DIR", "work [there]: please", "@dir"},
    {2, 0, "sandbox", "[=MODE]", "demand it", "auto|require"},
    {3, 'q', "quiet", NULL, "don't talk", NULL},
};

static const struct verb run_verb = {
    .name = "run", .summary = "run it", .synopsis = "[options] -- COMMAND", .opts = opts, .n_opts = ARRAY_LEN(opts)};
static const struct verb ls_verb = {.name = "profile ls", .summary = "list them", .synopsis = ""};
static const struct verb show_verb = {.name = "profile show", .summary = "show one", .synopsis = "[--json] PROFILE"};
static const struct verb shell_verb = {.name = "completion", .summary = "script", .synopsis = "bash|zsh|fish"};
static const struct verb *const table[] = {&run_verb, &ls_verb, &show_verb, &shell_verb};
static const struct manual all = {table, ARRAY_LEN(table)};

static void expect(const char *shell, const char *const *parts, size_t n) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    assert_true(completion_script(&all, shell, &b));
    assert_true(buf_ok(&b));
    for (size_t i = 0; i < n; i++)
        if (!strstr(buf_str(&b), parts[i]))
            fail_msg("no <%s> in the script for %s:\n%s", parts[i], shell, buf_str(&b));
}

static void bash_script(void **state UNUSED) {
    static const char *const parts[] = {
        "'') echo 'run profile completion ' ;;",
        "profile) echo 'ls show ' ;;",
        "'run') echo '--dir --sandbox --quiet --help' ;;",
        "'run --dir' | 'run -C') return 0 ;;",
        "'run --dir' | 'run -C') _bawn_dirs ;;",
        "'run --sandbox') _bawn_words 'auto require' ;;",
        "'profile show') _bawn_words \"$(_bawn_profiles)\" ;;",
        "'completion') _bawn_words 'bash zsh fish' ;;",
    };
    expect("bash", parts, ARRAY_LEN(parts));
}

static void zsh_script(void **state UNUSED) {
    static const char *const parts[] = {
        "#compdef bawn\n",
        "'*--dir=[work \\[there\\]\\: please]:DIR:_directories'",
        "'*-C+[work",
        "'*--sandbox=-[demand it]::sandbox:(auto require)'",
        "don'\\''t talk",
        "'*:::command:_normal'",
        "'*:operand:(bash zsh fish)'",
    };
    expect("zsh", parts, ARRAY_LEN(parts));
}

static void fish_script(void **state UNUSED) {
    static const char *const parts[] = {
        "complete -c bawn -n '__bawn_at \"\"' -a run -d 'run it'\n",
        "complete -c bawn -n '__bawn_at \"profile \"' -a ls -d 'list them'\n",
        "-l quiet -s q -d 'don\\'t talk'\n",
        "-l sandbox -f -a 'auto require'",
        "-l help -s h",
    };
    expect("fish", parts, ARRAY_LEN(parts));
}

static void other_shells_are_refused(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    assert_false(completion_script(&all, "tcsh", &b));
    assert_int_equal(b.len, 0);
}

static void operands_come_from_the_synopsis(void **state UNUSED) {
    static const struct {
        const char *name, *synopsis, *values;
        bool once;
        int command;
    } cases[] = {
        {"run", "[options] [--] COMMAND [ARG...]", NULL, false, 0},
        {"exec", "[options] SANDBOX [--] COMMAND [ARG...]", "@sandbox", true, 1},
        {"start", "[options] [SANDBOX] [-- COMMAND [ARG...]]", "@sandbox", true, COMPLETION_BEHIND_DASHES},
        {"stop", "[options] [SANDBOX...]", "@sandbox", false, COMPLETION_NO_COMMAND},
        {"rm", "[options] NAME...", "@sandbox", false, COMPLETION_NO_COMMAND},
        {"status", "[options] [NAME]", "@sandbox", true, COMPLETION_NO_COMMAND},
        {"cp", "[options] SANDBOX:PATH HOST | HOST SANDBOX:PATH", "@transfer", false, COMPLETION_NO_COMMAND},
        {"profile new", "NAME [--from BASE]", NULL, false, COMPLETION_NO_COMMAND},
        {"completion", "bash|zsh|fish", "bash|zsh|fish", false, COMPLETION_NO_COMMAND},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct verb v = {.name = cases[i].name, .synopsis = cases[i].synopsis};
        const struct completion_operands o = completion_operands(&v);

        assert_int_equal(!cases[i].values, !o.values);
        if (o.values)
            assert_string_equal(cases[i].values, o.values);
        assert_int_equal(cases[i].once, o.once);
        assert_int_equal(cases[i].command, o.command);
    }
    assert_string_equal(completion_operands(&show_verb).values, "@profile");
    assert_null(completion_operands(&ls_verb).values);
    assert_null(completion_operands(&(struct verb){.name = "bare"}).values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bash_script),
        cmocka_unit_test(zsh_script),
        cmocka_unit_test(fish_script),
        cmocka_unit_test(other_shells_are_refused),
        cmocka_unit_test(operands_come_from_the_synopsis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
