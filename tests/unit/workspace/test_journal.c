/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/run/journal_priv.h"

static const struct journal_opts roomy = {.budget = 1 << 20, .file_max = 1 << 20};

/* A run's folder and a workspace, on disk: memory file systems have no user.* attributes on older kernels. */
struct scene {
    char path[40];
    int run, ws;
};

static int make_folder(int parent, const char *name) {
    return mkdirat(parent, name, 0700) < 0 ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int setup(void **state) {
    static struct scene s;
    CLEANUP(closep) int top = -1;

    s = (struct scene){"/var/tmp/bawn-test.XXXXXX", -1, -1};
    top = mkdtemp(s.path) ? open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    s.run = make_folder(top, "run");
    s.ws = make_folder(top, "ws");
    *state = &s;
    return s.run < 0 || s.ws < 0 ? -1 : 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    closep(&s->run);
    closep(&s->ws);
    return remove_tree(AT_FDCWD, s->path);
}

static struct journal *reopen(const struct scene *s, struct journal *old, bool write, const struct journal_opts *opts) {
    struct journal *j = NULL;
    struct err err = {0};

    journal_close(old);
    assert_int_equal(journal_open(s->run, write, opts, &j, &err), 0);
    return j;
}

static void write_file(int dir, const char *name, const char *text) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

/* Not every file system has them. */
static bool set_attribute(int dir, const char *name, const char *attribute) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

    return fsetxattr(fd, attribute, "v\0w", 3, 0) == 0;
}

static int add_looked(struct journal *j, const struct scene *s, const char *path, bool keep_inode, struct err *err) {
    CLEANUP(closep) int content = -1;
    struct journal_entry e;
    int r = journal_look(j, s->ws, path, &e, &content, err);

    return r < 0 ? r : journal_add(j, &e, content, keep_inode, s->ws, err);
}

static void assert_blob(const struct journal *j, const char *path, const char *want) {
    CLEANUP(closep) int fd = journal_blob(j, journal_find(j, path));
    char text[64] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), strlen(want));
    assert_string_equal(text, want);
}

static long pack_size(const struct scene *s) {
    struct stat st;

    return fstatat(s->run, "base/pack", &st, AT_SYMLINK_NOFOLLOW) == 0 ? (long)st.st_size : -1;
}

/* Those that have a file of their own. */
static size_t count_blobs(const struct scene *s) {
    int fd = openat(s->run, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;
    const struct dirent *e;

    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.' && !str_eq(e->d_name, "pack");
    if (d)
        closedir(d);
    return n;
}

static void test_every_kind_comes_back(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    const struct journal_entry *e;
    struct err err = {0};
    bool attrs;

    write_file(s->ws, "file", "old text");
    attrs = set_attribute(s->ws, "file", "user.tag");
    assert_int_equal(mkdirat(s->ws, "dir", 0751), 0);
    assert_int_equal(fchmodat(s->ws, "dir", 01751, 0), 0);
    assert_int_equal(symlinkat("../else\xffwhere", s->ws, "dir/link"), 0);
    assert_int_equal(mkfifoat(s->ws, "dir/fifo\n", 0600), 0);
    for (size_t i = 0; i < 2; i++) { /* the second time each has a record */
        assert_int_equal(add_looked(j, s, "file", false, &err), i == 0);
        assert_int_equal(add_looked(j, s, "dir", false, &err), i == 0);
        assert_int_equal(add_looked(j, s, "dir/link", false, &err), i == 0);
        assert_int_equal(add_looked(j, s, "dir/fifo\n", false, &err), i == 0);
        assert_int_equal(add_looked(j, s, "dir/none", false, &err), i == 0);
        write_file(s->ws, "file", "new");
    }
    for (int i = 0; i < 2; i++) { /* as added, and as read */
        assert_int_equal(journal_count(j), 5);
        assert_string_equal(journal_at(j, 2)->path, "dir/link");
        assert_null(journal_at(j, 5));
        e = journal_find(j, "file");
        assert_int_equal(e->kind, JOURNAL_FILE);
        assert_int_equal(e->size, 8);
        assert_int_equal(e->mode, 0640);
        assert_true(e->mtime_ns > 0 && e->ino > 0);
        assert_int_equal(e->xattrs_len, attrs ? sizeof "user.tag" + 4 + 3 : 0);
        assert_blob(j, "file", "old text");
        assert_int_equal(j->stored_bytes, 8);
        assert_int_equal(journal_not_stored(j), 0);
        assert_int_equal(journal_find(j, "dir")->kind, JOURNAL_DIR);
        assert_int_equal(journal_find(j, "dir")->mode, 01751);
        assert_string_equal(journal_find(j, "dir/link")->link, "../else\xffwhere");
        assert_int_equal(journal_find(j, "dir/fifo\n")->kind, JOURNAL_OTHER);
        assert_int_equal(journal_find(j, "dir/none")->kind, JOURNAL_ABSENT);
        assert_int_equal(journal_blob(j, journal_find(j, "dir")), -ENOENT);
        assert_null(journal_find(j, "dir/nothing"));
        j = reopen(s, TAKE_PTR(j), false, NULL);
    }
}

/* Cut at every byte: all records before the cut are there, and what is added afterwards is, too. */
static void test_cut_anywhere(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct journal_entry e = {.kind = JOURNAL_ABSENT};
    uint64_t ends[4] = {JOURNAL_MAGIC_LEN};
    CLEANUP(freep) char *whole = NULL;
    struct err err = {0};

    for (size_t i = 1; i < 4; i++) {
        CLEANUP(freep) char *path = str_dupf("file-%zu", i);

        e.path = path;
        assert_int_equal(journal_add(j, &e, -1, false, -1, &err), 1);
        ends[i] = j->end;
    }
    whole = malloc(ends[3] + 1);
    assert_int_equal(pread(j->file, whole, ends[3] + 1, 0), ends[3]);
    for (size_t cut = 0; cut <= ends[3]; cut++) {
        size_t want = 0;

        while (want < 3 && ends[want + 1] <= cut)
            want++;
        assert_int_equal(ftruncate(j->file, 0), 0);
        assert_int_equal(pwrite(j->file, whole, cut, 0), cut);
        j = reopen(s, TAKE_PTR(j), true, &roomy);
        assert_int_equal(journal_count(j), want);
        e.path = "later";
        assert_int_equal(journal_add(j, &e, -1, false, -1, &err), 1);
        j = reopen(s, TAKE_PTR(j), false, NULL);
        assert_int_equal(journal_count(j), want + 1);
        assert_non_null(journal_find(j, "later"));
        j = reopen(s, TAKE_PTR(j), true, &roomy);
    }
}

static void test_damage_ends_the_reading(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct journal_entry e = {.kind = JOURNAL_ABSENT, .path = "a"};
    uint64_t first, end;

    assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
    first = j->end;
    e.path = "b";
    assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
    end = j->end;
    for (uint64_t at = first; at < end; at++) {
        unsigned char byte;

        j = reopen(s, TAKE_PTR(j), true, &roomy); /* cuts what the round before has broken */
        if (journal_count(j) == 1)
            assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
        assert_int_equal(pread(j->file, &byte, 1, (off_t)at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(j->file, &byte, 1, (off_t)at), 1);
        j = reopen(s, TAKE_PTR(j), false, NULL);
        assert_int_equal(journal_count(j), 1);
    }
    write_file(s->run, "journal", "something else");
    journal_close(TAKE_PTR(j));
    assert_int_equal(journal_open(s->run, true, &roomy, &j, NULL), -EBADMSG);
    assert_int_equal(unlinkat(s->run, "journal", 0), 0);
    assert_int_equal(journal_open(s->run, false, NULL, &j, NULL), -ENOENT);
    assert_int_equal(symlinkat("/etc/passwd", s->run, "journal"), 0);
    assert_int_equal(journal_open(s->run, true, &roomy, &j, NULL), -ELOOP);
}

/* What stood behind the damage must not come back when a record of the same length takes its place. */
static void test_what_follows_damage_stays_away(void **state) {
    static const char *const names[] = {"a", "b", "c"};
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct journal_entry e = {.kind = JOURNAL_ABSENT};
    uint64_t ends[3];

    for (size_t i = 0; i < 3; i++) {
        e.path = names[i];
        assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
        ends[i] = j->end;
    }
    assert_int_equal(pwrite(j->file, "x", 1, (off_t)ends[1] - 3), 1);
    j = reopen(s, TAKE_PTR(j), true, &roomy);
    e.path = "d";
    assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), 1);
    j = reopen(s, TAKE_PTR(j), false, NULL);
    assert_int_equal(journal_count(j), 2);
    assert_non_null(journal_find(j, "d"));
    assert_null(journal_find(j, "c"));
}

static void test_budget(void **state) {
    static const struct journal_opts small = {.budget = 10, .file_max = 6};
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &small);
    struct err err = {0};

    write_file(s->ws, "six", "123456");
    write_file(s->ws, "seven", "1234567");
    write_file(s->ws, "five", "12345");
    write_file(s->ws, "four", "1234");
    write_file(s->ws, "empty", "");
    assert_int_equal(add_looked(j, s, "seven", false, &err), 1); /* larger than one may be */
    assert_int_equal(add_looked(j, s, "six", false, &err), 1);
    assert_int_equal(add_looked(j, s, "five", false, &err), 1); /* larger than what is left */
    j = reopen(s, TAKE_PTR(j), true, &small);
    assert_int_equal(add_looked(j, s, "four", true, &err), 1);
    assert_int_equal(add_looked(j, s, "empty", false, &err), 1);
    assert_int_equal(j->stored_bytes, 10);
    assert_int_equal(journal_not_stored(j), 2);
    assert_int_equal(count_blobs(s), 1); /* the one that is about to be unlinked */
    assert_int_equal(pack_size(s), 6);
    assert_int_equal(journal_blob(j, journal_find(j, "seven")), -ENOENT);
    assert_int_equal(journal_find(j, "seven")->size, 7);
    assert_blob(j, "four", "1234");
    assert_blob(j, "empty", "");
}

static void test_nothing_is_kept_without_a_budget(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, NULL);

    write_file(s->ws, "f", "");
    assert_int_equal(add_looked(j, s, "f", false, NULL), 1);
    assert_int_equal(journal_not_stored(j), 1);
    assert_int_equal(count_blobs(s), 0);
}

static void test_the_inode_is_kept(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct stat before, after;

    write_file(s->ws, "f", "content");
    assert_int_equal(fstatat(s->ws, "f", &before, 0), 0);
    assert_int_equal(add_looked(j, s, "f", true, NULL), 1);
    assert_int_equal(unlinkat(s->ws, "f", 0), 0);
    assert_int_equal(fstatat(s->run, "base/1", &after, 0), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    j = reopen(s, TAKE_PTR(j), true, &roomy);
    assert_blob(j, "f", "content");
    /* one with a second name can be written to by that name, so it is copied */
    write_file(s->ws, "g", "other");
    assert_int_equal(linkat(s->ws, "g", s->ws, "h", 0), 0);
    assert_int_equal(add_looked(j, s, "g", true, NULL), 1);
    write_file(s->ws, "h", "tampered");
    assert_blob(j, "g", "other");
}

/* It was not unlinked after all, and then written to: better nothing than something that was never there. */
static void test_a_kept_inode_that_was_written_to(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);

    write_file(s->ws, "f", "content");
    assert_int_equal(add_looked(j, s, "f", true, NULL), 1);
    assert_int_equal(utimensat(s->ws, "f", (struct timespec[]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(journal_blob(j, journal_find(j, "f")), -ENOENT);
}

/* The content that is given and the path are two different files. */
static void test_another_file_is_not_linked(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    CLEANUP(closep) int content = -1;
    struct journal_entry e;

    write_file(s->ws, "f", "content");
    write_file(s->ws, "swapped", "else");
    assert_int_equal(journal_look(j, s->ws, "f", &e, &content, NULL), 0);
    assert_int_equal(renameat(s->ws, "f", s->ws, "away"), 0);
    assert_int_equal(renameat(s->ws, "swapped", s->ws, "f"), 0);
    assert_int_equal(journal_add(j, &e, content, true, s->ws, NULL), 1);
    assert_blob(j, "f", "content");
}

static void test_links_are_never_followed(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct journal_entry e;
    int content = -7;

    assert_int_equal(symlinkat("/etc", s->ws, "way"), 0);
    assert_int_equal(journal_look(j, s->ws, "way/passwd", &e, &content, NULL), 0);
    assert_int_equal(e.kind, JOURNAL_ABSENT);
    assert_int_equal(content, -1);
    assert_int_equal(journal_look(j, s->ws, "way", &e, NULL, NULL), 0);
    assert_int_equal(e.kind, JOURNAL_LINK);
    assert_string_equal(e.link, "/etc");
}

static void test_paths(void **state) {
    static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "a/../b", "../a"};
    static const char *const good[] = {"a", "a/b", ".a", "..a", "a..", "...", "a/.../b", "\xff\x01", " ", "a/..b"};
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    char longest[JOURNAL_PATH_MAX + 2];
    struct journal_entry e = {.kind = JOURNAL_ABSENT};
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        e.path = bad[i];
        assert_int_equal(journal_add(j, &e, -1, false, -1, &err), -EINVAL);
        assert_int_equal(journal_look(j, s->ws, bad[i], &e, NULL, &err), -EINVAL);
    }
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        e.path = good[i];
        assert_int_equal(journal_add(j, &e, -1, false, -1, &err), 1);
    }
    memset(longest, 'x', sizeof longest);
    longest[JOURNAL_PATH_MAX + 1] = 0;
    e.path = longest;
    assert_int_equal(journal_add(j, &e, -1, false, -1, &err), -EINVAL);
    longest[JOURNAL_PATH_MAX] = 0;
    assert_int_equal(journal_add(j, &e, -1, false, -1, &err), 1);
    j = reopen(s, TAKE_PTR(j), false, NULL);
    assert_int_equal(journal_count(j), ARRAY_LEN(good) + 1);
    assert_int_equal(journal_add(j, &e, -1, false, -1, &err), -EINVAL); /* opened for reading */
}

/* No space for the next record: nothing of it stays, neither record nor content, and the one after it works. */
static void test_no_space(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct rlimit old, tight;
    struct err err = {0};
    int refused;

    write_file(s->ws, "f", "content");
    assert_int_equal(add_looked(j, s, "g", false, &err), 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){j->end + 10, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    refused = add_looked(j, s, "f", false, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(refused, -ENOSPC);
    assert_null(journal_find(j, "f"));
    assert_int_equal(count_blobs(s), 0);
    j = reopen(s, TAKE_PTR(j), true, &roomy);
    assert_int_equal(journal_count(j), 1);
    assert_int_equal(add_looked(j, s, "f", false, &err), 1);
    assert_blob(j, "f", "content");
}

static void test_content_without_a_record_is_replaced(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);

    assert_int_equal(mkdirat(s->run, "base", 0700), 0);
    write_file(s->run, "base/1", "of a crash");
    write_file(s->run, "base/pack", "of a crash, and longer than what comes");
    write_file(s->ws, "f", "content");
    write_file(s->ws, "g", "linked");
    assert_int_equal(add_looked(j, s, "f", false, NULL), 1);
    assert_int_equal(add_looked(j, s, "g", true, NULL), 1);
    assert_blob(j, "f", "content");
    assert_blob(j, "g", "linked");
    j = reopen(s, TAKE_PTR(j), false, NULL);
    assert_blob(j, "f", "content");
}

static int cut_file(int dir, const char *name, off_t size) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

    return ftruncate(fd, size);
}

static void write_large(int dir, const char *name, size_t len) {
    CLEANUP(freep) char *text = malloc(len + 1);

    memset(text, 'x', len);
    text[len] = 0;
    write_file(dir, name, text);
}

static void assert_blob_size(const struct journal *j, const char *path, size_t want) {
    CLEANUP(closep) int fd = journal_blob(j, journal_find(j, path));
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, want);
}

/* Small ones share a file, large ones have their own; both are found again, also after the journal went on. */
static void test_small_files_are_packed(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);

    write_file(s->ws, "a", "first");
    write_large(s->ws, "fits", JOURNAL_PACKED_MAX);
    write_large(s->ws, "large", JOURNAL_PACKED_MAX + 1);
    write_file(s->ws, "b", "second");
    assert_int_equal(add_looked(j, s, "a", false, NULL), 1);
    assert_int_equal(add_looked(j, s, "large", false, NULL), 1);
    j = reopen(s, TAKE_PTR(j), true, &roomy);
    assert_int_equal(add_looked(j, s, "fits", false, NULL), 1);
    assert_int_equal(add_looked(j, s, "b", false, NULL), 1);
    for (int i = 0; i < 2; i++) {
        assert_blob(j, "a", "first");
        assert_blob(j, "b", "second");
        assert_blob_size(j, "fits", JOURNAL_PACKED_MAX);
        assert_blob_size(j, "large", JOURNAL_PACKED_MAX + 1);
        j = reopen(s, TAKE_PTR(j), false, NULL);
    }
    assert_int_equal(count_blobs(s), 1);
    assert_int_equal(pack_size(s), JOURNAL_PACKED_MAX + strlen("firstsecond"));
    assert_int_equal(cut_file(s->run, "base/pack", 6), 0);
    assert_blob(j, "a", "first");
    assert_int_equal(journal_blob(j, journal_find(j, "b")), -ENOENT);
}

/* A journal of an earlier version is read and continued in its own format, which that version reads, too. */
static void test_a_journal_of_version_1_goes_on(void **state) {
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = NULL;

    write_file(s->run, "journal", JOURNAL_MAGIC_1);
    write_file(s->ws, "f", "content");
    j = reopen(s, NULL, true, &roomy);
    assert_int_equal(add_looked(j, s, "f", false, NULL), 1);
    assert_int_equal(count_blobs(s), 1);
    assert_int_equal(pack_size(s), -1);
    j = reopen(s, TAKE_PTR(j), false, NULL);
    assert_true(j->old);
    assert_blob(j, "f", "content");
}

static void test_many(void **state) {
    enum { MANY = 20000 };
    const struct scene *s = *state;
    CLEANUP(journal_closep) struct journal *j = reopen(s, NULL, true, &roomy);
    struct journal_entry e = {.kind = JOURNAL_ABSENT};
    char path[64];

    e.path = path;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < MANY; i++) {
            snprintf(path, sizeof path, "node_modules/package-%d/index.js", i);
            assert_int_equal(journal_add(j, &e, -1, false, -1, NULL), pass == 0);
        }
    j = reopen(s, TAKE_PTR(j), false, NULL);
    assert_int_equal(journal_count(j), MANY);
    for (int i = 0; i < MANY; i += 7) {
        snprintf(path, sizeof path, "node_modules/package-%d/index.js", i);
        assert_ptr_equal(journal_find(j, path), journal_at(j, (size_t)i));
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_every_kind_comes_back),
        CASE(test_cut_anywhere),
        CASE(test_damage_ends_the_reading),
        CASE(test_what_follows_damage_stays_away),
        CASE(test_budget),
        CASE(test_nothing_is_kept_without_a_budget),
        CASE(test_the_inode_is_kept),
        CASE(test_a_kept_inode_that_was_written_to),
        CASE(test_another_file_is_not_linked),
        CASE(test_links_are_never_followed),
        CASE(test_paths),
        CASE(test_no_space),
        CASE(test_content_without_a_record_is_replaced),
        CASE(test_small_files_are_packed),
        CASE(test_a_journal_of_version_1_goes_on),
        CASE(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
