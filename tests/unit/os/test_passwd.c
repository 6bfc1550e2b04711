/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/user/passwd.c"

static void test_all_that_the_library_finds(void **state UNUSED) {
    FILE *f = fopen("/etc/passwd", "re");
    const struct passwd *theirs;
    size_t n = 0;

    assert_non_null(f);
    while ((theirs = fgetpwent(f))) {
        struct passwd_entry e;

        assert_int_equal(passwd_find(theirs->pw_uid, &e), 0);
        if (strcmp(e.name, theirs->pw_name) == 0) /* of several with one number it is the first */
            assert_string_equal(e.home, theirs->pw_dir);
        n += strcmp(e.name, theirs->pw_name) == 0;
        passwd_done(&e);
    }
    fclose(f);
    assert_true(n > 0);
}

static void test_none(void **state UNUSED) {
    struct passwd_entry e;

    assert_int_equal(passwd_find(0x7ffffff1, &e), -ENOENT);
}

static void test_lines(void **state UNUSED) {
    static const struct {
        const char *line;
        bool user; /* of number 7 */
    } table[] = {
        {"a:x:7:8:g:/h:/bin/sh\n", true},
        {"a:x:7:8::/h:", true},
        {"a::7:::/:", true},
        {"a:x:07:8:g:/h:/s", true},
        {"a:x:7:8:g:/h", false},
        {"a:x:7:8:g:/h:/s:more", false},
        {"a:x:-7:8:g:/h:/s", false},
        {"a:x:7a:8:g:/h:/s", false},
        {"a:x::8:g:/h:/s", false},
        {"a:x: 7:8:g:/h:/s", false},
        {"a:x:4294967303:8:g:/h:/s", false},
        {"+::::::", false},
        {"", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char line[64], *fields[FIELDS];

        snprintf(line, sizeof line, "%s", table[i].line);
        if ((split(line, fields) && is_user(fields[FIELD_UID], 7)) != table[i].user)
            fail_msg("row %zu", i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_the_library_finds),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
