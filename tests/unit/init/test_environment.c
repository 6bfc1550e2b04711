/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "init/environment.c" /* bawn-init's sources are no part of the library */

enum { MANY = 5000 };

static char *base[] = {(char[]){"PATH=/bin"}, (char[]){"HOME=/"}, (char[]){"EMPTY="}, NULL};

static void expect(char **changes, size_t n, const char *const *want) {
    char **got = NULL;
    size_t i = 0;

    assert_int_equal(environment_merge(base, 3, changes, n, &got), 0);
    for (; want[i]; i++)
        assert_string_equal(got[i], want[i]);
    assert_null(got[i]);
    free(got);
}

static void test_merge(void **state) {
    char *none[1] = {NULL},
         *some[] = {(char[]){"HOME"}, (char[]){"NEW=1"}, (char[]){"PATH=/usr"}, (char[]){"NEW=2"}, (char[]){"NOWHERE"}};
    char *prefix[] = {(char[]){"HOM=x"}, (char[]){"EMPT"}, (char[]){"EMPTY"}, (char[]){"EMPTY=again"}};

    expect(none, 0, (const char *[]){"PATH=/bin", "HOME=/", "EMPTY=", NULL});
    expect(some, 5, (const char *[]){"PATH=/usr", "EMPTY=", "NEW=2", NULL});
    expect(prefix, 4, (const char *[]){"PATH=/bin", "HOME=/", "HOM=x", "EMPTY=again", NULL});
}

static void test_everything_goes(void **state) {
    char *all[] = {(char[]){"PATH"}, (char[]){"HOME"}, (char[]){"EMPTY"}, (char[]){"PATH"}};

    expect(all, 4, (const char *[]){NULL});
}

static void test_get(void **state) {
    assert_string_equal(environment_get(base, "PATH"), "/bin");
    assert_string_equal(environment_get(base, "EMPTY"), "");
    assert_string_equal(environment_get(base, "PAT"), "");
    assert_string_equal(environment_get(base + 3, "PATH"), "");
}

/* Each change looks at what is there: past a number of comparisons nobody waits for them. */
static void test_too_many(void **state) {
    char **many = calloc(MANY, sizeof *many), **got = NULL, word[] = "A=b";

    for (size_t i = 0; i < MANY; i++)
        many[i] = word;
    assert_int_equal(environment_merge(base, 3, many, MANY, &got), -E2BIG);
    assert_int_equal(environment_merge(base, 3, many, MANY / 2, &got), 0);
    assert_string_equal(got[3], "A=b");
    assert_null(got[4]);
    free(got);
    free(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_everything_goes),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
