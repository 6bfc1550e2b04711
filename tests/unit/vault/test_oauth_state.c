/* SPDX-License-Identifier: Apache-2.0 */
/* What a token server says, and what is kept of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "vault/oauth.h"

static const struct credential credential = {.name = (char *)"idp", .token_url = (char *)"https://id.example.com/token"};
enum { NOW = 1000 };

static struct secret secret_of(const char *text) {
    struct secret s = {0};

    assert_int_equal(secret_alloc(&s, strlen(text)), 0);
    assert_int_equal(secret_set(&s, text, strlen(text)), 0);
    return s;
}

static void expect(const struct secret *s, const char *text) {
    assert_int_equal(s->len, strlen(text));
    assert_memory_equal(s->p, text, s->len);
}

static int answer(long status, const char *body, struct oauth_state *s, struct err *err) {
    CLEANUP(secret_done) struct secret b = secret_of(body);

    assert_int_equal(secret_set(&s->refresh, "old-refresh", 11), 0);
    return oauth_answer_read(&credential, status, &b, NOW, s, err);
}

static void test_good_answers(void **state) {
    static const struct {
        const char *body, *refresh;
        uint64_t expires;
    } cases[] = {
        {"{\"access_token\":\"new-access\",\"token_type\":\"Bearer\",\"expires_in\":60}", "old-refresh", NOW + 60},
        {"{\"access_token\":\"new-access\",\"refresh_token\":\"new-refresh\",\"expires_in\":\"60\"}", "new-refresh", NOW + 60},
        {"{\"access_token\":\"new-access\",\"refresh_token\":null}", "old-refresh", 0},
        {"{\"access_token\":\"new-access\",\"expires_in\":-5}", "old-refresh", 0},
        {"{\"access_token\":\"new-access\",\"expires_in\":1e300}", "old-refresh", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(oauth_state_done) struct oauth_state s = {0};
        struct err err = {0};

        assert_int_equal(oauth_state_init(&s), 0);
        assert_int_equal(answer(200, cases[i].body, &s, &err), 0);
        expect(&s.access, "new-access");
        expect(&s.refresh, cases[i].refresh);
        assert_int_equal(s.expires, cases[i].expires);
    }
}

static void test_bad_answers(void **state) {
    static const struct {
        long status;
        const char *body;
        int r;
    } cases[] = {
        {400, "{\"error\":\"invalid_grant\"}", -EKEYEXPIRED},
        {400, "{\"error\":\"authorization_pending\"}", -EAGAIN},
        {200, "{\"error\":\"authorization_pending\"}", -EAGAIN},
        {400, "{\"error\":\"slow_down\"}", -EBUSY},
        {400, "{\"error\":\"expired_token\"}", -EKEYEXPIRED},
        {400, "{\"error\":\"access_denied\"}", -EACCES},
        {401, "{\"error\":\"invalid_client\",\"error_description\":\"zzz-echo\"}", -ENOKEY},
        {400, "{\"error\":\"zzz-echo of the token\"}", -ENOKEY},
        {500, "zzz-echo", -ENOKEY},
        {500, "{\"access_token\":\"new-access\"}", -ENOKEY},
        {200, "", -ENOKEY},
        {200, "[]", -ENOKEY},
        {200, "{}", -ENOKEY},
        {200, "{\"access_token\":7}", -ENOKEY},
        {200, "{\"access_token\":\"zzz-echo\\r\\nX: y\"}", -ENOKEY},
        {200, "{\"access_token\":\"new-access\",\"token_type\":\"mac\"}", -ENOKEY},
        {200, "{\"access_token\":\"new-access\",\"access_token\":\"other-access\"}", -ENOKEY},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(oauth_state_done) struct oauth_state s = {0};
        struct err err = {0};

        assert_int_equal(oauth_state_init(&s), 0);
        assert_int_equal(answer(cases[i].status, cases[i].body, &s, &err), cases[i].r);
        assert_true(err.msg[0]);
        assert_null(strstr(err.msg, "zzz"));
    }
}

static void test_kept(void **state) {
    CLEANUP(oauth_state_done) struct oauth_state s = {0}, again = {0};
    CLEANUP(secret_done) struct secret text = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(oauth_state_init(&s) + oauth_state_init(&again), 0);
    secret_set(&s.access, "the-\"access\"", 12);
    secret_set(&s.refresh, "the-refresh", 11);
    secret_set(&s.client_secret, "the-client", 10);
    s.expires = 12345;
    assert_int_equal(oauth_state_write(&s, &text, &err), 0);
    assert_int_equal(oauth_state_read(&credential, &text, &again, &err), 0);
    expect(&again.access, "the-\"access\"");
    expect(&again.refresh, "the-refresh");
    expect(&again.client_secret, "the-client");
    assert_int_equal(again.expires, 12345);
}

static void test_typed_values(void **state) {
    static const struct {
        const char *text, *refresh; /* NULL: refused */
    } cases[] = {
        {"only-a-refresh-token", "only-a-refresh-token"},
        {"{\"refresh\":\"a-refresh-token\"}", "a-refresh-token"},
        {"", NULL},
        {"two\nlines-of-it", NULL},
        {"{", NULL},
        {"{}", NULL},
        {"{\"refresh\":\"\"}", NULL},
        {"{\"refresh_token\":\"a-refresh-token\"}", NULL},
        {"{\"refresh\":\"a-refresh-token\",\"expires\":-1}", NULL},
        {"{\"refresh\":\"a-refresh\\n-token\"}", NULL},
        {"{\"refresh\":[]}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(oauth_state_done) struct oauth_state s = {0};
        CLEANUP(secret_done) struct secret text = secret_of(cases[i].text);
        struct err err = {0};

        assert_int_equal(oauth_state_init(&s), 0);
        if (cases[i].refresh) {
            assert_int_equal(oauth_state_read(&credential, &text, &s, &err), 0);
            expect(&s.refresh, cases[i].refresh);
        } else {
            assert_true(oauth_state_read(&credential, &text, &s, &err) < 0);
            assert_true(err.msg[0]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good_answers), cmocka_unit_test(test_bad_answers),
                                       cmocka_unit_test(test_kept), cmocka_unit_test(test_typed_values)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
