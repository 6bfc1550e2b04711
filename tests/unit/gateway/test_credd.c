/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "../../fuzz/fuzz_credential_socket.c"
#include "../policy/corpus.h"

static const struct gate_config config = {.grants = grants, .n_grants = ARRAY_LEN(grants)};

/* The answer as an object; the caller frees. */
static json_t *asked(const char *line, char **ret_url) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CREDD_ANSWER_MAX);
    json_t *answer;

    credd_answer(&config, line, strlen(line), &out, ret_url);
    answer = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(answer);
    return answer;
}

static const char *text_of(json_t *answer, const char *key) {
    const char *s = json_string_value(json_object_get(answer, key));

    return s ? s : "";
}

static void check_code(const char *line, const char *code) {
    CLEANUP(freep) char *url = NULL;
    json_t *answer = asked(line, &url);

    assert_false(json_is_true(json_object_get(answer, "ok")));
    assert_string_equal(text_of(answer, "code"), code);
    assert_true(*text_of(answer, "error"));
    assert_null(url);
    json_decref(answer);
}

static void test_list_and_show(void **state) {
    CLEANUP(freep) char *url = NULL, *text = NULL;
    json_t *answer = asked("{\"op\":\"list\"}", &url), *list = json_object_get(answer, "credentials");

    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(text_of(json_array_get(list, 0), "name"), "example");
    assert_string_equal(text_of(json_array_get(list, 0), "header"), "x-api-key");
    assert_string_equal(text_of(json_array_get(list, 1), "place"), "sigv4");
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "hosts")), 2);
    text = json_dumps(answer, 0);
    assert_null(strstr(text, grants[0].placeholder)); /* only load has it */
    json_decref(answer);
    answer = asked("{\"op\":\"show\",\"name\":\"aws\"}", &url);
    assert_string_equal(text_of(answer, "region"), "eu-central-1");
    assert_string_equal(text_of(answer, "value"), "");
    json_decref(answer);
}

static void test_load(void **state) {
    CLEANUP(freep) char *url = NULL;
    json_t *answer = asked("{\"op\":\"load\",\"name\":\"example\"}", &url);

    assert_string_equal(text_of(answer, "value"), grants[0].placeholder);
    assert_string_equal(text_of(answer, "secret_key"), "");
    assert_true(*text_of(answer, "note"));
    json_decref(answer);
    answer = asked("{\"op\":\"load\",\"name\":\"aws\"}", &url);
    assert_string_equal(text_of(answer, "secret_key"), grants[1].placeholder2);
    json_decref(answer);
}

static void test_refusals(void **state) {
    check_code("{\"op\":\"save\",\"name\":\"example\",\"value\":\"x\"}", "READ_ONLY");
    check_code("{\"op\":\"delete\",\"name\":\"nobody\"}", "READ_ONLY");
    check_code("{\"op\":\"show\",\"name\":\"nobody\"}", "NOT_FOUND");
    check_code("{\"op\":\"show\"}", "BAD_REQUEST");
    check_code("{\"op\":\"load\",\"name\":7}", "BAD_REQUEST");
    check_code("{\"op\":\"steal\"}", "UNKNOWN_OP");
    check_code("{}", "UNKNOWN_OP");
    check_code("[]", "BAD_REQUEST");
    check_code("", "BAD_REQUEST");
    check_code("{\"op\":\"list\",\"op\":\"list\"}", "BAD_REQUEST");
    check_code("{\"op\":\"list\"} x", "BAD_REQUEST");
}

static void test_open(void **state) {
    static const struct {
        const char *url;
        bool ok;
    } rows[] = {
        {"https://id.example.com/authorize?client_id=a&redirect_uri=http%3A%2F%2F127.0.0.1%3A8123", true},
        {"https://id.example.com", true},
        {"https://id.example.com:8443/", true},
        {"https://[2001:db8::1]/", true},
        {"http://id.example.com/", false},
        {"HTTPS://id.example.com/", false},
        {"file:///etc/passwd", false},
        {"javascript:alert(1)", false},
        {"https://", false},
        {"https:///x", false},
        {"https://user@id.example.com/", false},
        {"https://id.example.com\\@evil.example/", false},
        {"https://id.example.com/a b", false},
        {"https://id.example.com/\x1b[2J", false},
        {"https://id.example.com/\n", false},
        {"https://id.example.com/\xc3\xa9", false},
        {"https://127.1/", false},
        {"--help", false},
        {"", false},
    };
    char url[CREDD_URL_MAX + 2] = "https://a.example/";

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (credd_url_ok(rows[i].url) != rows[i].ok)
            fail_msg("%s", rows[i].url);
    memset(url + strlen(url), 'a', CREDD_URL_MAX - strlen(url));
    assert_true(credd_url_ok(url));
    url[CREDD_URL_MAX] = 'a';
    assert_false(credd_url_ok(url));
    check_code("{\"op\":\"open\",\"url\":\"http://a.example/\"}", "BAD_REQUEST");
    check_code("{\"op\":\"open\"}", "BAD_REQUEST");
}

static void test_opened(void **state) {
    CLEANUP(freep) char *url = NULL;
    json_t *answer = asked("{\"op\":\"open\",\"url\":\"https://a.example/x\"}", &url);

    assert_true(json_is_true(json_object_get(answer, "ok")));
    assert_string_equal(url, "https://a.example/x");
    json_decref(answer);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/credential_socket", 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_and_show), cmocka_unit_test(test_load),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_open),          cmocka_unit_test(test_opened), cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
