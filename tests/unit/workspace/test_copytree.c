/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are hard to make: deep, owned by others, written meanwhile, no space. */
#include "sides.h"

#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/str.h"
#include "os/clock.h"
#include "workspace/copy/place.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/sync.h"

static int copy_in(struct sides *s, struct strv *notes, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};
    int r = sync_copy_in(&rd, s->host, ig, NULL, notes, err);

    clock_pass(clock_coarse());
    return r;
}

static int both(struct sides *s, struct sync_result *ret, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct rundir rd = {.name = (char *)"demo", .fd = s->run, .lock = -1};

    return sync_both(&rd, s->host, ig, &(struct sync_hooks){0}, ret, err);
}

static void put(int root, const char *path, const char *text) {
    char name[] = "/tmp/bawn-content.XXXXXX";
    CLEANUP(closep) int fd = mkostemp(name, O_CLOEXEC);

    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(place_file(root, path, fd, &(struct place_meta){.mode = 0644}, NULL, NULL), 0);
}

static void test_paths_longer_than_the_kernel_takes(void **state) {
    struct sides *s = *state;
    CLEANUP(sync_result_done) struct sync_result r = {0};
    CLEANUP(buf_done) struct buf path = BUF_INIT(64 * 1024);
    CLEANUP(closep) int tree = -1;
    struct stat st;

    for (int i = 0; i < 30; i++)
        buf_addf(&path, "%0200d/", i);
    buf_adds(&path, "f");
    assert_true(path.len > PATH_MAX);
    put(s->host, buf_str(&path), "deep");
    assert_int_equal(copy_in(s, NULL, NULL), 0);
    tree = openat(s->run, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(place_stat(tree, buf_str(&path), &st), 0);
    put(tree, buf_str(&path), "changed");
    assert_int_equal(both(s, &r, NULL), 0);
    assert_int_equal(r.out, 1);
    assert_int_equal(place_stat(s->host, buf_str(&path), &st), 0);
    assert_int_equal(st.st_size, strlen("changed"));
}

static void make_deep(const struct sides *s, int depth) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(64 * 1024);

    for (int i = 0; i < depth; i++)
        buf_adds(&path, i ? "/d" : "d");
    assert_int_equal(place_dir(s->host, buf_str(&path), 0755, NULL), 0);
}

static void test_depth_has_an_end(void **state) {
    struct sides *s = *state;
    struct err err = {0};

    make_deep(s, WALK_DEPTH_MAX);
    assert_int_equal(copy_in(s, NULL, &err), 0);
    make_deep(s, WALK_DEPTH_MAX + 1);
    assert_int_equal(copy_in(s, NULL, &err), -ELOOP);
    assert_string_equal(err.msg, "the tree is deeper than 256 folders");
}

/* As root everything belongs to whom it belongs to; anybody else owns all. */
static void test_owners(void **state) {
    struct sides *s = *state;
    CLEANUP(sync_result_done) struct sync_result r = {0};
    bool root = geteuid() == 0;
    uid_t uid = root ? 12345 : geteuid();
    gid_t gid = root ? 12346 : getegid();

    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/f", "f");
    assert_int_equal(symlinkat("f", s->host, "d/l"), 0);
    assert_int_equal(fchownat(s->host, "d", uid, gid, 0), 0);
    assert_int_equal(fchownat(s->host, "d/f", uid, gid, 0), 0);
    assert_int_equal(fchownat(s->host, "d/l", uid, gid, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(fchown(s->host, uid, gid), 0);
    assert_int_equal(copy_in(s, NULL, NULL), 0);
    assert_int_equal(sides_stat(s, "run/tree").st_uid, uid);
    assert_int_equal(sides_stat(s, "run/tree/d").st_gid, gid);
    assert_int_equal(sides_stat(s, "run/tree/d/f").st_uid, uid);
    assert_int_equal(sides_stat(s, "run/tree/d/l").st_uid, uid);
    sides_write(s, "run/tree/d/f", "changed");
    sides_mkdir(s, "run/tree/new");
    sides_write(s, "run/tree/new/n", "n");
    assert_int_equal(both(s, &r, NULL), 0);
    assert_int_equal(sides_stat(s, "host/d/f").st_uid, uid);
    assert_int_equal(sides_stat(s, "host/d/f").st_gid, gid);
    assert_int_equal(sides_stat(s, "host/new").st_uid, uid);
    assert_int_equal(sides_stat(s, "host/new/n").st_uid, uid);
}

static pid_t write_on(const struct sides *s) {
    char text[65536];
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    for (unsigned i = 0;; i++) {
        CLEANUP(closep) int fd = openat(s->host, "log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        memset(text, 'a' + (int)(i % 26), sizeof text);
        for (int k = 0; k < 16; k++)
            if (fd_write_all(fd, text, sizeof text) < 0)
                _exit(1);
    }
}

static void expect_same(const struct sides *s, const char *a, const char *b) {
    CLEANUP(closep) int x = openat(s->top_fd, a, O_RDONLY | O_CLOEXEC);
    CLEANUP(closep) int y = openat(s->top_fd, b, O_RDONLY | O_CLOEXEC);
    char p[8192], q[8192];
    ssize_t n, m;

    do {
        n = read(x, p, sizeof p);
        m = read(y, q, sizeof q);
        assert_true(n >= 0);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, (size_t)n);
    } while (n > 0);
}

static void test_file_that_is_written_all_the_time(void **state) {
    struct sides *s = *state;
    CLEANUP(strv_done) struct strv notes = {0};
    CLEANUP(sync_result_done) struct sync_result r = {0};
    pid_t pid;
    int copied;

    sides_write(s, "host/log", "x");
    pid = write_on(s);
    usleep(20000);
    copied = copy_in(s, &notes, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(copied, 0);
    if (notes.len > 0) /* the writer may have slept for a while */
        assert_string_equal(notes.v[0], "log: was being written while it was copied; the copy may be half of it");
    assert_int_equal(both(s, &r, NULL), 0);
    assert_int_equal(r.conflicts.len, 0);
    expect_same(s, "host/log", "run/tree/log");
}

static void limit_files(rlim_t max) {
    struct rlimit l;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static int count_one(UNUSED const struct walk_entry *e, void *arg, UNUSED struct err *err) {
    ++*(int *)arg;
    return WALK_ON;
}

static int count_entries(int root) {
    int n = 0;
    const struct walk_ops ops = {.found = count_one, .arg = &n};

    assert_int_equal(walk_tree(root, NULL, &ops, NULL), 0);
    return n;
}

/* A limit on the size of files fails as a full disk does. */
static void test_no_space_loses_nothing(void **state) {
    struct sides *s = *state;
    CLEANUP(sync_result_done) struct sync_result r = {0};
    struct err err = {0};
    char big[20001];

    memset(big, 'b', 20000);
    big[20000] = 0;
    signal(SIGXFSZ, SIG_IGN);
    sides_write(s, "host/big\x1b", big);
    limit_files(10000);
    assert_int_equal(copy_in(s, NULL, &err), -EFBIG);
    assert_string_equal(err.msg, "cannot copy 'big\\x1b': File too large");
    assert_false(sides_has(s, "run/manifest"));
    limit_files(RLIM_INFINITY);
    assert_int_equal(copy_in(s, NULL, NULL), 0);
    big[0] = 'B';
    sides_write(s, "run/tree/big\x1b", big);
    limit_files(10000);
    assert_int_equal(both(s, &r, &err), -EFBIG);
    limit_files(RLIM_INFINITY);
    assert_int_equal(count_entries(s->host), 1);
    assert_int_equal(both(s, &r, NULL), 0);
    assert_int_equal(r.out, 1);
    assert_int_equal(r.conflicts.len, 0);
    expect_same(s, "host/big\x1b", "run/tree/big\x1b");
}

static void test_second_copy_brings_the_hosts_changes(void **state) {
    struct sides *s = *state;
    CLEANUP(strv_done) struct strv notes = {0};
    CLEANUP(sync_result_done) struct sync_result r = {0};

    sides_write(s, "host/a", "a");
    sides_write(s, "host/b", "b");
    sides_write(s, "host/gone", "g");
    assert_int_equal(copy_in(s, NULL, NULL), 0);
    sides_write(s, "run/tree/a", "inside");
    sides_write(s, "run/tree/b", "inside");
    sides_write(s, "host/b", "host");
    sides_write(s, "host/new", "new");
    assert_int_equal(unlinkat(s->host, "gone", 0), 0);
    assert_int_equal(copy_in(s, &notes, NULL), 0);
    sides_expect(s, "host/a", "a");
    sides_expect(s, "run/tree/a", "inside");
    sides_expect(s, "run/tree/b", "inside");
    sides_expect(s, "run/tree/new", "new");
    assert_false(sides_has(s, "run/tree/gone"));
    assert_int_equal(notes.len, 0);
    assert_int_equal(both(s, &r, NULL), 0);
    sides_expect(s, "host/a", "inside");
    sides_expect(s, "host/b", "host");
    sides_expect(s, "host/b.bawn-demo", "inside");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sides_setup, sides_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_paths_longer_than_the_kernel_takes),
        TEST(test_depth_has_an_end),
        TEST(test_owners),
        TEST(test_file_that_is_written_all_the_time),
        TEST(test_no_space_loses_nothing),
        TEST(test_second_copy_brings_the_hosts_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
