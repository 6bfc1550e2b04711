/* SPDX-License-Identifier: Apache-2.0 */
/* A count that processes share: it is made closed, its limit counts at once, and what is no meter is refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fd.h"
#include "os/meter.h"
#include "os/remove.h"

enum { CHILDREN = 4, ADDS = 10000 };

static char path[32], file[48];
static int top = -1;

static int setup(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/bawn-meter-XXXXXX");
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/meter", path);
    top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0;
}

static int teardown(void **state) {
    (void)state;
    closep(&top);
    return remove_tree(AT_FDCWD, path);
}

static void a_new_one_lets_nothing_pass(void **state) {
    CLEANUP(closep) int fd = meter_make(top, "meter", geteuid());
    struct shared_meter *m, read;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(meter_map(fd, &m), 0);
    assert_true(meter_over(m));
    assert_int_equal(meter_set_limit(fd, 100), 0);
    assert_false(meter_over(m));
    assert_false(meter_add(m, 99));
    assert_true(meter_add(m, 1));
    assert_int_equal(meter_set_limit(fd, UINT64_MAX), 0);
    assert_false(meter_add(m, 1));
    assert_int_equal(meter_set_seen(fd, 100), 0);
    assert_int_equal(meter_read(fd, &read), 0);
    assert_int_equal(read.used, 101);
    assert_int_equal(read.seen, 100);
}

static void it_stays(void **state) {
    int fd = meter_make(top, "meter", geteuid());
    struct shared_meter *m, read;

    (void)state;
    assert_int_equal(meter_map(fd, &m), 0);
    meter_add(m, 7);
    closep(&fd);
    fd = meter_make(top, "meter", geteuid());
    assert_int_equal(meter_read(fd, &read), 0);
    assert_int_equal(read.used, 7);
    closep(&fd);
}

static void count_in_a_child(void) {
    struct shared_meter *m;
    int fd = meter_open(file);

    if (fd < 0 || meter_map(fd, &m) < 0)
        _exit(1);
    for (int i = 0; i < ADDS; i++)
        meter_add(m, 3);
    _exit(0);
}

static void all_that_count_are_counted(void **state) {
    CLEANUP(closep) int fd = meter_make(top, "meter", geteuid());
    struct shared_meter read;
    int status;

    (void)state;
    for (int i = 0; i < CHILDREN; i++)
        if (fork() == 0)
            count_in_a_child();
    for (int i = 0; i < CHILDREN; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(meter_read(fd, &read), 0);
    assert_int_equal(read.used, CHILDREN * ADDS * 3);
}

static void what_is_no_meter_is_refused(void **state) {
    CLEANUP(closep) int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct shared_meter *m;

    (void)state;
    assert_int_equal(meter_open(file), -EBADMSG);
    assert_int_equal(write(fd, "bawnmet2 and forty bytes of something else", 42), 42);
    assert_int_equal(meter_open(file), -EBADMSG);
    assert_int_equal(meter_map(fd, &m), -EBADMSG);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(meter_open(file), -ENOENT);
    assert_int_equal(symlink("/etc/passwd", file), 0);
    assert_int_equal(meter_open(file), -ELOOP);
    assert_int_equal(meter_make(top, "meter", geteuid()), -ELOOP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_one_lets_nothing_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(it_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(all_that_count_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_meter_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
