/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes of translators from the addresses of ipv4only.arpa (RFC 7050), and what stands behind them (RFC 6052). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "gateway/net/nat64.h"

static struct addr addr(const char *text) {
    struct addr a;

    assert_int_equal(addr_parse(text, strlen(text), &a), 0);
    return a;
}

/* The table of RFC 6052, 2.4, with 192.0.2.33; and the same prefixes in front of 192.0.0.170. */
static void test_all_lengths(void **state) {
    static const struct {
        const char *known, *translated;
    } rows[] = {
        {"2001:db8:c000:aa::", "2001:db8:c000:221::"},
        {"2001:db8:1c0:0:aa::", "2001:db8:1c0:2:21::"},
        {"2001:db8:122:c000:0:aa00::", "2001:db8:122:c000:2:2100::"},
        {"2001:db8:122:3c0:0:aa::", "2001:db8:122:3c0:0:221::"},
        {"2001:db8:122:344:c0:0:aa00:0", "2001:db8:122:344:c0:2:2100:0"},
        {"2001:db8:122:344::192.0.0.171", "2001:db8:122:344::192.0.2.33"},
    };
    struct addr want = addr("192.0.2.33"), other = addr("2a00::1"), inner;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct addr known[] = {addr("192.0.0.170"), addr(rows[i].known)}, translated = addr(rows[i].translated);
        struct nat64 t = {0};

        assert_true(nat64_is_needed(&t, &translated, 1, 5));
        assert_false(nat64_is_needed(&t, known, 1, 5));
        nat64_learn(&t, known, 2, 5);
        assert_false(nat64_is_needed(&t, &translated, 1, 6));
        assert_true(nat64_is_needed(&t, &translated, 1, 5 + (uint64_t)NAT64_S * 1000));
        assert_int_equal(t.n, 1);
        assert_true(nat64_inner(&t, &translated, &inner) && addr_eq(&inner, &want));
        assert_false(nat64_inner(&t, &other, &inner));
        assert_false(nat64_inner(&t, &want, &inner));
    }
}

static void test_no_translator(void **state) {
    struct addr known[] = {addr("192.0.0.170"), addr("192.0.0.171"), addr("2a00::1")}, a = addr("2a00::a00:5"), inner;
    struct nat64 t = {0};

    nat64_learn(&t, known, ARRAY_LEN(known), 5);
    assert_int_equal(t.n, 0);
    assert_false(nat64_inner(&t, &a, &inner));
}

static void test_ceiling(void **state) {
    struct addr known[3 * NAT64_MAX];
    struct nat64 t = {0};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        known[i] = addr("2a00::192.0.0.170");
        known[i].b[5] = (uint8_t)(i / 2);
    }
    nat64_learn(&t, known, ARRAY_LEN(known), 5);
    assert_int_equal(t.n, NAT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_lengths), cmocka_unit_test(test_no_translator),
                                       cmocka_unit_test(test_ceiling)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
