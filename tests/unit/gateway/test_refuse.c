/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/http/refuse.h"

static void test_json(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
    struct policy_verdict v;
    json_t *root, *e;

    policy_refuse(POLICY_DENIED_HOST, "evil.example", NULL, &v);
    refuse_body(&v, "evil.example", 443, true, &b);
    assert_true(str_ends(buf_str(&b), "}\n"));
    root = json_loads(buf_str(&b), 0, NULL);
    e = json_object_get(root, "error");
    assert_string_equal(json_string_value(json_object_get(e, "code")), "BAWN_NET_DENIED_HOST");
    assert_string_equal(json_string_value(json_object_get(e, "host")), "evil.example");
    assert_int_equal(json_integer_value(json_object_get(e, "port")), 443);
    assert_string_equal(json_string_value(json_object_get(e, "reason")), v.reason);
    assert_string_equal(json_string_value(json_object_get(e, "hint")), v.hint);
    assert_string_equal(json_string_value(json_object_get(e, "message")),
                        "Bawn denied evil.example:443 (no rule allows it), see " REFUSE_WHY);
    json_decref(root);
}

/* Bytes of the sandbox come back harmless: no header, no terminal sequence, no markup of ours is broken. */
static void test_hostile_host(void **state) {
    static const char host[] = "a\r\nSet-Cookie: x\x1b]0;\"";

    for (int json = 0; json < 2; json++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
        struct policy_verdict v;

        policy_refuse(POLICY_NAME_INVALID, host, host, &v);
        refuse_http1(&v, host, 80, json, &b);
        assert_null(strstr(buf_str(&b), "\nSet-Cookie"));
        assert_null(strchr(buf_str(&b), 0x1b));
    }
}

static void test_http1(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
    struct policy_verdict v;
    const char *body;
    char line[64];

    policy_refuse(POLICY_NAME_MISMATCH, "a.example", NULL, &v);
    refuse_http1(&v, "a.example", 443, false, &b);
    assert_true(
        str_starts(buf_str(&b), "HTTP/1.1 421 Bawn denied a.example:443 (BAWN_NET_NAME_MISMATCH), see " REFUSE_WHY "\r\n"));
    assert_non_null(strstr(buf_str(&b), "Connection: close\r\n"));
    assert_non_null(strstr(buf_str(&b), "Content-Type: text/plain"));
    body = strstr(buf_str(&b), "\r\n\r\n");
    assert_non_null(body);
    snprintf(line, sizeof line, "\r\nContent-Length: %zu\r\n", strlen(body + 4));
    assert_non_null(strstr(buf_str(&b), line));
    assert_non_null(strstr(body, v.reason));
}

/* The first line is what people and models see of it. */
static void test_line(void **state) {
    static const struct rule rule = {.id = "no-push"};
    char line[REFUSE_LINE_SIZE], host[HOST_TEXT_MAX + 1];
    struct policy_verdict v;

    policy_refuse(POLICY_DENIED_PORT, "a.example", NULL, &v);
    refuse_line(&v, "a.example", 22, line);
    assert_string_equal(line, "Bawn denied a.example:22 (no rule allows this port), see " REFUSE_WHY);
    policy_refuse(POLICY_UNREACHABLE, "a.example", NULL, &v);
    refuse_line(&v, "a.example", 0, line);
    assert_string_equal(line, "Bawn cannot reach a.example (BAWN_NET_UNREACHABLE), see " REFUSE_WHY);
    policy_refuse(POLICY_DENIED_HOST, "", NULL, &v);
    v.rule = &rule;
    refuse_line(&v, "", 1, line);
    assert_string_equal(line, "Bawn denied this:1 (rule 'no-push' denies it), see " REFUSE_WHY);
    memset(host, 'a', sizeof host - 1);
    host[sizeof host - 1] = 0;
    refuse_line(&v, host, 65535, line);
    assert_non_null(strstr(line, host));
    assert_true(str_ends(line, REFUSE_WHY));
}

static void test_every_code_can_be_said(void **state) {
    for (int code = POLICY_ASK; code < POLICY_CODES; code++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
        struct policy_verdict v;

        policy_refuse((enum policy_code)code, "a.example", NULL, &v);
        refuse_http1(&v, "a.example", 443, true, &b);
        assert_true(buf_ok(&b));
        assert_true(refuse_status(&v) >= 400 && refuse_status(&v) < 600);
        assert_non_null(strstr(buf_str(&b), policy_codes[code].name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json), cmocka_unit_test(test_hostile_host),           cmocka_unit_test(test_http1),
        cmocka_unit_test(test_line), cmocka_unit_test(test_every_code_can_be_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
