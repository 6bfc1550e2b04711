/* SPDX-License-Identifier: Apache-2.0 */
/* Names and their synthetic addresses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "gateway/net/names.h"

static struct host host(const char *fmt, unsigned i) {
    char text[64];
    struct host h;

    snprintf(text, sizeof text, fmt, i);
    assert_int_equal(host_parse(text, strlen(text), &h, NULL), 0);
    return h;
}

static struct addr addr(const char *text) {
    struct addr a;

    assert_int_equal(addr_parse(text, strlen(text), &a), 0);
    return a;
}

static int setup(void **state) {
    return names_new((struct names **)state);
}

static int teardown(void **state) {
    names_free(*state);
    return 0;
}

static void test_both_addresses(void **state) {
    static const struct {
        uint32_t number;
        const char *ipv4, *ipv6;
    } rows[] = {{1, "198.18.0.1", "fd62:6177:6e00::1"},
                {2, "198.18.0.2", "fd62:6177:6e00::2"},
                {0xffff, "198.18.255.255", "fd62:6177:6e00::ffff"},
                {0x10000, "198.19.0.0", "fd62:6177:6e00::1:0"},
                {0x1fffe, "198.19.255.254", "fd62:6177:6e00::1:fffe"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct addr want4 = addr(rows[i].ipv4), want6 = addr(rows[i].ipv6), a;

        names_address(rows[i].number, 4, &a);
        assert_true(addr_eq(&a, &want4) && names_is_synthetic(&a));
        names_address(rows[i].number, 16, &a);
        assert_true(addr_eq(&a, &want6) && names_is_synthetic(&a));
        assert_int_equal(names_is_gate(&want4), rows[i].number == 1);
        assert_int_equal(names_is_gate(&want6), rows[i].number == 1);
    }
}

static void test_a_name_keeps_its_number(void **state) {
    struct names *n = *state;
    struct host a = host("a.example", 0), b = host("b.example", 0), found;
    struct addr addresses[3];
    uint32_t first, second, again;

    assert_int_equal(names_number(n, &a, 1, &first), 0);
    assert_int_equal(names_number(n, &b, 1, &second), 0);
    assert_int_equal(names_number(n, &a, 5000, &again), 0);
    assert_int_equal(first, again);
    assert_int_not_equal(first, second);
    assert_int_equal(names_len(n), 2);
    names_address(first, 4, &addresses[0]);
    names_address(first, 16, &addresses[1]);
    addresses[2] = addr("::ffff:198.18.0.2");
    for (size_t i = 0; i < 3; i++) {
        assert_true(names_find(n, &addresses[i], 5000, &found));
        assert_true(host_eq(&found, &a));
    }
}

static void test_what_was_not_handed_out(void **state) {
    static const char *const others[] = {"198.18.0.0",
                                         "198.18.0.1",
                                         "198.18.0.3",
                                         "198.19.255.255",
                                         "198.20.0.2",
                                         "198.17.255.2",
                                         "192.0.2.1",
                                         "fd62:6177:6e00::",
                                         "fd62:6177:6e00::3",
                                         "fd62:6177:6e00:0:1::2",
                                         "fd62:6177:6e00:1::2",
                                         "fd62:6177:6e00::2:2",
                                         "fd62:6177:6e00::ffff:ffff",
                                         "::2"};
    struct names *n = *state;
    struct host a = host("a.example", 0), found;
    uint32_t number;

    assert_int_equal(names_number(n, &a, 1, &number), 0);
    assert_int_equal(number, 2);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct addr x = addr(others[i]);

        names_hold(n, &x);
        names_release(n, &x);
        if (names_find(n, &x, 1, &found))
            fail_msg("%s is %s", others[i], found.text);
    }
}

static void test_full_the_oldest_goes(void **state) {
    struct names *n = *state;
    struct host h, found;
    struct addr first, second, third;
    uint32_t number;

    for (unsigned i = 0; i < NAMES_MAX; i++) {
        h = host("n%u.example", i);
        assert_int_equal(names_number(n, &h, i, &number), 0);
    }
    names_address(2, 4, &first);
    names_address(3, 4, &second);
    names_address(4, 4, &third);
    assert_true(names_find(n, &first, 9000, &found)); /* now the newest */
    names_hold(n, &second);
    h = host("one-more.example", 0);
    assert_int_equal(names_number(n, &h, 9000, &number), 0);
    assert_int_equal(names_len(n), NAMES_MAX);
    assert_true(number > NAMES_MAX + 1); /* no number that another name had */
    assert_true(names_find(n, &first, 9000, &found));
    assert_true(names_find(n, &second, 9000, &found));
    assert_string_equal(found.text, "n1.example");
    assert_false(names_find(n, &third, 9000, &found));
}

static void test_all_held(void **state) {
    struct names *n = *state;
    struct host h;
    struct addr a;
    uint32_t number;

    for (unsigned i = 0; i < NAMES_MAX; i++) {
        h = host("n%u.example", i);
        assert_int_equal(names_number(n, &h, 1, &number), 0);
        names_address(number, 4, &a);
        names_hold(n, &a);
        names_hold(n, &a);
        names_release(n, &a);
    }
    h = host("one-more.example", 0);
    number = 77;
    assert_int_equal(names_number(n, &h, 10000, &number), -ENOSPC);
    assert_int_equal(number, 77);
    names_release(n, &a);
    assert_int_equal(names_number(n, &h, 10000, &number), 0);
    h = host("and-more.example", 0);
    assert_int_equal(names_number(n, &h, 10000, &number), 0); /* in place of one-more, which nobody holds */
}

/* All numbers were given once: a number comes back only after its rest. */
static void test_rest(void **state) {
    enum { NUMBERS = NAMES_DENIED - NAMES_FIRST };
    struct names *n = *state;
    struct host h, found;
    struct addr a;
    uint32_t number;

    for (unsigned i = 0; i < NUMBERS; i++) {
        h = host("n%u.example", i);
        assert_int_equal(names_number(n, &h, 100, &number), 0);
        assert_int_equal(number, i + 2);
    }
    h = host("more%u.example", 0);
    assert_int_equal(names_number(n, &h, 100 + NAMES_REST_S - 1, &number), -ENOSPC);
    names_address(NUMBERS + 1, 4, &a);
    assert_true(names_find(n, &a, 100, &found)); /* nothing was lost for the name that found no place */
    assert_int_equal(names_len(n), NAMES_MAX);
    assert_int_equal(names_number(n, &h, 100 + NAMES_REST_S, &number), 0);
    assert_int_equal(number, 2);
    h = host("more%u.example", 1);
    assert_int_equal(names_number(n, &h, 100 + NAMES_REST_S, &number), 0);
    assert_int_equal(number, 3);
}

/* The rest is counted from the end of the last connection, although names_release() is not told the time. */
static void test_rest_after_a_connection(void **state) {
    enum { NUMBERS = NAMES_DENIED - NAMES_FIRST };
    struct names *n = *state;
    struct host h;
    struct addr a;
    uint32_t number;

    h = host("held.example", 0);
    assert_int_equal(names_number(n, &h, 0, &number), 0);
    names_address(number, 4, &a);
    names_hold(n, &a);
    for (unsigned i = 1; i < NUMBERS - NAMES_MAX; i++) {
        h = host("n%u.example", i);
        assert_int_equal(names_number(n, &h, 0, &number), 0);
    }
    names_release(n, &a);
    for (unsigned i = 0; i < NAMES_MAX; i++) { /* the last of the fresh numbers; the one that was held loses its own last */
        h = host("m%u.example", i);
        assert_int_equal(names_number(n, &h, 5000, &number), 0);
    }
    for (unsigned i = 0; i < NUMBERS - NAMES_MAX - 1; i++) {
        h = host("k%u.example", i);
        assert_int_equal(names_number(n, &h, 5001, &number), 0);
        assert_int_not_equal(number, 2);
    }
    h = host("last.example", 0);
    assert_int_equal(names_number(n, &h, 5001, &number), -ENOSPC);
    assert_int_equal(names_number(n, &h, 5000 + NAMES_REST_S, &number), 0);
    assert_int_equal(number, 2);
}

/* Gates that follow one another: what one handed out means nothing to the next ones. */
static void test_gates_in_a_row_share_no_address(void **state) {
    static uint8_t given[0x20000];
    uint32_t number;

    memset(given, 0, sizeof given);
    for (uint32_t gate = 4711; gate < 4711 + NAMES_STARTS; gate++) {
        struct names *n;

        assert_int_equal(names_new(&n), 0);
        names_start(n, gate);
        for (unsigned i = 0; i < NAMES_MAX; i++) {
            struct host h = host("h%u.example", i);

            assert_int_equal(names_number(n, &h, 1, &number), 0);
            assert_int_equal(given[number]++, 0);
        }
        names_free(n);
    }
}

/* From any start, the whole range is used before a number comes again. */
static void test_range_goes_round(void **state) {
    static uint8_t given[0x20000];
    struct names *n = *state;
    uint32_t number;

    memset(given, 0, sizeof given);
    names_start(n, NAMES_STARTS - 1);
    for (unsigned i = 0; i < NAMES_DENIED - NAMES_FIRST; i++) {
        struct host h = host("h%u.example", i);

        assert_int_equal(names_number(n, &h, 1, &number), 0);
        assert_int_equal(given[number]++, 0);
    }
    assert_int_equal(given[0] + given[1], 0);
    for (unsigned i = NAMES_DENIED; i <= 0x1ffff; i++)
        assert_int_equal(given[i], 0);
    assert_int_equal(names_number(n, &(struct host){.kind = HOST_NAME, .text = "late", .len = 4}, 1, &number), -ENOSPC);
}

/* However many denied names there are, no allowed one loses its address or finds none, and they share no number. */
static void test_denied_names_take_nothing(void **state) {
    enum { NUMBERS = NAMES_LAST - NAMES_DENIED + 1 };
    static uint8_t given[0x20000];
    struct names *n = *state;
    struct host h, found, kept = host("kept.example", 0);
    struct addr a;
    uint32_t number, first;

    memset(given, 0, sizeof given);
    names_start(n, 5);
    assert_int_equal(names_number(n, &kept, 1, &first), 0);
    for (unsigned i = 0; i < NUMBERS; i++) {
        h = host("d%u.example", i);
        assert_int_equal(names_number_denied(n, &h, 1, &number), 1);
        assert_true(number >= NAMES_DENIED && number <= NAMES_LAST);
        assert_int_equal(given[number]++, 0);
    }
    h = host("one-more.example", 0);
    assert_int_equal(names_number_denied(n, &h, 1, &number), -ENOSPC);
    assert_int_equal(names_number(n, &h, 1, &number), 0);
    assert_true(number < NAMES_DENIED);
    names_address(first, 4, &a);
    assert_true(names_find(n, &a, 1, &found) && host_eq(&found, &kept));
    assert_int_equal(names_len(n), 2);
    h = host("late.example", 0);
    assert_int_equal(names_number_denied(n, &h, 1 + NAMES_REST_S, &number), 1);
    assert_int_equal(names_number_denied(n, &h, 1 + NAMES_REST_S, &number), 0);
}

/* Allowed and denied in turn: an address that was handed out means this name, whatever the rules say meanwhile. */
static void test_a_name_changes_sides(void **state) {
    struct names *n = *state;
    struct host h = host("a.example", 0), found;
    uint32_t denied, allowed, again;
    struct addr a;

    assert_int_equal(names_number_denied(n, &h, 1, &denied), 1);
    assert_int_equal(names_number(n, &h, 1, &allowed), 0);
    assert_int_equal(names_number_denied(n, &h, 1, &again), 0);
    assert_int_equal(again, allowed);
    for (unsigned i = 0; i < 2; i++) {
        names_address(i ? denied : allowed, i ? 4 : 16, &a);
        names_hold(n, &a);
        assert_true(names_find(n, &a, 1, &found) && host_eq(&found, &h));
        names_release(n, &a);
    }
    a = addr("198.19.255.255"); /* behind the last */
    assert_false(names_find(n, &a, 1, &found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_addresses),
        cmocka_unit_test_setup_teardown(test_a_name_keeps_its_number, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_not_handed_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_the_oldest_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_denied_names_take_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_name_changes_sides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_held, setup, teardown),
        cmocka_unit_test(test_gates_in_a_row_share_no_address),
        cmocka_unit_test_setup_teardown(test_range_goes_round, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_after_a_connection, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
