/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/hex.h"

static void test_digits(void **state) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    int found = 0;

    for (int i = 0; i < 32; i++)
        assert_int_equal(hex_digit(digits[i]), i % 16);
    for (int c = 0; c < 256; c++)
        found += hex_digit((char)c) >= 0;
    assert_int_equal(found, 22);
}

static void test_there_and_back(void **state) {
    unsigned char all[256], back[256];
    char text[HEX_SIZE(256)];

    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    hex_encode(all, sizeof all, text);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102", 6);
    assert_string_equal(text + 508, "feff");
    assert_true(hex_is_lower(text, 512));
    assert_true(hex_decode(text, 256, back));
    assert_memory_equal(all, back, 256);
}

static void test_what_is_no_hex(void **state) {
    unsigned char out[2];

    assert_true(hex_decode("aFF0", 2, out) && out[0] == 0xaf && out[1] == 0xf0);
    assert_false(hex_decode("a", 1, out)); /* the NUL is no digit */
    assert_false(hex_decode("0g", 1, out));
    assert_false(hex_decode(" 1", 1, out));
    assert_true(hex_is_lower("", 0));
    assert_false(hex_is_lower("0A", 2));
    assert_false(hex_is_lower("0g", 2));
}

static void test_percent(void **state) {
    assert_int_equal(hex_percent("%41", 3), 0x41);
    assert_int_equal(hex_percent("%fF", 3), 0xff);
    assert_int_equal(hex_percent("%00x", 4), 0);
    assert_int_equal(hex_percent("%41", 2), -1);
    assert_int_equal(hex_percent("%4g", 3), -1);
    assert_int_equal(hex_percent("%+1", 3), -1);
    assert_int_equal(hex_percent("a41", 3), -1);
    assert_int_equal(hex_percent("%", 0), -1);
}

/* RFC 4648, 10. */
static void test_base64(void **state) {
    static const struct {
        const char *bytes, *standard, *url;
    } table[] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"fooba", "Zm9vYmE=", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "+//+", "-__-"},
        {"\xff", "/w==", "_w"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(100);
        size_t len = strlen(table[i].bytes);
        char url[BASE64_URL_SIZE(6)];

        base64_add(&b, table[i].bytes, len);
        assert_string_equal(buf_str(&b), table[i].standard);
        base64_url(table[i].bytes, len, url);
        assert_string_equal(url, table[i].url);
        assert_int_equal(strlen(url) + 1, BASE64_URL_SIZE(len));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),  cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_what_is_no_hex),
        cmocka_unit_test(test_percent), cmocka_unit_test(test_base64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
