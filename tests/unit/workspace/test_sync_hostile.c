/* SPDX-License-Identifier: Apache-2.0 */
/* What the inside, or an unlucky host, can put in the way of a sync: nothing is reached that should not be, nothing is lost. */
#include "syncing.h"

static void test_time_set_back_hides_nothing(void **state) {
    struct sides *s = *state;
    struct timespec times[2];
    struct stat st;

    sides_write(s, "host/f", "good");
    copy_in(s, "");
    st = sides_stat(s, "run/tree/f");
    sides_write(s, "run/tree/f", "evil");
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(s->run, "tree/f", times, 0), 0);
    both(s, 1, 0, 0);
    sides_expect(s, "host/f", "evil");
}

static void test_hidden_names_stay_where_they_are(void **state) {
    struct sides *s = *state;

    sides_write(s, "host/secret", "host's");
    copy_in(s, "secret\n");
    sides_write(s, "run/tree/secret", "inside");
    sides_mkdir(s, "host/d");
    sides_mkdir(s, "host/d/secret");
    sides_write(s, "host/d/secret/f", "later");
    both(s, 0, 0, 0);
    sides_expect(s, "host/secret", "host's");
    sides_expect(s, "run/tree/secret", "inside");
    assert_true(sides_has(s, "run/tree/d"));
    assert_false(sides_has(s, "run/tree/d/secret"));
    assert_int_equal(unlinkat(s->run, "tree/secret", 0), 0);
    both(s, 0, 0, 0);
    sides_expect(s, "host/secret", "host's");
}

static void test_name_that_becomes_hidden_is_not_deleted(void **state) {
    struct sides *s = *state;

    sides_write(s, "host/secret", "k");
    copy_in(s, "");
    both(s, 0, 0, 0); /* hidden by now */
    sides_expect(s, "host/secret", "k");
    sides_expect(s, "run/tree/secret", "k");
}

static void test_links_in_the_way_are_conflicts(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "out");
    sides_write(s, "out/x", "safe");
    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/x", "base");
    copy_in(s, "");
    assert_int_equal(unlinkat(s->host, "d/x", 0), 0);
    assert_int_equal(unlinkat(s->host, "d", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("../out", s->host, "d"), 0);
    sides_write(s, "run/tree/d/x", "evil");
    sides_write(s, "run/tree/d/y", "evil");
    both(s, 0, 0, 3);
    sides_expect(s, "out/x", "safe");
    assert_false(sides_has(s, "out/y"));
    sides_expect(s, "run/tree/d/x", "evil");
    sides_expect_link(s, "host/d", "../out");
}

static void test_special_files_inside_reach_nothing(void **state) {
    struct sides *s = *state;

    sides_write(s, "host/f", "f");
    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/x", "x");
    copy_in(s, "");
    assert_int_equal(unlinkat(s->run, "tree/f", 0), 0);
    assert_int_equal(mkfifoat(s->run, "tree/f", 0644), 0);
    assert_int_equal(unlinkat(s->run, "tree/d/x", 0), 0);
    assert_int_equal(unlinkat(s->run, "tree/d", AT_REMOVEDIR), 0);
    assert_int_equal(mkfifoat(s->run, "tree/d", 0644), 0);
    assert_int_equal(mkfifoat(s->run, "tree/fresh", 0644), 0);
    both(s, 0, 0, 2);
    sides_expect(s, "host/f", "f");
    sides_expect(s, "host/d/x", "x");
    assert_false(sides_has(s, "host/fresh"));
}

static void test_modes_that_close_are_carried_and_opened(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/f", "f");
    copy_in(s, "");
    sides_mkdir(s, "run/tree/ro");
    sides_write(s, "run/tree/ro/n", "n");
    assert_int_equal(fchmodat(s->run, "tree/ro/n", 04755, 0), 0);
    assert_int_equal(fchmodat(s->run, "tree/ro", 0555, 0), 0);
    assert_int_equal(fchmodat(s->run, "tree/d", 0, 0), 0);
    both(s, 1, 0, 0);
    assert_int_equal(sides_stat(s, "host/ro/n").st_mode, S_IFREG | 0755);
    sides_expect(s, "host/d/f", "f");
    both(s, 0, 0, 0);
}

static void test_folder_that_cannot_be_read_is_left_alone(void **state) {
    struct sides *s = *state;
    bool root = geteuid() == 0; /* whom nothing is closed to */

    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/f", "f");
    sides_write(s, "host/d/g", "g");
    copy_in(s, "");
    assert_int_equal(fchmodat(s->host, "d", 0, 0), 0);
    sides_write(s, "run/tree/d/f", "inside");
    assert_int_equal(unlinkat(s->run, "tree/d/g", 0), 0);
    both(s, root ? 2 : 0, 0, root ? 0 : 1);
    assert_int_equal(fchmodat(s->host, "d", 0755, 0), 0);
    sides_expect(s, "host/d/f", root ? "inside" : "f");
    assert_int_equal(sides_has(s, "host/d/g"), !root);
    both(s, root ? 0 : 2, 0, 0);
    sides_expect(s, "host/d/f", "inside");
    assert_false(sides_has(s, "host/d/g"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sides_setup, sides_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_time_set_back_hides_nothing),
        TEST(test_hidden_names_stay_where_they_are),
        TEST(test_name_that_becomes_hidden_is_not_deleted),
        TEST(test_links_in_the_way_are_conflicts),
        TEST(test_special_files_inside_reach_nothing),
        TEST(test_modes_that_close_are_carried_and_opened),
        TEST(test_folder_that_cannot_be_read_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
