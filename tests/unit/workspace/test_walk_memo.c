/* SPDX-License-Identifier: Apache-2.0 */
/* A search with a memo finds what one without finds, whatever changed in between, and reads only what changed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/strv.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/hide/ignore_scan.h"
#include "workspace/hide/walk_memo.h"

#define LATER_NS (3600 * 1000000000ull)

struct place {
    char top[64];
    int fd;
    struct buf memo; /* of the last search */
    size_t read;     /* by the last search */
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);

    snprintf(p->top, sizeof p->top, "/tmp/bawn-memo.XXXXXX");
    assert_non_null(mkdtemp(p->top));
    p->fd = open(p->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->memo = (struct buf)BUF_INIT(MEMO_MAX);
    *state = p;
    return p->fd < 0;
}

static int teardown(void **state) {
    struct place *p = *state;

    close(p->fd);
    chmod(p->top, 0700);
    assert_int_equal(remove_tree(AT_FDCWD, p->top), 0);
    buf_done(&p->memo);
    free(p);
    return 0;
}

static int write_down(const struct ignore_found *f, void *arg, struct err *err) {
    return strv_addf(arg, "%s%s%s %s:%u", f->path, f->is_dir ? "/" : "", f->linked ? " linked" : "",
                     f->unreadable ? "unreadable" : f->why.origin, f->why.line) < 0
               ? err_oom(err)
               : 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void search(struct place *p, struct walk_memo *m, struct strv *found) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct err err = {0};

    if (ignore_scan_memo(ig, p->fd, m, write_down, found, &err) < 0)
        fail_msg("%s", err.msg);
    if (found->len)
        qsort(found->v, found->len, sizeof(char *), by_text);
}

/* Searches with the memo of the last call, and without one; both must find the same. */
static void compare(struct place *p) {
    CLEANUP(walk_memo_done) struct walk_memo m = WALK_MEMO_INIT;
    CLEANUP(strv_done) struct strv with = {0}, without = {0};

    m.ahead_ns = LATER_NS;
    buf_add(&m.old_text, p->memo.data, p->memo.len);
    walk_memo_parse(&m);
    search(p, &m, &with);
    search(p, NULL, &without);
    assert_int_equal(with.len, without.len);
    for (size_t i = 0; i < with.len; i++)
        assert_string_equal(with.v[i], without.v[i]);
    walk_memo_seal(&m);
    buf_clear(&p->memo);
    buf_add(&p->memo, m.text.data, m.text.len);
    p->read = m.read;
}

static void folder(struct place *p, const char *path) {
    assert_int_equal(mkdirat(p->fd, path, 0755), 0);
}

static void file(struct place *p, const char *path, const char *text) {
    CLEANUP(closep) int fd = openat(p->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static struct stat look(struct place *p, const char *path) {
    struct stat st;

    assert_int_equal(fstatat(p->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

/* Old kernels' clock stands still for some milliseconds: the slack is for them, but here the clock is said to be later. */
static void tick(struct place *p) {
    struct stat before, now;

    file(p, "tick", "");
    before = look(p, "tick");
    do {
        file(p, "tick", "");
        now = look(p, "tick");
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

static void sample(struct place *p) {
    folder(p, "a");
    folder(p, "a/b");
    folder(p, "a/b/c");
    file(p, "a/.env", "1");
    file(p, "a/x", "1");
    file(p, "a/b/y", "1");
    file(p, "a/b/c/z", "1");
    file(p, "tick", "");
    compare(p);
    tick(p);
    compare(p);
}

static void test_nothing_is_read_twice(void **state) {
    struct place *p = *state;

    sample(p);
    compare(p);
    assert_int_equal(p->read, 0);
}

static void test_only_what_changed_is_read(void **state) {
    struct place *p = *state;

    sample(p);
    file(p, "a/b/.env", "2");
    compare(p);
    assert_int_equal(p->read, 5); /* ".", "..", c, y and the new one */
}

static void test_a_name_is_seen_though_the_mtime_is_the_old_one(void **state) {
    struct place *p = *state;
    struct stat st;

    sample(p);
    st = look(p, "a/b/c");
    assert_int_equal(renameat(p->fd, "a/b/c/z", p->fd, "a/b/c/.env"), 0);
    assert_int_equal(utimensat(p->fd, "a/b/c", (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
    compare(p);
    assert_true(p->read > 0);
}

static void test_rules_change_in_place(void **state) {
    struct place *p = *state;
    struct stat st;

    sample(p);
    file(p, "a/.sandboxignore", "q\n");
    compare(p);
    tick(p);
    compare(p);
    st = look(p, "a/.sandboxignore");
    file(p, "a/.sandboxignore", "y\n");
    assert_int_equal(utimensat(p->fd, "a/.sandboxignore", (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
    compare(p);
    file(p, ".sandboxignore", "x\n");
    compare(p);
    assert_int_equal(unlinkat(p->fd, "a/.sandboxignore", 0), 0);
    compare(p);
}

static void test_links_are_counted_anew(void **state) {
    struct place *p = *state;

    sample(p);
    assert_int_equal(linkat(p->fd, "a/.env", p->fd, "a/b/other", 0), 0);
    compare(p);
    assert_int_equal(unlinkat(p->fd, "a/b/other", 0), 0);
    compare(p);
}

static void test_a_closed_folder(void **state) {
    struct place *p = *state;

    sample(p);
    assert_int_equal(fchmodat(p->fd, "a/b", 0, 0), 0);
    compare(p);
    tick(p);
    compare(p);
    assert_int_equal(fchmodat(p->fd, "a/b", 0755, 0), 0);
    compare(p);
}

static void test_another_folder_in_its_place(void **state) {
    struct place *p = *state;

    sample(p);
    folder(p, "new");
    file(p, "new/.env", "");
    assert_int_equal(renameat(p->fd, "a/b/c", p->fd, "old"), 0);
    assert_int_equal(renameat(p->fd, "new", p->fd, "a/b/c"), 0);
    compare(p);
    assert_int_equal(renameat(p->fd, "a/b/c", p->fd, "new"), 0);
    assert_int_equal(symlinkat("../../new", p->fd, "a/b/c"), 0);
    compare(p);
}

/* Folders that changed a moment ago are not trusted, nor is anything that was damaged. */
static void test_when_in_doubt_all_is_read(void **state) {
    struct place *p = *state;

    sample(p);
    for (size_t i = 0; i < p->memo.len; i++) {
        CLEANUP(walk_memo_done) struct walk_memo m = WALK_MEMO_INIT;

        buf_add(&m.old_text, p->memo.data, p->memo.len);
        m.old_text.data[i] ^= 1;
        walk_memo_parse(&m);
        if (i < 8 || i >= 16) /* the sum itself is not in the sum */
            assert_int_equal(m.n, 0);
    }
    {
        CLEANUP(walk_memo_done) struct walk_memo m = WALK_MEMO_INIT;
        CLEANUP(strv_done) struct strv found = {0};

        buf_add(&m.old_text, p->memo.data, p->memo.len);
        walk_memo_parse(&m);
        search(p, &m, &found); /* now, not later */
        assert_true(m.read > 10);
    }
}

static const char *const places[] = {"a", "b", "a/b", "a/c", "b/d", "a/b/e", "b/d/f", "a/b/e/g"};
static const char *const names[] = {".env", "x", "key.pem", ".sandboxignore", "y.txt"};
static const char *const rules[] = {"x\n", "*.txt\n!key.pem\n", "e/\n", "!.env\n", "d\n*\n", "\n"};

static void change_mode(struct place *p, const char *path, mode_t mode) {
    if (fchmodat(p->fd, path, mode, 0) < 0)
        assert_int_equal(errno, ENOENT);
}

/* Any of it may fail: the thing is not there, or in the way. */
static void change_something(struct place *p, unsigned *seed) {
    const char *where = places[rand_r(seed) % ARRAY_LEN(places)], *name = names[rand_r(seed) % ARRAY_LEN(names)];
    char path[128], other[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", where, name);
    snprintf(other, sizeof other, "%s/%s", places[rand_r(seed) % ARRAY_LEN(places)], names[rand_r(seed) % ARRAY_LEN(names)]);
    switch (rand_r(seed) % 8) {
    case 0:
    case 1:
        mkdirat(p->fd, where, 0755);
        break;
    case 2:
    case 3:
        fd = openat(p->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd >= 0) {
            const char *text = rules[rand_r(seed) % ARRAY_LEN(rules)];

            assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
            close(fd);
        }
        break;
    case 4:
        unlinkat(p->fd, path, 0);
        break;
    case 5:
        renameat(p->fd, path, p->fd, other);
        break;
    case 6:
        renameat2(p->fd, where, p->fd, places[rand_r(seed) % ARRAY_LEN(places)], RENAME_EXCHANGE);
        break;
    case 7:
        if (linkat(p->fd, path, p->fd, other, 0) < 0)
            change_mode(p, where, rand_r(seed) % 2 ? 0755 : 0700);
        break;
    }
}

static void test_random_changes(void **state) {
    struct place *p = *state;
    unsigned seed = 7;

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        mkdirat(p->fd, places[i], 0755);
    for (int round = 0; round < 500; round++) {
        for (int i = rand_r(&seed) % 3; i >= 0; i--)
            change_something(p, &seed);
        if (round % 2)
            tick(p);
        compare(p);
        tick(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_read_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_changed_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_name_is_seen_though_the_mtime_is_the_old_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_change_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_are_counted_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_closed_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_folder_in_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_when_in_doubt_all_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_changes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
