/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of bawn-broker, with a broker that the test plays: this program again, started as "bawn-broker". Words on the
 * gate's socket say what it shall do; its answers say what it heard.
 *
 * Claims: it is born with its three sockets and nothing else; it can crash, lie and ask for what it may not have without hurting the
 * run; another one comes after a pause, and not for ever; what it used is told, also after its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sock.h"
#include "supervisor/credential/broker_process.h"
#include "supervisor/watch/limit_watch.h"

/* The broker ----------------------------------------------------------------------------------------------------- */

static void tell(const char *fmt, ...) {
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (sock_send(BROKER_FD_GATE, text, strlen(text), NULL, 0) < 0)
        _exit(9);
}

static void ask(uint32_t type, uint32_t index, int32_t value) {
    struct broker_msg m = {.type = type,
                           .count = type == BROKER_MSG_USED,
                           .index = index,
                           .value = value,
                           .port = 443,
                           .host = "api.example",
                           .method = "GET"};

    snprintf(m.text, sizeof m.text, "SHA256:abc");
    if (sock_send(BROKER_FD_SUPERVISOR, &m, sizeof m, NULL, 0) < 0)
        _exit(9);
}

/* "type index value descriptors first-bytes-of-a-memfd" */
static void hear(void) {
    struct broker_msg m;
    char text[64] = "";
    int fd = -1;
    size_t n = 1;

    if (sock_recv(BROKER_FD_SUPERVISOR, &m, sizeof m, &fd, &n) != (long)sizeof m)
        _exit(0);
    if (m.type == BROKER_MSG_CONFIG && pread(fd, text, sizeof text - 1, 0) < 0)
        _exit(9);
    closep(&fd);
    tell("%u %u %d %zu %s", m.type, m.index, m.value, n, text);
}

static void count_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    struct stat st;
    size_t n = 0;

    while ((e = readdir(d)))
        n += e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != dirfd(d);
    closedir(d);
    tell("%zu descriptors, %s environment, CA %s", n, environ && environ[0] ? "an" : "no",
         fstat(BROKER_FD_CA, &st) == 0 && S_ISDIR(st.st_mode) ? "folder" : "none");
}

static void obey(const char *word) {
    if (str_eq(word, "fds"))
        count_descriptors();
    else if (str_eq(word, "hear"))
        hear();
    else if (str_eq(word, "crash"))
        abort();
    else if (str_eq(word, "lie"))
        sock_send(BROKER_FD_SUPERVISOR, "lie", 3, NULL, 0);
    else if (str_eq(word, "value"))
        ask(BROKER_MSG_WANT_VALUE, 0, 0);
    else if (str_eq(word, "foreign"))
        ask(BROKER_MSG_WANT_VALUE, 1, 0);
    else if (str_eq(word, "wrong way"))
        ask(BROKER_MSG_CONFIG, 0, 0);
    else if (str_eq(word, "agent"))
        ask(BROKER_MSG_WANT_AGENT, 0, 0);
    else if (str_eq(word, "used"))
        ask(BROKER_MSG_USED, 0, 0);
    else if (str_eq(word, "used ssh"))
        ask(BROKER_MSG_USED, UINT32_MAX, 0);
    else if (str_eq(word, "refused"))
        ask(BROKER_MSG_USED, 0, -EACCES);
}

static void be_broker(void) {
    char word[64];
    long n;

    while ((n = sock_recv(BROKER_FD_GATE, word, sizeof word - 1, NULL, NULL)) > 0) {
        word[n] = 0;
        obey(word);
    }
    _exit(0);
}

/* The test --------------------------------------------------------------------------------------------------------- */

struct scene {
    char dir[64];
    struct grant grant;
    char *environ_[3];
    struct brokerkeeper *b;
    int gate;
    struct buf used;
};

static struct buf seen = BUF_INIT(1 << 16);

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static void note_used(void *arg, const struct broker_msg *m, const struct grant *grant) {
    struct scene *s = arg;

    buf_addf(&s->used, "%s %s:%u %s %d\n", grant ? grant->c.name : m->text, m->host, m->port, m->method, m->value);
}

static void begin_with(struct scene *s, const char *agent, bool ssh) {
    struct broker_opts o = {
        .grants = &s->grant, .n_grants = 1, .ssh = ssh, .program = "/proc/self/exe", .used = note_used, .arg = s};
    struct err err = {0};

    *s = (struct scene){.dir = "/tmp/bawn-test-XXXXXX", .gate = -1, .used = BUF_INIT(1 << 16)};
    assert_non_null(mkdtemp(s->dir));
    s->grant.c.name = "anthropic";
    s->environ_[0] = str_dupf("SSH_AUTH_SOCK=%s", agent ? agent : "/nonexistent");
    o.environ_ = s->environ_;
    o.state = s->dir;
    buf_clear(&seen);
    assert_int_equal(brokerkeeper_new(&o, &s->b, &err), 0);
}

static void begin(struct scene *s) {
    begin_with(s, NULL, false);
}

static int memfd(const char *text) {
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static int start(struct scene *s, const char *config) {
    struct err err = {0};

    closep(&s->gate);
    return brokerkeeper_start(s->b, memfd(config), &s->gate, &err);
}

/* One that may have to wait for the pause. */
static void start_again(struct scene *s) {
    int r;

    while ((r = start(s, "again")) == -EAGAIN)
        poll(NULL, 0, brokerkeeper_pause(s->b));
    assert_int_equal(r, 0);
}

static void turn(struct scene *s) {
    struct pollfd p[BROKERKEEPER_POLL_MAX];
    size_t n = brokerkeeper_poll(s->b, p);

    poll(p, n, 5);
    brokerkeeper_handle(s->b);
}

static void order(struct scene *s, const char *word) {
    assert_int_equal(sock_send(s->gate, word, strlen(word), NULL, 0), 0);
}

/* Runs the loop until the broker has said something on the gate's socket. */
static void expect(struct scene *s, const char *text) {
    char got[512];
    ssize_t n;

    while ((n = recv(s->gate, got, sizeof got - 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        turn(s);
    assert_true(n > 0);
    got[n] = 0;
    assert_string_equal(got, text);
}

static void until_gone(struct scene *s) {
    while (brokerkeeper_runs(s->b))
        turn(s);
}

static void end(struct scene *s) {
    closep(&s->gate);
    brokerkeeper_free(s->b);
    buf_done(&s->used);
    free(s->environ_[0]);
    assert_int_equal(remove_tree(AT_FDCWD, s->dir), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

static void test_born(void **state) {
    struct scene s;

    begin(&s);
    assert_true(brokerkeeper_needed(s.b));
    assert_false(brokerkeeper_runs(s.b));
    assert_int_equal(start(&s, "first"), 0);
    order(&s, "fds");
    expect(&s, "6 descriptors, no environment, CA none");
    order(&s, "hear");
    expect(&s, "1 0 0 1 first");
    brokerkeeper_config(s.b, memfd("second"));
    order(&s, "hear");
    expect(&s, "1 0 0 1 second");
    end(&s);
    assert_string_equal(buf_str(&seen), "");
}

static void test_dies_and_comes_again(void **state) {
    struct scene s;

    begin(&s);
    assert_int_equal(start(&s, "x"), 0);
    order(&s, "crash");
    until_gone(&s);
    assert_non_null(strstr(buf_str(&seen), "bawn-broker was ended by signal 6"));
    assert_int_equal(start(&s, "x"), -EAGAIN); /* not at once */
    assert_true(brokerkeeper_pause(s.b) > 0);
    start_again(&s);
    order(&s, "hear");
    expect(&s, "1 0 0 1 again");
    end(&s);
}

static void test_pauses_grow(void **state) {
    int pause, last = 0;
    struct scene s;

    begin(&s);
    for (int i = 0; i < 3; i++) {
        start_again(&s);
        pause = brokerkeeper_pause(s.b);
        assert_true(pause > last);
        last = pause;
        brokerkeeper_end(s.b, false);
    }
    brokerkeeper_end(s.b, true); /* another gate begins anew */
    assert_int_equal(start(&s, "x"), 0);
    end(&s);
}

static void test_lies(void **state) {
    static const char *const words[] = {"lie", "foreign", "wrong way"};
    struct scene s;

    begin(&s);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        start_again(&s);
        order(&s, words[i]);
        until_gone(&s);
    }
    end(&s);
    assert_non_null(strstr(buf_str(&seen), "it did not keep to the protocol"));
}

/* Beside this program there is no bawn-vault, which the broker hears. */
static void test_no_vault(void **state) {
    struct scene s;

    begin(&s);
    assert_int_equal(start(&s, "x"), 0);
    order(&s, "hear");
    expect(&s, "1 0 0 1 x");
    for (int i = 0; i < 2; i++) {
        order(&s, "value");
        order(&s, "hear");
        expect(&s, "2 0 2 0 ");
    }
    end(&s);
    assert_non_null(strstr(buf_str(&seen), "find bawn-vault"));
    assert_null(strstr(strstr(buf_str(&seen), "find bawn-vault") + 1, "find bawn-vault"));
}

static void test_agent(void **state) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct scene s;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "/tmp/bawn-test-agent-%d", (int)getpid());
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    begin_with(&s, a.sun_path, true);
    assert_int_equal(start(&s, "x"), 0);
    order(&s, "hear");
    expect(&s, "1 0 0 1 x");
    order(&s, "agent");
    order(&s, "hear");
    expect(&s, "3 0 0 1 ");
    close(fd);
    unlink(a.sun_path);
    order(&s, "agent");
    order(&s, "hear");
    expect(&s, "3 0 2 0 ");
    end(&s);
    begin(&s); /* this run has no ssh-agent, whatever there is outside */
    assert_int_equal(start(&s, "x"), 0);
    order(&s, "hear");
    expect(&s, "1 0 0 1 x");
    order(&s, "agent");
    order(&s, "hear");
    expect(&s, "3 0 13 0 ");
    end(&s);
}

static void test_used(void **state) {
    char path[128];
    struct stat st;
    struct scene s;

    begin(&s);
    assert_int_equal(start(&s, "x"), 0);
    order(&s, "used");
    order(&s, "used ssh");
    order(&s, "refused");
    order(&s, "fds");
    expect(&s, "6 descriptors, no environment, CA none"); /* it has said all of it */
    brokerkeeper_end(s.b, true);                          /* last words are heard, too */
    assert_string_equal(buf_str(&s.used), "anthropic api.example:443 GET 0\nSHA256:abc api.example:443 GET 0\n"
                                          "anthropic api.example:443 GET -13\n");
    snprintf(path, sizeof path, "%s/secret-use/anthropic", s.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    end(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_born),        cmocka_unit_test(test_dies_and_comes_again),
        cmocka_unit_test(test_pauses_grow), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_no_vault),    cmocka_unit_test(test_agent),
        cmocka_unit_test(test_used),
    };

    if (argc > 0 && str_eq(argv[0], "bawn-broker"))
        be_broker();
    log_set_sink(sink);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
