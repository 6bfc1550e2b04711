/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential.h"

static const struct grant_seed seed = {.bytes = {1, 2, 3}, .scope = "/home/u/work"},
                               other_seed = {.bytes = {1, 2, 4}, .scope = "/home/u/work"},
                               other_scope = {.bytes = {1, 2, 3}, .scope = "/home/u/work2"};

static void known(const char *host, struct credential *ret) {
    struct err err = {0};

    *ret = (struct credential){.name = strdup("x")};
    assert_int_equal(credential_add_host(ret, host, &err), 0);
    assert_int_equal(credential_fill_known(ret, &err), 0);
    assert_int_equal(credential_check(ret, &err), 0);
}

static void test_known_hosts_and_their_placeholders(void **state) {
    static const struct {
        const char *host, *header, *user, *variable, *shape;
        size_t length;
    } cases[] = {
        {"api.anthropic.com", "x-api-key", NULL, "ANTHROPIC_API_KEY", "sk-ant-api03-", 108},
        {"api.openai.com", "Authorization", NULL, "OPENAI_API_KEY", "sk-proj-", 164},
        {"generativelanguage.googleapis.com", "x-goog-api-key", NULL, "GEMINI_API_KEY", "AIza", 39},
        {"api.github.com", "Authorization", NULL, "GH_TOKEN", "ghp_", 40},
        {"github.com", NULL, "x-access-token", NULL, "ghp_", 40},
        {"gitlab.com", "PRIVATE-TOKEN", NULL, "GITLAB_TOKEN", "glpat-", 30},
        {"upload.pypi.org", NULL, "__token__", "TWINE_PASSWORD", "pypi-", 180},
        {"nobody-knows.example", "Authorization", NULL, NULL, "", 36},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(credential_done) struct credential c = {0};
        CLEANUP(grant_done) struct grant g = {0}, other = {0};

        known(cases[i].host, &c);
        assert_int_equal(c.place, cases[i].user ? PLACE_BASIC : PLACE_HEADER);
        assert_string_equal(cases[i].user ? c.user : c.header, cases[i].user ? cases[i].user : cases[i].header);
        assert_true(cases[i].variable ? str_eq(c.env.v[0], cases[i].variable) : c.env.len == 0);
        assert_int_equal(grant_make(&c, &seed, &g, NULL), 0);
        assert_int_equal(grant_make(&c, &other_seed, &other, NULL), 0);
        assert_true(str_starts(g.placeholder, cases[i].shape));
        assert_int_equal(strlen(g.placeholder), cases[i].length);
        assert_string_equal(g.placeholder2, "");
        assert_int_equal(strlen(placeholder_core(g.placeholder)), PLACEHOLDER_CORE);
        assert_string_not_equal(placeholder_core(g.placeholder), placeholder_core(other.placeholder));
        assert_true(strspn(placeholder_core(g.placeholder), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") ==
                    PLACEHOLDER_CORE);
    }
}

static void test_a_placeholder_comes_again_in_the_same_project_only(void **state) {
    const struct grant_seed *const seeds[] = {&seed, &seed, &other_seed, &other_scope};
    CLEANUP(credential_done) struct credential c = {0}, renamed = {0};
    struct grant g[5] = {0};

    known("api.openai.com", &c);
    known("api.openai.com", &renamed);
    renamed.name[0] = 'y';
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(grant_make(&c, seeds[i], &g[i], NULL), 0);
    assert_int_equal(grant_make(&renamed, &seed, &g[4], NULL), 0);
    assert_string_equal(g[0].placeholder, g[1].placeholder);
    for (size_t i = 2; i < 5; i++)
        assert_string_not_equal(placeholder_core(g[0].placeholder), placeholder_core(g[i].placeholder));
    for (size_t i = 0; i < 5; i++)
        grant_done(&g[i]);
}

static void test_what_is_set_stays(void **state) {
    CLEANUP(credential_done) struct credential c = {.name = strdup("x"), .place = PLACE_QUERY, .query = strdup("key")};

    assert_int_equal(strv_add(&c.env, "MINE"), 0);
    assert_int_equal(credential_add_host(&c, "api.anthropic.com", NULL), 0);
    assert_int_equal(credential_fill_known(&c, NULL), 0);
    assert_int_equal(c.place, PLACE_QUERY);
    assert_null(c.header);
    assert_int_equal(c.env.len, 1);
    assert_string_equal(c.env.v[0], "MINE");
}

static void test_aws(void **state) {
    CLEANUP(credential_done) struct credential c = {.name = strdup("aws")};
    CLEANUP(grant_done) struct grant g = {0};

    assert_int_equal(credential_add_host(&c, "s3.eu-central-1.amazonaws.com", NULL), 0);
    assert_int_equal(credential_set_sigv4(&c, "eu-central-1/s3", NULL), 0);
    assert_int_equal(credential_fill_known(&c, NULL), 0);
    assert_int_equal(credential_check(&c, NULL), 0);
    assert_int_equal(grant_make(&c, &seed, &g, NULL), 0);
    assert_true(str_starts(g.placeholder, "AKIA"));
    assert_int_equal(strlen(g.placeholder), 20);
    assert_int_equal(strspn(g.placeholder + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), 16);
    assert_int_equal(strlen(placeholder_core(g.placeholder)), 16);
    assert_int_equal(strlen(g.placeholder2), 40);
    assert_int_equal(strlen(placeholder_core(g.placeholder2)), PLACEHOLDER_CORE);
}

/* Where the value is kept is nobody's business but the vault's. */
static void test_a_grant_has_no_store(void **state) {
    CLEANUP(credential_done) struct credential c = {.name = strdup("x"), .store = STORE_ENV, .variable = strdup("MY_KEY")};
    CLEANUP(grant_done) struct grant g = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    assert_int_equal(credential_add_host(&c, "a.example", NULL), 0);
    assert_int_equal(credential_fill_known(&c, NULL), 0);
    assert_int_equal(grant_make(&c, &seed, &g, NULL), 0);
    assert_null(g.c.variable);
    assert_int_equal(grants_encode(&g, 1, &b), 0);
    assert_null(memmem(b.data, b.len, "MY_KEY", 6));
}

static void test_codec_refuses_every_truncation(void **state) {
    CLEANUP(credential_done) struct credential c = {0};
    CLEANUP(grant_done) struct grant g = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct grant *got = NULL;
    size_t n = 0;

    known("api.github.com", &c);
    assert_int_equal(grant_make(&c, &seed, &g, NULL), 0);
    assert_int_equal(grants_encode(&g, 1, &b), 0);
    for (size_t len = 0; len < b.len; len++) {
        CLEANUP(freep) char *copy = malloc(len + 1);

        memcpy(copy, b.data, len);
        assert_int_equal(grants_decode(copy, len, &got, &n), -EBADMSG);
    }
    assert_null(got);
    assert_int_equal(grants_decode(b.data, b.len, &got, &n), 0);
    assert_int_equal(n, 1);
    assert_string_equal(got[0].placeholder, g.placeholder);
    assert_string_equal(got[0].c.env.v[1], "GITHUB_TOKEN");
    grant_done(&got[0]);
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_hosts_and_their_placeholders),
        cmocka_unit_test(test_a_placeholder_comes_again_in_the_same_project_only),
        cmocka_unit_test(test_what_is_set_stays),
        cmocka_unit_test(test_aws),
        cmocka_unit_test(test_a_grant_has_no_store),
        cmocka_unit_test(test_codec_refuses_every_truncation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
