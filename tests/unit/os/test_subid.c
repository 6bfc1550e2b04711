/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/user/subid.c"

static void ranges_are_found(void **state UNUSED) {
    static const struct {
        const char *text;
        uint32_t first, n;
    } rows[] = {
        {"me:100000:65536\n", 100000, SUBID_MOST},
        {"me:100000:65536", 100000, SUBID_MOST},
        {"1001:200000:2000\n", 200000, 2000},
        {"you:1:1\nme:100000:1000\nme:300000:70000\n", 300000, SUBID_MOST},
        {"# a comment\n\nmel:5:x\nm:0:0\nme:4294900000:999\n", 4294900000u, 999},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct id_range r = {0};

        assert_int_equal(subid_find(rows[i].text, "me", 1001, &r), 0);
        assert_int_equal(r.first, rows[i].first);
        assert_int_equal(r.n, rows[i].n);
    }
}

static void strange_ones_are_refused(void **state UNUSED) {
    static const struct {
        const char *text;
        int r;
    } rows[] = {
        {"", -ENOENT},
        {"you:100000:65536\n", -ENOENT},
        {"me:100000:998\n", -ENOENT},
        {"me:100000:0\n", -ENOENT},
        {"me:100000\n", -EINVAL},
        {"me::65536\n", -EINVAL},
        {"me:100000:\n", -EINVAL},
        {"me:100000:65536 \n", -EINVAL},
        {"me: 100000:65536\n", -EINVAL},
        {"me:+100000:65536\n", -EINVAL},
        {"me:-1:65536\n", -EINVAL},
        {"me:0x10000:65536\n", -EINVAL},
        {"me:100000:65536:1\n", -EINVAL},
        {"me:999:65536\n", -EINVAL},       /* the host's services */
        {"me:1000:65536\n", -EINVAL},      /* the user itself is in there */
        {"me:4294967290:1000\n", -EINVAL}, /* past the last id */
        {"me:99999999999:1000\n", -EINVAL},
        {"me:100000:65536\nme:0:5\n", -EINVAL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct id_range r = {7, 7};

        assert_int_equal(subid_find(rows[i].text, "me", 1001, &r), rows[i].r);
        assert_int_equal(r.n, 7);
    }
}

static void no_name_is_known(void **state UNUSED) {
    struct id_range r;

    assert_int_equal(subid_find(":100000:65536\nroot:1:1\n", NULL, 1001, &r), -ENOENT);
    assert_int_equal(subid_read("/nonexistent", NULL, 1001, &r), -ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_found),
        cmocka_unit_test(strange_ones_are_refused),
        cmocka_unit_test(no_name_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
