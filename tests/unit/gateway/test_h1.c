/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 through the gate: one reading of every request (ATTACKS 54), written anew, streamed. */
#include "http_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void test_request_is_written_anew(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    assert_int_equal(rig_client(&r, "GET //a/./b/../%7eu?x=/../y HTTP/1.1\r\nHOST:\tExample.COM.:443 \r\nUser-Agent:  x \r\n"
                                    "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\r\n"),
                     0);
    assert_string_equal(rig_to_server(&r), "GET /a/~u?x=/../y HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x\r\n\r\n");
    assert_string_equal(r.path, "/a/~u");
    assert_string_equal(r.query, "?x=/../y");
    assert_true(httpx_busy(r.x));
    assert_int_equal(rig_server(&r, "HTTP/1.1 200 Fine\r\nKeep-Alive: timeout=5\r\nConnection: Keep-Alive\r\nX: y\r\n"
                                    "Content-Length: 2\r\n\r\nok"),
                     0);
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 200 Fine\r\nX: y\r\nContent-Length: 2\r\n\r\nok");
    assert_int_equal(r.answered_status, 200);
    assert_false(httpx_busy(r.x));
    assert_false(rig_over(&r));
    rig_close(&r);
}

static void test_hook_may_set_headers(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    r.set_name = "authorization";
    r.set_value = "Bearer real";
    rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer placeholder\r\nAUTHORIZATION: two\r\n\r\n");
    assert_string_equal(rig_to_server(&r), "GET / HTTP/1.1\r\nHost: example.com\r\nauthorization: Bearer real\r\n\r\n");
    rig_close(&r);
}

/* Each must be refused without a byte to the server, and the connection closed: where the next request starts is not known. */
static void test_smuggling(void **state) {
    static const char *const rows[] = {
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1, 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0x1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length : 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: \r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: \vchunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding\t: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\nHost: example.com\n\n",
        "GET / HTTP/1.1\r\nHost: example.com\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\n\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\nX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\n: y\r\n\r\n",
        "GET / HTTP/1.1\r\n X: y\r\nHost: example.com\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\nX: a\x01\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "\r\r\nGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "\r\n GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: example.com\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "G\"T / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: example.com\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: example.com\r\n\r\n",
        "GET / http/1.1\r\nHost: example.com\r\n\r\n",
        "GET / HTTP/01.1\r\nHost: example.com\r\n\r\n",
        "GET /\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\xc3\xa9 HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "MAKEUP / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "MAKEUP / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "MAKEUP / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "MAKEUP / HTTP/1.1\r\nHost: example.com\r\nX: a\rb\r\n\r\n",
        "MAKEUP  / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "MAKEUP / HTTP/1.2\r\nHost: example.com\r\n\r\n",
        "MAKEUP\r\n\r\n",
        "POST\x80 / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        if (rig_client(&r, rows[i]) != -EPROTO || r.judged || r.refused != 1 || r.refused_status < 400 || !rig_over(&r))
            fail_msg("row %zu was not refused: %s", i, rows[i]);
        assert_string_equal(rig_to_server(&r), "");
        assert_int_equal(strncmp(rig_to_client(&r), "HTTP/1.1 4", 10) == 0 || strncmp(rig_to_client(&r), "HTTP/1.1 501", 12) == 0,
                         1);
        assert_non_null(strstr(rig_to_client(&r), "Connection: close\r\n"));
        rig_close(&r);
    }
}

static void test_nul(void **state) {
    static const char nul[] = "GET / HTTP/1.1\r\nHost: example.com\r\nX: a\0b\r\n\r\n";
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, nul, sizeof nul - 1), -EPROTO);
    assert_string_equal(rig_to_server(&r), "");
    rig_close(&r);
}

/* Well-formed, but not for here: answered, and the next request is served. */
static void test_refused_requests(void **state) {
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", 421},
        {"GET / HTTP/1.1\r\nHost: example.com:444\r\n\r\n", 421},
        {"GET / HTTP/1.1\r\nHost: example.com.evil.com\r\n\r\n", 421},
        {"GET https://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 421},
        {"GET https://example.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", 421},
        {"GET https://a@example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET https://example.com?x HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nX: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: 127.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        {"TRACE / HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"TRACE / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\n\r\nabc", 405},
        {"CONNECT evil.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"TRACK / HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"trace / HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"Connect / HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"PRI * HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"WEBSOCKET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 405},
        {"MAKEUP * HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET /../x HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET /%00 HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET /a?b#c HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"GET * HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
        {"OPTIONS *?x HTTP/1.1\r\nHost: example.com\r\n\r\n", 400},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char want[40];
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        snprintf(want, sizeof want, "HTTP/1.1 %d ", rows[i].status);
        if (rig_client(&r, rows[i].text) != 0 || r.judged || !str_starts(rig_to_client(&r), want))
            fail_msg("row %zu: %s -> %s", i, rows[i].text, rig_to_client(&r));
        assert_int_equal(r.refused, 1);
        assert_int_equal(r.refused_status, rows[i].status);
        assert_string_equal(rig_to_server(&r), "");
        rig_client(&r, GET);
        assert_int_equal(r.judged, 1);
        rig_close(&r);
    }
}

/* Methods that llhttp does not know, or knows of RTSP only: judged and passed on, with their bodies. */
static void test_other_methods(void **state) {
    static const char *const methods[] = {"QUERY", "MAKEUP", "DESCRIBE", "VERSION-CONTROL", "P", "POSTX", "get", "X_1"};

    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        CLEANUP(freep) char *text = str_dupf("%s /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\n\r\nabc", methods[i]);
        CLEANUP(freep) char *want = str_dupf("%s /a HTTP/1.1\r\n", methods[i]);
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        if (rig_client(&r, text) != 0 || r.judged != 1 || !str_starts(rig_to_server(&r), want))
            fail_msg("%s: %s", methods[i], rig_to_client(&r));
        assert_non_null(strstr(rig_to_server(&r), "Content-Length: 3\r\n\r\nabc"));
        rig_close(&r);
    }
}

/* One before each request, in any pieces, and never passed on. */
static void test_empty_line_before_a_request(void **state) {
    static const char two[] = "\r\n" GET "\r\n" GET;

    for (size_t cut = 0; cut < sizeof two; cut++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, two, cut), 0);
        assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, two + cut, sizeof two - 1 - cut), 0);
        assert_int_equal(r.judged, 1);
        assert_string_equal(rig_to_server(&r), GET);
        assert_int_equal(rig_server(&r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 0);
        assert_int_equal(r.judged, 2);
        assert_string_equal(rig_to_server(&r), GET GET);
        assert_int_equal(r.id, 2);
        rig_close(&r);
    }
}

static void test_denied(void **state) {
    struct rig r;
    const char *body;

    rig_open(&r, HTTPX_H1, true, false);
    r.deny_path = "/no";
    rig_client(&r, "POST /no HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\nAccept: application/json\r\n\r\nabcd" GET);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 403 Bawn denied example.com:443 (no rule allows this path), see "
                                              "http://bawn.internal/why\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(rig_to_client(&r), "\"BAWN_NET_DENIED_PATH\""));
    body = strstr(rig_to_client(&r), "\r\n\r\n");
    assert_non_null(strstr(rig_to_client(&r), "Connection: keep-alive"));
    assert_non_null(body);
    assert_string_equal(rig_to_server(&r), GET);
    assert_int_equal(r.judged, 2);
    assert_int_equal(r.refused, 0); /* the judge knows what it said */
    assert_int_equal(r.id, 2);
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false);
    r.answer = HTTPX_DENY;
    rig_client(&r, "HEAD / HTTP/1.1\r\nHost: example.com\r\nAccept: text/html, */*\r\n\r\n");
    assert_non_null(strstr(rig_to_client(&r), "text/plain"));
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\n"));
    assert_false(rig_over(&r));
    rig_client(&r, "PUT / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    assert_null(strstr(rig_to_client(&r), "100 Continue"));
    assert_true(rig_over(&r)); /* the body may come or not */
    assert_int_equal(rig_client(&r, "0123456789" GET), 0);
    assert_int_equal(r.judged, 2);
    rig_close(&r);
}

static void test_wait(void **state) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    r.answer = HTTPX_WAIT;
    rig_client(&r, "POST /x HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nab");
    rig_client(&r, "cd" GET);
    assert_string_equal(rig_to_server(&r), "");
    assert_false(httpx_wants(r.x, HTTPX_TO_SERVER));
    assert_true(httpx_busy(r.x));
    httpx_decide(r.x, 7, &v);
    rig_drain(&r);
    assert_string_equal(rig_to_server(&r), "");
    httpx_decide(r.x, 1, &v);
    rig_drain(&r);
    assert_string_equal(rig_to_server(&r), "POST /x HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nabcd");
    rig_clear(&r);
    rig_server(&r, OK);
    assert_int_equal(r.judged, 2);
    policy_refuse(POLICY_DENIED_HOST, "example.com", NULL, &v);
    httpx_decide(r.x, 2, &v);
    rig_drain(&r);
    assert_non_null(strstr(rig_to_client(&r), "okHTTP/1.1 403"));
    assert_string_equal(rig_to_server(&r), "");
    rig_close(&r);
}

static void test_pipelining_in_order(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    r.deny_path = "/no";
    rig_client(&r, GET "GET /no HTTP/1.1\r\nHost: example.com\r\n\r\n" GET);
    assert_int_equal(r.judged, 1);
    assert_string_equal(rig_to_client(&r), "");
    rig_server(&r, OK);
    assert_true(str_starts(rig_to_client(&r), OK "HTTP/1.1 403"));
    assert_string_equal(rig_to_server(&r), GET GET);
    assert_int_equal(r.judged, 3);
    rig_clear(&r);
    rig_server(&r, OK);
    assert_string_equal(rig_to_client(&r), OK);
    rig_close(&r);
}

/* Whatever the pieces in which bytes come, the result is the same. */
static void test_any_split(void **state) {
    static const char in[] = "POST /a HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n" GET;
    static const char answer[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                                 "5\r\nhello\r\n0\r\nX-T: 2\r\n\r\n";
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    for (size_t i = 0; i < sizeof in - 1; i++)
        assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, in + i, 1), 0);
    assert_true(
        str_starts(rig_to_server(&r), "POST /a HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"));
    assert_true(str_ends(rig_to_server(&r), "\r\n9\r\n0\r\nX-Sum: 1\r\n\r\n") ||
                str_ends(rig_to_server(&r), "1\r\n9\r\n0\r\nX-Sum: 1\r\n\r\n"));
    assert_int_equal(r.body_len, UINT64_MAX);
    rig_clear(&r);
    for (size_t i = 0; i < sizeof answer - 1; i++)
        assert_int_equal(rig_send(&r, HTTPX_TO_CLIENT, answer + i, 1), 0);
    assert_true(str_starts(rig_to_client(&r),
                           "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh"));
    assert_true(str_ends(rig_to_client(&r), "1\r\no\r\n0\r\nX-T: 2\r\n\r\n"));
    assert_string_equal(rig_to_server(&r), GET);
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false);
    rig_client(&r, in);
    assert_non_null(strstr(rig_to_server(&r), "\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n"));
    rig_close(&r);
}

static void test_bad_chunks(void **state) {
    static const char *const rows[] = {
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "0x1\r\n",
        " 1\r\na\r\n",
        "1 \r\na\r\n",
        "1\na\r\n",
        "1\r\nab\r\n",
        "1\r\na\n",
        "1\r\na\rX",
        "1;\x01\r\na\r\n",
        "1;a\nb\r\n",
        "1111111111111111\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n\n",
        "0\r\nX: y\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n");
        if (rig_client(&r, rows[i]) != -EPROTO || !str_starts(rig_to_client(&r), "HTTP/1.1 400") || !rig_over(&r))
            fail_msg("chunk %zu was taken", i);
        assert_null(strstr(rig_to_server(&r), "0\r\n\r\n"));
        rig_close(&r);
    }
}

static void test_max_body(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    r.max_body = 4;
    rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nabcd");
    assert_true(str_ends(rig_to_server(&r), "abcd"));
    rig_server(&r, OK);
    rig_clear(&r);
    rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\n");
    assert_string_equal(rig_to_server(&r), "");
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 413 "));
    assert_non_null(strstr(rig_to_client(&r), "BAWN_NET_BODY_TOO_LARGE"));
    assert_true(rig_over(&r));
    assert_int_equal(r.refused_status, 413);
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false);
    r.max_body = 4;
    rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    rig_client(&r, "2\r\nde\r\n0\r\n\r\n");
    assert_true(str_ends(rig_to_server(&r), "3\r\nabc\r\n")); /* and never an end */
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 413 "));
    assert_true(rig_over(&r));
    rig_close(&r);
}

static void test_head_limits(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1024 * 1024);
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    buf_adds(&b, "GET / HTTP/1.1\r\nHost: example.com\r\nX: ");
    for (size_t i = 0; i < HTTPX_HEAD_MAX; i++)
        buf_addc(&b, 'a');
    assert_int_equal(rig_client(&r, buf_str(&b)), -EPROTO);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 431 "));
    rig_close(&r);

    buf_clear(&b);
    buf_adds(&b, "GET / HTTP/1.1\r\nHost: example.com\r\n");
    for (size_t i = 0; i < HTTPX_HEADERS_MAX; i++)
        buf_adds(&b, "X: y\r\n");
    buf_adds(&b, "\r\n");
    rig_open(&r, HTTPX_H1, true, false);
    assert_int_equal(rig_client(&r, buf_str(&b)), -EPROTO);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 431 "));
    rig_close(&r);

    buf_clear(&b);
    buf_adds(&b, "GET /?");
    for (size_t i = 0; i < HTTPX_URI_MAX; i++)
        buf_addc(&b, 'a');
    buf_adds(&b, " HTTP/1.1\r\nHost: example.com\r\n\r\n");
    rig_open(&r, HTTPX_H1, true, false);
    rig_client(&r, buf_str(&b));
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 414 "));
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_is_written_anew),
        cmocka_unit_test(test_hook_may_set_headers),
        cmocka_unit_test(test_smuggling),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_refused_requests),
        cmocka_unit_test(test_other_methods),
        cmocka_unit_test(test_empty_line_before_a_request),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_pipelining_in_order),
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_bad_chunks),
        cmocka_unit_test(test_max_body),
        cmocka_unit_test(test_head_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
