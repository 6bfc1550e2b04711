/* SPDX-License-Identifier: Apache-2.0 */
/* Object names are those of `git hash-object`; what is in an object does not matter here, so the objects are empty files. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/git/gitblobs.h"

enum { SHORT = 20, WIDE = 32, MIB = 1024 * 1024, NOBODY = 65534 };

#define STORE ".git/objects"
#define SECRET "65/ec2679eeaac690801f2a00b7de9baebbef7a2d" /* SECRET=1\n */
#define SECRET_CRLF "65/24a0cd76eae920c236eb21c6dedb954b266478"
#define SECRET_SHA256 "e5/04190b73558e7eeb9fec5da569c993ff3683454515cc59d0c13f9af37c3235"
#define KEY "e1/70489ad875605121b8580a02f11019f20a1630"      /* KEY\n */
#define CR_CR_LF "45/65b4dcbbb38e655115621f1fbf039ec31fd3d0" /* a\r\nb\n, which a\r\r\nb\r\n becomes */
#define EMPTY "e6/9de29bb2d1d6434b8b29ae775ad8c2e48c5391"
#define MIB_OF_A "7c/7377879f52df073befeb0cb7df4d1a4b6b7563"

struct tree {
    char top[64];
    int top_fd; /* the workspace is w/ in it, out/ lies beside it */
    int fd;
    struct strv hidden, got;
};

/* Like mkdir -p of the folder that path is in. */
static void make_parents(int fd, const char *path) {
    CLEANUP(freep) char *part = strdup(path);

    for (char *p = strchr(part, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        assert_true(mkdirat(fd, part, 0755) == 0 || errno == EEXIST);
        *p = '/';
    }
}

static void bytes(int at, const char *path, const void *data, size_t len) {
    CLEANUP(closep) int fd = -1;

    make_parents(at, path);
    fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static void file(int at, const char *path, const char *text) {
    bytes(at, path, text, strlen(text));
}

static void object(struct tree *t, const char *store, const char *name) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", store, name);

    file(t->fd, path, "");
}

static void hide(struct tree *t, const char *path, const char *text) {
    if (text)
        file(t->fd, path, text);
    assert_int_equal(strv_add(&t->hidden, path), 0);
}

static int setup(void **state) {
    struct tree *t = calloc(1, sizeof *t);

    snprintf(t->top, sizeof t->top, "/tmp/bawn-blobs.XXXXXX");
    assert_non_null(mkdtemp(t->top));
    assert_int_equal(chmod(t->top, 0755), 0);
    t->top_fd = open(t->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_parents(t->top_fd, "w/");
    make_parents(t->top_fd, "out/");
    t->fd = openat(t->top_fd, "w", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = t;
    return t->fd < 0;
}

static int teardown(void **state) {
    struct tree *t = *state;

    strv_done(&t->hidden);
    strv_done(&t->got);
    closep(&t->fd);
    closep(&t->top_fd);
    remove_tree(AT_FDCWD, t->top);
    free(t);
    return 0;
}

/* Runs it and compares with the given paths, in any order. */
static void expect(struct tree *t, int want, const char *const *paths) {
    struct err err = {0};
    size_t n = 0;
    int r;

    strv_done(&t->got);
    r = gitblobs_of_hidden(t->fd, &t->hidden, &t->got, &err);
    if (r < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(r, want);
    for (; paths[n]; n++)
        if (!strv_has(&t->got, paths[n]))
            fail_msg("'%s' is not told", paths[n]);
    assert_int_equal(t->got.len, n);
}
#define EXPECT(t, r, ...) expect(t, r, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void test_nothing_to_do(void **state) {
    struct tree *t = *state;

    assert_int_equal(gitblobs_of_hidden(t->fd, NULL, &t->got, NULL), 0);
    EXPECT(t, 0);
    object(t, STORE, SECRET);
    EXPECT(t, 0);
    hide(t, ".env", "SECRET=1\n");
    EXPECT(t, 0, STORE "/" SECRET);
    assert_int_equal(renameat(t->fd, ".git", t->fd, "git"), 0);
    EXPECT(t, 0);
}

static void test_content_and_line_ends(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    object(t, STORE, CR_CR_LF);
    object(t, STORE, EMPTY);
    object(t, STORE, KEY);
    hide(t, "crlf.env", "SECRET=1\r\n");
    hide(t, "cr", "a\r\r\nb\r\n");
    hide(t, "empty", "");
    hide(t, "other", "KEY");
    EXPECT(t, 0, STORE "/" SECRET, STORE "/" CR_CR_LF);
    object(t, STORE, SECRET_CRLF);
    EXPECT(t, 0, STORE "/" SECRET, STORE "/" SECRET_CRLF, STORE "/" CR_CR_LF);
}

static void test_folders_and_each_once(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    object(t, STORE, KEY);
    hide(t, "secrets", NULL);
    file(t->fd, "secrets/a/b/key", "KEY\n");
    file(t->fd, "secrets/.env", "SECRET=1\n");
    file(t->fd, "secrets/again", "SECRET=1\n");
    file(t->fd, "seen", "KEY\n");
    hide(t, ".env", "SECRET=1\n");
    hide(t, ".env", NULL);
    EXPECT(t, 0, STORE "/" SECRET, STORE "/" KEY);
}

static void test_sha256(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    object(t, STORE, SECRET_SHA256);
    hide(t, ".env", "SECRET=1\n");
    EXPECT(t, 0, STORE "/" SECRET);
    file(t->fd, ".git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n");
    EXPECT(t, 0, STORE "/" SECRET_SHA256);
}

/* An index of one file, version 2 (gitformat-index(5)); name: of its object. */
static size_t make_index(const char *name, size_t id_len, unsigned char ret[static 256]) {
    unsigned char *entry = ret + 12, *id = entry + 40;
    size_t len = (40 + id_len + 2 + 1 + 8) & ~(size_t)7;

    memset(ret, 0, 256);
    memcpy(ret, "DIRC\0\0\0\2\0\0\0\1", 12);
    memcpy(entry + 24, "\0\0\x81\xa4", 4);
    for (size_t i = 0; i < id_len; i++) {
        unsigned byte;

        assert_int_equal(sscanf(name + 2 * i + (i > 0), "%2x", &byte), 1);
        id[i] = (unsigned char)byte;
    }
    id[id_len + 1] = 1;
    id[id_len + 2] = 'x';
    return 12 + len + id_len;
}

static void test_tracked(void **state) {
    struct tree *t = *state;
    unsigned char index[256];
    size_t len = make_index(SECRET, SHORT, index);

    object(t, STORE, SECRET);
    object(t, STORE, KEY);
    hide(t, ".env", "SECRET=1\n");
    hide(t, "key", "KEY\n");
    bytes(t->fd, ".git/index", index, len);
    EXPECT(t, 0, STORE "/" KEY);
    bytes(t->fd, ".git/index", index, len - 1); /* damaged: nobody can say what is tracked */
    EXPECT(t, 0, STORE "/" KEY, STORE "/" SECRET);
}

static void test_tracked_sha256(void **state) {
    struct tree *t = *state;
    unsigned char index[256];
    size_t len = make_index(SECRET_SHA256, WIDE, index);

    file(t->fd, ".git/config", "[extensions]\nobjectformat = sha256\n");
    object(t, STORE, SECRET_SHA256);
    hide(t, ".env", "SECRET=1\n");
    EXPECT(t, 0, STORE "/" SECRET_SHA256);
    bytes(t->fd, ".git/index", index, len);
    EXPECT(t, 0);
}

static void test_git_file(void **state) {
    struct tree *t = *state;
    CLEANUP(freep) char *absolute = str_dupf("gitdir: %s/w/real/worktrees/x\n", t->top);
    CLEANUP(freep) char *outside = str_dupf("gitdir: %s/out\n", t->top);
    unsigned char index[256];
    size_t len = make_index(SECRET, SHORT, index);

    object(t, "real/objects", SECRET);
    file(t->top_fd, "out/objects/" SECRET, "");
    file(t->fd, "real/worktrees/x/commondir", "../..\n");
    hide(t, ".env", "SECRET=1\n");
    file(t->fd, ".git", "gitdir: ./real\n");
    EXPECT(t, 0, "real/objects/" SECRET);
    file(t->fd, ".git", absolute);
    EXPECT(t, 0, "real/objects/" SECRET);
    bytes(t->fd, "real/worktrees/x/index", index, len);
    EXPECT(t, 0);
    file(t->fd, ".git", outside);
    EXPECT(t, 0);
    file(t->fd, ".git", "gitdir: ../w-not/real\n");
    EXPECT(t, 0);
    file(t->fd, ".git", "nonsense");
    EXPECT(t, 0);
}

/* A folder whose path merely begins like the workspace's, or is as long, is not in it. */
static void test_a_neighbour(void **state) {
    struct tree *t = *state;

    file(t->top_fd, "w2/objects/" SECRET, "");
    file(t->fd, ".git", "gitdir: ../w2\n");
    hide(t, ".env", "SECRET=1\n");
    EXPECT(t, 0);
    file(t->top_fd, "v/objects/" SECRET, "");
    file(t->fd, ".git", "gitdir: ../v\n");
    object(t, "objects", SECRET); /* the same place below the workspace */
    EXPECT(t, 0);
}

/* Git and the inside follow links in the store; the path that is told has none. */
static void test_links_in_the_store(void **state) {
    struct tree *t = *state;

    object(t, "moved/objects", SECRET);
    file(t->top_fd, "out/objects/" SECRET, "");
    hide(t, ".env", "SECRET=1\n");
    assert_int_equal(symlinkat("moved", t->fd, ".git"), 0);
    EXPECT(t, 0, "moved/objects/" SECRET);
    assert_int_equal(unlinkat(t->fd, ".git", 0), 0);

    make_parents(t->fd, ".git/");
    assert_int_equal(symlinkat("../moved/objects", t->fd, STORE), 0);
    EXPECT(t, 0, "moved/objects/" SECRET);
    assert_int_equal(unlinkat(t->fd, STORE, 0), 0);

    make_parents(t->fd, STORE "/");
    assert_int_equal(symlinkat("../../moved/objects/65", t->fd, STORE "/65"), 0);
    EXPECT(t, 0, "moved/objects/" SECRET);
    assert_int_equal(unlinkat(t->fd, STORE "/65", 0), 0);
    assert_int_equal(symlinkat("../../../out/objects/65", t->fd, STORE "/65"), 0);
    EXPECT(t, 0);
    assert_int_equal(unlinkat(t->fd, STORE "/65", 0), 0);
    assert_int_equal(symlinkat("65", t->fd, STORE "/65"), 0);
    EXPECT(t, 0);
    assert_int_equal(unlinkat(t->fd, STORE "/65", 0), 0);
    make_parents(t->fd, STORE "/65/");
    assert_int_equal(symlinkat("../../../moved/objects/" SECRET, t->fd, STORE "/" SECRET), 0);
    EXPECT(t, 0, "moved/objects/" SECRET);
}

static void test_what_is_no_file(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    file(t->fd, "seen", "SECRET=1\n");
    file(t->fd, "shown/.env", "SECRET=1\n");
    make_parents(t->fd, "folder/");
    assert_int_equal(mkfifoat(t->fd, "pipe", 0600), 0);
    assert_int_equal(mkfifoat(t->fd, "folder/pipe", 0600), 0);
    assert_int_equal(symlinkat("../seen", t->fd, "folder/link"), 0);
    assert_int_equal(symlinkat("seen", t->fd, "link"), 0);
    assert_int_equal(symlinkat("shown", t->fd, "way"), 0);
    hide(t, "pipe", NULL);
    hide(t, "folder", NULL);
    hide(t, "link", NULL);
    hide(t, "way/.env", NULL);
    hide(t, "gone", NULL);
    hide(t, "seen/below", NULL);
    EXPECT(t, 0);
}

/* An object that is no file is none; neither is a pipe waited for where git's own files should be. */
static void test_a_hostile_store(void **state) {
    struct tree *t = *state;

    make_parents(t->fd, STORE "/65/");
    assert_int_equal(mkfifoat(t->fd, STORE "/" SECRET, 0600), 0);
    hide(t, ".env", "SECRET=1\n");
    hide(t, "key", "KEY\n");
    EXPECT(t, 0);
    object(t, STORE, KEY);
    assert_int_equal(mkfifoat(t->fd, ".git/config", 0600), 0);
    assert_int_equal(mkfifoat(t->fd, ".git/commondir", 0600), 0);
    assert_int_equal(mkfifoat(t->fd, ".git/index", 0600), 0);
    EXPECT(t, 0, STORE "/" KEY);
    assert_int_equal(remove_tree(t->fd, ".git"), 0);
    assert_int_equal(mkfifoat(t->fd, ".git", 0600), 0);
    EXPECT(t, 0);
}

/* Of a path that cannot be opened one would hear. */
static void test_nothing_is_opened_without_loose_objects(void **state) {
    struct tree *t = *state;
    struct err err = {0};

    hide(t, "../out/x", NULL);
    file(t->fd, STORE "/pack/pack-1.pack", "");
    file(t->fd, STORE "/info/packs", "");
    EXPECT(t, 0);
    object(t, STORE, KEY);
    assert_int_equal(gitblobs_of_hidden(t->fd, &t->hidden, &t->got, &err), -EXDEV);
}

static void test_closed(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    object(t, STORE, KEY);
    hide(t, "shut", NULL);
    file(t->fd, "shut/.env", "SECRET=1\n");
    hide(t, "open", NULL);
    file(t->fd, "open/shut/.env", "SECRET=1\n");
    hide(t, "closed.env", "SECRET=1\n");
    hide(t, "key", "KEY\n");
    assert_int_equal(fchmodat(t->fd, "shut", 0, 0), 0);
    assert_int_equal(fchmodat(t->fd, "open/shut", 0, 0), 0);
    assert_int_equal(fchmodat(t->fd, "closed.env", 0, 0), 0);
    if (geteuid() == 0)
        assert_int_equal(seteuid(NOBODY), 0);
    EXPECT(t, 0, STORE "/" KEY);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
}

static void test_size_of_a_file(void **state) {
    struct tree *t = *state;
    CLEANUP(freep) char *data = malloc(MIB + 1);

    memset(data, 'a', MIB + 1);
    object(t, STORE, MIB_OF_A);
    hide(t, "big", "");
    bytes(t->fd, "big", data, MIB);
    EXPECT(t, 0, STORE "/" MIB_OF_A);
    bytes(t->fd, "big", data, MIB + 1);
    EXPECT(t, 0);
}

static void many(struct tree *t, unsigned n, off_t size) {
    char path[32];

    for (unsigned i = 0; i < n; i++) {
        CLEANUP(closep) int fd = -1;

        snprintf(path, sizeof path, "many/%u", i);
        file(t->fd, path, "x");
        fd = openat(t->fd, path, O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, size), 0);
    }
}

/* The single file behind the folder is looked at all the same. */
static void test_too_many_files(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    hide(t, "many", NULL);
    hide(t, ".env", "SECRET=1\n");
    many(t, GITBLOBS_FILES_MAX - 1, 1);
    EXPECT(t, 0, STORE "/" SECRET);
    many(t, GITBLOBS_FILES_MAX, 1);
    EXPECT(t, 1, STORE "/" SECRET);
}

static void test_too_many_bytes(void **state) {
    struct tree *t = *state;

    object(t, STORE, SECRET);
    hide(t, "many", NULL);
    many(t, GITBLOBS_BYTES_MAX / MIB, MIB);
    EXPECT(t, 0);
    hide(t, ".env", "SECRET=1\n");
    EXPECT(t, 1, STORE "/" SECRET);
}

static void test_too_many_entries(void **state) {
    struct tree *t = *state;
    char path[32];

    object(t, STORE, SECRET);
    hide(t, "many", NULL);
    make_parents(t->fd, "many/");
    for (unsigned i = 0; i < GITBLOBS_ENTRIES_MAX; i++) {
        snprintf(path, sizeof path, "many/%u", i);
        assert_int_equal(symlinkat("x", t->fd, path), 0);
    }
    EXPECT(t, 0);
    assert_int_equal(symlinkat("x", t->fd, "many/more"), 0);
    EXPECT(t, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_to_do),
        TEST(test_content_and_line_ends),
        TEST(test_folders_and_each_once),
        TEST(test_sha256),
        TEST(test_tracked),
        TEST(test_tracked_sha256),
        TEST(test_git_file),
        TEST(test_a_neighbour),
        TEST(test_links_in_the_store),
        TEST(test_what_is_no_file),
        TEST(test_a_hostile_store),
        TEST(test_nothing_is_opened_without_loose_objects),
        TEST(test_closed),
        TEST(test_size_of_a_file),
        TEST(test_too_many_files),
        TEST(test_too_many_bytes),
        TEST(test_too_many_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
