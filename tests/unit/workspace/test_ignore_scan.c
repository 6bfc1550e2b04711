/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/strv.h"
#include "os/fd.h"
#include "workspace/hide/ignore_scan.h"

struct tree {
    char top[64];
    int fd;
    struct strv made; /* removed again in reverse order */
};

static void make(struct tree *t, const char *path) {
    assert_int_equal(strv_add(&t->made, path), 0);
}

static void folder(struct tree *t, const char *path) {
    assert_int_equal(mkdirat(t->fd, path, 0755), 0);
    make(t, path);
}

static void file(struct tree *t, const char *path, const char *text) {
    CLEANUP(closep) int fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    make(t, path);
}

static int setup(void **state) {
    struct tree *t = calloc(1, sizeof *t);

    snprintf(t->top, sizeof t->top, "/tmp/bawn-scan.XXXXXX");
    assert_non_null(mkdtemp(t->top));
    t->fd = open(t->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = t;
    return t->fd < 0;
}

static int teardown(void **state) {
    struct tree *t = *state;

    for (size_t i = t->made.len; i-- > 0;)
        if (unlinkat(t->fd, t->made.v[i], 0) < 0)
            unlinkat(t->fd, t->made.v[i], AT_REMOVEDIR);
    strv_done(&t->made);
    close(t->fd);
    rmdir(t->top);
    free(t);
    return 0;
}

static int note(const struct ignore_found *f, void *arg, struct err *err) {
    return strv_addf(arg, "%s%s %s:%u %s", f->path, f->is_dir ? "/" : "", f->unreadable ? "unreadable" : f->why.origin,
                     f->why.line, f->why.pattern ? f->why.pattern : "");
}

static void scan(struct tree *t, struct strv *found) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct err err = {0};
    int r = ignore_scan(ig, t->fd, note, found, &err);

    if (r < 0)
        fail_msg("%s", err.msg);
}

static void expect_error(struct tree *t, const char *message) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct err err = {0};

    assert_true(ignore_scan(ig, t->fd, NULL, NULL, &err) < 0);
    assert_string_equal(err.msg, message);
}

static void test_defaults_without_a_file(void **state) {
    CLEANUP(strv_done) struct strv found = {0};
    struct tree *t = *state;

    file(t, ".env", "");
    file(t, ".env.example", "");
    folder(t, "a");
    file(t, "a/x.pem", "");
    folder(t, "a/.aws");
    file(t, "a/.aws/y.pem", ""); /* in a hidden folder: not told */
    scan(t, &found);
    assert_int_equal(found.len, 3);
    assert_true(strv_has(&found, ".env (built-in):6 .env"));
    assert_true(strv_has(&found, "a/x.pem (built-in):14 *.pem"));
    assert_true(strv_has(&found, "a/.aws/ (built-in):29 .aws/"));
}

static void test_own_and_nested_files(void **state) {
    CLEANUP(strv_done) struct strv found = {0};
    struct tree *t = *state;

    file(t, ".sandboxignore", "*.key\n");
    file(t, ".env", "");
    file(t, "x.key", "");
    folder(t, "a");
    file(t, "a/x.key", "");
    file(t, "a/.sandboxignore", "!x.key\n/b/*\n");
    folder(t, "a/b");
    file(t, "a/b/c", "");
    file(t, "a/b/.sandboxignore", "");
    folder(t, "c");
    file(t, "c/x.key", "");
    scan(t, &found);
    assert_int_equal(found.len, 4);
    assert_true(strv_has(&found, "x.key .sandboxignore:1 *.key"));
    assert_true(strv_has(&found, "c/x.key .sandboxignore:1 *.key"));
    assert_true(strv_has(&found, "a/b/c a/.sandboxignore:2 /b/*"));
    assert_true(strv_has(&found, "a/b/.sandboxignore a/.sandboxignore:2 /b/*"));
}

static void test_answers_for_later_files(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct tree *t = *state;

    folder(t, "a");
    file(t, "a/.sandboxignore", "later\n");
    assert_int_equal(ignore_scan(ig, t->fd, NULL, NULL, NULL), 0);
    assert_int_equal(ignore_match(ig, "a/x/later", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(ig, "x/.env", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(ig, "later", false), IGNORE_NONE);
}

static void test_links_are_not_followed(void **state) {
    CLEANUP(strv_done) struct strv found = {0};
    struct tree *t = *state;

    assert_int_equal(symlinkat("/", t->fd, "root"), 0);
    make(t, "root");
    assert_int_equal(symlinkat(".", t->fd, "self"), 0);
    make(t, "self");
    assert_int_equal(symlinkat(".aws-real", t->fd, ".aws"), 0); /* ".aws/" is for folders only, and a link is none */
    make(t, ".aws");
    assert_int_equal(symlinkat("/etc/hostname", t->fd, "x.pem"), 0);
    make(t, "x.pem");
    scan(t, &found);
    assert_int_equal(found.len, 1);
    assert_string_equal(found.v[0], "x.pem (built-in):14 *.pem");
}

static void test_special_files_as_rules(void **state) {
    struct tree *t = *state;

    folder(t, "a");
    assert_int_equal(mkfifoat(t->fd, "a/.sandboxignore", 0644), 0);
    make(t, "a/.sandboxignore");
    expect_error(t, "'a/.sandboxignore' is not a regular file; its rules would not count");
    assert_int_equal(symlinkat("/dev/zero", t->fd, ".sandboxignore"), 0);
    make(t, ".sandboxignore");
    expect_error(t, "'.sandboxignore' is not a regular file; its rules would not count");
}

static void test_too_large(void **state) {
    struct tree *t = *state;

    file(t, ".sandboxignore", "a\n");
    {
        CLEANUP(closep) int fd = openat(t->fd, ".sandboxignore", O_WRONLY | O_CLOEXEC);

        assert_int_equal(ftruncate(fd, IGNORE_FILE_MAX + 1), 0);
    }
    expect_error(t, ".sandboxignore: larger than 1048576 bytes");
}

static void test_too_deep(void **state) {
    struct tree *t = *state;
    char path[2 * IGNORE_DEPTH_MAX + 3];
    size_t len = 0;

    for (int i = 0; i <= IGNORE_DEPTH_MAX; i++) {
        len += (size_t)snprintf(path + len, sizeof path - len, i ? "/d" : "d");
        folder(t, path);
    }
    expect_error(t, "the workspace is deeper than 256 folders");
}

static void test_names_in_messages(void **state) {
    struct tree *t = *state;

    folder(t, "\033[2J");
    folder(t, "\033[2J/.sandboxignore");
    expect_error(t, "'\\x1b[2J/.sandboxignore' is not a regular file; its rules would not count");
}

/* Many entries: more than one system call's worth, and the rules last. */
static void test_large_folder(void **state) {
    CLEANUP(strv_done) struct strv found = {0};
    struct tree *t = *state;
    char path[64];

    folder(t, "a");
    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof path, "a/a-name-that-is-not-short-at-all-%04d", i);
        file(t, path, "");
    }
    file(t, "a/.sandboxignore", "*7\n");
    scan(t, &found);
    assert_int_equal(found.len, 300);
}

/* Root reads everything, so it becomes somebody else for the moment. */
static void test_unreadable_folder_is_hidden(void **state) {
    CLEANUP(strv_done) struct strv found = {0};
    bool root = geteuid() == 0;
    struct tree *t = *state;

    folder(t, "closed");
    assert_int_equal(fchmodat(t->fd, "closed", 0, 0), 0);
    assert_int_equal(chmod(t->top, 0755), 0);
    assert_int_equal(root ? seteuid(65534) : 0, 0);
    scan(t, &found);
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(found.len, 1);
    assert_string_equal(found.v[0], "closed/ unreadable:0 ");
}

static int stop(const struct ignore_found *f, void *arg, struct err *err) {
    return err_set(err, -ECANCELED, "enough");
}

static void test_callback_ends_it(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct tree *t = *state;
    struct err err = {0};

    folder(t, "a");
    file(t, "a/.env", "");
    assert_int_equal(ignore_scan(ig, t->fd, stop, NULL, &err), -ECANCELED);
    assert_string_equal(err.msg, "enough");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_defaults_without_a_file),
        TEST(test_own_and_nested_files),
        TEST(test_answers_for_later_files),
        TEST(test_links_are_not_followed),
        TEST(test_special_files_as_rules),
        TEST(test_too_large),
        TEST(test_too_deep),
        TEST(test_names_in_messages),
        TEST(test_large_folder),
        TEST(test_unreadable_folder_is_hidden),
        TEST(test_callback_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
