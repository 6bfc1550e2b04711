/* SPDX-License-Identifier: Apache-2.0 */
/* Sync while both sides are written, and sync that is killed: whatever was written is somewhere afterwards. */
#include "sides.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/str.h"
#include "base/strv.h"
#include "os/clock.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/sync.h"

enum { FILES = 16, WRITES = 1000, VERSION_LEN = 24, KILLS = 40, KILL_FILES = 60 };

/* What each side wrote over what. Shared with the writers. */
struct board {
    struct {
        char made[VERSION_LEN + 1], over[VERSION_LEN + 1];
    } v[2][WRITES];
    volatile int n[2];
};

static const char *const folders[] = {"host", "run/tree"};

static int sync_once(struct sides *s, struct sync_result *ret) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};
    struct err err = {0};
    int r = sync_both(&rd, s->host, ig, &(struct sync_hooks){0}, ret, &err);

    if (r < 0)
        print_message("%s\n", err.msg);
    return r;
}

static void make_copy(struct sides *s) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};

    assert_int_equal(sync_copy_in(&rd, s->host, ig, NULL, NULL, NULL), 0);
    clock_pass(clock_coarse());
}

/* All of the same length: only times tell one from another. */
static void version(char *ret, const char *who, int i) {
    char text[64];

    snprintf(text, sizeof text, "%s-%d-........................", who, i);
    memcpy(ret, text, VERSION_LEN);
    ret[VERSION_LEN] = 0;
}

/* In place, through the descriptor that the old version was read from: what is written over was seen. */
static bool replace(int top, const char *path, const char *text, char *ret_over) {
    CLEANUP(closep) int fd = openat(top, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || pread(fd, ret_over, VERSION_LEN, 0) != VERSION_LEN)
        return false;
    usleep((useconds_t)(rand() % 3 * 500));
    return pwrite(fd, text, VERSION_LEN, 0) == VERSION_LEN;
}

/* One that does not exist on this side; the other one may be making it, too. */
static bool create(int top, const char *path, const char *text) {
    CLEANUP(closep) int fd = openat(top, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    return fd >= 0 && fd_write_all(fd, text, VERSION_LEN) == 0;
}

static void write_side(const struct sides *s, struct board *b, int side) {
    char path[64];

    srand((unsigned)side + 1);
    for (int i = 0; i < WRITES; i++) {
        int n = b->n[side];
        bool fresh = i % 4 == 0;

        version(b->v[side][n].made, side ? "copy" : "host", i);
        snprintf(path, sizeof path, "%s/%s%d", folders[side], fresh ? "n" : "f", fresh ? i : rand() % FILES);
        if (fresh ? create(s->top_fd, path, b->v[side][n].made)
                  : replace(s->top_fd, path, b->v[side][n].made, b->v[side][n].over))
            b->n[side] = n + 1;
        else
            memset(&b->v[side][n], 0, sizeof b->v[side][n]);
        usleep((useconds_t)(rand() % 3 * 300));
    }
}

static pid_t start_writer(const struct sides *s, struct board *b, int side) {
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        write_side(s, b, side);
        _exit(0);
    }
    return pid;
}

static int in_order(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct strv *collecting; /* nftw() has no argument */

static int collect_one(const char *path, const struct stat *st, int type UNUSED, struct FTW *ftw UNUSED) {
    char text[4096];

    if (!S_ISREG(st->st_mode) || fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    return strv_add(collecting, text);
}

/* The contents of all files of both sides, sorted. */
static void collect(const struct sides *s, struct strv *ret) {
    collecting = ret;
    assert_int_equal(nftw(s->top, collect_one, 16, FTW_PHYS), 0);
    qsort(ret->v, ret->len, sizeof *ret->v, in_order);
}

static bool has(const struct strv *all, const char *text) {
    return bsearch(&text, all->v, all->len, sizeof *all->v, in_order) != NULL;
}

/* Every version is somewhere, unless a side wrote over it. */
static void check_all_there(const struct sides *s, const struct board *b) {
    CLEANUP(strv_done) struct strv all = {0};
    CLEANUP(strv_done) struct strv over = {0};

    for (int side = 0; side < 2; side++)
        for (int i = 0; i < b->n[side]; i++)
            assert_int_equal(strv_add(&over, b->v[side][i].over), 0);
    qsort(over.v, over.len, sizeof *over.v, in_order);
    collect(s, &all);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < b->n[side]; i++)
            if (!has(&over, b->v[side][i].made) && !has(&all, b->v[side][i].made))
                fail_msg("%s is lost", b->v[side][i].made);
}

static void make_base(const struct sides *s, int n) {
    char path[64], text[VERSION_LEN + 1];

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "host/f%d", i);
        version(text, "base", i);
        sides_write(s, path, text);
    }
}

static void test_writers_on_both_sides_lose_nothing(void **state) {
    struct sides *s = *state;
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t conflicts = 0, carried = 0;
    int running = 2;

    assert_true(b != MAP_FAILED);
    make_base(s, FILES);
    make_copy(s);
    start_writer(s, b, 0);
    start_writer(s, b, 1);
    while (running > 0) {
        CLEANUP(sync_result_done) struct sync_result r = {0};

        assert_int_equal(sync_once(s, &r), 0);
        conflicts += r.conflicts.len;
        carried += r.out + r.in;
        while (running > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            running--;
    }
    check_all_there(s, b);
    for (int i = 0; i < 2; i++) { /* the second carries what the first put beside */
        CLEANUP(sync_result_done) struct sync_result r = {0};

        assert_int_equal(sync_once(s, &r), 0);
    }
    check_all_there(s, b);
    assert_true(b->n[0] > 0 && b->n[1] > 0 && carried > 0 && conflicts > 0);
    munmap(b, sizeof *b);
}

/* Some changed here, some there, some on both, some deleted, some new. */
static void change_all(const struct sides *s, int round) {
    char path[64], text[VERSION_LEN + 1], who[16];

    for (int i = 0; i < KILL_FILES; i++)
        for (int side = 0; side < 2; side++) {
            snprintf(path, sizeof path, "%s/f%d", folders[side], i);
            snprintf(who, sizeof who, "%c%d", side ? 'c' : 'h', round);
            version(text, who, i);
            if (i % 3 == side || i % 3 == 2)
                sides_write(s, path, text);
            snprintf(path, sizeof path, "%s/n%d-%d", folders[side], round, i);
            if (i % 5 == side)
                sides_write(s, path, text);
        }
}

static void check_round(const struct sides *s, int round) {
    CLEANUP(strv_done) struct strv all = {0};
    char text[VERSION_LEN + 1], who[16];

    collect(s, &all);
    for (int i = 0; i < KILL_FILES; i++)
        for (int side = 0; side < 2; side++) {
            snprintf(who, sizeof who, "%c%d", side ? 'c' : 'h', round);
            version(text, who, i);
            if ((i % 3 == side || i % 3 == 2 || i % 5 == side) && !has(&all, text))
                fail_msg("%s is lost", text);
        }
}

static void kill_one(struct sides *s, unsigned delay_us) {
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct sync_result r = {0};

        _exit(sync_once(s, &r) < 0);
    }
    usleep(delay_us);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void check_settled(struct sides *s) {
    CLEANUP(sync_result_done) struct sync_result r = {0};

    assert_int_equal(sync_once(s, &r), 0);
    assert_int_equal(r.out + r.in, 0);
    for (size_t i = 0; i < r.conflicts.len; i++) /* at most what a killed one left */
        assert_non_null(strstr(r.conflicts.v[i], "was left behind"));
}

static void test_killed_at_any_moment_nothing_is_lost(void **state) {
    struct sides *s = *state;

    make_base(s, KILL_FILES);
    make_copy(s);
    for (int round = 0; round < KILLS; round++) {
        change_all(s, round);
        kill_one(s, (unsigned)round * 700);
        check_round(s, round);
        for (int i = 0; i < 2; i++) {
            CLEANUP(sync_result_done) struct sync_result r = {0};

            assert_int_equal(sync_once(s, &r), 0);
        }
        check_round(s, round);
        check_settled(s);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sides_setup, sides_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_writers_on_both_sides_lose_nothing),
        TEST(test_killed_at_any_moment_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
