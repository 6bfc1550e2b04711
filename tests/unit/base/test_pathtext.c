/* SPDX-License-Identifier: Apache-2.0 */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_below)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
