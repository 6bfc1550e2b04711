/* SPDX-License-Identifier: Apache-2.0 */
/* Questions as strict as they have to be, answers to the last byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "proto/dns.h"

#define HEAD(flags, qd, an, ns, ar) "\x12\x34" flags "\0" qd "\0" an "\0" ns "\0" ar
#define PLAIN HEAD("\x01\0", "\1", "\0", "\0", "\0")
#define WITH_OPT HEAD("\x01\0", "\1", "\0", "\0", "\1")
#define EXAMPLE "\7example\3com\0"
#define A_IN "\0\1\0\1"
#define OPT(size, ttl, len) "\0\0\x29" size ttl len
#define OPT_4096 OPT("\x10\0", "\0\0\0\0", "\0\0")

struct row {
    const char *what;
    const char *data;
    size_t len;
    int want;
};
#define ROW(what, bytes, want) \
    { what, bytes, sizeof(bytes) - 1, want }

static const struct row rows[] = {
    ROW("nothing", "", -EBADMSG),
    ROW("half a header", "\x12\x34\1\0\0\1\0\0\0\0\0", -EBADMSG),
    ROW("an answer", HEAD("\x81\0", "\1", "\0", "\0", "\0") EXAMPLE A_IN, -EBADMSG),
    ROW("plain", PLAIN EXAMPLE A_IN, DNS_NOERROR),
    ROW("root", PLAIN "\0" A_IN, DNS_NOERROR),
    ROW("with OPT", WITH_OPT EXAMPLE A_IN OPT_4096, DNS_NOERROR),
    ROW("a cookie",
        WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0\xc") "\0\xa\0\x8"
                                                                 "abcdefgh",
        DNS_NOERROR),
    ROW("two options",
        WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0\xa") "\0\xc\0\2"
                                                                 "ab"
                                                                 "\0\xc\0\0",
        DNS_NOERROR),
    ROW("EDNS 1", WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\1\0\0", "\0\0"), DNS_BADVERS),
    ROW("only a header", PLAIN, DNS_FORMERR),
    ROW("no question", HEAD("\x01\0", "\0", "\0", "\0", "\0"), DNS_FORMERR),
    ROW("two questions", HEAD("\x01\0", "\2", "\0", "\0", "\0") EXAMPLE A_IN EXAMPLE A_IN, DNS_FORMERR),
    ROW("an answer section", HEAD("\x01\0", "\1", "\1", "\0", "\0") EXAMPLE A_IN, DNS_FORMERR),
    ROW("an authority section", HEAD("\x01\0", "\1", "\0", "\1", "\0") EXAMPLE A_IN, DNS_FORMERR),
    ROW("truncated, it says", HEAD("\x03\0", "\1", "\0", "\0", "\0") EXAMPLE A_IN, DNS_FORMERR),
    ROW("bytes behind", PLAIN EXAMPLE A_IN "\0", DNS_FORMERR),
    ROW("bytes behind OPT", WITH_OPT EXAMPLE A_IN OPT_4096 "x", DNS_FORMERR),
    ROW("OPT that is not counted", PLAIN EXAMPLE A_IN OPT_4096, DNS_FORMERR),
    ROW("two OPT", HEAD("\x01\0", "\1", "\0", "\0", "\2") EXAMPLE A_IN OPT_4096 OPT_4096, DNS_FORMERR),
    ROW("OPT of another name", WITH_OPT EXAMPLE A_IN "\1a" OPT_4096, DNS_FORMERR),
    ROW("another record", WITH_OPT EXAMPLE A_IN "\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4", DNS_FORMERR),
    ROW("OPT cut short", WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0"), DNS_FORMERR),
    ROW("OPT shorter than it says", WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0\4"), DNS_FORMERR),
    ROW("option longer than OPT", WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0\4") "\0\xa\0\1", DNS_FORMERR),
    ROW("option cut short", WITH_OPT EXAMPLE A_IN OPT("\x10\0", "\0\0\0\0", "\0\3") "\0\xa\0", DNS_FORMERR),
    ROW("compression", PLAIN "\xc0\x0c" A_IN, DNS_FORMERR),
    ROW("compression behind a label", PLAIN "\1a\xc0\x0c" A_IN, DNS_FORMERR),
    ROW("label of 64",
        PLAIN "\x40"
              "0123456789012345678901234567890123456789012345678901234567890123" A_IN,
        DNS_FORMERR),
    ROW("name without end", PLAIN "\7example\3com", DNS_FORMERR),
    ROW("label without end", PLAIN "\7exam", DNS_FORMERR),
    ROW("no class", PLAIN EXAMPLE "\0\1", DNS_FORMERR),
    ROW("status", HEAD("\x10\0", "\1", "\0", "\0", "\0") EXAMPLE A_IN, DNS_NOTIMP),
    ROW("update, whatever follows", HEAD("\x28\0", "\1", "\1", "\7", "\7") "\xff", DNS_NOTIMP),
};

static void test_strict(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct dns_query q;
        int r = dns_query_parse((const uint8_t *)rows[i].data, rows[i].len, &q);

        if (r != rows[i].want)
            fail_msg("%s: %d, not %d", rows[i].what, r, rows[i].want);
    }
}

/* A name of labels of these lengths in a plain question. */
static int parse_lengths(const uint8_t *lens, size_t n, struct dns_query *ret) {
    uint8_t data[1024];
    size_t at = 12;

    memcpy(data, PLAIN, 12);
    for (size_t i = 0; i < n; i++) {
        data[at++] = lens[i];
        memset(data + at, 'a', lens[i]);
        at += lens[i];
    }
    memcpy(data + at, "\0" A_IN, 5);
    return dns_query_parse(data, at + 5, ret);
}

static void test_length_of_names(void **state) {
    struct dns_query q;

    assert_int_equal(parse_lengths((const uint8_t[]){63, 63, 63, 61}, 4, &q), DNS_NOERROR);
    assert_int_equal(q.name_len, 253);
    assert_int_equal(strlen(q.name), 253);
    assert_int_equal(parse_lengths((const uint8_t[]){63, 63, 63, 62}, 4, &q), DNS_FORMERR);
    assert_int_equal(parse_lengths((const uint8_t[]){63, 63, 63, 59, 1}, 5, &q), DNS_NOERROR);
    assert_int_equal(parse_lengths((const uint8_t[]){63, 63, 63, 60, 1}, 5, &q), DNS_FORMERR);
}

static void test_long_messages(void **state) {
    static uint8_t data[DNS_QUERY_MAX + 1];
    size_t padding = DNS_QUERY_MAX - 12 - 17 - 11;
    struct dns_query q;

    memcpy(data, WITH_OPT EXAMPLE A_IN OPT_4096, 12 + 17 + 11);
    data[38] = (uint8_t)(padding >> 8);
    data[39] = (uint8_t)padding;
    data[41] = 12;
    data[42] = (uint8_t)((padding - 4) >> 8);
    data[43] = (uint8_t)(padding - 4);
    assert_int_equal(dns_query_parse(data, DNS_QUERY_MAX, &q), DNS_NOERROR);
    assert_int_equal(dns_query_parse(data, DNS_QUERY_MAX + 1, &q), DNS_FORMERR);
    assert_null(q.question);
}

static void test_what_is_read(void **state) {
    static const uint8_t data[] =
        HEAD("\x01\x10", "\1", "\0", "\0", "\1") "\7eXaMpLe\3com\0\0\x1c\0\1" OPT("\0\x10", "\0\0\0\0", "\0\0");
    struct dns_query q;

    assert_int_equal(dns_query_parse(data, sizeof data - 1, &q), DNS_NOERROR);
    assert_int_equal(q.id, 0x1234);
    assert_true(q.rd && q.cd && q.edns && !q.odd);
    assert_string_equal(q.name, "eXaMpLe.com");
    assert_int_equal(q.type, DNS_TYPE_AAAA);
    assert_int_equal(q.class, DNS_CLASS_IN);
    assert_int_equal(q.payload, DNS_PLAIN_MAX); /* 16 is not a size that anybody means */
    assert_ptr_equal(q.question, data + 12);
    assert_int_equal(q.question_len, 17);
}

/* "evil.com\0.example.com" as two and as one label, and what else a text would read differently (ATTACKS 46). */
static void test_odd_bytes(void **state) {
    static const struct row names[] = {
        ROW("NUL", "\5evil\0\7example\3com", 0),
        ROW("dot", "\10evil.com\3com", 0),
        ROW("space", "\3a b\3com", 0),
        ROW("newline", "\3a\nb\3com", 0),
        ROW("delete",
            "\3a\x7f"
            "b\3com",
            0),
        ROW("escape", "\4\x1b[2J\3com", 0),
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint8_t data[64];
        struct dns_query q;

        memcpy(data, PLAIN, 12);
        memcpy(data + 12, names[i].data, names[i].len);
        memcpy(data + 12 + names[i].len, "\0" A_IN, 5);
        assert_int_equal(dns_query_parse(data, 12 + names[i].len + 5, &q), DNS_NOERROR);
        if (!q.odd || !strchr(q.name, '?') || strlen(q.name) != q.name_len)
            fail_msg("%s passed", names[i].what);
    }
}

static void test_frames(void **state) {
    assert_int_equal(dns_frame((const uint8_t *)"", 0), 0);
    assert_int_equal(dns_frame((const uint8_t *)"\0", 1), 0);
    assert_int_equal(dns_frame((const uint8_t *)"\0\xb", 2), -EBADMSG);
    assert_int_equal(dns_frame((const uint8_t *)"\0\xc", 2), 0);
    assert_int_equal(dns_frame((const uint8_t *)"\0\xc"
                                                "0123456789a",
                               13),
                     0);
    assert_int_equal(dns_frame((const uint8_t *)"\0\xc"
                                                "0123456789ab",
                               14),
                     12);
    assert_int_equal(dns_frame((const uint8_t *)"\0\xc"
                                                "0123456789abc",
                               15),
                     12);
    assert_int_equal(dns_frame((const uint8_t *)"\4\xd0", 2), 0);
    assert_int_equal(dns_frame((const uint8_t *)"\4\xd1", 2), -EBADMSG);
    assert_int_equal(dns_frame((const uint8_t *)"\xff\xff", 2), -EBADMSG);
}

#define NIBBLES "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.e.6.7.7.1.6.2.6.d.f"

static void test_reverse(void **state) {
    static const uint8_t ipv4[] = {198, 18, 0, 10}, ipv6[16] = {0xfd, 0x62, 0x61, 0x77, 0x6e, [15] = 1};
    static const char *const wrong[] = {"10.0.18.in-addr.arpa",
                                        "10.0.18.198.1.in-addr.arpa",
                                        "010.0.18.198.in-addr.arpa",
                                        "256.0.18.198.in-addr.arpa",
                                        "10.0.18.198.in-addr.arp",
                                        ".in-addr.arpa",
                                        "10..18.198.in-addr.arpa",
                                        "a.0.18.198.in-addr.arpa",
                                        "1.ip6.arpa",
                                        NIBBLES ".in-addr.arpa",
                                        "g" NIBBLES ".ip6.arpa",
                                        "in-addr.arpa",
                                        "1000.18.198.in-addr.arpa",
                                        "198.18.0.10"};
    uint8_t addr[16];

    assert_int_equal(dns_reverse_parse("10.0.18.198.in-addr.arpa", 24, addr), 4);
    assert_memory_equal(addr, ipv4, 4);
    assert_int_equal(dns_reverse_parse(NIBBLES ".ip6.arpa", strlen(NIBBLES ".ip6.arpa"), addr), 16);
    assert_memory_equal(addr, ipv6, 16);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (dns_reverse_parse(wrong[i], strlen(wrong[i]), addr))
            fail_msg("%s passed", wrong[i]);
}

static size_t answer(const char *query, size_t len, enum dns_rcode rcode, const char *text, uint8_t *out, size_t size) {
    struct dns_answer a;
    struct dns_query q;

    assert_true(dns_query_parse((const uint8_t *)query, len, &q) >= 0);
    dns_answer_begin(&a, &q, rcode, out, size);
    if (rcode == DNS_NOERROR)
        dns_answer_address(&a, 60, (const uint8_t[]){198, 18, 0, 2}, 4);
    return dns_answer_end(&a, text ? DNS_EDE_BLOCKED : DNS_EDE_NONE, text);
}

static void test_answers(void **state) {
    static const char plain[] = PLAIN EXAMPLE A_IN, opt[] = WITH_OPT EXAMPLE A_IN OPT_4096;
    static const char address[] =
        HEAD("\x81\x80", "\1", "\1", "\0", "\0") EXAMPLE A_IN "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\2";
    static const char denied[] = HEAD("\x81\x83", "\1", "\0", "\0", "\0") EXAMPLE A_IN;
    static const char extended[] =
        HEAD("\x81\x83", "\1", "\0", "\0", "\1") EXAMPLE A_IN OPT("\4\xd0", "\0\0\0\0", "\0\xa") "\0\xf\0\6\0\xf"
                                                                                                 "DENY";
    static const char bad_version[] = HEAD("\x81\x80", "\1", "\0", "\0", "\1") EXAMPLE A_IN OPT("\4\xd0", "\1\0\0\0", "\0\0");
    uint8_t out[DNS_ANSWER_MAX];

    assert_int_equal(answer(plain, sizeof plain - 1, DNS_NOERROR, NULL, out, sizeof out), sizeof address - 1);
    assert_memory_equal(out, address, sizeof address - 1);
    assert_int_equal(answer(plain, sizeof plain - 1, DNS_NXDOMAIN, "DENY", out, sizeof out), sizeof denied - 1);
    assert_memory_equal(out, denied, sizeof denied - 1);
    assert_int_equal(answer(opt, sizeof opt - 1, DNS_NXDOMAIN, "DENY", out, sizeof out), sizeof extended - 1);
    assert_memory_equal(out, extended, sizeof extended - 1);
    assert_int_equal(answer(opt, sizeof opt - 1, DNS_BADVERS, NULL, out, sizeof out), sizeof bad_version - 1);
    assert_memory_equal(out, bad_version, sizeof bad_version - 1);
}

/* Every size of buffer: never past its end; a record is there whole, or not at all and TC says so. */
static void test_small_buffers(void **state) {
    static const char opt[] = WITH_OPT EXAMPLE A_IN OPT_4096;
    uint8_t out[256];

    for (size_t size = 0; size <= 80; size++) {
        size_t n;

        memset(out, 0xee, sizeof out);
        n = answer(opt, sizeof opt - 1, DNS_NOERROR, "why", out, size);
        assert_true(n <= size);
        for (size_t i = size; i < sizeof out; i++)
            assert_int_equal(out[i], 0xee);
        assert_int_equal(n == 0, size < 12 + 17 + 11);
        if (n) {
            assert_int_equal(out[7], size >= 12 + 17 + 16 + 11);
            assert_int_equal(out[2] & 2, size >= 12 + 17 + 16 + 11 ? 0 : 2);
        }
    }
}

static void test_text_is_cut_between_characters(void **state) {
    static const char opt[] = WITH_OPT EXAMPLE A_IN OPT("\2\0", "\0\0\0\0", "\0\0");
    char text[800];
    uint8_t out[DNS_ANSWER_MAX];
    size_t n;

    text[0] = 'x';
    for (size_t i = 1; i < sizeof text - 1; i += 2)
        memcpy(text + i, "\xc3\xbc", 2);
    text[sizeof text - 1] = 0;
    n = answer(opt, sizeof opt - 1, DNS_NXDOMAIN, text, out, sizeof out);
    assert_true(n <= 512 && n > 12 + 17 + 11 + 6 + DNS_EDE_TEXT_MAX - 3);
    assert_int_equal(out[n - 1], 0xbc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict),        cmocka_unit_test(test_length_of_names),
        cmocka_unit_test(test_long_messages), cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_odd_bytes),     cmocka_unit_test(test_frames),
        cmocka_unit_test(test_reverse),       cmocka_unit_test(test_answers),
        cmocka_unit_test(test_small_buffers), cmocka_unit_test(test_text_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
