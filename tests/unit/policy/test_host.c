/* SPDX-License-Identifier: Apache-2.0 */
/* ATTACKS 46, 47: one spelling per host, or a refusal. test_policy_oracle.py asks Python about very many more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/host/host.h"
#include "policy/host/punycode.h"

#define TEN "abcdefghij"
#define SIXTY TEN TEN TEN TEN TEN TEN
#define LABEL63 SIXTY "abc"

struct row {
    const char *bytes;
    size_t len;       /* 0: strlen */
    const char *text; /* NULL: refused, and why says a word of the reason */
    const char *why;
    enum host_kind kind;
};

static void check(const struct row *row) {
    size_t len = row->len ? row->len : strlen(row->bytes);
    CLEANUP(freep) char *exact = malloc(len + 1); /* so that the sanitizer sees every byte too many */
    struct host h = {.len = 12345};
    struct err err = {0};
    int r;

    memcpy(exact, row->bytes, len);
    exact = realloc(exact, len ? len : 1);
    r = host_parse(exact, len, &h, &err);
    if (!row->text) {
        if (r != -EINVAL)
            fail_msg("'%s' was taken for '%s'", row->bytes, h.text);
        assert_int_equal(h.len, 12345);
        if (!strstr(err.msg, row->why))
            fail_msg("'%s': '%s' does not say '%s'", row->bytes, err.msg, row->why);
        return;
    }
    if (r < 0)
        fail_msg("'%s': %s", row->bytes, err.msg);
    assert_string_equal(h.text, row->text);
    assert_int_equal(h.len, strlen(row->text));
    assert_int_equal(h.kind, row->kind);
}

static void test_names(void **state) {
    static const struct row rows[] = {
        {"example.com", 0, "example.com"},
        {"EXAMPLE.Com", 0, "example.com"},
        {"example.com.", 0, "example.com"},
        {"localhost", 0, "localhost"},
        {"a", 0, "a"},
        {"_dmarc.example.com", 0, "_dmarc.example.com"},
        {"my_bucket.s3.amazonaws.com", 0, "my_bucket.s3.amazonaws.com"},
        {"my_db", 0, "my_db"},
        {"r3---sn-4g5e6nl7.googlevideo.com", 0, "r3---sn-4g5e6nl7.googlevideo.com"},
        {"1.example", 0, "1.example"},
        {"127.0.0.1.example", 0, "127.0.0.1.example"},
        {"1e100.net", 0, "1e100.net"},
        {LABEL63 ".com", 0, LABEL63 ".com"},
        {LABEL63 "." LABEL63 "." LABEL63 "." SIXTY "a", 0, LABEL63 "." LABEL63 "." LABEL63 "." SIXTY "a"},
        {LABEL63 "." LABEL63 "." LABEL63 "." SIXTY "a.", 0, LABEL63 "." LABEL63 "." LABEL63 "." SIXTY "a"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

static void test_tricks(void **state) {
    static const struct row rows[] = {
        {"evil.com\0.google.com", 20, NULL, "NUL"},
        {"google.com\0", 11, NULL, "NUL"},
        {"\0google.com", 11, NULL, "NUL"},
        {"", 0, NULL, "empty"},
        {".", 0, NULL, "empty part"},
        {"..", 0, NULL, "empty part"},
        {"example..com", 0, NULL, "empty part"},
        {".example.com", 0, NULL, "empty part"},
        {"example.com..", 0, NULL, "empty part"},
        {"a%2ecom", 0, NULL, "%"},
        {"google.com%00.evil.com", 0, NULL, "%"},
        {"fe80::1%eth0", 0, NULL, "%"},
        {"[fe80::1%25eth0]", 0, NULL, "%"},
        {"user@example.com", 0, NULL, "@"},
        {"google.com@evil.com", 0, NULL, "@"},
        {" example.com", 0, NULL, "white space"},
        {"example.com ", 0, NULL, "white space"},
        {"exam ple.com", 0, NULL, "white space"},
        {"example.com\t", 0, NULL, "white space"},
        {"example.com\r\nHost: evil", 0, NULL, "white space"},
        {"exa\x01mple.com", 0, NULL, "control"},
        {"exa\x7fmple.com", 0, NULL, "control"},
        {"example.com/", 0, NULL, "'/'"},
        {"example.com\\evil", 0, NULL, "'\\'"},
        {"example.com?x", 0, NULL, "'?'"},
        {"example.com#x", 0, NULL, "'#'"},
        {"*.example.com", 0, NULL, "'*'"},
        {"exam,ple.com", 0, NULL, "','"},
        {"a;b.com", 0, NULL, "';'"},
        {"-example.com", 0, NULL, "hyphen"},
        {"example-.com", 0, NULL, "hyphen"},
        {"a.-.b", 0, NULL, "hyphen"},
        {"example.c_m", 0, NULL, "underscore"},
        {LABEL63 "d.com", 0, NULL, "longer"},
        {LABEL63 "." LABEL63 "." LABEL63 "." SIXTY "ab", 0, NULL, "longer"},
        {"example.com:443", 0, NULL, "colons"},
        {"[example.com]", 0, NULL, "brackets"},
        {"[127.0.0.1]", 0, NULL, "brackets"},
        {"[::1", 0, NULL, "colons"},
        {"::1]", 0, NULL, "colons"},
        {"[]", 0, NULL, "brackets"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

static void test_addresses(void **state) {
    static const struct row rows[] = {
        {"127.0.0.1", 0, "127.0.0.1", NULL, HOST_IPV4},
        {"0.0.0.0", 0, "0.0.0.0", NULL, HOST_IPV4},
        {"255.255.255.255", 0, "255.255.255.255", NULL, HOST_IPV4},
        {"::1", 0, "::1", NULL, HOST_IPV6},
        {"[::1]", 0, "::1", NULL, HOST_IPV6},
        {"[2001:DB8:0:0:0:0:0:1]", 0, "2001:db8::1", NULL, HOST_IPV6},
        {"[::ffff:127.0.0.1]", 0, "::ffff:127.0.0.1", NULL, HOST_IPV6},
        {"::ffff:7f00:1", 0, "::ffff:127.0.0.1", NULL, HOST_IPV6},
        {"127.1", 0, NULL, "number"},
        {"127.0.1", 0, NULL, "number"},
        {"2130706433", 0, NULL, "number"},
        {"0", 0, NULL, "number"},
        {"0x7f000001", 0, NULL, "number"},
        {"0X7F000001", 0, NULL, "number"},
        {"0x7f.0.0.1", 0, NULL, "number"},
        {"0x7f.0x0.0x0.0x1", 0, NULL, "number"},
        {"0177.0.0.1", 0, NULL, "number"},
        {"017700000001", 0, NULL, "number"},
        {"127.0.0.01", 0, NULL, "number"},
        {"127.00.0.1", 0, NULL, "number"},
        {"127.0.0.1.", 0, NULL, "number"},
        {"127.1.", 0, NULL, "number"},
        {"127.0.0.0x1", 0, NULL, "number"},
        {"256.0.0.1", 0, NULL, "number"},
        {"1.2.3.4.5", 0, NULL, "number"},
        {"1.2.3.4.", 0, NULL, "number"},
        {"example.1", 0, NULL, "number"},
        {"example.0x", 0, NULL, "number"},
        {"0x", 0, NULL, "number"},
        {"00000000000000000000000000000000000000000000000000000127.0.0.1", 0, NULL, "number"},
        {"[::1.]", 0, NULL, "brackets"},
        {"[::1]:443", 0, NULL, "colons"},
        {"1:2:3:4:5:6:7", 0, NULL, "colons"},
        {"1:2:3:4:5:6:7:8:9", 0, NULL, "colons"},
        {":::", 0, NULL, "colons"},
        {"::12345", 0, NULL, "colons"},
        {"::ffff:127.1", 0, NULL, "colons"},
        {"::ffff:0177.0.0.1", 0, NULL, "colons"},
        {"::ffff:127.0.0.1.", 0, NULL, "colons"},
        {"[[::1]]", 0, NULL, "brackets"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

static void test_other_scripts(void **state) {
    static const struct row rows[] = {
        {"bücher.example", 0, "xn--bcher-kva.example"},
        {"Bücher.example", 0, "xn--bcher-kva.example"},
        {"münchen.de.", 0, "xn--mnchen-3ya.de"},
        {"日本語.jp", 0, "xn--wgv71a119e.jp"},
        {"例え.テスト", 0, "xn--r8jz45g.xn--zckzah"},
        {"пример.испытание", 0, "xn--e1afmkfd.xn--80akhbyknj4f"},
        {"παράδειγμα.gr", 0, "xn--hxajbheg2az3al.gr"},
        {"한국.kr", 0, "xn--3e0b707e.kr"},
        {"xn--bcher-kva.example", 0, "xn--bcher-kva.example"},
        {"XN--BCHER-KVA.example", 0, "xn--bcher-kva.example"},
        {"xn--i-7iq.ws", 0, "xn--i-7iq.ws"},
        {"xn--mgbh0fb.xn--kgbechtv", 0, "xn--mgbh0fb.xn--kgbechtv"},
        {"BÜCHER.example", 0, NULL, "capital"},
        {"straße.de", 0, NULL, "U+00DF"},
        {"google。com", 0, NULL, "U+3002"},
        {"google．com", 0, NULL, "U+FF0E"},
        {"ｇoogle.com", 0, NULL, "U+FF47"},
        {"goo\u200bgle.com", 0, NULL, "U+200B"},
        {"goo\u00adgle.com", 0, NULL, "U+00AD"},
        {"\u202eelgoog.com", 0, NULL, "U+202E"},
        {"gооgle.com", 0, NULL, "several scripts"}, /* two Cyrillic letters */
        {"αpple.com", 0, NULL, "several scripts"},
        {"u\u0308ber.de", 0, NULL, "U+0308"},
        {"１２７.0.0.1", 0, NULL, "U+FF11"},
        {"⑯⑨.254.169.254", 0, NULL, "U+246F"},
        {"ı.com", 0, NULL, "U+0131"},
        {"\xff.com", 0, NULL, "UTF-8"},
        {"b\xc3.com", 0, NULL, "UTF-8"},
        {"\xc0\xae.com", 0, NULL, "UTF-8"},
        {"\xed\xa0\x80.com", 0, NULL, "UTF-8"},
        {"-ü.de", 0, NULL, "hyphen"},
        {"ab--ü.de", 0, NULL, "hyphen"},
        {"xn--.com", 0, NULL, "hyphen"},
        {"xn--a.com", 0, NULL, "xn--"},
        {"xn--example-.com", 0, NULL, "hyphen"},
        {"xn--99999999.com", 0, NULL, "xn--"},
        {"xn--zzzzzzzzzzzzzzzzzzzz.com", 0, NULL, "xn--"},
        {"xn--google-.com", 0, NULL, "hyphen"},
        {"xn--a_b-kva.com", 0, NULL, "xn--"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

/* A label that decodes to a dot, a slash or a capital must not come through: what decodes it would see another name. */
static void test_hidden_in_punycode(void **state) {
    static const uint32_t hidden[] = {0x3002, 0xff0e, 0x2024, 0x2215, 0x200b, 0x202e, 0xad, 0xc4, 0xff47, 0xe0061, 0xd800, 0x80};

    for (size_t i = 0; i < ARRAY_LEN(hidden); i++) {
        uint32_t points[] = {'a', hidden[i], 'b'};
        char name[80] = "xn--";
        struct err err = {0};
        struct host h;
        int n = punycode_encode(points, 3, name + 4, 59);

        assert_true(n > 0);
        if (host_parse(name, (size_t)n + 4, &h, &err) != -EINVAL)
            fail_msg("U+%04X came through", hidden[i]);
    }
}

static void test_punycode(void **state) {
    /* RFC 3492, section 7.1 (A) Arabic, (C) Chinese, (L) 3B and hyphens */
    static const struct {
        const char *ascii;
        uint32_t points[32];
        size_t n;
    } rows[] = {
        {"egbpdaj6bu4bxfgehfvwxn",
         {0x644, 0x64a, 0x647, 0x645, 0x627, 0x628, 0x62a, 0x643, 0x644, 0x645, 0x648, 0x634, 0x639, 0x631, 0x628, 0x64a, 0x61f},
         17},
        {"ihqwcrb4cv8a8dqg056pqjye", {0x4ed6, 0x4eec, 0x4e3a, 0x4ec0, 0x4e48, 0x4e0d, 0x8bf4, 0x4e2d, 0x6587}, 9},
        {"3B-ww4c5e180e575a65lsy2b", {0x33, 0x5e74, 0x42, 0x7d44, 0x91d1, 0x516b, 0x5148, 0x751f}, 8},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t points[PUNYCODE_POINTS_MAX];
        char ascii[64];
        int n = punycode_decode(rows[i].ascii, strlen(rows[i].ascii), points, ARRAY_LEN(points));

        assert_int_equal(n, rows[i].n);
        n = punycode_encode(points, rows[i].n, ascii, sizeof ascii);
        assert_true(n > 0);
        if (i < 2) { /* the third has its letters in another order of case */
            assert_memory_equal(points, rows[i].points, rows[i].n * sizeof *points);
            assert_int_equal(n, strlen(rows[i].ascii));
            assert_memory_equal(ascii, rows[i].ascii, (size_t)n);
        }
        assert_int_equal(punycode_encode(points, rows[i].n, ascii, (size_t)n - 1), -EINVAL);
        assert_int_equal(punycode_decode(rows[i].ascii, strlen(rows[i].ascii), points, rows[i].n - 1), -EINVAL);
    }
}

static void test_with_port(void **state) {
    static const struct {
        const char *bytes, *text;
        int port; /* -1: refused */
    } rows[] = {
        {"example.com", "example.com", 0},
        {"example.com:443", "example.com", 443},
        {"example.com.:443", "example.com", 443},
        {"192.0.2.1:80", "192.0.2.1", 80},
        {"[::1]:80", "::1", 80},
        {"[::1]", "::1", 0},
        {"::1", "::1", 0},
        {"2001:db8::1:443", "2001:db8::1:443", 0},
        {"example.com:", "", -1},
        {"example.com:0", "", -1},
        {"example.com:0443", "", -1},
        {"example.com:65536", "", -1},
        {"example.com:99999999999999999999", "", -1},
        {"example.com:+443", "", -1},
        {"example.com:44 3", "", -1},
        {"example.com:443:443", "", -1},
        {":443", "", -1},
        {"[::1]443", "", -1},
        {"[::1]:", "", -1},
        {"", "", -1},
        {":", "", -1},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct host h;
        uint16_t port = 1;
        int r = host_parse_with_port(rows[i].bytes, strlen(rows[i].bytes), &h, &port, &err);

        if ((r < 0) != (rows[i].port < 0))
            fail_msg("'%s': %d %s", rows[i].bytes, r, err.msg);
        if (r == 0) {
            assert_string_equal(h.text, rows[i].text);
            assert_int_equal(port, rows[i].port);
        } else {
            assert_true(err.msg[0] != 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tricks),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_other_scripts),
        cmocka_unit_test(test_hidden_in_punycode),
        cmocka_unit_test(test_punycode),
        cmocka_unit_test(test_with_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
