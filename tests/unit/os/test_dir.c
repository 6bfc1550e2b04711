/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/strv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/remove.h"

static char path[32];
static int top = -1;

static int setup(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/bawn-dir-XXXXXX");
    assert_non_null(mkdtemp(path));
    top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0;
}

static int teardown(void **state) {
    (void)state;
    closep(&top);
    return remove_tree(AT_FDCWD, path);
}

static void make_some(void) {
    assert_int_equal(file_create_at(top, "b", 0600, "", 0), 0);
    assert_int_equal(mkdirat(top, ".a", 0700), 0);
    assert_int_equal(symlinkat(".a", top, "c"), 0);
}

static void test_next(void **state) {
    static const struct {
        const char *name;
        int type;
    } want[] = {{".a", DT_DIR}, {"b", DT_REG}, {"c", DT_LNK}};

    (void)state;
    make_some();
    for (int round = 0; round < 2; round++) { /* a second reader begins at the beginning */
        CLEANUP(dir_done) struct dir d = DIR_INIT;
        const struct dirent *e;
        size_t n = 0;

        assert_int_equal(dir_open_at(top, ".", &d), 0);
        assert_int_equal(fcntl(d.fd, F_GETFD), FD_CLOEXEC);
        for (; (e = dir_next(&d)); n++)
            for (size_t i = 0; i < ARRAY_LEN(want); i++)
                if (str_eq(e->d_name, want[i].name)) {
                    struct dirent unknown = {.d_type = DT_UNKNOWN};

                    snprintf(unknown.d_name, sizeof unknown.d_name, "%s", want[i].name);
                    assert_int_equal(dir_type(&d, e), want[i].type);
                    assert_int_equal(dir_type(&d, &unknown), want[i].type);
                }
        assert_int_equal(n, ARRAY_LEN(want));
        assert_int_equal(d.error, 0);
    }
}

static void test_open_fails(void **state) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    char link[64];

    (void)state;
    make_some();
    assert_null(dir_next(&d));
    assert_int_equal(dir_open_at(top, "none", &d), -ENOENT);
    assert_int_equal(d.error, -ENOENT);
    assert_null(dir_next(&d));
    assert_int_equal(dir_open_at(top, "b", &d), -ENOTDIR);
    assert_int_equal(dir_open_at(top, "c", &d), -ENOTDIR);
    assert_int_equal(dir_take(-EXDEV, &d), -EXDEV);
    assert_int_equal(dir_take(openat(top, "b", O_RDONLY | O_CLOEXEC), &d), -ENOTDIR);
    snprintf(link, sizeof link, "%s/c", path);
    assert_int_equal(dir_open_linked(link, &d), 0);
    assert_null(dir_next(&d));
    assert_int_equal(d.error, 0);
}

static void test_names(void **state) {
    CLEANUP(strv_done) struct strv names = {0};

    (void)state;
    assert_int_equal(dir_names(top, ".", &names), 0);
    assert_int_equal(names.len, 0);
    make_some();
    assert_int_equal(dir_names(top, ".", &names), 0);
    assert_int_equal(names.len, 3);
    assert_string_equal(names.v[0], ".a");
    assert_string_equal(names.v[1], "b");
    assert_string_equal(names.v[2], "c");
    assert_int_equal(dir_names(top, "none", &names), -ENOENT);
}

static unsigned mode_of(const char *name) {
    struct stat st;

    assert_int_equal(fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISDIR(st.st_mode));
    return st.st_mode & 0777;
}

static void test_make(void **state) {
    char deep[PATH_MAX + 10];

    (void)state;
    umask(022);
    assert_int_equal(dir_make(top, "x/y/z", 0700, 0755), 0);
    assert_int_equal(mode_of("x"), 0755);
    assert_int_equal(mode_of("x/y"), 0755);
    assert_int_equal(mode_of("x/y/z"), 0700);
    assert_int_equal(dir_make(top, "x/y/z", 0755, 0755), 0);
    assert_int_equal(mode_of("x/y/z"), 0700);
    assert_int_equal(dir_make(top, "x//v/", 0700, 0700), 0);
    assert_int_equal(mode_of("x/v"), 0700);
    assert_int_equal(file_create_at(top, "file", 0600, "", 0), 0);
    assert_int_equal(dir_make(top, "file/y", 0700, 0700), -ENOTDIR);
    snprintf(deep, sizeof deep, "%s/p/q", path);
    assert_int_equal(dir_make(AT_FDCWD, deep, 0700, 0700), 0);
    assert_int_equal(mode_of("p/q"), 0700);
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(dir_make(top, deep, 0700, 0700), -ENAMETOOLONG);
    assert_int_equal(dir_make(AT_FDCWD, "/", 0700, 0700), 0);
}

/* What else is set stays, and where there are no such flags nothing happens. */
static void test_spread(void **state) {
    int before, after, pair[2];

    (void)state;
    assert_int_equal(pipe(pair), 0);
    dir_spread(pair[0]);
    close(pair[0]);
    close(pair[1]);
    if (ioctl(top, FS_IOC_GETFLAGS, &before) < 0)
        return; /* no flags here */
    before |= FS_NODUMP_FL;
    assert_int_equal(ioctl(top, FS_IOC_SETFLAGS, &before), 0);
    for (int i = 0; i < 2; i++) {
        struct statfs fs;

        dir_spread(top);
        assert_int_equal(ioctl(top, FS_IOC_GETFLAGS, &after), 0);
        assert_int_equal(fstatfs(top, &fs), 0);
        assert_int_equal(after, fs.f_type == EXT4_SUPER_MAGIC ? before | FS_TOPDIR_FL : before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_next, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_make, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spread, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
