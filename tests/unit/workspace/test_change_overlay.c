/* SPDX-License-Identifier: Apache-2.0 */
#include "test_change.h"

static int setup(void **state) {
    return scene_make(state, WORKSPACE_OVERLAY, "upper");
}

static int upper(const struct scene *s) {
    return openat(s->run, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void whiteout(int root, const char *path) {
    assert_int_equal(mknodat(root, path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

static void test_kinds(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "mod", "old");
    put(s->ws, "gone", "some");
    put(s->ws, "same", "same");
    put(s->ws, "mode", "#!");
    put(s->ws, "sub/file", "1");
    put(s->ws, "attr", "a");
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    assert_int_equal(symlinkat("a", s->ws, "link2"), 0);
    put(up, "mod", "new");
    whiteout(up, "gone");
    put(up, "same", "same");
    mark(up, "same", "user.overlay.origin", "");
    put(up, "mode", "#!");
    assert_int_equal(fchmodat(up, "mode", 0755, 0), 0);
    put(up, "sub/new", "fresh");
    put(up, "attr", "a");
    mark(up, "attr", "user.note", "1");
    assert_int_equal(symlinkat("b", up, "link"), 0);
    put(up, "link2", "a file now");
    whiteout(up, "never");
    expect(s, "Mx attr\nDc gone\nMl link\nMt link2\nMc mod\nMm mode\nAc sub/new\n");

    expect_content(change_open_old(&s->set, change_find(&s->set, "mod")), "old");
    expect_content(change_open_new(&s->set, change_find(&s->set, "mod")), "new");
    expect_content(change_open_old(&s->set, change_find(&s->set, "gone")), "some");
    assert_int_equal(change_open_new(&s->set, change_find(&s->set, "gone")), -ENOENT);
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "sub/new")), -ENOENT);
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "link")), -ENOENT);
    assert_string_equal(change_find(&s->set, "link")->old_.link, "a");
    assert_string_equal(change_find(&s->set, "link")->new_.link, "b");
    assert_int_equal(change_find(&s->set, "mode")->new_.mode, S_IFREG | 0755);
    assert_null(change_find(&s->set, "sub"));
}

static void test_folders(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "gone/a/b", "1");
    put(s->ws, "opaque/kept", "1");
    put(s->ws, "opaque/lost", "2");
    put(s->ws, "opaque/deep/kept", "3");
    put(s->ws, "opaque/deep/lost", "4");
    put(s->ws, "to_file/in", "5");
    put(s->ws, "to_dir", "6");
    put(s->ws, "chmod/x", "7");
    whiteout(up, "gone");
    put(up, "opaque/kept", "1");
    put(up, "opaque/deep/kept", "3");
    mark(up, "opaque", "user.overlay.opaque", "y");
    put(up, "to_file", "file");
    put(up, "to_dir/in", "new");
    assert_int_equal(mkdirat(up, "chmod", 0755), 0);
    assert_int_equal(fchmodat(up, "chmod", 0700, 0), 0);
    assert_int_equal(mkdirat(up, "empty", 0755), 0);
    expect(s, "Mm chmod\nA empty\nD gone\nD gone/a\nDc gone/a/b\nDc opaque/deep/lost\nDc opaque/lost\n"
              "Mt to_dir\nAc to_dir/in\nMt to_file\nDc to_file/in\n");
}

static void test_a_folder_that_was_only_entered(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "a/b/c", "1");
    put(up, "a/b/c", "1");
    mark(up, "a", "user.overlay.impure", "y");
    expect(s, "");
}

static void test_hidden_names_stay(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    scene_hide(s, ".env\nsecret/\n");
    put(s->ws, ".env", "key");
    put(s->ws, "dir/.env", "key");
    put(s->ws, "dir/file", "1");
    put(s->ws, "secret/key", "2");
    put(s->ws, "opaque/.env", "3");
    put(up, ".env", "key");
    whiteout(up, "dir");
    put(up, "secret/key", "made inside");
    put(up, "opaque/x", "4");
    mark(up, "opaque", "user.overlay.opaque", "y");
    expect(s, "Ach .env\nDc dir/file\nAc opaque/x\nAh secret\nAch secret/key\n");
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, ".env")), -ENOENT);
}

static void test_a_whiteout_of_a_hidden_folder(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    scene_hide(s, "secret/\n");
    put(s->ws, "secret/key", "2");
    whiteout(up, "secret");
    expect(s, "");
}

static void test_special_files_are_named_and_not_opened(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "file", "1");
    assert_int_equal(mkfifoat(up, "file", 0644), 0);
    assert_int_equal(mkfifoat(up, "fifo", 0644), 0);
    assert_int_equal(mkfifoat(s->ws, "both", 0644), 0);
    put(up, "both", "x");
    expect(s, "Mt both\nA fifo\nMt file\n");
    assert_int_equal(change_open_new(&s->set, change_find(&s->set, "file")), -ENOENT);
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "both")), -ENOENT);
}

static void test_links_are_not_followed(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "dir/file", "inside");
    put(s->run, "outside/file", "outside");
    put(up, "dir/file", "new");
    expect(s, "Mc dir/file\n");
    assert_int_equal(renameat(s->ws, "dir", s->ws, "was"), 0);
    assert_int_equal(symlinkat("../run/outside", s->ws, "dir"), 0);
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "dir/file")), -ENODATA);
    expect(s, "Mt dir\nAc dir/file\n");
}

static void test_the_host_changed_it_meanwhile(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "quiet", "old");
    put(s->ws, "both", "old");
    put(s->ws, "deleted", "old");
    begin_run(s);
    put(up, "quiet", "new");
    put(up, "both", "new");
    whiteout(up, "deleted");
    put(up, "made", "by the run");
    put(up, "equal", "by both");
    put(s->ws, "both", "changed");
    put(s->ws, "deleted", "changed");
    put(s->ws, "made", "by the host");
    put(s->ws, "equal", "by both");
    expect(s, "Mc!? both\nDc!? deleted\nMc!? made\nMc quiet\n");
    /* The host's version is no common base: a merge against it would lose the host's change. */
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "both")), -ENODATA);
}

/* overlayfs marks what it copied up, also if it is renamed after that. */
static void test_copied_up_but_not_on_the_host(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "edited", "old");
    put(up, "edited", "new");
    mark(up, "edited", "user.overlay.origin", "");
    put(up, "dir/away", "new");
    mark(up, "dir/away", "user.overlay.origin", "");
    mark(up, "dir", "user.overlay.origin", "");
    expect(s, "Mc!? dir/away\nMc edited\n");
    assert_int_equal(change_open_old(&s->set, change_find(&s->set, "dir/away")), -ENOENT);
    put(s->ws, "from", "new");
    whiteout(up, "from");
    expect(s, "R dir/away <- from\nMc edited\n");
    put(up, "dir/away", "new and edited");
    expect(s, "Ac dir/away\nMc edited\nDc from\n");
}

static void test_the_base_is_kept_for_later(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);
    struct err err = {0};

    put(s->ws, "mod", "old");
    put(s->ws, "touched", "old");
    put(s->ws, "del", "old");
    put(s->ws, "away", "old");
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    begin_run(s);
    put(up, "mod", "new");
    put(up, "touched", "old!");
    whiteout(up, "del");
    put(up, "away", "new");
    assert_int_equal(symlinkat("b", up, "link"), 0);
    expect(s, "Mc away\nDc del\nMl link\nMc mod\nMc touched\n");
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, &err), 0);
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, &err), 0);
    put(s->ws, "mod", "host");
    put(s->ws, "touched", "host");
    put(s->ws, "del", "host");
    assert_int_equal(unlinkat(s->ws, "away", 0), 0);
    assert_int_equal(unlinkat(s->ws, "link", 0), 0);
    assert_int_equal(symlinkat("c", s->ws, "link"), 0);
    put(up, "touched", "old"); /* as it was: nothing that the run wants */
    expect(s, "Mc! away\nDc! del\nMl! link\nMc! mod\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "mod")), "old");
    expect_content(change_open_old(&s->set, change_find(&s->set, "del")), "old");
    expect_content(change_open_old(&s->set, change_find(&s->set, "away")), "old");
    assert_string_equal(change_find(&s->set, "link")->old_.link, "a");
}

/* Its beginning is later than the host's change, but what it holds is older. */
static void test_a_run_that_is_taken_up_again(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "mod", "old");
    put(s->ws, "quiet", "old");
    begin_run(s);
    put(up, "mod", "new");
    put(up, "quiet", "new");
    expect(s, "Mc mod\nMc quiet\n");
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
    put(s->ws, "mod", "hst");
    begin_run(s);
    expect(s, "Mc! mod\nMc quiet\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "mod")), "old");
}

static void test_a_change_after_the_set_was_made_is_no_base(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "mod", "old");
    begin_run(s);
    put(up, "mod", "new");
    expect(s, "Mc mod\n");
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    put(s->ws, "mod", "hst");
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
    expect(s, "Mc!? mod\n");
}

static void test_renames_by_content(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    put(s->ws, "from", "content");
    put(s->ws, "twin1", "twins");
    put(s->ws, "twin2", "twins");
    put(s->ws, "empty", "");
    put(s->ws, "differs", "1234567");
    whiteout(up, "from");
    whiteout(up, "twin1");
    whiteout(up, "twin2");
    whiteout(up, "empty");
    whiteout(up, "differs");
    put(up, "to/name", "content");
    put(up, "twin", "twins");
    put(up, "empty2", "");
    assert_int_equal(fchmodat(up, "to/name", 0755, 0), 0);
    expect(s, "Dc differs\nDc empty\nAc empty2\nA to\nRm to/name <- from\nAc twin\nDc twin1\nDc twin2\n");
    expect_content(change_open_old(&s->set, change_find(&s->set, "to/name")), "content");
    expect_content(change_open_new(&s->set, change_find(&s->set, "to/name")), "content");
}

static void test_a_hidden_name_is_no_half_of_a_rename(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);

    scene_hide(s, ".env\n");
    put(s->ws, "from", "content");
    whiteout(up, "from");
    put(up, ".env", "content");
    expect(s, "Ach .env\nDc from\n");
}

/* 70 KiB: more than one block; the difference is in the last byte. */
static void test_content_of_many_blocks(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);
    char text[70 * 1024 + 1];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    put(s->ws, "same", text);
    put(up, "same", text);
    put(s->ws, "last", text);
    text[sizeof text - 2] = 'y';
    put(up, "last", text);
    expect(s, "Mc last\n");
}

static void test_too_deep_is_noted(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);
    CLEANUP(freep) char *listed = NULL;
    char path[2 * CHANGE_DEPTH_MAX + 20] = "";

    for (size_t i = 0; i < CHANGE_DEPTH_MAX + 2; i++)
        memcpy(path + 2 * i, "d/f", 4);
    put(up, path, "");
    listed = listing(s);
    assert_int_equal(s->set.n, CHANGE_DEPTH_MAX);
    assert_int_equal(s->set.notes.len, 1);
    assert_true(str_ends(s->set.notes.v[0], "is too deep to be looked at"));
}

/* As nobody if this is root, to whom nothing is unreadable. */
static void test_unreadable_is_noted_and_escaped(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper(s);
    CLEANUP(freep) char *listed = NULL;
    uid_t me = geteuid();

    put(s->ws, "\033[31m", "aa");
    put(up, "\033[31m", "bb");
    assert_int_equal(fchmodat(up, "\033[31m", 0, 0), 0);
    assert_int_equal(me == 0 ? seteuid(65534) : 0, 0);
    listed = listing(s);
    assert_int_equal(me == 0 ? seteuid(0) : 0, 0);
    assert_string_equal(listed, "Mcm \033[31m\n");
    assert_string_equal(s->set.notes.v[0], "'\\x1b[31m' could not be read and counts as changed");
}

static void test_nothing_left(void **state) {
    struct scene *s = *state;

    put(s->ws, "a", "1");
    assert_int_equal(unlinkat(s->run, "upper", AT_REMOVEDIR), 0);
    expect(s, "");
    assert_null(change_find(&s->set, "a"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, scene_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_kinds),
        CASE(test_folders),
        CASE(test_a_folder_that_was_only_entered),
        CASE(test_hidden_names_stay),
        CASE(test_a_whiteout_of_a_hidden_folder),
        CASE(test_special_files_are_named_and_not_opened),
        CASE(test_links_are_not_followed),
        CASE(test_the_host_changed_it_meanwhile),
        CASE(test_copied_up_but_not_on_the_host),
        CASE(test_the_base_is_kept_for_later),
        CASE(test_a_run_that_is_taken_up_again),
        CASE(test_a_change_after_the_set_was_made_is_no_base),
        CASE(test_renames_by_content),
        CASE(test_a_hidden_name_is_no_half_of_a_rename),
        CASE(test_content_of_many_blocks),
        CASE(test_too_deep_is_noted),
        CASE(test_unreadable_is_noted_and_escaped),
        CASE(test_nothing_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
