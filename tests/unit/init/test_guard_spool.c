/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "init/guard/guard_spool.c" /* bawn-init's sources are no part of the library */

static int file = -1; /* the spool */

int guard_ask_spool(struct guard *g, int *ret_fd) {
    *ret_fd = g->spool.state == SPOOL_OPEN ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
    return 0;
}

bool guard_is_plain(const struct guard *g, const char *rel) {
    return true;
}

uint64_t time_ns(const struct timespec *t) {
    return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

static int setup(void **state) {
    file = memfd_create("spool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return file < 0 ? -1 : 0;
}

static int teardown(void **state) {
    closep(&file);
    return 0;
}

static uint64_t first_seq(void) {
    struct guard g = {.root = -1, .spool = {.state = SPOOL_WANTED, .fd = -1}};
    struct spool_head h = {0};

    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(spool_touch(&g, "new", NULL, false), 1);
    assert_int_equal(pread(file, &h, sizeof h, 0), sizeof h);
    close_spool(&g.spool);
    return h.seq;
}

/* What is inside can count what it does, and must not know the number of an entry. */
static void test_numbers_begin_at_random(void **state) {
    uint64_t one = first_seq(), two = first_seq();

    assert_true(one > 0xffff && two > 0xffff && one != two);
}

/* What was put away before still counts, and the supervisor has to know how much that is. */
static void test_a_disk_that_is_full(void **state) {
    struct guard g = {.root = -1, .spool = {.state = SPOOL_WANTED, .fd = -1}};
    size_t at;

    assert_int_equal(spool_touch(&g, "new", NULL, false), 1);
    at = g.spool.at;
    assert_int_equal(at, spool_len(strlen("new"), 0));
    assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_int_equal(spool_touch(&g, "newer", NULL, false), 0);
    assert_int_equal(g.spool.state, SPOOL_OFF);
    assert_int_equal(g.spool.at, at);
    assert_int_equal(spool_touch(&g, "newest", NULL, false), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers_begin_at_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_disk_that_is_full, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
