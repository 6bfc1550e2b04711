/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 through the gate with hooks: bodies that are looked at, collected, covered, rewritten; secrets that are put in. */
#include "gateway/http/h2_priv.h"
#include "hook_rig.h"
#include "http2_rig.h"

static const struct policy_verdict allowed = {.action = RULE_ALLOW};

static void open_hooked(struct net *n, struct hooked *h) {
    hooked_init(h);
    net_open_with(n, &all_hooks);
    n->r.hooked = h;
}

static void close_hooked(struct net *n) {
    hooked_done(n->r.hooked);
    net_close(n);
}

static const char *head_of(struct peer *p, int32_t id) {
    return stream(p, id)->head;
}

static const char *body_of(struct peer *p, int32_t id) {
    return buf_str(&stream(p, id)->body);
}

static void test_placeholder_in_body(void **state) {
    static const struct {
        const char *one, *two;
        bool length, trailer;
        enum httpx_answer answer;
    } rows[] = {
        {PLACEHOLDER, NULL, false, false, HTTPX_ALLOW},
        {"ab ph-01234", "56789", false, false, HTTPX_ALLOW},
        {"ab ph-01234", "56789", true, false, HTTPX_ALLOW},
        {"ab", "", false, true, HTTPX_ALLOW},
        {PLACEHOLDER, NULL, false, false, HTTPX_WAIT},
        {"ab ph-01234", "56789", true, false, HTTPX_WAIT},
        {"ab ph-01234", "56789", true, false, HTTPX_COLLECT},
        {"ab", "", false, true, HTTPX_COLLECT},
        {"ab", "", false, true, HTTPX_WAIT},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool open = rows[i].answer == HTTPX_ALLOW && rows[i].two; /* else the server never hears of it */
        struct hooked h;
        struct net n;
        int32_t id;

        open_hooked(&n, &h);
        n.r.answer = rows[i].answer;
        id = ask(&n, (nghttp2_nv[]){START("POST", "/"), NV("content-length", "16")}, rows[i].length ? 5 : 4, rows[i].one,
                 strlen(rows[i].one), rows[i].two != NULL);
        if (rows[i].trailer)
            stream(&n.client, id)->trailer = (nghttp2_nv)NV("x", PLACEHOLDER);
        if (rows[i].two)
            more(&n, &n.client, id, rows[i].two, false);
        if (!str_starts(head_of(&n.client, id), ":status=403\n"))
            fail_msg("row %zu: %s", i, head_of(&n.client, id));
        assert_non_null(strstr(head_of(&n.client, id), "SECRET_MISPLACED"));
        assert_false(stream(&n.server, 1)->end);
        assert_int_equal(stream(&n.server, 1)->begun, open);
        if (open)
            assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
        assert_null(strstr(body_of(&n.server, 1), PLACEHOLDER));
        assert_int_equal(h.collected, 0);
        httpx_decide(n.r.x, (uint32_t)id, &allowed); /* too late */
        pump(&n);
        assert_int_equal(stream(&n.server, 1)->begun, open);
        assert_false(httpx_busy(n.r.x));
        assert_int_equal(h.ended, 1);
        n.r.answer = HTTPX_ALLOW;
        id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false); /* the connection lives */
        assert_int_equal(n.r.judged, 2);
        close_hooked(&n);
    }
}

/* A server that counts bytes must not have all of them before the hook has seen the end. */
static void test_last_byte_waits(void **state) {
    struct hooked h;
    struct net n;
    int32_t id;

    open_hooked(&n, &h);
    id = ask(&n, FIELDS(START("POST", "/"), NV("content-length", "4")), "abcd", 4, true);
    assert_string_equal(body_of(&n.server, 1), "abc");
    more(&n, &n.client, id, "", false);
    assert_string_equal(body_of(&n.server, 1), "abcd");
    assert_true(stream(&n.server, 1)->end);
    assert_int_equal(h.up_ends, 1);
    ask(&n, FIELDS(START("POST", "/")), "abcd", 4, true); /* without a length nothing waits: gRPC */
    assert_string_equal(body_of(&n.server, 3), "abcd");
    close_hooked(&n);
}

static void test_placeholder_after_answer(void **state) {
    struct hooked h;
    struct net n;
    int32_t id;

    open_hooked(&n, &h);
    id = ask(&n, FIELDS(START("POST", "/")), "abc", 3, true);
    answer(&n, 1, FIELDS(NV(":status", "200")), "ok", 2, true);
    more(&n, &n.client, id, PLACEHOLDER, false);
    assert_true(stream(&n.client, id)->closed && stream(&n.server, 1)->closed);
    assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
    assert_string_equal(body_of(&n.server, 1), "abc");
    assert_false(httpx_busy(n.r.x));
    close_hooked(&n);
}

static void test_collect(void **state) {
    for (int at_once = 0; at_once < 2; at_once++) {
        struct hooked h;
        struct net n;
        int32_t one, two, three;

        open_hooked(&n, &h);
        n.r.answer = HTTPX_COLLECT;
        h.decide_at_once = at_once;
        one = ask(&n, FIELDS(START("POST", "/a")), "hel", 3, true);
        two = ask(&n, FIELDS(START("POST", "/b")), "other", 5, true);
        assert_int_equal(h.collected, 0);
        stream(&n.client, one)->trailer = (nghttp2_nv)NV("x", "y");
        more(&n, &n.client, one, "lo", false);
        assert_int_equal(h.collected, 1);
        assert_string_equal(buf_str(&h.body), "hello");
        if (!at_once) {
            assert_int_equal(stream(&n.server, 1)->begun, 0);
            httpx_decide(n.r.x, (uint32_t)one, &allowed);
            pump(&n);
        }
        assert_string_equal(body_of(&n.server, 1), "hello");
        assert_true(stream(&n.server, 1)->end);
        assert_non_null(strstr(head_of(&n.server, 1), ":path=/a\n"));
        assert_non_null(strstr(head_of(&n.server, 1), "x=y\n"));
        more(&n, &n.client, two, "", false);
        assert_int_equal(h.collected, 2);
        assert_string_equal(buf_str(&h.body), "other");
        three = ask(&n, FIELDS(START("GET", "/c")), NULL, 0, false); /* no body: at once */
        assert_int_equal(h.collected, 3);
        assert_string_equal(buf_str(&h.body), "");
        httpx_decide(n.r.x, (uint32_t)three, &allowed);
        pump(&n);
        assert_true(stream(&n.server, at_once ? 5 : 3)->end);
        close_hooked(&n);
    }
}

/* More than the window: it opens though nothing goes on yet, and what is refused gives it back. */
static void test_collect_large(void **state) {
    CLEANUP(freep) char *block = calloc(1, HTTPX_COLLECT_MAX + 1);
    struct hooked h;
    struct net n;
    int32_t id;

    memset(block, 'a', HTTPX_COLLECT_MAX + 1);
    open_hooked(&n, &h);
    n.r.answer = HTTPX_COLLECT;
    for (int i = 0; i < 6; i++) {
        id = ask(&n, FIELDS(START("POST", "/"), NV("content-length", "4194304")), block, HTTPX_COLLECT_MAX, false);
        assert_int_equal(h.collected, i + 1);
        assert_int_equal(h.body.len, HTTPX_COLLECT_MAX);
        httpx_decide(n.r.x, (uint32_t)id, &allowed);
        pump(&n);
        assert_int_equal(stream(&n.server, 2 * i + 1)->body.len, HTTPX_COLLECT_MAX);
        answer(&n, 2 * i + 1, FIELDS(NV(":status", "200")), "ok", 2, false);
        assert_string_equal(body_of(&n.client, id), "ok");
    }
    id = ask(&n, FIELDS(START("POST", "/"), NV("content-length", "4194305")), block, 1, true);
    assert_true(str_starts(head_of(&n.client, id), ":status=413\n"));
    id = ask(&n, FIELDS(START("POST", "/?" PLACEHOLDER)), block, HTTPX_COLLECT_MAX + 1, false);
    assert_true(str_starts(head_of(&n.client, id), ":status=413\n"));
    assert_int_equal(n.r.refused, 2);
    assert_int_equal(((struct h2 *)n.r.x)->collected, 0);
    assert_int_equal(h.collected, 6);
    n.r.answer = HTTPX_ALLOW;
    id = ask(&n, FIELDS(START("POST", "/")), block, HTTPX_COLLECT_MAX, false); /* the window is as before */
    assert_int_equal(stream(&n.server, 13)->body.len, HTTPX_COLLECT_MAX);
    close_hooked(&n);
}

static void test_collect_many(void **state) {
    CLEANUP(freep) char *block = calloc(1, HTTPX_COLLECT_MAX);
    struct hooked h;
    struct net n;
    size_t refused = 0;

    open_hooked(&n, &h);
    n.r.answer = HTTPX_COLLECT;
    for (int i = 0; i < 6; i++) {
        int32_t id = ask(&n, FIELDS(START("POST", "/")), block, HTTPX_COLLECT_MAX, true);

        refused += str_starts(head_of(&n.client, id), ":status=413\n");
        assert_true(((struct h2 *)n.r.x)->collected <= H2_COLLECT_MAX);
    }
    assert_int_equal(refused, 2);
    close_hooked(&n);
}

static void test_collect_continue(void **state) {
    struct hooked h;
    struct net n;
    int32_t id;

    open_hooked(&n, &h);
    n.r.answer = HTTPX_COLLECT;
    id = ask(&n, FIELDS(START("POST", "/"), NV("expect", "100-continue")), "", 0, true);
    assert_string_equal(head_of(&n.client, id), ":status=100\n");
    more(&n, &n.client, id, "body", false);
    httpx_decide(n.r.x, (uint32_t)id, &allowed);
    pump(&n);
    assert_null(strstr(head_of(&n.server, 1), "expect"));
    answer(&n, 1, FIELDS(NV(":status", "200")), "ok", 2, false);
    assert_string_equal(head_of(&n.client, id), ":status=100\n:status=200\n");
    assert_string_equal(body_of(&n.client, id), "ok");
    close_hooked(&n);
}

static void test_own_answer(void **state) {
    struct hooked h;
    struct net n;
    int32_t one, two, three;

    open_hooked(&n, &h);
    n.r.answer = HTTPX_WAIT;
    one = ask(&n, FIELDS(START("POST", "/")), "abc", 3, true);
    two = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    three = ask(&n, FIELDS(START("HEAD", "/")), NULL, 0, false);
    httpx_answer(n.r.x, (uint32_t)two, 200, "application/json", "{}", 2);
    httpx_answer(n.r.x, (uint32_t)one, 201, "text/plain", "x", 1);
    httpx_answer(n.r.x, (uint32_t)three, 200, "text/plain", "xy", 2);
    httpx_answer(n.r.x, (uint32_t)two, 200, "text/plain", "again", 5);
    httpx_answer(n.r.x, 99, 200, "text/plain", "x", 1);
    pump(&n);
    assert_string_equal(head_of(&n.client, two), ":status=200\ncontent-type=application/json\ncontent-length=2\n"
                                                 "cache-control=no-store\n");
    assert_string_equal(body_of(&n.client, two), "{}");
    assert_true(stream(&n.client, two)->closed);
    assert_true(str_starts(head_of(&n.client, one), ":status=201\n"));
    assert_true(stream(&n.client, three)->end);
    assert_string_equal(body_of(&n.client, three), "");
    assert_null(httpx_head(n.r.x, (uint32_t)one));
    more(&n, &n.client, one, "rest", false);
    assert_true(stream(&n.client, one)->closed);
    assert_int_equal(h.ended, 3);
    assert_int_equal(h.down_ends, 0);
    assert_false(httpx_busy(n.r.x));
    assert_int_equal(stream(&n.server, 1)->begun, 0);
    close_hooked(&n);
}

static void test_value_in_pieces(void **state) {
    static const char text[] = "data: " VALUE "\n\nreal-value-471" VALUE "end real-val";
    static const char want[] = "data: " STARS "\n\nreal-value-471" STARS "end real-val";
    static char piece[sizeof text];

    for (size_t cut = 1; cut < sizeof text; cut++) {
        struct hooked h;
        struct net n;
        int32_t id;

        open_hooked(&n, &h);
        id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
        answer(&n, 1, FIELDS(NV(":status", "200"), NV("a", VALUE)), text, cut, true);
        snprintf(piece, sizeof piece, "%s", text + cut);
        stream(&n.server, 1)->trailer = (nghttp2_nv)NV("t", VALUE);
        more(&n, &n.server, 1, piece, false);
        assert_string_equal(head_of(&n.client, id), ":status=200\na=" STARS "\nt=" STARS "\n");
        assert_string_equal(body_of(&n.client, id), want);
        assert_true(stream(&n.client, id)->closed);
        assert_int_equal(stream(&n.client, id)->code, 0);
        assert_int_equal(h.down_ends, 1);
        close_hooked(&n);
    }
}

/* All is held, whatever it is, until the clock says so; a value that goes on then is covered from there. */
static void test_events(void **state) {
    struct hooked h;
    struct net n;
    int32_t id;

    open_hooked(&n, &h);
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    answer(&n, 1, FIELDS(NV(":status", "200")), "data: 1\n\n", 9, true);
    assert_string_equal(body_of(&n.client, id), "");
    more(&n, &n.server, 1, "real-v", true);
    assert_string_equal(body_of(&n.client, id), "");
    assert_false(httpx_pause(n.r.x));
    pump(&n);
    assert_string_equal(body_of(&n.client, id), "data: 1\n\nreal-v");
    more(&n, &n.server, 1, "alue-4711\n\n", false);
    assert_string_equal(body_of(&n.client, id), "data: 1\n\nreal-v*********\n\n");
    close_hooked(&n);
}

static void test_hold(void **state) {
    CLEANUP(freep) char *block = calloc(1, 4 * H2_WINDOW + 1);
    struct hooked h;
    struct net n;
    int32_t id;

    memset(block, 'a', 4 * H2_WINDOW);
    open_hooked(&n, &h);
    h.hold = true;
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    answer(&n, 1, FIELDS(NV(":status", "200"), NV("content-length", "3")), "abc", 3, false);
    assert_string_equal(head_of(&n.client, id), ":status=200\ncontent-length=3\n");
    assert_string_equal(body_of(&n.client, id), "abc");
    for (int i = 0; i < 2; i++) { /* what the hook keeps does not close the windows, neither the stream's nor the connection's */
        id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
        answer(&n, 3 + 2 * i, FIELDS(NV(":status", "200")), block, 4 * H2_WINDOW, false);
        assert_int_equal(stream(&n.client, id)->body.len, 4 * H2_WINDOW);
    }
    id = ask(&n, FIELDS(START("HEAD", "/")), NULL, 0, false);
    answer(&n, 7, FIELDS(NV(":status", "200"), NV("content-length", "3")), NULL, 0, false);
    assert_string_equal(head_of(&n.client, id), ":status=200\ncontent-length=3\n");
    assert_true(stream(&n.client, id)->closed);
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    answer(&n, 9, FIELDS(NV(":status", "304")), NULL, 0, false);
    assert_true(stream(&n.client, id)->closed);
    assert_int_equal(h.down_ends, 3);
    close_hooked(&n);
}

/* A client that does not read stops its server as without hooks, and all comes in the end. */
static void test_flow_control(void **state) {
    CLEANUP(freep) char *block = calloc(1, 2 * H2_WINDOW + 1);
    struct hooked h;
    struct net n;
    int32_t id;

    memset(block, 'r', 2 * H2_WINDOW); /* each may be the beginning of a value */
    open_hooked(&n, &h);
    n.client.no_consume = true;
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    answer(&n, 1, FIELDS(NV(":status", "200")), block, 2 * H2_WINDOW, false);
    assert_true(stream(&n.server, 1)->sent <= 65535 + H2_STREAM_WINDOW);
    n.client.no_consume = false;
    nghttp2_session_consume(n.client.session, id, stream(&n.client, id)->body.len);
    pump(&n);
    assert_int_equal(stream(&n.client, id)->body.len, 2 * H2_WINDOW);
    close_hooked(&n);
}

static void test_answer_refused(void **state) {
    struct hooked h;
    struct net n;
    int32_t id;

    open_hooked(&n, &h);
    h.refuse_answer = 200;
    id = ask(&n, FIELDS(START("POST", "/")), "abc", 3, true);
    answer(&n, 1, FIELDS(NV(":status", "200"), NV("x", "y")), "the server's words", 18, false);
    assert_true(str_starts(head_of(&n.client, id), ":status=502\n"));
    assert_null(strstr(body_of(&n.client, id), "the server's words"));
    assert_int_equal(stream(&n.server, 1)->code, NGHTTP2_CANCEL);
    more(&n, &n.client, id, "rest", false);
    assert_true(stream(&n.client, id)->closed);
    h.refuse_answer = 103;
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    assert_int_equal(nghttp2_submit_headers(n.server.session, 0, 3, NULL, FIELDS(NV(":status", "103")), NULL), 0);
    pump(&n);
    assert_true(str_starts(head_of(&n.client, id), ":status=502\n"));
    h.refuse_answer = -1;
    id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
    stream(&n.server, 5)->trailer = (nghttp2_nv)NV("x", "y");
    answer(&n, 5, FIELDS(NV(":status", "200")), "abc", 3, false);
    assert_true(stream(&n.client, id)->closed && !stream(&n.client, id)->end);
    assert_false(httpx_busy(n.r.x));
    assert_int_equal(h.ended, 3);
    close_hooked(&n);
}

static void test_secret_put_in(void **state) {
    struct hooked h;
    struct net n;
    int32_t one, two;

    open_hooked(&n, &h);
    n.r.answer = HTTPX_WAIT;
    one = ask(&n, FIELDS(START("GET", "/x/../a?key=" PLACEHOLDER), NV("authorization", PLACEHOLDER)), NULL, 0, false);
    two = ask(&n, FIELDS(START("GET", "/b?q")), NULL, 0, false); /* several wait at once */
    assert_int_equal(httpx_set_query(n.r.x, 99, "?a"), -ENOENT);
    assert_int_equal(httpx_set_query(n.r.x, (uint32_t)one, "a"), -EINVAL);
    assert_int_equal(httpx_set_query(n.r.x, (uint32_t)one, "?key=" VALUE), 0);
    assert_int_equal(http_head_set_secret(httpx_head(n.r.x, (uint32_t)one), "Authorization", "Bearer " VALUE, 22), 0);
    httpx_decide(n.r.x, (uint32_t)two, &allowed);
    httpx_decide(n.r.x, (uint32_t)one, &allowed);
    pump(&n);
    assert_string_equal(head_of(&n.server, 1), ":method=GET\n:scheme=https\n:authority=example.com\n:path=/b?q\n");
    assert_string_equal(head_of(&n.server, 3), ":method=GET\n:scheme=https\n:authority=example.com\n:path=/a?key=" VALUE "\n"
                                               "authorization=Bearer " VALUE "\n");
    assert_int_equal(((struct h2 *)n.r.x)->telling, 0);
    assert_int_equal(n.r.out[HTTPX_TO_SERVER].len, 0);
    close_hooked(&n);
}

/* Sent twice, it is written in full twice: it is in no table of the connection. */
static void test_secret_is_not_indexed(void **state) {
    size_t len[2];

    for (int secret = 0; secret < 2; secret++) {
        struct hooked h;
        struct net n;

        open_hooked(&n, &h);
        n.r.answer = HTTPX_WAIT;
        for (int i = 0; i < 2; i++) {
            int32_t id = ask(&n, FIELDS(START("GET", "/")), NULL, 0, false);
            struct http_head *head = httpx_head(n.r.x, (uint32_t)id);
            const uint8_t *p;

            assert_int_equal((secret ? http_head_set_secret : http_head_set)(head, "x-api-key", VALUE, strlen(VALUE)), 0);
            httpx_decide(n.r.x, (uint32_t)id, &allowed);
            len[secret] = httpx_out(n.r.x, HTTPX_TO_SERVER, &p);
            pump(&n);
        }
        close_hooked(&n);
    }
    assert_true(len[1] > len[0] + 8);
}

/* Refused, reset or cut off before it was written: no use after free, and nothing is counted as being on its way. */
static void test_secret_not_sent(void **state) {
    for (int how = 0; how < 4; how++) {
        struct policy_verdict v;
        struct hooked h;
        struct net n;
        int32_t id;

        policy_refuse(POLICY_SECRET_UNAVAILABLE, "example.com", NULL, &v);
        open_hooked(&n, &h);
        n.r.answer = HTTPX_WAIT;
        id = ask(&n, FIELDS(START("POST", "/")), "abc", 3, true);
        assert_int_equal(http_head_set_secret(httpx_head(n.r.x, (uint32_t)id), "x", VALUE, strlen(VALUE)), 0);
        assert_int_equal(httpx_set_query(n.r.x, (uint32_t)id, "?" VALUE), 0);
        httpx_decide(n.r.x, (uint32_t)id, how == 0 ? &v : &allowed);
        if (how == 1)
            nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
        if (how == 2)
            httpx_eof(n.r.x, HTTPX_TO_CLIENT);
        if (how == 3)
            httpx_eof(n.r.x, HTTPX_TO_SERVER);
        pump_one(&n, &n.client, HTTPX_TO_SERVER, HTTPX_TO_CLIENT);
        pump(&n);
        if (how < 3)
            assert_int_equal(((struct h2 *)n.r.x)->telling, 0);
        close_hooked(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placeholder_in_body),
        cmocka_unit_test(test_last_byte_waits),
        cmocka_unit_test(test_placeholder_after_answer),
        cmocka_unit_test(test_collect),
        cmocka_unit_test(test_collect_large),
        cmocka_unit_test(test_collect_many),
        cmocka_unit_test(test_collect_continue),
        cmocka_unit_test(test_own_answer),
        cmocka_unit_test(test_value_in_pieces),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_flow_control),
        cmocka_unit_test(test_answer_refused),
        cmocka_unit_test(test_secret_put_in),
        cmocka_unit_test(test_secret_is_not_indexed),
        cmocka_unit_test(test_secret_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
