/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/run/journal_priv.h"
#include "workspace/run/spool.h"

static const struct journal_opts roomy = {.budget = 1 << 20, .file_max = 1 << 20};

/* A run's folder, its journal, and the guard's end of the spool. */
struct scene {
    char path[40];
    int run, out;
    struct journal *j;
    size_t at; /* the guard's */
    uint64_t seq;
    const char *refused; /* a path that the supervisor does not believe */
};

static int setup(void **state) {
    static struct scene s;
    struct err err = {0};

    s = (struct scene){.path = "/tmp/bawn-test.XXXXXX", .seq = UINT64_C(0x7fffffff12345678)};
    s.run = mkdtemp(s.path) ? open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    *state = &s;
    if (s.run < 0 || journal_open(s.run, true, &roomy, &s.j, &err) < 0)
        return -1;
    s.out = journal_spool_make(s.j);
    return s.out < 0 ? -1 : 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    journal_close(s->j);
    closep(&s->out);
    closep(&s->run);
    return remove_tree(AT_FDCWD, s->path);
}

static size_t encode(const struct scene *s, uint32_t mode, bool named, const char *path, const char *content, char *to) {
    struct spool_head h = {.seq = s->seq,
                           .mode = mode,
                           .named = named,
                           .path_len = (uint32_t)strlen(path),
                           .content_len = (uint32_t)strlen(content),
                           .size = strlen(content),
                           .mtime_ns = 5,
                           .ino = 7};
    size_t len = spool_len(h.path_len, h.content_len);

    memcpy(to, &h, sizeof h);
    memcpy(to + sizeof h, path, h.path_len + 1);
    memcpy(to + sizeof h + h.path_len + 1, content, h.content_len);
    memcpy(to + len - sizeof h.seq, &h.seq, sizeof h.seq);
    return len;
}

static void put(struct scene *s, uint32_t mode, bool named, const char *path, const char *content) {
    char bytes[4096];
    size_t len;

    s->seq++;
    len = encode(s, mode, named, path, content, bytes);
    assert_int_equal(pwrite(s->out, bytes, len, (off_t)s->at), len);
    s->at += len;
}

static void put_file(struct scene *s, const char *path, const char *content) {
    put(s, S_IFREG | 0640, false, path, content);
}

static int believe(void *arg, const struct spool_entry *e) {
    const struct scene *s = arg;

    return s->refused && str_eq(s->refused, e->path) ? -EINVAL : S_ISREG(e->head.mode) && !e->head.named;
}

static int take(struct scene *s, bool rewind) {
    struct err err = {0};
    int r = journal_spool_take(s->j, s->at, rewind, believe, s, &err);

    s->at = r == 0 && rewind ? 0 : s->at;
    return r;
}

static void assert_content(const struct journal *j, const char *path, const char *want) {
    const struct journal_entry *e = journal_find(j, path);
    CLEANUP(closep) int fd = e ? journal_blob(j, e) : -1;
    char text[64] = "";

    assert_true(fd >= 0);
    assert_true(journal_has(j, e));
    assert_int_equal(read(fd, text, sizeof text - 1), strlen(want));
    assert_string_equal(text, want);
}

static void test_what_the_guard_says_is_taken_over(void **state) {
    struct scene *s = *state;
    const struct journal_entry *e;

    put_file(s, "d/f", "old");
    put(s, 0, false, "new", "");
    assert_int_equal(take(s, false), 0);
    put(s, S_IFDIR | 0755, false, "d", "");
    put(s, S_IFREG | 0600, true, "node_modules/x", "");
    put_file(s, "d/f", "newer: the first counts");
    assert_int_equal(take(s, false), 0);
    assert_int_equal(journal_count(s->j), 4);
    assert_content(s->j, "d/f", "old");
    e = journal_find(s->j, "d/f");
    assert_true(e->kind == JOURNAL_FILE && e->mode == 0640 && e->mtime_ns == 5 && e->ino == 7);
    assert_int_equal(journal_find(s->j, "new")->kind, JOURNAL_ABSENT);
    assert_int_equal(journal_find(s->j, "d")->kind, JOURNAL_DIR);
    assert_true(journal_find(s->j, "node_modules/x")->named);
    journal_spool_end(s->j);
    assert_int_equal(faccessat(s->run, SPOOL_NAME, F_OK, 0), -1);
}

/* It is written from its beginning again: what is behind the new entries is old, and not taken twice. */
static void test_again_from_the_beginning(void **state) {
    struct scene *s = *state;
    struct err err = {0};

    put_file(s, "a", "1");
    put_file(s, "b", "2");
    assert_int_equal(take(s, true), 0);
    assert_int_equal(s->at, 0);
    put_file(s, "c", "3");
    assert_int_equal(journal_spool_rest(s->j, believe, s, &err), 0);
    assert_int_equal(journal_count(s->j), 3);
    assert_content(s->j, "c", "3");
}

static void test_lies_end_it(void **state) {
    struct scene *s = *state;

    put_file(s, "../out", "x");
    assert_int_equal(take(s, false), -EINVAL);
    s->seq = 0;
    s->at = 0;
    s->refused = "hidden";
    put_file(s, "hidden", "x");
    assert_int_equal(take(s, false), -EINVAL);
    s->refused = NULL;
    s->seq = 5; /* the first number may be any, not those that follow */
    s->at = 0;
    put_file(s, "f", "x");
    assert_int_equal(take(s, false), 0);
    s->seq = 7;
    put_file(s, "g", "x");
    assert_int_equal(take(s, false), -EBADMSG);
    s->at = SPOOL_SIZE + 1;
    assert_int_equal(take(s, false), -EBADMSG);
    assert_int_equal(journal_count(s->j), 1);
}

static void test_the_budget_holds(void **state) {
    struct scene *s = *state;

    s->j->opts.budget = 4;
    put_file(s, "a", "123");
    put_file(s, "b", "456");
    assert_int_equal(take(s, false), 0);
    assert_content(s->j, "a", "123");
    assert_int_equal(journal_find(s->j, "b")->blob, 0);
    assert_int_equal(journal_not_stored(s->j), 1);
}

/* Both were killed: readers find what is in the spool, also with an entry that was being written. */
static void test_after_a_crash(void **state) {
    struct scene *s = *state;
    struct journal *r = NULL;
    struct err err = {0};
    char bytes[4096];
    size_t len;

    put_file(s, "taken", "1");
    assert_int_equal(take(s, true), 0);
    put_file(s, "left", "2");
    put(s, 0, false, "new", "");
    s->seq++;
    len = encode(s, S_IFREG | 0600, false, "half", "content", bytes);
    assert_int_equal(pwrite(s->out, bytes, len - 3, (off_t)s->at), len - 3);
    assert_int_equal(journal_open(s->run, false, NULL, &r, &err), 0);
    assert_int_equal(journal_count(r), 3);
    assert_content(r, "taken", "1");
    assert_content(r, "left", "2");
    assert_int_equal(journal_find(r, "new")->kind, JOURNAL_ABSENT);
    assert_false(journal_find(r, "taken")->unjudged);
    assert_true(journal_find(r, "left")->unjudged && journal_find(r, "new")->unjudged);
    journal_close(r);
    journal_close(TAKE_PTR(s->j));
    assert_int_equal(journal_open(s->run, true, &roomy, &s->j, &err), -EEXIST); /* nothing that was not judged becomes a record */
    assert_int_equal(faccessat(s->run, SPOOL_NAME, F_OK, 0), 0);
}

static void test_entries_that_are_none(void **state) {
    struct scene *s = *state;
    struct spool_entry e;
    char bytes[4096], bad[4096];
    size_t len;

    s->seq = 3;
    len = encode(s, S_IFREG | 0600, false, "path", "content", bytes);
    assert_int_equal(spool_decode(bytes, len, 3, &e), len);
    assert_int_equal(spool_decode(bytes, len, 0, &e), len);
    assert_string_equal(e.path, "path");
    assert_int_equal(spool_decode(bytes, len, 4, &e), 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(spool_decode(bytes, i, 3, &e), 0);
    for (size_t i = 0; i < offsetof(struct spool_head, size); i++) {
        memcpy(bad, bytes, len);
        bad[i] ^= (char)0x80;
        if (spool_decode(bad, len, 3, &e)) /* a mode of a file is one */
            assert_true(S_ISREG(e.head.mode));
    }
    assert_int_equal(encode(s, S_IFLNK | 0777, false, "link", "", bad), spool_len(4, 0));
    assert_int_equal(spool_decode(bad, sizeof bad, 3, &e), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_what_the_guard_says_is_taken_over),
        CASE(test_again_from_the_beginning),
        CASE(test_lies_end_it),
        CASE(test_the_budget_holds),
        CASE(test_after_a_crash),
        CASE(test_entries_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
