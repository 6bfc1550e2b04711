/* SPDX-License-Identifier: Apache-2.0 */
/* Forms: whatever is in a token, it stays one parameter. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "vault/http.h"

static void test_encoding(void **state) {
    CLEANUP(secret_done) struct secret form = {0};
    static const char want[] = "a=x%26b%3Dy%20%2B%25%0A%FF&c=-._~Az09";

    (void)state;
    assert_int_equal(secret_alloc(&form, HTTP_FORM_MAX), 0);
    assert_int_equal(http_form_add(&form, "a", "x&b=y +%\n\xff", 10), 0);
    assert_int_equal(http_form_add(&form, "c", "-._~Az09", 8), 0);
    assert_int_equal(form.len, strlen(want));
    assert_memory_equal(form.p, want, form.len);
}

static void test_ceiling(void **state) {
    CLEANUP(secret_done) struct secret form = {0};
    static char much[HTTP_FORM_MAX];

    (void)state;
    memset(much, '&', sizeof much);
    assert_int_equal(secret_alloc(&form, HTTP_FORM_MAX), 0);
    assert_int_equal(http_form_add(&form, "a", much, HTTP_FORM_MAX / 3 + 1), -E2BIG);
    assert_true(form.len <= HTTP_FORM_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_encoding), cmocka_unit_test(test_ceiling)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
