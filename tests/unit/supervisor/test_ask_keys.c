/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: only a key that a person presses answers a question; answers of the terminal to queries, the mouse and pastes do not. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "supervisor/terminal/ask_keys.h"

static enum ask_key feed(struct ask_keys *k, const char *s, size_t n) {
    return ask_keys_feed(k, (const uint8_t *)s, n);
}

static void test_keys(void **state) {
    static const struct {
        char c;
        enum ask_key key;
    } table[] = {{'o', ASK_KEY_ONCE}, {'O', ASK_KEY_ONCE}, {'s', ASK_KEY_SESSION}, {'a', ASK_KEY_ALWAYS}, {'A', ASK_KEY_ALWAYS},
                 {'d', ASK_KEY_DENY}, {'n', ASK_KEY_DENY}, {'\r', ASK_KEY_DENY},   {3, ASK_KEY_DENY},     {'y', ASK_KEY_NONE},
                 {' ', ASK_KEY_NONE}, {'1', ASK_KEY_NONE}, {4, ASK_KEY_NONE},      {26, ASK_KEY_NONE}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct ask_keys k = {0};

        assert_int_equal(feed(&k, &table[i].c, 1), table[i].key);
    }
}

/* Whole, and cut into single bytes, as a slow line delivers it: then each byte comes alone. */
static void test_what_is_no_key(void **state) {
    static const char *const table[] = {
        "\033]11;rgb:aaaa/aaaa/dddd\033\\",
        "\033]11;rgb:aaaa/aaaa/dddd\a",
        "\033[?62;4c",
        "\033[24;80R",
        "\033[A",
        "\033OA",
        "\033[<0;97;97M",
        "\033[200~a\033[201~",
        "\033P>|aaa\033\\",
        "\033_a\033\\",
        "\033a",
        "\033[97;5u",
        "\033[Maaa",
        "\033[I",
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct ask_keys whole = {0}, cut = {0};

        assert_int_equal(feed(&whole, table[i], strlen(table[i])), ASK_KEY_NONE);
        for (size_t k = 0; k < strlen(table[i]); k++)
            assert_int_equal(feed(&cut, table[i] + k, 1), ASK_KEY_NONE);
        assert_int_equal(feed(&whole, "o", 1), ASK_KEY_ONCE); /* and the next key counts again */
        assert_int_equal(feed(&cut, "o", 1), ASK_KEY_ONCE);
    }
}

static void test_pasted_or_typed_ahead(void **state) {
    struct ask_keys k = {0};

    assert_int_equal(feed(&k, "aa", 2), ASK_KEY_NONE);
    assert_int_equal(feed(&k, "\033[200~", 6), ASK_KEY_NONE);
    assert_int_equal(feed(&k, "a", 1), ASK_KEY_NONE);
    assert_int_equal(feed(&k, "\033[201~", 6), ASK_KEY_NONE);
    assert_int_equal(feed(&k, "a", 1), ASK_KEY_ALWAYS);
}

static void test_escape(void **state) {
    struct ask_keys k = {0};

    assert_false(ask_keys_in_esc(&k));
    assert_int_equal(feed(&k, "\033", 1), ASK_KEY_NONE);
    assert_true(ask_keys_in_esc(&k));
    assert_int_equal(feed(&k, "[", 1), ASK_KEY_NONE);
    assert_false(ask_keys_in_esc(&k));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_what_is_no_key),
        cmocka_unit_test(test_pasted_or_typed_ahead),
        cmocka_unit_test(test_escape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
