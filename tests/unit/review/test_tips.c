/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids a file of git's names, and the map that holds them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "review/git/gitnew_priv.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccc"
#define ZERO "0000000000000000000000000000000000000000"

static void kinds(void **state) {
    static const struct {
        const char *name;
        enum tips_kind kind;
    } cases[] = {
        {"HEAD", TIPS_LINES},
        {"refs/heads/a/b", TIPS_LINES},
        {"refs/stash", TIPS_LINES},
        {"packed-refs", TIPS_LINES},
        {"ORIG_HEAD", TIPS_LINES},
        {"FETCH_HEAD", TIPS_LINES},
        {"worktrees/w/HEAD", TIPS_LINES},
        {"worktrees/w/index", TIPS_INDEX},
        {"worktrees/w/logs/HEAD", TIPS_LOG},
        {"logs/refs/stash", TIPS_LOG},
        {"index", TIPS_INDEX},
        {"sharedindex.aa", TIPS_INDEX},
        {"rebase-merge/onto", TIPS_ANY},
        {"MERGE_AUTOSTASH", TIPS_ANY},
        {"anything", TIPS_ANY},
        {"COMMIT_EDITMSG", TIPS_NONE},
        {"config", TIPS_NONE},
        {"objects/ab/cd", TIPS_NONE},
        {"modules/m/HEAD", TIPS_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (tips_kind(cases[i].name) != cases[i].kind)
            fail_msg("'%s' is of kind %d", cases[i].name, (int)tips_kind(cases[i].name));
}

static struct risk_text text(const char *s) {
    return (struct risk_text){.data = (char *)s, .len = strlen(s), .there = true, .whole = true};
}

static void new_ids(void **state) {
    static const struct {
        enum tips_kind kind;
        const char *was, *now, *found; /* found: the first digit of each */
    } cases[] = {
        {TIPS_LINES, "", A "\n", "a"},
        {TIPS_LINES, A "\n", A "\n", ""},
        {TIPS_LINES, A "\n", B, "b"},
        {TIPS_LINES, "", "ref: refs/heads/" A "\n", ""},
        {TIPS_LINES, "", "# pack-refs\n" A " refs/heads/x\n^" B "\n", "ab"},
        {TIPS_LINES, "", A "\t\tbranch '" B "' of x\n", "a"},
        {TIPS_LINES, "", A "a\n", ""}, /* one digit more is another thing */
        {TIPS_LINES, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "a"},
        {TIPS_LOG, "", ZERO " " A " t <t@x> 1 +0000\tcommit: " C "\n", "a"},
        {TIPS_LOG, ZERO " " A " t\n", ZERO " " A " t\n" A " " B " t\n", "b"},
        {TIPS_ANY, "", "pick " A " x\npick " B "\n", "ab"},
        {TIPS_ANY, "", "x" A "," B "!", "ab"},
        {TIPS_ANY, "", ZERO, ""},
        {TIPS_ANY, "", A "\n" A "\n", "a"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct risk_text was = text(cases[i].was), now = text(cases[i].now);
        struct id_list l = {0};

        assert_int_equal(tips_new(cases[i].kind, 20, &was, &now, &l), 0);
        if (l.n != strlen(cases[i].found))
            fail_msg("case %zu has %zu ids", i, l.n);
        for (size_t k = 0; k < l.n; k++) {
            char hex[ID_HEX_SIZE];

            id_write(&l.v[k], 20, hex);
            assert_int_equal(hex[0], cases[i].found[k]);
        }
        free(l.v);
    }
}

static void a_map_of_ids(void **state) {
    struct idmap m = {0};
    unsigned char key[IDMAP_KEY] = {0};

    assert_null(idmap_find(&m, key));
    for (uint32_t i = 0; i < 10000; i++) {
        memcpy(key, &i, sizeof i);
        assert_int_equal(idmap_add(&m, key, i * 3), 1);
        assert_int_equal(idmap_add(&m, key, 7), 0);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        memcpy(key, &i, sizeof i);
        assert_int_equal(*idmap_find(&m, key), i * 3);
    }
    key[IDMAP_KEY - 1] = 1;
    assert_null(idmap_find(&m, key));
    idmap_done(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(new_ids),
        cmocka_unit_test(a_map_of_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
