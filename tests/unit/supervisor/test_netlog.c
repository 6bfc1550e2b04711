/* Claims: every event is one whole JSON line in a file that only the user reads; the file is bounded; counts are bounded, too. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/remove.h"
#include "policy/verdict.h"
#include "proto/gatemsg.h"
#include "supervisor/netcount.h"
#include "supervisor/netlog.h"

static struct buf seen = BUF_INIT(1 << 16);
static char state_dir[64];

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static int setup(void **state) {
    snprintf(state_dir, sizeof state_dir, "/tmp/bawn-netlog-XXXXXX");
    buf_clear(&seen);
    log_set_sink(sink);
    return mkdtemp(state_dir) ? 0 : -1;
}

static int teardown(void **state) {
    log_set_sink(NULL);
    buf_done(&seen);
    return remove_tree(AT_FDCWD, state_dir);
}

static struct gate_msg event(enum gate_event_kind kind, enum rule_action action, const char *host, uint32_t port) {
    struct gate_msg m = {.type = GATE_MSG_EVENT,
                         .kind = kind,
                         .action = action,
                         .code = action == RULE_DENY ? POLICY_DENIED_HOST : POLICY_ALLOWED,
                         .port = port};

    snprintf(m.host, sizeof m.host, "%s", host);
    return m;
}

static struct netlog *open_log(void) {
    struct netlog *l = NULL;
    struct err err = {0};

    if (netlog_new(state_dir, "4711", &l, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

static FILE *read_log(const char *name) {
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/log/%s", state_dir, name);
    f = fopen(path, "re");
    if (!f)
        fail_msg("%s: %s", path, strerror(errno));
    return f;
}

static void test_line(void **state) {
    struct gate_msg m = event(GATE_EVENT_REQUEST, RULE_DENY, "evil.example", 443);
    struct netlog *l = open_log();
    FILE *f;
    json_t *v;
    struct stat st;

    snprintf(m.method, sizeof m.method, "POST");
    snprintf(m.path, sizeof m.path, "/a\"b");
    m.status = 403;
    m.micros = 1500;
    m.sent = 7;
    netlog_add(l, "request", &m);
    netlog_free(l);
    f = read_log("network.jsonl");
    assert_int_equal(fstat(fileno(f), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    v = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(v);
    assert_string_equal(json_string_value(json_object_get(v, "sandbox")), "4711");
    assert_string_equal(json_string_value(json_object_get(v, "kind")), "request");
    assert_string_equal(json_string_value(json_object_get(v, "action")), "deny");
    assert_string_equal(json_string_value(json_object_get(v, "code")), "BAWN_NET_DENIED_HOST");
    assert_string_equal(json_string_value(json_object_get(v, "path")), "/a\"b");
    assert_int_equal(json_integer_value(json_object_get(v, "status")), 403);
    assert_true(json_real_value(json_object_get(v, "ms")) == 1.5);
    assert_int_equal(strlen(json_string_value(json_object_get(v, "time"))), strlen("2026-01-01T00:00:00.000Z"));
    json_decref(v);
    fclose(f);
}

static size_t count_lines(const char *name) {
    FILE *f = read_log(name);
    char line[2048];
    size_t n = 0;

    while (fgets(line, sizeof line, f)) {
        assert_true(line[0] == '{' && str_ends(line, "}\n")); /* nobody's line is cut by another's */
        n++;
    }
    fclose(f);
    return n;
}

/* Two supervisors, both far past the bound: no line is lost but those that an older rotation took away. */
static void test_rotation(void **state) {
    enum { EACH = 40000 };
    struct gate_msg m = event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.example", 0);
    struct netlog *a = open_log(), *b = open_log();
    struct stat st;
    char path[128];

    memset(m.path, 'x', 100);
    for (int i = 0; i < EACH; i++) {
        netlog_add(a, "lookup", &m);
        netlog_add(b, "lookup", &m);
    }
    netlog_free(a);
    netlog_free(b);
    snprintf(path, sizeof path, "%s/log/network.jsonl", state_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < NETLOG_SIZE_MAX + 4 * NETLOG_BATCH);
    assert_int_equal(count_lines("network.jsonl") + count_lines("network.jsonl.1"), 2 * EACH);
}

/* The run goes on; the user hears of it once. */
static void test_cannot_write(void **state) {
    struct gate_msg m = event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.example", 0);
    struct netlog *l = open_log();
    char path[128];

    snprintf(path, sizeof path, "%s/log", state_dir);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    for (int i = 0; i < 3; i++) {
        netlog_add(l, "lookup", &m);
        netlog_flush(l);
    }
    netlog_free(l);
    assert_non_null(strstr(buf_str(&seen), "cannot be written"));
    assert_null(strstr(strstr(buf_str(&seen), "cannot be written") + 1, "cannot be written"));
}

static void add(struct netcount *c, struct gate_msg m) {
    netcount_add(c, &m);
}

static void test_summary(void **state) {
    CLEANUP(netcount_done) struct netcount c = {0};
    struct gate_msg end = event(GATE_EVENT_END, RULE_ALLOW, "github.com", 443);

    netcount_report(&c);
    for (int i = 0; i < 3; i++)
        add(&c, event(GATE_EVENT_CONNECTION, RULE_ALLOW, "github.com", 443));
    end.received = 1300000;
    add(&c, end);
    netcount_report(&c);
    assert_string_equal(buf_str(&seen), ""); /* all went well: nothing to say */
    for (int i = 0; i < 5; i++)
        add(&c, event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.com", 0));
    netcount_report(&c);
    assert_string_equal(buf_str(&seen), "bawn: network: refused evil.com (5x, BAWN_NET_DENIED_HOST); see 'bawn policy log'\n"
                                        "bawn: network: reached github.com:443 (3 connections, 1.2 MiB)\n");
}

static void test_bounded_hosts(void **state) {
    CLEANUP(netcount_done) struct netcount c = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(1 << 20);
    char host[32];
    json_t *v;

    for (int i = 0; i < 1000; i++) {
        snprintf(host, sizeof host, "h%d.example", i);
        add(&c, event(GATE_EVENT_CONNECTION, RULE_DENY, host, 80));
    }
    assert_int_equal(c.n, NETCOUNT_HOSTS);
    assert_int_equal(c.others.refused, 1000 - NETCOUNT_HOSTS);
    netcount_json(&c, &out);
    v = json_loads(buf_str(&out), 0, NULL);
    assert_int_equal(json_array_size(json_object_get(v, "refused")), NETCOUNT_HOSTS + 1);
    assert_int_equal(json_array_size(json_object_get(v, "reached")), 0);
    json_decref(v);
    netcount_report(&c);
    assert_non_null(strstr(buf_str(&seen), ", 247 more; see"));
}

static void test_secrets(void **state) {
    CLEANUP(netcount_done) struct netcount c = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(1 << 20);
    struct gate_msg m = event(GATE_EVENT_REQUEST, RULE_DENY, "evil.example", 443);
    char host[32];

    for (int i = 0; i < 12; i++)
        netcount_used(&c, "anthropic", "api.anthropic.com", 1);
    snprintf(m.secret, sizeof m.secret, "anthropic");
    add(&c, m); /* refused for another reason: it is not the placeholder's doing */
    m.code = POLICY_SECRET_MISPLACED;
    for (int i = 0; i < 3; i++)
        add(&c, m);
    netcount_report(&c);
    assert_non_null(strstr(buf_str(&seen), "bawn: credentials: anthropic 12 times (api.anthropic.com)\n"
                                           "bawn: blocked: placeholder of anthropic at evil.example (3)\n"));
    netcount_json(&c, &out);
    assert_non_null(strstr(buf_str(&out),
                           "\"secrets\":[{\"name\":\"anthropic\",\"host\":\"api.anthropic.com\",\"used\":12,\"blocked\":0},"
                           "{\"name\":\"anthropic\",\"host\":\"evil.example\",\"used\":0,\"blocked\":3}]"));
    for (int i = 0; i < 1000; i++) {
        snprintf(host, sizeof host, "h%d.example", i);
        netcount_used(&c, "anthropic", host, 1);
    }
    assert_int_equal(c.n_secrets, NETCOUNT_SECRETS);
    assert_int_equal(c.secrets_left_out, 1000 + 2 - NETCOUNT_SECRETS);
}

static void test_ssh(void **state) {
    CLEANUP(netcount_done) struct netcount c = {0};

    netcount_used(&c, "ssh SHA256:x", "git.example", 1);
    netcount_used(&c, "ssh SHA256:x", "", 2);
    netcount_not_signed(&c, "");
    netcount_not_signed(&c, "evil.example");
    netcount_report(&c);
    assert_non_null(strstr(buf_str(&seen),
                           "bawn: credentials: ssh SHA256:x 1 time (git.example), ssh SHA256:x 2 times (commits)\n"
                           "bawn: blocked: ssh signature at an unknown host (1), ssh signature at evil.example (1)\n"));
}

/* A sandbox that is refused all day cannot push everything else out of the audit log, and what is left out is counted. */
static void test_audit_is_bounded(void **state) {
    enum { ASKED = 3 * NETLOG_AUDIT_BURST };
    const struct audit_ids ids = {.log = "user", .sandbox = "4711", .run = "", .tenant = ""};
    struct gate_msg m = event(GATE_EVENT_CONNECTION, RULE_DENY, "evil.example", 443);
    CLEANUP(freep) char *path = str_dupf("%s/audit/user.jsonl", state_dir);
    CLEANUP(buf_done) struct buf text = BUF_INIT(8 << 20);
    CLEANUP(audit_freep) struct audit *audit = NULL;
    struct netlog *l = open_log();
    size_t lines = 0;

    assert_int_equal(audit_new(state_dir, &ids, &audit, NULL), 0);
    netlog_also(l, audit);
    for (size_t i = 0; i < ASKED; i++)
        netlog_audit(l, AUDIT_NETWORK, NULL, &m);
    netlog_free(l);
    assert_int_equal(paths_read_own(path, 8 << 20, &text, NULL), 0);
    for (const char *at = buf_str(&text); (at = strchr(at, '\n')); at++)
        lines++;
    assert_true(lines >= NETLOG_AUDIT_BURST && lines < ASKED); /* a slow machine lets some more through, one a second */
    assert_non_null(strstr(buf_str(&text), "\"action\":\"deny\",\"code\":\"BAWN_NET_DENIED_HOST\",\"host\":\"evil.example\""));
    assert_null(strstr(buf_str(&text), "\"secret\":"));
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_line),          LOG_TEST(test_rotation), LOG_TEST(test_cannot_write), LOG_TEST(test_summary),
        LOG_TEST(test_bounded_hosts), LOG_TEST(test_secrets),  LOG_TEST(test_ssh),          LOG_TEST(test_audit_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
