/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gatekeeper with a gate that the test plays: this program again, started as "bawn-gate". The sandbox's TCP listener is one on loopback;
 * who connects says what the gate shall do, and reads what it heard.
 *
 * Claims: no gate before it is needed; it is born with its descriptors and nothing else; it can crash, hang, flood and lie without
 * hurting the run; rules reach it, also when they change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sock.h"
#include "policy/rules/verdict.h"
#include "proto/initmsg.h"
#include "supervisor/control/control_client.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"
#include "supervisor/network/gate_process.h"

enum { FLOOD = 10000 };

/* The gate ------------------------------------------------------------------------------------------------------ */

static void tell(int fd, const char *fmt, ...) {
    char text[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (fd_write_all(fd, text, strlen(text)) < 0)
        _exit(9);
}

/* The next message as words: "config 2 <text of the first layer>", "answer 7 1". */
static void hear(int fd) {
    static char bytes[GATE_CONFIG_MAX];
    struct gate_config c = {0};
    struct gate_msg m;
    int got[1] = {-1};
    size_t n_fds = 1;
    ssize_t n;

    if (sock_recv(GATE_FD_CONTROL, &m, sizeof m, got, &n_fds) != (long)sizeof m)
        _exit(0);
    if (m.type == GATE_MSG_STOP)
        _exit(0);
    if (m.type != GATE_MSG_CONFIG) {
        tell(fd, "message %u id %u value %d fd %zu\n", m.type, m.id, m.value, n_fds);
        return;
    }
    n = pread(got[0], bytes, sizeof bytes, 0);
    if (n < 0 || gate_config_decode(bytes, (size_t)n, &c) < 0)
        _exit(8);
    if (fd >= 0)
        tell(fd, "config %u layers %zu ask %d: %s\n", c.generation, c.n_layers, c.can_ask, c.n_layers ? c.layers[0].text : "");
    m = (struct gate_msg){.type = GATE_MSG_READY, .value = (int32_t)c.generation};
    sock_send(GATE_FD_CONTROL, &m, sizeof m, NULL, 0);
    gate_config_done(&c);
    close(got[0]);
}

static void list_descriptors(int fd) {
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    size_t n = 0;

    while ((e = readdir(d)))
        if (e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != dirfd(d) && strtol(e->d_name, NULL, 10) != fd)
            n++;
    closedir(d);
    tell(fd, "%zu descriptors, %s environment, group %s\n", n, environ && environ[0] ? "an" : "no",
         getpgrp() == getpid() ? "own" : "other");
}

static void say(uint32_t type, uint32_t id, uint32_t port, const char *host) {
    struct gate_msg m = {
        .type = type, .id = id, .port = port, .kind = GATE_EVENT_LOOKUP, .action = RULE_DENY, .code = POLICY_DENIED_HOST};

    snprintf(m.host, sizeof m.host, "%s", host);
    sock_send(GATE_FD_CONTROL, &m, sizeof m, NULL, 0);
}

static void obey(int fd, const char *word) {
    if (str_eq(word, "fds"))
        list_descriptors(fd);
    else if (str_eq(word, "crash"))
        abort();
    else if (str_eq(word, "lie"))
        sock_send(GATE_FD_CONTROL, "lie", 3, NULL, 0);
    else if (str_eq(word, "hang"))
        raise(SIGSTOP);
    else if (str_eq(word, "flood"))
        for (int i = 0; i < FLOOD; i++)
            say(GATE_MSG_EVENT, 0, 443, "evil.example");
    else if (str_eq(word, "ask"))
        say(GATE_MSG_ASK, 7, 443, "asked.example");
    else if (str_eq(word, "inside"))
        say(GATE_MSG_WANT_INSIDE, 8, 3000, "");
    else if (str_eq(word, "elsewhere"))
        say(GATE_MSG_WANT_INSIDE, 9, 22, "");
    else if (str_eq(word, "broker"))
        say(GATE_MSG_WANT_BROKER, 0, 0, "");
    else if (str_eq(word, "hear"))
        hear(fd);
    tell(fd, "done %s\n", word);
}

static void NORETURN fake_gate(void) {
    char word[64];

    hear(-1);
    for (;;) {
        struct pollfd p[] = {{.fd = GATE_FD_TCP4, .events = POLLIN}, {.fd = GATE_FD_CONTROL, .events = POLLIN}};
        int fd;
        ssize_t n;

        poll(p, 2, -1);
        if (p[1].revents)
            hear(-1);
        fd = accept4(GATE_FD_TCP4, NULL, NULL, SOCK_CLOEXEC);
        while (fd >= 0 && (n = read(fd, word, sizeof word - 1)) > 0) {
            word[n] = 0;
            obey(fd, word);
        }
        if (fd >= 0)
            close(fd);
    }
}

/* The supervisor ------------------------------------------------------------------------------------------------- */

static struct buf seen = BUF_INIT(1 << 16);

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

struct scene {
    char dir[64], rules_path[128], state[128];
    struct settings settings;
    struct policy_where where;
    struct published published;
    struct asker *asker;
    struct gatekeeper *g;
    int port, init[2];
    struct buf heard;
};

static int listener(int *ret_port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void write_rules(const struct scene *s, const char *text) {
    CLEANUP(freep) char *new = str_dupf("%s.new", s->rules_path);
    int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
    assert_int_equal(rename(new, s->rules_path), 0);
}

static void make_folders(struct scene *s) {
    CLEANUP(freep) char *config = NULL;

    snprintf(s->dir, sizeof s->dir, "/tmp/bawn-gate-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    config = str_dupf("%s/bawn", s->dir);
    assert_int_equal(mkdir(config, 0700), 0);
    snprintf(s->rules_path, sizeof s->rules_path, "%s/bawn/network.json", s->dir);
    snprintf(s->state, sizeof s->state, "%s/state", s->dir);
    setenv("XDG_CONFIG_HOME", s->dir, 1);
    setenv("XDG_STATE_HOME", s->state, 1);
    setenv("XDG_RUNTIME_DIR", s->dir, 1);
}

static void begin(struct scene *s) {
    CLEANUP(policy_files_done) struct policy_files files = {0};
    CLEANUP(strv_done) struct strv publish = {0};
    struct gate_opts o = {.listeners = {-1, -1, -1, -1}, .inside = {-1, -1}, .sandbox = "test", .program = "/proc/self/exe"};
    struct err err = {0};

    *s = (struct scene){.heard = BUF_INIT(1 << 20)};
    make_folders(s);
    write_rules(s, "{\"rules\": [{\"action\": \"allow\", \"host\": \"first.example\"}]}");
    s->settings = (struct settings){.net.mode = NETWORK_LIST, .net.ceiling = NETWORK_FULL, .question.timeout_ms = 60000};
    s->where = (struct policy_where){.settings = &s->settings,
                                     .workspace = s->dir,
                                     .workspace_fd = -1,
                                     .home = s->dir,
                                     .environ_ = environ,
                                     .organisation = "/nonexistent"};
    s->where.workspace_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (policy_files_load(&s->where, &files, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(strv_add(&publish, "3000:0"), 0);
    assert_int_equal(published_open(&publish, &s->published, &err), 0);
    assert_int_equal(sock_pair(s->init), 0);
    assert_int_equal(asker_new(&(struct asker_opts){.timeout_ms = 60000}, &s->asker, &err), 0);
    o.where = &s->where;
    o.state = s->state;
    o.asker = s->asker;
    o.published = &s->published;
    o.init_control = s->init[0];
    o.listeners[0] = listener(&s->port);
    for (size_t i = 0; i < GATE_NAMED_MAX; i++)
        o.named[i] = -1;
    buf_clear(&seen);
    if (gatekeeper_new(&o, &files, &s->g, &err) < 0)
        fail_msg("%s", err.msg);
}

static void end(struct scene *s) {
    gatekeeper_free(s->g);
    asker_free(s->asker);
    close(s->where.workspace_fd);
    close(s->init[0]);
    close(s->init[1]);
    buf_done(&s->heard);
    assert_int_equal(remove_tree(AT_FDCWD, s->dir), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

static void turn(struct scene *s, int most) {
    struct pollfd fds[GATE_POLL_MAX];
    size_t n = gatekeeper_poll(s->g, fds);
    int t = gatekeeper_timeout(s->g);

    poll(fds, n, t < 0 ? most : MIN_OF(t, most));
    gatekeeper_handle(s->g, fds, n);
}

static int dial(const struct scene *s) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)s->port)};

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Sends a word, and runs the loop until the text comes back (NULL: until the connection is lost). */
static void order(struct scene *s, int fd, const char *word, const char *until) {
    char part[4096];

    assert_true(send(fd, word, strlen(word), MSG_NOSIGNAL) > 0);
    buf_clear(&s->heard);
    for (;;) {
        ssize_t n = recv(fd, part, sizeof part, MSG_DONTWAIT);

        if (n > 0)
            buf_add(&s->heard, part, (size_t)n);
        if (until ? strstr(buf_str(&s->heard), until) != NULL : n == 0 || (n < 0 && errno != EAGAIN))
            return;
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        turn(s, 5);
    }
}

static void test_started_when_needed(void **state) {
    struct pollfd fds[GATE_POLL_MAX];
    struct scene s;
    int fd;

    begin(&s);
    turn(&s, 20);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child yet */
    assert_int_equal(gatekeeper_poll(s.g, fds), 2);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    assert_string_equal(buf_str(&s.heard), "9 descriptors, no environment, group own\ndone fds\n");
    close(fd);
    end(&s);
    assert_string_equal(buf_str(&seen), "");
}

static void test_crash(void **state) {
    struct scene s;
    int fd;

    begin(&s);
    for (int i = 0; i < 3; i++) {
        fd = dial(&s);
        order(&s, fd, "crash", NULL);
        close(fd);
    }
    fd = dial(&s);
    order(&s, fd, "fds", "done fds"); /* the fourth gate serves as the first did */
    close(fd);
    end(&s);
    assert_non_null(strstr(buf_str(&seen), "ended by signal 6"));
    assert_null(strstr(strstr(buf_str(&seen), "ended by") + 1, "ended by"));
}

static void test_lie(void **state) {
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "lie", NULL);
    close(fd);
    assert_non_null(strstr(buf_str(&seen), "did not keep to the protocol"));
    end(&s);
}

/* A gate that stands still costs no more than a moment at the end. */
static void test_hang(void **state) {
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    assert_true(send(fd, "hang", 4, MSG_NOSIGNAL) > 0);
    for (int i = 0; i < 20; i++)
        turn(&s, 5);
    for (int i = 0; i < 5000; i++) /* more than it can be sent, and then it is given up */
        gatekeeper_inside(s.g, 1, ECONNREFUSED, -1);
    assert_non_null(strstr(buf_str(&seen), "did not listen"));
    close(fd);
    end(&s);
}

static void test_flood(void **state) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(1 << 20);
    char path[256], line[2048];
    size_t n = 0;
    struct scene s;
    FILE *f;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "flood", "done flood");
    close(fd);
    gatekeeper_finish(s.g);
    gatekeeper_json(s.g, &json);
    assert_string_equal(buf_str(&json),
                        "\"network\":{\"reached\":[],\"refused\":[{\"host\":\"evil.example\",\"port\":443,\"count\":10000,"
                        "\"code\":\"BAWN_NET_DENIED_HOST\"}],\"failed\":[],\"secrets\":[]}");
    snprintf(path, sizeof path, "%s/log/network.jsonl", s.state);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *count = strstr(line, "\"count\":"); /* what is past the sandbox's share is merged */

        n += count ? strtoul(count + strlen("\"count\":"), NULL, 10) : 1;
    }
    fclose(f);
    assert_int_equal(n, FLOOD);
    end(&s);
}

static void test_reload(void **state) {
    CLEANUP(freep) char *path = NULL;
    uint64_t begun = clock_ms();
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    write_rules(&s, "{\"rules\": [");
    while (!strstr(buf_str(&seen), "stay as they were"))
        turn(&s, 5);
    write_rules(&s, "{\"rules\": [{\"action\": \"deny\", \"host\": \"second.example\"}]}");
    order(&s, fd, "hear", "done hear");
    assert_non_null(strstr(buf_str(&s.heard), "config 2 layers 1"));
    assert_non_null(strstr(buf_str(&s.heard), "second.example"));
    path = str_dupf("%s/.bawn", s.dir); /* a project's file, in a folder that nobody could watch before */
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(s.rules_path, sizeof s.rules_path, "%s/network.json", path);
    while (clock_ms() < begun + 1000)
        turn(&s, 5);
    write_rules(&s, "{\"rules\": [{\"action\": \"deny\", \"host\": \"third.example\"}]}");
    order(&s, fd, "hear", "done hear");
    assert_non_null(strstr(buf_str(&s.heard), "config 3 layers 2"));
    close(fd);
    end(&s);
}

static void call(struct scene *s, const char *request, struct buf *answer) {
    CLEANUP(freep) char *path = str_dupf("%s/bawn/%d.sock", s->dir, (int)getpid());
    struct err err = {0};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        CLEANUP(freep) char *out = str_dupf("%s/answer", s->dir);
        CLEANUP(buf_done) struct buf b = BUF_INIT(CONTROL_ANSWER_MAX);
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        _exit(control_call(path, request, &b, &err) == 0 && fd_write_all(fd, buf_str(&b), b.len) == 0 ? 0 : 1);
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        turn(s, 5);
    assert_int_equal(status, 0);
    {
        CLEANUP(freep) char *in = str_dupf("%s/answer", s->dir);
        static char text[65536];

        assert_true(fd_read_file_at(AT_FDCWD, in, text, sizeof text) > 0);
        buf_clear(answer);
        buf_adds(answer, text);
    }
}

/* Session: the rule is in force before the connection hears its answer, so that the next one finds it. */
static void test_ask(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(1 << 16);
    static char text[65536];
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "ask", "done ask");
    call(&s, "{\"cmd\":\"pending\"}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"id\":1,\"host\":\"asked.example\",\"port\":443"));
    call(&s, "{\"cmd\":\"answer\",\"id\":1,\"answer\":\"session\"}", &answer);
    assert_string_equal(buf_str(&answer), "{\"ok\":true}");
    order(&s, fd, "hear", "done hear");
    assert_non_null(strstr(buf_str(&s.heard), "config 2 layers 2 ask 1"));
    assert_non_null(strstr(buf_str(&s.heard), "asked.example"));
    order(&s, fd, "hear", "done hear");
    assert_string_equal(buf_str(&s.heard), "message 2 id 7 value 2 fd 0\ndone hear\n");
    assert_true(fd_read_file_at(AT_FDCWD, s.rules_path, text, sizeof text) > 0);
    assert_null(strstr(text, "asked.example"));

    order(&s, fd, "ask", "done ask");
    call(&s, "{\"cmd\":\"answer\",\"id\":2,\"answer\":\"always\"}", &answer);
    assert_true(fd_read_file_at(AT_FDCWD, s.rules_path, text, sizeof text) > 0);
    assert_non_null(strstr(text, "asked.example"));
    assert_non_null(strstr(text, "first.example"));
    close(fd);
    end(&s);
}

static void test_commands(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(1 << 16);
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    call(&s, "{\"cmd\":\"allow\",\"rule\":{\"host\":\"new.example\",\"ports\":[443]}}", &answer);
    assert_string_equal(buf_str(&answer), "{\"ok\":true,\"id\":\"allow-new.example\",\"generation\":2}");
    call(&s, "{\"cmd\":\"deny\",\"rule\":{\"host\":\"new.example\",\"action\":\"allow\"}}", &answer);
    assert_string_equal(buf_str(&answer), "{\"ok\":true,\"id\":\"deny-new.example\",\"generation\":3}");
    call(&s, "{\"cmd\":\"allow\",\"rule\":{\"host\":\"bad host\"}}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"ok\":false"));
    call(&s, "{\"cmd\":\"rules\"}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"layer\":\"session\""));
    assert_non_null(strstr(buf_str(&answer), "first.example"));
    call(&s, "{\"cmd\":\"status\"}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"generation\":3"));
    call(&s, "{\"cmd\":\"nonsense\"}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"ok\":false"));
    close(fd);
    end(&s);
}

/* The last word counts, also if the same one was said before. */
static void test_the_last_rule_decides(void **state) {
    static const char *const words[] = {"allow", "deny", "allow", "deny"};
    CLEANUP(buf_done) struct buf answer = BUF_INIT(1 << 16);
    struct scene s;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        CLEANUP(freep) char *request = str_dupf("{\"cmd\":\"%s\",\"rule\":{\"host\":\"new.example\"}}", words[i]);
        CLEANUP(freep) char *id = str_dupf("%s-new.example", words[i]), *other = str_dupf("%s-new.example", words[(i + 1) % 2]);
        const char *at;

        call(&s, request, &answer);
        assert_non_null(strstr(buf_str(&answer), id));
        call(&s, "{\"cmd\":\"rules\"}", &answer);
        at = strstr(buf_str(&answer), id);
        assert_non_null(at);
        if (i > 0)
            assert_true(strstr(buf_str(&answer), other) > at);
    }
    close(fd);
    end(&s);
}

static void grant(struct scene *s, int id, const char *how) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(1 << 16);
    CLEANUP(freep) char *said = str_dupf("{\"cmd\":\"answer\",\"id\":%d,\"answer\":\"%s\"}", id, how);

    call(s, "{\"cmd\":\"request\",\"kind\":\"network\",\"value\":\"more.example\",\"reason\":\"r\"}", &answer);
    assert_non_null(strstr(buf_str(&answer), "\"ok\":true"));
    call(s, said, &answer);
    assert_non_null(strstr(buf_str(&answer), "\"ok\":true"));
}

/* A rule that ends within the minute does not stand for the one that is to stay. */
static void test_session_after_once(void **state) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(1 << 16);
    struct scene s;
    const char *at;
    int fd;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    grant(&s, 1, "once");
    grant(&s, 2, "session");
    call(&s, "{\"cmd\":\"rules\"}", &answer);
    at = strstr(buf_str(&answer), "allow-more.example");
    assert_non_null(at);
    assert_non_null(strstr(at + 1, "allow-more.example"));
    close(fd);
    end(&s);
}

/* Each at its own time, whatever else is allowed meanwhile. */
static void test_once_ends(void **state) {
    struct gate_msg one = {.type = GATE_MSG_REQUEST, .host = "one.example", .port = 443}, two = one;
    struct gate_rules r = GATE_RULES_INIT;
    char id[RULE_ID_MAX + 1];
    struct err err = {0};

    snprintf(two.host, sizeof two.host, "two.example");
    assert_int_equal(gate_rules_add_once(&r, &one, 1000, &err), 0);
    assert_int_equal(gate_rules_add_once(&r, &two, 2000, &err), 0);
    assert_int_equal(gate_rules_once_ms(&r), 1000);
    assert_false(gate_rules_end_once(&r, 999));
    assert_true(gate_rules_end_once(&r, 1000));
    assert_int_equal(r.session.len, 1);
    assert_int_equal(gate_rules_add_once(&r, &two, 2500, &err), 0); /* again, before it ended */
    assert_false(gate_rules_end_once(&r, 2000));
    assert_int_equal(gate_rules_add_session(&r, "{\"action\":\"allow\",\"host\":\"two.example\",\"ports\":[443]}", id, &err), 0);
    assert_int_equal(r.session.len, 2);
    assert_true(gate_rules_end_once(&r, 2500));
    assert_int_equal(r.session.len, 1);
    assert_string_equal(r.session.v[0].id, id);
    assert_int_equal(gate_rules_once_ms(&r), 0);
    gate_rules_done(&r);
}

/* Only ports that the user published; and only what is a connection is handed on. */
static void test_inside(void **state) {
    struct init_msg msg;
    size_t n_fds = 0;
    struct scene s;
    int fd, port;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "elsewhere", "done elsewhere");
    order(&s, fd, "hear", "done hear");
    assert_string_equal(buf_str(&s.heard), "message 4 id 9 value 13 fd 0\ndone hear\n");
    order(&s, fd, "inside", "done inside");
    while (recv(s.init[1], &msg, sizeof msg, MSG_PEEK | MSG_DONTWAIT) < 0)
        turn(&s, 5);
    assert_int_equal(sock_recv(s.init[1], &msg, sizeof msg, NULL, &n_fds), sizeof msg);
    assert_int_equal(msg.type, INIT_MSG_INSIDE);
    assert_int_equal(msg.value, 3000);
    assert_int_equal(msg.extra, 8);
    gatekeeper_inside(s.g, 8, 0, open("/dev/null", O_RDWR | O_CLOEXEC));
    order(&s, fd, "hear", "done hear");
    assert_string_equal(buf_str(&s.heard), "message 4 id 8 value 71 fd 0\ndone hear\n");
    gatekeeper_inside(s.g, 8, 0, listener(&port));
    order(&s, fd, "hear", "done hear");
    assert_string_equal(buf_str(&s.heard), "message 4 id 8 value 0 fd 1\ndone hear\n");
    order(&s, fd, "broker", "done broker");
    order(&s, fd, "hear", "done hear"); /* there is no CA: it hears so */
    assert_string_equal(buf_str(&s.heard), "message 3 id 0 value 0 fd 0\ndone hear\n");
    close(fd);
    end(&s);
}

/* The next gate uses the same ids again: what its predecessor asked for is not its. */
static void test_inside_of_a_dead_gate(void **state) {
    struct init_msg msg;
    struct scene s;
    int fd, port;

    begin(&s);
    fd = dial(&s);
    order(&s, fd, "inside", "done inside");
    while (recv(s.init[1], &msg, sizeof msg, MSG_PEEK | MSG_DONTWAIT) < 0)
        turn(&s, 5);
    order(&s, fd, "crash", NULL);
    close(fd);
    fd = dial(&s);
    order(&s, fd, "fds", "done fds");
    gatekeeper_inside(s.g, 8, 0, listener(&port));
    order(&s, fd, "elsewhere", "done elsewhere");
    order(&s, fd, "hear", "done hear");
    assert_string_equal(buf_str(&s.heard), "message 4 id 9 value 13 fd 0\ndone hear\n");
    close(fd);
    end(&s);
}

/* No bawn-gate at all: told once, nothing else suffers. */
static void test_no_program(void **state) {
    struct gate_opts o = {
        .listeners = {-1, -1, -1, -1}, .inside = {-1, -1}, .sandbox = "test", .program = "/nonexistent", .init_control = -1};
    struct policy_files files = {0};
    struct err err = {0};
    struct scene s;
    int fd;

    begin(&s);
    gatekeeper_free(s.g);
    o.where = &s.where;
    o.listeners[0] = listener(&s.port);
    for (size_t i = 0; i < GATE_NAMED_MAX; i++)
        o.named[i] = -1;
    assert_int_equal(gatekeeper_new(&o, &files, &s.g, &err), 0);
    fd = dial(&s);
    for (int i = 0; i < 5; i++)
        turn(&s, 5);
    assert_non_null(strstr(buf_str(&seen), "find bawn-gate"));
    assert_int_equal(recv(fd, &(char){0}, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, ECONNRESET); /* refused, not left to wait */
    assert_true(gatekeeper_timeout(s.g) > 1000);
    close(fd);
    end(&s);
}

int main(int argc UNUSED, char **argv) {
    unsetenv("SSL_CERT_FILE"); /* the only variable that is passed on */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_started_when_needed),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_lie),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_ask),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_the_last_rule_decides),
        cmocka_unit_test(test_session_after_once),
        cmocka_unit_test(test_once_ends),
        cmocka_unit_test(test_inside),
        cmocka_unit_test(test_inside_of_a_dead_gate),
        cmocka_unit_test(test_no_program),
    };
    int r;

    if (str_eq(argv[0], "bawn-gate"))
        fake_gate();
    signal(SIGPIPE, SIG_IGN);
    log_set_sink(sink);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    buf_done(&seen);
    return r;
}
