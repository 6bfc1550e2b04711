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

/* -- slots -------------------------------------------------------------------------------------------------------------- */

static const char *const ways[] = {"stop", NULL, "skip", "keep-both"};

struct filled {
    struct {
        bool json;
        const char *profile;
    } inner;
    char *copy;
    const char *when;
    enum way { STOP, HIDDEN, SKIP, KEEP_BOTH } way;
    uint64_t number, size, time;
    struct strv only;
    char called[32];
};

static void filled_done(struct filled *f) {
    free(f->copy);
    strv_done(&f->only);
}

static int take_call(const struct opt *o, const char *value, void *to, struct err *err) {
    if (value && str_eq(value, "bad"))
        return err_usage(err, "--%s: bad", o->name);
    snprintf(to, sizeof((struct filled *)0)->called, "%s=%s", o->name, value ? value : "(none)");
    return 0;
}

enum { BY_ID = 77 };

static const struct opt slots[] = {
    {0, 'j', "json", NULL, "", NULL, OPT_TO_FLAG(struct filled, inner.json)},
    {0, 'p', "profile", "NAME", "", NULL, OPT_TO_TEXT(struct filled, inner.profile)},
    {0, 0, "copy", "TEXT", "", NULL, OPT_TO_COPY(struct filled, copy)},
    {0, 0, "when", "WHEN", "", "auto|always|never", OPT_TO_WORD(struct filled, when)},
    {0, 0, "way", "WAY", "", NULL, OPT_TO_ENUM(struct filled, way, ways)},
    {0, 'n', "number", "N", "", NULL, OPT_TO_NUMBER(struct filled, number, 1, 100)},
    {0, 0, "size", "SIZE", "", NULL, OPT_TO_SIZE(struct filled, size)},
    {0, 0, "time", "TIME", "", NULL, OPT_TO_TIME(struct filled, time)},
    {0, 0, "only", "GLOB", "", NULL, OPT_TO_LIST(struct filled, only)},
    {0, 0, "call", "[=X]", "", NULL, OPT_TO_CALL(struct filled, called, take_call)},
    {BY_ID, 0, "by-id", "X", "", NULL},
};
enum { N_SLOTS = ARRAY_LEN(slots), N_FILLED = N_SLOTS - 1 };

static int fill(const char *const *words, char *argv[static WORDS_MAX + 2], struct filled *f, int max, struct err *err) {
    int argc = 1;

    argv[0] = NULL;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return opt_parse(slots, N_FILLED, argc, argv, f, max, err);
}

static void test_values_go_to_their_places(void **state) {
    static const char *const one[] = {"-jp", "tight", "--copy=a", "--copy=b", "--when=never", "--way", "keep-both", "-n7", NULL};
    static const char *const two[] = {"--size", "4k", "--time=2s", "--only=a", "--only", "b", "--call", "--call=x", NULL};
    CLEANUP(filled_done) struct filled f = {0};
    char *argv[WORDS_MAX + 2];
    struct err err = {0};

    assert_int_equal(fill(one, argv, &f, 0, &err), 0);
    assert_true(f.inner.json);
    assert_string_equal(f.inner.profile, "tight");
    assert_string_equal(f.copy, "b");
    assert_string_equal(f.when, "never");
    assert_int_equal(f.way, KEEP_BOTH);
    assert_int_equal(f.number, 7);
    assert_int_equal(fill(two, argv, &f, 0, &err), 0);
    assert_int_equal(f.size, 4096);
    assert_int_equal(f.time, 2000);
    assert_int_equal(f.only.len, 2);
    assert_string_equal(f.only.v[1], "b");
    assert_string_equal(f.called, "call=x");
}

static void test_operands_anywhere(void **state) {
    static const char *const words[] = {"a", "-j", "b", "--", "-n", "--", NULL};
    CLEANUP(filled_done) struct filled f = {0};
    char *argv[WORDS_MAX + 2];
    struct err err = {0};

    assert_int_equal(fill(words, argv, &f, 4, &err), 4);
    assert_true(f.inner.json);
    assert_string_equal(argv[1], "a");
    assert_string_equal(argv[2], "b");
    assert_string_equal(argv[3], "-n");
    assert_string_equal(argv[4], "--");
    assert_int_equal(fill(words, argv, &f, 3, &err), -EINVAL);
    assert_string_equal(err.msg, "unexpected argument '--'");
}

static void test_wrong_values(void **state) {
    static const struct {
        const char *words[3], *message;
    } table[] = {
        {{"--when=x\033[m"}, "--when is auto, always or never, not 'x\\x1b[m'"},
        {{"--when="}, "--when is auto, always or never, not ''"},
        {{"--way=hidden"}, "--way is stop, skip or keep-both, not 'hidden'"},
        {{"--call=bad"}, "--call: bad"},
        {{"word"}, "unexpected argument 'word'"},
        {{"--nonsense"}, "unknown option --nonsense (see --help)"},
    };
    static const char *const numbers[][3] = {{"-n", "0"}, {"--number=101"}, {"--size=x"}, {"--time=x"}};

    for (size_t i = 0; i < ARRAY_LEN(table) + ARRAY_LEN(numbers); i++) {
        CLEANUP(filled_done) struct filled f = {0};
        bool number = i >= ARRAY_LEN(table);
        char *argv[WORDS_MAX + 2];
        struct err err = {0};

        assert_int_equal(fill(number ? numbers[i - ARRAY_LEN(table)] : table[i].words, argv, &f, 0, &err), -EINVAL);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        if (number)
            assert_true(str_starts(err.msg, i < ARRAY_LEN(table) + 2 ? "--number: " : i % 2 ? "--time: " : "--size: "));
        else
            assert_string_equal(err.msg, table[i].message);
    }
}

static void test_rows_by_id_among_slots(void **state) {
    char *argv[] = {NULL, (char[]){"-j"}, (char[]){"--by-id=x"}, (char[]){"-p"}, (char[]){"q"}, (char[]){"--"}, (char[]){"-j"}};
    struct opt_iter it = opt_iter_init(slots, N_SLOTS, ARRAY_LEN(argv), argv);
    struct filled f = {0};
    struct err err = {0};

    assert_int_equal(opt_fill(&it, &f, &err), 1);
    assert_int_equal(it.id, BY_ID);
    assert_string_equal(it.value, "x");
    assert_true(f.inner.json);
    assert_false(it.dashes);
    assert_int_equal(opt_fill(&it, &f, &err), 0);
    assert_string_equal(f.inner.profile, "q");
    assert_true(it.dashes);
    assert_string_equal(argv[it.pos], "-j");
    assert_int_equal(opt_fill(&it, &f, &err), 0);
    assert_string_equal(argv[it.pos], "-j");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_a_very_long_unknown_option),
        cmocka_unit_test(test_no_arguments_at_all),
        cmocka_unit_test(test_values_go_to_their_places),
        cmocka_unit_test(test_operands_anywhere),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_rows_by_id_among_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
