/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 through the gate: what is refused, and what is bounded. */
#include "http2_rig.h"

static void test_refused(void **state) {
    static const struct {
        nghttp2_nv f[6];
        size_t n;
        int status; /* 0: reset */
    } rows[] = {
        {{START("GET", "/../a")}, 4, 400},
        {{START("GET", "/%00")}, 4, 400},
        {{START("GET", "/a?b#c")}, 4, 400},
        {{START("TRACE", "/")}, 4, 405},
        {{START("OPTIONS", "*")}, 4, 200},
        {{NV(":method", "GET"), NV(":scheme", "https"), NV(":authority", "evil.com"), NV(":path", "/")}, 4, 421},
        {{NV(":method", "GET"), NV(":scheme", "https"), NV(":authority", "example.com:8443"), NV(":path", "/")}, 4, 421},
        {{NV(":method", "GET"), NV(":scheme", "https"), NV(":authority", "a@example.com"), NV(":path", "/")}, 4, 400},
        {{NV(":method", "GET"), NV(":scheme", "http"), NV(":authority", "example.com"), NV(":path", "/")}, 4, 400},
        {{START("GET", "/"), NV("host", "evil.com")}, 5, 421},
        {{NV(":method", "GET"), NV(":scheme", "https"), NV(":path", "/"), NV("host", "example.com")}, 4, 200},
        {{NV(":method", "GET"), NV(":scheme", "https"), NV(":path", "/")}, 3, 0},
        {{START("GET", "/"), NV("connection", "close")}, 5, 0},
        {{START("GET", "/"), NV("transfer-encoding", "chunked")}, 5, 0},
        {{START("GET", "/"), NV("upgrade", "h2c")}, 5, 0},
        {{START("GET", "/"), NV("te", "gzip")}, 5, 0},
        {{START("GET", "/"), NV("content-length", "5")}, 5, 0},
        {{START("GET", "/"), NV("x", "a\rb")}, 5, 400},
        {{START("GET", "/"), NV("x", "y"), NV(":path", "/b")}, 6, 0},
        {{START("GET", "/"), NV(":path", "/b")}, 5, 0},
        {{START("GET", "")}, 4, 0},
        {{START("GET", "a")}, 4, 0},
        {{NV(":method", "CONNECT"), NV(":authority", "evil.com:443")}, 2, 405},
        {{START("CONNECT", "/"), NV(":protocol", "websocket")}, 5, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char want[40];
        struct net n;
        int32_t id;

        net_open(&n);
        id = ask(&n, rows[i].f, rows[i].n, NULL, 0, false);
        if (rows[i].status == 200) {
            assert_int_equal(n.r.judged, 1);
            net_close(&n);
            continue;
        }
        if (n.r.judged || stream(&n.server, 1)->begun || !stream(&n.client, id)->closed)
            fail_msg("row %zu was let through", i);
        snprintf(want, sizeof want, ":status=%d\n", rows[i].status);
        if (rows[i].status ? !str_starts(stream(&n.client, id)->head, want)
                           : stream(&n.client, id)->code != NGHTTP2_PROTOCOL_ERROR)
            fail_msg("row %zu: %s code %u", i, stream(&n.client, id)->head, stream(&n.client, id)->code);
        assert_int_equal(n.r.refused, 1);
        id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false); /* the connection lives */
        assert_int_equal(stream(&n.server, 1)->begun, 1);
        net_close(&n);
    }
}

static void test_denied(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    n.r.answer = HTTPX_DENY;
    id = ask(&n, FIELDS(START("POST", "/"), NV("accept", "application/json")), "body", 4, true);
    assert_true(str_starts(stream(&n.client, id)->head, ":status=403\ncontent-type=application/json\n"));
    assert_non_null(strstr(buf_str(&stream(&n.client, id)->body), "BAWN_NET_DENIED_PATH"));
    assert_true(stream(&n.client, id)->end && !stream(&n.client, id)->closed); /* it may send the rest */
    more(&n, &n.client, id, "rest", false);
    assert_true(stream(&n.client, id)->closed);
    assert_int_equal(stream(&n.client, id)->code, NGHTTP2_NO_ERROR);
    assert_false(httpx_busy(n.r.x));
    id = ask(&n, FIELDS(START("HEAD", "/"), NV("accept", "text/plain")), NULL, 0, false);
    assert_non_null(strstr(stream(&n.client, id)->head, "content-type=text/plain"));
    assert_int_equal(stream(&n.client, id)->body.len, 0);
    net_close(&n);
}

static void test_max_body(void **state) {
    struct net n;
    int32_t id;

    net_open(&n);
    n.r.max_body = 4;
    id = ask(&n, FIELDS(START("POST", "/"), NV("content-length", "5")), "abcde", 5, false);
    assert_true(str_starts(stream(&n.client, id)->head, ":status=413\n"));
    assert_int_equal(stream(&n.server, 1)->begun, 0);
    id = ask(&n, FIELDS(START("POST", "/")), "abcd", 4, true);
    assert_string_equal(buf_str(&stream(&n.server, 1)->body), "abcd");
    more(&n, &n.client, id, "e", true);
    assert_string_equal(buf_str(&stream(&n.server, 1)->body), "abcd");
    assert_true(stream(&n.server, 1)->closed);
    assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
    assert_true(str_starts(stream(&n.client, id)->head, ":status=413\n"));
    more(&n, &n.client, id, "fgh", false);
    assert_true(stream(&n.client, id)->closed);
    assert_false(httpx_busy(n.r.x));
    net_close(&n);
}

static void test_head_limits(void **state) {
    enum { MANY = HTTPX_HEADERS_MAX + 1 };
    nghttp2_nv f[4 + MANY] = {START("GET", "/")};
    CLEANUP(freep) char *value = calloc(1, 1001);
    struct net n;
    int32_t id;

    net_open(&n);
    for (size_t i = 4; i < ARRAY_LEN(f); i++)
        f[i] = (nghttp2_nv)NV("x", "y");
    id = ask(&n, f, ARRAY_LEN(f), NULL, 0, false);
    assert_true(str_starts(stream(&n.client, id)->head, ":status=431\n"));
    memset(value, 'a', 1000);
    for (size_t i = 4; i < ARRAY_LEN(f); i++) /* small on the wire: an entry of the table and its number */
        f[i].value = (uint8_t *)value, f[i].valuelen = 1000;
    id = ask(&n, f, 4 + 100, NULL, 0, false);
    assert_true(str_starts(stream(&n.client, id)->head, ":status=431\n"));
    assert_int_equal(n.r.judged, 0);
    assert_int_equal(stream(&n.server, 1)->begun, 0);
    net_close(&n);
}

static void test_rapid_reset(void **state) {
    struct net n;

    net_open(&n);
    for (int i = 0; i < 600 && !n.client.goaway; i++) {
        nghttp2_nv f[] = {START("GET", "/")};
        int32_t id = nghttp2_submit_request(n.client.session, NULL, f, 4, NULL, NULL);

        pump_one(&n, &n.client, HTTPX_TO_SERVER, HTTPX_TO_CLIENT);
        nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
        pump_one(&n, &n.client, HTTPX_TO_SERVER, HTTPX_TO_CLIENT);
    }
    pump(&n);
    assert_true(n.client.goaway);
    assert_int_equal(n.client.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(n.r.judged < 300);
    assert_true(rig_over(&n.r));
    net_close(&n);
}

static void test_not_http2(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H2, true, false);
    assert_int_equal(rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), -EPROTO);
    assert_true(rig_over(&r));
    rig_close(&r);
}

/* Frames that cost the sender nothing and a naive receiver memory or time. */
static void test_floods(void **state) {
    static const struct {
        uint8_t type, flags;
        uint8_t len;
        uint8_t id;
    } rows[] = {
        {NGHTTP2_PING, 0, 8, 0},
        {NGHTTP2_SETTINGS, 0, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t frame[17] = {0, 0, rows[i].len, rows[i].type, rows[i].flags, 0, 0, 0, rows[i].id};
        struct net n;
        int result = 0;

        net_open(&n);
        for (int k = 0; k < 100000 && result == 0; k++)
            result = httpx_data(n.r.x, HTTPX_TO_SERVER, frame, 9 + (size_t)rows[i].len);
        assert_int_equal(result, -EPROTO);
        assert_true(rig_over(&n.r));
        net_close(&n);
    }
}

static void test_continuation_flood(void **state) {
    static const uint8_t headers[] = {0, 0, 1, NGHTTP2_HEADERS, 0, 0, 0, 0, 1, 0x82};
    static const uint8_t more_of_it[] = {0, 0, 0, NGHTTP2_CONTINUATION, 0, 0, 0, 0, 1};
    struct net n;
    int result;

    net_open(&n);
    result = httpx_data(n.r.x, HTTPX_TO_SERVER, headers, sizeof headers);
    for (int k = 0; k < 100000 && result == 0 && !rig_over(&n.r); k++) {
        result = httpx_data(n.r.x, HTTPX_TO_SERVER, more_of_it, sizeof more_of_it);
        rig_drain(&n.r);
    }
    assert_true(rig_over(&n.r));
    assert_int_equal(n.r.judged, 0);
    net_close(&n);
}

static void test_no_push_no_extended_connect(void **state) {
    struct net n;

    net_open(&n);
    assert_int_equal(nghttp2_session_get_remote_settings(n.server.session, NGHTTP2_SETTINGS_ENABLE_PUSH), 0);
    assert_int_equal(nghttp2_session_get_remote_settings(n.client.session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL), 0);
    assert_int_equal(nghttp2_session_get_remote_settings(n.client.session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS),
                     HTTPX_STREAMS_MAX);
    net_close(&n);
}

/* Every request brings an answer, and the client reads none of them. */
static void test_client_that_does_not_read(void **state) {
    uint8_t frame[] = {0,    0,    3,   NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, 0, 0, 0, 0,
                       0x82, 0x87, 0x84};
    struct net n;
    unsigned id;

    net_open(&n);
    for (id = 1; id < 20000 && httpx_wants(n.r.x, HTTPX_TO_SERVER); id += 2) {
        frame[7] = (uint8_t)(id >> 8);
        frame[8] = (uint8_t)id;
        assert_int_equal(httpx_data(n.r.x, HTTPX_TO_SERVER, frame, sizeof frame), 0);
    }
    rig_drain(&n.r);
    assert_true(n.r.out[HTTPX_TO_CLIENT].len < HTTPX_BUFFER);
    assert_true(n.r.refused <= HTTPX_STREAMS_MAX + 1);
    assert_int_equal(n.r.judged, 0);
    assert_true(rig_over(&n.r)); /* more streams than were agreed on */
    net_close(&n);
}

static void test_trailers_that_are_too_large(void **state) {
    CLEANUP(freep) char *value = calloc(1, HTTPX_HEAD_MAX + 1);
    struct net n;
    int32_t id;

    memset(value, 'a', HTTPX_HEAD_MAX);
    net_open(&n);
    id = ask(&n, FIELDS(START("POST", "/")), "x", 1, true);
    stream(&n.client, id)->trailer = (nghttp2_nv)NV("x", value);
    more(&n, &n.client, id, "", false);
    assert_true(stream(&n.server, 1)->closed && !stream(&n.server, 1)->end);
    assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
    assert_true(stream(&n.client, id)->closed);
    assert_int_equal(stream(&n.client, id)->code, NGHTTP2_ENHANCE_YOUR_CALM);
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_max_body),
        cmocka_unit_test(test_head_limits),
        cmocka_unit_test(test_rapid_reset),
        cmocka_unit_test(test_not_http2),
        cmocka_unit_test(test_floods),
        cmocka_unit_test(test_continuation_flood),
        cmocka_unit_test(test_no_push_no_extended_connect),
        cmocka_unit_test(test_client_that_does_not_read),
        cmocka_unit_test(test_trailers_that_are_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
