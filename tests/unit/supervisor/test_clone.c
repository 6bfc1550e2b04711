/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of sandboxes without one that runs: trees, checkpoints, forks, locks, leftovers. */
#include "../workspace/sides.h"

#include <sys/file.h>
#include <sys/xattr.h>

#include "base/str.h"
#include "os/remove.h"
#include "supervisor/clone/clone_priv.h"
#include "workspace/run/rundir.h"

struct world {
    char top[64], boxes[96], runs[96], workspace[96];
    struct box box;
    struct clone_opts opts;
};

static void write_at(int dir, const char *name, const char *text) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void expect_at(int dir, const char *path, const char *text) {
    char data[256];

    if (fd_read_file_at(dir, path, data, sizeof data) < 0)
        fail_msg("no %s", path);
    assert_string_equal(data, text);
}

/* A sandbox in overlay mode that was stopped, with a run of its name. */
static int setup(void **state) {
    struct world *w = calloc(1, sizeof *w);
    struct box_info info = {.workspace = w->workspace};
    struct run_info run = {.mode = WORKSPACE_OVERLAY, .workspace = w->workspace, .begun_ns = 7, .ended_ns = 9, .named = true};
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    struct err err = {0};

    snprintf(w->top, sizeof w->top, "/tmp/bawn-clone.XXXXXX");
    assert_non_null(mkdtemp(w->top));
    snprintf(w->boxes, sizeof w->boxes, "%s/sandboxes", w->top);
    snprintf(w->runs, sizeof w->runs, "%s/runs", w->top);
    snprintf(w->workspace, sizeof w->workspace, "%s/work", w->top);
    assert_int_equal(mkdir(w->workspace, 0755), 0);
    w->box = (struct box)BOX_INIT;
    assert_int_equal(registry_create(w->boxes, "box", &info, &w->box, &err), 0);
    snprintf(w->box.state.mode, sizeof w->box.state.mode, "overlay");
    assert_int_equal(box_save_state(&w->box, &err), 0);
    write_at(w->box.fd, "home/file", "in the home");
    assert_int_equal(rundir_create(w->runs, "box", &run, &rd, &err), 0);
    assert_int_equal(mkdirat(rd.fd, "upper", 0755), 0);
    assert_int_equal(mkdirat(rd.fd, "upper/dir", 0755), 0);
    write_at(rd.fd, "upper/dir/new", "new");
    assert_int_equal(mknodat(rd.fd, "upper/gone", S_IFCHR, 0), 0);
    w->opts = (struct clone_opts){.boxes = w->boxes, .runs = w->runs};
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;

    box_done(&w->box);
    remove_tree(AT_FDCWD, w->top);
    free(w);
    return 0;
}

static int checkpoints(const struct world *w) {
    return openat(w->box.fd, "checkpoints", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_a_tree_is_copied_faithfully(void **state) {
    struct world *w = *state;
    CLEANUP(closep) int from = openat(w->box.fd, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep)
    int to = mkdirat(w->box.fd, "copy", 0700) < 0 ? -1 : openat(w->box.fd, "copy", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int marked = -1;
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1000, .tv_nsec = 7}};
    struct clone_tree c = {.from = from, .to = to, .whiteouts = true, .leave = ".pki/nssdb"};
    struct err err = {0};
    char value[8] = "";
    bool attributes;
    struct stat st;

    assert_int_equal(mkdirat(from, "d", 0700), 0);
    marked = openat(from, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    attributes = fsetxattr(marked, "user.overlay.opaque", "y", 1, 0) == 0;
    assert_int_equal(mkdirat(from, ".pki", 0700) + mkdirat(from, ".pki/nssdb", 0700), 0);
    write_at(from, ".pki/nssdb/cert9.db", "of another life");
    write_at(from, "d/f", "text");
    assert_int_equal(symlinkat("/etc/passwd", from, "l"), 0);
    assert_int_equal(mknodat(from, "w", S_IFCHR, 0), 0);
    assert_int_equal(mkfifoat(from, "p", 0600), 0);
    assert_int_equal(fchmodat(from, "d/f", 04751, 0), 0);
    assert_int_equal(utimensat(from, "d/f", times, 0), 0);
    assert_int_equal(clone_tree_make(&c, &err), 0);
    expect_at(to, "d/f", "text");
    assert_int_equal(fstatat(to, "d/f", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0751);
    assert_int_equal(st.st_mtim.tv_sec, 1000);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
    assert_int_equal(fstatat(to, "w", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    assert_int_equal(fstatat(to, "l", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(faccessat(to, "p", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(faccessat(to, ".pki/nssdb", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(c.left_out, 1);
    closep(&marked);
    marked = openat(to, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(!attributes || (fgetxattr(marked, "user.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y'));
}

static void test_checkpoints_come_and_go(void **state) {
    struct world *w = *state;
    struct checkpoint_list all = {0};
    struct checkpoint c = {0};
    struct err err = {0};
    CLEANUP(closep) int place = -1, used = -1;

    assert_int_equal(checkpoint_list(&w->box, &all, &err), 0);
    assert_int_equal(all.n, 0);
    checkpoint_list_done(&all);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "one", &c, &err), 0);
    assert_int_equal(c.files, 2);
    assert_int_equal(c.begun_ns, 7);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "one", &c, &err), -EEXIST);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "../one", &c, &err), -EINVAL);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, NULL, &c, &err), 0);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, NULL, &c, &err), 0); /* in the same second, perhaps */
    assert_int_equal(checkpoint_list(&w->box, &all, &err), 0);
    assert_int_equal(all.n, 3);
    assert_string_equal(all.v[0].tag, "one");
    checkpoint_list_done(&all);
    place = checkpoints(w);
    expect_at(place, "one/home/file", "in the home");
    expect_at(place, "one/run/upper/dir/new", "new");
    used = clone_open_tag(&w->box, place, "one", false, &err);
    assert_int_equal(checkpoint_remove(&w->box, "one", &err), -EBUSY);
    closep(&used);
    assert_int_equal(checkpoint_remove(&w->box, "one", &err), 0);
    assert_int_equal(checkpoint_remove(&w->box, "one", &err), -ENOENT);
    assert_int_equal(faccessat(place, "one", F_OK, 0), -1);
}

static void test_leftovers_of_the_dead_are_swept(void **state) {
    struct world *w = *state;
    struct checkpoint c = {0};
    struct err err = {0};
    CLEANUP(closep) int place = -1, busy = -1;

    assert_int_equal(checkpoint_make(&w->box, &w->opts, "one", &c, &err), 0);
    place = checkpoints(w);
    assert_int_equal(mkdirat(place, ".new-0123456789abcdef", 0700), 0);
    assert_int_equal(mkdirat(place, ".gone-0123456789abcdef", 0700), 0);
    write_at(place, ".gone-0123456789abcdef/f", "x");
    busy = openat(place, ".new-0123456789abcdef", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(busy, LOCK_EX), 0); /* somebody is at work with this one */
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "two", &c, &err), 0);
    assert_int_equal(faccessat(place, ".gone-0123456789abcdef", F_OK, 0), -1);
    assert_int_equal(faccessat(place, ".new-0123456789abcdef", F_OK, 0), 0);
    closep(&busy);
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "three", &c, &err), 0);
    assert_int_equal(faccessat(place, ".new-0123456789abcdef", F_OK, 0), -1);
}

static void test_forks_have_all_and_are_others(void **state) {
    struct world *w = *state;
    struct fork_source s = FORK_SOURCE_INIT;
    CLEANUP(box_done) struct box fork_box = BOX_INIT;
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(freep) char *id = NULL, *again = NULL;
    CLEANUP(closep) int place = -1;
    struct err err = {0};
    struct stat st;

    assert_int_equal(fork_begin(&w->box, &w->opts, "nothing", &s, &err), -ENOENT);
    assert_int_equal(fork_begin(&w->box, &w->opts, NULL, &s, &err), 0);
    assert_int_equal(fork_make(&s, "copy", &id, &err), 0);
    assert_int_equal(fork_make(&s, "copy", &again, &err), -EEXIST);
    assert_int_equal(fork_make(&s, "box", &again, &err), -EEXIST);
    s.last = true; /* gets what the others were copied from */
    assert_int_equal(fork_make(&s, "last", NULL, &err), 0);
    fork_end(&s);
    assert_int_equal(registry_open(w->boxes, "last", true, &fork_box, &err), 0);
    expect_at(fork_box.fd, "home/file", "in the home");
    box_done(&fork_box);
    assert_int_equal(rundir_open(w->runs, "last", true, &rd, &err), 0);
    expect_at(rd.fd, "upper/dir/new", "new");
    rundir_done(&rd);
    place = checkpoints(w);
    assert_int_equal(registry_open(w->boxes, "copy", true, &fork_box, &err), 0);
    assert_string_equal(fork_box.info.from, w->box.info.id);
    assert_string_equal(fork_box.info.id, id);
    assert_string_not_equal(fork_box.info.id, w->box.info.id);
    assert_string_equal(fork_box.state.mode, "overlay");
    expect_at(fork_box.fd, "home/file", "in the home");
    assert_int_equal(rundir_open(w->runs, "copy", true, &rd, &err), 0);
    assert_int_equal(rd.info.begun_ns, 7);
    assert_true(rd.info.named);
    expect_at(rd.fd, "upper/dir/new", "new");
    assert_int_equal(fstatat(rd.fd, "upper/gone", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(st.st_mode));
    rundir_done(&rd);
    assert_int_equal(rundir_open(w->runs, "box", true, &rd, &err), 0); /* the original's is still there, and free */
}

/* A fork whose name is free but whose run's is not leaves neither. */
static void test_a_fork_that_fails_leaves_nothing(void **state) {
    struct world *w = *state;
    struct run_info run = {.mode = WORKSPACE_OVERLAY, .workspace = w->workspace, .begun_ns = 1, .named = true};
    struct fork_source s = FORK_SOURCE_INIT;
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(box_done) struct box none = BOX_INIT;
    struct err err = {0};

    assert_int_equal(rundir_create(w->runs, "taken", &run, &rd, &err), 0);
    write_at(rd.fd, "mark", "x");
    assert_int_equal(fork_begin(&w->box, &w->opts, NULL, &s, &err), 0);
    assert_int_equal(fork_make(&s, "taken", NULL, &err), -EEXIST);
    fork_end(&s);
    assert_int_equal(registry_open(w->boxes, "taken", false, &none, &err), -ENOENT);
    expect_at(rd.fd, "mark", "x");
}

static void test_worktrees_and_the_unstarted_are_refused(void **state) {
    struct world *w = *state;
    struct checkpoint c = {0};
    struct err err = {0};

    w->box.state.mode[0] = 0;
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "one", &c, &err), -ENOENT);
    snprintf(w->box.state.mode, sizeof w->box.state.mode, "worktree");
    assert_int_equal(checkpoint_make(&w->box, &w->opts, "one", &c, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.msg, "worktree"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_tree_is_copied_faithfully, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checkpoints_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers_of_the_dead_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forks_have_all_and_are_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_fork_that_fails_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worktrees_and_the_unstarted_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
