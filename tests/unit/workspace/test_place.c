/* SPDX-License-Identifier: Apache-2.0 */
#include "sides.h"

#include <dirent.h>
#include <limits.h>
#include <sys/xattr.h>

#include "base/str.h"
#include "workspace/copy/place.h"
#include "workspace/copy/xattrs.h"

static const struct manifest_stamp nothing;

static int content(const struct sides *s, const char *text) {
    sides_write(s, "content", text);
    return openat(s->top_fd, "content", O_RDONLY | O_CLOEXEC);
}

static int put(const struct sides *s, const char *path, const char *text, const struct manifest_stamp *expect, struct err *err) {
    CLEANUP(closep) int fd = content(s, text);

    return place_file(s->host, path, fd, &(struct place_meta){.mode = 0640, .mtime_ns = 5000000007}, expect, err);
}

static struct manifest_stamp seen(const struct sides *s, const char *path) {
    struct stat st = sides_stat(s, path);

    return manifest_stamp_of(&st);
}

static size_t entries(const struct sides *s) {
    DIR *d = fdopendir(openat(s->host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    size_t n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void test_file_has_what_was_asked(void **state) {
    struct sides *s = *state;
    CLEANUP(closep) int fd = content(s, "text");
    struct place_meta meta = {.mode = 06755, .mtime_ns = 5000000007, .xattrs = "user.a\0\2\0\0\0hi", .xattrs_len = 13};
    char value[8] = {0};
    struct stat st;

    assert_int_equal(place_file(s->host, "a/b/c", fd, &meta, NULL, NULL), 0);
    sides_expect(s, "host/a/b/c", "text");
    st = sides_stat(s, "host/a/b/c");
    assert_int_equal(st.st_mode, S_IFREG | 0755);
    assert_int_equal(st.st_mtim.tv_sec, 5);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
    closep(&fd);
    fd = openat(s->host, "a/b/c", O_RDONLY | O_CLOEXEC);
    if (fgetxattr(fd, "user.a", value, sizeof value) >= 0) /* not on every tmpfs */
        assert_string_equal(value, "hi");
    assert_int_equal(entries(s), 1);
}

static void test_replaces_what_was_seen_only(void **state) {
    struct sides *s = *state;
    struct manifest_stamp old;

    sides_write(s, "host/f", "one");
    old = seen(s, "host/f");
    sides_write(s, "host/f", "two");
    assert_int_equal(put(s, "f", "mine", &old, NULL), -ESTALE);
    sides_expect(s, "host/f", "two");
    assert_int_equal(put(s, "f", "mine", &nothing, NULL), -ESTALE);
    sides_expect(s, "host/f", "two");
    old = seen(s, "host/f");
    assert_int_equal(put(s, "f", "mine", &old, NULL), 0);
    sides_expect(s, "host/f", "mine");
    assert_int_equal(put(s, "f", "again", NULL, NULL), 0);
    sides_expect(s, "host/f", "again");
    assert_int_equal(put(s, "new", "x", &nothing, NULL), 0);
    assert_int_equal(entries(s), 2);
}

static void test_file_that_is_being_written_stays(void **state) {
    struct sides *s = *state;
    CLEANUP(closep) int writer = -1;
    struct manifest_stamp old;

    sides_write(s, "host/f", "one");
    old = seen(s, "host/f");
    writer = openat(s->host, "f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(put(s, "f", "mine", &old, NULL), -ESTALE);
    assert_int_equal(fd_write_all(writer, "late", 4), 0);
    sides_expect(s, "host/f", "late");
    closep(&writer);
    old = seen(s, "host/f");
    writer = openat(s->host, "f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(place_remove(s->host, "f", &old, NULL), -ESTALE);
    assert_int_equal(fd_write_all(writer, "more", 4), 0);
    sides_expect(s, "host/f", "more");
    assert_int_equal(entries(s), 1);
}

static void test_links_are_never_a_way(void **state) {
    struct sides *s = *state;
    struct err err = {0};

    sides_mkdir(s, "out");
    sides_write(s, "out/victim", "safe");
    assert_int_equal(symlinkat("../out", s->host, "d"), 0);
    assert_int_equal(symlinkat("../out/victim", s->host, "l"), 0);
    assert_true(put(s, "d/victim", "evil", NULL, &err) < 0);
    assert_non_null(strstr(err.msg, "d/victim"));
    assert_true(put(s, "d/new/x", "evil", NULL, NULL) < 0);
    assert_true(place_dir(s->host, "d/new", 0755, NULL) < 0);
    assert_int_equal(place_dir(s->host, "d", 0700, NULL), -EEXIST);
    assert_true(place_remove(s->host, "d/victim", NULL, NULL) < 0);
    assert_true(put(s, "../out/victim", "evil", NULL, NULL) < 0);
    assert_true(put(s, "..", "evil", NULL, NULL) < 0);
    assert_true(put(s, "/tmp/x", "evil", NULL, NULL) < 0);
    assert_int_equal(put(s, "l", "mine", NULL, NULL), 0); /* the link goes, not what it leads to */
    sides_expect(s, "out/victim", "safe");
    sides_expect(s, "host/l", "mine");
    assert_false(sides_has(s, "out/new"));
    assert_int_equal(sides_stat(s, "out").st_mode & 0777, 0755);
}

static void test_links_are_placed(void **state) {
    struct sides *s = *state;
    struct manifest_stamp old;

    assert_int_equal(place_link(s->host, "a/l", "../nowhere", NULL, NULL), 0);
    sides_expect_link(s, "host/a/l", "../nowhere");
    assert_int_equal(place_link(s->host, "a/l", "elsewhere", &nothing, NULL), -ESTALE);
    old = seen(s, "host/a/l");
    assert_int_equal(place_link(s->host, "a/l", "elsewhere", &old, NULL), 0);
    sides_expect_link(s, "host/a/l", "elsewhere");
}

static void test_folders(void **state) {
    struct sides *s = *state;

    assert_int_equal(place_dir(s->host, "a/b", 02750, NULL), 0);
    assert_int_equal(sides_stat(s, "host/a/b").st_mode, S_IFDIR | 0750);
    assert_int_equal(place_dir(s->host, "a/b", 0700, NULL), 0);
    assert_int_equal(sides_stat(s, "host/a/b").st_mode, S_IFDIR | 0700);
    assert_int_equal(put(s, "a/b", "x", NULL, NULL), -EISDIR);
    assert_int_equal(place_remove(s->host, "a", NULL, NULL), -ENOTEMPTY);
    assert_int_equal(place_remove(s->host, "a/b", NULL, NULL), 0);
    assert_int_equal(place_remove(s->host, "a/b", NULL, NULL), -ENOENT);
    assert_int_equal(put(s, "a/b/c", "x", NULL, NULL), 0);
    assert_int_equal(put(s, "a/b/c/d", "x", NULL, NULL), -ENOTDIR);
}

static void test_staged_files_wait(void **state) {
    struct sides *s = *state;
    CLEANUP(closep) int fd = content(s, "new");
    CLEANUP(freep) char *temp = NULL;
    CLEANUP(freep) char *other = NULL;
    const struct place_meta meta = {.mode = 0644};

    sides_write(s, "host/f", "old");
    assert_int_equal(place_stage_file(s->host, "f", fd, &meta, &temp, NULL), 0);
    assert_true(place_is_temp(temp));
    sides_expect(s, "host/f", "old");
    assert_int_equal(place_commit_new(s->host, temp, "f", NULL), -EEXIST);
    assert_int_equal(entries(s), 2);
    assert_int_equal(place_commit(s->host, temp, "f", NULL, NULL), 0);
    sides_expect(s, "host/f", "new");
    assert_int_equal(place_stage_link(s->host, "d/l", "t", &other, NULL), 0);
    place_discard(s->host, other);
    assert_int_equal(place_remove(s->host, "d", NULL, NULL), 0);
    place_discard(s->host, "f"); /* not a staged one */
    sides_expect(s, "host/f", "new");
}

static void test_paths_longer_than_the_kernel_takes(void **state) {
    struct sides *s = *state;
    CLEANUP(buf_done) struct buf path = BUF_INIT(64 * 1024);
    struct stat st;

    for (int i = 0; i < 30; i++)
        buf_addf(&path, "%0200d/", i);
    buf_adds(&path, "f");
    assert_true(path.len > PATH_MAX);
    assert_int_equal(put(s, buf_str(&path), "deep", NULL, NULL), 0);
    assert_int_equal(place_stat(s->host, buf_str(&path), &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(place_remove(s->host, buf_str(&path), NULL, NULL), 0);
    assert_int_equal(place_stat(s->host, buf_str(&path), &st), -ENOENT);
}

static void test_temp_names(void **state) {
    assert_true(place_is_temp(".bawn-tmp-0123456789abcdef"));
    assert_false(place_is_temp(".bawn-tmp-0123456789abcde"));
    assert_false(place_is_temp(".bawn-tmp-0123456789abcdef0"));
    assert_false(place_is_temp(".bawn-tmp-0123456789abcdeF"));
    assert_false(place_is_temp("bawn-tmp-0123456789abcdef"));
}

static void test_errors_are_safe_to_show(void **state) {
    struct sides *s = *state;
    struct err err = {0};

    sides_write(s, "host/\x1b[2J", "x");
    assert_int_equal(put(s, "\x1b[2J/y", "x", NULL, &err), -ENOTDIR);
    assert_null(strchr(err.msg, '\x1b'));
    assert_non_null(strstr(err.msg, "\\x1b[2J/y"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sides_setup, sides_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_file_has_what_was_asked),
        TEST(test_replaces_what_was_seen_only),
        TEST(test_file_that_is_being_written_stays),
        TEST(test_links_are_never_a_way),
        TEST(test_links_are_placed),
        TEST(test_folders),
        TEST(test_staged_files_wait),
        TEST(test_paths_longer_than_the_kernel_takes),
        TEST(test_temp_names),
        TEST(test_errors_are_safe_to_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
