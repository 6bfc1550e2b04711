/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: --publish listens on loopback only unless told otherwise, and a port that is taken is an error before anything runs. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "supervisor/network/published.h"

static void quiet(const char *line, size_t len) {}

static int open_words(struct published *p, struct err *err, const char *word, const char *second) {
    CLEANUP(strv_done) struct strv words = {0};

    *err = (struct err){0};
    assert_int_equal(strv_add(&words, word), 0);
    if (second)
        assert_int_equal(strv_add(&words, second), 0);
    return published_open(&words, p, err);
}

static void test_loopback_only(void **state) {
    CLEANUP(published_done) struct published p = {0};
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    struct err err;

    assert_int_equal(open_words(&p, &err, "3000:0", NULL), 0);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.v[0].inside, 3000);
    assert_int_equal(getsockname(p.v[0].fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(ntohl(a.sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(ntohs(a.sin_port), p.v[0].outside);
    assert_true(published_has(&p, 3000));
    assert_false(published_has(&p, p.v[0].outside));
}

static void test_other_address(void **state) {
    CLEANUP(published_done) struct published p = {0};
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    struct err err;

    assert_int_equal(open_words(&p, &err, "127.0.0.2:3000:0", NULL), 0);
    assert_int_equal(getsockname(p.v[0].fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(ntohl(a.sin_addr.s_addr), INADDR_LOOPBACK + 1);
}

static void test_taken(void **state) {
    CLEANUP(published_done) struct published p = {0}, again = {0};
    char word[32];
    struct err err;

    assert_int_equal(open_words(&p, &err, "3000:0", NULL), 0);
    snprintf(word, sizeof word, "80:%u", p.v[0].outside);
    assert_int_equal(open_words(&again, &err, "81:0", word), -EADDRINUSE);
    assert_int_equal(again.n, 0);
    assert_non_null(strstr(err.msg, "is in use"));
}

static void test_wrong_words(void **state) {
    static const char *const table[] = {"",        "0",         "65536",    "x",     "3000:",  ":3000",
                                        "1:2:3:4", "1.2.3:1:2", "[::1:1:2", "[::1]", "3000:-1"};
    struct published p = {0};
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        assert_int_equal(open_words(&p, &err, table[i], NULL), -EINVAL);
        assert_int_equal(err.status, EXIT_USAGE_ERR);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_only),
        cmocka_unit_test(test_other_address),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_wrong_words),
    };

    log_set_sink(quiet);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
