/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/lookalike.h"
#include "os/remove.h"

static struct lookalike some[] = {
    {(char[]){"a"}, 7, {.tv_sec = 1000}, false},        {(char[]){"a-b"}, 1, {.tv_sec = 1000}, false},
    {(char[]){"b-c"}, 1, {.tv_sec = 1000}, false},      {(char[]){"b/c"}, 3, {.tv_sec = 2000, .tv_nsec = 5}, true},
    {(char[]){"b/d/e"}, 4, {.tv_sec = 3000}, false},    {(char[]){"b/d/e/f"}, 4, {.tv_sec = 3000}, false},
    {(char[]){"b0"}, UINT32_MAX, {.tv_sec = 1}, false},
};
static const struct lookalikes all = {some, ARRAY_LEN(some)};

static void test_ranges(void **state UNUSED) {
    static const struct {
        const char *path;
        size_t first, n;
    } table[] = {{"a", 0, 1}, {"b", 3, 3}, {"b/d", 4, 2}, {"b/d/e", 4, 1}, {"b0", 6, 1}, {"c", 0, 0}, {"A", 0, 0}, {"b/", 0, 0}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct lookalike_range r = lookalikes_below(&all, table[i].path);

        assert_int_equal(r.n, table[i].n);
        if (r.n)
            assert_ptr_equal(r.v, &some[table[i].first]);
    }
    assert_int_equal(lookalikes_below(&(struct lookalikes){0}, "a").n, 0);
}

static int make_folder(char path[static 32]) {
    snprintf(path, 32, "/tmp/bawn-test.XXXXXX");
    assert_non_null(mkdtemp(path));
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_files_look_like_others_and_hold_nothing(void **state UNUSED) {
    char path[32];
    CLEANUP(closep) int dir = make_folder(path);
    struct stat st;

    assert_int_equal(lookalikes_make(lookalikes_below(&all, "b"), 2, dir), 0);
    assert_int_equal(fstatat(dir, "c", &st, 0), 0);
    assert_true(st.st_size == 3 && st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 5 && st.st_blocks == 0);
    assert_int_equal(st.st_mode & 0777, 0100);
    assert_int_equal(fstatat(dir, "d/e", &st, 0), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0); /* what is said to be below a file is not made */
    assert_int_equal(lookalikes_make(lookalikes_below(&all, "b0"), 0, dir), 0);
    assert_int_equal(fstatat(dir, "b0", &st, 0), 0);
    assert_true(st.st_size == UINT32_MAX && st.st_blocks == 0);
    assert_int_equal(remove_tree(AT_FDCWD, path), 0);
}

static void test_what_exists_stays_and_links_lead_nowhere(void **state UNUSED) {
    char path[32], outside[32];
    CLEANUP(closep) int dir = make_folder(path), other = make_folder(outside);
    CLEANUP(closep) int fd = openat(dir, "a", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;

    assert_true(fd >= 0 && write(fd, "mine", 4) == 4);
    assert_int_equal(symlinkat(outside, dir, "b"), 0);
    assert_int_equal(lookalikes_make((struct lookalike_range){all.v, all.n}, 0, dir), 0);
    assert_int_equal(fstatat(dir, "a", &st, 0), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(fstatat(other, "c", &st, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fstatat(dir, "b-c", &st, 0), 0);
    assert_int_equal(remove_tree(AT_FDCWD, path), 0);
    assert_int_equal(rmdir(outside), 0);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_files_look_like_others_and_hold_nothing),
        cmocka_unit_test(test_what_exists_stays_and_links_lead_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
