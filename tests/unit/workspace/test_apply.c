/* SPDX-License-Identifier: Apache-2.0 */
#include "test_apply.h"
#include "workspace/apply/apply.h"

static const struct apply_opts plain = {0};

/* -- bringing in -------------------------------------------------------------------------------------------------------- */

static void fill_kinds(struct scene *s, int up) {
    put(s->ws, "mod", "old");
    put(s->ws, "gone", "some");
    put(s->ws, "mode", "#!");
    put(s->ws, "dir/a/b", "1");
    put(s->ws, "was", "moved content");
    put(s->ws, "to_dir", "6");
    put(s->ws, "to_file/in", "5");
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    put(up, "mod", "new");
    put_whiteout(up, "gone");
    put(up, "mode", "#!");
    assert_int_equal(fchmodat(up, "mode", 0755, 0), 0);
    put_whiteout(up, "dir");
    put_whiteout(up, "was");
    put(up, "is", "moved content");
    put(up, "to_dir/in", "new");
    put(up, "to_file", "file");
    put(up, "deep/er/file", "x");
    assert_int_equal(fchmodat(up, "deep/er", 0555, 0), 0);
    assert_int_equal(symlinkat("b", up, "link"), 0);
}

static const char kinds_after[] = "deep d755 \ndeep/er d555 \ndeep/er/file -644 x\nis -644 moved content\nlink l000 b\n"
                                  "mod -644 new\nmode -755 #!\nto_dir d755 \nto_dir/in -644 new\nto_file -644 file\n";

static void test_kinds(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(freep) char *after = NULL, *left = NULL;

    fill_kinds(s, up);
    expect_apply(
        s, &plain,
        "applied deep\napplied deep/er\napplied deep/er/file\napplied dir\napplied dir/a\napplied dir/a/b\napplied gone\n"
        "applied is\napplied link\napplied mod\napplied mode\napplied to_dir\napplied to_dir/in\napplied to_file\n"
        "applied to_file/in\n");
    after = tree_text(s->ws);
    assert_string_equal(after, kinds_after);
    left = tree_text(up);
    assert_string_equal(left, "");
    expect_apply(s, &plain, "");
}

static void test_undo_brings_both_sides_back(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(strv_done) struct strv left = {0};
    struct err err = {0};

    fill_kinds(s, up);
    {
        CLEANUP(freep) char *ws = tree_text(s->ws), *run = tree_text(up), *ws_back = NULL, *run_back = NULL;
        CLEANUP(freep) char *applied UNUSED = apply_text(s, &plain);

        if (apply_undo(&s->rd, s->ws, false, &left, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(left.len, 0);
        ws_back = tree_text(s->ws);
        run_back = tree_text(up);
        assert_string_equal(ws_back, ws);
        assert_string_equal(run_back, run);
    }
    assert_int_equal(apply_undo(&s->rd, s->ws, false, &left, &err), -ENOENT);
    {
        CLEANUP(freep) char *applied UNUSED = apply_text(s, &plain), *after = tree_text(s->ws);

        assert_string_equal(after, kinds_after);
    }
}

static void test_undo_leaves_what_changed_since(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(strv_done) struct strv left = {0}, none = {0};

    put(s->ws, "a", "1");
    put(s->ws, "b", "2");
    put(up, "a", "10");
    put(up, "b", "20");
    put(up, "new/c", "3");
    expect_apply(s, &plain, "applied a\napplied b\napplied new\napplied new/c\n");
    put(s->ws, "a", "mine since");
    put(s->ws, "new/other", "mine too");
    assert_int_equal(apply_undo(&s->rd, s->ws, false, &left, NULL), 0);
    expect_file(s->ws, "a", "mine since");
    expect_file(s->ws, "b", "2");
    expect_none(s->ws, "new/c");
    expect_file(s->ws, "new/other", "mine too");
    assert_int_equal(left.len, 2);
    assert_true(strv_has(&left, "a") && strv_has(&left, "new"));
    unlinkat(s->ws, "new/other", 0);
    assert_int_equal(apply_undo(&s->rd, s->ws, true, &none, NULL), 0); /* it was kept for a second try */
    assert_int_equal(none.len, 0);
    expect_file(s->ws, "a", "1");
    expect_none(s->ws, "new");
}

static void test_only_and_except(void **state) {
    static char *only_v[] = {"src/*.c", "./odd[name", NULL}, *except_v[] = {"secret.c", NULL};
    const struct strv only = {.v = only_v, .len = 2}, except = {.v = except_v, .len = 1};
    const struct apply_opts opts = {.only = &only, .except = &except};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    put(up, "src/a.c", "1");
    put(up, "src/secret.c", "2");
    put(up, "src/b.h", "3");
    put(up, "odd[name", "4");
    expect_apply(s, &opts, "applied odd[name\nleft src\napplied src/a.c\nleft src/b.h\nleft src/secret.c\n");
    expect_file(s->ws, "src/a.c", "1");
    expect_file(s->ws, "odd[name", "4");
    expect_none(s->ws, "src/b.h");
    expect_file(up, "src/b.h", "3"); /* the rest stays for later */
    expect_none(up, "src/a.c");
    expect_apply(s, &plain, "applied src/b.h\napplied src/secret.c\n");
}

/* As `bawn review --interactive` does it: what the set does not name stays in the run. */
static void test_a_part_of_the_set(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(apply_result_done) struct apply_result result = {0};
    struct change_set part;

    put(s->ws, "o/lost", "1");
    put(s->ws, "o/late", "1");
    put(up, "d/a", "1");
    put(up, "d/b", "2");
    put(up, "o/new", "3");
    mark(up, "o", "user.overlay.opaque", "y");
    look_at_run(s);
    part = s->set;
    for (part.n = 0; part.n < s->set.n && strcmp(s->set.v[part.n].path, "o/lost") != 0; part.n++)
        ;
    part.v = &s->set.v[1]; /* d/a up to o/late */
    part.n--;
    assert_string_equal(part.v[0].path, "d/a");
    assert_int_equal(part.n, 3);
    assert_int_equal(apply_changes(&s->rd, &part, s->ws, &plain, &result, NULL), 0);
    assert_string_equal(part.v[1].path, "d/b");
    expect(s, "Dc o/lost\nAc o/new\n");
    expect_file(s->ws, "d/b", "2");
    expect_none(s->ws, "o/late");
    expect_none(up, "d");
}

static void test_dry_run_touches_nothing(void **state) {
    const struct apply_opts opts = {.dry_run = true};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(freep) char *before = NULL, *after = NULL;

    put(s->ws, "a", "1");
    put(up, "a", "2");
    put(up, "n/b", "2");
    before = tree_text(s->ws);
    expect_apply(s, &opts, "applied a\napplied n\napplied n/b\n");
    after = tree_text(s->ws);
    assert_string_equal(after, before);
    expect_none(s->run, "undo");
    expect_file(up, "a", "2");
}

/* -- the host's own changes --------------------------------------------------------------------------------------------- */

static void keep_base(struct scene *s) {
    look_at_run(s);
    assert_int_equal(change_keep_base(&s->rd, &s->set, s->ws, NULL), 0);
}

/* old, and what both sides made of it, in the order of time */
static void fill_conflict(struct scene *s, int up) {
    put(s->ws, "both", "old");
    put(s->ws, "del_host", "old");
    put(s->ws, "del_run", "old");
    put(s->ws, "equal", "old");
    begin_run(s);
    put(up, "both", "run");
    put(up, "del_host", "run");
    put_whiteout(up, "del_run");
    put(up, "equal", "new");
    put(up, "fine", "run");
    keep_base(s);
    put(s->ws, "both", "host");
    unlinkat(s->ws, "del_host", 0);
    put(s->ws, "del_run", "host");
    put(s->ws, "equal", "new");
}

static void test_a_conflict_stops_everything(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(freep) char *before = NULL, *after = NULL;

    fill_conflict(s, up);
    before = tree_text(s->ws);
    expect_apply(s, &plain, "conflict both\nconflict del_host\nconflict del_run\nsame equal\napplied fine\n(nothing done)\n");
    after = tree_text(s->ws);
    assert_string_equal(after, before);
    expect_file(up, "fine", "run");
}

static void test_skip(void **state) {
    const struct apply_opts opts = {.conflict = APPLY_SKIP};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    fill_conflict(s, up);
    expect_apply(s, &opts, "conflict both\nconflict del_host\nconflict del_run\nsame equal\napplied fine\n");
    expect_file(s->ws, "fine", "run");
    expect_file(s->ws, "both", "host");
    expect_file(s->ws, "del_run", "host");
    expect_file(up, "both", "run");
    expect_none(up, "equal");
}

static void test_keep_both(void **state) {
    const struct apply_opts opts = {.conflict = APPLY_KEEP_BOTH};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    fill_conflict(s, up);
    put(s->ws, "both.bawn-r", "taken");
    expect_apply(s, &opts, "applied both\napplied del_host\nconflict del_run\nsame equal\napplied fine\n");
    expect_file(s->ws, "both", "host");
    expect_file(s->ws, "both.bawn-r", "taken");
    expect_file(s->ws, "both.bawn-r-2", "run");
    expect_file(s->ws, "del_host.bawn-r", "run");
    expect_none(s->ws, "del_host");
    expect_file(s->ws, "del_run", "host");
}

static void test_overwrite_can_be_undone(void **state) {
    const struct apply_opts opts = {.conflict = APPLY_OVERWRITE};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(strv_done) struct strv left = {0};
    CLEANUP(freep) char *before = NULL, *after = NULL;

    fill_conflict(s, up);
    before = tree_text(s->ws);
    expect_apply(s, &opts, "applied both\napplied del_host\napplied del_run\nsame equal\napplied fine\n");
    expect_file(s->ws, "both", "run");
    expect_file(s->ws, "del_host", "run");
    expect_none(s->ws, "del_run");
    assert_int_equal(apply_undo(&s->rd, s->ws, false, &left, NULL), 0);
    after = tree_text(s->ws);
    assert_string_equal(after, before);
}

static int merge_as_told(int base, int ours, int theirs, int *ret_fd, void *arg, struct err *err UNUSED) {
    char b[64] = "", o[64] = "", t[64] = "";
    int fd;

    if (arg)
        return 1;
    assert_true(pread(base, b, 63, 0) >= 0 && pread(ours, o, 63, 0) >= 0 && pread(theirs, t, 63, 0) >= 0);
    fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(dprintf(fd, "%s+%s+%s", b, o, t) > 0);
    *ret_fd = fd;
    return 0;
}

static void test_merge(void **state) {
    const struct apply_opts opts = {.merge = merge_as_told, .conflict = APPLY_SKIP};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    fill_conflict(s, up);
    expect_apply(s, &opts, "merged both\nconflict del_host\nconflict del_run\nsame equal\napplied fine\n");
    expect_file(s->ws, "both", "old+host+run");
    expect_none(up, "both");
}

static void test_a_merge_that_conflicts(void **state) {
    const struct apply_opts opts = {.merge = merge_as_told, .merge_arg = (void *)&plain};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    fill_conflict(s, up);
    expect_apply(s, &opts, "conflict both\nconflict del_host\nconflict del_run\nsame equal\napplied fine\n(nothing done)\n");
    expect_file(s->ws, "both", "host");
}

static void test_binary_is_not_merged(void **state) {
    const struct apply_opts opts = {.merge = merge_as_told};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s), fd = -1;

    put(s->ws, "both", "old");
    begin_run(s);
    put(up, "both", "run");
    fd = openat(up, "both", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "\0", 1), 1);
    keep_base(s);
    put(s->ws, "both", "host");
    expect_apply(s, &opts, "conflict both\n(nothing done)\n");
}

static void test_modes_have_three_versions(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    struct stat st;

    put(s->ws, "m", "old");
    begin_run(s);
    put(up, "m", "new");
    keep_base(s);
    assert_int_equal(fchmodat(s->ws, "m", 0600, 0), 0); /* the host changed the mode, the run the content */
    expect_apply(s, &plain, "applied m\n");
    assert_int_equal(fstatat(s->ws, "m", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    expect_file(s->ws, "m", "new");
}

/* -- what is refused ---------------------------------------------------------------------------------------------------- */

static void test_links_that_lead_out(void **state) {
    static const struct {
        const char *path, *target;
        bool out;
    } rows[] = {
        {"a", "b", false},    {"a", "/etc/passwd", true}, {"a", "..", true},
        {"d/a", "..", false}, {"d/a", "../..", true},     {"d/a", "../b", false},
        {"a", "x/..", true},  {"a", "./b//c", false},     {"d/e/a", "../../x", false},
        {"a", "", true},      {"a", "b/../../c", true},   {"d/a", ".././../x", true},
    };

    assert_non_null(*state);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (apply_link_leads_out(rows[i].path, rows[i].target) != rows[i].out)
            fail_msg("%s -> %s", rows[i].path, rows[i].target);
}

static void test_refusals(void **state) {
    const struct apply_opts allowed = {.allow_links_out = true};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    struct stat st;

    assert_int_equal(mkfifoat(up, "fifo", 0600), 0);
    assert_int_equal(symlinkat("/etc/passwd", up, "out"), 0);
    assert_int_equal(symlinkat("in", up, "in_link"), 0);
    put(up, "suid", "x");
    assert_int_equal(fchmodat(up, "suid", 06755, 0), 0);
    expect_apply(s, &plain, "refused fifo\napplied in_link\nrefused out\napplied suid\n");
    expect_none(s->ws, "fifo");
    expect_none(s->ws, "out");
    assert_int_equal(fstatat(s->ws, "suid", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    expect_apply(s, &allowed, "refused fifo\napplied out\n");
    assert_int_equal(fstatat(s->ws, "out", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(st.st_mode));
}

/* ATTACKS 18: the host has a link where the run has a folder; nothing may be written through it. */
static void test_a_link_on_the_way(void **state) {
    const struct apply_opts forced = {.conflict = APPLY_OVERWRITE, .allow_links_out = true};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s), top = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(mkdirat(top, "outside", 0755), 0);
    put(s->ws, "d/x", "1");
    begin_run(s);
    put(up, "d/x", "2");
    put(up, "d/y", "3");
    look_at_run(s);
    unlinkat(s->ws, "d/x", 0);
    unlinkat(s->ws, "d", AT_REMOVEDIR);
    assert_int_equal(symlinkat("../outside", s->ws, "d"), 0);
    {
        CLEANUP(apply_result_done) struct apply_result result = {0};
        CLEANUP(closep) int outside = openat(top, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CLEANUP(freep) char *written = NULL;

        assert_int_equal(apply_changes(&s->rd, &s->set, s->ws, &forced, &result, NULL), 0);
        assert_int_equal(result.n, 2);
        assert_int_equal(result.v[0].outcome, APPLY_CONFLICT);
        assert_int_equal(result.v[1].outcome, APPLY_CONFLICT);
        written = tree_text(outside);
        assert_string_equal(written, "");
    }
}

/* The run replaced a link by a folder: then its files come in, and not through the link. */
static void test_a_link_that_becomes_a_folder(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s), top = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(freep) char *after = NULL;

    assert_int_equal(mkdirat(top, "outside", 0755), 0);
    assert_int_equal(symlinkat("../outside", s->ws, "d"), 0);
    put(up, "d/x", "2");
    expect_apply(s, &plain, "applied d\napplied d/x\n");
    after = tree_text(s->ws);
    assert_string_equal(after, "d d755 \nd/x -644 2\n");
    expect_none(top, "outside/x");
}

static void test_hidden_names_stay_inside(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    scene_hide(s, ".env\n");
    put(s->ws, ".env", "secret");
    put(up, ".env", "bait");
    put(up, "a", "1");
    expect_apply(s, &plain, "left .env\napplied a\n");
    expect_file(s->ws, ".env", "secret");
    expect_file(up, ".env", "bait");
}

static void test_a_folder_with_more_in_it_stays(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    put(s->ws, "dir/a", "1");
    put_whiteout(up, "dir");
    look_at_run(s);
    put(s->ws, "dir/mine", "2");
    {
        CLEANUP(apply_result_done) struct apply_result result = {0};

        assert_int_equal(apply_changes(&s->rd, &s->set, s->ws, &plain, &result, NULL), 0);
        assert_int_equal(result.v[0].outcome, APPLY_LEFT);
        assert_int_equal(result.v[1].outcome, APPLY_DONE);
    }
    expect_none(s->ws, "dir/a");
    expect_file(s->ws, "dir/mine", "2");
}

static void test_what_changes_in_the_run_after_the_plan(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);

    put(up, "a", "1");
    put(up, "b", "1");
    look_at_run(s);
    unlinkat(up, "b", 0);
    assert_int_equal(symlinkat("/etc/passwd", up, "b"), 0);
    {
        CLEANUP(apply_result_done) struct apply_result result = {0};

        assert_int_equal(apply_changes(&s->rd, &s->set, s->ws, &plain, &result, NULL), 0);
        assert_int_equal(result.v[0].outcome, APPLY_DONE);
        assert_int_equal(result.v[1].outcome, APPLY_REFUSED);
    }
    expect_none(s->ws, "b");
}

/* -- discarding --------------------------------------------------------------------------------------------------------- */

static void test_discard(void **state) {
    static char *only_v[] = {"a", "gone/x", "del", NULL};
    const struct strv only = {.v = only_v, .len = 3};
    struct scene *s = *state;
    CLEANUP(closep) int up = upper_of(s);
    CLEANUP(strv_done) struct strv left = {0};

    put(s->ws, "del", "1");
    put(s->ws, "gone/x", "1");
    put(s->ws, "gone/y", "1");
    put(up, "a", "1");
    put(up, "b", "1");
    put_whiteout(up, "del");
    put_whiteout(up, "gone");
    look_at_run(s);
    assert_int_equal(discard_changes(&s->rd, &s->set, &only, &left, NULL), 0);
    assert_int_equal(left.len, 1);
    assert_string_equal(left.v[0], "gone/x"); /* the whole folder was deleted at once */
    expect(s, "Ac b\nD gone\nDc gone/x\nDc gone/y\n");
    expect_file(s->ws, "del", "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_undo_brings_both_sides_back, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_undo_leaves_what_changed_since, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_only_and_except, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_part_of_the_set, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_dry_run_touches_nothing, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_conflict_stops_everything, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_skip, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_keep_both, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_overwrite_can_be_undone, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_merge, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_merge_that_conflicts, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_binary_is_not_merged, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_modes_have_three_versions, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_links_that_lead_out, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_refusals, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_link_on_the_way, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_link_that_becomes_a_folder, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_hidden_names_stay_inside, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_a_folder_with_more_in_it_stays, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_what_changes_in_the_run_after_the_plan, overlay_scene, scene_remove),
        cmocka_unit_test_setup_teardown(test_discard, overlay_scene, scene_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
