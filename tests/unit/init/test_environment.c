/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/utsname.h>

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

/* Not every port is captured: programs are told of the proxy, but for what the user set, in whatever letters. */
static void test_proxy(void **state) {
    char *mine[] = {(char[]){"PATH=/bin"}, (char[]){"Https_Proxy=http://corp:3128"}, NULL};
    struct init_start s = {.envp = mine, .envc = 2};
    struct utsname host;
    char own[400];

    assert_int_equal(environment_add_proxy(&s, "http://127.0.0.1:15001"), 0);
    assert_int_equal(s.envc, 2 + 6);
    assert_null(s.envp[s.envc]);
    assert_string_equal(environment_get(s.envp, "PATH"), "/bin");
    assert_string_equal(environment_get(s.envp, "http_proxy"), "http://127.0.0.1:15001");
    assert_string_equal(environment_get(s.envp, "ALL_PROXY"), "http://127.0.0.1:15001");
    assert_int_equal(uname(&host), 0);
    snprintf(own, sizeof own, "localhost,127.0.0.1,127.0.0.2,127.0.0.0/8,0.0.0.0,::1,[::1],%s", host.nodename);
    assert_string_equal(environment_get(s.envp, "NO_PROXY"), own);
    assert_string_equal(environment_get(s.envp, "no_proxy"), own);
    assert_string_equal(environment_get(s.envp, "HTTPS_PROXY"), "");
    assert_string_equal(environment_get(s.envp, "https_proxy"), "");
    for (size_t i = 2; i < s.envc; i++)
        free(s.envp[i]);
    free(s.envp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),    cmocka_unit_test(test_everything_goes), cmocka_unit_test(test_get),
        cmocka_unit_test(test_too_many), cmocka_unit_test(test_proxy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
