/* SPDX-License-Identifier: Apache-2.0 */
/* Time by arithmetic on the deadlines; growth on a small tmpfs of its own, where nobody else writes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/watch/limit_watch.h"

#define MIB (1ull << 20)

static void test_nothing_to_watch(void **state) {
    const struct limits none = {0}, disk = {.disk = MIB};
    struct limit_watch w;

    watch_init(&w, &none, AT_FDCWD, true, 0);
    assert_int_equal(watch_timeout(&w), -1);
    assert_int_equal(watch_check(&w), WATCH_NOTHING);
    watch_init(&w, &disk, AT_FDCWD, false, 0); /* a workspace that cannot be written cannot grow */
    assert_int_equal(w.disk, 0);
    assert_int_equal(watch_timeout(&w), -1);
}

static void test_deadline(void **state) {
    const struct limits hour = {.timeout_ms = 3600000};
    uint64_t before = clock_ms(), after;
    struct limit_watch w;
    int t;

    watch_init(&w, &hour, AT_FDCWD, true, 0);
    after = clock_ms();
    assert_true(w.deadline_ms >= before + 3600000 && w.deadline_ms <= after + 3600000);
    t = watch_timeout(&w);
    assert_true(t > 0 && t <= 3600000);
    assert_int_equal(watch_check(&w), WATCH_NOTHING);
    w.deadline_ms = clock_ms();
    assert_int_equal(watch_timeout(&w), 0);
    assert_int_equal(watch_check(&w), WATCH_TIME);
    assert_int_equal(watch_check(&w), WATCH_NOTHING); /* said once */
    assert_int_equal(watch_timeout(&w), -1);
}

static void test_timeout_arithmetic(void **state) {
    uint64_t now = clock_ms();
    const uint64_t far = now + (1ull << 40), soon = now + 1000000;
    const struct {
        struct limit_watch w;
        int low, high;
    } table[] = {
        {{.deadline_ms = far}, INT_MAX, INT_MAX}, /* what poll() can take, not a negative number */
        {{.deadline_ms = UINT64_MAX - 1}, INT_MAX, INT_MAX},
        {{.deadline_ms = soon}, 0, 1000000},
        {{.deadline_ms = 1}, 0, 0},
        {{.next_disk_ms = soon}, -1, -1}, /* disk is not watched */
        {{.disk = 1, .next_disk_ms = soon}, 0, 1000000},
        {{.disk = 1, .next_disk_ms = soon, .paused = true}, -1, -1}, /* nothing runs */
        {{.disk = 1, .next_disk_ms = 1, .paused = true, .deadline_ms = soon}, 0, 1000000},
        {{.disk = 1, .next_disk_ms = 1, .deadline_ms = far}, 0, 0},
        {{.disk = 1, .next_disk_ms = soon, .deadline_ms = far}, 0, 1000000}, /* the sooner of both */
        {{.disk = 1, .next_disk_ms = far, .deadline_ms = soon}, 0, 1000000},
        {{.disk = 1, .next_disk_ms = far, .deadline_ms = 1}, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int t = watch_timeout(&table[i].w);

        if (t < table[i].low || t > table[i].high)
            fail_msg("row %zu: %d", i, t);
    }
}

static void test_time_comes_before_disk(void **state) {
    struct limit_watch w = {.deadline_ms = 1, .disk = 1, .next_disk_ms = 1};

    assert_int_equal(watch_check(&w), WATCH_TIME);
}

struct room {
    char top[40];
    int back; /* the folder we came from */
};

/* A tmpfs in a mount namespace of our own, with "ws", the workspace, as the current directory. */
static int setup(void **state) {
    static struct room room;

    if (geteuid() != 0)
        return 0;
    room.back = open(".", O_PATH | O_CLOEXEC);
    snprintf(room.top, sizeof room.top, "/tmp/bawn-watch-XXXXXX");
    if (!mkdtemp(room.top) || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -1;
    if (mount("tmpfs", room.top, "tmpfs", 0, "size=64m,mode=0700") < 0 || chdir(room.top) < 0 || mkdir("ws", 0700) < 0)
        return -1;
    *state = &room;
    return chdir("ws");
}

static int teardown(void **state) {
    struct room *room = *state;

    if (!room)
        return 0;
    if (fchdir(room->back) < 0)
        return -1;
    close(room->back);
    return umount2(room->top, MNT_DETACH) < 0 ? -1 : rmdir(room->top);
}

static void need_room(void **state) {
    if (!*state) {
        print_message("skip: needs root\n");
        skip();
    }
}

static void write_mib(const char *path, size_t n) {
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    static char block[MIB];

    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fd_write_all(fd, block, sizeof block), 0);
}

static enum watch_event look(struct limit_watch *w) {
    w->next_disk_ms = 0; /* do not wait for the next tick */
    return watch_check(w);
}

/* Of the folder that the test works in; left to the end of the process. */
static int root_fd(void) {
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static struct limit_watch watch_4_mib(void) {
    const struct limits l = {.disk = 4 * MIB};
    struct limit_watch w;

    watch_init(&w, &l, root_fd(), true, 0);
    assert_int_equal(w.disk, 4 * MIB);
    assert_true(w.places[0].free_at_start > 32 * MIB);
    return w;
}

static void test_growth(void **state) {
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    assert_int_equal(look(&w), WATCH_NOTHING);
    assert_true(w.next_disk_ms != 0); /* the next look has its time */
    write_mib("a", 3);
    assert_int_equal(look(&w), WATCH_NOTHING);
    write_mib("b", 2);
    assert_int_equal(look(&w), WATCH_DISK);
    assert_int_equal(look(&w), WATCH_NOTHING); /* said once */
    assert_int_equal(w.disk, 0);
}

static void test_growth_in_many_folders(void **state) {
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    for (int i = 0; i < 6; i++) {
        char path[32];

        snprintf(path, sizeof path, "d%d", i);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "d%d/f", i);
        write_mib(path, 1);
    }
    assert_int_equal(look(&w), WATCH_DISK);
}

/* Somebody else fills the disk: not this sandbox's fault. */
static void test_growth_elsewhere(void **state) {
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    write_mib("../other", 20);
    write_mib("mine", 1);
    assert_int_equal(look(&w), WATCH_NOTHING);
    assert_int_equal(w.disk, 4 * MIB); /* still watching */
    write_mib("mine", 5);
    assert_int_equal(look(&w), WATCH_DISK);
}

/* Large files that were there before, and that nobody touched. */
static void test_old_files_do_not_count(void **state) {
    struct limit_watch w;

    need_room(state);
    write_mib("old", 20);
    w = watch_4_mib();
    w.started_s = (uint64_t)time(NULL) + 3600;
    write_mib("../other", 20);
    assert_int_equal(look(&w), WATCH_NOTHING);
}

static int folder(const char *name) {
    int fd;

    assert_int_equal(mkdir(name, 0700), 0);
    fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* The home of a kept sandbox counts as a whole, also where the workspace cannot be written. */
static void test_a_home_counts_as_a_whole(void **state) {
    const struct limits l = {.disk = 4 * MIB};
    struct limit_watch w;
    int home;

    need_room(state);
    home = folder("../home");
    write_mib("../home/old", 3);
    clock_pass(clock_mark());
    watch_init(&w, &l, root_fd(), false, 0);
    assert_int_equal(watch_timeout(&w), -1);
    watch_also(&w, -1, false);
    watch_also(&w, home, true);
    w.started_s += 3600; /* for what counts only since the start */
    assert_int_equal(look(&w), WATCH_NOTHING);
    write_mib("../home/new", 2);
    assert_int_equal(look(&w), WATCH_DISK);
    close(home);
}

/* A home that is over the limit can be emptied, not filled, also with what came before the first look. */
static void test_a_home_over_the_limit(void **state) {
    const struct limits l = {.disk = 4 * MIB};
    struct limit_watch w, again;
    int home;

    need_room(state);
    home = folder("../home");
    write_mib("../home/old", 6);
    clock_pass(clock_mark());
    watch_init(&w, &l, root_fd(), true, 0);
    watch_also(&w, home, true);
    clock_pass(w.started_ns);
    again = w;
    assert_int_equal(look(&w), WATCH_NOTHING);
    write_mib("../home/new", 2);
    assert_int_equal(look(&w), WATCH_DISK);
    assert_int_equal(look(&again), WATCH_DISK);
    assert_int_equal(unlink("../home/old"), 0);
    watch_init(&w, &l, root_fd(), true, 0);
    watch_also(&w, home, true);
    assert_int_equal(look(&w), WATCH_NOTHING);
    assert_int_equal(w.disk, 4 * MIB);
    close(home);
}

static void test_links_are_not_followed(void **state) {
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    assert_int_equal(mkdir("../outside", 0700), 0);
    write_mib("../outside/big", 20);
    assert_int_equal(symlink(".", "loop"), 0);
    assert_int_equal(symlink("..", "up"), 0);
    assert_int_equal(symlink("../outside", "folder"), 0);
    assert_int_equal(symlink("../outside/big", "file"), 0);
    assert_int_equal(symlink("/", "root"), 0);
    assert_int_equal(look(&w), WATCH_NOTHING);
}

/* The walk ends, neither out of stack nor out of descriptors. What lies deeper cannot be seen, so all that the file system lost counts. */
static void test_deep_trees(void **state) {
    enum { LEVELS = 600 };
    struct limit_watch w;
    int fds[LEVELS + 1];

    need_room(state);
    w = watch_4_mib();
    fds[0] = open(".", O_PATH | O_CLOEXEC);
    for (int i = 0; i < LEVELS; i++) {
        assert_int_equal(mkdirat(fds[i], "d", 0700), 0);
        fds[i + 1] = openat(fds[i], "d", O_PATH | O_CLOEXEC);
        assert_true(fds[i + 1] >= 0);
    }
    for (int i = 0; i <= LEVELS; i++)
        close(fds[i]);
    assert_int_equal(look(&w), WATCH_NOTHING);
    write_mib("../other", 5);
    assert_int_equal(look(&w), WATCH_DISK);
}

static void test_holes_do_not_count(void **state) {
    CLEANUP(closep) int fd = -1;
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    fd = open("sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 1 << 30), 0);
    write_mib("../other", 20);
    assert_int_equal(look(&w), WATCH_NOTHING);
}

static void test_the_workspace_is_removed(void **state) {
    struct limit_watch w;

    need_room(state);
    w = watch_4_mib();
    assert_int_equal(rmdir("../ws"), 0);
    assert_int_equal(look(&w), WATCH_NOTHING);
}

#define ROOM_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_watch),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_timeout_arithmetic),
        cmocka_unit_test(test_time_comes_before_disk),
        ROOM_TEST(test_growth),
        ROOM_TEST(test_growth_in_many_folders),
        ROOM_TEST(test_growth_elsewhere),
        ROOM_TEST(test_old_files_do_not_count),
        ROOM_TEST(test_a_home_counts_as_a_whole),
        ROOM_TEST(test_a_home_over_the_limit),
        ROOM_TEST(test_links_are_not_followed),
        ROOM_TEST(test_deep_trees),
        ROOM_TEST(test_holes_do_not_count),
        ROOM_TEST(test_the_workspace_is_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
