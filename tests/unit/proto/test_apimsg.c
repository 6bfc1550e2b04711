/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/api/apimsg.h"

static void round_trip(size_t len) {
    CLEANUP(freep) char *body = malloc(len + 1);
    CLEANUP(api_msg_done) struct api_msg got = {0};
    struct err err = {0};
    int pair[2];

    memset(body, 'x', len);
    assert_int_equal(sock_pair(pair), 0);
    struct api_msg m = {.kind = API_REQUEST, .request = 7, .peer = 9, .value = 3, .body = body, .len = len};
    assert_int_equal(api_msg_send(pair[0], &m, &err), 0);
    assert_int_equal(api_msg_recv(pair[1], false, &got, &err), 1);
    assert_int_equal(got.kind, API_REQUEST);
    assert_int_equal(got.flags, 0);
    assert_int_equal(got.request, 7);
    assert_int_equal(got.peer, 9);
    assert_int_equal(got.value, 3);
    assert_int_equal(got.len, len);
    assert_memory_equal(got.body, body, len);
    assert_int_equal(got.n_fds, 0);
    close(pair[0]);
    api_msg_done(&got);
    assert_int_equal(api_msg_recv(pair[1], false, &got, &err), 0);
    close(pair[1]);
}

static void test_bodies(void **state) {
    const size_t lens[] = {0, 1, API_INLINE_MAX - 1, API_INLINE_MAX, API_INLINE_MAX + 1, 3 << 20, API_BODY_MAX};

    for (size_t i = 0; i < ARRAY_LEN(lens); i++)
        round_trip(lens[i]);
}

static void test_too_large(void **state) {
    struct api_msg m = {.kind = API_REQUEST, .request = 1, .len = API_BODY_MAX + 1};
    struct err err = {0};

    assert_int_equal(api_msg_send(-1, &m, &err), -E2BIG);
}

static void test_descriptors(void **state) {
    CLEANUP(api_msg_done) struct api_msg got = {0};
    struct err err = {0};
    uint64_t part[2] = {5, 6}, n;
    int pair[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct api_msg m = {.kind = API_ANSWER,
                        .flags = API_FLAG_PART,
                        .request = 1,
                        .value = 200,
                        .body = (char *)part,
                        .len = sizeof part,
                        .fds = {fd},
                        .n_fds = 1};

    assert_int_equal(sock_pair(pair), 0);
    assert_int_equal(api_msg_send(pair[0], &m, &err), 0);
    assert_int_equal(api_msg_recv(pair[1], true, &got, &err), 1);
    assert_int_equal(got.n_fds, 1);
    assert_true(api_msg_u64(&got, 1, &n) && n == 6);
    assert_false(api_msg_u64(&got, 2, &n));
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

/* One thing is wrong in each. */
static void test_refused(void **state) {
    const struct {
        struct api_msg m;
        bool from_core;
    } rows[] = {
        {{.kind = 0, .request = 1}, true},
        {{.kind = 8, .request = 1}, true},
        {{.kind = 15, .request = 1}, false},
        {{.kind = 19, .request = 1}, false},
        {{.kind = API_REQUEST, .request = 1}, true},
        {{.kind = API_ANSWER, .request = 1, .value = 200}, false},
        {{.kind = API_REQUEST, .request = 0}, false},
        {{.kind = API_GONE, .request = 1, .peer = 1}, false},
        {{.kind = API_CANCEL, .request = 1, .peer = 1}, false},
        {{.kind = API_REQUEST, .request = 1, .flags = 64}, false},
        {{.kind = API_REQUEST, .request = 1, .flags = API_FLAG_PART}, false},
        {{.kind = API_REQUEST, .request = 1, .flags = API_FLAG_MEMFD}, false},
        {{.kind = API_CANCEL, .request = 1, .body = (char *)"x", .len = 1}, false},
        {{.kind = API_ANSWER, .request = 1, .value = 99}, true},
        {{.kind = API_ANSWER, .request = 1, .value = 600}, true},
        {{.kind = API_ANSWER, .request = 1, .value = 200, .flags = API_FLAG_STREAM}, true},
        {{.kind = API_ANSWER, .request = 1, .value = 200, .flags = API_FLAG_STREAM | API_FLAG_JSON}, true},
        {{.kind = API_CONNECTION, .peer = 1}, true},
        {{.kind = API_UPLOAD, .request = 1}, true},
        {{.kind = API_DRAIN, .peer = 1}, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_msg got = {0};
        struct err err = {0};
        int pair[2];

        assert_int_equal(sock_pair(pair), 0);
        assert_int_equal(api_msg_send(pair[0], &rows[i].m, &err), 0);
        if (api_msg_recv(pair[1], rows[i].from_core, &got, &err) != -EBADMSG)
            fail_msg("row %zu was taken", i);
        close(pair[0]);
        close(pair[1]);
    }
}

/* A body that the sender could still change is none. */
static void test_seals(void **state) {
    enum { LEN = API_INLINE_MAX + 1 };
    const int all[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL};

    for (size_t missing = 0; missing <= ARRAY_LEN(all) + 1; missing++) {
        CLEANUP(api_msg_done) struct api_msg got = {0};
        struct err err = {0};
        char packet[API_HEADER + API_INLINE_MAX];
        struct api_msg m = {.kind = API_REQUEST, .request = 1, .len = LEN, .body = calloc(1, LEN)};
        size_t len;
        int good, fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

        assert_int_equal(api_msg_pack(&m, packet, &len, &good, &err), 0);
        close(good);
        free(m.body);
        assert_int_equal(ftruncate(fd, missing == ARRAY_LEN(all) ? LEN + 1 : LEN), 0);
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
            if (i != missing)
                assert_int_equal(fcntl(fd, F_ADD_SEALS, all[i]), 0);
        r = api_msg_unpack(packet, len, &fd, 1, false, &got, &err);
        assert_int_equal(r, missing > ARRAY_LEN(all) ? 1 : -EBADMSG);
        assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed either way */
    }
}

static void test_texts(void **state) {
    struct api_msg m = {.body = (char *)"a\0\0c", .len = 4};

    assert_string_equal(api_msg_text(&m, 0), "a");
    assert_string_equal(api_msg_text(&m, 1), "");
    assert_string_equal(api_msg_text(&m, 2), "c");
    assert_string_equal(api_msg_text(&m, 3), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),  cmocka_unit_test(test_too_large), cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_seals),     cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
