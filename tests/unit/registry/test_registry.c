/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "registry/registry_priv.h"

struct scene {
    char top[40], boxes[64];
};

static int setup(void **state) {
    static struct scene s;

    s = (struct scene){.top = "/tmp/bawn-test.XXXXXX"};
    if (!mkdtemp(s.top))
        return -1;
    snprintf(s.boxes, sizeof s.boxes, "%s/bawn/sandboxes", s.top);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    const struct scene *s = *state;

    return remove_tree(AT_FDCWD, s->top);
}

static const struct box_info plain = {.workspace = "/home/u/project"};

/* A box that nobody has open. */
static void make_box(const struct scene *s, const char *name) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err err = {0};

    assert_int_equal(registry_create(s->boxes, name, &plain, &b, &err), 0);
}

static void write_state(const struct scene *s, const char *name, const char *text) {
    CLEANUP(freep) char *path = str_dupf("%s/%s/" BOX_STATE_FILE, s->boxes, name);
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static size_t count_hidden(const char *path) {
    DIR *d = opendir(path);
    struct dirent *e;
    size_t n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        n += str_starts(e->d_name, ".new-") || str_starts(e->d_name, ".gone-");
    closedir(d);
    return n;
}

/* -- names -------------------------------------------------------------------------------------------------------------- */

static void test_names(void **state UNUSED) {
    static const char *const good[] = {"a", "A-1_b.c", "a.lock.b", "lock", "0", "1234567890123456789012345678901234567890"};
    static const char *const bad[] = {"",     ".",  "..",    "a/b",  "../x",        "-x",
                                      "_x",   ".x", "a b",   "a\nb", "caf\xc3\xa9", "12345678901234567890123456789012345678901",
                                      "a..b", "a.", "a.lock"};
    char longest[301];
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(box_check_name(good[i], &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(box_check_name(bad[i], &err), -EINVAL);
        assert_int_equal(err.status, EXIT_USAGE_ERR);
        assert_null(strchr(err.msg, '\n'));
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[300] = 0;
    assert_int_equal(box_check_name(longest, &err), -EINVAL);
    assert_true(strlen(err.msg) < 250);
}

static void test_name_of_a_project(void **state UNUSED) {
    static const char *const paths[] = {"/home/u/project",
                                        "/home/v/project",
                                        "/",
                                        "/x/a..b...c",
                                        "/x/---",
                                        "/x/caf\xc3\xa9 \n",
                                        "/x/a-name-that-is-much-longer-than-any-sandbox-may-have-as-its-own"};
    char names[ARRAY_LEN(paths)][BOX_NAME_MAX + 1], again[BOX_NAME_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        box_name_for(paths[i], names[i]);
        assert_int_equal(box_check_name(names[i], NULL), 0);
        box_name_for(paths[i], again);
        assert_string_equal(names[i], again);
    }
    assert_true(str_starts(names[0], "project-"));
    assert_string_not_equal(names[0], names[1]);
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

static void test_info_is_read_as_written(void **state) {
    char *options[] = {"--mount", "/a\xff b%41", "", "--env=X=\"1\"\n", NULL};
    const struct scene *s = *state;
    const struct box_info info = {.workspace = "/home/u/caf\xc3\xa9 \xe9%",
                                  .options = {options, 4, 5},
                                  .created_ns = 1789000000123456789u,
                                  .from = "bawn-old-20260101T000000Z",
                                  .project = true};
    CLEANUP(box_done) struct box a = BOX_INIT, b = BOX_INIT;
    struct err err = {0};

    assert_int_equal(registry_create(s->boxes, "one", &info, &a, &err), 0);
    assert_true(str_starts(a.info.id, "bawn-one-20"));
    assert_int_equal(registry_open(s->boxes, a.info.id, false, &b, &err), 0);
    assert_string_equal(b.name, "one");
    assert_string_equal(b.info.id, a.info.id);
    assert_string_equal(b.info.workspace, info.workspace);
    assert_string_equal(b.info.from, info.from);
    assert_true(b.info.project && b.info.created_ns == info.created_ns && b.info.options.len == 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(b.info.options.v[i], options[i]);
    assert_int_equal(faccessat(b.fd, "home", W_OK, 0), 0);
    assert_int_equal(faccessat(b.fd, "log", W_OK, 0), 0);
}

static void test_state_is_read_as_written(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box a = BOX_INIT, b = BOX_INIT;
    struct err err = {0};
    bool crashed;

    assert_int_equal(registry_create(s->boxes, "one", &plain, &a, &err), 0);
    a.state = (struct box_state){.phase = BOX_RUNNING,
                                 .pid = 4711,
                                 .start_time = 99,
                                 .init = 4712,
                                 .since_ns = 1,
                                 .used_ns = 2,
                                 .status = 7,
                                 .why = "no \"way\"",
                                 .engine = "native",
                                 .rung = "full",
                                 .mode = "overlay",
                                 .profile = "dev",
                                 .memory = 1ull << 40,
                                 .pids = 512,
                                 .cpus_milli = 1500};
    box_boot_id(a.state.boot);
    assert_int_equal(strv_add(&a.state.cgroups, "/sys/fs/cgroup/x"), 0);
    assert_int_equal(box_save_state(&a, &err), 0);
    assert_int_equal(registry_open(s->boxes, "one", false, &b, &err), 0);
    assert_true(b.alive);
    assert_int_equal(box_look(&b, &crashed), BOX_RUNNING);
    assert_false(crashed);
    assert_int_equal(b.state.pid, 4711);
    assert_int_equal(b.state.init, 4712);
    assert_string_equal(b.state.why, "no \"way\"");
    assert_string_equal(b.state.boot, a.state.boot);
    assert_string_equal(b.state.profile, "dev");
    assert_true(b.state.memory == 1ull << 40 && b.state.pids == 512 && b.state.cpus_milli == 1500 && b.state.start_time == 99);
    assert_string_equal(b.state.cgroups.v[0], "/sys/fs/cgroup/x");
}

static void test_silly_states_are_stopped(void **state) {
    static const char *const silly[] = {"",        "{", "[]", "null", "{\"version\":1}", "{\"version\":2,\"phase\":\"running\"}",
                                        "\xff\xfe"};
    const struct scene *s = *state;
    struct err err = {0};
    bool crashed;

    make_box(s, "one");
    for (size_t i = 0; i < ARRAY_LEN(silly); i++) {
        CLEANUP(box_list_done) struct box_list l = {0};

        write_state(s, "one", silly[i]);
        assert_int_equal(registry_list(s->boxes, &l, &err), 0);
        assert_int_equal(l.n, 1);
        assert_int_equal(box_look(&l.v[0], &crashed), BOX_STOPPED);
        assert_false(crashed);
    }
}

/* -- life --------------------------------------------------------------------------------------------------------------- */

static void save_running(struct box *b, const char *boot) {
    struct err err = {0};

    b->state = (struct box_state){.phase = BOX_RUNNING, .pid = getpid(), .start_time = process_start_time(getpid())};
    snprintf(b->state.boot, sizeof b->state.boot, "%s", boot);
    assert_int_equal(box_save_state(b, &err), 0);
}

static void test_lock_is_life(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box keeper = BOX_INIT, other = BOX_INIT;
    struct err err = {0};
    char boot[BOX_BOOT_SIZE];
    bool crashed;

    box_boot_id(boot);
    assert_int_equal(strlen(boot), 36);
    assert_int_equal(registry_create(s->boxes, "one", &plain, &keeper, &err), 0);
    assert_int_equal(registry_open(s->boxes, "one", false, &other, &err), 0);
    assert_int_equal(box_look(&other, &crashed), BOX_STARTING);
    save_running(&keeper, boot);
    assert_int_equal(registry_open(s->boxes, "one", true, &other, &err), -EBUSY);
    assert_non_null(strstr(err.msg, "already running"));

    box_done(&keeper); /* as a kill -9 would */
    box_done(&other);
    assert_int_equal(registry_open(s->boxes, "one", false, &other, &err), 0);
    assert_false(other.alive);
    assert_int_equal(box_look(&other, &crashed), BOX_STOPPED);
    assert_true(crashed);
}

static void test_another_boot_is_dead(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box keeper = BOX_INIT, other = BOX_INIT;
    struct err err = {0};
    bool crashed;

    assert_int_equal(registry_create(s->boxes, "one", &plain, &keeper, &err), 0);
    save_running(&keeper, "00000000-0000-0000-0000-000000000000");
    assert_int_equal(registry_open(s->boxes, "one", false, &other, &err), 0);
    assert_int_equal(box_look(&other, &crashed), BOX_STOPPED);
    assert_true(crashed);
}

/* The lock goes with the description: a child that has it is as good a keeper. */
static void test_lock_survives_fork(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box b = BOX_INIT, other = BOX_INIT;
    struct err err = {0};
    pid_t child;

    assert_int_equal(registry_create(s->boxes, "one", &plain, &b, &err), 0);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    box_done(&b);
    assert_int_equal(registry_open(s->boxes, "one", true, &other, &err), -EBUSY);
    assert_true(WIFSIGNALED(process_end(child)));
    assert_int_equal(registry_open(s->boxes, "one", true, &other, &err), 0);
}

/* -- verbs -------------------------------------------------------------------------------------------------------------- */

static void test_taken_names(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err err = {0};

    make_box(s, "one");
    make_box(s, "two");
    assert_int_equal(registry_create(s->boxes, "one", &plain, &b, &err), -EEXIST);
    assert_int_equal(registry_open(s->boxes, "one", true, &b, &err), 0);
    assert_int_equal(registry_rename(s->boxes, &b, "two", &err), -EEXIST);
    assert_string_equal(b.name, "one");
    assert_int_equal(registry_rename(s->boxes, &b, "../three", &err), -EINVAL);
    assert_int_equal(registry_rename(s->boxes, &b, "three", &err), 0);
    assert_true(str_ends(b.path, "/three"));
    box_done(&b);
    assert_int_equal(registry_open(s->boxes, "one", false, &b, &err), -ENOENT);
    assert_int_equal(registry_open(s->boxes, "three", false, &b, &err), 0);
    assert_int_equal(count_hidden(s->boxes), 0);
}

static void test_unknown_names(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err err = {0};

    assert_int_equal(registry_open(s->boxes, "one", false, &b, &err), -ENOENT);
    assert_string_equal(err.msg, "no sandbox 'one'; see 'bawn ps -a'");
    make_box(s, "project");
    assert_int_equal(registry_open(s->boxes, "projetc", false, &b, &err), -ENOENT);
    assert_string_equal(err.msg, "no sandbox 'projetc'; did you mean 'project'?");
    assert_int_equal(registry_open(s->boxes, "bawn-project-20260101T000000Z", false, &b, &err), -ENOENT);
    assert_int_equal(registry_open(s->boxes, "../project", false, &b, &err), -EINVAL);
    assert_int_equal(registry_open(s->boxes, "bawn-/x", false, &b, &err), -EINVAL);
}

static void test_ids_are_never_used_again(void **state) {
    const struct scene *s = *state;
    CLEANUP(strv_done) struct strv ids = {0};
    struct err err = {0};

    for (int i = 0; i < 20; i++) {
        CLEANUP(box_done) struct box b = BOX_INIT;

        assert_int_equal(registry_create(s->boxes, "one", &plain, &b, &err), 0);
        assert_false(strv_has(&ids, b.info.id));
        assert_true(strlen(b.info.id) <= BOX_ID_MAX);
        assert_int_equal(strv_add(&ids, b.info.id), 0);
        assert_int_equal(registry_remove(s->boxes, &b, &err), 0);
    }
}

static void test_remove_takes_all(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err err = {0};

    assert_int_equal(registry_create(s->boxes, "one", &plain, &b, &err), 0);
    assert_int_equal(mkdirat(b.fd, "home/closed", 0), 0);
    assert_int_equal(symlinkat("/etc", b.fd, "home/link"), 0);
    assert_int_equal(registry_remove(s->boxes, &b, &err), 0);
    assert_int_equal(b.fd, -1);
    assert_int_equal(count_hidden(s->boxes), 0);
    assert_int_equal(registry_open(s->boxes, "one", false, &b, &err), -ENOENT);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* A verb that opened it before, and locks it after it was removed or renamed, has nothing. */
static void test_lock_of_what_is_gone(void **state) {
    const struct scene *s = *state;
    CLEANUP(box_done) struct box b = BOX_INIT, late = BOX_INIT;
    CLEANUP(closep) int dir = -1;
    struct err err = {0};

    make_box(s, "one");
    dir = registry_open_boxes(s->boxes, false, &err);
    assert_true(dir >= 0);
    assert_int_equal(registry_open(s->boxes, "one", true, &b, &err), 0);
    assert_int_equal(registry_remove(s->boxes, &b, &err), 0);
    assert_int_equal(registry_load(dir, s->boxes, "one", "", true, &late, &err), -ENOENT);
}

static void test_folder_of_others_is_refused(void **state) {
    const struct scene *s = *state;
    CLEANUP(freep) char *moved = str_dupf("%s.moved", s->boxes), *one = str_dupf("%s/one", moved);
    struct box_list l;
    struct box b;
    struct err err = {0};

    make_box(s, "one");
    assert_int_equal(chmod(s->boxes, 0770), 0);
    assert_int_equal(registry_list(s->boxes, &l, &err), -EPERM);
    assert_int_equal(chmod(s->boxes, 0700), 0);
    assert_int_equal(rename(s->boxes, moved), 0);
    assert_int_equal(symlink(moved, s->boxes), 0);
    assert_true(registry_list(s->boxes, &l, &err) < 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(moved, 65534, 65534), 0);
        assert_int_equal(registry_list(moved, &l, &err), -EPERM);
        assert_int_equal(chown(moved, 0, 0), 0);
        assert_int_equal(chown(one, 65534, 65534), 0);
        assert_int_equal(registry_open(moved, "one", false, &b, &err), -EPERM);
        assert_non_null(strstr(err.msg, "belongs to user 65534"));
    }
}

/* -- crashes and crowds ------------------------------------------------------------------------------------------------- */

static void test_leftovers_are_swept(void **state) {
    const struct scene *s = *state;
    CLEANUP(closep) int dir = -1, busy = -1;
    struct err err = {0};

    make_box(s, "one");
    dir = registry_open_boxes(s->boxes, false, &err);
    assert_int_equal(mkdirat(dir, ".new-0000000000000001", 0700), 0);
    assert_int_equal(mkdirat(dir, ".gone-0000000000000002", 0700), 0);
    assert_int_equal(mkdirat(dir, ".new-0000000000000003", 0700), 0);
    busy = openat(dir, ".new-0000000000000003", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(busy, LOCK_EX), 0); /* its maker is at work */
    assert_int_equal(registry_sweep(s->boxes), 2);
    assert_int_equal(count_hidden(s->boxes), 1);
    assert_int_equal(faccessat(dir, ".new-0000000000000003", F_OK, 0), 0);
    assert_int_equal(faccessat(dir, "one", F_OK, 0), 0);
    closep(&busy);
    make_box(s, "two");
    assert_int_equal(count_hidden(s->boxes), 0);
}

enum { CROWD = 200, ROUNDS = 5, NAMES = 20 };

/* One of many: makes, looks, locks, renames and removes under names that others use, too. */
static int crowd_member(const struct scene *s, int me) {
    for (int i = 0; i < ROUNDS; i++) {
        CLEANUP(box_list_done) struct box_list l = {0};
        CLEANUP(box_done) struct box b = BOX_INIT;
        char name[16];
        int r;

        snprintf(name, sizeof name, "n%d", (me * 7 + i * 3) % NAMES);
        r = registry_create(s->boxes, name, &plain, &b, NULL);
        if (r == 0 && box_save_state(&b, NULL) < 0)
            return 1;
        if (r == -EEXIST)
            r = registry_open(s->boxes, name, true, &b, NULL);
        if (r < 0 && r != -EBUSY && r != -ENOENT)
            return 2;
        if (registry_list(s->boxes, &l, NULL) < 0)
            return 3;
        for (size_t k = 0; k < l.n; k++)
            if (!l.v[k].info.id || !str_eq(l.v[k].info.workspace, plain.workspace))
                return 4;
        if (r == 0 && (me + i) % 2 && registry_remove(s->boxes, &b, NULL) < 0)
            return 5;
    }
    return 0;
}

static void test_crowd_with_kills(void **state) {
    const struct scene *s = *state;
    pid_t pids[CROWD];
    struct err err = {0};
    CLEANUP(box_list_done) struct box_list l = {0};
    CLEANUP(strv_done) struct strv ids = {0};

    for (int i = 0; i < CROWD; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(crowd_member(s, i));
        if (i % 10 == 9)
            kill(pids[i / 2], SIGKILL); /* somewhere in the middle of something, or over already */
    }
    for (int i = 0; i < CROWD; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    }
    registry_sweep(s->boxes);
    assert_int_equal(count_hidden(s->boxes), 0);
    assert_int_equal(registry_list(s->boxes, &l, &err), 0);
    for (size_t i = 0; i < l.n; i++) {
        CLEANUP(box_done) struct box b = BOX_INIT;

        assert_false(l.v[i].alive);
        assert_false(strv_has(&ids, l.v[i].info.id));
        assert_int_equal(strv_add(&ids, l.v[i].info.id), 0);
        assert_int_equal(registry_open(s->boxes, l.v[i].name, true, &b, &err), 0);
        assert_int_equal(registry_remove(s->boxes, &b, &err), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_name_of_a_project),
        cmocka_unit_test_setup_teardown(test_info_is_read_as_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_is_read_as_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silly_states_are_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_is_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_boot_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_survives_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_taken_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_are_never_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove_takes_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_of_what_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_of_others_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crowd_with_kills, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
