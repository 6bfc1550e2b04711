/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: of everything that comes to the port of a login, only a GET of its path with its state counts, and it counts once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "vault/callback.h"

#define END " HTTP/1.1\r\nHost: localhost\r\n\r\n"

static int read_one(const char *text, struct secret *code) {
    return callback_read(text, strlen(text), "/cb", "the-state", code);
}

static void test_read(void **state) {
    static const struct {
        const char *text;
        int r;
        const char *code;
    } cases[] = {
        {"GET /cb?code=abc&state=the-state" END, 0, "abc"},
        {"GET /cb?state=the%2Dstate&x=1&code=4%2F0A-b" END, 0, "4/0A-b"},
        {"GET /cb?code=abc&state=the-state HTTP/1.0\r\n\r\n", 0, "abc"},
        {"GET /cb?error=access_denied&state=the-state" END, -EACCES, NULL},
        {"GET /cb?code=abc&state=the-state HTTP/1.1\r\nHost: a\r\n", -EAGAIN, NULL},
        {"", -EAGAIN, NULL},
        {"GET /cb?code=abc&state=another" END, -EINVAL, NULL},
        {"GET /cb?code=abc&state=the-stat" END, -EINVAL, NULL},
        {"GET /cb?code=abc&state=" END, -EINVAL, NULL},
        {"GET /cb?code=abc" END, -EINVAL, NULL},
        {"GET /cb?error=x&state=another" END, -EINVAL, NULL},
        {"GET /cb?code=abc&error=x&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=a%0ab&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=a%b&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=abc&code=def&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=abc&state=the-state&state=x" END, -EINVAL, NULL},
        {"GET /cb/?code=abc&state=the-state" END, -EINVAL, NULL},
        {"GET /cbx?code=abc&state=the-state" END, -EINVAL, NULL},
        {"GET http://localhost/cb?code=abc&state=the-state" END, -EINVAL, NULL},
        {"POST /cb?code=abc&state=the-state" END, -EINVAL, NULL},
        {"get /cb?code=abc&state=the-state" END, -EINVAL, NULL},
        {"GET /cb?code=abc&state=the-state HTTP/2\r\n\r\n", -EINVAL, NULL},
        {"GET /cb?code=abc&state=the-state x HTTP/1.1\r\n\r\n", -EINVAL, NULL},
        {"\r\n\r\n", -EINVAL, NULL},
    };
    CLEANUP(secret_done) struct secret code = {0};

    assert_int_equal(secret_alloc(&code, CALLBACK_CODE_MAX), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int r = read_one(cases[i].text, &code);

        if (r != cases[i].r || (r == 0 && (code.len != strlen(cases[i].code) || memcmp(code.p, cases[i].code, code.len) != 0)))
            fail_msg("%s: %d", cases[i].text, r);
    }
}

static void test_too_long(void **state) {
    static char text[CALLBACK_HEAD_MAX];
    CLEANUP(secret_done) struct secret code = {0};
    CLEANUP(freep) char *long_code = malloc(CALLBACK_CODE_MAX + 2), *request;

    assert_int_equal(secret_alloc(&code, CALLBACK_CODE_MAX), 0);
    memset(text, 'a', sizeof text);
    assert_int_equal(callback_read(text, sizeof text, "/cb", "s", &code), -EINVAL);
    memset(long_code, 'c', CALLBACK_CODE_MAX + 1);
    long_code[CALLBACK_CODE_MAX + 1] = 0;
    request = str_dupf("GET /cb?state=the-state&code=%s" END, long_code);
    assert_int_equal(read_one(request, &code), -EINVAL);
    free(request);
    request = str_dupf("GET /cb?state=the-state&code=%s" END, long_code + 1);
    assert_int_equal(read_one(request, &code), 0);
}

static int knock(uint16_t port, const char *text) {
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (const struct sockaddr *)&a, sizeof a) < 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* Clients that send nothing, or something else, hold up no login, and the port is closed afterwards. */
static void test_wait(void **state) {
    CLEANUP(callback_done) struct callback cb = {.fd = -1};
    struct credential_redirect r;
    CLEANUP(secret_done) struct secret code = {0};
    struct err err = {0};
    int others[12], client = -1;
    char page[512] = "";

    assert_int_equal(secret_alloc(&code, CALLBACK_CODE_MAX), 0);
    assert_int_equal(credential_redirect_parse("http://localhost/cb", &r), 0);
    assert_int_equal(callback_listen(&r, &cb, &err), 0);
    assert_true(cb.port >= 1024);
    for (size_t i = 0; i < ARRAY_LEN(others) / 2; i++)
        others[i] = knock(cb.port, i % 2 ? "" : "GET /cb?code=evil&state=guess" END);
    for (size_t i = ARRAY_LEN(others) / 2; i < ARRAY_LEN(others) - 1; i++)
        others[i] = knock(cb.port, "GET /favicon.ico" END);
    others[ARRAY_LEN(others) - 1] = knock(cb.port, "GET /cb?code=right&state=the-state" END);
    assert_int_equal(callback_wait(&cb, "/cb", "the-state", &code, &client, &err), 0);
    assert_int_equal(code.len, strlen("right"));
    assert_memory_equal(code.p, "right", code.len);
    assert_int_equal(knock(cb.port, ""), -1);
    shutdown(others[ARRAY_LEN(others) - 1], SHUT_WR);
    callback_answer(client, true);
    assert_true(read(others[ARRAY_LEN(others) - 1], page, sizeof page - 1) > 0);
    assert_non_null(strstr(page, "200 OK"));
    assert_null(strstr(page, "right"));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        close(others[i]);
}

static void test_redirect(void **state) {
    static const char *const bad[] = {"",
                                      "http://localhost",
                                      "https://localhost/cb",
                                      "http://localhost:80/cb",
                                      "http://localhost:/cb",
                                      "http://localhost:65536/cb",
                                      "http://localhost.evil/cb",
                                      "http://127.0.0.2/cb",
                                      "http://localhost/cb?x=1",
                                      "http://localhost/cb#x",
                                      "http://localhost/c b",
                                      "http://localhost@evil/cb"};
    struct credential_redirect r;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(credential_redirect_parse(bad[i], &r), -EINVAL);
    assert_int_equal(credential_redirect_parse("http://[::1]:1455/auth/callback", &r), 0);
    assert_string_equal(r.host, "[::1]");
    assert_int_equal(r.port, 1455);
    assert_string_equal(r.path, "/auth/callback");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_too_long), cmocka_unit_test(test_wait),
                                       cmocka_unit_test(test_redirect)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
