/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "supervisor/keep/keep_ring.h"

/* What came, as "1:text2:text". */
static void note(void *arg, int stream, const char *bytes, size_t len) {
    buf_addf(arg, "%d:", stream);
    buf_add(arg, bytes, len);
}

static void expect(const struct keep_ring *r, size_t most, const char *wanted) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);

    keep_ring_last(r, most, note, &b);
    assert_string_equal(buf_str(&b), wanted);
}

static void test_order_and_streams(void **state UNUSED) {
    CLEANUP(keep_ring_done) struct keep_ring r = {0};

    expect(&r, 100, "");
    keep_ring_add(&r, 1, "one", 3);
    keep_ring_add(&r, 2, "bad", 3);
    keep_ring_add(&r, 1, "", 0);
    keep_ring_add(&r, 1, "two", 3);
    expect(&r, 100, "1:one2:bad1:two");
    expect(&r, 9, "1:one2:bad1:two");
    expect(&r, 5, "2:ad1:two");
    expect(&r, 3, "1:two");
    expect(&r, 0, "");
}

static size_t total;
static char last;

static void count(void *arg UNUSED, int stream UNUSED, const char *bytes, size_t len) {
    total += len;
    last = bytes[len - 1];
}

/* However much comes, the newest is there, in bounds, and nearly as much as there is room for. */
static void test_the_oldest_goes(void **state UNUSED) {
    CLEANUP(keep_ring_done) struct keep_ring r = {0};
    char piece[KEEP_PIECE_MAX];
    size_t sum = 0;

    for (unsigned i = 0; i < 1000; i++) {
        size_t len = 1 + i * 7919 % KEEP_PIECE_MAX;

        memset(piece, 'a' + (int)(i % 26), len);
        keep_ring_add(&r, 1 + (int)(i % 2), piece, len);
        sum += len;
        total = 0;
        keep_ring_last(&r, SIZE_MAX, count, NULL);
        assert_int_equal(last, 'a' + (int)(i % 26));
        assert_in_range(total, len, KEEP_RING_MAX);
        assert_true(r.cap <= KEEP_RING_MAX);
        if (sum >= KEEP_RING_MAX)
            assert_true(total > KEEP_RING_MAX - KEEP_PIECE_MAX - 3 * 1024);
        total = 0;
        keep_ring_last(&r, 10, count, NULL);
        assert_int_equal(total, sum < 10 ? sum : 10);
    }
}

static void test_single_bytes(void **state UNUSED) {
    CLEANUP(keep_ring_done) struct keep_ring r = {0};

    for (unsigned i = 0; i < 100000; i++)
        keep_ring_add(&r, 1, &(char){(char)('0' + i % 10)}, 1);
    total = 0;
    keep_ring_last(&r, SIZE_MAX, count, NULL);
    assert_int_equal(total, KEEP_RING_MAX / 4);
    assert_int_equal(last, '9');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_streams),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_single_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
