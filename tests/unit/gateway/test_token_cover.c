/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: tokens are covered in whatever form they come and wherever the bytes are cut; names, punctuation and lengths stay; what is no token is not touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "gateway/secret/token_cover.h"

#define T "ya29.A0_abc-DEF~+/=="
#define C "********************"

struct one {
    const char *in, *out; /* out NULL: as it is */
};

static void check(enum token_cover_mode mode, const struct one *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t piece = 1; piece < 40; piece += 3) {
            CLEANUP(buf_done) struct buf out = BUF_INIT(4096);
            struct token_cover c = {.mode = mode};
            size_t len = strlen(v[i].in);

            for (size_t at = 0; at < len; at += piece)
                token_cover_feed(&c, (const uint8_t *)v[i].in + at, MIN_OF(piece, len - at), false, &out);
            token_cover_feed(&c, NULL, 0, true, &out);
            assert_string_equal(buf_str(&out), v[i].out ? v[i].out : v[i].in);
            assert_int_equal(c.any, v[i].out != NULL);
        }
}

static void test_any(void **state) {
    static const struct one cases[] = {
        {"{\"access_token\":\"" T "\",\"x\":1}", "{\"access_token\":\"" C "\",\"x\":1}"},
        {"{ \"accessToken\" : \n\t\"" T "\" }", "{ \"accessToken\" : \n\t\"" C "\" }"},
        {"{\"a\":{\"refresh_token\":{\"v\":\"" T "\"}}}", "{\"a\":{\"refresh_token\":{\"v\":\"" C "\"}}}"},
        {"{\"id_token\":\"" T "\",\"access_token\":\"" T "\"}", "{\"id_token\":\"" C "\",\"access_token\":\"" C "\"}"},
        {"{\"tokens\":1,\"access_tokens\":[\"" T "\"]}", "{\"tokens\":1,\"access_tokens\":[\"" C "\"]}"},
        {"\"{\\\"access_token\\\":\\\"" T "\\\"}\"", "\"{\\\"access_token\\\":\\\"" C "\\\"}\""},
        {"a=1&access_token=" T "&b=2", "a=1&access_token=" C "&b=2"},
        {"access%5Ftoken=1&REFRESH_TOKEN=" T, "access%5Ftoken=1&REFRESH_TOKEN=" C},
        {"<input name='id_token' value='" T "'>", "<input name='id_token' value='" C "'>"},
        {"<access_token>" T "</access_token>", "<access_token>" C "</access_token>"},
        {"&quot;access_token&quot;:&quot;" T "&quot;", "&quot;access_token&quot;:&quot;" C "&quot;"},
        {"x({device_code: `" T "`})", "x({device_code: `" C "`})"},
        {"{\"token\":\"" T "\"}", "{\"token\":\"" C "\"}"},
        {"access_token: Bearer " T, "access_token: Bearer " C},
        {"{\"access_token\":null,\"token_type\":\"bearer_long_word\"}", NULL},
        {"[\"code\",\"id_token\",\"code id_token\",\"something_else_long\"]", NULL},
        {"{\"id_token_signing_alg_values_supported\":[\"something_long\"]}", NULL},
        {"the access_token is a long word without an assignment", NULL},
        {"{\"error\":\"invalid_request_of_some_kind\"}", NULL},
    };

    check(TOKEN_COVER_ANY, cases, ARRAY_LEN(cases));
}

/* What a model writes is text in strings; it stays as it is. */
static void test_members(void **state) {
    static const struct one cases[] = {
        {"{\"access_token\":\"" T "\"}", "{\"access_token\":\"" C "\"}"},
        {"{\"x\":[{\"refreshToken\" : \"" T "\"}]}", "{\"x\":[{\"refreshToken\" : \"" C "\"}]}"},
        {"{\"text\":\"{\\\"access_token\\\": \\\"" T "\\\"}\"}", NULL},
        {"{\"text\":\"access_token=" T "\"}", NULL},
        {"{\"text\":\"access_token\",\"more\":\"" T "\"}", NULL},
        {"{\"access_token\":null,\"more\":\"" T "\"}", NULL},
        {"{\"token\":\"" T "\"}", NULL},
        {"access_token: \"" T "\"", NULL},
    };

    check(TOKEN_COVER_MEMBERS, cases, ARRAY_LEN(cases));
}

static void test_fields(void **state) {
    static const struct {
        const char *name, *in, *out;
    } cases[] = {
        {"Location", "http://localhost:1/cb#access_token=" T "&state=1", "http://localhost:1/cb#access_token=" C "&state=1"},
        {"location", "http://localhost:1/cb?code=" T "&state=abcdefghij", "http://localhost:1/cb?code=" C "&state=abcdefghij"},
        {"Set-Cookie", "access_token=" T "; Secure", "access_token=" C "; Secure"},
        {"X-Access-Token", T, C},
        {"X-Code", "code=" T, "code=" T},
        {"Content-Type", "application/json; charset=utf-8", "application/json; charset=utf-8"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *value = strdup(cases[i].in);

        assert_int_equal(token_cover_field(cases[i].name, strlen(cases[i].name), value, strlen(value)),
                         !str_eq(cases[i].in, cases[i].out));
        assert_string_equal(value, cases[i].out);
    }
}

/* Two bytes for each character. */
static void test_utf16(void **state) {
    static const char text[] = "{\"access_token\":\"SECRET-VALUE\"}";
    CLEANUP(buf_done) struct buf out = BUF_INIT(4096);
    struct token_cover c = {.mode = TOKEN_COVER_ANY};
    uint8_t wide[2 * sizeof text];

    for (size_t i = 0; i < sizeof text; i++) {
        wide[2 * i] = (uint8_t)text[i];
        wide[2 * i + 1] = 0;
    }
    token_cover_feed(&c, wide, sizeof wide, true, &out);
    assert_int_equal(out.len, sizeof wide);
    for (size_t i = 0; i < out.len; i++)
        assert_true(!strchr("SRVLU", out.data[i]) || !out.data[i]);
    assert_memory_equal(out.data, wide, strlen("{\"access_token\":\"") * 2);
}

/* What waits is decided by names and punctuation: two values of one length give the same pieces. */
static void test_no_oracle(void **state) {
    static const char *const values[] = {"{\"access_token\":\"aaaaaaaaaaaaaaaaaaaa\"}",
                                         "{\"access_token\":\"Zq9-_./+~=Zq9-_./+~=\"}"};
    size_t sizes[2][64] = {{0}};

    for (size_t k = 0; k < 2; k++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(4096);
        struct token_cover c = {.mode = TOKEN_COVER_ANY};

        for (size_t i = 0; values[k][i]; i++) {
            token_cover_feed(&c, (const uint8_t *)values[k] + i, 1, false, &out);
            sizes[k][i] = out.len;
        }
    }
    assert_memory_equal(sizes[0], sizes[1], sizeof sizes[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any), cmocka_unit_test(test_members), cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_utf16), cmocka_unit_test(test_no_oracle)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
