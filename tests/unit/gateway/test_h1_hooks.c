/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 through the gate with hooks: bodies that are looked at, collected, covered, rewritten; secrets that are put in. */
#include "gateway/http/httpx_priv.h"
#include "hook_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: example.com\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

static const struct policy_verdict allowed = {.action = RULE_ALLOW};

static void open_hooked(struct rig *r, struct hooked *h) {
    hooked_init(h);
    rig_open_with(r, HTTPX_H1, true, false, &all_hooks);
    r->hooked = h;
}

static void close_hooked(struct rig *r) {
    hooked_done(r->hooked);
    rig_close(r);
}

static void test_placeholder_in_body(void **state) {
    static const struct {
        const char *request;
        const char *pieces[4];
        const char *not_sent; /* never gets there */
    } rows[] = {
        {POST "Content-Length: 13\r\n\r\n", {PLACEHOLDER}, "9"},
        {POST "Content-Length: 13\r\n\r\n", {"ph-01234", "56789"}, "9"},
        {POST "Content-Length: 20\r\n\r\n", {"xx", "xxxph-012345678", "9"}, "9"}, /* before the end */
        {POST CHUNKED, {"d\r\n" PLACEHOLDER "\r\n", "0\r\n\r\n"}, "0\r\n\r\n"},
        {POST CHUNKED, {"6\r\nph-012\r\n", "7\r\n3456789", "\r\n0\r\n\r\n"}, "0\r\n\r\n"},
        {POST CHUNKED, {"3\r\nabc\r\n0\r\n", "X: " PLACEHOLDER "\r\n\r\n"}, "0\r\n"}, /* in a trailer */
        {POST CHUNKED, {"3\r\nabc\r\n0\r\n", "X-" PLACEHOLDER ": 1\r\n\r\n"}, "0\r\n"},
        {POST CHUNKED, {"1a\r\n9876543210-hp and more here\r\n"}, "0\r\n\r\n"},
        {POST CHUNKED, {"14\r\ncGgtMDEyMzQ1Njc4OQ==\r\n"}, "0\r\n\r\n"}, /* base64 */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int collect = 0; collect < 2; collect++) {
            struct hooked h;
            struct rig r;

            open_hooked(&r, &h);
            r.answer = collect ? HTTPX_COLLECT : HTTPX_ALLOW;
            rig_client(&r, rows[i].request);
            for (size_t k = 0; k < 4 && rows[i].pieces[k]; k++)
                rig_client(&r, rows[i].pieces[k]);
            if (!str_starts(rig_to_client(&r), "HTTP/1.1 403 ") || !strstr(rig_to_client(&r), "SECRET_MISPLACED"))
                fail_msg("row %zu: %s", i, rig_to_client(&r));
            assert_true(rig_over(&r));
            if (collect ? r.out[HTTPX_TO_SERVER].len : str_ends(rig_to_server(&r), rows[i].not_sent))
                fail_msg("row %zu: the server got %s", i, rig_to_server(&r));
            assert_int_equal(h.collected, 0);
            assert_int_equal(r.refused, 0); /* the hook knows */
            assert_int_equal(r.answered_status, 403);
            close_hooked(&r);
        }
}

static void test_placeholder_after_answer(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    rig_client(&r, POST CHUNKED "1\r\na\r\n");
    rig_server(&r, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
    rig_clear(&r);
    rig_client(&r, "d\r\n" PLACEHOLDER "\r\n0\r\n\r\n");
    assert_true(rig_over(&r));
    assert_string_equal(rig_to_server(&r), "");
    assert_string_equal(rig_to_client(&r), "");
    close_hooked(&r);
}

static void test_end_is_told_once(void **state) {
    static const char *const rows[] = {
        POST "Content-Length: 3\r\n\r\nabc",
        POST CHUNKED "3\r\nabc\r\n0\r\n\r\n",
        POST CHUNKED "0\r\nX: y\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hooked h;
        struct rig r;

        open_hooked(&r, &h);
        for (const char *c = rows[i]; *c; c++)
            rig_send(&r, HTTPX_TO_SERVER, c, 1);
        assert_int_equal(h.up_ends, 1);
        rig_server(&r, OK);
        assert_int_equal(h.down_ends, 1);
        assert_int_equal(h.ended, 1);
        close_hooked(&r);
    }
}

static void test_collect(void **state) {
    static const struct {
        const char *request, *body, *sent;
    } rows[] = {
        {POST "Content-Length: 5\r\n\r\nhello", "hello", POST "Content-Length: 5\r\n\r\nhello"},
        {POST CHUNKED "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello", POST CHUNKED "5\r\nhello\r\n0\r\n\r\n"},
        {POST CHUNKED "5\r\nhello\r\n0\r\nX: y\r\n\r\n", "hello", POST CHUNKED "5\r\nhello\r\n0\r\nX: y\r\n\r\n"},
        {POST CHUNKED "0\r\n\r\n", "", POST CHUNKED "0\r\n\r\n"},
        {POST "Content-Length: 0\r\n\r\n", "", POST "Content-Length: 0\r\n\r\n"},
        {GET, "", GET},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int at_once = 0; at_once < 2; at_once++) {
            struct hooked h;
            struct rig r;

            open_hooked(&r, &h);
            r.answer = HTTPX_COLLECT;
            h.decide_at_once = at_once;
            for (const char *c = rows[i].request; *c; c++) {
                assert_int_equal(h.collected, 0);
                assert_int_equal(r.out[HTTPX_TO_SERVER].len, 0);
                assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, c, 1), 0);
            }
            assert_int_equal(h.collected, 1);
            assert_string_equal(buf_str(&h.body), rows[i].body);
            rig_client(&r, GET); /* waits, whatever happens */
            if (!at_once) {
                assert_string_equal(rig_to_server(&r), "");
                assert_true(httpx_busy(r.x));
                httpx_decide(r.x, 1, &allowed);
                rig_drain(&r);
            }
            assert_string_equal(rig_to_server(&r), rows[i].sent);
            rig_clear(&r);
            h.decide_at_once = true;
            rig_server(&r, OK);
            assert_string_equal(rig_to_client(&r), OK);
            assert_string_equal(rig_to_server(&r), GET);
            assert_int_equal(h.collected, 2);
            close_hooked(&r);
        }
}

/* Bytes of pipelined requests come in one piece; decisions from within collected(). */
static void test_collect_pipelined(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    h.decide_at_once = true;
    rig_client(&r, POST "Content-Length: 1\r\n\r\na" POST "Content-Length: 1\r\n\r\nb" POST "Content-Length: 1\r\n\r\nc");
    assert_string_equal(rig_to_server(&r), POST "Content-Length: 1\r\n\r\na");
    rig_server(&r, OK);
    rig_server(&r, OK);
    assert_int_equal(h.collected, 3);
    assert_true(str_ends(rig_to_server(&r), "\r\n\r\na" POST "Content-Length: 1\r\n\r\nb" POST "Content-Length: 1\r\n\r\nc"));
    close_hooked(&r);
}

static void test_collect_refused(void **state) {
    struct policy_verdict v;
    struct hooked h;
    struct rig r;

    policy_refuse(POLICY_SECRET_UNAVAILABLE, "example.com", NULL, &v);
    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST CHUNKED "1\r\na\r\n0\r\n\r\n");
    httpx_decide(r.x, 1, &v);
    rig_drain(&r);
    assert_non_null(strstr(rig_to_client(&r), "SECRET_UNAVAILABLE"));
    assert_non_null(strstr(rig_to_client(&r), "Connection: keep-alive")); /* the body was read: the next request has a place */
    assert_int_equal(h.ended, 1);
    r.answer = HTTPX_ALLOW;
    rig_client(&r, POST "Content-Length: 1\r\n\r\nb");
    assert_string_equal(rig_to_server(&r), POST "Content-Length: 1\r\n\r\nb"); /* nothing of the first */
    close_hooked(&r);

    open_hooked(&r, &h); /* before all of it came */
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST CHUNKED "1\r\na\r\n");
    httpx_decide(r.x, 1, &v);
    rig_drain(&r);
    assert_non_null(strstr(rig_to_client(&r), "Connection: close"));
    assert_true(rig_over(&r));
    close_hooked(&r);

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST CHUNKED "1\r\na\r\n");
    httpx_decide(r.x, 1, &allowed); /* the rest is passed on as it comes */
    rig_drain(&r);
    rig_client(&r, "1\r\nb\r\n0\r\n\r\n");
    assert_string_equal(rig_to_server(&r), POST CHUNKED "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    assert_int_equal(h.collected, 0);
    close_hooked(&r);

    open_hooked(&r, &h); /* the client goes in the middle */
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST CHUNKED "1\r\na\r\n");
    rig_eof(&r, HTTPX_TO_SERVER);
    assert_true(rig_over(&r));
    assert_int_equal(h.collected, 0);
    assert_string_equal(rig_to_server(&r), "");
    close_hooked(&r);
}

static void test_collect_limits(void **state) {
    CLEANUP(freep) char *block = calloc(1, HTTPX_COLLECT_MAX);
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST "Content-Length: 4194305\r\n\r\n");
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 413 "));
    assert_int_equal(r.refused_status, 413);
    close_hooked(&r);

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST CHUNKED "400000\r\n");
    assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, block, HTTPX_COLLECT_MAX), 0);
    rig_client(&r, "\r\n1\r\n");
    assert_string_equal(rig_to_client(&r), "");
    rig_client(&r, "x");
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 413 "));
    assert_string_equal(rig_to_server(&r), "");
    close_hooked(&r);

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST "Content-Length: 4194304\r\n\r\n");
    assert_int_equal(rig_send(&r, HTTPX_TO_SERVER, block, HTTPX_COLLECT_MAX), 0);
    assert_int_equal(h.body.len, HTTPX_COLLECT_MAX);
    httpx_decide(r.x, 1, &allowed);
    rig_drain(&r);
    assert_true(r.out[HTTPX_TO_SERVER].len > HTTPX_COLLECT_MAX);
    close_hooked(&r);

    open_hooked(&r, &h); /* the rule's own limit */
    r.answer = HTTPX_COLLECT;
    r.max_body = 3;
    rig_client(&r, POST CHUNKED "4\r\nabcd\r\n0\r\n\r\n");
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 413 "));
    close_hooked(&r);
}

static void test_collect_continue(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_COLLECT;
    rig_client(&r, POST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 100 Continue\r\n\r\n"); /* the server cannot say it */
    rig_client(&r, "ab");
    httpx_decide(r.x, 1, &allowed);
    rig_drain(&r);
    assert_string_equal(rig_to_server(&r), POST "Content-Length: 2\r\n\r\nab");
    close_hooked(&r);

    open_hooked(&r, &h); /* otherwise the server says it, and the hook sees it */
    rig_client(&r, POST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    rig_server(&r, "HTTP/1.1 100 Continue\r\nX: " VALUE "\r\n\r\n");
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 100 Continue\r\nX: " STARS "\r\n\r\n");
    assert_int_equal(h.last_head, 100);
    rig_client(&r, "ab");
    rig_clear(&r);
    rig_server(&r, OK);
    assert_string_equal(rig_to_client(&r), OK);
    close_hooked(&r);
}

static void test_own_answer(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_WAIT;
    rig_client(&r, GET);
    httpx_answer(r.x, 2, 200, "text/plain", "no", 2); /* another one */
    httpx_answer(r.x, 1, 200, "application/json", "{}", 2);
    rig_drain(&r);
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
                                           "Cache-Control: no-store\r\nConnection: keep-alive\r\n\r\n{}");
    assert_int_equal(r.answered_status, 200);
    assert_int_equal(h.ended, 1);
    assert_null(httpx_head(r.x, 1));
    httpx_answer(r.x, 1, 200, "text/plain", "no", 2); /* once is enough */
    rig_clear(&r);
    rig_client(&r, POST "Content-Length: 3\r\n\r\nabc"); /* the body of this one is thrown away */
    httpx_answer(r.x, 2, 201, "text/plain", "x", 1);
    rig_drain(&r);
    assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 201 Created\r\n"));
    rig_clear(&r);
    rig_client(&r, "HEAD / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    httpx_answer(r.x, 3, 200, "text/plain", "body", 4);
    rig_drain(&r);
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\n"));
    assert_non_null(strstr(rig_to_client(&r), "Content-Length: 4\r\n"));
    assert_string_equal(rig_to_server(&r), "");
    assert_int_equal(h.down_ends, 0); /* our own words */
    close_hooked(&r);
}

static void test_answers(void **state) {
    static const struct {
        const char *request, *answer, *want;
        bool hold;
    } rows[] = {
        {GET, "HTTP/1.1 200 OK\r\nX: a" VALUE "b\r\nContent-Length: 17\r\n\r\n<" VALUE ">",
         "HTTP/1.1 200 OK\r\nX: a" STARS "b\r\nContent-Length: 17\r\n\r\n<" STARS ">", false},
        {GET, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal", false},
        {GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true},
        {GET, "HTTP/1.1 200 OK\r\n" CHUNKED "1\r\na\r\n0\r\nT: " VALUE "\r\n\r\n",
         "HTTP/1.1 200 OK\r\n" CHUNKED "1\r\na\r\n0\r\nT: " STARS "\r\n\r\n", true},
        {GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
        {GET, "HTTP/1.1 204 None\r\n\r\n", "HTTP/1.1 204 None\r\n\r\n", true},
        {GET, "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", false},
        {"HEAD / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
         "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", true},
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" VALUE,
         "HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n" STARS, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hooked h;
        struct rig r;

        open_hooked(&r, &h);
        h.hold = rows[i].hold;
        rig_client(&r, rows[i].request);
        assert_int_equal(rig_server(&r, rows[i].answer), 0);
        if (!str_eq(rig_to_client(&r), rows[i].want))
            fail_msg("row %zu: %s", i, rig_to_client(&r));
        close_hooked(&r);
    }
}

/* All that the client got, without the framing. */
static void unchunk(const char *text, struct buf *ret) {
    const char *p = strstr(text, "\r\n\r\n") + 4;

    for (;;) {
        char *end;
        unsigned long n = strtoul(p, &end, 16);

        if (n == 0)
            return;
        buf_add(ret, end + 2, n);
        p = end + 2 + n + 2;
    }
}

static void test_value_in_pieces(void **state) {
    static const char text[] = "event: one\n\ndata: " VALUE "\n\nreal-value-471" VALUE "end real-val";
    static const char want[] = "event: one\n\ndata: " STARS "\n\nreal-value-471" STARS "end real-val";

    for (size_t cut = 1; cut < sizeof text; cut++) {
        CLEANUP(buf_done) struct buf got = BUF_INIT(HOOKED_MAX);
        struct hooked h;
        char piece[200];
        struct rig r;

        open_hooked(&r, &h);
        rig_client(&r, GET);
        rig_server(&r, "HTTP/1.1 200 OK\r\n" CHUNKED);
        snprintf(piece, sizeof piece, "%zx\r\n%.*s\r\n", cut, (int)cut, text);
        rig_server(&r, piece);
        if (cut < sizeof text - 1) {
            snprintf(piece, sizeof piece, "%zx\r\n%s\r\n", sizeof text - 1 - cut, text + cut);
            rig_server(&r, piece);
        }
        rig_server(&r, "0\r\n\r\n");
        unchunk(rig_to_client(&r), &got);
        assert_string_equal(buf_str(&got), want);
        assert_false(rig_over(&r));
        close_hooked(&r);
    }
}

static void test_until_the_end(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    rig_client(&r, GET);
    rig_server(&r, "HTTP/1.1 200 OK\r\n\r\nab real-");
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\n")); /* all is held, whatever it is, */
    assert_false(httpx_pause(r.x));
    rig_drain(&r);
    assert_true(str_ends(rig_to_client(&r), "\r\n\r\n8\r\nab real-\r\n")); /* until the clock says so */
    rig_server(&r, "value-4711 b");
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_true(str_ends(rig_to_client(&r), "8\r\nab real-\r\nc\r\n********** b\r\n0\r\n\r\n"));
    assert_int_equal(h.down_ends, 1);
    close_hooked(&r);
}

static void test_answer_refused(void **state) {
    static const struct {
        const char *answer;
        int status;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
        {"HTTP/1.1 103 Hints\r\n\r\n", 103},
        {"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 101},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hooked h;
        struct rig r;

        open_hooked(&r, &h);
        h.refuse_answer = rows[i].status;
        rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_int_equal(rig_server(&r, rows[i].answer), -EPROTO);
        assert_true(str_starts(rig_to_client(&r), "HTTP/1.1 502 "));
        assert_non_null(strstr(rig_to_client(&r), policy_codes[POLICY_CANNOT_LOOK].name));
        assert_true(rig_over(&r));
        close_hooked(&r);
    }
    {
        struct hooked h;
        struct rig r;

        open_hooked(&r, &h);
        h.refuse_answer = -1;
        rig_client(&r, GET);
        assert_int_equal(rig_server(&r, "HTTP/1.1 200 OK\r\n" CHUNKED "1\r\na\r\n0\r\nX: y\r\n\r\n"), -EPROTO);
        assert_true(str_ends(rig_to_client(&r), "1\r\na\r\n")); /* cut off: there is no end */
        assert_true(rig_over(&r));
        close_hooked(&r);
    }
}

static void test_tunnel(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    rig_client(&r, GET); /* an answer with a length before it */
    rig_server(&r, OK);
    rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    rig_server(&r, "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    rig_clear(&r);
    rig_server(&r, "a real-val");
    assert_string_equal(rig_to_client(&r), "");
    httpx_pause(r.x);
    rig_drain(&r);
    assert_string_equal(rig_to_client(&r), "a real-val");
    rig_server(&r, "ue-4711 b real");
    assert_string_equal(rig_to_client(&r), "a real-val");
    rig_eof(&r, HTTPX_TO_CLIENT);
    assert_string_equal(rig_to_client(&r), "a real-val******* b real");
    rig_client(&r, "fine");
    assert_string_equal(rig_to_server(&r), "fine");
    assert_false(rig_over(&r));
    rig_client(&r, "not " PLACEHOLDER);
    assert_string_equal(rig_to_server(&r), "fine");
    assert_true(rig_over(&r));
    assert_int_equal(h.down_ends, 2);
    close_hooked(&r);
}

/* max_body counts what is sent over a WebSocket, too. */
static void test_tunnel_limit(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_WAIT;
    rig_client(&r, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    httpx_decide(r.x, 1, &(struct policy_verdict){.action = RULE_ALLOW, .max_body = 8});
    rig_server(&r, "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    rig_clear(&r);
    rig_client(&r, "12345678");
    assert_string_equal(rig_to_server(&r), "12345678");
    assert_false(rig_over(&r));
    rig_client(&r, "9");
    assert_string_equal(rig_to_server(&r), "12345678");
    assert_true(rig_over(&r));
    assert_int_equal(r.refused, 1);
    close_hooked(&r);
}

static void test_secret_put_in(void **state) {
    struct hooked h;
    struct rig r;

    open_hooked(&r, &h);
    r.answer = HTTPX_WAIT;
    rig_client(&r, "GET /a?key=" PLACEHOLDER " HTTP/1.1\r\nHost: example.com\r\nauthorization: " PLACEHOLDER
                   "\r\nX: y\r\nAuthorization: two\r\n\r\n");
    assert_null(httpx_head(r.x, 2));
    assert_int_equal(http_head_set_secret(httpx_head(r.x, 1), "Authorization", "no\r\nX: y", 8), -EINVAL);
    assert_int_equal(http_head_set_secret(httpx_head(r.x, 1), "Authorization", "first", 5), 0);
    assert_int_equal(http_head_set_secret(httpx_head(r.x, 1), "Authorization", "Bearer " VALUE, 22), 0);
    assert_int_equal(httpx_set_query(r.x, 2, "?a"), -ENOENT);
    assert_int_equal(httpx_set_query(r.x, 1, "a"), -EINVAL);
    assert_int_equal(httpx_set_query(r.x, 1, "?a b"), -EINVAL);
    assert_int_equal(httpx_set_query(r.x, 1, "?a\r\nX: y"), -EINVAL);
    assert_int_equal(httpx_set_query(r.x, 1, "?key=" VALUE), 0);
    httpx_decide(r.x, 1, &allowed);
    rig_drain(&r);
    assert_string_equal(rig_to_server(&r),
                        "GET /a?key=" VALUE " HTTP/1.1\r\nHost: example.com\r\nX: y\r\nAuthorization: Bearer " VALUE "\r\n\r\n");
    rig_server(&r, "HTTP/1.1 200 " VALUE "\r\nContent-Length: 0\r\n\r\n"); /* where no hook sees it */
    assert_string_equal(rig_to_client(&r), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    rig_clear(&r);
    rig_client(&r, "GET /b?q HTTP/1.1\r\nHost: example.com\r\n\r\n"); /* nothing of it is left for the next one */
    assert_int_equal(httpx_set_query(r.x, 2, ""), 0);
    httpx_decide(r.x, 2, &allowed);
    rig_drain(&r);
    assert_string_equal(rig_to_server(&r), "GET /b HTTP/1.1\r\nHost: example.com\r\n\r\n");
    close_hooked(&r);
}

/* Refused after all: the value is gone, and the refusal does not name it. */
static void test_secret_then_refused(void **state) {
    struct policy_verdict v;
    struct hooked h;
    struct rig r;

    policy_refuse(POLICY_SECRET_UNAVAILABLE, "example.com", NULL, &v);
    open_hooked(&r, &h);
    r.answer = HTTPX_WAIT;
    rig_client(&r, "GET /a?b HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n");
    assert_int_equal(http_head_set_secret(httpx_head(r.x, 1), "X", VALUE, strlen(VALUE)), 0);
    assert_int_equal(httpx_set_query(r.x, 1, "?" VALUE), 0);
    httpx_decide(r.x, 1, &v);
    rig_drain(&r);
    assert_null(strstr(rig_to_client(&r), VALUE));
    assert_string_equal(rig_to_server(&r), "");
    close_hooked(&r);
}

static void test_queue_zeroes(void **state) {
    struct http_queue q;
    const char *bytes;

    http_queue_init(&q);
    http_queue_add(&q, "before", 6);
    buf_adds(http_queue_secret_buf(&q, 6), "secret");
    http_queue_secret_end(&q);
    http_queue_add(&q, "behind", 6);
    bytes = (const char *)http_queue_bytes(&q);
    http_queue_drop(&q, 9);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0retbehind", 18);
    http_queue_drop(&q, 5);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0\0\0\0behind", 18);
    assert_int_equal(q.secret, 0);
    assert_memory_equal(http_queue_bytes(&q), "hind", 4);
    http_queue_done(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placeholder_in_body), cmocka_unit_test(test_placeholder_after_answer),
        cmocka_unit_test(test_end_is_told_once),    cmocka_unit_test(test_collect),
        cmocka_unit_test(test_collect_pipelined),   cmocka_unit_test(test_collect_refused),
        cmocka_unit_test(test_collect_limits),      cmocka_unit_test(test_collect_continue),
        cmocka_unit_test(test_own_answer),          cmocka_unit_test(test_answers),
        cmocka_unit_test(test_value_in_pieces),     cmocka_unit_test(test_until_the_end),
        cmocka_unit_test(test_answer_refused),      cmocka_unit_test(test_tunnel),
        cmocka_unit_test(test_tunnel_limit),        cmocka_unit_test(test_secret_put_in),
        cmocka_unit_test(test_secret_then_refused), cmocka_unit_test(test_queue_zeroes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
