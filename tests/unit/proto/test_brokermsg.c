/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "proto/brokermsg.h"

static void test_parts(void **state) {
    const struct broker_part in[] = {{"Bearer x", 8}, {"", 0}, {"\0\1", 2}};
    struct broker_part out[4];
    uint8_t bytes[64], exact[22];
    long n = broker_parts_write(in, 3, bytes, sizeof bytes);

    assert_int_equal(n, 22);
    assert_int_equal(broker_parts_write(in, 3, exact, sizeof exact), 22);
    assert_int_equal(broker_parts_read(bytes, 22, out, 3), 0);
    assert_int_equal(out[0].len, 8);
    assert_memory_equal(out[0].p, "Bearer x", 8);
    assert_int_equal(out[1].len, 0);
    assert_memory_equal(out[2].p, "\0\1", 2);
    for (size_t len = 0; len < 22; len++) {
        assert_int_equal(broker_parts_write(in, 3, bytes, len), -E2BIG);
        memcpy(exact, bytes, len);
        assert_int_equal(broker_parts_read(exact, len, out, 3), -EBADMSG);
    }
    assert_int_equal(broker_parts_read(bytes, 22, out, 2), -EBADMSG);
    assert_int_equal(broker_parts_read(bytes, 22, out, 4), -EBADMSG);
    assert_int_equal(broker_parts_write(in, BROKER_PARTS_MAX + 1, bytes, sizeof bytes), -E2BIG);
}

static void test_a_length_that_lies(void **state) {
    uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 'a', 'b'};
    struct broker_part out;

    assert_int_equal(broker_parts_read(bytes, sizeof bytes, &out, 1), -EBADMSG);
}

static void test_sane(void **state) {
    struct broker_msg m = {.type = BROKER_MSG_USED, .index = UINT32_MAX, .value = -EACCES, .count = 1, .host = "a\033[2Jb"};

    assert_int_equal(brokermsg_sane(&m), 0);
    assert_string_equal(m.host, "a?[2Jb");
    m.type = BROKER_MSG_WANT_VALUE;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG); /* no such grant */
    m.index = 0;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG); /* neither 0 nor 1 */
    m.value = 1;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG); /* a count of nothing */
    m.count = 0;
    assert_int_equal(brokermsg_sane(&m), 0);
    m.type = BROKER_MSG_CONFIG; /* only to the broker */
    assert_int_equal(brokermsg_sane(&m), -EBADMSG);
    m.type = BROKER_MSG_TYPES;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG);
    m.type = BROKER_MSG_USED;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG); /* used, but not once */
    m.count = 3;
    m.port = 65536;
    assert_int_equal(brokermsg_sane(&m), -EBADMSG);
    m.port = 443;
    memset(m.text, 'a', sizeof m.text);
    assert_int_equal(brokermsg_sane(&m), -EBADMSG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_a_length_that_lies),
        cmocka_unit_test(test_sane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
