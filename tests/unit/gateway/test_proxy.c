/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "gateway/net/proxy.h"

static struct host host_of(const char *text) {
    struct host h;

    assert_int_equal(host_parse(text, strlen(text), &h, NULL), 0);
    return h;
}

static int choose(const char *url, const char *no_proxy, const char *host, struct proxy *ret, struct err *err) {
    struct gate_config c = {.https_proxy = (char *)(uintptr_t)url, .http_proxy = "", .no_proxy = (char *)(uintptr_t)no_proxy};
    struct host h = host_of(host);

    return proxy_choose(&c, &h, false, ret, err);
}

static void which_proxy(void **state UNUSED) {
    static const struct {
        const char *url, *host, *auth;
        uint16_t port;
    } good[] = {
        {"http://p.test:3128/", "p.test", "", 3128},
        {"p.test:3128", "p.test", "", 3128},
        {"http://p.test", "p.test", "", 80},
        {"HTTP://u:s@10.1.2.3:1", "10.1.2.3", "u:s", 1},
        {"http://u:%40%3a@[::1]:8080/x", "::1", "u:@:", 8080},
        {"http://u:a@b@p.test:1", "p.test", "u:a@b", 1},
        {"http://u%@p.test:1", "p.test", "u%", 1},
    };
    static const char *const bad[] = {"https://p.test:1",    "socks5://p.test:1",        "http://",
                                      "http://p.test:99999", "http://a%0d%0ab@p.test:1", "http://p\x01.test:1"};
    struct proxy p;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(choose(good[i].url, "", "far.test", &p, NULL), 1);
        assert_string_equal(p.host.text, good[i].host);
        assert_string_equal(p.auth, good[i].auth);
        assert_int_equal(p.port, good[i].port);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        assert_int_equal(choose(bad[i], "", "far.test", &p, &err), -EINVAL);
        assert_true(err.msg[0]);
    }
    assert_int_equal(choose("", "", "far.test", &p, NULL), 0);
}

static void exceptions(void **state UNUSED) {
    static const struct {
        const char *list, *host;
        int want;
    } cases[] = {
        {"", "far.test", 1},
        {"*", "far.test", 0},
        {"far.test", "far.test", 0},
        {"FAR.test", "far.test", 0},
        {"test", "far.test", 0},
        {".test", "far.test", 0},
        {"ar.test", "far.test", 1},
        {"far.test.evil", "far.test", 1},
        {"a, b ,far.test", "far.test", 0},
        {".", "far.test", 1},
        {"10.0.0.0/8", "10.2.3.4", 0},
        {"10.2.3.4", "10.2.3.4", 0},
        {"10.2.3.5", "10.2.3.4", 1},
        {"fd00::/8", "fd00::1", 0},
        {"", "host.bawn.internal", 0},
        {"", "localhost", 0},
        {"", "a.localhost", 0},
        {"", "notlocalhost", 1},
    };
    struct proxy p;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(choose("http://p.test:1", cases[i].list, cases[i].host, &p, NULL), cases[i].want);
}

static void request(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    struct proxy p = {.auth = "user:p@ss"};
    struct host six = host_of("2001:db8::1");

    proxy_request(&p, &six, 443, &b);
    assert_string_equal(buf_str(&b), "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n"
                                     "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n");
}

static long answer(const char *text, int *status) {
    return proxy_answer((const uint8_t *)text, strlen(text), status);
}

static void answers(void **state UNUSED) {
    char endless[PROXY_ANSWER_MAX + 1];
    int status;

    assert_int_equal(answer("HTTP/1.1 200 OK\r\nX: y\r\n\r\nSSH-2.0", &status), 25);
    assert_int_equal(answer("HTTP/1.0 200\r\n\r\n", &status), 16);
    assert_int_equal(answer("", &status), 0);
    assert_int_equal(answer("HTT", &status), 0);
    assert_int_equal(answer("HTTP/1.1 200 OK\r\n", &status), 0);
    assert_int_equal(answer("HTTP/1.1 407 No\r\n\r\n", &status), -EACCES);
    assert_int_equal(status, 407);
    assert_int_equal(answer("HTTP/1.\r\n\r\n", &status), -EPROTO);
    assert_int_equal(answer("HTTP/1.1 2x0 OK\r\n\r\n", &status), -EPROTO);
    assert_int_equal(answer("SSH-2.0-x", &status), -EPROTO);
    memset(endless, 'a', sizeof endless);
    memcpy(endless, "HTTP/1.1 ", 9);
    assert_int_equal(proxy_answer((uint8_t *)endless, PROXY_ANSWER_MAX, &status), -EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(which_proxy), cmocka_unit_test(exceptions), cmocka_unit_test(request),
                                       cmocka_unit_test(answers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
