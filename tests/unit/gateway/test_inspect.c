/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>

#include "base/buf.h"
#include "gateway/tls/inspect.h"
#include "tls_scene.h"

/* A client and a server, both played here, and an inspected connection between them. */
struct play {
    struct scene *scene;
    struct inspect *inspect;
    struct stream client, server;
    bool client_ready, server_ready; /* handshakes */
    struct err client_err;
    struct buf at_client, at_server;
    ssize_t client_end, server_end; /* the last result of reading: -EAGAIN while there is no end */
    enum httpx_answer answer;
    bool free_in_judge;
    unsigned judged, refused, ended;
    uint32_t id;
    int status;
    enum inspect_end how;
    uint64_t sent, received;
    char why[200];
};

enum { PLAY_MAX = 16 * 1024 * 1024 };

/* Real TCP on loopback: SO_RCVLOWAT and resets are part of what is tested. */
static void tcp_pair(int ret[static 2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    CLEANUP(closep) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ret[0], (struct sockaddr *)&a, sizeof a), 0);
    ret[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(fcntl(ret[0], F_SETFL, O_NONBLOCK), 0);
    assert_true(ret[1] >= 0);
}

static void on_end(void *arg, enum inspect_end how, uint64_t sent, uint64_t received) {
    struct play *p = arg;

    p->ended++;
    p->how = how;
    p->sent = sent;
    p->received = received;
    snprintf(p->why, sizeof p->why, "%s", inspect_why(p->inspect));
    inspect_free(TAKE_PTR(p->inspect));
}

static enum httpx_answer on_judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct play *p = arg;

    p->judged++;
    p->id = req->id;
    if (p->free_in_judge)
        inspect_free(TAKE_PTR(p->inspect));
    policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, ret);
    if (p->answer == HTTPX_ALLOW)
        *ret = (struct policy_verdict){.action = RULE_ALLOW, .code = POLICY_ALLOWED};
    return p->answer;
}

static void on_refused(void *arg, uint32_t id UNUSED, const char *method UNUSED, const char *path UNUSED,
                       const struct policy_verdict *why UNUSED, int status) {
    struct play *p = arg;

    p->refused++;
    p->status = status;
}

/* names: of the server's certificate; NULL: it speaks no TLS. denied: the gate did not connect to it. */
static struct play *play_open(bool tls, const char *names, bool denied) {
    struct play *p = calloc(1, sizeof *p);
    struct host host = host_of("example.com");
    struct inspect_opts opts = {.http = {.host = &host, .port = 443, .tls = tls}, .arg = p, .end = on_end};
    int client[2], server[2];

    *p = (struct play){.scene = scene_new(), .answer = HTTPX_ALLOW, .client_end = -EAGAIN, .server_end = -EAGAIN};
    p->at_client = p->at_server = (struct buf)BUF_INIT(PLAY_MAX);
    p->client_ready = p->server_ready = true;
    tcp_pair(client);
    tcp_pair(server);
    stream_init(&p->client, client[0]);
    stream_init(&p->server, server[0]);
    opts.client = client[1];
    opts.server = denied ? -1 : server[1];
    opts.http.once = denied;
    if (denied)
        closep(&server[1]);
    opts.http.hooks = (struct httpx_hooks){.arg = p, .judge = on_judge, .refused = on_refused};
    assert_int_equal(inspect_new(&p->scene->gate, &opts, &p->inspect, NULL), 0);
    if (tls && names) {
        X509 *cert = sign_host(p->scene, names, p->scene->key);
        SSL_CTX *ctx = tls_server_context(cert, p->scene->key);

        assert_int_equal(stream_start_tls(&p->server, tls_server(ctx, "http/1.1"), NULL), 0);
        p->server_ready = false;
        SSL_CTX_free(ctx);
        X509_free(cert);
    }
    return p;
}

static struct play *play_new(bool tls, const char *names) {
    return play_open(tls, names, false);
}

static void start_client(struct play *p, const char *const *alpn, size_t n) {
    struct host host = host_of("example.com");

    assert_int_equal(stream_start_tls(&p->client, tls_client(p->scene->gate.tls, &host, alpn, n, NULL), NULL), 0);
    p->client_ready = false;
}

static void play_free(struct play *p) {
    inspect_free(p->inspect);
    stream_done(&p->client);
    stream_done(&p->server);
    scene_free(p->scene);
    buf_done(&p->at_client);
    buf_done(&p->at_server);
    free(p);
}

static void take(struct stream *s, bool *ready, struct err *err, struct buf *b, ssize_t *end) {
    char data[32 * 1024];
    ssize_t n;

    if (!*ready) {
        int r = stream_handshake(s, err);

        *ready = r == 0;
        *end = r == 0 ? -EAGAIN : r;
    }
    if (!*ready || *end != -EAGAIN)
        return;
    n = stream_read(s, data, sizeof data);
    if (n > 0)
        buf_add(b, data, (size_t)n);
    else
        *end = n;
}

static void turn(struct play *p) {
    scene_turn(p->scene);
    if (p->scene->wanted && p->scene->broker < 0)
        scene_broker(p->scene);
    take(&p->client, &p->client_ready, &p->client_err, &p->at_client, &p->client_end);
    take(&p->server, &p->server_ready, NULL, &p->at_server, &p->server_end);
}

#define UNTIL(p, condition)                                 \
    do {                                                    \
        for (int i_ = 0; i_ < HANG && !(condition); i_++) { \
            turn(p);                                        \
            if (i_ > 1000)                                  \
                usleep(100);                                \
        }                                                   \
        assert_true(condition);                             \
    } while (0)

static void say(struct stream *s, const char *text) {
    assert_int_equal(stream_write(s, text, strlen(text)), strlen(text));
}

static const char *const http1[] = {"http/1.1"};

static void exchange(struct play *p) {
    buf_clear(&p->at_server);
    buf_clear(&p->at_client);
    say(&p->client, "GET /a/../b?c=d HTTP/1.1\r\nHost: example.com\r\n\r\n");
    UNTIL(p, strstr(buf_str(&p->at_server), "\r\n\r\n"));
    assert_true(str_starts(buf_str(&p->at_server), "GET /b?c=d HTTP/1.1\r\n"));
    say(&p->server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    UNTIL(p, str_ends(buf_str(&p->at_client), "\r\n\r\nhello"));
    assert_true(str_starts(buf_str(&p->at_client), "HTTP/1.1 200 OK\r\n"));
}

static void test_requests_pass(void **state UNUSED) {
    for (int tls = 0; tls < 2; tls++) {
        struct play *p = play_new(tls, "DNS:example.com");

        if (tls) {
            start_client(p, http1, 1);
            UNTIL(p, p->client_ready);
        }
        exchange(p);
        exchange(p);
        assert_int_equal(p->judged, 2);
        assert_int_equal(stream_shutdown(&p->client), 0);
        UNTIL(p, p->ended);
        assert_int_equal(p->how, INSPECT_DONE);
        assert_int_equal(p->received, 2 * strlen("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
        assert_true(p->sent > 0);
        UNTIL(p, p->server_end != -EAGAIN && p->client_end != -EAGAIN);
        assert_int_equal(p->server_end, 0); /* close_notify, not just the end */
        play_free(p);
    }
}

static void test_client_without_alpn(void **state UNUSED) {
    struct play *p = play_new(true, "DNS:example.com");

    start_client(p, NULL, 0);
    UNTIL(p, p->client_ready);
    exchange(p);
    play_free(p);
}

static void test_large_answer(void **state UNUSED) {
    static char body[5 * 1024 * 1024];
    struct play *p = play_new(true, "DNS:example.com");
    size_t out = 0;
    char *at;

    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 31 + i / 5003);
    start_client(p, http1, 1);
    UNTIL(p, p->client_ready);
    say(&p->client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    UNTIL(p, p->at_server.len);
    say(&p->server, "HTTP/1.1 200 OK\r\nContent-Length: 5242880\r\n\r\n");
    while (out < sizeof body) {
        ssize_t n = stream_write(&p->server, body + out, sizeof body - out);

        out += n > 0 ? (size_t)n : 0;
        for (int i = 0; i < 20; i++) /* the client does not read: everything must stop */
            scene_turn(p->scene);
        turn(p);
    }
    UNTIL(p, (at = strstr(buf_str(&p->at_client), "\r\n\r\n")) &&
                 p->at_client.len == (size_t)(at + 4 - p->at_client.data) + sizeof body);
    assert_memory_equal(at + 4, body, sizeof body);
    play_free(p);
}

static void test_untrusted_server(void **state UNUSED) {
    static const char *const names[] = {"DNS:example.org", NULL};
    static const enum inspect_end hows[] = {INSPECT_NOT_TRUSTED, INSPECT_HANDSHAKE};
    static const char *const words[] = {"hostname mismatch", "the TLS handshake failed"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct play *p = play_new(true, names[i]);

        start_client(p, http1, 1);
        if (!names[i])
            say(&p->server, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
        UNTIL(p, p->client_ready);
        for (int k = 0; k < 2; k++) {
            buf_clear(&p->at_client);
            say(&p->client, "GET /secret HTTP/1.1\r\nHost: example.com\r\n\r\n");
            UNTIL(p, str_ends(buf_str(&p->at_client), ")\n"));
            assert_true(str_starts(buf_str(&p->at_client), "HTTP/1.1 502 "));
            assert_non_null(strcasestr(buf_str(&p->at_client), words[i]));
        }
        assert_null(strstr(buf_str(&p->at_server), "secret"));
        assert_int_equal(p->judged, 0);
        assert_int_equal(p->refused, 2);
        assert_int_equal(p->status, 502);
        assert_int_equal(stream_shutdown(&p->client), 0);
        UNTIL(p, p->ended);
        assert_int_equal(p->how, hows[i]);
        assert_non_null(strcasestr(p->why, words[i]));
        play_free(p);
    }
}

static void test_no_leaf(void **state UNUSED) {
    struct play *p = play_new(true, "DNS:example.com");

    p->scene->status = -EACCES;
    start_client(p, http1, 1);
    UNTIL(p, p->client_end != -EAGAIN);
    assert_non_null(strstr(p->client_err.msg, "alert handshake failure"));
    stream_done(&p->client);
    stream_init(&p->client, -1);
    p->client_ready = false;
    for (int i = 0; i < HANG && !p->ended; i++)
        scene_turn(p->scene);
    assert_int_equal(p->how, INSPECT_NO_LEAF);
    play_free(p);
}

/* No server: the client's handshake is made all the same, with HTTP/1.1 if it knows it, and the hook's verdict is the answer. */
static void test_denied(void **state UNUSED) {
    static const char *const both[] = {"h2", "http/1.1"};
    struct play *p = play_open(true, NULL, true);
    const unsigned char *alpn;
    unsigned len;

    p->answer = HTTPX_DENY;
    start_client(p, both, 2);
    UNTIL(p, p->client_ready);
    SSL_get0_alpn_selected(p->client.ssl, &alpn, &len);
    assert_int_equal(len, 8);
    say(&p->client, "POST /secret HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\ntoken");
    UNTIL(p, str_ends(buf_str(&p->at_client), ")\n"));
    assert_true(str_starts(buf_str(&p->at_client), "HTTP/1.1 403 Bawn denied example.com:443 "));
    assert_non_null(strstr(buf_str(&p->at_client), "\r\nConnection: close\r\n"));
    assert_int_equal(p->judged, 1);
    assert_int_equal(stream_shutdown(&p->client), 0);
    UNTIL(p, p->ended);
    assert_int_equal(p->how, INSPECT_DONE);
    assert_int_equal(p->sent, 0);
    play_free(p);
}

/* Nothing but an alert is left then. */
static void test_denied_without_leaf(void **state UNUSED) {
    struct play *p = play_open(true, NULL, true);

    p->scene->status = -ENOENT;
    start_client(p, http1, 1);
    UNTIL(p, p->client_end != -EAGAIN);
    assert_non_null(strstr(p->client_err.msg, "alert access denied"));
    play_free(p);
}

static void test_hello_in_pieces(void **state UNUSED) {
    struct play *p = play_new(true, "DNS:example.com");
    struct host host = host_of("example.com");
    SSL *ssl = tls_client(p->scene->gate.tls, &host, http1, 1, NULL);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    char hello[4096];
    int len;

    SSL_set_bio(ssl, in, out);
    assert_int_equal(SSL_do_handshake(ssl), -1);
    len = BIO_read(out, hello, sizeof hello);
    assert_true(len > 100);
    for (int i = 0; i < len; i++) {
        assert_int_equal(send(p->client.fd, hello + i, 1, 0), 1);
        scene_turn(p->scene);
        scene_turn(p->scene);
        assert_int_equal(p->ended, 0);
        if (i < len - 1)
            assert_int_equal(p->scene->wanted, 0);
    }
    UNTIL(p, p->at_client.len > 100); /* raw: its ServerHello */
    SSL_free(ssl);
    play_free(p);
}

static void test_no_hello(void **state UNUSED) {
    static const struct {
        const char *bytes;
        enum inspect_end how;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", INSPECT_HANDSHAKE},
        {"\x16\x03\x01", INSPECT_CLIENT_GONE},
        {"", INSPECT_CLIENT_GONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct play *p = play_new(true, "DNS:example.com");

        say(&p->client, cases[i].bytes);
        UNTIL(p, !cases[i].bytes[0] || p->ended || cases[i].how == INSPECT_CLIENT_GONE);
        for (int k = 0; k < 50; k++)
            turn(p);
        shutdown(p->client.fd, SHUT_WR);
        UNTIL(p, p->ended);
        assert_int_equal(p->how, cases[i].how);
        assert_int_equal(p->scene->wanted, 0);
        play_free(p);
    }
}

/* A body that ends with the connection: only a server that says so has ended it. */
static void test_cut_answer(void **state UNUSED) {
    for (int tls = 0; tls < 2; tls++)
        for (int clean = 0; clean < 2; clean++) {
            struct play *p = play_new(tls, "DNS:example.com");
            struct linger reset = {.l_onoff = 1};

            if (tls) {
                start_client(p, http1, 1);
                UNTIL(p, p->client_ready);
            }
            say(&p->client, "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n");
            UNTIL(p, p->at_server.len);
            say(&p->server, "HTTP/1.1 200 OK\r\n\r\npart");
            UNTIL(p, str_ends(buf_str(&p->at_client), "part") || strstr(buf_str(&p->at_client), "part\r\n"));
            if (clean)
                assert_int_equal(stream_shutdown(&p->server), 0);
            else if (!tls)
                setsockopt(p->server.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            if (!clean) {
                stream_done(&p->server);
                stream_init(&p->server, -1);
                p->server_end = 0;
            }
            UNTIL(p, p->client_end != -EAGAIN);
            assert_int_equal(p->client_end, clean ? 0 : -ECONNRESET);
            stream_shutdown(&p->client);
            UNTIL(p, p->ended);
            assert_int_equal(p->how, clean ? INSPECT_DONE : INSPECT_SERVER_GONE);
            play_free(p);
        }
}

static void test_bad_request_is_answered(void **state UNUSED) {
    struct play *p = play_new(false, NULL);
    static char junk[200000];

    memset(junk, 'x', sizeof junk);
    say(&p->client, "GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream_write(&p->client, junk, sizeof junk); /* must not make the kernel throw our answer away */
    UNTIL(p, p->client_end != -EAGAIN);
    assert_int_equal(p->client_end, 0);
    assert_true(str_starts(buf_str(&p->at_client), "HTTP/1.1 400 "));
    assert_int_equal(p->judged, 0);
    assert_int_equal(p->at_server.len, 0);
    stream_shutdown(&p->client);
    UNTIL(p, p->ended);
    assert_int_equal(p->how, INSPECT_PROTOCOL);
    play_free(p);
}

static void test_decision_waits(void **state UNUSED) {
    struct policy_verdict v = {.action = RULE_ALLOW, .code = POLICY_ALLOWED};

    for (int allow = 0; allow < 2; allow++) {
        struct play *p = play_new(false, NULL);

        p->answer = HTTPX_WAIT;
        say(&p->client, "GET /wait HTTP/1.1\r\nHost: example.com\r\n\r\n");
        UNTIL(p, p->judged);
        for (int i = 0; i < 50; i++)
            turn(p);
        assert_int_equal(p->at_server.len + p->at_client.len, 0);
        if (!allow)
            policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, &v);
        inspect_decide(p->inspect, p->id, allow ? &(struct policy_verdict){.action = RULE_ALLOW} : &v);
        UNTIL(p, (allow ? p->at_server : p->at_client).len);
        assert_true(str_starts(buf_str(allow ? &p->at_server : &p->at_client), allow ? "GET /wait " : "HTTP/1.1 403 "));
        assert_int_equal((allow ? p->at_client : p->at_server).len, 0);
        play_free(p);
    }
}

static void test_freed_at_any_time(void **state UNUSED) {
    for (int turns = 0; turns < 60; turns++) {
        struct play *p = play_new(true, "DNS:example.com");

        start_client(p, http1, 1);
        for (int i = 0; i < turns; i++) {
            turn(p);
            if (p->client_ready && i % 5 == 4)
                say(&p->client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
        }
        inspect_free(TAKE_PTR(p->inspect));
        turn(p);
        assert_int_equal(p->ended, 0);
        play_free(p);
    }
    for (int tls = 0; tls < 2; tls++) {
        struct play *p = play_new(tls, "DNS:example.com");

        p->free_in_judge = true;
        if (tls) {
            start_client(p, http1, 1);
            UNTIL(p, p->client_ready);
        }
        say(&p->client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
        UNTIL(p, p->judged && p->client_end != -EAGAIN);
        assert_int_equal(p->ended, 0);
        assert_int_equal(p->at_server.len, 0);
        play_free(p);
    }
}

static void test_client_resets(void **state UNUSED) {
    struct play *p = play_new(false, NULL);
    struct linger reset = {.l_onoff = 1};

    say(&p->client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    UNTIL(p, p->at_server.len);
    setsockopt(p->client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    stream_done(&p->client);
    stream_init(&p->client, -1);
    p->client_end = 0;
    UNTIL(p, p->ended);
    assert_int_equal(p->how, INSPECT_CLIENT_GONE);
    UNTIL(p, p->server_end != -EAGAIN);
    play_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_pass),  cmocka_unit_test(test_client_without_alpn),
        cmocka_unit_test(test_large_answer),   cmocka_unit_test(test_untrusted_server),
        cmocka_unit_test(test_denied),         cmocka_unit_test(test_denied_without_leaf),
        cmocka_unit_test(test_no_leaf),        cmocka_unit_test(test_hello_in_pieces),
        cmocka_unit_test(test_no_hello),       cmocka_unit_test(test_cut_answer),
        cmocka_unit_test(test_decision_waits), cmocka_unit_test(test_bad_request_is_answered),
        cmocka_unit_test(test_client_resets),  cmocka_unit_test(test_freed_at_any_time),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
