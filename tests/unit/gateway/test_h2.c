/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 through the gate: streams, flow control, resets, trailers, ends. */
#include "gateway/http/h2_priv.h"
#include "http2_rig.h"

static void test_exchange(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    n.r.set_name = "Authorization";
    n.r.set_value = "Bearer real";
    id = ask(&n, FIELDS(START("GET", "//a/../b/%7e?q=%2e"), NV("cookie", "a=1"), NV("cookie", "b=2"), NV("x", "y")), NULL, 0,
             false);
    assert_string_equal(stream(&n.server, 1)->head, ":method=GET\n:scheme=https\n:authority=example.com\n:path=/b/~?q=%2e\n"
                                                    "cookie=a=1\ncookie=b=2\nx=y\nauthorization=Bearer real\n");
    assert_true(stream(&n.server, 1)->end);
    assert_string_equal(n.r.path, "/b/~");
    assert_string_equal(n.r.query, "?q=%2e");
    assert_true(httpx_busy(n.r.x));
    answer(&n, 1, FIELDS(NV(":status", "200"), NV("a", "b")), "hello", 5, false);
    assert_string_equal(stream(&n.client, id)->head, ":status=200\na=b\n");
    assert_string_equal(buf_str(&stream(&n.client, id)->body), "hello");
    assert_true(stream(&n.client, id)->closed);
    assert_int_equal(stream(&n.client, id)->code, 0);
    assert_false(httpx_busy(n.r.x));
    assert_int_equal(n.r.answered_status, 200);
    net_close(&n);
}

static void test_wait(void **state) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct net n;
    int32_t first, second, third;

    net_open(&n);
    n.r.answer = HTTPX_WAIT;
    first = ask(&n, FIELDS(START("POST", "/a")), "one", 3, false);
    second = ask(&n, FIELDS(START("POST", "/b")), "two", 3, true);
    third = ask(&n, FIELDS(START("POST", "/c")), "three", 5, true);
    assert_int_equal(stream(&n.server, 1)->begun, 0);
    httpx_decide(n.r.x, (uint32_t)second, &v);
    pump(&n);
    assert_non_null(strstr(stream(&n.server, 1)->head, ":path=/b\n"));
    assert_string_equal(buf_str(&stream(&n.server, 1)->body), "two");
    policy_refuse(POLICY_DENIED_HOST, "example.com", NULL, &v);
    httpx_decide(n.r.x, (uint32_t)first, &v);
    nghttp2_submit_rst_stream(n.client.session, 0, third, NGHTTP2_CANCEL);
    pump(&n);
    httpx_decide(n.r.x, (uint32_t)third, &v); /* is gone */
    httpx_decide(n.r.x, 99, &v);
    pump(&n);
    assert_true(str_starts(stream(&n.client, first)->head, ":status=403"));
    assert_int_equal(stream(&n.server, 3)->begun, 0);
    net_close(&n);
}

/* As gRPC does: both directions at once, trailers at the end of each. */
static void test_bidirectional_with_trailers(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    id = ask(&n, FIELDS(START("POST", "/svc/Call"), NV("te", "trailers"), NV("content-type", "application/grpc")), "a", 1, true);
    assert_non_null(strstr(stream(&n.server, 1)->head, "te=trailers\n"));
    assert_string_equal(buf_str(&stream(&n.server, 1)->body), "a");
    assert_false(stream(&n.server, 1)->end);
    answer(&n, 1, FIELDS(NV(":status", "200")), "1", 1, true);
    assert_string_equal(buf_str(&stream(&n.client, id)->body), "1");
    more(&n, &n.client, id, "bb", true);
    more(&n, &n.server, 1, "22", true);
    assert_string_equal(buf_str(&stream(&n.server, 1)->body), "abb");
    assert_string_equal(buf_str(&stream(&n.client, id)->body), "122");
    stream(&n.client, id)->trailer = (nghttp2_nv)NV("x-sum", "9");
    more(&n, &n.client, id, "", false);
    assert_true(stream(&n.server, 1)->end);
    assert_non_null(strstr(stream(&n.server, 1)->head, "x-sum=9\n"));
    assert_false(stream(&n.client, id)->end);
    stream(&n.server, 1)->trailer = (nghttp2_nv)NV("grpc-status", "0");
    more(&n, &n.server, 1, "3", false);
    assert_non_null(strstr(stream(&n.client, id)->head, "grpc-status=0\n"));
    assert_string_equal(buf_str(&stream(&n.client, id)->body), "1223");
    assert_true(stream(&n.client, id)->closed && stream(&n.server, 1)->closed);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

static void test_interim_and_trailers_only(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    id = ask(&n, FIELDS(START("POST", "/"), NV("expect", "100-continue")), "x", 1, true);
    nghttp2_submit_headers(n.server.session, 0, 1, NULL, FIELDS(NV(":status", "100")), NULL);
    pump(&n);
    assert_string_equal(stream(&n.client, id)->head, ":status=100\n");
    assert_false(stream(&n.client, id)->end);
    answer(&n, 1, FIELDS(NV(":status", "200"), NV("grpc-status", "12")), NULL, 0, false);
    assert_string_equal(stream(&n.client, id)->head, ":status=100\n:status=200\ngrpc-status=12\n");
    assert_true(stream(&n.client, id)->end);
    net_close(&n);
}

static void test_resets_go_through(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    id = ask(&n, FIELDS(START("POST", "/")), "x", 1, true);
    nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
    pump(&n);
    assert_true(stream(&n.server, 1)->closed);
    assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
    id = ask(&n, FIELDS(START("POST", "/")), "x", 1, true);
    nghttp2_submit_rst_stream(n.server.session, 0, 3, NGHTTP2_REFUSED_STREAM);
    pump(&n);
    assert_true(stream(&n.client, id)->closed);
    assert_int_equal(stream(&n.client, id)->code, NGHTTP2_REFUSED_STREAM);
    id = ask(&n, FIELDS(START("POST", "/")), "x", 1, true); /* an early answer, then: an error */
    answer(&n, 5, FIELDS(NV(":status", "200")), "ok", 2, false);
    nghttp2_submit_rst_stream(n.server.session, 0, 5, NGHTTP2_CANCEL);
    pump(&n);
    assert_true(stream(&n.client, id)->end && stream(&n.client, id)->closed);
    assert_int_equal(stream(&n.client, id)->code, NGHTTP2_CANCEL);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

/* An early answer, then: send no more. The client may send the rest all the same, or a part of it if that is long. */
static void test_leftovers(void **state) {
    enum { BIG = H2_LEFTOVER_MAX + 1024 * 1024 };
    CLEANUP(freep) char *big = calloc(1, BIG + 1);
    struct net n;

    memset(big, 'x', BIG);
    net_open(&n);
    for (int32_t at = 1; at <= 3; at += 2) {
        int32_t id = ask(&n, FIELDS(START("POST", "/")), "x", 1, true);

        answer(&n, at, FIELDS(NV(":status", "413")), "no", 2, false);
        nghttp2_submit_rst_stream(n.server.session, 0, at, NGHTTP2_NO_ERROR);
        pump(&n);
        assert_string_equal(buf_str(&stream(&n.client, id)->body), "no");
        assert_true(stream(&n.client, id)->end && !stream(&n.client, id)->closed);
        more(&n, &n.client, id, at == 1 ? "rest" : big, at != 1);
        assert_true(stream(&n.client, id)->closed);
        assert_int_equal(stream(&n.client, id)->code, NGHTTP2_NO_ERROR);
        assert_string_equal(buf_str(&stream(&n.server, at)->body), "x");
        assert_false(httpx_busy(n.r.x));
    }
    net_close(&n);
}

/* A reader that stands still stops its sender, and only that one; nothing is lost when it goes on. */
static void test_flow_control(void **state) {
    enum { BIG = 3 * 1024 * 1024 };
    CLEANUP(freep) char *big = malloc(BIG);
    struct net n;
    int32_t stuck, id;

    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 7 + i / 251);
    net_open(&n);
    n.client.no_consume = true;
    stuck = ask(&n, FIELDS(START("GET", "/big")), NULL, 0, false);
    answer(&n, 1, FIELDS(NV(":status", "200")), big, BIG, false);
    assert_true(stream(&n.server, 1)->sent < 65535 + HTTPX_BUFFER + 65536);
    assert_true(stream(&n.client, stuck)->body.len <= 65535);
    n.client.no_consume = false;
    nghttp2_session_consume(n.client.session, stuck, stream(&n.client, stuck)->body.len);
    pump(&n);
    assert_int_equal(stream(&n.client, stuck)->body.len, BIG);
    assert_memory_equal(stream(&n.client, stuck)->body.data, big, BIG);

    n.server.no_consume = true;
    id = ask(&n, FIELDS(START("PUT", "/big")), big, BIG, false);
    assert_true(stream(&n.client, id)->sent < 65535 + HTTPX_BUFFER + 65536);
    n.server.no_consume = false;
    nghttp2_session_consume(n.server.session, 3, stream(&n.server, 3)->body.len);
    pump(&n);
    assert_int_equal(stream(&n.server, 3)->body.len, BIG);
    assert_memory_equal(stream(&n.server, 3)->body.data, big, BIG);
    net_close(&n);
}

/* Windows come back also for bytes that nobody wants. */
static void test_windows_do_not_leak(void **state) {
    enum { PART = 200 * 1024, ROUNDS = 40 };
    CLEANUP(freep) char *part = calloc(1, PART);
    struct net n;

    net_open(&n);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t id, theirs = 0;

        n.r.answer = i % 2 ? HTTPX_DENY : HTTPX_WAIT;
        id = ask(&n, FIELDS(START("PUT", "/")), part, PART, true);
        nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
        pump(&n);
        n.r.answer = HTTPX_ALLOW;
        n.client.no_consume = true;
        id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
        n.client.no_consume = false;
        theirs = 1 + 2 * i;
        answer(&n, theirs, FIELDS(NV(":status", "200")), part, PART, true);
        nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
        pump(&n);
        assert_true(stream(&n.server, theirs)->closed);
    }
    assert_int_equal(nghttp2_session_get_remote_window_size(n.client.session) > HTTPX_BUFFER, 1);
    assert_int_equal(nghttp2_session_get_remote_window_size(n.server.session) > HTTPX_BUFFER, 1);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

static void test_goaway(void **state) {
    struct net n;
    int32_t first, second;

    net_open(&n);
    first = ask(&n, FIELDS(START("GET", "/1")), NULL, 0, false);
    second = ask(&n, FIELDS(START("GET", "/2")), NULL, 0, false);
    nghttp2_submit_goaway(n.server.session, 0, 1, NGHTTP2_NO_ERROR, NULL, 0);
    pump(&n);
    assert_true(n.client.goaway);
    assert_int_equal(stream(&n.client, second)->code, NGHTTP2_REFUSED_STREAM);
    assert_false(stream(&n.client, first)->closed);
    answer(&n, 1, FIELDS(NV(":status", "200")), "fine", 4, false);
    assert_string_equal(buf_str(&stream(&n.client, first)->body), "fine");
    pump(&n);
    assert_true(rig_over(&n.r));
    net_close(&n);
}

static void test_ends(void **state) {
    struct net n;
    int32_t open, asked;

    net_open(&n);
    open = ask(&n, FIELDS(START("GET", "/1")), NULL, 0, false);
    answer(&n, 1, FIELDS(NV(":status", "200")), "half", 4, true);
    n.r.answer = HTTPX_WAIT;
    asked = ask(&n, FIELDS(START("GET", "/2")), NULL, 0, false);
    httpx_eof(n.r.x, HTTPX_TO_CLIENT);
    pump(&n);
    assert_int_equal(stream(&n.client, open)->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(stream(&n.client, asked)->code, NGHTTP2_REFUSED_STREAM);
    assert_true(n.client.goaway);
    assert_true(rig_over(&n.r));
    httpx_decide(n.r.x, (uint32_t)asked, &(struct policy_verdict){.action = RULE_ALLOW});
    pump(&n);
    net_close(&n);

    net_open(&n);
    ask(&n, FIELDS(START("POST", "/")), "x", 1, true);
    httpx_eof(n.r.x, HTTPX_TO_SERVER);
    assert_true(rig_over(&n.r));
    pump(&n);
    assert_true(n.server.goaway);
    net_close(&n);
}

/* More requests than the server takes at once: they wait, and all are answered. */
static void test_many_streams(void **state) {
    nghttp2_settings_entry few = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 3};
    struct net n;
    size_t done = 0;

    net_open(&n);
    nghttp2_submit_settings(n.server.session, 0, &few, 1);
    pump(&n);
    for (int i = 0; i < 100; i++)
        ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    assert_int_equal(stream(&n.server, 7)->begun, 0);
    for (int32_t id = 1; id < 200; id += 2)
        answer(&n, id, FIELDS(NV(":status", "200")), "x", 1, false);
    for (int32_t id = 1; id < 200; id += 2)
        done += stream(&n.client, id)->closed && stream(&n.client, id)->code == 0 && stream(&n.client, id)->body.len == 1;
    assert_int_equal(done, 100);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

/* A request that ends without an answer is reported too: questions about it need not be answered any more. */
static void test_no_answer_is_said(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    n.r.answer = HTTPX_WAIT;
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    assert_int_equal(n.r.answered, 0);
    nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
    pump(&n);
    assert_int_equal(n.r.answered, 1);
    assert_int_equal(n.r.answered_status, 0);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_bidirectional_with_trailers),
        cmocka_unit_test(test_interim_and_trailers_only),
        cmocka_unit_test(test_resets_go_through),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_flow_control),
        cmocka_unit_test(test_windows_do_not_leak),
        cmocka_unit_test(test_goaway),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_no_answer_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
