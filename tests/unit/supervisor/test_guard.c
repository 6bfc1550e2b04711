/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sock.h"
#include "proto/guardmsg.h"
#include "supervisor/watch/guard_link.h"
#include "workspace/run/journal_priv.h"
#include "workspace/run/spool.h"

struct scene {
    char path[40];
    int top, ws, peer;
    int begun;       /* how often the journal was asked for */
    int begin_fails; /* with this */
    struct journal_opts opts;
    struct guard_link guard;
};

static struct buf lines = BUF_INIT(1 << 20); /* what was logged */

static void sink(const char *line, size_t len) {
    buf_add(&lines, line, len);
}

static int begin(void *arg, struct journal **ret, struct err *err) {
    struct scene *s = arg;

    s->begun++;
    return s->begin_fails ? err_sys(err, s->begin_fails, "make a folder") : journal_open(s->top, true, &s->opts, ret, err);
}

static int setup(void **state) {
    static struct scene s;
    int pair[2];

    s = (struct scene){.path = "/tmp/bawn-test.XXXXXX", .opts = {1 << 20, 1 << 20}};
    if (!mkdtemp(s.path) || sock_pair(pair) < 0)
        return -1;
    s.top = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(s.top, "ws", 0700);
    s.ws = openat(s.top, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s.peer = pair[1];
    *state = &s;
    buf_clear(&lines);
    log_set_sink(sink);
    return guard_init(&s.guard, pair[0], s.ws, begin, &s, NULL);
}

static int teardown(void **state) {
    struct scene *s = *state;

    guard_done(&s->guard);
    closep(&s->top);
    closep(&s->ws);
    closep(&s->peer);
    log_set_sink(NULL);
    buf_done(&lines);
    return remove_tree(AT_FDCWD, s->path);
}

static void send_msg(struct scene *s, struct guard_msg head, const char *path, int fd) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 16);

    head.path_len = head.path_len ? head.path_len : (uint32_t)strlen(path);
    buf_add(&b, &head, sizeof head);
    buf_adds(&b, path);
    assert_int_equal(sock_send(s->peer, b.data, b.len, &fd, fd >= 0), 0);
}

/* Sends a TOUCH that waits and returns the answer, or 1 if none came. fd: the file that is said to be there; -1: none that is. */
static int touch(struct scene *s, const char *path, int fd) {
    struct guard_msg go, m = {.type = GUARD_MSG_TOUCH, .wait = 1, .mode = S_IFREG | 0644};
    struct stat st;

    if (fd >= 0) {
        assert_int_equal(fstat(fd, &st), 0);
        m.mode = st.st_mode;
        m.dev = st.st_dev;
        m.ino = st.st_ino;
    }
    send_msg(s, m, path, -1);
    guard_handle(&s->guard);
    if (recv(s->peer, &go, sizeof go, MSG_DONTWAIT) != (ssize_t)sizeof go)
        return 1;
    assert_int_equal(go.type, GUARD_MSG_GO);
    return go.value;
}

static void write_file(int dir, const char *name, const char *text) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void assert_kept(const struct scene *s, const char *path, const char *want) {
    CLEANUP(closep) int fd = journal_blob(s->guard.journal, journal_find(s->guard.journal, path));
    char text[64] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), strlen(want));
    assert_string_equal(text, want);
}

static bool logged(const char *text) {
    return strstr(buf_str(&lines), text) != NULL;
}

static size_t open_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void test_a_change_is_recorded_first(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int fd = -1;
    size_t before;

    guard_handle(&s->guard);
    assert_int_equal(s->begun, 0); /* most runs change nothing */
    write_file(s->ws, "f", "old");
    fd = openat(s->ws, "f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(touch(s, "f", fd), 0);
    write_file(s->ws, "f", "new text");
    before = open_fds();
    assert_int_equal(touch(s, "f", fd), 0);
    assert_int_equal(touch(s, "none/below", -1), 0);
    assert_int_equal(open_fds(), before);
    assert_int_equal(s->begun, 1);
    assert_int_equal(journal_count(s->guard.journal), 2);
    assert_int_equal(journal_find(s->guard.journal, "none/below")->kind, JOURNAL_ABSENT);
    assert_kept(s, "f", "old");
}

/* Who does not wait creates something: that it is there by now must not count. */
static void test_a_creation_needs_no_answer(void **state) {
    struct scene *s = *state;
    struct guard_msg go;

    write_file(s->ws, "f", "created meanwhile");
    for (int i = 0; i < 1000; i++) {
        CLEANUP(freep) char *path = str_dupf("f%d", i);

        send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH}, i ? path : "f", -1);
        if (i % 100 == 99)
            guard_handle(&s->guard);
    }
    guard_finish(&s->guard);
    assert_int_equal(journal_count(s->guard.journal), 1000);
    assert_int_equal(journal_find(s->guard.journal, "f")->kind, JOURNAL_ABSENT);
    assert_int_equal(recv(s->peer, &go, sizeof go, MSG_DONTWAIT), 0); /* it is over, and no answer came */
    assert_int_equal(s->guard.sock, -1);
}

static void test_paths_that_are_none(void **state) {
    static const char *const bad[] = {"", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/"};
    struct scene *s = *state;
    char longest[GUARD_PATH_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(touch(s, bad[i], -1), -EINVAL);
    assert_int_equal(s->begun, 0);
    memset(longest, 'x', GUARD_PATH_MAX);
    longest[GUARD_PATH_MAX] = 0;
    assert_true(touch(s, longest, -1) < 0); /* no such name can be */
    assert_int_equal(touch(s, "good", -1), 0);
}

/* Files that are not what the host has at that path: nothing is stored for them. */
static void test_files_that_do_not_belong_there(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int other = open("/etc/passwd", O_RDONLY | O_CLOEXEC), memory = memfd_create("m", MFD_CLOEXEC), pipe_fd = -1;

    write_file(s->ws, "a", "text of a");
    write_file(s->ws, "b", "text of b");
    assert_int_equal(mkfifoat(s->ws, "fifo", 0600), 0);
    pipe_fd = openat(s->ws, "fifo", O_RDWR | O_CLOEXEC);
    assert_int_equal(touch(s, "a", other), 0);
    assert_int_equal(touch(s, "b", memory), 0);
    assert_int_equal(touch(s, "fifo", pipe_fd), 0);
    assert_int_equal(touch(s, "none", other), 0);
    assert_int_equal(journal_not_stored(s->guard.journal), 2);
    assert_int_equal(s->guard.journal->stored_bytes, 0);
    assert_int_equal(journal_find(s->guard.journal, "fifo")->kind, JOURNAL_OTHER);
    assert_int_equal(journal_find(s->guard.journal, "none")->kind, JOURNAL_ABSENT);
}

static void test_without_a_journal_nothing_changes(void **state) {
    struct scene *s = *state;

    s->begin_fails = -ENOSPC;
    assert_int_equal(touch(s, "f", -1), -ENOSPC);
    assert_int_equal(touch(s, "g", -1), -ENOSPC);
    assert_int_equal(s->begun, 1);
    assert_true(logged("make a folder: No space left on device"));
    send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH}, "h", -1); /* a creation is not asked for */
    guard_handle(&s->guard);
    assert_int_equal(s->guard.sock, -1);
}

static void test_strange_errors_are_plain_for_the_caller(void **state) {
    struct scene *s = *state;

    s->begin_fails = -EBADMSG;
    assert_int_equal(touch(s, "f", -1), -EIO);
}

static void test_no_message(void **state) {
    static const struct guard_msg bad[] = {
        {.type = 0},
        {.type = GUARD_MSG_GO},
        {.type = 77},
        {.type = GUARD_MSG_TOUCH, .path_len = 3},
        {.type = GUARD_MSG_TOUCH, .path_len = ~0u},
    };
    struct scene *s = *state;

    for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
        struct err err = {0};
        int pair[2];

        if (i < ARRAY_LEN(bad))
            send_msg(s, bad[i], "f", -1);
        else
            assert_int_equal(sock_send(s->peer, "short", 5, NULL, 0), 0);
        guard_handle(&s->guard);
        assert_int_equal(s->guard.sock, -1);
        assert_true(logged("bawn-init sent"));
        guard_done(&s->guard);
        closep(&s->peer);
        buf_clear(&lines);
        assert_int_equal(sock_pair(pair), 0);
        s->peer = pair[1];
        assert_int_equal(guard_init(&s->guard, pair[0], s->ws, begin, s, &err), 0);
    }
    assert_int_equal(s->begun, 0);
}

static void test_answers_that_nobody_reads(void **state) {
    struct scene *s = *state;

    for (int i = 0; i < 100000 && s->guard.sock >= 0; i++) {
        send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH, .wait = 1}, "f", -1);
        guard_handle(&s->guard);
    }
    assert_int_equal(s->guard.sock, -1);
    assert_true(logged("without reading the answers"));
}

/* Killed while it waits: no word about it. */
static void test_the_end(void **state) {
    struct scene *s = *state;

    send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH}, "f", -1);
    send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH, .wait = 1}, "g", -1);
    closep(&s->peer);
    guard_finish(&s->guard);
    assert_int_equal(journal_count(s->guard.journal), 2);
    guard_report(&s->guard);
    assert_string_equal(buf_str(&lines), "");
}

static void test_refusals(void **state) {
    struct scene *s = *state;

    for (int pass = 0; pass < 2; pass++) {
        send_msg(s, (struct guard_msg){.type = GUARD_MSG_REFUSED, .value = GUARD_WHY_PROTECTED}, ".git/hooks/pre-commit", -1);
        send_msg(s, (struct guard_msg){.type = GUARD_MSG_REFUSED, .value = GUARD_WHY_HIDDEN}, "a\x1b[2J\n.env", -1);
        send_msg(s, (struct guard_msg){.type = GUARD_MSG_REFUSED, .value = 99}, "x", -1);
    }
    guard_handle(&s->guard);
    for (int i = 0; i < 30; i++) {
        CLEANUP(freep) char *path = str_dupf("d%d/HEAD", i);

        send_msg(s, (struct guard_msg){.type = GUARD_MSG_REFUSED, .value = GUARD_WHY_BARE_REPO}, path, -1);
        guard_handle(&s->guard);
    }
    assert_string_equal(buf_str(&lines), ""); /* at the end, not in between */
    guard_report(&s->guard);
    assert_int_equal(s->guard.refused.len, GUARD_REFUSED_MAX);
    assert_true(logged("bawn: refused: write to '.git/hooks/pre-commit' (protected"));
    assert_true(logged("'a\\x1b[2J\\x0a.env'"));
    assert_true(logged("'d17/HEAD'"));
    assert_false(logged("'d18/HEAD'"));
    assert_true(logged("bawn: refused: 12 more\n"));
    assert_int_equal(s->begun, 0);
}

/* The guard's end: what came with the answer, -1: nothing did. */
static int ask_spool(struct scene *s, size_t spooled, int32_t *ret) {
    struct guard_msg go = {.value = 1};
    int fd = -1;
    size_t n_fds = 1;

    send_msg(s, (struct guard_msg){.type = GUARD_MSG_SPOOL, .wait = 1, .spooled = (uint32_t)spooled}, "", -1);
    guard_handle(&s->guard);
    assert_int_equal(sock_recv(s->peer, &go, sizeof go, &fd, &n_fds), sizeof go);
    *ret = go.value;
    return n_fds ? fd : -1;
}

static size_t spool(int fd, size_t at, uint64_t seq, uint32_t mode, bool named, const char *path, const char *content) {
    struct spool_head h = {.seq = seq,
                           .mode = mode,
                           .named = named,
                           .path_len = (uint32_t)strlen(path),
                           .content_len = (uint32_t)strlen(content),
                           .size = strlen(content)};
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 16);

    buf_add(&b, &h, sizeof h);
    buf_add(&b, path, strlen(path) + 1);
    buf_adds(&b, content);
    buf_add(&b, &seq, sizeof seq);
    assert_int_equal(pwrite(fd, b.data, b.len, (off_t)at), b.len);
    return at + b.len;
}

/* What the guard put away itself is in the journal before what it says next, and when it is full, and in the end. */
static void test_the_spool(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int fd = -1;
    int32_t value;
    size_t at;

    fd = ask_spool(s, 0, &value);
    assert_true(value == 0 && fd >= 0 && s->begun == 1);
    at = spool(fd, 0, 1, S_IFREG | 0600, false, "f", "old");
    write_file(s->ws, "g", "other");
    send_msg(s, (struct guard_msg){.type = GUARD_MSG_TOUCH, .wait = 1, .mode = S_IFREG | 0600, .spooled = (uint32_t)at}, "g", -1);
    guard_handle(&s->guard);
    assert_string_equal(journal_at(s->guard.journal, 0)->path, "f");
    assert_string_equal(journal_at(s->guard.journal, 1)->path, "g");
    assert_true(recv(s->peer, &value, sizeof value, 0) > 0);
    at = spool(fd, at, 2, 0, false, "new", "");
    assert_int_equal(ask_spool(s, at, &value), -1); /* full: no second one */
    assert_int_equal(value, 0);
    assert_int_equal(journal_count(s->guard.journal), 3);
    spool(fd, 0, 3, S_IFREG | 0600, false, "last", "text");
    closep(&s->peer);
    guard_finish(&s->guard);
    assert_kept(s, "f", "old");
    assert_kept(s, "last", "text");
    assert_int_equal(faccessat(s->top, SPOOL_NAME, F_OK, 0), -1);
}

/* By name only where the supervisor has said so, and nothing that is damaged: then nothing changes any more. */
static void test_lies_in_the_spool(void **state) {
    struct scene *s = *state;
    CLEANUP(closep) int fd = -1;
    int32_t value;
    size_t at;

    fd = ask_spool(s, 0, &value);
    at = spool(fd, 0, 1, S_IFREG | 0600, true, "src/f", "");
    ask_spool(s, at, &value);
    assert_int_equal(value, -EINVAL);
    ask_spool(s, at, &value);
    assert_int_equal(value, -EINVAL);
    assert_int_equal(journal_count(s->guard.journal), 0);
    assert_true(logged("the guard said what it may not"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_a_change_is_recorded_first),
        CASE(test_a_creation_needs_no_answer),
        CASE(test_paths_that_are_none),
        CASE(test_files_that_do_not_belong_there),
        CASE(test_without_a_journal_nothing_changes),
        CASE(test_strange_errors_are_plain_for_the_caller),
        CASE(test_no_message),
        CASE(test_answers_that_nobody_reads),
        CASE(test_the_end),
        CASE(test_refusals),
        CASE(test_the_spool),
        CASE(test_lies_in_the_spool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
