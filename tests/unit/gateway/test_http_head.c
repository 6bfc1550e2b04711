/* SPDX-License-Identifier: Apache-2.0 */
/* Header lists: what goes on, and what a hook may put in. */
#include "gateway/http/http_head.h"
#include "http_rig.h"

static void add(struct http_head *h, const char *name, const char *value) {
    assert_int_equal(http_head_add(h, name, strlen(name), value, strlen(value)), 0);
}

static char *text(const struct http_head *h) {
    struct buf b = BUF_INIT(1024 * 1024);

    http_head_write(h, &b);
    return buf_take(&b);
}

static void test_get_set_remove(void **state) {
    CLEANUP(http_head_done) struct http_head h = {0};

    add(&h, "Accept", "a");
    add(&h, "X-One", "1");
    add(&h, "x-one", "2");
    assert_string_equal(http_head_get(&h, "X-ONE"), "1");
    assert_null(http_head_get(&h, "x-on"));
    assert_int_equal(http_head_set(&h, "x-One", "3", 1), 0);
    assert_int_equal(h.len, 2);
    assert_string_equal(http_head_get(&h, "x-one"), "3");
    http_head_remove(&h, "ACCEPT");
    assert_null(http_head_get(&h, "accept"));
    assert_int_equal(h.len, 1);
}

static void test_set_refuses_line_breaks(void **state) {
    static const struct {
        const char *name, *value;
        size_t len;
    } rows[] = {
        {"authorization", "a\r\nX-Evil: 1", 12},
        {"authorization", "a\nb", 3},
        {"authorization", "a\0b", 3},
        {"a b", "c", 1},
        {"a:", "c", 1},
        {"", "c", 1},
        {"a\r\n", "c", 1},
        {"a", "\x7f", 1},
    };
    CLEANUP(http_head_done) struct http_head h = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(http_head_set(&h, rows[i].name, rows[i].value, rows[i].len), -EINVAL);
    assert_int_equal(h.len, 0);
    assert_int_equal(http_head_set(&h, "a", "tab\tand \xc3\xa9", 10), 0);
}

static void test_strip(void **state) {
    CLEANUP(http_head_done) struct http_head h = {0};
    CLEANUP(freep) char *left = NULL;

    add(&h, "Host", "example.com");
    add(&h, "Connection", "close, X-Secret ,keep-alive");
    add(&h, "x-secret", "1");
    add(&h, "X-Secret-2", "2");
    add(&h, "Keep-Alive", "timeout=5");
    add(&h, "Proxy-Connection", "keep-alive");
    add(&h, "Proxy-Authorization", "Basic x");
    add(&h, "Proxy-Authenticate", "Basic");
    add(&h, "TE", "trailers");
    add(&h, "Transfer-Encoding", "chunked");
    add(&h, "Content-Length", "1");
    add(&h, "Upgrade", "h2c");
    add(&h, "HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA");
    add(&h, "User-Agent", "curl");
    http_head_strip(&h);
    left = text(&h);
    assert_string_equal(left, "X-Secret-2: 2\r\nUser-Agent: curl\r\n");
}

static void test_strip_trailers(void **state) {
    CLEANUP(http_head_done) struct http_head h = {0};
    CLEANUP(freep) char *left = NULL;

    add(&h, "Authorization", "x");
    add(&h, "Cookie", "x");
    add(&h, "Content-Type", "x");
    add(&h, "Host", "x");
    add(&h, "grpc-status", "0");
    add(&h, "Trailer", "x");
    http_head_strip_trailers(&h);
    left = text(&h);
    assert_string_equal(left, "grpc-status: 0\r\n");
}

static void test_bounds(void **state) {
    CLEANUP(http_head_done) struct http_head h = {0};

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < HTTPX_HEADERS_MAX; i++)
            add(&h, "a", "b");
        assert_int_equal(http_head_add(&h, "a", 1, "b", 1), -E2BIG);
        http_head_clear(&h);
        assert_int_equal(h.len, 0);
    }
}

static void test_lists(void **state) {
    assert_true(http_list_has("close", "close"));
    assert_true(http_list_has(" a ,\tCLOSE,b", "close"));
    assert_false(http_list_has("closed, xclose", "close"));
    assert_false(http_list_has("", "close"));
    assert_false(http_list_has(",,,", "close"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_set_remove), cmocka_unit_test(test_set_refuses_line_breaks),
        cmocka_unit_test(test_strip),          cmocka_unit_test(test_strip_trailers),
        cmocka_unit_test(test_bounds),         cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
