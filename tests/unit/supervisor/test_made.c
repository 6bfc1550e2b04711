/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: a file that the command made is known by what it is, not by its name; a descriptor that cannot read proves nothing. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/remove.h"
#include "supervisor/watch/made.h"

static char folder[32];

static int make_folder(void) {

    snprintf(folder, sizeof folder, "%s", "/tmp/bawn-made-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int make_file(int dir, const char *name) {
    return openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static void the_file_counts(void **state) {
    int dir = make_folder(), fd = make_file(dir, "a");
    struct made m = {0};

    (void)state;
    assert_false(made_has(&m, dir, "a"));
    assert_int_equal(made_begin(&m, "a"), 0);
    assert_true(made_has(&m, dir, "a")); /* whatever is there while it is being made */
    made_end(&m, "a", fd);
    close(fd);
    assert_true(made_has(&m, dir, "a"));
    assert_int_equal(renameat(dir, "a", dir, "b"), 0);
    assert_true(made_has(&m, dir, "b"));
    assert_false(made_has(&m, dir, "a"));
    close(make_file(dir, "c"));
    assert_int_equal(renameat(dir, "c", dir, "b"), 0);
    assert_false(made_has(&m, dir, "b"));
    unlinkat(dir, "b", 0);
    made_done(&m);
    close(dir);
    assert_int_equal(remove_tree(AT_FDCWD, folder), 0);
}

static void what_proves_nothing(void **state) {
    int dir = make_folder(), fd = make_file(dir, "a"), path = openat(dir, "a", O_PATH | O_CLOEXEC);
    struct made m = {0};

    (void)state;
    assert_int_equal(made_begin(&m, "a"), 0);
    made_end(&m, "a", path);
    assert_false(made_has(&m, dir, "a"));
    assert_int_equal(made_begin(&m, "a"), 0);
    made_end(&m, "a", -1);
    assert_false(made_has(&m, dir, "a"));
    for (int i = 0; i < MADE_PENDING_MAX; i++)
        assert_int_equal(made_begin(&m, "x"), 0);
    assert_true(made_begin(&m, "x") < 0);
    unlinkat(dir, "a", 0);
    close(fd);
    close(path);
    made_done(&m);
    close(dir);
    assert_int_equal(remove_tree(AT_FDCWD, folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_file_counts), cmocka_unit_test(what_proves_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
