/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secret that was put into a request is nowhere in memory once the bytes were written: all that this process can write to is
 * read. The secret stands on a page that is left out, and so does what memory is read into.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hook_rig.h"
#include "http2_rig.h"

enum { PAGE = 64 * 1024, SECRET_LEN = 64, PART = 16, REGION_MAX = 1 << 30 };

struct scan {
    char *secret; /* not in Huffman's code: each byte would be longer in it */
    char *memory;
};

static void scan_open(struct scan *s) {
    static const char bytes[] = "<>{}@~^|\\";

    s->secret = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(s->secret != MAP_FAILED);
    s->memory = s->secret + PAGE;
    for (size_t i = 0; i < SECRET_LEN; i++)
        s->secret[i] = bytes[(i * i + i / 5) % (sizeof bytes - 1)];
}

static size_t count_in(const struct scan *s, int fd, size_t from, size_t to) {
    size_t found = 0, step = PAGE - PART;

    for (size_t at = from; at < to; at += step) {
        ssize_t n = pread(fd, s->memory, MIN_OF((size_t)PAGE, to - at), (off_t)at);

        for (size_t part = 0; n > 0 && part + PART <= SECRET_LEN; part += PART)
            found += memmem(s->memory, (size_t)n, s->secret + part, PART) != NULL;
    }
    return found;
}

/* Pieces of the secret in writable memory. */
static size_t count(const struct scan *s) {
    FILE *maps = fopen("/proc/self/maps", "re");
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    size_t from, to, found = 0, own = (size_t)s->secret;
    char line[512], mode[8];

    assert_true(maps && fd >= 0);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%zx-%zx %7s", &from, &to, mode) != 3 || mode[0] != 'r' || mode[1] != 'w' || to - from > REGION_MAX)
            continue;
        if (from <= own && own < to) { /* neighbours may be one region */
            found += count_in(s, fd, from, own) + count_in(s, fd, own + 2 * PAGE, to);
            continue;
        }
        found += count_in(s, fd, from, to);
    }
    fclose(maps);
    close(fd);
    return found;
}

/* The query, as it is allowed in one. */
static void set_both(const struct scan *s, struct httpx *x, uint32_t id) {
    char *query = s->memory - PAGE / 2; /* on the page that is left out */

    assert_int_equal(http_head_set_secret(httpx_head(x, id), "Authorization", s->secret, SECRET_LEN), 0);
    query[0] = '?';
    memcpy(query + 1, s->secret, SECRET_LEN);
    query[SECRET_LEN + 1] = 0;
    assert_int_equal(httpx_set_query(x, id, query), 0);
}

static void write_all(struct httpx *x, enum httpx_way way, size_t step) {
    const uint8_t *p;
    size_t n;

    while ((n = httpx_out(x, way, &p)))
        httpx_wrote(x, way, MIN_OF(n, step));
}

static void test_h1(void **state) {
    static const char request[] = "POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 200000\r\n\r\n";
    CLEANUP(freep) uint8_t *body = calloc(1, 200000);
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct scan s;

    scan_open(&s);
    for (int how = 0; how < 4; how++) {
        struct rig r;

        rig_open(&r, HTTPX_H1, true, false);
        r.answer = HTTPX_WAIT;
        rig_client(&r, request);
        assert_int_equal(count(&s), 0);
        set_both(&s, r.x, 1);
        assert_true(count(&s) > 0);
        if (how == 0)
            policy_refuse(POLICY_SECRET_UNAVAILABLE, "example.com", NULL, &v);
        else
            v = (struct policy_verdict){.action = RULE_ALLOW};
        httpx_decide(r.x, 1, &v);
        assert_int_equal(count(&s) > 0, how > 0);
        if (how == 2) /* what comes behind it makes the queue grow */
            httpx_data(r.x, HTTPX_TO_SERVER, body, 200000);
        if (how < 3)
            write_all(r.x, HTTPX_TO_SERVER, 60);
        assert_int_equal(count(&s) > 0, how == 3);
        rig_close(&r); /* 3: with the bytes still in the queue */
        assert_int_equal(count(&s), 0);
    }
    munmap(s.secret, 2 * PAGE);
}

static void test_h2(void **state) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct scan s;

    scan_open(&s);
    for (int how = 0; how < 5; how++) {
        struct net n;
        int32_t id;

        net_open(&n);
        n.r.answer = HTTPX_WAIT;
        id = ask(&n, FIELDS(START("POST", "/a?b")), "body", 4, true);
        assert_int_equal(count(&s), 0);
        set_both(&s, n.r.x, (uint32_t)id);
        if (how == 0)
            policy_refuse(POLICY_SECRET_UNAVAILABLE, "example.com", NULL, &v);
        else
            v = (struct policy_verdict){.action = RULE_ALLOW};
        httpx_decide(n.r.x, (uint32_t)id, &v);
        assert_int_equal(count(&s) > 0, how > 0);
        if (how == 2)
            nghttp2_submit_rst_stream(n.client.session, 0, id, NGHTTP2_CANCEL);
        if (how == 3)
            httpx_eof(n.r.x, HTTPX_TO_CLIENT);
        pump_one(&n, &n.client, HTTPX_TO_SERVER, HTTPX_TO_CLIENT);
        if (how < 4)
            write_all(n.r.x, HTTPX_TO_SERVER, 30);
        assert_int_equal(count(&s) > 0, how == 4);
        net_close(&n);
        assert_int_equal(count(&s), 0);
    }
    munmap(s.secret, 2 * PAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_h1), cmocka_unit_test(test_h2)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
