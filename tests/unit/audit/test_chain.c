/* SPDX-License-Identifier: Apache-2.0 */
/* Logs on disk: what is appended, what a crash leaves, what is rotated away, and what verification says about each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "audit/verify.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"

struct scene {
    char state[64], folder[80];
    int dir;
    struct audit *audit;
};

static struct audit *open_log(const struct scene *s, const char *log) {
    const struct audit_ids ids = {.log = log, .sandbox = "box", .run = "r", .tenant = ""};
    struct audit *a = NULL;

    assert_int_equal(audit_new(s->state, &ids, &a, NULL), 0);
    return a;
}

static void write_lines(struct audit *a, int n, const char *pad) {
    for (int i = 0; i < n; i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
        struct err err = {0};

        audit_add_number(&b, "i", i);
        audit_add(&b, "pad", pad);
        if (audit_write(a, AUDIT_EXEC, buf_str(&b), &err) < 0)
            fail_msg("%s", err.msg);
    }
}

static int set_up(void **state) {
    struct scene *s = calloc(1, sizeof *s);

    snprintf(s->state, sizeof s->state, "/tmp/bawn-audit-XXXXXX");
    if (!mkdtemp(s->state))
        return -1;
    snprintf(s->folder, sizeof s->folder, "%s/audit", s->state);
    s->audit = open_log(s, "user");
    write_lines(s->audit, 5, "x");
    s->dir = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = s;
    return s->dir < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    struct scene *s = *state;
    char command[128];
    pid_t pid;

    audit_free(s->audit);
    closep(&s->dir);
    snprintf(command, sizeof command, "rm -rf %s", s->state);
    pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    free(s);
    return 0;
}

/* -- what verification says ------------------------------------------------------------------------------------------------ */

static uint64_t faults(const struct scene *s) {
    struct verify v;
    struct err err = {0};
    uint64_t n;

    if (verify_folder(s->dir, &v, &err) < 0)
        fail_msg("%s", err.msg);
    n = v.faults;
    verify_done(&v);
    return n;
}

static void expect(const struct scene *s, const char *file, uint64_t line, const char *what) {
    struct verify v;
    bool found = false;

    assert_int_equal(verify_folder(s->dir, &v, NULL), 0);
    for (size_t i = 0; i < v.n_found; i++)
        found |= str_eq(v.found[i].file, file) && v.found[i].line == line && !v.found[i].note && strstr(v.found[i].what, what);
    if (!found) {
        for (size_t i = 0; i < v.n_found; i++)
            print_message("%s:%llu: %s\n", v.found[i].file, (unsigned long long)v.found[i].line, v.found[i].what);
        fail_msg("%s:%llu: '%s' was not found", file, (unsigned long long)line, what);
    }
    verify_done(&v);
}

static size_t slurp(const struct scene *s, const char *file, char *text, size_t size) {
    ssize_t n = fd_read_file_at(s->dir, file, text, size);

    assert_true(n >= 0);
    return (size_t)n;
}

static void put(const struct scene *s, const char *file, const char *text, size_t len) {
    CLEANUP(closep) int fd = openat(s->dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(fd_write_all(fd, text, len), 0);
}

static char *line_of(char *text, int n) {
    for (; n > 1; n--)
        text = strchr(text, '\n') + 1;
    return text;
}

static void fine(void **state) {
    struct scene *s = *state;
    struct audit *other = open_log(s, "bawn-x-20260101T000000Z");

    write_lines(other, 3, "\x01\x1b\xff\"\\\n");
    audit_free(other);
    assert_int_equal(faults(s), 0);
}

static void a_changed_line_is_found(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);

    strstr(line_of(text, 3), "\"pad\":\"x\"")[7] = 'y';
    put(s, "user.jsonl", text, n);
    expect(s, "user.jsonl", 3, "changed");
    assert_int_equal(faults(s), 1);
}

static void a_line_with_a_new_hash_is_found(void **state) {
    char text[16 * 1024], hash[SHA256_HEX_SIZE];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);
    char *line = line_of(text, 3), *end = strstr(line, ",\"hash\":\"");

    strstr(line, "\"pad\":\"x\"")[7] = 'y';
    sha256_hex(line, (size_t)(end - line), hash);
    memcpy(end + 9, hash, 64);
    put(s, "user.jsonl", text, n);
    expect(s, "user.jsonl", 4, "not chained");
    assert_int_equal(faults(s), 1);
}

static void a_removed_line_is_found(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);
    char *line = line_of(text, 2), *next = line_of(text, 3);

    memmove(line, next, n - (size_t)(next - text));
    put(s, "user.jsonl", text, n - (size_t)(next - line));
    expect(s, "user.jsonl", 2, "1 line before it was removed");
}

static void reordered_lines_are_found(void **state) {
    char text[16 * 1024], first[1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);
    char *a = line_of(text, 2), *b = line_of(text, 3), *c = line_of(text, 4);
    size_t na = (size_t)(b - a), nb = (size_t)(c - b);

    memcpy(first, a, na);
    memmove(a, b, nb);
    memcpy(a + nb, first, na);
    put(s, "user.jsonl", text, n);
    expect(s, "user.jsonl", 3, "reordered");
}

static void a_missing_first_line_is_found(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);
    char *next = line_of(text, 2);

    put(s, "user.jsonl", next, n - (size_t)(next - text));
    expect(s, "user.jsonl", 1, "1 line before it was removed");
}

static void a_cut_end_is_found(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;

    slurp(s, "user.jsonl", text, sizeof text);
    put(s, "user.jsonl", text, (size_t)(line_of(text, 5) - text));
    expect(s, "user.jsonl", 0, "cut");
    write_lines(s->audit, 1, "z"); /* and it stays visible */
    expect(s, "user.jsonl", 5, "removed");
    expect(s, "user.jsonl", 5, "repaired");
}

static void a_missing_head_is_found(void **state) {
    struct scene *s = *state;

    assert_int_equal(unlinkat(s->dir, "user.head", 0), 0);
    expect(s, "user.head", 0, "missing");
    write_lines(s->audit, 1, "z");
    expect(s, "user.jsonl", 6, "repaired");
    assert_int_equal(faults(s), 1);
}

static void missing_and_foreign_files_are_found(void **state) {
    struct scene *s = *state;

    assert_int_equal(renameat(s->dir, "user.jsonl", s->dir, "other.jsonl"), 0);
    expect(s, "user.head", 0, "missing");
    expect(s, "other", 0, "index does not know");
    expect(s, "other.jsonl", 1, "not chained"); /* a log has its name in its first hash */
    assert_int_equal(unlinkat(s->dir, "user.head", 0), 0);
    expect(s, "user.jsonl", 0, "missing");
    put(s, "x.txt", "x", 1);
    expect(s, "x.txt", 0, "not a file of the audit log");
}

/* -- crashes --------------------------------------------------------------------------------------------------------------- */

static void a_line_without_its_head_is_taken_over(void **state) {
    char head[CHAIN_HEAD_SIZE + 2], text[16 * 1024];
    struct scene *s = *state;

    slurp(s, "user.head", head, sizeof head);
    write_lines(s->audit, 2, "late");
    put(s, "user.head", head, CHAIN_HEAD_SIZE); /* as if the writer had died before it */
    assert_int_equal(faults(s), 0);
    write_lines(s->audit, 1, "next");
    assert_int_equal(faults(s), 0);
    slurp(s, "user.jsonl", text, sizeof text);
    assert_non_null(strstr(line_of(text, 8), "\"seq\":8,"));
    assert_null(strstr(text, "repair"));
}

static void half_a_line_is_cut_off_and_told(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);

    memcpy(text + n, "{\"seq\":6,\"ti", 12);
    put(s, "user.jsonl", text, n + 12);
    assert_int_equal(faults(s), 0);
    write_lines(s->audit, 1, "next");
    slurp(s, "user.jsonl", text, sizeof text);
    assert_non_null(strstr(line_of(text, 6), "\"what\":\"torn\",\"bytes\":12"));
    assert_non_null(strstr(line_of(text, 7), "\"pad\":\"next\""));
    assert_int_equal(faults(s), 0);
}

static void a_foreign_line_is_no_repair(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    size_t n = slurp(s, "user.jsonl", text, sizeof text);

    memcpy(text + n, "{\"seq\":6}\n", 10);
    put(s, "user.jsonl", text, n + 10);
    expect(s, "user.jsonl", 6, "changed");
    write_lines(s->audit, 1, "next");
    expect(s, "user.jsonl", 6, "repaired");
}

/* Two hundred at once, some of them killed: nothing is lost that somebody was told is written. */
static void many_writers_and_kills(void **state) {
    enum { WRITERS = 200, EACH = 20 };
    struct scene *s = *state;
    volatile uint64_t *written =
        mmap(NULL, WRITERS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t promised = 5;
    struct verify v;
    pid_t pid[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        pid[i] = fork();
        if (pid[i])
            continue;
        for (int k = 0; k < EACH; k++) {
            if (audit_write(s->audit, AUDIT_EXIT, "\"x\":1", NULL) < 0) /* inherited: it opens its own lock */
                _exit(1);
            written[i]++;
        }
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i += 3)
        kill(pid[i], SIGKILL);
    for (int i = 0; i < WRITERS; i++) {
        int status;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFSIGNALED(status) || status == 0);
        promised += written[i];
    }
    write_lines(s->audit, 1, "last");
    assert_int_equal(verify_folder(s->dir, &v, NULL), 0);
    assert_int_equal(v.faults, 0);
    assert_true(v.lines >= promised + 1 + 1); /* and the index */
    verify_done(&v);
    munmap((void *)written, WRITERS * sizeof(uint64_t));
}

/* -- rotation -------------------------------------------------------------------------------------------------------------- */

enum { SMALL = 4 * 1024 }; /* 16 MiB would do the same, and take its time */

static struct chain small_log(const struct scene *s) {
    return (struct chain){
        .dir = s->dir, .log = "user", .ids = "\"sandbox\":\"\",\"run\":\"\"", .full = SMALL, .head = -1, .data = -1};
}

static void append(struct chain *c, const char *what) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    chain_record(&b, "exec", c->ids, what);
    assert_int_equal(chain_append(c, b.data, b.len), 0);
}

/* Up to the line that makes the current file, or so many of them, full. */
static void fill(struct chain *c, uint64_t files) {
    struct chain_head h;

    do {
        append(c, "\"x\":1");
        assert_int_equal(chain_head_read(c->head, &h), 0);
    } while (h.number < files || h.size <= SMALL);
}

static bool is_there(const struct scene *s, const char *file) {
    struct stat st;

    return fstatat(s->dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void rotation_goes_on_with_the_chain(void **state) {
    struct scene *s = *state;
    CLEANUP(chain_done) struct chain one = small_log(s), two = small_log(s);

    append(&two, "\"x\":2");
    fill(&one, 2);
    append(&two, "\"x\":2"); /* has the old file open */
    append(&one, "\"x\":1");
    assert_true(is_there(s, "user.jsonl.1") && is_there(s, "user.jsonl.2") && !is_there(s, "user.jsonl.3"));
    assert_int_equal(faults(s), 0);
    assert_int_equal(renameat(s->dir, "user.jsonl.1", s->dir, "kept"), 0);
    expect(s, "user.jsonl.1", 0, "missing");
    assert_int_equal(renameat(s->dir, "kept", s->dir, "user.jsonl.1"), 0);
    assert_int_equal(faults(s), 0);
    assert_int_equal(renameat(s->dir, "user.jsonl.2", s->dir, "user.jsonl.9"), 0);
    expect(s, "user.jsonl.9", 0, "index does not know");
}

/* A writer that was killed between rename and head. */
static void a_rotation_is_finished_by_the_next_one(void **state) {
    struct scene *s = *state;
    CLEANUP(chain_done) struct chain c = small_log(s);
    char head[CHAIN_HEAD_SIZE + 2];
    struct chain_head h;

    fill(&c, 1);
    slurp(s, "user.head", head, sizeof head);
    append(&c, "\"x\":\"first of the next\"");
    assert_true(is_there(s, "user.jsonl.1"));
    assert_int_equal(unlinkat(s->dir, "user.jsonl", 0), 0);
    put(s, "user.head", head, CHAIN_HEAD_SIZE);
    append(&c, "\"x\":\"again\"");
    assert_int_equal(chain_head_read(c.head, &h), 0);
    assert_int_equal(h.number, 2);
    assert_true(is_there(s, "user.jsonl"));
    assert_int_equal(faults(s), 0);
}

static void old_files_are_dropped_on_purpose(void **state) {
    struct scene *s = *state;
    CLEANUP(chain_done) struct chain c = small_log(s);

    fill(&c, AUDIT_FILES_MAX + 3);
    assert_false(is_there(s, "user.jsonl.1"));
    assert_true(is_there(s, "user.jsonl.3"));
    assert_int_equal(faults(s), 0);
    assert_int_equal(unlinkat(s->dir, "user.jsonl.3", 0), 0); /* as it would be dropped, but nobody said so */
    expect(s, "user.jsonl.3", 0, "missing");
}

static void later_is_kept_until_the_next(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;

    audit_later(s->audit, AUDIT_NETWORK, "\"host\":\"a\"");
    slurp(s, "user.jsonl", text, sizeof text);
    assert_null(strstr(text, "network"));
    write_lines(s->audit, 1, "x");
    slurp(s, "user.jsonl", text, sizeof text);
    assert_non_null(strstr(line_of(text, 6), "\"type\":\"network\""));
    assert_non_null(strstr(line_of(text, 7), "\"type\":\"exec\""));
    audit_later(s->audit, AUDIT_NETWORK, "\"host\":\"b\"");
    audit_flush(s->audit);
    slurp(s, "user.jsonl", text, sizeof text);
    assert_non_null(strstr(line_of(text, 8), "\"host\":\"b\""));
    assert_int_equal(faults(s), 0);
}

/* What cannot be written is an error, and nothing of it is there later. */
static void a_log_that_cannot_be_written_fails(void **state) {
    char text[16 * 1024];
    struct scene *s = *state;
    struct err err = {0};

    assert_int_equal(renameat(s->dir, "user.jsonl", s->dir, "kept"), 0);
    assert_int_equal(mkdirat(s->dir, "user.jsonl", 0700), 0);
    audit_free(s->audit);
    s->audit = open_log(s, "user");
    assert_true(audit_write(s->audit, AUDIT_EXEC, "\"secretly\":1", &err) < 0);
    assert_non_null(strstr(err.msg, "user.jsonl"));
    assert_int_equal(unlinkat(s->dir, "user.jsonl", AT_REMOVEDIR), 0);
    assert_int_equal(renameat(s->dir, "kept", s->dir, "user.jsonl"), 0);
    write_lines(s->audit, 1, "x");
    slurp(s, "user.jsonl", text, sizeof text);
    assert_null(strstr(text, "secretly"));
    assert_int_equal(faults(s), 0);
}

static void names_of_logs(void **state) {
    static const char *const bad[] = {"", "index", "../x", "a/b", ".x", "-x", "a\nb"};
    struct scene *s = *state;
    struct audit *a = NULL;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct audit_ids ids = {.log = bad[i], .sandbox = "", .run = "", .tenant = ""};

        assert_true(audit_new(s->state, &ids, &a, NULL) < 0);
        assert_null(a);
    }
    assert_int_equal(audit_write(NULL, AUDIT_EXEC, "", NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(fine),
        TEST(a_changed_line_is_found),
        TEST(a_line_with_a_new_hash_is_found),
        TEST(a_removed_line_is_found),
        TEST(reordered_lines_are_found),
        TEST(a_missing_first_line_is_found),
        TEST(a_cut_end_is_found),
        TEST(a_missing_head_is_found),
        TEST(missing_and_foreign_files_are_found),
        TEST(a_line_without_its_head_is_taken_over),
        TEST(half_a_line_is_cut_off_and_told),
        TEST(a_foreign_line_is_no_repair),
        TEST(many_writers_and_kills),
        TEST(rotation_goes_on_with_the_chain),
        TEST(a_rotation_is_finished_by_the_next_one),
        TEST(old_files_are_dropped_on_purpose),
        TEST(later_is_kept_until_the_next),
        TEST(a_log_that_cannot_be_written_fails),
        TEST(names_of_logs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
