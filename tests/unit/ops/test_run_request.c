/* SPDX-License-Identifier: Apache-2.0 */
/* A wanted run as words, as the folder of a persistent sandbox stores it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/run/run_request.h"

static void words_and_back(void **state UNUSED) {
    static const char *const words[] = {"--profile=dev",        "--agent=claude", "--memory=1g", "--allow=a.example",
                                        "--allow=b.example:80", "--no-secrets",   "--env=A=b=c", "--mount=/x:/y:rw",
                                        "--sandbox=require",    "--idle=30m"};
    CLEANUP(strv_done) struct strv in = {0}, out = {0};
    CLEANUP(run_request_done) struct run_request q = {0};
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_int_equal(strv_add(&in, words[i]), 0);
    assert_int_equal(run_request_read(&q, &in, &err), 0);
    assert_int_equal(q.flags.allow.len, 2);
    assert_true(q.flags.no_secrets);
    assert_string_equal(q.flags.mode, "require");
    assert_int_equal(run_request_words(&q, &out, &err), 0);
    assert_int_equal(out.len, in.len);
    for (size_t i = 0; i < in.len; i++)
        assert_string_equal(out.v[i], in.v[i]);
}

static void the_folder_is_not_a_word(void **state UNUSED) {
    CLEANUP(strv_done) struct strv out = {0};
    const struct run_request q = {.dir = "/somewhere", .name = "n", .tty = true};
    struct err err = {0};

    assert_int_equal(run_request_words(&q, &out, &err), 0);
    assert_int_equal(out.len, 0);
}

static void words_of_another_version(void **state UNUSED) {
    static const char *const bad[] = {"--unheard-of=1", "word", "--sandbox=maybe"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(strv_done) struct strv in = {0};
        CLEANUP(run_request_done) struct run_request q = {0};
        struct err err = {0};

        assert_int_equal(strv_add(&in, bad[i]), 0);
        assert_int_equal(run_request_read(&q, &in, &err), -EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_back),
        cmocka_unit_test(the_folder_is_not_a_word),
        cmocka_unit_test(words_of_another_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
