/* SPDX-License-Identifier: Apache-2.0 */
/* AWS's own examples are compared with in tests/integration/test_gate_secrets.py (botocore); here: what must be refused, and corners. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/http/http_head.h"
#include "gateway/secret/sigv4.h"

#define DATE "20260101T000000Z"
#define HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct scene {
    struct http_head head;
    struct httpx_request http;
    struct host host;
    char *text;
    bool needs_hash;
    struct err err;
};

static void field(struct scene *s, const char *name, const char *value) {
    assert_int_equal(http_head_add(&s->head, name, strlen(name), value, strlen(value)), 0);
}

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);

    assert_int_equal(host_parse("a.test", 6, &s->host, NULL), 0);
    s->http.head = &s->head;
    s->http.method = "GET";
    s->http.query = "";
    snprintf(s->http.path.text, sizeof s->http.path.text, "/");
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    http_head_done(&s->head);
    free(s->text);
    free(s);
    return 0;
}

static void sign(struct scene *s, const char *names) {
    char value[2000];

    snprintf(value, sizeof value, "AWS4-HMAC-SHA256 Credential=AKIA/x, SignedHeaders=%s, Signature=00", names);
    field(s, "Authorization", value);
    field(s, "X-Amz-Date", DATE);
}

static int canonical(struct scene *s, const char *service, uint16_t port) {
    const struct sigv4_request r = {.http = &s->http, .host = &s->host, .port = port, .service = service};
    struct buf b = BUF_INIT(64 * 1024);
    int e = sigv4_canonical(&r, &b, &s->needs_hash, &s->err);

    free(s->text);
    s->text = buf_take(&b);
    return e;
}

static void test_whole(void **state) {
    struct scene *s = *state;

    sign(s, "host;x-amz-date;x-two;content-length");
    field(s, "X-Two", "  a   b ");
    field(s, "x-two", "c");
    s->http.method = "POST";
    s->http.body_len = 12;
    s->http.has_body = true;
    s->http.query = "?b=2&a=%2f+x&a&=&c==";
    snprintf(s->http.path.text, sizeof s->http.path.text, "/x%%20y/@:z");
    assert_int_equal(canonical(s, "sqs", 8443), 0);
    assert_true(s->needs_hash);
    assert_string_equal(s->text,
                        "POST\n/x%2520y/%40%3Az\n=&a=&a=%2F%2Bx&b=2&c=%3D\ncontent-length:12\nhost:a.test:8443\nx-amz-date:" DATE
                        "\nx-two:a b,c\n\ncontent-length;host;x-amz-date;x-two\n");
    assert_int_equal(canonical(s, "s3", 443), 0);
    assert_true(str_starts(s->text, "POST\n/x%20y/%40%3Az\n"));
    assert_non_null(strstr(s->text, "\nhost:a.test\n"));
}

static void test_payloads(void **state) {
    static const struct {
        const char *hash;
        int result;
    } cases[] = {
        {HASH, 0},
        {"UNSIGNED-PAYLOAD", 0},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", -EINVAL},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", 0},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", -EINVAL},
        {"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855", -EINVAL},
        {HASH "0", -EINVAL},
        {"", -EINVAL},
    };
    struct scene *s = *state;

    sign(s, "host;x-amz-date");
    assert_int_equal(canonical(s, "s3", 443), 0); /* no body */
    assert_true(str_ends(s->text, "\nhost;x-amz-date\n" HASH));
    s->http.has_body = true;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        http_head_remove(&s->head, "x-amz-content-sha256");
        field(s, "x-amz-content-sha256", cases[i].hash);
        assert_int_equal(canonical(s, "s3", 443), cases[i].result);
        assert_false(s->needs_hash);
        if (cases[i].result == 0)
            assert_true(str_ends(s->text, cases[i].hash));
    }
}

static void test_names(void **state) {
    static const struct {
        const char *names;
        int result;
    } cases[] = {
        {"host;x-amz-date", 0},
        {"x-amz-date;host;x-amz-security-token", 0},         /* the token is the broker's */
        {"connection;host;transfer-encoding;x-amz-date", 0}, /* framing is the gate's */
        {"host", -EINVAL},
        {"x-amz-date", -EINVAL},
        {"host;host;x-amz-date", -EINVAL},
        {"host;not-there;x-amz-date", -EINVAL},
        {"Host;x-amz-date", -EINVAL},
        {"host;;x-amz-date", -EINVAL},
        {"host\n;x-amz-date", -EINVAL},
        {"", -EINVAL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene *s = *state;

        http_head_clear(&s->head);
        sign(s, cases[i].names);
        assert_int_equal(canonical(s, "s3", 443), cases[i].result);
        if (cases[i].result == 0)
            assert_non_null(strstr(s->text, "\nhost;x-amz-date\n"));
    }
}

static void test_too_many(void **state) {
    struct scene *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    sign(s, "host;x-amz-date");
    buf_addc(&b, '?');
    for (size_t i = 0; i < SIGV4_PARAMS_MAX; i++)
        buf_adds(&b, "a&");
    s->http.query = buf_str(&b);
    assert_int_equal(canonical(s, "s3", 443), 0);
    buf_adds(&b, "a");
    s->http.query = buf_str(&b);
    assert_int_equal(canonical(s, "s3", 443), -EINVAL);
    buf_clear(&b);
    for (size_t i = 0; i <= SIGV4_HEADERS_MAX; i++)
        buf_addf(&b, "a%zu;", i);
    http_head_clear(&s->head);
    s->http.query = "";
    sign(s, buf_str(&b));
    assert_int_equal(canonical(s, "s3", 443), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_payloads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
    };

    return cmocka_run_group_tests_name("gateway/sigv4", tests, NULL, NULL);
}
