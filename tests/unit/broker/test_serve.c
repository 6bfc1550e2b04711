#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "../../fuzz/fuzz_broker.c"
#include "../policy/corpus.h"
#include "os/sock.h"

static void load(const char *name, struct broker_request *q) {
    char path[200];
    int fd;

    *q = (struct broker_request){0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/broker/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, q, sizeof *q) > 0);
    close(fd);
}

static void test_table(void **state) {
    static const struct {
        const char *file;
        int r, status;
    } rows[] = {
        {"name", 0, 0},           {"ipv4", 0, 0},           {"ipv6", 0, 0},
        {"long-name", 0, 0},      {"p384", 0, -EINVAL},     {"off-curve", 0, -EINVAL},
        {"bad-host", 0, -EINVAL}, {"wildcard", 0, -EINVAL}, {"no-end", -EBADMSG, 0},
        {"type", -EBADMSG, 0},    {"length", -EBADMSG, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct broker_answer a = {0};
        struct broker_request q;

        load(rows[i].file, &q);
        assert_int_equal(serve_answer(authority(), &q, sizeof q, &a), rows[i].r);
        assert_int_equal(a.status, rows[i].status);
        assert_int_equal(a.len > 0, rows[i].r == 0 && rows[i].status == 0);
        assert_int_equal(serve_answer(authority(), &q, sizeof q - 1, &a), -EBADMSG);
    }
}

/* In order, until the other side is gone. */
static void test_loop(void **state) {
    struct broker_request q;
    struct broker_answer a;
    struct err err = {0};
    int pair[2];

    load("name", &q);
    assert_int_equal(sock_pair(pair), 0);
    for (uint32_t id = 1; id <= 3; id++) {
        q.id = id;
        assert_int_equal(sock_send(pair[0], &q, sizeof q, NULL, 0), 0);
    }
    assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
    assert_int_equal(serve_loop(authority(), pair[1], &err), 0);
    for (uint32_t id = 1; id <= 3; id++) {
        assert_int_equal(sock_recv(pair[0], &a, sizeof a, NULL, NULL), sizeof a);
        assert_int_equal(a.id, id);
        assert_int_equal(a.status, 0);
    }
    q.type = 99;
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(sock_pair(pair), 0);
    assert_int_equal(sock_send(pair[0], &q, sizeof q, NULL, 0), 0);
    assert_int_equal(serve_loop(authority(), pair[1], &err), -EBADMSG);
    close(pair[0]);
    close(pair[1]);
}

/* An authority at its end signs nothing, and shortly before it nothing that lasts longer. */
static void test_time(void **state) {
    struct ca ca = *authority();
    struct broker_request q;
    struct broker_answer a;
    const uint8_t *p = a.data;
    X509 *leaf;

    load("name", &q);
    ca.cert = X509_dup(ca.cert);
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(ca.cert), 3600));
    assert_int_equal(serve_answer(&ca, &q, sizeof q, &a), 0);
    leaf = d2i_X509(NULL, &p, (long)a.len);
    assert_non_null(leaf);
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(ca.cert)), 0);
    X509_free(leaf);
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(ca.cert), -10));
    assert_int_equal(serve_answer(&ca, &q, sizeof q, &a), 0);
    assert_int_equal(a.status, -EKEYEXPIRED);
    X509_free(ca.cert);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/broker", 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
