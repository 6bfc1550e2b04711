/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 through the gate: answers, the ends of connections, WebSocket, the explicit proxy, bounds. */
#include "http_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void test_responses(void **state) {
    static const struct {
        const char *request, *answer, *want;
        bool over;
    } rows[] = {
        {GET, "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", false},
        {GET, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", false},
        {GET, "HTTP/1.1 204 None\r\n\r\n", "HTTP/1.1 204 None\r\n\r\n", false},
        {GET, "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", false},
        {"HEAD / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false},
        {"HEAD / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
         "HTTP/1.1 200 OK\r\n\r\n", false},
        {GET, "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" OK, "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" OK, false},
        {GET, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na", true},
        {"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", OK,
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", true},
        {"GET / HTTP/1.0\r\n\r\n",
         "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        rig_client(&r, rows[i].request);
        assert_int_equal(rig_server(&r, rows[i].answer), 0);
        assert_string_equal(rig_to_client(&r), rows[i].want);
        if (rig_over(&r) != rows[i].over)
            fail_msg("row %zu: over is %d", i, !rows[i].over);
        rig_close(&r);
    }
}

static void test_bad_responses(void **state) {
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 999 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        rig_client(&r, GET);
        if (rig_server(&r, rows[i]) != -EPROTO || !str_starts(rig_to_client(&r), "HTTP/1.1 502 ") || !rig_over(&r))
            fail_msg("row %zu: %s", i, rig_to_client(&r));
        rig_close(&r);
    }
}

static void test_answer_to_nothing(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    assert_int_equal(rig_server(&r, OK), -EPROTO);
    assert_string_equal(rig_to_client(&r), "");
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false);
    rig_client(&r, GET);
    assert_int_equal(rig_server(&r, OK OK), -EPROTO);
    assert_string_equal(rig_to_client(&r), OK);
    assert_true(rig_over(&r));
    rig_close(&r);
}

static void test_ends(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false); /* a body until the end of the connection */
    rig_client(&r, GET);
    rig_server(&r, "HTTP/1.1 200 OK\r\n\r\nab");
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\n2\r\nab\r\n0\r\n\r\n"));
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* cut off: no end is made up */
    rig_client(&r, GET);
    rig_server(&r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(str_ends(rig_to_client(&r), "2\r\nab\r\n"));
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* no answer at all */
    rig_client(&r, GET);
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 502 "));
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* half closed by the client, as nc does */
    rig_client(&r, GET);
    rig_eof(&r, HTTPX_TO_SERVER);
    assert_false(rig_over(&r));
    assert_true(httpx_finished(r.x, HTTPX_TO_SERVER)); /* the server is told: it may be that nobody waits for its answer */
    rig_server(&r, OK);
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\nok"));
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false);
    rig_eof(&r, HTTPX_TO_SERVER);
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* in the middle of a body */
    rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nab");
    rig_eof(&r, HTTPX_TO_SERVER);
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* an early answer, then the server goes */
    rig_client(&r, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nab");
    rig_server(&r, OK);
    assert_false(rig_over(&r));
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(rig_over(&r));
    rig_close(&r);
}

static void test_websocket(void **state) {
    static const char ask[] = "GET /ws HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
                              "Sec-WebSocket-Key: x\r\n\r\n";
    struct rig r;

    rig_open(&r, HTTPX_H1, true, false);
    rig_client(&r, ask);
    assert_true(r.upgrade);
    assert_true(str_ends(rig_to_server(&r), "Sec-WebSocket-Key: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
    rig_clear(&r);
    rig_client(&r, "early");
    assert_string_equal(rig_to_server(&r), "");
    rig_server(&r,
               "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\n\r\n\x81\x01z");
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: y\r\nConnection: Upgrade\r\n"
                                           "Upgrade: websocket\r\n\r\n\x81\x01z");
    assert_string_equal(rig_to_server(&r), "early");
    rig_client(&r, "GET / not HTTP");
    assert_string_equal(rig_to_server(&r), "earlyGET / not HTTP");
    rig_eof(&r, HTTPX_TO_SERVER);
    assert_true(httpx_finished(r.x, HTTPX_TO_SERVER));
    assert_false(httpx_finished(r.x, HTTPX_TO_CLIENT));
    rig_server(&r, "bye");
    assert_true(str_ends(rig_to_client(&r), "zbye"));
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(rig_over(&r));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* the server does not want */
    rig_client(&r, ask);
    rig_server(&r, OK);
    rig_clear(&r);
    rig_client(&r, GET);
    assert_string_equal(rig_to_server(&r), GET);
    rig_close(&r);
}

/* ATTACKS 53: the request goes on as plain HTTP/1.1, which is what a server does that does not know h2c. */
static void test_h2c_is_not_passed(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, false, false);
    rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                   "HTTP2-Settings: AA\r\n\r\n");
    assert_false(r.upgrade);
    assert_string_equal(rig_to_server(&r), GET);
    rig_close(&r);
}

static void test_proxied(void **state) {
    struct rig r;

    rig_open(&r, HTTPX_H1, false, true);
    rig_client(&r, "GET http://EXAMPLE.com/a HTTP/1.1\r\nHost: example.com\r\nProxy-Connection: keep-alive\r\n"
                   "Proxy-Authorization: Basic x\r\n\r\n");
    assert_string_equal(rig_to_server(&r), "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n");
    rig_server(&r, OK);
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    assert_true(rig_over(&r));
    rig_client(&r, "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n");
    assert_int_equal(r.judged, 1);
    rig_close(&r);

    rig_open(&r, HTTPX_H1, false, true);
    rig_client(&r, "GET http://example.com HTTP/1.1\r\nHost: example.com\r\n\r\n");
    assert_true(str_starts(rig_to_server(&r), "GET / HTTP/1.1\r\n"));
    rig_close(&r);

    rig_open(&r, HTTPX_H1, false, true);
    rig_client(&r, GET);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 400"));
    rig_close(&r);
}

/* Nobody reads: what waits stays within its bound, and goes on when there is room. */
static void test_bounded(void **state) {
    CLEANUP(freep) uint8_t *block = calloc(1, 65536);
    struct rig r;
    size_t given = 0;

    rig_open(&r, HTTPX_H1, true, false);
    assert_int_equal(httpx_data(r.x, HTTPX_TO_SERVER, (const uint8_t *)GET, strlen(GET)), 0);
    rig_drain(&r);
    assert_int_equal(httpx_data(r.x, HTTPX_TO_CLIENT, (const uint8_t *)"HTTP/1.1 200 OK\r\n\r\n", 19), 0);
    while (httpx_wants(r.x, HTTPX_TO_CLIENT)) {
        assert_int_equal(httpx_data(r.x, HTTPX_TO_CLIENT, block, 65536), 0);
        given += 65536;
        assert_true(given <= HTTPX_BUFFER + 2 * 65536);
    }
    rig_drain(&r);
    assert_true(httpx_wants(r.x, HTTPX_TO_CLIENT));
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(r.out[HTTPX_TO_CLIENT].len > given);
    rig_close(&r);

    rig_open(&r, HTTPX_H1, true, false); /* refusals are larger than requests */
    r.answer = HTTPX_DENY;
    for (size_t i = 0; httpx_wants(r.x, HTTPX_TO_SERVER); i++) {
        assert_int_equal(httpx_data(r.x, HTTPX_TO_SERVER, (const uint8_t *)GET, strlen(GET)), 0);
        assert_true(i < 10000);
    }
    given = r.judged;
    rig_drain(&r);
    assert_true(r.judged > given); /* the one that waited */
    assert_true(r.out[HTTPX_TO_CLIENT].len < 2 * HTTPX_BUFFER);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_responses), cmocka_unit_test(test_bad_responses), cmocka_unit_test(test_answer_to_nothing),
        cmocka_unit_test(test_ends),      cmocka_unit_test(test_websocket),     cmocka_unit_test(test_h2c_is_not_passed),
        cmocka_unit_test(test_proxied),   cmocka_unit_test(test_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
