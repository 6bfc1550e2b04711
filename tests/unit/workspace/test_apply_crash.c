/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9, or a failure, in the middle of an apply, at every system call that changes a file: whatever is left, the next call makes the
 * workspace what it was, or what it would have become, and nothing between.
 */
#include "test_apply.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* These take the place of the C library's in this program: each call is counted, and one of them is the last. */
static unsigned calls, last_call, failing_call;

static bool count(void) {
    calls++;
    if (calls == last_call)
        kill(getpid(), SIGKILL);
    errno = EIO;
    return calls == failing_call;
}

int renameat2(int from, const char *a, int to, const char *b, unsigned flags) {
    return count() ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, flags);
}

int renameat(int from, const char *a, int to, const char *b) {
    return count() ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, 0);
}

int linkat(int from, const char *a, int to, const char *b, int flags) {
    return count() ? -1 : (int)syscall(SYS_linkat, from, a, to, b, flags);
}

int unlinkat(int dir, const char *path, int flags) {
    return count() ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
}

int mkdirat(int dir, const char *path, mode_t mode) {
    return count() ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}

int symlinkat(const char *target, int dir, const char *path) {
    return count() ? -1 : (int)syscall(SYS_symlinkat, target, dir, path);
}

ssize_t write(int fd, const void *data, size_t len) {
    return count() ? -1 : syscall(SYS_write, fd, data, len);
}

static void fill(struct scene *s) {
    CLEANUP(closep) int up = upper_of(s);

    put(s->ws, "mod", "old");
    put(s->ws, "gone", "some");
    put(s->ws, "dir/a/b", "1");
    put(s->ws, "mode", "#!");
    put(s->ws, "to_dir", "6");
    put(s->ws, "to_file/in", "5");
    assert_int_equal(symlinkat("a", s->ws, "link"), 0);
    put(up, "mod", "new");
    put_whiteout(up, "gone");
    put_whiteout(up, "dir");
    put(up, "mode", "#!");
    assert_int_equal(fchmodat(up, "mode", 0755, 0), 0);
    put(up, "to_dir/in", "new");
    put(up, "to_file", "file");
    put(up, "deep/er/file", "x");
    assert_int_equal(symlinkat("b", up, "link"), 0);
}

static void apply_it(struct scene *s) {
    CLEANUP(apply_result_done) struct apply_result result = {0};
    const struct apply_opts plain = {0};
    struct err err = {0};

    look_at_run(s);
    if (apply_changes(&s->rd, &s->set, s->ws, &plain, &result, &err) < 0)
        fail_msg("%s", err.msg);
}

static void undo_it(struct scene *s) {
    CLEANUP(strv_done) struct strv left = {0};
    struct err err = {0};

    if (apply_undo(&s->rd, s->ws, false, &left, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(left.len, 0);
}

/* Returns false if it came to its end before that call. */
static bool dies_at(struct scene *s, unsigned call, void (*what)(struct scene *)) {
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        calls = 0;
        last_call = call;
        what(s);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

enum { CALLS_MIN = 40, CALLS_MAX = 1000 };

static void test_apply(void **state) {
    bool died = true, seen_before = false, seen_after = false;
    unsigned call = 0;

    assert_null(*state);
    while (died && call < CALLS_MAX) {
        CLEANUP(freep) char *before = NULL, *now = NULL, *after = NULL;
        void *own = NULL;
        struct scene *s;

        overlay_scene(&own);
        s = own;
        fill(s);
        before = tree_text(s->ws);
        died = dies_at(s, ++call, apply_it);
        assert_true(apply_recover(&s->rd, s->ws, NULL) >= 0);
        now = tree_text(s->ws);
        apply_it(s); /* and nothing is in the way of the next one */
        after = tree_text(s->ws);
        assert_non_null(strstr(after, "deep/er/file -644 x"));
        if (!str_eq(now, before) && !str_eq(now, after))
            fail_msg("killed at call %u:\n%s", call, now);
        seen_before |= str_eq(now, before);
        seen_after |= died && str_eq(now, after);
        assert_null(strstr(after, ".bawn-tmp-"));
        scene_remove(&own);
    }
    assert_true(seen_before && seen_after);
    assert_true(call > CALLS_MIN && call < CALLS_MAX);
}

/* No space, no rights, ...: an error, and nothing has changed; or it did not matter. */
static void test_failures(void **state) {
    unsigned call = 0, failed = 0;
    bool reached = true;

    assert_null(*state);
    while (reached && call < CALLS_MAX) {
        CLEANUP(apply_result_done) struct apply_result result = {0};
        CLEANUP(freep) char *before = NULL, *now = NULL;
        const struct apply_opts plain = {0};
        void *own = NULL;
        struct scene *s;
        int r;

        overlay_scene(&own);
        s = own;
        fill(s);
        before = tree_text(s->ws);
        look_at_run(s);
        calls = 0;
        failing_call = ++call;
        r = apply_changes(&s->rd, &s->set, s->ws, &plain, &result, NULL);
        reached = calls >= failing_call;
        failing_call = 0;
        now = tree_text(s->ws);
        if (faccessat(s->run, "undo", F_OK, 0) == 0)
            assert_non_null(strstr(now, "deep/er/file -644 x")); /* done; what failed was tidying up */
        else if (r < 0 && !str_eq(now, before))
            fail_msg("call %u failed:\n%s", call, now);
        failed += r < 0;
        scene_remove(&own);
    }
    assert_true(failed > CALLS_MIN / 2 && call < CALLS_MAX);
}

/* Undoing can be cut off, too; doing it once more ends it. */
static void test_undo(void **state) {
    bool died = true;
    unsigned call = 0;

    assert_null(*state);
    while (died && call < CALLS_MAX) {
        CLEANUP(freep) char *before = NULL, *now = NULL;
        CLEANUP(strv_done) struct strv left = {0};
        void *own = NULL;
        struct scene *s;

        overlay_scene(&own);
        s = own;
        fill(s);
        before = tree_text(s->ws);
        apply_it(s);
        died = dies_at(s, ++call, undo_it);
        if (apply_undo(&s->rd, s->ws, false, &left, NULL) < 0)
            expect_none(s->run, "undo");
        if (left.len)
            fail_msg("killed at call %u: '%s' was left", call, left.v[0]);
        now = tree_text(s->ws);
        if (!str_eq(now, before))
            fail_msg("killed at call %u:\n%s", call, now);
        scene_remove(&own);
    }
    assert_true(call > CALLS_MIN / 2 && call < CALLS_MAX);
}

/* What the user wrote after the crash is not taken back. */
static void test_a_change_after_the_crash_stays(void **state) {
    struct scene *s;
    void *own = NULL;
    unsigned call = 0;
    bool applied = false;

    assert_null(*state);
    while (!applied && call < CALLS_MAX) { /* the first call at which mod is in place and the apply is not done */
        char text[16] = "";

        overlay_scene(&own);
        s = own;
        fill(s);
        assert_true(dies_at(s, ++call, apply_it));
        fd_read_file_at(s->ws, "mod", text, sizeof text);
        applied = str_eq(text, "new") && faccessat(s->run, "undo.new", F_OK, 0) == 0;
        if (!applied)
            scene_remove(&own);
    }
    assert_true(applied);
    put(s->ws, "mod", "mine, written after the crash");
    assert_int_equal(apply_recover(&s->rd, s->ws, NULL), 1);
    expect_file(s->ws, "mod", "mine, written after the crash");
    expect_file(s->ws, "gone", "some");
    expect_none(s->run, "undo.new");
    assert_int_equal(apply_recover(&s->rd, s->ws, NULL), 0);
    scene_remove(&own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_a_change_after_the_crash_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
