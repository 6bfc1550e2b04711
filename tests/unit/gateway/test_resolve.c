/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver against a name server of our own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "dns_server.h"
#include "gateway/net/resolve.h"

static const char hosts[] = "127.0.0.1 localhost\n192.0.2.77\tMyHost.Example myhost # mine\n2001:db8::7 myhost\n";

struct scene {
    uv_loop_t loop;
    struct dns_server server;
    struct resolver *resolver;
};

struct result {
    uv_loop_t *loop;
    unsigned called;
    int status;
    struct addr addrs[RESOLVE_ADDRS_MAX];
    size_t n;
    struct resolver **free_it;
    struct resolve *cancel;
};

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    struct err err = {0};

    assert_non_null(s);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    assert_int_equal(dns_server_start(&s->server, &s->loop), 0);
    if (resolver_new(&s->loop, s->server.conf, hosts, &s->resolver, &err) < 0)
        fail_msg("%s", err.msg);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    resolver_free(s->resolver);
    dns_server_stop(&s->server);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    free(s);
    return 0;
}

static void on_resolved(void *arg, int status, const struct addr *addrs, size_t n) {
    struct result *r = arg;

    uv_stop(r->loop);
    r->called++;
    r->status = status;
    r->n = n;
    memcpy(r->addrs, addrs, n * sizeof *addrs);
    if (r->free_it)
        resolver_free(TAKE_PTR(*r->free_it));
    if (r->cancel)
        resolve_cancel(TAKE_PTR(r->cancel));
}

static struct resolve *start(struct scene *s, const char *name, struct result *r) {
    struct resolve *q;
    struct host h;

    r->loop = &s->loop;
    assert_int_equal(host_parse(name, strlen(name), &h, NULL), 0);
    q = resolve_start(s->resolver, &h, on_resolved, r);
    assert_non_null(q);
    assert_int_equal(r->called, 0);
    return q;
}

static void wait_for(struct scene *s, const struct result *r) {
    while (!r->called)
        uv_run(&s->loop, UV_RUN_DEFAULT);
}

static void lookup(struct scene *s, const char *name, struct result *r) {
    *r = (struct result){0};
    start(s, name, r);
    wait_for(s, r);
    assert_int_equal(r->called, 1);
}

static void check(struct scene *s, const char *name, int status, const char *first, size_t n) {
    struct result r;
    char text[ADDR_TEXT_SIZE] = "";

    lookup(s, name, &r);
    if (r.n)
        addr_format(&r.addrs[0], text);
    if (r.status != status || r.n != n || (first && !str_eq(first, text)))
        fail_msg("%s: status %d, %zu addresses, the first one %s", name, r.status, r.n, text);
}

static void test_answers(void **state) {
    struct scene *s = *state;

    check(s, "a.test", 0, "192.0.2.1", 1);
    check(s, "alias.test", 0, "192.0.2.1", 1);
    check(s, "none.test", -ENOENT, NULL, 0);
    check(s, "empty.test", -ENODATA, NULL, 0);
    check(s, "fail.test", -EIO, NULL, 0);
    check(s, "evil.test", -EIO, NULL, 0);
}

static void test_over_tcp(void **state) {
    struct scene *s = *state;

    check(s, "many.test", 0, "192.0.2.1", RESOLVE_ADDRS_MAX);
    assert_true(s->server.tcp_queries >= 1);
}

static void test_both_kinds(void **state) {
    static const struct addr ipv6 = {.len = 16, .b = {[15] = 1}};
    struct result r;

    lookup(*state, "both.test", &r);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.addrs[0].len + r.addrs[1].len, 4 + 16);
    assert_true(addr_eq(&r.addrs[r.addrs[0].len == 16 ? 0 : 1], &ipv6));
}

/* A server that is silent about one kind must not hold up the other. */
static void test_one_kind_is_not_answered(void **state) {
    check(*state, "mute6.test", 0, "192.0.2.1", 1);
}

static void test_without_a_server(void **state) {
    static const struct {
        const char *name, *first;
        int status;
        size_t n;
    } rows[] = {
        {"192.0.2.9", "192.0.2.9", 0, 1},          {"[2001:db8::9]", "2001:db8::9", 0, 1}, {"MYHOST", "192.0.2.77", 0, 2},
        {"myhost.example", "192.0.2.77", 0, 1},    {"localhost", "127.0.0.1", 0, 1},       {"app.localhost", "127.0.0.1", 0, 1},
        {"host.bawn.internal", "127.0.0.1", 0, 1}, {"bawn.internal", NULL, -ENOENT, 0},    {"x.bawn.internal", NULL, -ENOENT, 0}};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check(s, rows[i].name, rows[i].status, rows[i].first, rows[i].n);
    assert_int_equal(s->server.udp_queries, 0);
}

static void test_cache(void **state) {
    struct scene *s = *state;
    struct err err = {0};

    for (int i = 0; i < 3; i++) {
        check(s, "a.test", 0, "192.0.2.1", 1);
        check(s, "none.test", -ENOENT, NULL, 0);
    }
    assert_int_equal(s->server.udp_queries, 4);
    check(s, "zero.test", 0, "192.0.2.1", 1); /* TTL 0: asked again each time */
    check(s, "zero.test", 0, "192.0.2.1", 1);
    assert_int_equal(s->server.udp_queries, 8);
    check(s, "fail.test", -EIO, NULL, 0);
    check(s, "fail.test", -EIO, NULL, 0); /* trouble is not remembered */
    assert_int_equal(s->server.udp_queries, 12);
    assert_int_equal(resolver_set(s->resolver, s->server.conf, hosts, &err), 0);
    check(s, "a.test", 0, "192.0.2.1", 1);
    assert_int_equal(s->server.udp_queries, 14);
}

static void test_cache_is_bounded(void **state) {
    struct scene *s = *state;
    char name[64];

    for (unsigned i = 0; i < RESOLVE_CACHE_MAX + 10; i++) {
        snprintf(name, sizeof name, "a.n%u.test", i);
        check(s, name, 0, "192.0.2.1", 1);
    }
    s->server.udp_queries = 0;
    check(s, "a.n5.test", 0, "192.0.2.1", 1); /* fell out */
    assert_int_equal(s->server.udp_queries, 2);
    check(s, "a.n1000.test", 0, "192.0.2.1", 1);
    assert_int_equal(s->server.udp_queries, 2);
}

static void test_same_name_is_asked_once(void **state) {
    struct scene *s = *state;
    struct result results[20] = {0};

    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        start(s, i % 2 ? "a.test" : "A.TEST.", &results[i]);
    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        wait_for(s, &results[i]);
        assert_int_equal(results[i].n, 1);
    }
    assert_int_equal(s->server.udp_queries, 2);
}

/* The numbers of questions must not be what an unseeded rand() gives: another run, and another channel, has others. */
static void test_numbers_differ(void **state) {
    struct scene *s = *state;
    uint16_t before[8];
    char name[16];

    for (int round = 0; round < 2; round++) {
        struct err err = {0};

        s->server.udp_queries = 0;
        assert_int_equal(resolver_set(s->resolver, s->server.conf, hosts, &err), 0);
        for (unsigned i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "a.n%u.test", i);
            check(s, name, 0, "192.0.2.1", 1);
        }
        assert_int_equal(s->server.udp_queries, 8);
        if (round == 0)
            memcpy(before, s->server.ids, sizeof before);
    }
    assert_memory_not_equal(before, s->server.ids, sizeof before);
}

static void test_cancel(void **state) {
    struct scene *s = *state;
    struct result gone = {0}, stays = {0}, at_once = {0}, last = {0};
    struct resolve *q = start(s, "a.test", &gone), *literal = start(s, "192.0.2.9", &at_once);

    start(s, "a.test", &stays);
    resolve_cancel(q);
    resolve_cancel(literal);
    wait_for(s, &stays);
    resolve_cancel(start(s, "a.test", &gone)); /* from the cache */
    resolve_cancel(start(s, "a.other.test", &gone));
    start(s, "a.last.test", &last);
    wait_for(s, &last);
    assert_int_equal(gone.called + at_once.called, 0);
}

/* A reply may cancel its neighbour, which is ready too. */
static void test_cancel_from_a_reply(void **state) {
    struct scene *s = *state;
    struct result a = {0}, b = {0}, end = {0};

    start(s, "192.0.2.8", &a);
    a.cancel = start(s, "192.0.2.9", &b);
    start(s, "a.test", &end);
    wait_for(s, &end);
    assert_int_equal(a.called, 1);
    assert_int_equal(b.called, 0);
}

static void test_set_while_asking(void **state) {
    struct scene *s = *state;
    struct result before = {0}, after = {0}, gone;
    struct err err = {0};

    start(s, "a.test", &before);
    assert_int_equal(resolver_set(s->resolver, "nameserver [127.0.0.1]:1\noptions timeout:1 attempts:1", "192.0.2.5 after", &err),
                     0);
    start(s, "after", &after);
    wait_for(s, &before);
    assert_int_equal(before.n, 1);
    assert_int_equal(after.n, 1);
    lookup(s, "a.new.test", &gone); /* nobody is at the new server's port */
    assert_int_equal(gone.n, 0);
    assert_true(gone.status == -EIO || gone.status == -ETIMEDOUT);
}

static void test_no_answer(void **state) {
    check(*state, "dead.test", -ETIMEDOUT, NULL, 0);
    check(*state, "wrong.test", -ETIMEDOUT, NULL, 0);
}

static void test_free_while_asking(void **state) {
    struct scene *s = *state;
    struct result r[4] = {0};

    start(s, "dead.test", &r[0]);
    start(s, "a.test", &r[1]);
    start(s, "192.0.2.9", &r[2]);
    for (int i = 0; i < 3; i++)
        uv_run(&s->loop, UV_RUN_NOWAIT);
    start(s, "a.test", &r[3]);
    r[1].called = r[2].called = 0;
    resolver_free(TAKE_PTR(s->resolver));
    for (int i = 0; i < 10; i++)
        uv_run(&s->loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r[i].called, 0);
}

static void test_free_from_a_reply(void **state) {
    struct scene *s = *state;
    struct result a = {.free_it = &s->resolver}, b = {0}, c = {0};

    start(s, "192.0.2.9", &a);
    start(s, "192.0.2.8", &b);
    start(s, "dead.test", &c);
    wait_for(s, &a);
    for (int i = 0; i < 5; i++)
        uv_run(&s->loop, UV_RUN_NOWAIT);
    assert_int_equal(b.called + c.called, 0);
}

static void test_too_many(void **state) {
    static struct result results[RESOLVE_WAITING_MAX];
    struct scene *s = *state;
    struct result more = {0};
    struct host h;

    memset(results, 0, sizeof results);
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        start(s, "dead.test", &results[i]);
    assert_int_equal(host_parse("a.test", 6, &h, NULL), 0);
    assert_null(resolve_start(s->resolver, &h, on_resolved, &more));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_answers),
        T(test_over_tcp),
        T(test_both_kinds),
        T(test_one_kind_is_not_answered),
        T(test_without_a_server),
        T(test_cache),
        T(test_cache_is_bounded),
        T(test_same_name_is_asked_once),
        T(test_numbers_differ),
        T(test_cancel),
        T(test_cancel_from_a_reply),
        T(test_set_while_asking),
        T(test_no_answer),
        T(test_free_while_asking),
        T(test_free_from_a_reply),
        T(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
