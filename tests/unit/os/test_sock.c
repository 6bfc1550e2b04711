/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fd.h"
#include "os/sock.h"

static int setup(void **state) {
    static int pair[2];

    *state = pair;
    return sock_pair(pair);
}

static int teardown(void **state) {
    int *pair = *state;

    closep(&pair[0]);
    closep(&pair[1]);
    return 0;
}

static size_t open_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool same_file(int a, int b) {
    struct stat x, y;

    assert_int_equal(fstat(a, &x), 0);
    assert_int_equal(fstat(b, &y), 0);
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The kernel tells of what the peer did not read before it tells what the peer said. */
static void test_last_words(void **state) {
    int *pair = *state;
    char buf[16] = "";

    assert_int_equal(sock_send(pair[0], "unread", 6, NULL, 0), 0);
    assert_int_equal(sock_send(pair[1], "last", 4, NULL, 0), 0);
    closep(&pair[1]);
    assert_int_equal(sock_recv(pair[0], buf, sizeof buf, NULL, NULL), 4);
    assert_memory_equal(buf, "last", 4);
    assert_int_equal(sock_recv(pair[0], buf, sizeof buf, NULL, NULL), 0);
}

static void test_messages_keep_their_borders(void **state) {
    const int *pair = *state;
    char buf[16] = "";

    assert_int_equal(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(pair[1], F_GETFD), FD_CLOEXEC);
    assert_int_equal(sock_send(pair[0], "one", 3, NULL, 0), 0);
    assert_int_equal(sock_send(pair[0], "three", 5, NULL, 0), 0);
    assert_int_equal(sock_recv(pair[1], buf, sizeof buf, NULL, NULL), 3);
    assert_memory_equal(buf, "one", 3);
    assert_int_equal(sock_recv(pair[1], buf, 5, NULL, NULL), 5);
    assert_memory_equal(buf, "three", 5);
}

static void test_descriptors_travel(void **state) {
    const int *pair = *state;
    int sent[SOCK_FDS_MAX], got[SOCK_FDS_MAX];
    static const char *const files[SOCK_FDS_MAX] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"};

    for (size_t i = 0; i < SOCK_FDS_MAX; i++)
        sent[i] = open(files[i], O_RDONLY | O_CLOEXEC);
    for (size_t n = 0; n <= SOCK_FDS_MAX; n++) {
        size_t n_got = SOCK_FDS_MAX;
        char c = 0;

        assert_int_equal(sock_send(pair[0], "m", 1, sent, n), 0);
        assert_int_equal(sock_recv(pair[1], &c, 1, got, &n_got), 1);
        assert_int_equal(c, 'm');
        assert_int_equal(n_got, n);
        for (size_t i = 0; i < n_got; i++) {
            assert_true(got[i] != sent[i] && same_file(got[i], sent[i]));
            assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
            close(got[i]);
        }
    }
    for (size_t i = 0; i < SOCK_FDS_MAX; i++)
        close(sent[i]);
}

/* Sends n descriptors, also more than sock_send() would. */
static void send_raw(int sock, const char *data, size_t len, size_t n) {
    enum { MANY = 16 };
    char control[CMSG_SPACE(sizeof(int) * MANY)] __attribute__((aligned(8))) = {0};
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    assert_true(n > 0 && n <= MANY);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * n);
    for (size_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){STDIN_FILENO}, sizeof(int));
    assert_int_equal(sendmsg(sock, &msg, 0), (ssize_t)len);
}

/* Whatever is refused leaves no descriptor behind, and nothing in the caller's variables. */
static void test_refused_messages(void **state) {
    static const struct {
        size_t len, room, fds, want;
    } table[] = {
        {9, 8, 1, 1}, /* cut, with a descriptor that would have been welcome */
        {9, 8, 4, 4},  {1, 8, 1, 0}, {1, 8, 2, 1}, {1, 8, 4, 3}, {1, 8, 5, 4}, /* more than the control buffer holds */
        {1, 8, 16, 4},
    };
    const int *pair = *state;
    size_t before = open_fds();

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int fds[SOCK_FDS_MAX] = {-7, -7, -7, -7};
        size_t n = table[i].want;
        char buf[8];

        send_raw(pair[0], "123456789", table[i].len, table[i].fds);
        assert_int_equal(sock_recv(pair[1], buf, table[i].room, fds, &n), -EBADMSG);
        assert_int_equal(n, 0);
        for (size_t k = 0; k < SOCK_FDS_MAX; k++)
            assert_int_equal(fds[k], -7);
        assert_int_equal(open_fds(), before);
    }
}

static void test_descriptor_that_nobody_asked_for(void **state) {
    const int *pair = *state;
    size_t before = open_fds();
    char c;

    send_raw(pair[0], "x", 1, 1);
    assert_int_equal(sock_recv(pair[1], &c, 1, NULL, NULL), -EBADMSG);
    assert_int_equal(open_fds(), before);
    assert_int_equal(sock_send(pair[0], "y", 1, NULL, 0), 0); /* the next one is fine again */
    assert_int_equal(sock_recv(pair[1], &c, 1, NULL, NULL), 1);
    assert_int_equal(c, 'y');
}

static void test_cut_message(void **state) {
    const int *pair = *state;
    char buf[4];

    assert_int_equal(sock_send(pair[0], "12345", 5, NULL, 0), 0);
    assert_int_equal(sock_recv(pair[1], buf, sizeof buf, NULL, NULL), -EBADMSG);
}

static void test_end(void **state) {
    int *pair = *state, fds[1] = {-7};
    size_t n = 1;
    char c;

    assert_int_equal(sock_send(pair[0], "x", 1, NULL, 0), 0);
    closep(&pair[0]);
    assert_int_equal(sock_recv(pair[1], &c, 1, fds, &n), 1); /* what was sent before still arrives */
    n = 1;
    assert_int_equal(sock_recv(pair[1], &c, 1, fds, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(fds[0], -7);
    assert_int_equal(sock_send(pair[1], "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
}

static void test_bad_arguments(void **state) {
    const int *pair = *state;
    const int many[SOCK_FDS_MAX + 1] = {0}, none[1] = {-1};
    char c;

    assert_int_equal(sock_send(pair[0], "x", 1, many, ARRAY_LEN(many)), -EINVAL);
    assert_int_equal(sock_send(pair[0], "x", 1, none, 1), -EBADF);
    assert_int_equal(sock_send(-1, "x", 1, NULL, 0), -EBADF);
    assert_int_equal(sock_recv(-1, &c, 1, NULL, NULL), -EBADF);
}

#define SOCK_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        SOCK_TEST(test_messages_keep_their_borders),
        SOCK_TEST(test_descriptors_travel),
        SOCK_TEST(test_refused_messages),
        SOCK_TEST(test_descriptor_that_nobody_asked_for),
        SOCK_TEST(test_cut_message),
        SOCK_TEST(test_end),
        SOCK_TEST(test_last_words),
        SOCK_TEST(test_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
