/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/str.h"
#include "gateway/http/http_head.h"
#include "gateway/secret/injection.h"

#define CORE_A "AbCdEfGhIjKlMnOpQrStUv01"
#define CORE_B "zYxWvUtSrQpOnMlKjIhGfE98"
#define CORE_C "Q1w2E3r4T5y6U7i8O9p0AsDf"
#define CORE_K "ABCDEFGHIJKLMNOP"
#define CORE_S "sEcReTsEcReTsEcReTsEcR12"
#define HOLDER_A "sk-ant-" CORE_A

enum { A, B, C, AWS, MAPS, FORGE, GRANTS };

static char *host_list[GRANTS][2] = {{"a.test"}, {"b.test"}, {"a.test"}, {"aws.test"}, {"maps.test"}, {"forge.test:8443"}};

static struct grant grants[GRANTS] = {
    [A] = {.c = {.name = "a", .place = PLACE_HEADER, .header = "x-api-key", .format = "{}"}, .placeholder = HOLDER_A},
    [B] = {.c = {.name = "b", .place = PLACE_HEADER, .header = "Authorization", .format = "Bearer {}"}, .placeholder = CORE_B},
    [C] = {.c = {.name = "c", .place = PLACE_HEADER, .header = "X-Api-Key", .format = "{}"}, .placeholder = CORE_C},
    [AWS] = {.c = {.name = "aws", .place = PLACE_SIGV4, .region = "r", .service = "s3"},
             .placeholder = "AKIA" CORE_K,
             .placeholder2 = CORE_S},
    [MAPS] = {.c = {.name = "maps", .place = PLACE_QUERY, .query = "key"}, .placeholder = "maps-MAPSmapsMAPSmapsMAPSmaps"},
    [FORGE] = {.c = {.name = "forge", .place = PLACE_BASIC, .user = "me"}, .placeholder = "forge-FORGEforgeFORGEforge1234"},
};

struct scene {
    struct placeholders *placeholders;
    struct http_head head;
    struct httpx_request http;
    struct cred_plan plan;
    uint32_t tag;
    const char *where;
};

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);

    for (size_t i = 0; i < GRANTS; i++) {
        grants[i].c.hosts = (struct strv){host_list[i], 1, 2};
        grants[i].c.only_placeholder = false;
    }
    assert_int_equal(placeholders_new(grants, GRANTS, &s->placeholders), 0);
    s->http.head = &s->head;
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    cred_plan_done(&s->plan);
    http_head_done(&s->head);
    placeholders_unref(s->placeholders);
    free(s);
    return 0;
}

static void field(struct scene *s, const char *name, const char *value) {
    assert_int_equal(http_head_add(&s->head, name, strlen(name), value, strlen(value)), 0);
}

static int plan(struct scene *s, const char *host, uint16_t port, bool tls, const char *path, const char *query) {
    const struct cred_request r = {.grants = grants,
                                   .n_grants = GRANTS,
                                   .placeholders = s->placeholders,
                                   .host = host,
                                   .port = port,
                                   .tls = tls,
                                   .http = &s->http};

    snprintf(s->http.path.text, sizeof s->http.path.text, "%s", path);
    s->http.path.len = strlen(path);
    s->http.query = query;
    cred_plan_done(&s->plan);
    s->tag = UINT32_MAX;
    return cred_plan(&r, &s->plan, &s->tag, &s->where);
}

static void assert_misplaced(struct scene *s, int r, size_t grant) {
    assert_int_equal(r, -EACCES);
    assert_int_equal(s->tag / 2, grant);
    assert_string_equal(placeholders_name(s->placeholders, s->tag), grants[grant].c.name);
}

static void test_nothing_to_do(void **state) {
    struct scene *s = *state;

    field(s, "X-Other", "hello");
    assert_int_equal(plan(s, "nobody.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 0);
    assert_int_equal(plan(s, "a.test", 8443, true, "/", ""), 0); /* the port counts */
    assert_int_equal(s->plan.n, 0);
    assert_int_equal(plan(s, "x.a.test", 443, true, "/", ""), 0); /* the whole name, too */
    assert_int_equal(s->plan.n, 0);
}

static void test_first_of_a_slot(void **state) {
    struct scene *s = *state;

    assert_int_equal(plan(s, "a.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 1);
    assert_int_equal(s->plan.puts[0].index, A);
    assert_false(s->plan.puts[0].there);
    assert_string_equal(s->plan.puts[0].slot, "x-api-key");
}

static void test_the_placeholder_chooses(void **state) {
    struct scene *s = *state;

    field(s, "X-API-KEY", CORE_C);
    assert_int_equal(plan(s, "a.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 1);
    assert_int_equal(s->plan.puts[0].index, C);
    assert_true(s->plan.puts[0].there);
}

static void test_only_placeholder(void **state) {
    struct scene *s = *state;

    grants[A].c.only_placeholder = grants[C].c.only_placeholder = true;
    field(s, "x-api-key", "somebody else's");
    assert_int_equal(plan(s, "a.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 0);
    http_head_clear(&s->head);
    field(s, "x-api-key", HOLDER_A);
    assert_int_equal(plan(s, "a.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.puts[0].index, A);
}

static void test_over_plain_http(void **state) {
    struct scene *s = *state;

    assert_int_equal(plan(s, "a.test", 443, false, "/", ""), 0);
    assert_int_equal(s->plan.n, 0);
    field(s, "x-api-key", HOLDER_A);
    assert_misplaced(s, plan(s, "a.test", 443, false, "/", ""), A);
}

static void test_elsewhere(void **state) {
    static const struct {
        const char *host, *name, *value, *path, *query;
    } cases[] = {
        {"b.test", "x-api-key", HOLDER_A, "/", ""},               /* another host */
        {"nobody.test", "x-api-key", HOLDER_A, "/", ""},          /* a host without credential */
        {"a.test", "Authorization", "Bearer " HOLDER_A, "/", ""}, /* another header of its own host */
        {"a.test", "Cookie", "x=1; k=" HOLDER_A "; y", "/", ""},
        {"a.test", "X-" CORE_A, "v", "/", ""}, /* a name */
        {"a.test", "X", "v", "/v1/" CORE_A "/x", ""},
        {"a.test", "X", "v", "/", "?key=" HOLDER_A},
        {"a.test", "X", "v", "/", "?key=%41bCdEfGhIjKlMnOpQrStUv%301"},               /* "A" and "0": two of its bytes encoded */
        {"a.test", "X", "Basic dTpBYkNkRWZHaElqS2xNbk9wUXJTdFV2MDE=", "/", ""},       /* u:CORE_A */
        {"a.test", "X", "4162436445664768496a4b6c4d6e4f705172537455763031", "/", ""}, /* hexadecimal */
        {"a.test", "X", "v", "/", "?r=10vUtSrQpOnMlKjIhGfEdCbA"},                     /* reversed */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene *s = *state;

        http_head_clear(&s->head);
        field(s, cases[i].name, cases[i].value);
        assert_misplaced(s, plan(s, cases[i].host, 443, true, cases[i].path, cases[i].query), A);
    }
}

static void test_split_over_two_fields(void **state) {
    struct scene *s = *state;

    field(s, "X-One", "AbCdEfGhIjKl");
    field(s, "X-Two", "MnOpQrStUv01");
    assert_misplaced(s, plan(s, "a.test", 443, true, "/", ""), A);
}

static void test_another_one_in_the_slot(void **state) {
    struct scene *s = *state;

    field(s, "x-api-key", HOLDER_A " " CORE_B);
    assert_misplaced(s, plan(s, "a.test", 443, true, "/", ""), B);
    assert_int_equal(s->plan.n, 0);
    http_head_clear(&s->head);
    field(s, "x-api-key", HOLDER_A);
    field(s, "x-api-key", CORE_B); /* all fields of the name are the slot */
    assert_misplaced(s, plan(s, "a.test", 443, true, "/", ""), B);
}

static void test_query(void **state) {
    struct scene *s = *state;

    assert_int_equal(plan(s, "maps.test", 443, true, "/", "?a=1&key=maps-MAPSmapsMAPSmapsMAPSmaps&b=2&k%65y=old&key"), 0);
    assert_int_equal(s->plan.n, 1);
    assert_true(s->plan.puts[0].there);
    assert_string_equal(s->plan.query, "?a=1&b=2");
    assert_int_equal(plan(s, "maps.test", 443, true, "/", "?key=x"), 0);
    assert_string_equal(s->plan.query, "");
    assert_int_equal(plan(s, "maps.test", 443, true, "/", "?a=b"), 0);
    assert_string_equal(s->plan.query, "?a=b"); /* the value is added to it */
    assert_int_equal(s->plan.n, 1);
    assert_int_equal(plan(s, "a.test", 443, true, "/", "?key=x"), 0);
    assert_null(s->plan.query);
    assert_misplaced(s, plan(s, "maps.test", 443, true, "/", "?kex=maps-MAPSmapsMAPSmapsMAPSmaps&key=x"), MAPS);
}

static void test_basic(void **state) {
    struct scene *s = *state;

    field(s, "authorization", "Basic Zm9yZ2UtRk9SR0Vmb3JnZUZPUkdFZm9yZ2UxMjM0OngtYW55dGhpbmc="); /* placeholder:x-anything */
    assert_int_equal(plan(s, "forge.test", 8443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 1);
    assert_true(s->plan.puts[0].there);
    assert_string_equal(s->plan.puts[0].slot, "authorization");
    assert_misplaced(s, plan(s, "forge.test", 443, true, "/", ""), FORGE);
}

#define SIGNED "AWS4-HMAC-SHA256 Credential=AKIA" CORE_K "/20260101/r/s3/aws4_request, SignedHeaders=host, Signature=00"

static void test_sigv4(void **state) {
    struct scene *s = *state;

    assert_int_equal(plan(s, "aws.test", 443, true, "/", ""), 0); /* anonymous */
    assert_int_equal(s->plan.n, 0);
    field(s, "Authorization", SIGNED);
    assert_int_equal(plan(s, "aws.test", 443, true, "/", ""), 0);
    assert_int_equal(s->plan.n, 1);
    assert_string_equal(s->plan.puts[0].sigv4, "s3");
    http_head_clear(&s->head);
    field(s, "Authorization", "Bearer AKIA" CORE_K);
    assert_misplaced(s, plan(s, "aws.test", 443, true, "/", ""), AWS);
    http_head_clear(&s->head);
    field(s, "Authorization", SIGNED CORE_S);
    assert_misplaced(s, plan(s, "aws.test", 443, true, "/", ""), AWS);
    assert_int_equal(s->tag, placeholder_tag(AWS, true));
}

static void test_login_hosts(void **state UNUSED) {
    const struct grant g = {.c = {.token_url = "https://id.test:8443/oauth/token?x=1",
                                  .device_url = "https://device.test",
                                  .authorize_url = "http://plain.test/"}};

    assert_true(cred_url_is(g.c.token_url, "id.test", 8443));
    assert_false(cred_url_is(g.c.token_url, "id.test", 443));
    assert_false(cred_url_is(g.c.token_url, "id.test", 0));
    assert_true(cred_url_is_host(g.c.token_url, "id.test"));
    assert_false(cred_url_is_host(g.c.token_url, "od.test"));
    assert_false(cred_url_is_host(NULL, "id.test"));
    assert_true(cred_login_is_at(&g.c, "device.test"));
    assert_false(cred_login_is_at(&g.c, "plain.test"));
    assert_true(cred_any_for(&g, 1, "id.test", 80)); /* every port may give tokens */
    assert_true(cred_any_for(&g, 1, "id.test", 9999));
    assert_false(cred_any_for(&g, 1, "id.test", 22));
    assert_false(cred_any_for(&g, 1, "other.test", 443));
}

static void test_query_add(void **state UNUSED) {
    char *q = cred_query_add("?a=b", "k", "x y&=/~\xff", 8);

    assert_string_equal(q, "?a=b&k=x%20y%26%3D%2F~%FF");
    free(q);
    q = cred_query_add("", "k", "v", 1);
    assert_string_equal(q, "?k=v");
    free(q);
}

/* --- bodies --- */

static int watch(struct scene *s, const char *coding, const void *data, size_t len, size_t piece, uint32_t *ret_tag) {
    struct cred_body b = {.begun = false};
    int r = 0;

    http_head_clear(&s->head);
    if (coding)
        field(s, "Content-Encoding", coding);
    assert_int_equal(cred_body_init(&b, &s->head), 0);
    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = cred_body_watch(&b, placeholders_finder(s->placeholders), (const uint8_t *)data + at, MIN_OF(piece, len - at),
                            ret_tag);
    cred_body_done(&b);
    return r;
}

static size_t pack(const char *data, size_t len, int window, uint8_t *out, size_t cap) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len, .next_out = out, .avail_out = (uInt)cap};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}

static void test_body_in_pieces(void **state) {
    static const char text[] = "{\"key\": \"" CORE_B "\", \"rest\": 1}";
    uint32_t tag;

    for (size_t piece = 1; piece <= sizeof text; piece++) {
        tag = UINT32_MAX;
        assert_int_equal(watch(*state, NULL, text, sizeof text - 1, piece, &tag), 1);
        assert_int_equal(tag, placeholder_tag(B, false));
    }
    assert_int_equal(watch(*state, NULL, text, sizeof text - 30, 5, &tag), 0);
}

static void test_packed_body(void **state) {
    static const struct {
        const char *coding;
        int window;
    } kinds[] = {{"gzip", 31}, {"x-gzip", 31}, {"GZIP", 31}, {"deflate", 15}, {"deflate", -15}};
    char text[5000];
    uint8_t out[8000];
    uint32_t tag;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = pack(text, sizeof text, kinds[i].window, out, sizeof out);

        assert_int_equal(watch(*state, kinds[i].coding, out, n, 7, &tag), 0);
        memcpy(text + 4000, CORE_C, strlen(CORE_C));
        n = pack(text, sizeof text, kinds[i].window, out, sizeof out);
        assert_int_equal(watch(*state, kinds[i].coding, out, n, 7, &tag), 1);
        assert_int_equal(tag, placeholder_tag(C, false));
        assert_int_equal(watch(*state, kinds[i].coding, out, n, n, &tag), 1);
        memset(text + 4000, 'x', strlen(CORE_C));
    }
}

static void test_second_member(void **state) {
    uint8_t out[1000];
    size_t n = pack("harmless", 8, 31, out, sizeof out);
    uint32_t tag;

    n += pack(CORE_A, strlen(CORE_A), 31, out + n, sizeof out - n);
    assert_int_equal(watch(*state, "gzip", out, n, n, &tag), 1);
    assert_int_equal(watch(*state, "gzip", out, n, 3, &tag), 1);
}

static void test_broken_pack(void **state) {
    uint8_t out[1000];
    size_t n = pack("harmless", 8, 31, out, sizeof out);
    uint32_t tag;

    assert_int_equal(watch(*state, "gzip", "no gzip at all", 14, 14, &tag), -EBADMSG);
    memcpy(out + n, "x-trailer: 1\r\n", 14); /* behind its end: not packed, but looked at */
    assert_int_equal(watch(*state, "gzip", out, n + 14, n, &tag), 0);
    memcpy(out + n, CORE_A, strlen(CORE_A));
    assert_int_equal(watch(*state, "gzip", out, n + strlen(CORE_A), 4, &tag), 1);
}

static void test_bomb(void **state) {
    size_t big = CRED_INFLATED_MAX + 1000;
    char *zeros = calloc(1, big);
    uint8_t *out = malloc(1 << 20);
    uint32_t tag;

    assert_int_equal(watch(*state, "gzip", out, pack(zeros, big, 31, out, 1 << 20), 1000, &tag), -EFBIG);
    assert_int_equal(watch(*state, "gzip", out, pack(zeros, CRED_INFLATED_MAX, 31, out, 1 << 20), 1000, &tag), 0);
    free(zeros);
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_of_a_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_placeholder_chooses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_placeholder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_over_plain_http, setup, teardown),
        cmocka_unit_test_setup_teardown(test_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_split_over_two_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_one_in_the_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_query, setup, teardown),
        cmocka_unit_test_setup_teardown(test_basic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sigv4, setup, teardown),
        cmocka_unit_test(test_login_hosts),
        cmocka_unit_test(test_query_add),
        cmocka_unit_test_setup_teardown(test_body_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_packed_body, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_member, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_pack, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bomb, setup, teardown),
    };

    return cmocka_run_group_tests_name("gateway/credential", tests, NULL, NULL);
}
