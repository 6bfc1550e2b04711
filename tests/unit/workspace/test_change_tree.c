/* SPDX-License-Identifier: Apache-2.0 */
#include "test_change.h"
#include "workspace/copy/manifest.h"

static int setup_sync(void **state) {
    return scene_make(state, WORKSPACE_SYNC, "tree");
}

static int setup_worktree(void **state) {
    return scene_make(state, WORKSPACE_WORKTREE, "tree");
}

static int open_tree(const struct scene *s) {
    return openat(s->run, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static struct manifest_stamp stamp(int root, const char *path) {
    struct stat st;

    return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? manifest_stamp_of(&st) : (struct manifest_stamp){0};
}

/* The copy as it was made, of these paths. */
static void write_manifest(const struct scene *s, int tree, const char *const *paths) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();

    for (; *paths; paths++) {
        struct manifest_stamp host = stamp(s->ws, *paths), copy = stamp(tree, *paths);

        assert_int_equal(manifest_set(m, *paths, &host, &copy, NULL), 0);
    }
    assert_int_equal(manifest_save(m, s->run, "manifest", NULL), 0);
}

static void put_both(const struct scene *s, int tree, const char *path, const char *text) {
    put(s->ws, path, text);
    put(tree, path, text);
}

/* Changes that come now have another ctime. */
static void let_time_pass(void) {
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
}

static void test_kinds(void **state) {
    static const char *const paths[] = {"del", "dir", "dir/in", "keep", "link", "mod", "mode", "rewritten", "same_size", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

    for (size_t i = 0; paths[i]; i++)
        if (!str_eq(paths[i], "dir") && !str_eq(paths[i], "link"))
            put_both(s, tree, paths[i], paths[i]);
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    assert_int_equal(symlinkat("a", tree, "link"), 0);
    assert_int_equal(utimensat(tree, "same_size", old, 0), 0);
    write_manifest(s, tree, paths);
    expect(s, "");
    let_time_pass();
    assert_int_equal(unlinkat(tree, "del", 0), 0);
    put(tree, "dir/new", "n");
    put(tree, "mod", "longer than it was");
    assert_int_equal(fchmodat(tree, "mode", 0755, 0), 0);
    put(tree, "rewritten", "rewritten");
    put(tree, "same_size", "SAME_SIZE"); /* ATTACKS 31: size and mtime are as they were */
    assert_int_equal(utimensat(tree, "same_size", old, 0), 0);
    assert_int_equal(unlinkat(tree, "link", 0), 0);
    assert_int_equal(symlinkat("b", tree, "link"), 0);
    expect(s, "Dc del\nAc dir/new\nMl link\nMc mod\nMm mode\nMc same_size\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "same_size")), "same_size");
    expect_content(change_open_new(&s->set, change_find(&s->set, "same_size")), "SAME_SIZE");
    expect_content(change_open_old(&s->set, change_find(&s->set, "del")), "del");
    assert_string_equal(change_find(&s->set, "link")->old_.link, "a");
}

static void test_folders(void **state) {
    static const char *const paths[] = {"gone", "gone/in", "to_dir", "to_file", "to_file/in", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    put_both(s, tree, "gone/in", "1");
    put_both(s, tree, "to_file/in", "22");
    put_both(s, tree, "to_dir", "333");
    write_manifest(s, tree, paths);
    let_time_pass();
    assert_int_equal(unlinkat(tree, "gone/in", 0), 0);
    assert_int_equal(unlinkat(tree, "gone", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(tree, "to_file/in", 0), 0);
    assert_int_equal(unlinkat(tree, "to_file", AT_REMOVEDIR), 0);
    put(tree, "to_file", "4444");
    assert_int_equal(unlinkat(tree, "to_dir", 0), 0);
    put(tree, "to_dir/new", "55555");
    expect(s, "D gone\nDc gone/in\nMt to_dir\nAc to_dir/new\nMt to_file\nDc to_file/in\n");
}

static void test_the_host_changed_it_meanwhile(void **state) {
    static const char *const paths[] = {"both", "del", "host_only", "kept", "untouched", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    for (size_t i = 0; paths[i]; i++)
        put_both(s, tree, paths[i], "old");
    write_manifest(s, tree, paths);
    let_time_pass();
    put(tree, "kept", "new");
    let_time_pass();
    expect(s, "Mc kept\n");
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
    put(tree, "both", "new");
    assert_int_equal(unlinkat(tree, "del", 0), 0);
    put(s->ws, "both", "hst");
    put(s->ws, "kept", "hst");
    put(s->ws, "host_only", "hst");
    put(s->ws, "del", "hst");
    put(tree, "made", "by the run");
    put(s->ws, "made", "by the host");
    put(tree, "equal", "by both");
    put(s->ws, "equal", "by both");
    expect(s, "Mc!? both\nDc!? del\nMc! kept\nAc! made\n");
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "both")), -ENODATA);
    expect_content(change_open_old(&s->set, change_find(&s->set, "kept")), "old");
}

/* After a sync the copy starts from the host's new version, but the journal has the first one. */
static void test_an_older_base_is_none(void **state) {
    static const char *const paths[] = {"f", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    put_both(s, tree, "f", "first");
    write_manifest(s, tree, paths);
    let_time_pass();
    put(tree, "f", "edit1");
    expect(s, "Mc f\n");
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
    put(s->ws, "f", "edit1");
    write_manifest(s, tree, paths);
    let_time_pass();
    put(tree, "f", "edit2");
    expect(s, "Mc f\n");
    put(s->ws, "f", "other");
    expect(s, "Mc!? f\n");
}

static void test_a_stamp_of_the_same_tick_is_compared(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    struct manifest_stamp host, copy;

    put_both(s, tree, "f", "old");
    host = stamp(s->ws, "f");
    copy = stamp(tree, "f");
    host.ctime_ns = 0;
    copy.ctime_ns += 1; /* written after the host's was read */
    assert_int_equal(manifest_set(m, "f", &host, &copy, NULL), 0);
    assert_int_equal(manifest_save(m, s->run, "manifest", NULL), 0);
    expect(s, "");
    let_time_pass();
    put(tree, "f", "new");
    expect(s, "Mc f\n");
    put(s->ws, "f", "hst");
    expect(s, "Mc!? f\n");
}

static void test_renames(void **state) {
    static const char *const paths[] = {"edited", "moved", "replaced", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    put_both(s, tree, "edited", "one");
    put_both(s, tree, "moved", "two");
    put_both(s, tree, "replaced", "three");
    write_manifest(s, tree, paths);
    let_time_pass();
    assert_int_equal(renameat(tree, "edited", tree, "edited2"), 0);
    put(tree, "edited2", "something else");
    assert_int_equal(unlinkat(tree, "moved", 0), 0);
    put(tree, "moved2", "two");
    assert_int_equal(unlinkat(tree, "replaced", 0), 0);
    put(tree, "other", "no relation");
    expect(s, "Rc edited2 <- edited\nR moved2 <- moved\nAc other\nDc replaced\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "edited2")), "one");
}

static void test_hidden_names_stay(void **state) {
    static const char *const paths[] = {"a", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    scene_hide(s, ".env\n");
    put_both(s, tree, "a", "1");
    put(s->ws, ".env", "key");
    write_manifest(s, tree, paths);
    put(tree, ".env", "key");
    expect(s, "Ach .env\n");
}

static void test_the_git_file_of_a_worktree_is_ours(void **state) {
    static const char *const paths[] = {"a", NULL};
    struct scene *s = *state;
    CLEANUP(closep) int tree = open_tree(s);

    put_both(s, tree, "a", "1");
    write_manifest(s, tree, paths);
    put(tree, ".git", "gitdir: /somewhere\n");
    put(tree, "sub/.git", "gitdir: elsewhere\n");
    expect(s, "A sub\nAc sub/.git\n");
}

static void test_no_manifest_is_an_error(void **state) {
    struct scene *s = *state;
    struct err err = {0};

    assert_int_equal(change_set_make(&s->rd, s->ws, NULL, &s->set, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "has no manifest"));
    assert_int_equal(s->set.new_root, -1);
}

#define SYNC(f) cmocka_unit_test_setup_teardown(f, setup_sync, scene_remove)
#define WORKTREE(f) cmocka_unit_test_setup_teardown(f, setup_worktree, scene_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        SYNC(test_kinds),
        SYNC(test_folders),
        SYNC(test_the_host_changed_it_meanwhile),
        SYNC(test_an_older_base_is_none),
        SYNC(test_a_stamp_of_the_same_tick_is_compared),
        SYNC(test_renames),
        SYNC(test_hidden_names_stay),
        WORKTREE(test_the_git_file_of_a_worktree_is_ours),
        SYNC(test_no_manifest_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
