/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/pathtext.h"

static void test_below(void **state) {
    static const char *const good[] = {"a", "a/b", ".a", "...", "a/..b", "-rf", "a b"};
    static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "a/../b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(path_is_below(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(path_is_below(bad[i], strlen(bad[i])));
    assert_false(path_is_below("a\0b", 3));
    assert_true(path_is_below("a/b", 1));
}

static void test_next(void **state) {
    char name[NAME_MAX + 1], text[NAME_MAX + 2];
    const char *rest = "a/bc/.d";

    (void)state;
    assert_int_equal(path_next(&rest, name), 1);
    assert_string_equal(name, "a");
    assert_int_equal(path_next(&rest, name), 1);
    assert_string_equal(name, "bc");
    assert_int_equal(path_next(&rest, name), 0);
    assert_string_equal(name, ".d");
    assert_int_equal(path_next(&rest, name), -ENAMETOOLONG); /* nothing is left */
    rest = "/a";
    assert_int_equal(path_next(&rest, name), -ENAMETOOLONG);
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = 0;
    rest = text;
    assert_int_equal(path_next(&rest, name), -ENAMETOOLONG);
    rest = text + 1;
    assert_int_equal(path_next(&rest, name), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_below), cmocka_unit_test(test_next)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
