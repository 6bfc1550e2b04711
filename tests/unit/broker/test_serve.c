/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "../../fuzz/fuzz_broker.c"
#include "../policy/corpus.h"

static uint8_t request_bytes[sizeof(struct broker_request) + BROKER_DATA_MAX];

/* The first request of a file of the corpus. */
static size_t load(const char *name) {
    uint8_t head[3];
    char path[200];
    size_t len;
    int fd;

    snprintf(path, sizeof path, "tests/fuzz/corpus/broker/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, head, sizeof head), sizeof head);
    len = (size_t)head[1] + 256 * (size_t)head[2];
    assert_int_equal(read(fd, request_bytes, len), len);
    close(fd);
    return len;
}

static uint8_t answer_bytes[sizeof(struct broker_answer) + BROKER_DATA_MAX];

static bool next_answer(struct scene *s, struct broker_answer *ret) {
    ssize_t n;

    broker_flush(&s->b);
    n = recv(s->gate, answer_bytes, sizeof answer_bytes, MSG_DONTWAIT);

    if (n < (ssize_t)sizeof *ret)
        return false;
    memcpy(ret, answer_bytes, sizeof *ret);
    assert_int_equal(n, sizeof *ret + ret->len);
    return true;
}

static void test_table(void **state) {
    static const struct {
        const char *file;
        int r, status;
    } rows[] = {
        {"name", 0, 0},
        {"ipv4", 0, 0},
        {"ipv6", 0, 0},
        {"long-name", 0, 0},
        {"p384", 0, -EINVAL},
        {"off-curve", 0, -EINVAL},
        {"bad-host", 0, -EINVAL},
        {"wildcard", 0, -EINVAL},
        {"denied-leaf", 0, 0},
        {"no-end", -EBADMSG, 0},
        {"type", -EBADMSG, 0},
        {"length", -EBADMSG, 0},
        {"too-long", -EBADMSG, 0},
    };
    struct scene s = {0};

    scene_open(&s);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = load(rows[i].file);
        struct broker_answer a;

        assert_int_equal(serve_requests(&s.b, request_bytes, len), rows[i].r);
        assert_int_equal(next_answer(&s, &a), rows[i].r == 0);
        if (rows[i].r == 0) {
            assert_int_equal(a.status, rows[i].status);
            assert_int_equal(a.len > 0, rows[i].status == 0);
        }
    }
    scene_close(&s);
}

/* Whatever is cut off is no request any more. */
static void test_cut(void **state) {
    struct broker_answer a;
    struct scene s = {0};
    size_t len = load("name");

    scene_open(&s);
    for (size_t n = 0; n < len; n++) {
        load("name");
        assert_int_equal(serve_requests(&s.b, request_bytes, n), -EBADMSG);
    }
    assert_false(next_answer(&s, &a));
    scene_close(&s);
}

/* Answered by the loop in the order they came, until the other side is gone. */
static void test_loop(void **state) {
    struct broker_answer a;
    struct broker_request q;
    struct err err = {0};
    struct scene s = {0};
    size_t len = load("name");

    scene_open(&s);
    for (uint32_t id = 1; id <= 3; id++) {
        memcpy(&q, request_bytes, sizeof q);
        q.id = id;
        memcpy(request_bytes, &q, sizeof q);
        assert_int_equal(sock_send(s.gate, request_bytes, len, NULL, 0), 0);
    }
    assert_int_equal(shutdown(s.gate, SHUT_WR), 0);
    assert_int_equal(serve_loop(&s.b, &err), 0);
    for (uint32_t id = 1; id <= 3; id++) {
        assert_true(next_answer(&s, &a));
        assert_int_equal(a.id, id);
        assert_int_equal(a.status, 0);
    }
    scene_close(&s);
}

static void test_bad_request_ends_it(void **state) {
    struct err err = {0};
    struct scene s = {0};

    scene_open(&s);
    assert_int_equal(sock_send(s.gate, "x", 1, NULL, 0), 0);
    assert_int_equal(serve_loop(&s.b, &err), -EBADMSG);
    scene_close(&s);
}

/* An authority at its end signs nothing, and shortly before it nothing that lasts longer. */
static void test_time(void **state) {
    struct broker_answer a;
    struct scene s = {0};
    const uint8_t *p;
    X509 *leaf;

    scene_open(&s);
    X509_free(s.b.ca.cert);
    s.b.ca.cert = X509_dup(authority()->cert);
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(s.b.ca.cert), 3600));
    assert_int_equal(serve_requests(&s.b, request_bytes, load("name")), 0);
    assert_true(next_answer(&s, &a));
    p = answer_bytes + sizeof a;
    leaf = d2i_X509(NULL, &p, (long)a.len);
    assert_non_null(leaf);
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(s.b.ca.cert)), 0);
    X509_free(leaf);
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(s.b.ca.cert), -10));
    assert_int_equal(serve_requests(&s.b, request_bytes, load("name")), 0);
    assert_true(next_answer(&s, &a));
    assert_int_equal(a.status, -EKEYEXPIRED);
    scene_close(&s);
}

/* What was fetched is given out, and is nowhere when the broker is done. */
static void test_value(void **state) {
    struct broker_part parts[2];
    struct broker_answer a;
    struct scene s = {0};

    scene_open(&s);
    assert_int_equal(serve_requests(&s.b, request_bytes, load("value-basic")), 0);
    read_questions(&s);
    assert_int_equal(s.wanted, 1);
    assert_false(next_answer(&s, &a));
    do_value(&s);
    assert_true(next_answer(&s, &a));
    assert_int_equal(a.status, 0);
    assert_int_equal(broker_parts_read(answer_bytes + sizeof a, a.len, parts, 2), 0);
    assert_int_equal(parts[1].len, strlen(FUZZ_VALUE));
    assert_memory_equal(parts[0].p, "Basic bWU6VGhlLVZhbHVlLU9mLVRoZS1Vc2Vy", parts[0].len);
    for (size_t i = 0; i < s.b.out.cap; i++)
        assert_int_equal(s.b.out.p[i], 0);
    scene_close(&s);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/broker", 28);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_loop),   cmocka_unit_test(test_bad_request_ends_it),
        cmocka_unit_test(test_time),   cmocka_unit_test(test_value),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
