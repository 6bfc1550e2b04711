/* SPDX-License-Identifier: Apache-2.0 */
#include "test_change.h"

static int setup(void **state) {
    return scene_make(state, WORKSPACE_DIRECT, NULL);
}

/* What the guard does before the first change of a path. */
static void touch(const struct scene *s, const char *path, uint64_t file_max) {
    const struct journal_opts opts = {.budget = 1024 * 1024, .file_max = file_max};
    CLEANUP(journal_closep) struct journal *j = NULL;
    CLEANUP(closep) int content = -1;
    struct journal_entry e;

    assert_int_equal(journal_open(s->run, true, &opts, &j, NULL), 0);
    assert_int_equal(journal_look(j, s->ws, path, &e, &content, NULL), 0);
    assert_int_equal(journal_add(j, &e, content, false, -1, NULL), 1);
}

static void test_kinds(void **state) {
    static const char *const files[] = {"attr", "back", "del", "mod", "mode", "type", NULL};
    struct scene *s = *state;

    for (size_t i = 0; files[i]; i++)
        put(s->ws, files[i], files[i]);
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    assert_int_equal(mkdirat(s->ws, "dir", 0755), 0);
    begin_run(s);
    for (size_t i = 0; files[i]; i++)
        touch(s, files[i], 1024);
    touch(s, "link", 1024);
    touch(s, "dir", 1024);
    touch(s, "new", 1024);
    touch(s, "came and went", 1024);
    put(s->ws, "untold", "not in the journal");
    expect(s, "");

    mark(s->ws, "attr", "user.a", "1");
    put(s->ws, "back", "changed");
    put(s->ws, "back", "back");
    assert_int_equal(unlinkat(s->ws, "del", 0), 0);
    put(s->ws, "mod", "changed");
    assert_int_equal(fchmodat(s->ws, "mode", 0600, 0), 0);
    assert_int_equal(unlinkat(s->ws, "type", 0), 0);
    assert_int_equal(mkfifoat(s->ws, "type", 0644), 0);
    assert_int_equal(unlinkat(s->ws, "link", 0), 0);
    assert_int_equal(symlinkat("b", s->ws, "link"), 0);
    assert_int_equal(fchmodat(s->ws, "dir", 0700, 0), 0);
    put(s->ws, "new", "n");
    expect(s, "Mx attr\nDc del\nMm dir\nMl link\nMc mod\nMm mode\nAc new\nMt type\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "mod")), "mod");
    expect_content(change_open_new(&s->set, change_find(&s->set, "mod")), "changed");
    expect_content(change_open_old(&s->set, change_find(&s->set, "del")), "del");
    assert_int_equal(change_open_new(&s->set, change_find(&s->set, "type")), -ENOENT);
}

static void test_what_was_not_kept(void **state) {
    struct scene *s = *state;

    put(s->ws, "large", "0123456789");
    put(s->ws, "gone", "0123456789");
    touch(s, "large", 4);
    touch(s, "gone", 4);
    put(s->ws, "large", "9876543210");
    assert_int_equal(unlinkat(s->ws, "gone", 0), 0);
    expect(s, "Dc? gone\nMc? large\n");
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "large")), -ENODATA);
    assert_int_equal(change_find(&s->set, "gone")->old_.size, 10);
}

static void test_renames(void **state) {
    struct scene *s = *state;

    put(s->ws, "from", "content");
    put(s->ws, "old", "not the same");
    begin_run(s);
    touch(s, "from", 1024);
    touch(s, "sub", 1024);
    touch(s, "sub/to", 1024);
    touch(s, "old", 1024);
    touch(s, "new", 1024);
    assert_int_equal(mkdirat(s->ws, "sub", 0755), 0);
    assert_int_equal(renameat(s->ws, "from", s->ws, "sub/to"), 0);
    put(s->ws, "sub/to", "content and more");
    assert_int_equal(renameat(s->ws, "old", s->ws, "new"), 0);
    expect(s, "R new <- old\nA sub\nRc sub/to <- from\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "sub/to")), "content");
}

/* The new file has the inode number of the one that was deleted, as ext4 gives it out at once; it was born later. */
static void test_an_inode_used_again_is_no_rename(void **state) {
    struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = NULL;
    struct journal_entry e = {.kind = JOURNAL_FILE, .path = "gone", .mode = 0644, .size = 3};
    struct stat st;

    begin_run(s);
    put(s->ws, "new", "unrelated");
    assert_int_equal(fstatat(s->ws, "new", &st, 0), 0);
    e.dev = st.st_dev;
    e.ino = st.st_ino;
    assert_int_equal(journal_open(s->run, true, NULL, &j, NULL), 0);
    assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
    e = (struct journal_entry){.kind = JOURNAL_ABSENT, .path = "new"};
    assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
    expect(s, "Dc? gone\nAc new\n");
}

static void test_a_link_in_the_way_is_not_followed(void **state) {
    struct scene *s = *state;

    put(s->ws, "dir/file", "old");
    put(s->run, "outside/file", "old!");
    touch(s, "dir", 1024);
    touch(s, "dir/file", 1024);
    assert_int_equal(renameat(s->ws, "dir", s->ws, "elsewhere"), 0);
    assert_int_equal(symlinkat("../run/outside", s->ws, "dir"), 0);
    expect(s, "Mt dir\nDc dir/file\n");
}

static void test_hidden_names_are_marked(void **state) {
    struct scene *s = *state;

    scene_hide(s, "secret/\n");
    touch(s, "secret", 1024);
    touch(s, "secret/key", 1024);
    put(s->ws, "secret/key", "1");
    expect(s, "Ah secret\nAch secret/key\n");
}

static void test_no_journal_no_changes(void **state) {
    struct scene *s = *state;

    put(s->ws, "a", "1");
    expect(s, "");
    s->rd.info.mode = WORKSPACE_RO;
    expect(s, "");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, scene_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_kinds),
        CASE(test_what_was_not_kept),
        CASE(test_renames),
        CASE(test_an_inode_used_again_is_no_rename),
        CASE(test_a_link_in_the_way_is_not_followed),
        CASE(test_hidden_names_are_marked),
        CASE(test_no_journal_no_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
