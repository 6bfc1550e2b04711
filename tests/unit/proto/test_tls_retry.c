/* SPDX-License-Identifier: Apache-2.0 */
/* The second ClientHello of a TLS connection: found whatever it is cut into, and never where the server did not ask for it. */
#include <stdarg.h>

#include "../../fuzz/fuzz_tls_retry.c"
#include "../policy/corpus.h"

static struct outcome run_file(const char *name, bool bytewise) {
    uint8_t data[8192];
    char path[200];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "tests/fuzz/corpus/tls_retry/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, data, sizeof data);
    assert_true(n > 0);
    close(fd);
    return run(data, (size_t)n, bytewise);
}

static void test_outcomes(void **state) {
    static const struct {
        const char *file;
        enum tls_retry_result result;
        const char *sni;
    } rows[] = {
        {"retry", TLS_RETRY_HELLO, "a.test"},  {"early", TLS_RETRY_HELLO, "b.test"}, {"alert", TLS_RETRY_HELLO, "a.test"},
        {"pieces", TLS_RETRY_HELLO, "a.test"}, {"no-retry", TLS_RETRY_OVER, NULL},   {"http", TLS_RETRY_OVER, NULL},
        {"too-early", TLS_RETRY_BAD, NULL},    {"garbage", TLS_RETRY_BAD, NULL},     {"amid", TLS_RETRY_BAD, NULL},
    };

    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct outcome o = run_file(rows[i / 2].file, i % 2);

        if (o.result != rows[i / 2].result)
            fail_msg("%s: %d", rows[i / 2].file, (int)o.result);
        if (rows[i / 2].sni)
            assert_string_equal(o.hello.sni, rows[i / 2].sni);
    }
}

/* A hello that never ends, and one that says it is larger than any. */
static void test_ceiling(void **state) {
    static const uint8_t answer[] = {22,   3,    3,    0,    38,   2,    0,    0,    34,   3,    3,    0xCF, 0x21, 0xAD, 0x74,
                                     0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2, 0xA2, 0x11,
                                     0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C};
    uint8_t record[5 + 1000] = {22, 3, 3, 1000 >> 8, 1000 & 255, 1, 0xff};
    enum tls_retry_result r = TLS_RETRY_MORE;
    struct tls_hello hello;
    struct tls_retry t;
    size_t fed = 0;

    tls_retry_init(&t, 0);
    assert_int_equal(tls_retry_server(&t, answer, sizeof answer), TLS_RETRY_MORE);
    assert_true(t.retry);
    for (; r == TLS_RETRY_MORE; fed += sizeof record)
        r = tls_retry_client(&t, record, sizeof record, &hello);
    assert_int_equal(r, TLS_RETRY_BAD);
    assert_true(fed <= TLS_HELLO_MAX + sizeof record);
    tls_retry_done(&t);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/tls_retry", 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_outcomes), cmocka_unit_test(test_ceiling),
                                       cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
