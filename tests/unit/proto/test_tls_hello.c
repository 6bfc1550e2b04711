/* SPDX-License-Identifier: Apache-2.0 */
/* Which name a ClientHello asks for (ATTACKS 52): real ones of several clients, and ones that have two readings. */
#include <stdarg.h>

#include "../../fuzz/fuzz_tls_hello.c"
#include "../policy/corpus.h"
#include "base/buf.h"

enum { PACKET_MAX = 70000 };

static void load(const char *name, struct buf *b) {
    char data[8192], path[200];
    int fd;
    ssize_t n;

    snprintf(path, sizeof path, "tests/fuzz/corpus/tls_hello/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, data, sizeof data);
    assert_true(n > 0);
    close(fd);
    buf_add(b, data, (size_t)n);
}

static enum tls_hello_result parse(const struct buf *b, struct tls_hello *h) {
    return tls_hello_parse((const uint8_t *)buf_str(b), b->len, h);
}

static void test_real_clients(void **state) {
    static const struct {
        const char *file, *sni, *alpn; /* alpn: the first one */
    } rows[] = {
        {"openssl", "example.com", "h2"},           {"openssl-no-sni", NULL, NULL},
        {"openssl-tls12", "old.example.com", NULL}, {"curl", "curl.example.net", "h2"},
        {"python", "python.example.org", "h2"},     {"fragmented-1", "example.com", "h2"},
        {"fragmented-100", "example.com", "h2"},    {"no-extensions", NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
        struct tls_hello h;

        load(rows[i].file, &b);
        assert_int_equal(parse(&b, &h), TLS_HELLO_OK);
        assert_int_equal(h.len, b.len);
        assert_int_equal(h.has_sni, rows[i].sni != NULL);
        assert_string_equal(h.sni, rows[i].sni ? rows[i].sni : "");
        assert_int_equal(h.has_alpn, rows[i].alpn != NULL);
        if (rows[i].alpn)
            assert_string_equal(h.alpn[0], rows[i].alpn);
        assert_false(h.has_ech);
    }
}

static void test_grease(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
    struct tls_hello h;

    load("grease-ech", &b);
    assert_int_equal(parse(&b, &h), TLS_HELLO_OK);
    assert_string_equal(h.sni, "grease.example.com");
    assert_true(h.has_ech);
    assert_int_equal(h.n_alpn, 3);
    assert_string_equal(h.alpn[2], "http/1.1");
}

static void test_every_beginning_wants_more(void **state) {
    static const char *const files[] = {"openssl", "curl", "fragmented-1", "fragmented-100", "grease-ech"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
        struct tls_hello h;

        load(files[i], &b);
        for (size_t len = 0; len < b.len; len++) {
            assert_int_equal(tls_hello_parse((const uint8_t *)b.data, len, &h), TLS_HELLO_MORE);
            assert_true(tls_hello_could_be((const uint8_t *)b.data, len));
        }
        buf_adds(&b, "early data");
        assert_int_equal(parse(&b, &h), TLS_HELLO_OK);
        assert_int_equal(h.len, b.len - strlen("early data"));
    }
}

static void test_not_tls(void **state) {
    static const char *const files[] = {"nul-in-name", "two-names", "sslv2", "http"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
        struct tls_hello h = {.len = 5};

        load(files[i], &b);
        assert_int_equal(parse(&b, &h), TLS_HELLO_NOT_TLS);
        assert_int_equal(h.len, 5);
    }
    assert_false(tls_hello_could_be((const uint8_t *)"SSH-2.0", 1));
    assert_true(tls_hello_could_be((const uint8_t *)"\x16", 1));
}

/* A hello made here: record, message, fixed part, then these extensions. */
static void make(struct buf *b, const void *extensions, size_t len) {
    size_t body = 2 + 32 + 1 + 4 + 2 + 2 + len, message = 4 + body;

    buf_addf(b, "%c%c%c%c%c", 0x16, 3, 1, (int)(message >> 8 & 255), (int)(message & 255));
    buf_addf(b, "%c%c%c%c%c%c", 1, 0, (int)(body >> 8 & 255), (int)(body & 255), 3, 3);
    for (int i = 0; i < 32 + 1; i++)
        buf_addc(b, 0);
    buf_add(b, "\0\2\x13\1\1\0", 6);
    buf_addf(b, "%c%c", (int)(len >> 8 & 255), (int)(len & 255));
    buf_add(b, extensions, len);
}
#define BYTES(s) (s), sizeof(s) - 1

static void test_lengths_must_add_up(void **state) {
    static const struct {
        const char *what, *bytes;
        size_t len;
        enum tls_hello_result result;
    } rows[] = {
        {"as it should be", BYTES("\0\0\0\6\0\4\0\0\1a"), TLS_HELLO_OK},
        {"an unknown extension", BYTES("\x12\x34\0\1x"), TLS_HELLO_OK},
        {"list shorter than the extension", BYTES("\0\0\0\7\0\4\0\0\1ab"), TLS_HELLO_NOT_TLS},
        {"list longer than the extension", BYTES("\0\0\0\6\0\5\0\0\1a"), TLS_HELLO_NOT_TLS},
        {"two names in the list", BYTES("\0\0\0\012\0\010\0\0\1a\0\0\1b"), TLS_HELLO_NOT_TLS},
        {"a name of another type", BYTES("\0\0\0\6\0\4\1\0\1a"), TLS_HELLO_NOT_TLS},
        {"an empty name", BYTES("\0\0\0\5\0\3\0\0\0"), TLS_HELLO_NOT_TLS},
        {"an empty extension", BYTES("\0\0\0\0"), TLS_HELLO_NOT_TLS},
        {"an extension past the end", BYTES("\x12\x34\0\2x"), TLS_HELLO_NOT_TLS},
        {"half an extension", BYTES("\x12\x34\0"), TLS_HELLO_NOT_TLS},
        {"an empty protocol", BYTES("\0\x10\0\3\0\1\0"), TLS_HELLO_NOT_TLS},
        {"two lists of protocols", BYTES("\0\x10\0\4\0\2\1a\0\x10\0\4\0\2\1b"), TLS_HELLO_NOT_TLS},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
        struct tls_hello h;

        make(&b, rows[i].bytes, rows[i].len);
        if (parse(&b, &h) != rows[i].result)
            fail_msg("%s", rows[i].what);
    }
}

/* Another message in the hello's own record would be read by a server in a way that we do not see. */
static void test_message_behind_it(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PACKET_MAX);
    struct tls_hello h;

    make(&b, BYTES("\0\0\0\6\0\4\0\0\1a"));
    b.data[4]++;
    buf_addc(&b, 1);
    assert_int_equal(parse(&b, &h), TLS_HELLO_NOT_TLS);
}

static void test_ceilings(void **state) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(1000), b = BUF_INIT(PACKET_MAX), longest = BUF_INIT(PACKET_MAX);
    struct tls_hello h;

    buf_add(&name, "\0\0\1\3\1\1\0\0\376", 9);
    for (int i = 0; i < 254; i++)
        buf_addc(&name, 'a');
    make(&b, name.data, name.len);
    assert_int_equal(parse(&b, &h), TLS_HELLO_NOT_TLS);

    buf_add(&longest, "\x16\3\1\x40\0\1\0\x7f\xfd", 9); /* says that it is one byte longer than may be */
    assert_int_equal(parse(&longest, &h), TLS_HELLO_NOT_TLS);
    longest.data[8]--;
    assert_int_equal(parse(&longest, &h), TLS_HELLO_MORE);
    while (longest.len < TLS_HELLO_MAX)
        buf_adds(&longest, "\x16\3\1");
    assert_int_equal(parse(&longest, &h), TLS_HELLO_NOT_TLS);
}

static void test_alert(void **state) {
    uint8_t out[TLS_ALERT_LEN];

    tls_alert_write(TLS_ALERT_ACCESS_DENIED, out);
    assert_memory_equal(out, "\x15\3\3\0\2\2\x31", TLS_ALERT_LEN);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/tls_hello", 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_clients),
        cmocka_unit_test(test_grease),
        cmocka_unit_test(test_every_beginning_wants_more),
        cmocka_unit_test(test_not_tls),
        cmocka_unit_test(test_lengths_must_add_up),
        cmocka_unit_test(test_message_behind_it),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_alert),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
