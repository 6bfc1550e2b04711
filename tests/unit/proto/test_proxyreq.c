/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "../../fuzz/fuzz_proxyreq.c"
#include "../policy/corpus.h"
#include "base/buf.h"

static enum proxyreq_result parse(const char *text, struct proxyreq *q) {
    return proxyreq_parse((const uint8_t *)text, strlen(text), q);
}

static void test_good(void **state) {
    static const struct {
        const char *line, *authority;
        bool connect;
    } rows[] = {
        {"CONNECT example.com:443 HTTP/1.1", "example.com:443", true},
        {"CONNECT [::1]:22 HTTP/1.0", "[::1]:22", true},
        {"GET http://example.com/ HTTP/1.1", "example.com:80", false},
        {"GET http://example.com HTTP/1.1", "example.com:80", false},
        {"PROPFIND HTTP://Example.com:8080?x=@ HTTP/1.1", "Example.com:8080", false},
        {"GET http://[::1]/a:b HTTP/1.0", "[::1]:80", false},
        {"OPTIONS http://a%2eb HTTP/1.1", "a%2eb:80", false}, /* host_parse() refuses it */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
        struct proxyreq q;
        size_t len;

        buf_addf(&b, "%s\r\nHost: x\r\nX: \xc3\xa4\ty\r\n\r\n", rows[i].line);
        len = b.len;
        buf_adds(&b, "\x16\x03\x01\nmore");
        for (size_t n = 0; n < len; n++)
            assert_int_equal(proxyreq_parse((const uint8_t *)b.data, n, &q), PROXYREQ_MORE);
        assert_int_equal(proxyreq_parse((const uint8_t *)b.data, b.len, &q), PROXYREQ_OK);
        assert_int_equal(q.head_len, len);
        assert_int_equal(q.connect, rows[i].connect);
        assert_string_equal(q.authority, rows[i].authority);
        assert_string_equal(q.why, "");
    }
}

static void test_bad(void **state) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"GET http://a/ HTTP/1.1\n", "without carriage return"},
        {"GET http://a/ HTTP/1.1\rX", "stands alone"},
        {"GET http://a/ HTTP/1.1\r\nX: \x01", "control character"},
        {"GET http://a/ HTTP/1.1\r\nX: y\nZ: 1\r\n", "without carriage return"},
        {"GET\thttp://a/ HTTP/1.1", "does not belong there"},
        {"GET http://\xc3\xa4/ HTTP/1.1", "does not belong there"},
        {"\x16\x03\x01", "control character"},
        {"\r\n", "three parts"},
        {"GET\r\n", "three parts"},
        {"GET http://a/\r\n", "three parts"},
        {"GET  HTTP/1.1\r\n", "one space"},
        {"GET http://a/  HTTP/1.1\r\n", "one space"},
        {" GET http://a/ HTTP/1.1\r\n", "no word"},
        {"G(T http://a/ HTTP/1.1\r\n", "no word"},
        {"GET http://a/ HTTP/2.0\r\n", "version"},
        {"GET http://a/ http/1.1\r\n", "version"},
        {"GET / HTTP/1.1\r\n", "whole URL"},
        {"GET ftp://a/ HTTP/1.1\r\n", "whole URL"},
        {"GET https://a/ HTTP/1.1\r\n", "CONNECT"},
        {"GET http://u@a/ HTTP/1.1\r\n", "user name"},
        {"GET http://u:p@a:80/ HTTP/1.1\r\n", "user name"},
        {"GET http://a/#x HTTP/1.1\r\n", "fragment"},
        {"GET http:/// HTTP/1.1\r\n", "no host"},
        {"GET http://:80/ HTTP/1.1\r\n", "no host"},
        {"GET http://a\\b/ HTTP/1.1\r\n", "host:port"},
        {"GET http://a:/ HTTP/1.1\r\n", "port"},
        {"GET http://a:+80/ HTTP/1.1\r\n", "port"},
        {"GET http://[::1]80/ HTTP/1.1\r\n", "port"},
        {"GET http://::1/ HTTP/1.1\r\n", "no host"},
        {"CONNECT a:0 HTTP/1.1\r\n", "port"},
        {"CONNECT a:65536 HTTP/1.1\r\n", "port"},
        {"CONNECT a:000080 HTTP/1.1\r\n", "port"},
        {"CONNECT a:80:90 HTTP/1.1\r\n", "port"},
        {"CONNECT a HTTP/1.1\r\n", "host:port"},
        {"CONNECT http://a:80/ HTTP/1.1\r\n", "host:port"},
        {"connect a:80 HTTP/1.1\r\n", "whole URL"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct proxyreq q;

        if (parse(rows[i].text, &q) != PROXYREQ_BAD)
            fail_msg("accepted: %s", rows[i].text);
        if (!strstr(q.why, rows[i].why))
            fail_msg("%s: '%s' does not say '%s'", rows[i].text, q.why, rows[i].why);
    }
}

static void test_nul(void **state) {
    static const char text[] = "CONNECT a\0.b:443 HTTP/1.1\r\n\r\n";
    struct proxyreq q;

    assert_int_equal(proxyreq_parse((const uint8_t *)text, sizeof text - 1, &q), PROXYREQ_BAD);
}

static void test_ceilings(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PROXYREQ_HEAD_MAX + 100), name = BUF_INIT(1000);
    struct proxyreq q;

    buf_adds(&b, "GET http://a/ HTTP/1.1\r\nX: ");
    while (b.len < PROXYREQ_HEAD_MAX - 1)
        buf_addc(&b, 'x');
    assert_int_equal(parse(b.data, &q), PROXYREQ_MORE);
    buf_adds(&b, "x\r\n\r\n");
    assert_int_equal(parse(b.data, &q), PROXYREQ_BAD);
    assert_non_null(strstr(q.why, "too long"));

    buf_adds(&name, "CONNECT ");
    for (int i = 0; i < PROXYREQ_HOST_MAX; i++)
        buf_addc(&name, 'a');
    buf_adds(&name, ":1 HTTP/1.1\r\n\r\n");
    assert_int_equal(parse(name.data, &q), PROXYREQ_BAD);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/proxyreq", 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_bad),    cmocka_unit_test(test_nul),
        cmocka_unit_test(test_ceilings), cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
