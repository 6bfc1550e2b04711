/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fd.h"
#include "os/sock.h"
#include "proto/execmsg.h"

enum { LONG = EXEC_INLINE_MAX + 1, CEILING = 1024 * 1024 };

static int pair[2];

static int begin(void **state) {
    return sock_pair(pair);
}

static int end(void **state) {
    closep(&pair[0]);
    closep(&pair[1]);
    return 0;
}

/* How many descriptors this process has: nothing may stay open that was not handed out. */
static int count_fds(void) {
    int n = 0;

    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* There and back; *n_fds descriptors of /dev/null with it. */
static void expect_passes(size_t len, size_t n_fds) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(CEILING);
    struct exec_msg m = {.type = EXEC_MSG_OUTPUT, .value = -7, .extra = 9, .len = (uint32_t)len}, got;
    int fds[3] = {pair[0], pair[1], pair[0]}, came[3], before = count_fds();
    char *bytes = malloc(len + 1);
    size_t n = 3;

    memset(bytes, 'x', len + 1);
    buf_adds(&body, "before");
    assert_int_equal(execmsg_send(pair[0], &m, len ? bytes : NULL, n_fds ? fds : NULL, n_fds), 0);
    assert_int_equal(execmsg_recv(pair[1], &got, &body, came, &n), 1);
    assert_int_equal(n, n_fds);
    assert_int_equal(count_fds(), before + (int)n_fds);
    assert_int_equal(got.type, EXEC_MSG_OUTPUT);
    assert_int_equal(got.value, -7);
    assert_int_equal(got.extra, 9);
    assert_int_equal(got.len, len);
    assert_int_equal(body.len, len + 6);
    assert_memory_equal(body.data, "before", 6);
    assert_memory_equal(body.data + 6, bytes, len);
    for (size_t i = 0; i < n; i++) {
        assert_true(fcntl(came[i], F_GETFD) & FD_CLOEXEC);
        close(came[i]);
    }
    free(bytes);
}

static void test_there_and_back(void **state) {
    static const size_t lengths[] = {0, 1, EXEC_INLINE_MAX, LONG, CEILING - 6};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (size_t fds = 0; fds <= EXEC_FDS_MAX; fds++)
            expect_passes(lengths[i], fds);
}

static void test_limits(void **state) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(4);
    struct exec_msg m = {.type = EXEC_MSG_INPUT, .len = 5};
    int fds[4] = {0, 0, 0, 0}, came[3], before = count_fds();
    size_t n = 3;

    assert_int_equal(execmsg_send(pair[0], &m, "12345", fds, 4), -EINVAL);
    assert_int_equal(execmsg_send(pair[0], &m, "12345", (int[]){pair[0]}, 1), 0);
    assert_int_equal(execmsg_recv(pair[1], &m, &body, came, &n), -EMSGSIZE);
    assert_int_equal(n, 0);
    assert_int_equal(count_fds(), before);
    m.len = 1;
    assert_int_equal(execmsg_send(pair[0], &m, "1", (int[]){pair[0], pair[1]}, 2), 0);
    n = 1; /* more came than are wanted */
    assert_int_equal(execmsg_recv(pair[1], &m, &body, came, &n), -EBADMSG);
    assert_int_equal(count_fds(), before);
    fcntl(pair[1], F_SETFL, O_RDWR | O_NONBLOCK);
    assert_int_equal(execmsg_recv(pair[1], &m, &body, NULL, NULL), -EAGAIN);
    closep(&pair[0]);
    assert_int_equal(execmsg_recv(pair[1], &m, &body, NULL, NULL), 0);
    assert_int_equal(execmsg_send(pair[1], &m, "1", NULL, 0), -EPIPE);
}

/* Whoever does not read does not keep a sender that does not wait. */
static void test_a_full_socket(void **state) {
    struct exec_msg m = {.type = EXEC_MSG_STOPPED};
    int r = 0;

    fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK);
    for (int i = 0; r == 0 && i < 100000; i++)
        r = execmsg_send(pair[0], &m, NULL, NULL, 0);
    assert_int_equal(r, -EAGAIN);
}

/* Sends bytes as they are. */
static void send_raw(const struct exec_msg *m, size_t cut, const char *behind, int fd) {
    char packet[sizeof *m + 64];
    size_t len = strlen(behind);

    memcpy(packet, m, sizeof *m);
    memcpy(packet + sizeof *m, behind, len);
    assert_int_equal(sock_send(pair[0], packet, sizeof *m + len - cut, &fd, fd >= 0), 0);
}

static void test_messages_that_are_none(void **state) {
    static const struct {
        struct exec_msg m;
        size_t cut;
        const char *behind;
    } cases[] = {{{.type = 0}, 0, ""},
                 {{.type = EXEC_MSG_CONNECT + 1}, 0, ""},
                 {{.type = EXEC_MSG_EXEC}, 1, ""},
                 {{.type = EXEC_MSG_EXEC, .len = 2}, 0, "x"},
                 {{.type = EXEC_MSG_EXEC, .len = 0}, 0, "x"},
                 {{.type = EXEC_MSG_EXEC, .len = UINT32_MAX}, 0, "x"},
                 {{.type = EXEC_MSG_EXEC, .flags = 2}, 0, ""},
                 {{.type = EXEC_MSG_EXEC, .flags = EXEC_MSG_MEMFD, .len = LONG}, 0, ""}, /* without one */
                 {{.type = EXEC_MSG_EXEC, .flags = EXEC_MSG_MEMFD, .len = 1}, 0, ""}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf body = BUF_INIT(CEILING);
        struct exec_msg m = {.value = 77};

        send_raw(&cases[i].m, cases[i].cut, cases[i].behind, -1);
        assert_int_equal(execmsg_recv(pair[1], &m, &body, NULL, NULL), -EBADMSG);
        assert_int_equal(m.value, 77);
        assert_int_equal(body.len, 0);
    }
}

/* A file on disk could make the reader wait; a memfd of another size is a lie. */
static void test_bodies_that_are_no_memfd(void **state) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(CEILING);
    const struct exec_msg m = {.type = EXEC_MSG_EXEC, .flags = EXEC_MSG_MEMFD, .len = LONG};
    int memfd = memfd_create("short", MFD_CLOEXEC), pipes[2], before;
    struct exec_msg got;

    assert_int_equal(ftruncate(memfd, LONG - 1), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    before = count_fds();
    for (size_t i = 0; i < 3; i++) {
        send_raw(&m, 0, "", i == 0 ? memfd : i == 1 ? pipes[0] : pair[0]);
        assert_int_equal(execmsg_recv(pair[1], &got, &body, NULL, NULL), -EBADMSG);
        assert_int_equal(count_fds(), before);
    }
    assert_int_equal(ftruncate(memfd, LONG), 0);
    send_raw(&m, 0, "", memfd);
    assert_int_equal(execmsg_recv(pair[1], &got, &body, NULL, NULL), 1);
    assert_int_equal(body.len, LONG);
    close(memfd);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, begin, end),
        cmocka_unit_test_setup_teardown(test_limits, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_socket, begin, end),
        cmocka_unit_test_setup_teardown(test_messages_that_are_none, begin, end),
        cmocka_unit_test_setup_teardown(test_bodies_that_are_no_memfd, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
