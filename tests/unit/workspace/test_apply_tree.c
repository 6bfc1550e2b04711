/* SPDX-License-Identifier: Apache-2.0 */
/* Sync and worktree mode: the copy stays as it is, and what was applied becomes its base. */
#include "test_apply.h"

#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"

static int sync_scene(void **state) {
    int r = scene_make(state, WORKSPACE_SYNC, "tree");
    struct scene *s = *state;

    s->rd.path = s->top;
    return r;
}

static int tree_of(const struct scene *s) {
    return openat(s->run, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The same content on both sides, as sync_copy_in() leaves it. */
static void put_both(struct scene *s, int tree, struct manifest *m, const char *path, const char *text) {
    struct manifest_stamp host, copy;
    struct stat st;

    put(s->ws, path, text);
    put(tree, path, text);
    assert_int_equal(place_stat(s->ws, path, &st), 0);
    host = manifest_stamp_of(&st);
    assert_int_equal(place_stat(tree, path, &st), 0);
    copy = manifest_stamp_of(&st);
    assert_int_equal(manifest_set(m, path, &host, &copy, NULL), 0);
}

static void fill(struct scene *s, int tree) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();

    put_both(s, tree, m, "mod", "old");
    put_both(s, tree, m, "gone", "some");
    put_both(s, tree, m, "same", "1");
    put_both(s, tree, m, "both", "old");
    assert_int_equal(manifest_save(m, s->run, "manifest", NULL), 0);
    begin_run(s);
    put(tree, "mod", "new");
    unlinkat(tree, "gone", 0);
    put(tree, "fresh/file", "x");
}

static const struct apply_opts plain = {0};

static void test_applied_changes_become_the_base(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int tree = tree_of(s);

    fill(s, tree);
    expect_apply(s, &plain, "applied fresh\napplied fresh/file\napplied gone\napplied mod\n");
    expect_file(s->ws, "mod", "new");
    expect_file(s->ws, "fresh/file", "x");
    expect_none(s->ws, "gone");
    expect_file(tree, "mod", "new");
    expect(s, "");
    put(tree, "mod", "newer");
    expect(s, "Mc mod\n");
}

static void test_undo(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int tree = tree_of(s);
    CLEANUP(strv_done) struct strv left = {0};

    fill(s, tree);
    {
        CLEANUP(freep) char *before = tree_text(s->ws), *applied UNUSED = apply_text(s, &plain), *after = NULL;

        assert_int_equal(apply_undo(&s->rd, s->ws, false, &left, NULL), 0);
        after = tree_text(s->ws);
        assert_string_equal(after, before);
        assert_int_equal(left.len, 0);
    }
    expect_apply(s, &plain, "applied fresh\napplied fresh/file\napplied gone\napplied mod\n"); /* they are in the run again */
}

static int merge_fixed(int base UNUSED, int ours UNUSED, int theirs UNUSED, int *ret_fd, void *arg UNUSED,
                       struct err *err UNUSED) {
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, "merged", 6), 6);
    *ret_fd = fd;
    return 0;
}

static void test_a_merge_reaches_the_copy(void **state) {
    const struct apply_opts opts = {.merge = merge_fixed};
    struct scene *s = *state;
    CLEANUP(closep) int tree = tree_of(s);

    fill(s, tree);
    put(tree, "both", "run");
    look_at_run(s);
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
    put(s->ws, "both", "host");
    expect_apply(s, &opts, "merged both\napplied fresh\napplied fresh/file\napplied gone\napplied mod\n");
    expect_file(s->ws, "both", "merged");
    expect_file(tree, "both", "merged");
    expect(s, "");
}

static void test_discard(void **state) {
    static char *v[] = {"mod", "gone", "fresh", NULL};
    const struct strv only = {.v = v, .len = 3};
    struct scene *s = *state;
    CLEANUP(closep) int tree = tree_of(s);
    CLEANUP(strv_done) struct strv left = {0};

    fill(s, tree);
    put(tree, "both", "run");
    look_at_run(s);
    assert_int_equal(discard_changes(&s->rd, &s->set, &only, &left, NULL), 0);
    assert_int_equal(left.len, 0);
    expect_file(tree, "mod", "old");
    expect_file(tree, "gone", "some");
    expect_none(tree, "fresh");
    expect(s, "Mc both\n");
    expect_file(s->ws, "mod", "old");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_applied_changes_become_the_base, sync_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_undo, sync_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_merge_reaches_the_copy, sync_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_discard, sync_scene, scene_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
