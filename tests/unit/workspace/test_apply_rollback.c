/* SPDX-License-Identifier: Apache-2.0 */
#include "test_apply.h"

#include "os/clock.h"

static int direct_scene(void **state) {
    int r = scene_make(state, WORKSPACE_DIRECT, NULL);
    struct scene *s = *state;

    s->rd.path = s->top;
    return r;
}

/* What the guard does before the first change of a path. */
static void touch(struct scene *s, const char *path) {
    static const struct journal_opts opts = {.budget = 64, .file_max = 32};
    CLEANUP(journal_closep) struct journal *j = NULL;
    CLEANUP(closep) int content = -1;
    struct journal_entry e = {0};

    assert_int_equal(journal_open(s->run, true, &opts, &j, NULL), 0);
    assert_int_equal(journal_look(j, s->ws, path, &e, &content, NULL), 0);
    assert_true(journal_add(j, &e, content, false, -1, NULL) >= 0);
}

static void end_run(struct scene *s) {
    s->rd.info.ended_ns = clock_mark();
    clock_pass(s->rd.info.ended_ns);
}

static void fill(struct scene *s) {
    put(s->ws, "mod", "old");
    put(s->ws, "gone", "some");
    put(s->ws, "dir/a", "1");
    put(s->ws, "mode", "#!");
    put(s->ws, "was", "moved content");
    put(s->ws, "to_link/in", "5");
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    assert_int_equal(fchmodat(s->ws, "mod", 0640, 0), 0);
}

/* Changes of a run, each told to the journal before. */
static void act(struct scene *s) {
    static const char *const paths[] = {"mod",  "gone", "dir/a",      "dir",     "mode",       "was",    "is",
                                        "link", "new",  "new/folder", "new/f/x", "to_link/in", "to_link"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        touch(s, paths[i]);
    touch(s, "new/f");
    put(s->ws, "mod", "new");
    assert_int_equal(fchmodat(s->ws, "mod", 0755, 0), 0);
    unlinkat(s->ws, "gone", 0);
    unlinkat(s->ws, "dir/a", 0);
    unlinkat(s->ws, "dir", AT_REMOVEDIR);
    assert_int_equal(fchmodat(s->ws, "mode", 0777, 0), 0);
    assert_int_equal(renameat(s->ws, "was", s->ws, "is"), 0);
    unlinkat(s->ws, "link", 0);
    assert_int_equal(symlinkat("/etc/passwd", s->ws, "link"), 0);
    put(s->ws, "new/f/x", "1");
    assert_int_equal(mkdirat(s->ws, "new/folder", 0700), 0);
    unlinkat(s->ws, "to_link/in", 0);
    unlinkat(s->ws, "to_link", AT_REMOVEDIR);
    assert_int_equal(symlinkat("..", s->ws, "to_link"), 0);
}

static size_t roll(struct scene *s, const struct strv *only, bool force, struct strv *left) {
    struct err err = {0};

    look_at_run(s);
    if (rollback_run(&s->rd, &s->set, s->ws, only, force, left, &err) < 0)
        fail_msg("%s", err.msg);
    return left->len;
}

static void test_everything_comes_back(void **state) {
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0}, none = {0};
    CLEANUP(freep) char *before = NULL, *changed = NULL, *after = NULL, *undone = NULL;
    struct stat was, is;

    fill(s);
    assert_int_equal(fstatat(s->ws, "mod", &was, 0), 0);
    before = tree_text(s->ws);
    act(s);
    end_run(s);
    changed = tree_text(s->ws);
    assert_int_equal(roll(s, NULL, false, &left), 0);
    after = tree_text(s->ws);
    assert_string_equal(after, before);
    assert_int_equal(fstatat(s->ws, "mod", &is, 0), 0);
    assert_int_equal(ns_of(is.st_mtim), ns_of(was.st_mtim));
    assert_int_equal(apply_undo(&s->rd, s->ws, false, &none, NULL), 0);
    undone = tree_text(s->ws);
    assert_string_equal(undone, changed);
}

static void test_changes_since_the_end_stay(void **state) {
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0}, would = {0}, none = {0};

    fill(s);
    act(s);
    end_run(s);
    put(s->ws, "mod", "mine");
    put(s->ws, "new/f/mine", "mine");
    look_at_run(s);
    assert_int_equal(rollback_check(&s->rd, &s->set, s->ws, NULL, false, &would, NULL), 0);
    expect_none(s->ws, "gone");
    assert_int_equal(roll(s, NULL, false, &left), 3);
    assert_true(strv_has(&left, "mod") && strv_has(&left, "new/f") && strv_has(&left, "new"));
    assert_int_equal(would.len, left.len);
    expect_file(s->ws, "mod", "mine");
    expect_file(s->ws, "new/f/mine", "mine");
    expect_none(s->ws, "new/f/x");
    expect_file(s->ws, "gone", "some");
    unlinkat(s->ws, "new/f/mine", 0);
    assert_int_equal(roll(s, NULL, true, &none), 0);
    expect_file(s->ws, "mod", "old");
    expect_none(s->ws, "new");
}

static void test_only(void **state) {
    static char *v[] = {"dir", NULL};
    const struct strv only = {.v = v, .len = 1};
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0};

    fill(s);
    act(s);
    end_run(s);
    assert_int_equal(roll(s, &only, false, &left), 0);
    expect_file(s->ws, "dir/a", "1");
    expect_file(s->ws, "mod", "new");
}

static void test_what_was_not_kept_is_named(void **state) {
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0};

    put(s->ws, "large", "more than the thirty-two bytes that are kept of one file here");
    put(s->ws, "small", "1");
    touch(s, "large");
    touch(s, "small");
    put(s->ws, "large", "2");
    put(s->ws, "small", "2");
    end_run(s);
    assert_int_equal(roll(s, NULL, true, &left), 1);
    assert_string_equal(left.v[0], "large");
    expect_file(s->ws, "large", "2");
    expect_file(s->ws, "small", "1");
}

/* ATTACKS 31: the content was changed in place, and size and time set back. */
static void test_a_time_set_back_hides_nothing(void **state) {
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0}, none = {0};
    struct timespec times[2];
    struct stat st;

    put(s->ws, "f", "good");
    assert_int_equal(fstatat(s->ws, "f", &st, 0), 0);
    touch(s, "f");
    put(s->ws, "f", "evil");
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(s->ws, "f", times, 0), 0);
    end_run(s);
    assert_int_equal(roll(s, NULL, false, &left), 0);
    expect_file(s->ws, "f", "good");
    assert_int_equal(apply_undo(&s->rd, s->ws, false, &none, NULL), 0);
    expect_file(s->ws, "f", "evil");
}

static void test_only_direct_mode(void **state) {
    struct scene *s = *state;
    CLEANUP(strv_done) struct strv left = {0};
    CLEANUP(apply_result_done) struct apply_result result = {0};
    const struct apply_opts plain = {0};
    struct err err = {0};

    fill(s);
    act(s);
    look_at_run(s);
    assert_int_equal(apply_changes(&s->rd, &s->set, s->ws, &plain, &result, &err), -EINVAL);
    assert_int_equal(discard_changes(&s->rd, &s->set, NULL, &left, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "rollback"));
    s->rd.info.mode = WORKSPACE_OVERLAY;
    assert_int_equal(rollback_run(&s->rd, &s->set, s->ws, NULL, false, &left, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_everything_comes_back, direct_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_changes_since_the_end_stay, direct_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_only, direct_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_what_was_not_kept_is_named, direct_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_time_set_back_hides_nothing, direct_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_only_direct_mode, direct_scene, scene_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
