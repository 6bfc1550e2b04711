/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/pin.h"

static struct ignore *rules(const char *const files[][2]) {
    struct ignore *ig = ignore_new();
    bool top = false;

    for (size_t i = 0; files[i][0]; i++) {
        assert_int_equal(ignore_add_file(ig, files[i][0], "x", files[i][1], strlen(files[i][1]), NULL), 0);
        top |= files[i][0][0] == 0;
    }
    if (!top)
        assert_int_equal(defaults_add(ig, NULL), 0);
    return ig;
}

static int make_folder(void **state) {
    char *dir = strdup("/tmp/bawn-test.XXXXXX");

    *state = mkdtemp(dir);
    return *state ? 0 : -1;
}

/* The pins, if any, and the folder. */
static int remove_folder(void **state) {
    CLEANUP(freep) char *pins = str_dupf("%s/pins", (char *)*state);
    DIR *d = opendir(pins);
    struct dirent *e;

    while (d && (e = readdir(d)))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(pins);
    rmdir(*state);
    free(*state);
    return 0;
}

static const char *const none[][2] = {{NULL, NULL}};
static const char *const shows_env[][2] = {{"", "!.env\n"}, {NULL, NULL}};
static const char *const nested_ab[][2] = {{"", "*.pem\n"}, {"b", "x\n"}, {"a", "y\n"}, {NULL, NULL}};
static const char *const nested_ba[][2] = {{"a", "y\n"}, {"", "*.pem\n"}, {"b", "x\n"}, {NULL, NULL}};

static void test_the_first_time_counts(void **state) {
    CLEANUP(freep) char *dir = str_dupf("%s/pins", (char *)*state);
    CLEANUP(ignore_freep) struct ignore *first = rules(none), *later = rules(shows_env), *accepted = NULL;
    struct err err = {0};

    assert_int_equal(pin_check(dir, "/w", first, true, &accepted, &err), 0);
    assert_int_equal(pin_check(dir, "/w", later, true, &accepted, &err), 1);
    assert_int_equal(ignore_match(accepted, ".env", false), IGNORE_EXCLUDED); /* the defaults, which were accepted */
    assert_int_equal(pin_accept(dir, "/w", later, &err), 0);
    ignore_free(TAKE_PTR(accepted));
    assert_int_equal(pin_check(dir, "/w", later, true, &accepted, &err), 0);
    assert_int_equal(pin_check(dir, "/other", later, true, &accepted, &err), 0); /* another workspace, its own first time */
}

static void test_order_of_the_files_does_not_matter(void **state) {
    CLEANUP(freep) char *dir = str_dupf("%s/pins", (char *)*state);
    CLEANUP(ignore_freep) struct ignore *ab = rules(nested_ab), *ba = rules(nested_ba), *accepted = NULL;

    assert_int_equal(pin_accept(dir, "/w", ab, NULL), 0);
    assert_int_equal(pin_check(dir, "/w", ba, true, &accepted, NULL), 0);
}

static void test_what_is_read_back_judges_the_same(void **state) {
    CLEANUP(freep) char *dir = str_dupf("%s/pins", (char *)*state);
    CLEANUP(ignore_freep) struct ignore *ab = rules(nested_ab), *now = rules(shows_env), *accepted = NULL;

    assert_int_equal(pin_accept(dir, "/w", ab, NULL), 0);
    assert_int_equal(pin_check(dir, "/w", now, true, &accepted, NULL), 1);
    assert_int_equal(ignore_match(accepted, "k.pem", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(accepted, "a/y", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(accepted, "b/y", false), IGNORE_NONE);
    assert_int_equal(ignore_match(accepted, ".env", false), IGNORE_NONE); /* its own file took the place of the defaults */
}

static void test_nothing_is_recorded_unless_asked(void **state) {
    CLEANUP(freep) char *dir = str_dupf("%s/pins", (char *)*state);
    CLEANUP(ignore_freep) struct ignore *now = rules(shows_env), *accepted = NULL;

    assert_int_equal(pin_check(dir, "/w", now, false, &accepted, NULL), 0);
    assert_int_equal(access(dir, F_OK), -1);
}

static void test_without_a_folder_the_defaults_count(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules(shows_env), *plain = rules(none), *accepted = NULL;

    assert_int_equal(pin_check(NULL, "/w", plain, true, &accepted, NULL), 0);
    assert_int_equal(pin_check(NULL, "/w", now, true, &accepted, NULL), 1);
    assert_int_equal(ignore_match(accepted, ".env", false), IGNORE_EXCLUDED);
    ignore_free(TAKE_PTR(accepted));
    assert_int_equal(pin_check("/proc/nowhere", "/w", now, true, &accepted, NULL), 1);
    assert_int_equal(ignore_match(accepted, ".env", false), IGNORE_EXCLUDED);
}

static void test_damage_is_an_error(void **state) {
    static const char *const bad[] = {"",
                                      "bawn",
                                      "bawn-ignore-1\nx",
                                      "bawn-ignore-1\n1 2",
                                      "bawn-ignore-1\n0 5\nabc",
                                      "bawn-ignore-1\n99999 0\n",
                                      "bawn-ignore-1\n-1 0\n",
                                      "bawn-ignore-2\n"};
    CLEANUP(freep) char *dir = str_dupf("%s/pins", (char *)*state);
    CLEANUP(freep) char *path = NULL;
    CLEANUP(ignore_freep) struct ignore *now = rules(none), *accepted = NULL;
    char name[SHA256_HEX_SIZE];
    struct err err = {0};

    sha256_hex("/w", 2, name);
    path = str_dupf("%s/%s", dir, name);
    assert_int_equal(pin_accept(dir, "/w", now, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(fd_write_file_at(AT_FDCWD, path, bad[i]), 0);
        assert_int_equal(pin_check(dir, "/w", now, true, &accepted, &err), -EBADMSG);
        assert_null(accepted);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_the_first_time_counts),
        CASE(test_order_of_the_files_does_not_matter),
        CASE(test_what_is_read_back_judges_the_same),
        CASE(test_nothing_is_recorded_unless_asked),
        CASE(test_without_a_folder_the_defaults_count),
        CASE(test_damage_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
