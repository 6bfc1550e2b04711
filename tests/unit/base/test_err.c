/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

static void test_each_returns_its_code(void **state) {
    struct err err = {0};

    assert_int_equal(err_set(&err, -EPERM, "no %s", "way"), -EPERM);
    assert_int_equal(err.code, -EPERM);
    assert_string_equal(err.msg, "no way");
    assert_int_equal(err_sys(&err, -ENOENT, "open '%s'", "/x"), -ENOENT);
    assert_string_equal(err.msg, "open '/x': No such file or directory");
    assert_int_equal(err_usage(&err, "bad"), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_int_equal(err_oom(&err), -ENOMEM);
    assert_string_equal(err.msg, "out of memory");
}

static void test_nobody_wants_the_message(void **state) {
    assert_int_equal(err_set(NULL, -EPERM, "x"), -EPERM);
    assert_int_equal(err_sys(NULL, -EPERM, "x"), -EPERM);
    assert_int_equal(err_usage(NULL, "x"), -EINVAL);
    assert_int_equal(err_oom(NULL), -ENOMEM);
    assert_int_equal(err_ctx(NULL, -EPERM, "x"), -EPERM);
}

static void test_status(void **state) {
    struct err err = {0};

    assert_int_equal(err_exit_status(&err), EXIT_SANDBOX);
    err_usage(&err, "bad");
    assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    err_ctx(&err, -EINVAL, "file");
    assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    err_set(&err, -EPERM, "later, and worse");
    assert_int_equal(err_exit_status(&err), EXIT_SANDBOX);
    err.status = EXIT_NOTFOUND;
    assert_int_equal(err_exit_status(&err), EXIT_NOTFOUND);
}

static void test_context_stands_in_front(void **state) {
    struct err err = {0};

    err_sys(&err, -EACCES, "open");
    assert_int_equal(err_ctx(&err, -EIO, "profile '%s'", "tight"), -EIO);
    assert_string_equal(err.msg, "profile 'tight': open: Permission denied");
    assert_int_equal(err.code, -EACCES); /* of the first failure */
    err_ctx(&err, -EIO, "run");
    assert_string_equal(err.msg, "run: profile 'tight': open: Permission denied");
}

/* The context may quote the message it is put in front of. */
static void test_context_from_the_message_itself(void **state) {
    struct err err = {0};

    err_set(&err, -EIO, "inner");
    err_ctx(&err, -EIO, "%s", err.msg);
    assert_string_equal(err.msg, "inner: inner");
}

static void test_too_long_is_cut(void **state) {
    char big[3000];
    struct err err = {0};

    memset(big, 'm', sizeof big - 1);
    big[sizeof big - 1] = 0;
    err_set(&err, -EIO, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    err_sys(&err, -EIO, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    big[0] = 'c';
    err_ctx(&err, -EIO, "%s", big);
    assert_true(strlen(err.msg) < sizeof err.msg);
    assert_true(str_starts(err.msg, "cmmm"));
    assert_non_null(strstr(err.msg, "m: mmm")); /* something is left of both */
}

/* The bytes of an err cross sockets: a peer that forgot the final NUL must not make us read on. */
static void test_context_on_bytes_without_an_end(void **state) {
    struct err err = {0};

    memset(err.msg, 'x', sizeof err.msg);
    err_ctx(&err, -EIO, "peer");
    assert_true(str_starts(err.msg, "peer: xxx"));
    assert_non_null(memchr(err.msg, 0, sizeof err.msg));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_returns_its_code),
        cmocka_unit_test(test_nobody_wants_the_message),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_context_stands_in_front),
        cmocka_unit_test(test_context_from_the_message_itself),
        cmocka_unit_test(test_too_long_is_cut),
        cmocka_unit_test(test_context_on_bytes_without_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
