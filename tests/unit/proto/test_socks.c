/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "../../fuzz/fuzz_socks.c"
#include "../policy/corpus.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void test_greeting(void **state) {
    struct socks_greeting g;

    assert_int_equal(socks_greeting_parse(BYTES("\5\1\0"), &g), SOCKS_OK);
    assert_int_equal(g.len, 3);
    assert_true(g.no_auth);
    assert_int_equal(socks_greeting_parse(BYTES("\5\2\2\0\5\1"), &g), SOCKS_OK); /* the next message is there already */
    assert_int_equal(g.len, 4);
    assert_true(g.no_auth);
    assert_int_equal(socks_greeting_parse(BYTES("\5\1\2"), &g), SOCKS_OK);
    assert_false(g.no_auth);
    assert_int_equal(socks_greeting_parse(BYTES("\5\2\0"), &g), SOCKS_MORE);
    assert_int_equal(socks_greeting_parse(BYTES(""), &g), SOCKS_MORE);
    assert_int_equal(socks_greeting_parse(BYTES("\5\0"), &g), SOCKS_BAD);
    assert_int_equal(socks_greeting_parse(BYTES("\4"), &g), SOCKS_BAD);
}

static void test_request(void **state) {
    static const struct {
        const uint8_t *bytes;
        size_t len;
        enum socks_reply refuse;
        const char *host;
        size_t host_len;
        uint16_t port;
    } rows[] = {
        {BYTES("\5\1\0\3\013example.com\1\273"), SOCKS_SUCCEEDED, "example.com", 11, 443},
        {BYTES("\5\1\0\1\300\0\2\7\0\120"), SOCKS_SUCCEEDED, "192.0.2.7", 9, 80},
        {BYTES("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\26"), SOCKS_SUCCEEDED, "::1", 3, 22},
        {BYTES("\5\1\0\3\024evil.com\0.google.com\1\273"), SOCKS_SUCCEEDED, "evil.com\0.google.com", 20, 443},
        {BYTES("\5\2\0\1\300\0\2\7\0\120"), SOCKS_BAD_COMMAND, "192.0.2.7", 9, 80},
        {BYTES("\5\3\0\1\0\0\0\0\0\0"), SOCKS_BAD_COMMAND, "0.0.0.0", 7, 0},
        {BYTES("\5\1\0\1\300\0\2\7\0\0"), SOCKS_BAD_ADDRESS, "192.0.2.7", 9, 0},
        {BYTES("\5\1\0\3\0"), SOCKS_BAD_ADDRESS, "", 0, 0},
        {BYTES("\5\1\0\2"), SOCKS_BAD_ADDRESS, "", 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct socks_request q = {0};

        for (size_t len = 0; len < rows[i].len; len++)
            assert_int_equal(socks_request_parse(rows[i].bytes, len, &q), SOCKS_MORE);
        assert_int_equal(socks_request_parse(rows[i].bytes, rows[i].len, &q), SOCKS_OK);
        assert_int_equal(q.len, rows[i].len);
        assert_int_equal(q.refuse, rows[i].refuse);
        assert_int_equal(q.host_len, rows[i].host_len);
        assert_memory_equal(q.host, rows[i].host, rows[i].host_len + 1);
        assert_int_equal(q.port, rows[i].port);
    }
}

static void test_bad_request(void **state) {
    struct socks_request q;

    assert_int_equal(socks_request_parse(BYTES("\4"), &q), SOCKS_BAD);
    assert_int_equal(socks_request_parse(BYTES("\5\1\1"), &q), SOCKS_BAD);
}

static void test_reply(void **state) {
    uint8_t out[SOCKS_REPLY_MAX];

    assert_int_equal(socks_reply_write(SOCKS_NOT_ALLOWED, out), 10);
    assert_memory_equal(out, "\5\2\0\1\0\0\0\0\0\0", 10);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/socks", 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting), cmocka_unit_test(test_request), cmocka_unit_test(test_bad_request),
        cmocka_unit_test(test_reply),    cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
