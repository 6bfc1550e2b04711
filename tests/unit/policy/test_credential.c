/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential.h"

static int read_text(const char *text, struct credentials *ret, struct err *err) {
    return credentials_read("secrets.json", text, strlen(text), ret, err);
}

static const char everything[] =
    "{\"secrets\": {"
    "\"maps\": {\"hosts\": [\"Maps.Example.com.\"], \"query\": \"key\", \"store\": \"env\", \"variable\": \"MAPS_KEY\"},"
    "\"anthropic\": {\"hosts\": [\"api.anthropic.com\"], \"store\": \"file\"},"
    "\"github\": {\"hosts\": [\"api.github.com\"], \"header\": \"Authorization: Bearer {}\", \"env\": [], \"store\": \"command\","
    "  \"command\": [\"op\", \"read\", \"op://work/github/token\"], \"lifetime\": \"10m\", \"inject\": \"placeholder\"},"
    "\"forge\": {\"hosts\": [\"git.example.com:8443\", \"git.example.com:443\", \"[2001:db8::1]:444\"], \"basic\": \"me\","
    "  \"store\": \"secret-service\", \"shape\": \"f_\", \"length\": 30},"
    "\"aws\": {\"hosts\": [\"s3.eu-central-1.amazonaws.com\"], \"sigv4\": \"eu-central-1/s3\", \"store\": \"file\"},"
    "\"sts\": {\"hosts\": [\"sts.amazonaws.com\"], \"sigv4\": \"us-east-1/sts\", \"env\": [], \"store\": \"file\"},"
    "\"idp\": {\"hosts\": [\"api.example.com\"], \"store\": \"file\", \"oauth\": {\"token_url\": \"https://id.example.com/token\","
    "  \"device_url\": \"https://id.example.com/device\", \"client_id\": \"bawn\", \"scope\": \"read\"}}}}";

static void check_everything(const struct credentials *c) {
    const struct credential *one;

    assert_int_equal(c->len, 7);
    for (size_t i = 1; i < c->len; i++)
        assert_true(strcmp(c->v[i - 1].name, c->v[i].name) < 0);
    one = credentials_find(c, "anthropic");
    assert_string_equal(one->header, "x-api-key");
    assert_string_equal(one->format, "{}");
    assert_string_equal(one->env.v[0], "ANTHROPIC_API_KEY");
    assert_string_equal(one->shape, "sk-ant-api03-");
    one = credentials_find(c, "github");
    assert_string_equal(one->format, "Bearer {}");
    assert_int_equal(one->env.len, 0); /* it says that it wants none */
    assert_int_equal(one->lifetime_s, 600);
    assert_int_equal(one->command.len, 3);
    assert_true(one->only_placeholder);
    one = credentials_find(c, "forge");
    assert_int_equal(one->hosts.len, 3);
    assert_string_equal(one->hosts.v[1], "git.example.com");
    assert_string_equal(one->hosts.v[2], "[2001:db8::1]:444");
    assert_int_equal(one->place, PLACE_BASIC);
    assert_int_equal(one->store, STORE_SECRET_SERVICE);
    assert_int_equal(one->length, 30);
    one = credentials_find(c, "maps");
    assert_string_equal(one->hosts.v[0], "maps.example.com");
    assert_string_equal(one->variable, "MAPS_KEY");
    one = credentials_find(c, "aws");
    assert_string_equal(one->region, "eu-central-1");
    assert_string_equal(one->service, "s3");
    assert_string_equal(credential_variable(one, 0), "AWS_ACCESS_KEY_ID");
    assert_true(credential_has_variable(one, "AWS_SECRET_ACCESS_KEY"));
    assert_null(credential_variable(one, 2));
    assert_null(credential_variable(credentials_find(c, "sts"), 0)); /* it says that it wants none */
    one = credentials_find(c, "idp");
    assert_string_equal(one->header, "Authorization");
    assert_string_equal(one->scope, "read");
    assert_null(one->authorize_url);
}

static void test_names_of_buckets(void **state) {
    static const struct {
        const char *entry, *host;
        bool is;
    } rows[] = {
        {"s3.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com", true},
        {"s3.eu-central-1.amazonaws.com", "bucket.s3.eu-central-1.amazonaws.com", true},
        {"s3.eu-central-1.amazonaws.com", "my.own.bucket.s3.eu-central-1.amazonaws.com", true},
        {"s3.eu-central-1.amazonaws.com", "s3.s3.eu-central-1.amazonaws.com", true},
        {"s3.dualstack.eu-central-1.amazonaws.com", "bucket.s3.dualstack.eu-central-1.amazonaws.com", true},
        {"s3-accelerate.amazonaws.com", "bucket.s3-accelerate.amazonaws.com", true},
        {"s3-accelerate.dualstack.amazonaws.com", "bucket.s3-accelerate.dualstack.amazonaws.com", true},
        {"s3-accesspoint.eu-central-1.amazonaws.com", "mine-123456789012.s3-accesspoint.eu-central-1.amazonaws.com", true},
        {"s3-eu-central-1.amazonaws.com", "bucket.s3-eu-central-1.amazonaws.com", true},
        {"s3.amazonaws.com", "bucket.s3.amazonaws.com", true},
        {"s3.eu-central-1.amazonaws.com.cn", "bucket.s3.eu-central-1.amazonaws.com.cn", true},
        /* each endpoint has to be named */
        {"s3.eu-central-1.amazonaws.com", "bucket.s3.dualstack.eu-central-1.amazonaws.com", false},
        {"s3.eu-central-1.amazonaws.com", "bucket.s3-accelerate.amazonaws.com", false},
        {"s3.eu-central-1.amazonaws.com", "bucket.s3.amazonaws.com", false},
        {"s3.eu-central-1.amazonaws.com", "amazonaws.com", false},
        {"bucket.s3.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com", false},
        {"bucket.s3.eu-central-1.amazonaws.com", "other.s3.eu-central-1.amazonaws.com", false},
        {"bucket.s3.eu-central-1.amazonaws.com", "x.bucket.s3.eu-central-1.amazonaws.com", false},
        /* whose it is, nothing but AWS's own name says */
        {"s3.eu-central-1.amazonaws.com", "bucket.s3.eu-central-1.amazonaws.com.evil.example", false},
        {"s3.eu-central-1.amazonaws.com", "buckets3.eu-central-1.amazonaws.com", false},
        {"s3.eu-central-1.amazonaws.com", "bucket-s3.eu-central-1.amazonaws.com", false},
        {"s3.eu-west-1.amazonaws.com", "bucket.s3.eu-west-1.amazonaws.com", false}, /* another region than it signs for */
        {"s3.eu-central-1.example.com", "bucket.s3.eu-central-1.example.com", false},
        {"s3-website.eu-central-1.amazonaws.com", "bucket.s3-website.eu-central-1.amazonaws.com", false},
        {"s3.eu-central-1.elb.amazonaws.com", "x.s3.eu-central-1.elb.amazonaws.com", false},
        {"eu-central-1.amazonaws.com", "x.eu-central-1.amazonaws.com", false},
        {"amazonaws.com", "s3.amazonaws.com", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(credential_done) struct credential c = {.name = strdup("aws")};
        size_t at = 0;

        assert_int_equal(credential_set_sigv4(&c, "eu-central-1/s3", NULL), 0);
        assert_int_equal(credential_add_host(&c, rows[i].entry, NULL), 0);
        if (credential_is_for(&c, rows[i].host, 443) != rows[i].is ||
            credential_next_port(&c, rows[i].host, &at) != (rows[i].is ? 443 : 0))
            fail_msg("%s for %s: %d", rows[i].entry, rows[i].host, !rows[i].is);
        assert_false(credential_is_for(&c, rows[i].host, 8443));
        assert_int_equal(credential_set_sigv4(&c, "eu-central-1/sts", NULL), 0);
        assert_int_equal(credential_is_for(&c, rows[i].host, 443), str_eq(rows[i].entry, rows[i].host));
    }
}

/* Also one that an endpoint before it would stand for. */
static void test_a_bucket_can_be_named(void **state) {
    CLEANUP(credential_done) struct credential c = {.name = strdup("aws")};

    assert_int_equal(credential_set_sigv4(&c, "eu-central-1/s3", NULL), 0);
    assert_int_equal(credential_add_host(&c, "s3.eu-central-1.amazonaws.com", NULL), 0);
    assert_int_equal(credential_add_host(&c, "bucket.s3.eu-central-1.amazonaws.com", NULL), 0);
    assert_int_equal(c.hosts.len, 2);
}

static void test_reads_and_writes_everything(void **state) {
    CLEANUP(credentials_done) struct credentials c = {0}, again = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(CREDENTIALS_FILE_MAX), b2 = BUF_INIT(CREDENTIALS_FILE_MAX);
    struct err err = {0};

    assert_int_equal(read_text(everything, &c, &err), 0);
    check_everything(&c);
    credentials_write(&c, &b);
    assert_true(buf_ok(&b));
    assert_int_equal(read_text(b.data, &again, &err), 0);
    check_everything(&again);
    credentials_write(&again, &b2);
    assert_string_equal(b.data, b2.data);
}

static void test_what_is_wrong_is_said(void **state) {
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"\"hosts\": [\"*.example.com\"], \"store\": \"file\"", "exact names"},
        {"\"hosts\": [\"http://example.com\"], \"store\": \"file\"", "without TLS"},
        {"\"hosts\": [\"https://example.com/\"], \"store\": \"file\"", "without https://"},
        {"\"hosts\": [\"example.com:0\"], \"store\": \"file\"", "secrets.json:1:"},
        {"\"hosts\": [\"127.1\"], \"store\": \"file\"", "secrets.json:1:"},
        {"\"hosts\": [], \"store\": \"file\"", "must not be empty"},
        {"\"store\": \"file\"", "needs a host"},
        {"\"hosts\": [\"a.b\"]", "needs a \"store\""},
        {"\"hosts\": [\"a.b\"], \"store\": \"vault\"", "\"secret-service\""},
        {"\"hosts\": [\"a.b\"], \"store\": \"env\"", "needs the name of a variable"},
        {"\"hosts\": [\"a.b\"], \"store\": \"command\"", "needs a command"},
        {"\"hosts\": [\"a.b\"], \"store\": \"command\", \"command\": \"op read\"", "array of words"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"command\": [\"op\"]", "is for the store \"command\" only"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"lifetime\": \"5m\"", "is for the store \"command\" only"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"X\", \"query\": \"q\"", "a place already: \"header\""},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"Host\"", "how HTTP itself works"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"Transfer-Encoding: {}\"", "how HTTP itself works"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"X: a\\r\\nY: {}\"", "control characters"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"X: none\"", "needs {} once"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"X: {}{}\"", "needs {} once"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"header\": \"\"", "a header is its name"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"basic\": \"a:b\"", "no ':'"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"query\": \"a&b\"", "query parameter"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"sigv4\": \"s3\"", "REGION/SERVICE"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"sigv4\": \"eu/s3\", \"env\": [\"X\"]", "AWS_ACCESS_KEY_ID"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"env\": [\"LD_PRELOAD\"]", "another meaning"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"env\": [\"A=B\"]", "letters, digits and '_'"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"length\": 300", "from 24 to 256"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"shape\": \"a b\"", "a shape has"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"value\": \"hunter2\"", "unknown key 'secrets.x.value'"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"oauth\": {\"token_url\": \"http://a.b/\", \"client_id\": \"x\"}",
         "https://"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"oauth\": {\"token_url\": \"https://u@a.b/\", \"client_id\": \"x\"}",
         "no user"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"oauth\": {\"token_url\": \"https://a.b/\"}", "needs a client_id"},
        {"\"hosts\": [\"a.b\"], \"store\": \"file\", \"oauth\": {\"client_id\": \"x\"}", "needs a \"token_url\""},
        {"\"hosts\": [\"a.b\"], \"store\": \"env\", \"variable\": \"V\", \"oauth\": {\"token_url\": \"https://a.b/\", \"client_id\": "
         "\"x\"}",
         "new tokens have to be stored"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(freep) char *text = str_dupf("{\"secrets\": {\"x\": {%s}}}", cases[i].body);
        struct credentials c = {.len = 77};
        struct err err = {0};

        assert_int_equal(read_text(text, &c, &err), -EINVAL);
        if (!strstr(err.msg, cases[i].message) || !str_starts(err.msg, "secrets.json:1:"))
            fail_msg("%s: %s", cases[i].body, err.msg);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        assert_int_equal(c.len, 77);
    }
}

static void test_names(void **state) {
    char longest[CREDENTIAL_NAME_MAX + 2];

    memset(longest, 'a', sizeof longest);
    longest[CREDENTIAL_NAME_MAX] = 0;
    assert_true(credential_name_ok(longest));
    longest[CREDENTIAL_NAME_MAX] = 'a';
    longest[CREDENTIAL_NAME_MAX + 1] = 0;
    assert_false(credential_name_ok(longest));
    assert_true(credential_name_ok("github.work_2-b"));
    assert_false(credential_name_ok(""));
    assert_false(credential_name_ok("../x"));
    assert_false(credential_name_ok(".x"));
    assert_false(credential_name_ok("-x"));
    assert_false(credential_name_ok("a/b"));
    assert_false(credential_name_ok("a b"));
}

static void test_hosts_are_exact(void **state) {
    CLEANUP(credential_done) struct credential c = {0};

    assert_int_equal(credential_add_host(&c, "api.example.com", NULL), 0);
    assert_int_equal(credential_add_host(&c, "git.example.com:8443", NULL), 0);
    assert_true(credential_is_for(&c, "api.example.com", 443));
    assert_false(credential_is_for(&c, "API.example.com.", 443)); /* names are compared as struct host has them */
    assert_true(credential_is_for(&c, "git.example.com", 8443));
    assert_false(credential_is_for(&c, "api.example.com", 8443));
    assert_false(credential_is_for(&c, "git.example.com", 443));
    assert_false(credential_is_for(&c, "xapi.example.com", 443));
    assert_false(credential_is_for(&c, "x.api.example.com", 443));
    assert_false(credential_is_for(&c, "example.com", 443));
    assert_false(credential_is_for(&c, "api.example.com.evil.test", 443));
    assert_false(credential_is_for(&c, "git.example.com:8443", 443));
    assert_int_equal(credential_add_host(&c, "[2001:DB8::1]:8443", NULL), 0);
    assert_true(credential_is_for(&c, "2001:db8::1", 8443));
    assert_false(credential_is_for(&c, "2001:db8::1", 443));
    assert_false(credential_is_for(&c, "2001:db8::", 8443));
}

/* A value goes on with another store or another variable, not with another host, place or token server. */
static void test_purpose(void **state UNUSED) {
    static const struct {
        const char *more;
        bool same;
    } cases[] = {
        {"\"hosts\": [\"a.example\"], \"header\": \"X\", \"env\": [\"OTHER\"], \"inject\": \"placeholder\"", true},
        {"\"hosts\": [\"A.example:443\"], \"header\": \"X: {}\"", true},
        {"\"hosts\": [\"b.example\"], \"header\": \"X\"", false},
        {"\"hosts\": [\"a.example:8443\"], \"header\": \"X\"", false},
        {"\"hosts\": [\"a.example\", \"b.example\"], \"header\": \"X\"", false},
        {"\"hosts\": [\"a.example\"], \"header\": \"Y\"", false},
        {"\"hosts\": [\"a.example\"], \"header\": \"X: a {}\"", false},
        {"\"hosts\": [\"a.example\"], \"query\": \"X\"", false},
        {"\"hosts\": [\"a.example\"], \"basic\": \"X\"", false},
        {"\"hosts\": [\"a.example\"], \"oauth\": {\"token_url\": \"https://i.example/\", \"client_id\": \"c\"}", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(credentials_done) struct credentials c = {0};
        CLEANUP(freep)
        char *text = str_dupf("{\"secrets\": {\"a\": {\"hosts\": [\"a.example\"], \"header\": \"X\", \"store\": \"file\"},"
                              "\"b\": {\"store\": \"file\", %s}}}",
                              cases[i].more);

        assert_int_equal(read_text(text, &c, NULL), 0);
        assert_int_equal(credential_same_purpose(&c.v[0], &c.v[1]), cases[i].same);
    }
}

static void test_put_and_remove(void **state) {
    CLEANUP(credentials_done) struct credentials all = {0};
    struct err err = {0};

    for (int i = 0; i <= CREDENTIALS_MAX; i++) {
        struct credential c = {.name = str_dupf("n%03d", (i * 37) % 1000)};

        assert_int_equal(credentials_put(&all, &c, &err), i < CREDENTIALS_MAX ? 0 : -EINVAL);
        assert_null(c.name);
    }
    for (size_t i = 1; i < all.len; i++)
        assert_true(strcmp(all.v[i - 1].name, all.v[i].name) < 0);
    assert_int_equal(credentials_remove(&all, "n037"), 0);
    assert_int_equal(credentials_remove(&all, "n037"), -ENOENT);
    assert_int_equal(all.len, CREDENTIALS_MAX - 1);
    assert_non_null(credentials_find(&all, "n074"));
}

static void test_values(void **state) {
    struct credential plain = {.name = (char *)"x"}, aws = {.name = (char *)"a", .place = PLACE_SIGV4};
    static char big[CREDENTIAL_VALUE_MAX + 1];
    struct err err = {0};

    memset(big, 'v', sizeof big);
    assert_int_equal(credential_value_check(&plain, big, CREDENTIAL_VALUE_MAX, &err), 0);
    assert_int_equal(credential_value_check(&plain, big, CREDENTIAL_VALUE_MAX + 1, &err), -EINVAL);
    assert_int_equal(credential_value_check(&plain, "", 0, &err), -EINVAL);
    assert_int_equal(credential_value_check(&plain, "1234567", 7, &err), -EINVAL);
    assert_int_equal(credential_value_check(&plain, "12345678", 8, &err), 0);
    assert_int_equal(credential_value_check(&plain, "topsecret\nX: y", 14, &err), -EINVAL);
    assert_null(strstr(err.msg, "topsecret"));
    assert_int_equal(credential_value_check(&plain, "topsecret\0abc", 13, &err), -EINVAL);
    assert_int_equal(credential_value_check(&aws, "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG", 42, &err), 0);
    assert_int_equal(credential_value_check(&aws, "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG:token", 48, &err), 0);
    assert_int_equal(credential_value_check(&aws, "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG:", 43, &err), -EINVAL);
    assert_int_equal(credential_value_check(&aws, "AKIAIOSFODNN7EXAMPLE", 20, &err), -EINVAL);
    assert_int_equal(credential_value_check(&aws, "AKIAIOSFODNN7EXAMPLE:short", 26, &err), -EINVAL);
    assert_null(strstr(err.msg, "AKIA"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_buckets),
        cmocka_unit_test(test_a_bucket_can_be_named),
        cmocka_unit_test(test_reads_and_writes_everything),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_hosts_are_exact),
        cmocka_unit_test(test_purpose),
        cmocka_unit_test(test_put_and_remove),
        cmocka_unit_test(test_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
