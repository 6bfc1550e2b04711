/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/sha256.h"

/* NIST's examples for FIPS 180-4, and the lengths around the padding's edges. */
static void test_vectors(void **state) {
    static const struct {
        const char *text, *digest;
    } table[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char hex[SHA256_HEX_SIZE];

        sha256_hex(table[i].text, strlen(table[i].text), hex);
        assert_string_equal(hex, table[i].digest);
    }
}

static void test_million_in_odd_pieces(void **state) {
    static const unsigned char want[] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92, 0x81, 0xa1, 0xc7,
                                         0xe2, 0x84, 0xd7, 0x3e, 0x67, 0xf1, 0x80, 0x9a, 0x48, 0xa4, 0x97,
                                         0x20, 0x0e, 0x04, 0x6d, 0x39, 0xcc, 0xc7, 0x11, 0x2c, 0xd0};
    unsigned char got[SHA256_LEN];
    size_t left = 1000000;
    struct sha256 h;
    char piece[997];

    memset(piece, 'a', sizeof piece);
    sha256_init(&h);
    for (size_t n = 1; left; n = n % sizeof piece + 1) {
        size_t take = MIN_OF(n, left);

        sha256_add(&h, piece, take);
        left -= take;
    }
    sha256_end(&h, got);
    assert_memory_equal(got, want, sizeof want);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_million_in_odd_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
