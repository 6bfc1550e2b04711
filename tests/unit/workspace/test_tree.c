/* SPDX-License-Identifier: Apache-2.0 */
/* A tree over a stream: what comes over, and a hostile other end that wants to leave the folder. */
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/str.h"
#include "link/tree_fetch.h"
#include "sides.h"

static int setup(void **state) {
    int r = sides_setup(state);
    struct sides *s = *state;

    return r < 0 ? r : mkdirat(s->run, "tree", 0755);
}

/* A process that has the folder, as inside. */
static int serve(const struct sides *s, const char *folder, pid_t *ret) {
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *ret = fork();
    if (*ret == 0) {
        close(pair[0]);
        _exit(tree_serve(pair[1], openat(s->top_fd, folder, O_RDONLY | O_DIRECTORY)) < 0);
    }
    close(pair[1]);
    return pair[0];
}

static void wait_for(pid_t pid) {
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void fill(const struct sides *s, const char *top) {
    static const char *const folders[] = {"a", "a/b", "closed"};
    char path[200];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", top, folders[i]);
        sides_mkdir(s, path);
    }
    snprintf(path, sizeof path, "%s/a/b/-rf", top);
    sides_write(s, path, "dash");
    snprintf(path, sizeof path, "%s/empty", top);
    sides_write(s, path, "");
    snprintf(path, sizeof path, "%s/sparse", top);
    sides_write(s, path, "x");
    {
        CLEANUP(closep) int fd = openat(s->top_fd, path, O_WRONLY | O_CLOEXEC);

        assert_int_equal(ftruncate(fd, 64 << 20), 0);
        assert_int_equal(pwrite(fd, "end", 3, (64 << 20) - 3), 3);
        assert_int_equal(fchmod(fd, 0640), 0);
    }
    snprintf(path, sizeof path, "%s/a/stays", top);
    assert_int_equal(symlinkat("b/-rf", s->top_fd, path), 0);
    snprintf(path, sizeof path, "%s/a/leads", top);
    assert_int_equal(symlinkat("/etc/passwd", s->top_fd, path), 0);
    snprintf(path, sizeof path, "%s/fifo", top);
    assert_int_equal(mkfifoat(s->top_fd, path, 0600), 0);
    snprintf(path, sizeof path, "%s/closed", top);
    assert_int_equal(fchmodat(s->top_fd, path, 0750, 0), 0);
}

static void check_filled(const struct sides *s, const char *top, bool out) {
    char path[200];
    struct stat st;

    snprintf(path, sizeof path, "%s/sparse", top);
    st = sides_stat(s, path);
    assert_int_equal(st.st_size, 64 << 20);
    assert_true(st.st_blocks < 1024);
    assert_int_equal(st.st_mode, S_IFREG | 0640);
    snprintf(path, sizeof path, "%s/closed", top);
    assert_int_equal(sides_stat(s, path).st_mode & 0777, 0750);
    snprintf(path, sizeof path, "%s/a/stays", top);
    assert_true(S_ISLNK(sides_stat(s, path).st_mode));
    snprintf(path, sizeof path, "%s/a/b/-rf", top);
    assert_int_equal(sides_stat(s, path).st_size, 4);
    snprintf(path, sizeof path, "%s/a/leads", top);
    assert_int_equal(sides_has(s, path), !out);
    snprintf(path, sizeof path, "%s/fifo", top);
    assert_false(sides_has(s, path));
}

typedef int asking(int sock, struct transfer *t, int to, struct err *err);

static void ask_by(void **state, asking *by) {
    CLEANUP(transfer_done) struct transfer t = {.out = true, .times = true};
    struct sides *s = *state;
    struct err err = {0};
    pid_t pid;
    int sock;

    fill(s, "run/tree");
    sock = serve(s, "run/tree", &pid);
    assert_int_equal(by(sock, &t, s->host, &err), 0);
    close(sock);
    wait_for(pid);
    check_filled(s, "host", true);
    assert_int_equal(t.notes.len, 2);
    assert_int_equal(t.files, 3);
    assert_int_equal(t.folders, 3);
}

static void test_a_tree_is_asked_for(void **state) {
    ask_by(state, tree_ask);
}

static void test_a_tree_is_received_by_a_locked_process(void **state) {
    ask_by(state, tree_fetch);
}

static void test_a_tree_is_given(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 0};
    CLEANUP(closep) int from = -1;
    struct sides *s = *state;
    struct err err = {0};
    pid_t pid;
    int sock;

    fill(s, "run/tree");
    from = openat(s->top_fd, "run/tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sock = serve(s, "host", &pid);
    assert_int_equal(tree_give(sock, &t, &(struct tree_gift){.from = from, .mode = S_IFDIR, .name = "copy"}, &err), 0);
    close(sock);
    wait_for(pid);
    check_filled(s, "host/copy", false);
    assert_int_equal(t.notes.len, 1);
    assert_int_equal(t.files, 3);
    assert_int_equal(t.folders, 4);
}

/* One thing that cannot be put in its place is a failure, and says why. */
static void test_a_file_over_a_folder_is_refused(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    CLEANUP(closep) int from = -1;
    struct sides *s = *state;
    struct err err = {0};
    pid_t pid;
    int sock;

    sides_mkdir(s, "host/taken");
    sides_write(s, "run/f", "text");
    from = openat(s->top_fd, "run/f", O_RDONLY | O_CLOEXEC);
    sock = serve(s, "host", &pid);
    assert_int_equal(tree_give(sock, &t, &(struct tree_gift){.from = from, .mode = 0644, .name = "taken"}, &err), -EISDIR);
    assert_non_null(strstr(err.msg, "taken"));
    close(sock);
    wait_for(pid);
}

/* -- hostile -------------------------------------------------------------------------------------------------------------- */

static void add(struct buf *b, enum tree_kind kind, uint32_t mode, uint64_t value, const char *text, size_t len) {
    uint8_t head[TREE_HEADER];

    tree_record_encode(&(struct tree_record){.kind = kind, .len = (uint16_t)len, .mode = mode, .value = value}, head);
    buf_add(b, head, sizeof head);
    buf_add(b, text, len);
}

static void add_name(struct buf *b, enum tree_kind kind, const char *name) {
    add(b, kind, kind == TREE_FILE ? 0644 : 0, 0, name, strlen(name));
}

static void add_file(struct buf *b, const char *name) {
    add_name(b, TREE_FILE, name);
    add(b, TREE_DATA, 0, 4, "", 0);
    buf_adds(b, "evil");
    add(b, TREE_DONE, 0, 0, "", 0);
}

static int ask(const struct sides *s, const struct buf *b, size_t len, struct transfer *t) {
    struct err err = {0};
    int pair[2], r, size = 1 << 22;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    assert_int_equal(send(pair[1], b->data, len, MSG_DONTWAIT), (ssize_t)len);
    shutdown(pair[1], SHUT_WR);
    *t = (struct transfer){.out = true, .whole = t->whole};
    r = tree_ask(pair[0], t, s->host, &err);
    close(pair[0]);
    close(pair[1]);
    return r;
}

static void test_names_that_lead_out(void **state) {
    static const char *const names[] = {"..", ".", "a/b", "/etc", "../x", "a/../../x"};
    static const enum tree_kind kinds[] = {TREE_FOLDER, TREE_FILE, TREE_LEFT};
    struct sides *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
            CLEANUP(transfer_done) struct transfer t = {0};

            if (kinds[k] == TREE_FILE)
                add_file(&b, names[i]);
            else
                add_name(&b, kinds[k], names[i]);
            assert_int_equal(ask(s, &b, b.len, &t), -EPIPE);
        }
    assert_false(sides_has(s, "x"));
}

/* A link, and then something through it: the link stays what it is, and nothing is written behind it. */
static void test_nothing_goes_through_a_link(void **state) {
    static const char link[] = "way\0run";
    struct sides *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    CLEANUP(transfer_done) struct transfer t = {0};

    assert_int_equal(symlinkat("../run", s->top_fd, "host/there"), 0);
    add(&b, TREE_LINK, 0, 0, link, sizeof link - 1);
    add_name(&b, TREE_FOLDER, "way");
    add_file(&b, "x");
    add(&b, TREE_LEAVE, 0755, 0, "", 0);
    add_name(&b, TREE_FOLDER, "there");
    add_file(&b, "x");
    add(&b, TREE_LEAVE, 0755, 0, "", 0);
    add_file(&b, "there");
    add(&b, TREE_END, 0, 0, "", 0);
    assert_int_equal(ask(s, &b, b.len, &t), 0);
    assert_false(sides_has(s, "run/x"));
    assert_int_equal(t.notes.len, 2);
    assert_true(S_ISREG(sides_stat(s, "host/there").st_mode)); /* replaced, not followed */
}

/* What is missing would be taken for deleted: only what no copy ever has may be left out. */
static void test_a_tree_that_has_to_be_whole(void **state) {
    static const struct {
        enum tree_kind kind;
        uint64_t value;
        int some, all;
    } ends[] = {{TREE_LEFT, TREE_SPECIAL, 0, 0},
                {TREE_LEFT, TREE_KERNEL, 0, 0},
                {TREE_LEFT, TREE_DENIED, 0, -EIO},
                {TREE_LEFT, TREE_REPLACED, 0, -EIO},
                {TREE_FILE, EACCES, 0, -EIO}};
    struct sides *s = *state;

    for (size_t i = 0; i < 2 * ARRAY_LEN(ends); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
        CLEANUP(transfer_done) struct transfer t = {.whole = i % 2};

        add(&b, ends[i / 2].kind, 0, ends[i / 2].kind == TREE_LEFT ? ends[i / 2].value : 0, "f", 1);
        if (ends[i / 2].kind == TREE_FILE)
            add(&b, TREE_DONE, 0, ends[i / 2].value, "", 0);
        add(&b, TREE_END, 0, 0, "", 0);
        assert_int_equal(ask(s, &b, b.len, &t), i % 2 ? ends[i / 2].all : ends[i / 2].some);
    }
}

static void test_a_folder_over_a_file_when_all_counts(void **state) {
    struct sides *s = *state;

    sides_write(s, "host/f", "is here");
    for (int whole = 0; whole < 2; whole++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
        CLEANUP(transfer_done) struct transfer t = {.whole = whole};

        add_name(&b, TREE_FOLDER, "f");
        add(&b, TREE_LEAVE, 0755, 0, "", 0);
        add(&b, TREE_END, 0, 0, "", 0);
        assert_int_equal(ask(s, &b, b.len, &t), whole ? -EEXIST : 0);
    }
}

static void test_too_deep_ends_it(void **state) {
    struct sides *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    CLEANUP(transfer_done) struct transfer t = {0};

    for (int i = 0; i < WALK_DEPTH_MAX + 1; i++)
        add_name(&b, TREE_FOLDER, "d");
    assert_int_equal(ask(s, &b, b.len, &t), -ELOOP);
}

/* Cut at every byte: an error, and each file is whole or not there. */
static void test_cut_anywhere(void **state) {
    struct sides *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    add_name(&b, TREE_FOLDER, "in");
    add_file(&b, "f");
    add(&b, TREE_LEAVE, 0755, 0, "", 0);
    add_file(&b, "g");
    add(&b, TREE_END, 0, 0, "", 0);
    for (size_t len = 0; len < b.len; len++) {
        CLEANUP(transfer_done) struct transfer t = {0};

        assert_int_equal(ask(s, &b, len, &t), -EPIPE);
        if (sides_has(s, "host/g"))
            assert_int_equal(sides_stat(s, "host/g").st_size, 4);
    }
}

static void test_records_out_of_order(void **state) {
    static const enum tree_kind kinds[] = {TREE_LEAVE, TREE_DATA, TREE_HOLE,   TREE_DONE,
                                           TREE_SEND,  TREE_TAKE, TREE_COUNTS, TREE_NOTE};
    struct sides *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
        CLEANUP(transfer_done) struct transfer t = {0};
        char text[8 * TREE_COUNT] = "note";
        bool has = kinds[i] == TREE_COUNTS || kinds[i] == TREE_NOTE;

        add(&b, kinds[i], 0, kinds[i] == TREE_DATA || kinds[i] == TREE_HOLE, text, has ? sizeof text : 0);
        add(&b, TREE_END, 0, 0, "", 0);
        assert_int_equal(ask(s, &b, b.len, &t), -EPIPE);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, sides_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_a_tree_is_asked_for),
        CASE(test_a_tree_is_received_by_a_locked_process),
        CASE(test_a_tree_is_given),
        CASE(test_a_file_over_a_folder_is_refused),
        CASE(test_names_that_lead_out),
        CASE(test_nothing_goes_through_a_link),
        CASE(test_a_tree_that_has_to_be_whole),
        CASE(test_a_folder_over_a_file_when_all_counts),
        CASE(test_too_deep_ends_it),
        CASE(test_cut_anywhere),
        CASE(test_records_out_of_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
