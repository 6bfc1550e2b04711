/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "gateway/flow/why.h"

static void note(struct why *w, uint64_t now, const char *host, uint16_t port) {
    struct policy_verdict v;

    policy_refuse(POLICY_DENIED_HOST, host, NULL, &v);
    why_note(w, now, host, port, &v);
}

static bool ask(struct why *w, const char *request, struct buf *b) {
    buf_clear(b);
    return why_answer(w, 100, (const uint8_t *)request, strlen(request), b);
}

static json_t *ask_json(struct why *w, const char *request, struct buf *b) {
    json_t *doc;

    assert_true(ask(w, request, b));
    doc = json_loads(strstr(buf_str(b), "\r\n\r\n") + 4, 0, NULL);
    assert_non_null(doc);
    return doc;
}

static void latest_first_and_bounded(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(WHY_ANSWER_MAX);
    struct why *w = NULL;
    json_t *doc, *list;
    char host[32];

    assert_int_equal(why_new(&w), 0);
    for (int i = 0; i < WHY_REFUSALS + 10; i++) {
        snprintf(host, sizeof host, "h%d.test", i);
        note(w, 10, host, 443);
    }
    note(w, 90, "h70.test", 443);
    doc = ask_json(w, "GET /why.json HTTP/1.1\r\n\r\n", &b);
    list = json_object_get(doc, "refusals");
    assert_int_equal(json_array_size(list), WHY_REFUSALS);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "host")), "h73.test");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 63), "host")), "h10.test");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 3), "times")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 3), "secondsAgo")), 10);
    json_decref(doc);
    why_free(w);
}

static void questions(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(WHY_ANSWER_MAX);
    struct why *w = NULL;
    char endless[WHY_REQUEST_MAX];

    assert_int_equal(why_new(&w), 0);
    note(w, 10, "evil.test", 443);
    note(w, 10, "other.test", 22);
    assert_false(ask(w, "GET /why HTTP/1.1\r\nHost: x\r\n", &b));
    assert_true(ask(w, "GET /why?host=EVIL.test. HTTP/1.1\r\n\r\n", &b));
    assert_non_null(strstr(buf_str(&b), "evil.test:443 BAWN_NET_DENIED_HOST"));
    assert_null(strstr(buf_str(&b), "other.test"));
    assert_true(ask(w, "GET http://bawn.internal/why HTTP/1.1\r\n\r\n", &b));
    assert_non_null(strstr(buf_str(&b), "other.test:22"));
    assert_true(ask(w, "GET http://bawn.internal HTTP/1.1\r\n\r\n", &b));
    assert_non_null(strstr(buf_str(&b), "200 OK"));
    json_decref(ask_json(w, "GET /why HTTP/1.1\r\nAccept: application/json\r\n\r\n", &b));
    assert_true(ask(w, "GET /why?host=nowhere.test HTTP/1.1\r\n\r\n", &b));
    assert_non_null(strstr(buf_str(&b), "(nothing)"));
    for (size_t i = 0; i < 3; i++) {
        static const char *const bad[] = {"POST /why HTTP/1.1\r\n\r\n", "GET /why?host=a%00b HTTP/1.1\r\n\r\n", "\r\n\r\n"};

        assert_true(ask(w, bad[i], &b));
        assert_non_null(strstr(buf_str(&b), "400 Bad Request"));
    }
    memset(endless, 'a', sizeof endless);
    buf_clear(&b);
    assert_true(why_answer(w, 100, (uint8_t *)endless, sizeof endless, &b));
    assert_non_null(strstr(buf_str(&b), "400 Bad Request"));
    why_free(w);
}

/* A name that was looked up, and then connected to, was denied once. */
static void test_a_lookup_becomes_its_connection(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(WHY_ANSWER_MAX);
    static const char ask[] = "GET /why HTTP/1.1\r\n\r\n";
    struct policy_verdict v;
    struct why *w = NULL;

    assert_int_equal(why_new(&w), 0);
    policy_refuse(POLICY_DENIED_HOST, "evil.test", NULL, &v);
    why_note(w, 1, "evil.test", 0, &v);
    why_note(w, 2, "evil.test", 443, &v);
    why_note(w, 2, "evil.test", 80, &v);
    assert_true(why_answer(w, 2, (const uint8_t *)ask, sizeof ask - 1, &b));
    assert_non_null(strstr(buf_str(&b), "- evil.test:443 "));
    assert_non_null(strstr(buf_str(&b), "- evil.test:80 "));
    assert_null(strstr(buf_str(&b), "- evil.test "));
    why_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_lookup_becomes_its_connection),
                                       cmocka_unit_test(latest_first_and_bounded), cmocka_unit_test(questions)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
