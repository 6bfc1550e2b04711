/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/flow/sniff.h"

static void first_bytes(void **state UNUSED) {
    static const struct {
        const char *bytes;
        size_t len;
        enum sniff want;
    } cases[] = {
        {"", 0, SNIFF_MORE},
        {"G", 1, SNIFF_MORE},
        {"GET ", 4, SNIFF_HTTP},
        {"GET / HTTP/1.1", 14, SNIFF_HTTP},
        {"M-SEARCH *", 10, SNIFF_HTTP},
        {"PRI * HTTP/2.0", 14, SNIFF_HTTP},
        {" GET /", 6, SNIFF_OTHER},
        {"\r", 1, SNIFF_MORE},
        {"\r\n", 2, SNIFF_MORE},
        {"\r\nGET", 5, SNIFF_MORE},
        {"\r\nGET ", 6, SNIFF_HTTP},
        {"\r\n\r\nGET ", 8, SNIFF_OTHER},
        {"\nGET ", 5, SNIFF_OTHER},
        {"-X /", 4, SNIFF_OTHER},
        {"get /", 5, SNIFF_OTHER},
        {"SSH-2.0-x", 9, SNIFF_OTHER},
        {"AAAAAAAAAAAAAAAAAAAAAAAA", 24, SNIFF_OTHER},
        {"AAAAAAAAAAAAAAAAAAA", 19, SNIFF_MORE},
        {"\x16", 1, SNIFF_TLS},
        {"\x16\x03\x01\x02", 4, SNIFF_TLS},
        {"\x16\x02\x01\x02", 4, SNIFF_OTHER},
        {"\0\0\0", 3, SNIFF_OTHER},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(sniff_first((const uint8_t *)cases[i].bytes, cases[i].len), cases[i].want);
}

static bool wants_json(const char *head) {
    return sniff_wants_json((const uint8_t *)head, strlen(head));
}

static void accept_header(void **state UNUSED) {
    assert_true(wants_json("GET / HTTP/1.1\r\nAccept: application/json, text/plain\r\n\r\n"));
    assert_true(wants_json("GET / HTTP/1.1\r\nACCEPT: Application/JSON"));
    assert_false(wants_json("GET / HTTP/1.1\r\nAccept: text/html,application/json\r\n\r\n"));
    assert_false(wants_json("GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"));
    assert_false(wants_json("GET / HTTP/1.1\r\nX-Accept: application/json\r\n\r\n"));
    assert_false(wants_json("GET /?accept:application/json HTTP/1.1\r\n\r\n"));
    assert_false(wants_json(""));
}

static void ports(void **state UNUSED) {
    assert_true(sniff_server_first(22));
    assert_false(sniff_server_first(443));
    assert_false(sniff_server_first(0));
    assert_true(sniff_client_first(443));
    assert_false(sniff_client_first(22));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_bytes), cmocka_unit_test(accept_header), cmocka_unit_test(ports)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
