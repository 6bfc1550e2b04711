/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/front/front_json.h"
#include "service/front/front_lines.h"
#include "service/front/front_range.h"
#include "service/front/front_route.h"
#include "service/front/websocket.h"

static void test_targets(void **state) {
    static const struct {
        const char *raw;
        int r;
        size_t segments, query;
        const char *first;
    } rows[] = {
        {"/", 0, 1, 0, ""},
        {"/a", 0, 1, 0, "a"},
        {"/a%2fb", 0, 1, 0, "a/b"},
        {"/a+b", 0, 1, 0, "a+b"},
        {"/a/", 0, 2, 0, "a"},
        {"//a", 0, 2, 0, ""},
        {"/a?b", 0, 1, 1, "a"},
        {"/a?b=c&d=e", 0, 1, 2, "a"},
        {"/a?&&b", 0, 1, 1, "a"},
        {"a", -EINVAL, 0, 0, NULL},
        {"*", -EINVAL, 0, 0, NULL},
        {"/%", -EINVAL, 0, 0, NULL},
        {"/%0", -EINVAL, 0, 0, NULL},
        {"/%00", -EINVAL, 0, 0, NULL},
        {"/%ff", -EINVAL, 0, 0, NULL},
        {"/a#b", -EINVAL, 0, 0, NULL},
        {"/a b", -EINVAL, 0, 0, NULL},
        {"/1/2/3/4/5/6/7/8/9", -E2BIG, 0, 0, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(uri_done) struct uri u = {0};
        int r = uri_parse(rows[i].raw, &u);

        if (r != rows[i].r || u.n_segments != rows[i].segments || u.n_query != rows[i].query ||
            (rows[i].first && strcmp(u.segment[0].text, rows[i].first) != 0))
            fail_msg("row %zu '%s': %d", i, rows[i].raw, r);
    }
}

/* Every route finds itself by its own template, filled in. */
static void test_routes(void **state) {
    for (size_t i = 0; i < n_api_routes; i++) {
        const struct api_route *route = &api_routes[i];
        CLEANUP(buf_done) struct buf path = BUF_INIT(1024);
        CLEANUP(uri_done) struct uri u = {0};
        struct route_match m;

        for (const char *p = route->path; *p; p++) {
            if (*p != '{') {
                buf_addc(&path, *p);
                continue;
            }
            buf_adds(&path, strncmp(p, "{kind}", 6) == 0     ? "runs"
                            : strncmp(p, "{stream}", 8) == 0 ? "stderr"
                                                             : "run_0123456789abcdef");
            p = strchr(p, '}');
        }
        assert_int_equal(uri_parse(path.data, &u), 0);
        m = route_find(&u, (int)route->method);
        assert_ptr_equal(m.route, route);
        assert_null(route_find(&u, -1).route);
    }
}

static void test_ranges(void **state) {
    uint64_t first, len;

    assert_int_equal(range_parse("bytes=2-3", 10, &first, &len), 1);
    assert_true(first == 2 && len == 2);
    assert_int_equal(range_parse("bytes=-3", 2, &first, &len), 1);
    assert_true(first == 0 && len == 2);
    assert_int_equal(range_parse("bytes=0-", 0, &first, &len), -ERANGE);
    assert_int_equal(range_parse("bytes=2-1", 10, &first, &len), 0);
    assert_int_equal(range_parse("", 10, &first, &len), 0);
}

static void test_depth(void **state) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    struct front_fault fault = {0};
    char deep[2 * JSON_DEPTH_MAX + 3] = "";

    memset(deep, '[', JSON_DEPTH_MAX + 1);
    assert_int_equal(front_json_fields(deep, strlen(deep), api_route_of(API_OP_RUN_CREATE), &f, &fault), -EINVAL);
    assert_string_equal(fault.detail, "nested more than 16 deep");
    /* Brackets in a text are none, and an escaped quote does not end it. */
    const char *text = "{\"command\":[\"[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[\"]}";
    assert_int_equal(front_json_fields(text, strlen(text), api_route_of(API_OP_RUN_CREATE), &f, &fault), 0);
}

static void test_long_lines(void **state) {
    CLEANUP(lines_done) struct event_lines l = EVENT_LINES_INIT;
    CLEANUP(buf_done) struct buf out = BUF_INIT(64 << 20);
    char *data = calloc(1, LINE_MAX_BYTES + 1);

    memset(data, 'x', LINE_MAX_BYTES + 1);
    assert_int_equal(lines_add(&l, data, LINE_MAX_BYTES + 1, &out), -EMSGSIZE);
    free(data);
}

static void test_accept(void **state) {
    char out[WEBSOCKET_ACCEPT_SIZE];

    assert_true(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", out)); /* RFC 6455, section 1.3 */
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_false(websocket_accept("dGhlIHNhbXBsZSBub25jZQ", out));
    assert_false(websocket_accept("", out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets), cmocka_unit_test(test_routes),     cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_depth),   cmocka_unit_test(test_long_lines), cmocka_unit_test(test_accept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
