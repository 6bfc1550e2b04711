/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fd.h"
#include "workspace/copy/manifest.h"

static const struct manifest_stamp none;

static struct manifest_stamp stamp(uint64_t n) {
    return (struct manifest_stamp){.ino = n, .ctime_ns = n + 1, .mtime_ns = n + 2, .size = n + 3, .mode = S_IFREG | 0644};
}

static void set(struct manifest *m, const char *path, uint64_t n) {
    struct manifest_stamp host = stamp(n), copy = stamp(n + 100);

    assert_int_equal(manifest_set(m, path, &host, &copy, NULL), 0);
}

static void test_sets_finds_and_drops(void **state) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    char path[32];

    assert_null(manifest_find(m, "x"));
    manifest_drop(m, "x");
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "d%u/f%u", i % 7, i);
        set(m, path, i);
    }
    set(m, "d3/f3", 4711);
    assert_int_equal(manifest_count(m), 5000);
    assert_int_equal(manifest_find(m, "d3/f3")->host.ino, 4711);
    for (unsigned i = 0; i < 5000; i += 2) {
        snprintf(path, sizeof path, "d%u/f%u", i % 7, i);
        manifest_drop(m, path);
        assert_null(manifest_find(m, path));
    }
    assert_int_equal(manifest_count(m), 2500);
    for (unsigned i = 1; i < 5000; i += 2) {
        snprintf(path, sizeof path, "d%u/f%u", i % 7, i);
        assert_non_null(manifest_find(m, path));
        assert_string_equal(manifest_find(m, path)->path, path);
        assert_int_equal(manifest_find(m, path)->copy.ino, i == 3 ? 4811 : i + 100);
    }
}

static void test_file_gives_back_what_was_saved(void **state) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    CLEANUP(manifest_freep) struct manifest *back = NULL;
    char top[] = "/tmp/bawn-manifest.XXXXXX";
    CLEANUP(closep) int dir = -1;

    assert_non_null(mkdtemp(top));
    dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(manifest_load(dir, "manifest", &back, NULL), -ENOENT);
    set(m, "b", 1);
    set(m, "a/\x1b[2J\xff", 2);
    set(m, "a", 3);
    set(m, "a-b", 4);
    assert_int_equal(manifest_save(m, dir, "manifest", NULL), 0);
    assert_int_equal(manifest_load(dir, "manifest", &back, NULL), 0);
    assert_int_equal(manifest_count(back), 4);
    assert_string_equal(manifest_at(back, 0)->path, "a");
    assert_string_equal(manifest_at(back, 1)->path, "a-b");
    assert_string_equal(manifest_at(back, 2)->path, "a/\x1b[2J\xff");
    assert_memory_equal(&manifest_at(back, 2)->host, &manifest_find(m, "a/\x1b[2J\xff")->host, sizeof(uint64_t) * 4);
    assert_int_equal(manifest_at(back, 2)->copy.mode, S_IFREG | 0644);
    assert_null(manifest_at(back, 4));
    assert_int_equal(faccessat(dir, ".manifest.new", F_OK, 0), -1);
    unlinkat(dir, "manifest", 0);
    rmdir(top);
}

static void test_no_part_of_a_file_is_a_file(void **state) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
    struct manifest *back = NULL;

    set(m, "a", 1);
    set(m, "b/c", 2);
    manifest_format(m, &b);
    assert_true(buf_ok(&b));
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(manifest_parse(b.data, len, &back, NULL), -EBADMSG);
    assert_null(back);
    assert_int_equal(manifest_parse(b.data, b.len, &back, NULL), 0);
    manifest_free(back);
    buf_addc(&b, 'x');
    assert_int_equal(manifest_parse(b.data, b.len, &back, NULL), -EBADMSG);
}

static void test_paths_that_lead_out_are_refused(void **state) {
    static const char *const bad[] = {"/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(manifest_freep) struct manifest *m = manifest_new();
        CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
        struct manifest *back = NULL;

        set(m, bad[i], 1);
        manifest_format(m, &b);
        assert_int_equal(manifest_parse(b.data, b.len, &back, NULL), -EBADMSG);
    }
}

static void test_any_difference_counts(void **state) {
    struct manifest_stamp a = stamp(5), b = a;

    assert_true(manifest_same(&a, &b));
    b.ctime_ns++;
    assert_false(manifest_same(&a, &b));
    b = a, b.ino++;
    assert_false(manifest_same(&a, &b));
    b = a, b.size++;
    assert_false(manifest_same(&a, &b));
    b = a, b.mode ^= 0100;
    assert_false(manifest_same(&a, &b));
    b = a, a.ctime_ns = b.ctime_ns = 0;
    assert_false(manifest_same(&a, &b));
    assert_false(manifest_same(&a, &none));
    assert_true(manifest_same(&none, &none));
    a = b = (struct manifest_stamp){.mode = S_IFDIR | 0755, .ctime_ns = 1};
    b.ctime_ns = 2;
    assert_true(manifest_same(&a, &b));
}

static void test_a_file_of_this_tick_is_not_trusted(void **state) {
    struct stat st = {.st_mode = S_IFREG, .st_ctim = {.tv_sec = 10, .tv_nsec = 5}};

    assert_int_equal(manifest_stamp_racy(&st, 10000000006).ctime_ns, 10000000005);
    assert_int_equal(manifest_stamp_racy(&st, 10000000005).ctime_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_finds_and_drops),        cmocka_unit_test(test_file_gives_back_what_was_saved),
        cmocka_unit_test(test_no_part_of_a_file_is_a_file), cmocka_unit_test(test_paths_that_lead_out_are_refused),
        cmocka_unit_test(test_any_difference_counts),       cmocka_unit_test(test_a_file_of_this_tick_is_not_trusted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
