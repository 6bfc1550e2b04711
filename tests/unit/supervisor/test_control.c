/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: only the user's own processes talk to a supervisor; a client cannot stop it, whatever it does; nothing stays behind. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_client.h"

static char dir[64];
static bool stop;

static int setup(void **state) {
    snprintf(dir, sizeof dir, "/tmp/bawn-control-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    return setenv("XDG_RUNTIME_DIR", dir, 1);
}

static int teardown(void **state) {
    return remove_tree(AT_FDCWD, dir);
}

static void echo(void *arg, const json_t *request, struct buf *answer) {
    buf_adds(answer, "{\"ok\":true,\"cmd\":");
    buf_add_json(answer, json_string_value(json_object_get(request, "cmd")));
    for (json_int_t i = json_integer_value(json_object_get(request, "pad")); i > 0; i--)
        buf_adds(answer, "          ");
    buf_addc(answer, '}');
}

static void *serve(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        struct pollfd fds[CONTROL_POLL_MAX];
        size_t n = control_server_poll(arg, fds);

        poll(fds, n, 10);
        control_server_handle(arg);
    }
    return NULL;
}

struct scene {
    struct control_server *c;
    pthread_t thread;
    char path[100];
};

static void begin(struct scene *s) {
    struct err err = {0};

    stop = false;
    if (control_server_new(environ, echo, NULL, &s->c, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(s->path, sizeof s->path, "%s/bawn/%d.sock", dir, (int)getpid());
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s->c), 0);
}

static void end(struct scene *s) {
    __atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
    pthread_join(s->thread, NULL);
    control_server_free(s->c);
}

static void test_call(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    CLEANUP(strv_done) struct strv list = {0};
    struct err err = {0};
    struct stat st;
    struct scene s;

    begin(&s);
    assert_int_equal(stat(s.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(control_list(&list, &err), 0);
    assert_int_equal(list.len, 1);
    assert_string_equal(list.v[0], s.path);
    assert_int_equal(control_call(list.v[0], "{\"cmd\":\"hello\"}", &answer, &err), 0);
    assert_string_equal(buf_str(&answer), "{\"ok\":true,\"cmd\":\"hello\"}");
    buf_clear(&answer);
    assert_int_equal(control_call(list.v[0], "[1]", &answer, &err), 0);
    assert_non_null(strstr(buf_str(&answer), "\"ok\":false"));
    end(&s);
    assert_int_equal(stat(s.path, &st), -1);
}

static void test_large_answer(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    struct err err = {0};
    struct scene s;

    begin(&s);
    assert_int_equal(control_call(s.path, "{\"cmd\":\"x\",\"pad\":300000}", &answer, &err), 0);
    assert_true(answer.len > 3000000);
    end(&s);
}

static int dial(const struct scene *s) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "%s", s->path);
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? fd : -1;
}

/* More silent clients than there are places, one that sends without end, one that does not read: the next one is answered. */
static void test_rude_clients(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    static char much[CONTROL_LINE_MAX + 4096];
    int rude[8];
    struct err err = {0};
    struct scene s;

    begin(&s);
    memset(much, 'x', sizeof much);
    for (size_t i = 0; i < ARRAY_LEN(rude); i++) {
        rude[i] = dial(&s);
        assert_true(rude[i] >= 0);
        assert_true(send(rude[i], "{\"cmd\":\"x\",\"pad\":300000}\n", i % 2 ? 10 : 25, MSG_NOSIGNAL) > 0);
    }
    send(rude[7], much, sizeof much, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_int_equal(control_call(s.path, "{\"cmd\":\"hello\"}", &answer, &err), 0);
    assert_string_equal(buf_str(&answer), "{\"ok\":true,\"cmd\":\"hello\"}");
    for (size_t i = 0; i < ARRAY_LEN(rude); i++)
        close(rude[i]);
    end(&s);
}

/* What kill -9 left is not listed, and the next supervisor removes it; another one that lives is left alone. */
static void test_sweep(void **state) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    CLEANUP(closep)
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), alive = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CLEANUP(strv_done) struct strv list = {0};
    struct err err = {0};
    char path[100], other[100];
    struct scene s;

    snprintf(path, sizeof path, "%s/bawn", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/bawn/1.sock", dir);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(bind(dead, (struct sockaddr *)&a, sizeof a), 0);
    closep(&dead);
    snprintf(other, sizeof other, "%s/bawn/2.sock", dir);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", other);
    assert_int_equal(bind(alive, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(alive, 1), 0);
    assert_int_equal(control_list(&list, &err), 0);
    assert_int_equal(list.len, 1);
    assert_string_equal(list.v[0], other);
    begin(&s);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    end(&s);
}

/* A folder into which others may write could lead clients to somebody else's socket. */
static void test_folder_of_others(void **state) {
    struct control_server *c = NULL;
    struct err err = {0};
    char path[100];

    snprintf(path, sizeof path, "%s/bawn", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(control_server_new(environ, echo, NULL, &c, &err), -EPERM);
}

#define CONTROL_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(test_call),  CONTROL_TEST(test_large_answer),     CONTROL_TEST(test_rude_clients),
        CONTROL_TEST(test_sweep), CONTROL_TEST(test_folder_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
