/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/copy.h"
#include "os/fd.h"

/* A file without a name, on disk (the kernel copies) or in memory; from one to the other it is done by hand. */
static int make_file(bool memory) {
    int fd = memory ? memfd_create("test", MFD_CLOEXEC) : open("/var/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

static char *make_bytes(size_t len) {
    char *s = malloc(len + 1);

    assert_non_null(s);
    for (size_t i = 0; i < len; i++)
        s[i] = (char)(i * 7 + i / 251);
    return s;
}

static void assert_content(int fd, const char *want, size_t len) {
    CLEANUP(freep) char *got = malloc(len + 1);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, len);
    assert_int_equal(pread(fd, got, len + 1, 0), len);
    assert_memory_equal(got, want, len);
}

static void test_content_is_the_same(void **state UNUSED) {
    static const size_t lens[] = {0, 1, 4096, 64 * 1024, 64 * 1024 + 1, 3 * 1024 * 1024 + 17};

    for (int way = 0; way < 4; way++)
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
            CLEANUP(closep) int from = make_file(way & 1), to = make_file(way & 2);
            CLEANUP(freep) char *bytes = make_bytes(lens[i]);
            uint64_t n = 99;

            assert_int_equal(fd_write_all(from, bytes, lens[i]), 0); /* and leaves the position at the end */
            assert_int_equal(copy_content(from, to, UINT64_MAX, &n), 0);
            assert_int_equal(n, lens[i]);
            assert_content(to, bytes, lens[i]);
        }
}

static void test_ceiling(void **state UNUSED) {
    for (int way = 0; way < 4; way++) {
        CLEANUP(closep) int from = make_file(way & 1), exact = make_file(way & 2), less = make_file(way & 2);
        CLEANUP(freep) char *bytes = make_bytes(5000);
        uint64_t n = 99;

        assert_int_equal(fd_write_all(from, bytes, 5000), 0);
        assert_int_equal(copy_content(from, less, 4999, &n), -EFBIG);
        assert_int_equal(n, 99);
        assert_int_equal(copy_content(from, exact, 5000, NULL), 0);
        assert_content(exact, bytes, 5000);
    }
}

static void test_holes(void **state UNUSED) {
    CLEANUP(closep) int from = make_file(false), to = make_file(false);
    char end[1] = {'x'}, byte = 1;
    uint64_t n = 0;

    assert_int_equal(pwrite(from, end, 1, 8 * 1024 * 1024), 1);
    assert_int_equal(copy_content(from, to, UINT64_MAX, &n), 0);
    assert_int_equal(n, 8 * 1024 * 1024 + 1);
    assert_int_equal(pread(to, &byte, 1, 4 * 1024 * 1024), 1);
    assert_int_equal(byte, 0);
    assert_int_equal(pread(to, &byte, 1, 8 * 1024 * 1024), 1);
    assert_int_equal(byte, 'x');
}

static void test_failures(void **state UNUSED) {
    CLEANUP(closep) int from = make_file(false), to = make_file(true), dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(fd_write_all(from, "x", 1), 0);
    assert_int_equal(copy_content(-1, to, 10, NULL), -EBADF);
    assert_int_equal(copy_content(from, read_only, 10, NULL), -EBADF);
    assert_int_equal(copy_content(dir, to, 10, NULL), -EISDIR);
}

/* A file of /proc has content, but no size. */
static void test_file_without_a_size(void **state UNUSED) {
    CLEANUP(closep) int from = open("/proc/self/status", O_RDONLY | O_CLOEXEC), to = make_file(false);
    char text[6] = "";
    uint64_t n = 0;

    assert_int_equal(copy_content(from, to, 1 << 20, &n), 0);
    assert_true(n > 100);
    assert_int_equal(pread(to, text, 5, 0), 5);
    assert_string_equal(text, "Name:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content_is_the_same),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_file_without_a_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
