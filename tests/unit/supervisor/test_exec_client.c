/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the exec socket against a keeper that a child of ours plays. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "supervisor/keep/exec_client.h"

enum { PLAYED_OUT = 90 }; /* what a child exits with when something it asserts is not so */

#define MUST(what)             \
    do {                       \
        if (!(what))           \
            _exit(PLAYED_OUT); \
    } while (0)

static char *true_argv[] = {"true", "x y", NULL};
static const struct exec_request request = {.cwd = "", .argv = true_argv, .argc = 2};

typedef void keeper(int sock);

/* Runs `play` in a child at the other end; *ret_sock is ours. */
static pid_t start_keeper(keeper *play, int *ret_sock) {
    int pair[2];
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        play(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    *ret_sock = pair[0];
    return pid;
}

static void end_keeper(pid_t pid, int sock) {
    int status;

    close(sock);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void take_request(int sock, unsigned flags, int *fds, size_t n_wanted) {
    struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
    struct exec_request r;
    struct exec_msg m;
    size_t n_fds = EXEC_FDS_MAX;

    MUST(execmsg_recv(sock, &m, &body, fds, &n_fds) == 1);
    MUST(m.type == EXEC_MSG_EXEC && m.value == EXEC_PROTOCOL && n_fds == n_wanted);
    MUST(exec_request_decode(body.data, body.len, &r) == 0);
    MUST(r.argc == 2 && str_eq(r.argv[0], "true") && str_eq(r.argv[1], "x y") && r.flags == flags);
    exec_request_done(&r);
    buf_done(&body);
}

static void tell(int sock, enum exec_msg_type type, int value, int extra, const char *text, int fd) {
    struct exec_msg m = {.type = type, .value = value, .extra = extra, .len = (uint32_t)strlen(text)};

    MUST(execmsg_send(sock, &m, text, &fd, fd >= 0 ? 1 : 0) == 0);
}

/* -- in the background --------------------------------------------------------------------------------------------------- */

static void play_background(int sock) {
    int fds[EXEC_FDS_MAX];

    take_request(sock, EXEC_BACKGROUND, fds, 0);
    tell(sock, EXEC_MSG_STARTED, 7, 12, "", -1);
}

static void test_background(void **state) {
    struct err err = {0};
    int sock, job = 0;
    pid_t pid = start_keeper(play_background, &sock);

    (void)state;
    assert_int_equal(exec_background(sock, &request, &job, &err), 0);
    assert_int_equal(job, 7);
    end_keeper(pid, sock);
}

static void play_refusal(int sock) {
    int fds[EXEC_FDS_MAX];

    take_request(sock, EXEC_BACKGROUND, fds, 0);
    tell(sock, EXEC_MSG_FAILED, EMFILE, 0, "too \033[2Jmany", -1);
}

static void test_refusal_is_shown_escaped(void **state) {
    struct err err = {0};
    int sock, job = 0;
    pid_t pid = start_keeper(play_refusal, &sock);

    (void)state;
    assert_int_equal(exec_background(sock, &request, &job, &err), -EMFILE);
    assert_non_null(strstr(err.msg, "too \\x1b[2Jmany"));
    assert_int_equal(job, 0);
    end_keeper(pid, sock);
}

static void play_death(int sock) {
    int fds[EXEC_FDS_MAX];

    take_request(sock, EXEC_BACKGROUND, fds, 0);
}

static void test_keeper_dies(void **state) {
    struct err err = {0};
    int sock, job = 0;
    pid_t pid = start_keeper(play_death, &sock);

    (void)state;
    assert_int_equal(exec_background(sock, &request, &job, &err), -ECONNRESET);
    end_keeper(pid, sock);
}

/* -- files ---------------------------------------------------------------------------------------------------------------- */

static void play_open(int sock) {
    struct buf body = BUF_INIT(4096);
    struct exec_msg m;
    size_t n_fds = 0;

    MUST(execmsg_recv(sock, &m, &body, NULL, &n_fds) == 1);
    MUST(m.type == EXEC_MSG_OPEN && m.value == EXEC_OPEN_READ && str_eq(buf_str(&body), "/etc/passwd"));
    tell(sock, EXEC_MSG_OPENED, 0, 0, "", open("/dev/null", O_RDONLY | O_CLOEXEC));
    buf_done(&body);
}

static void play_open_nothing(int sock) {
    struct buf body = BUF_INIT(4096);
    struct exec_msg m;
    size_t n_fds = 0;

    MUST(execmsg_recv(sock, &m, &body, NULL, &n_fds) == 1);
    tell(sock, EXEC_MSG_OPENED, 0, 0, "", -1);
    buf_done(&body);
}

static void test_open(void **state) {
    struct err err = {0};
    int sock, fd = -1;
    pid_t pid = start_keeper(play_open, &sock);

    (void)state;
    assert_int_equal(exec_open(sock, "/etc/passwd", EXEC_OPEN_READ, &fd, &err), 0);
    assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    close(fd);
    end_keeper(pid, sock);

    fd = -1;
    pid = start_keeper(play_open_nothing, &sock);
    assert_int_equal(exec_open(sock, "/etc/passwd", EXEC_OPEN_READ, &fd, &err), -EPROTO);
    assert_int_equal(fd, -1);
    end_keeper(pid, sock);
}

/* -- in the foreground ----------------------------------------------------------------------------------------------------- */

/* The client, in a child whose output is a file, so that it is relayed. Returns its exit status; the file's content in out. */
static int run_client(keeper *play, char *out, size_t size) {
    struct exec_options opt = {.request = request, .sandbox = "x"};
    char path[] = "/tmp/test_exec_client.XXXXXX";
    CLEANUP(closep) int file = mkstemp(path);
    int sock, status;
    pid_t pid, client;
    ssize_t n;

    assert_true(file >= 0);
    unlink(path);
    pid = start_keeper(play, &sock);
    client = fork();
    assert_true(client >= 0);
    if (client == 0) {
        struct exec_result result;
        struct err err = {0};
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        MUST(dup2(null, 0) == 0 && dup2(file, 1) == 1 && dup2(file, 2) == 2);
        _exit(exec_foreground(sock, &opt, &result, &err) == 0 ? result.status : PLAYED_OUT);
    }
    assert_int_equal(waitpid(client, &status, 0), client);
    end_keeper(pid, sock);
    n = pread(file, out, size - 1, 0);
    out[n > 0 ? n : 0] = 0;
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Somebody inside keeps the pipe after the command has ended: the client does not wait for him. */
static void play_holder(int sock) {
    int fds[EXEC_FDS_MAX];
    char c;

    take_request(sock, EXEC_STDIN | EXEC_STDOUT | EXEC_STDERR, fds, 3);
    tell(sock, EXEC_MSG_STARTED, 1, 2, "", -1);
    MUST(write(fds[1], "hello\n", 6) == 6);
    tell(sock, EXEC_MSG_EXITED, W_EXITCODE(3, 0), 0, "", -1);
    MUST(read(sock, &c, 1) == 0); /* the client is gone, and only now is the pipe closed */
}

static void test_output_is_whole_and_holders_are_not_waited_for(void **state) {
    char out[64];

    (void)state;
    assert_int_equal(run_client(play_holder, out, sizeof out), 3);
    assert_string_equal(out, "hello\n");
}

static void play_end(int sock, int value, int extra) {
    int fds[EXEC_FDS_MAX];

    take_request(sock, EXEC_STDIN | EXEC_STDOUT | EXEC_STDERR, fds, 3);
    tell(sock, EXEC_MSG_STARTED, 1, 2, "", -1);
    tell(sock, EXEC_MSG_EXITED, value, extra, "", -1);
}

static void play_not_found(int sock) {
    play_end(sock, ENOENT, EXEC_END_NOEXEC);
}

static void play_not_executable(int sock) {
    play_end(sock, EACCES, EXEC_END_NOEXEC);
}

static void play_timeout(int sock) {
    play_end(sock, SIGTERM, EXEC_END_TIMEOUT);
}

static void play_signal(int sock) {
    play_end(sock, SIGSEGV, 0);
}

static void play_lost(int sock) {
    int fds[EXEC_FDS_MAX];

    take_request(sock, EXEC_STDIN | EXEC_STDOUT | EXEC_STDERR, fds, 3);
    tell(sock, EXEC_MSG_STARTED, 1, 2, "", -1);
}

static void test_statuses(void **state) {
    static const struct {
        keeper *play;
        int status;
    } cases[] = {
        {play_not_found, 127},        {play_not_executable, 126}, {play_timeout, 124},
        {play_signal, 128 + SIGSEGV}, {play_lost, 128 + SIGKILL},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(run_client(cases[i].play, out, sizeof out), cases[i].status);
}

/* -- attached ---------------------------------------------------------------------------------------------------------------- */

static void play_attached(int sock) {
    struct buf body = BUF_INIT(4096);
    struct exec_msg m;
    size_t n_fds = 0;

    MUST(execmsg_recv(sock, &m, &body, NULL, &n_fds) == 1 && m.type == EXEC_MSG_ATTACH && m.value == 4 && m.extra == 100);
    tell(sock, EXEC_MSG_STARTED, 4, 2, "", -1);
    tell(sock, EXEC_MSG_OUTPUT, 1, 0, "old\033[2J", -1);
    n_fds = 0;
    MUST(execmsg_recv(sock, &m, &body, NULL, &n_fds) == 1 && m.type == EXEC_MSG_INPUT && str_eq(buf_str(&body), "typed\020\021"));
    n_fds = 0;
    MUST(execmsg_recv(sock, &m, &body, NULL, &n_fds) == 1 && m.type == EXEC_MSG_INPUT && m.len == 0);
    tell(sock, EXEC_MSG_EXITED, W_EXITCODE(5, 0), 0, "", -1);
    buf_done(&body);
}

/* Bytes of a pipe are data: keys that detach are for people. What does not go to a terminal is not filtered. */
static void test_attach_with_pipes(void **state) {
    const struct attach_options opt = {.sandbox = "x", .job = 4, .history = 100};
    int sock, in[2], out[2], status;
    pid_t pid, client;
    char text[64] = "";

    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(write(in[1], "typed\020\021", 7), 7);
    close(in[1]);
    pid = start_keeper(play_attached, &sock);
    client = fork();
    assert_true(client >= 0);
    if (client == 0) {
        struct exec_result result;
        struct err err = {0};
        bool detached = true;

        MUST(dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1);
        MUST(exec_attach(sock, &opt, &result, &detached, &err) == 0 && !detached && result.job == 4);
        _exit(result.status);
    }
    close(out[1]);
    assert_int_equal(waitpid(client, &status, 0), client);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
    assert_int_equal(read(out[0], text, sizeof text - 1), 7);
    assert_string_equal(text, "old\033[2J");
    close(out[0]);
    close(in[0]);
    end_keeper(pid, sock);
}

static void test_detach_keys(void **state) {
    static const struct {
        const char *text, *keys; /* keys NULL: refused */
    } cases[] = {
        {"ctrl-p,ctrl-q", "\020\021"},
        {"ctrl-]", "\035"},
        {"a,b,ctrl-x", "ab\030"},
        {"", ""},
        {"ctrl-", NULL},
        {"ctrl-@", NULL},
        {"ctrl-P", NULL},
        {"ab", NULL},
        {"a,", NULL},
        {",a", NULL},
        {"\n", NULL},
        {"ctrl-pp", NULL},
        {"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char keys[EXEC_KEYS_MAX + 1] = "unset";
        struct err err = {0};
        int r = exec_detach_keys(cases[i].text, keys, &err);

        assert_int_equal(r, cases[i].keys ? 0 : -EINVAL);
        assert_string_equal(keys, cases[i].keys ? cases[i].keys : "unset");
        assert_int_equal(err_exit_status(&err), cases[i].keys ? EXIT_SANDBOX : EXIT_USAGE_ERR);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background),
        cmocka_unit_test(test_refusal_is_shown_escaped),
        cmocka_unit_test(test_keeper_dies),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_output_is_whole_and_holders_are_not_waited_for),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_attach_with_pipes),
        cmocka_unit_test(test_detach_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
