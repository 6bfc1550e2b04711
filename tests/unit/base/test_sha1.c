/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/sha1.h"

static void digest(const void *data, size_t len, char out[static 2 * SHA1_LEN + 1]) {
    unsigned char raw[SHA1_LEN];
    struct sha1 h;

    sha1_init(&h);
    sha1_add(&h, data, len);
    sha1_end(&h, raw);
    for (size_t i = 0; i < SHA1_LEN; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

/* NIST's examples for FIPS 180-4, and git's empty blob, which has a NUL in it. */
static void test_vectors(void **state) {
    static const struct {
        size_t len;
        const char *text, *digest;
    } table[] = {
        {0, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {3, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {56, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {112, "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "a49b2446a02c645bf419f995b67091253a04a259"},
        {7, "blob 0", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char hex[2 * SHA1_LEN + 1];

        digest(table[i].text, table[i].len, hex);
        assert_string_equal(hex, table[i].digest);
    }
}

/* The lengths at which the padding begins a block of its own; the digests are those of sha1sum(1). */
static void test_edges(void **state) {
    static const struct {
        size_t len;
        const char *digest;
    } table[] = {
        {55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},  {56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
        {63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},  {64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
        {65, "11655326c708d70319be2610e8a57d9a5b959d3b"},  {119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"},
        {120, "f34c1488385346a55709ba056ddd08280dd4c6d6"}, {128, "ad5b3fdbcb526778c2839d2f151ea753995e26a0"},
    };
    char text[128];

    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char hex[2 * SHA1_LEN + 1];

        digest(text, table[i].len, hex);
        assert_string_equal(hex, table[i].digest);
    }
}

static void test_million_in_odd_pieces(void **state) {
    static const unsigned char want[] = {0x34, 0xaa, 0x97, 0x3c, 0xd4, 0xc4, 0xda, 0xa4, 0xf6, 0x1e,
                                         0xeb, 0x2b, 0xdb, 0xad, 0x27, 0x31, 0x65, 0x34, 0x01, 0x6f};
    unsigned char got[SHA1_LEN];
    size_t left = 1000000;
    struct sha1 h;
    char piece[997];

    memset(piece, 'a', sizeof piece);
    sha1_init(&h);
    for (size_t n = 1; left; n = n % sizeof piece + 1) {
        size_t take = MIN_OF(n, left);

        sha1_add(&h, piece, take);
        left -= take;
    }
    sha1_end(&h, got);
    assert_memory_equal(got, want, sizeof want);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_million_in_odd_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
