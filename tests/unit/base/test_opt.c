/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"

enum { A = 1, B, PROFILE, COLOR, LONG_ONLY, SHORT_ONLY };

static const struct opt opts[] = {
    {A, 'a', "all", NULL, "everything", NULL},
    {B, 'b', "both", NULL, "both", NULL},
    {PROFILE, 'p', "profile", "NAME", "use this profile", "@profile"},
    {COLOR, 'c', "color", "[=WHEN]", "colour", NULL},
    {LONG_ONLY, 0, "long-only", NULL, "no letter", NULL},
    {SHORT_ONLY, 's', NULL, "X", "no name", NULL},
};

enum { WORDS_MAX = 8 };

/* Writes "id" or "id=value" for every option, and the operands after "|"; the error's message if there is one. */
static int digest(const char *const *words, struct buf *out, struct err *err) {
    char *argv[WORDS_MAX + 2] = {(char[]){"bawn"}};
    int argc = 1, r;
    struct opt_iter it;

    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    while ((r = opt_next(&it, err)) > 0)
        buf_addf(out, it.value ? "%d=%s " : "%d ", it.id, it.value);
    buf_addc(out, '|');
    for (int i = it.pos; r == 0 && i < argc; i++)
        buf_addf(out, " %s", argv[i]);
    return r;
}

static void test_good(void **state) {
    static const struct {
        const char *words[WORDS_MAX], *digest;
    } table[] = {
        {{NULL}, "|"},
        {{"-a", "-b"}, "1 2 |"},
        {{"-ab", "x", "-a"}, "1 2 | x -a"},
        {{"--all", "--both", "--", "-a", "--all"}, "1 2 | -a --all"},
        {{"--"}, "|"},
        {{"-", "-a"}, "| - -a"}, /* "-" is an operand: standard input */
        {{"", "-a"}, "|  -a"},
        {{"-p", "tight", "x"}, "3=tight | x"},
        {{"-ptight"}, "3=tight |"},
        {{"-abptight", "x"}, "1 2 3=tight | x"},
        {{"-abp", "tight"}, "1 2 3=tight |"},
        {{"-p", "--"}, "3=-- |"},
        {{"-p", "-a"}, "3=-a |"},
        {{"-p=x"}, "3==x |"},
        {{"--profile", "tight"}, "3=tight |"},
        {{"--profile=tight", "x"}, "3=tight | x"},
        {{"--profile=a=b"}, "3=a=b |"},
        {{"--profile="}, "3= |"},
        {{"--profile", ""}, "3= |"},
        {{"--color", "auto"}, "4 | auto"}, /* an optional argument is never the next word */
        {{"--color=auto"}, "4=auto |"},
        {{"-c", "x"}, "4 | x"},
        {{"-ca", "x"}, "4 1 | x"},
        {{"--long-only"}, "5 |"},
        {{"-sX", "-s", "Y"}, "6=X 6=Y |"},
        {{"x", "--nonsense"}, "| x --nonsense"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
        struct err err = {0};

        assert_int_equal(digest(table[i].words, &b, &err), 0);
        assert_string_equal(buf_str(&b), table[i].digest);
    }
}

static void test_bad(void **state) {
    static const struct {
        const char *words[WORDS_MAX], *message;
    } table[] = {
        {{"--profil", "x"}, "unknown option --profil (did you mean --profile?)"},
        {{"--colour=auto"}, "unknown option --colour (did you mean --color?)"},
        {{"--prof"}, "unknown option --prof (see --help)"}, /* no abbreviations: a new option must not break scripts */
        {{"--nonsense=profile"}, "unknown option --nonsense (see --help)"},
        {{"--=x"}, "unknown option -- (see --help)"},
        {{"---all"}, "unknown option ---all (did you mean --all?)"},
        {{"-z"}, "unknown option -z (see --help)"},
        {{"-az"}, "unknown option -z (see --help)"},
        {{"-a-"}, "unknown option -- (see --help)"},
        {{"-p"}, "option -p needs an argument"},
        {{"-abp"}, "option -p needs an argument"},
        {{"--profile"}, "option --profile needs an argument"},
        {{"--all=yes"}, "option --all takes no argument"},
        {{"--all="}, "option --all takes no argument"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
        struct err err = {0};

        assert_int_equal(digest(table[i].words, &b, &err), -EINVAL);
        assert_string_equal(err.msg, table[i].message);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    }
}

static void test_a_very_long_unknown_option(void **state) {
    char word[5000];
    const char *words[] = {word, NULL};
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    struct err err = {0};

    memset(word, '-', 2);
    memset(word + 2, 'x', sizeof word - 3);
    word[sizeof word - 1] = 0;
    assert_int_equal(digest(words, &b, &err), -EINVAL);
    assert_true(str_starts(err.msg, "unknown option --xxx"));
    assert_true(str_ends(err.msg, "x (see --help)"));
}

/* execve() can start a program without any argument at all. */
static void test_no_arguments_at_all(void **state) {
    char *argv[] = {NULL};
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), 0, argv);
    struct err err = {0};

    assert_int_equal(opt_next(&it, &err), 0);
    assert_int_equal(it.pos, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_a_very_long_unknown_option),
        cmocka_unit_test(test_no_arguments_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
