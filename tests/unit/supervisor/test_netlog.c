/* SPDX-License-Identifier: Apache-2.0 */
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
#include "config/load/paths.h"
#include "os/remove.h"
#include "policy/rules/verdict.h"
#include "proto/gatemsg.h"
#include "supervisor/network/netcount.h"
#include "supervisor/network/netlog.h"

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
    netlog_add(l, AUDIT_NETWORK, "request", &m, 1);
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

/* Of a merged line the count. */
static uint64_t count_events(const char *name) {
    FILE *f = read_log(name);
    char line[2048];
    uint64_t n = 0;

    while (fgets(line, sizeof line, f)) {
        const char *count = strstr(line, ",\"count\":");

        n += count ? strtoull(count + strlen(",\"count\":"), NULL, 10) : 1;
    }
    fclose(f);
    return n;
}

static bool log_has(const char *name, const char *text) {
    FILE *f = read_log(name);
    char line[2048];
    bool found = false;

    while (!found && fgets(line, sizeof line, f))
        found = strstr(line, text);
    fclose(f);
    return found;
}

/* Many supervisors, all far past the bound: no event is lost but those that an older rotation took away. */
static void test_rotation(void **state) {
    enum { EACH = 11000, SUPERVISORS = 5 };
    struct gate_msg m = event(GATE_EVENT_CONNECTION, RULE_ALLOW, "good.example", 443);
    struct netlog *l[SUPERVISORS];
    struct stat st;
    char path[128];

    memset(m.path, 'x', 100);
    for (int k = 0; k < SUPERVISORS; k++)
        l[k] = open_log();
    for (int i = 0; i < EACH; i++)
        for (int k = 0; k < SUPERVISORS; k++)
            netlog_add(l[k], AUDIT_NETWORK, "connection", &m, 1);
    for (int k = 0; k < SUPERVISORS; k++)
        netlog_free(l[k]);
    snprintf(path, sizeof path, "%s/log/network.jsonl", state_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < NETLOG_SIZE_MAX + 4 * NETLOG_BATCH);
    count_lines("network.jsonl");
    count_lines("network.jsonl.1");
    assert_int_equal(count_events("network.jsonl") + count_events("network.jsonl.1"), SUPERVISORS * EACH);
}

/* One sandbox asks for names until the log would have been rotated several times: others' lines stay, and so do its own of other kinds. */
static void test_flood_pushes_nothing_out(void **state) {
    enum { FLOOD = 120000 };
    struct gate_msg m = event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.example", 0),
                    other = event(GATE_EVENT_CONNECTION, RULE_ALLOW, "other.example", 443),
                    secret = event(GATE_EVENT_LOOKUP, RULE_ALLOW, "api.example", 443),
                    misplaced = event(GATE_EVENT_REQUEST, RULE_DENY, "thief.example", 443);
    struct netlog *a = open_log(), *b = open_log();
    struct stat st;
    char path[128];

    snprintf(secret.secret, sizeof secret.secret, "key");
    snprintf(misplaced.secret, sizeof misplaced.secret, "key");
    misplaced.code = POLICY_SECRET_MISPLACED;
    netlog_add(a, AUDIT_NETWORK, "connection", &other, 1);
    netlog_flush(a);
    for (int i = 0; i < FLOOD; i++) {
        snprintf(m.host, sizeof m.host, "h%d.example", i);
        netlog_add(b, AUDIT_NETWORK, "lookup", &m, 1);
        if (i == FLOOD / 2) {
            netlog_add(b, AUDIT_SECRET, "secret", &secret, 1);
            netlog_add(b, AUDIT_NETWORK, "request", &misplaced, 1);
        }
    }
    netlog_free(b);
    netlog_free(a);
    snprintf(path, sizeof path, "%s/log/network.jsonl.1", state_dir);
    assert_int_equal(stat(path, &st), -1);
    assert_true(log_has("network.jsonl", "other.example"));
    assert_true(log_has("network.jsonl", "\"kind\":\"secret\""));
    assert_true(log_has("network.jsonl", "BAWN_NET_SECRET_MISPLACED"));
    assert_int_equal(count_events("network.jsonl"), FLOOD + 3);
}

/* The run goes on; the user hears of it once. */
static void test_cannot_write(void **state) {
    struct gate_msg m = event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.example", 0);
    struct netlog *l = open_log();
    char path[128];

    snprintf(path, sizeof path, "%s/log", state_dir);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    for (int i = 0; i < 3; i++) {
        netlog_add(l, AUDIT_NETWORK, "lookup", &m, 1);
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
    assert_string_equal(buf_str(&seen), "bawn: network: evil.com denied 5 times (BAWN_NET_DENIED_HOST); see 'bawn policy log'\n"
                                        "bawn: network: reached github.com:443 (3 connections, 1.2 MiB)\n");
}

/* A lookup is not counted beside the connection that followed it; what failed outside is no denial. */
static void test_summary_of_failures(void **state) {
    CLEANUP(netcount_done) struct netcount c = {0};
    struct gate_msg dead = event(GATE_EVENT_TROUBLE, RULE_ALLOW, "dead.example", 443), token = dead;
    struct gate_msg nowhere = event(GATE_EVENT_CONNECTION, RULE_DENY, "nowhere.example", 80);
    struct gate_msg denied = event(GATE_EVENT_CONNECTION, RULE_DENY, "evil.com", 443);

    add(&c, event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.com", 0));
    for (uint64_t i = 1; i <= 24620; i++)
        assert_int_equal(netcount_add(&c, &denied), i);
    dead.code = POLICY_UNREACHABLE;
    snprintf(dead.path, sizeof dead.path, "the proxy answered 407");
    assert_int_equal(netcount_add(&c, &dead), 0);
    add(&c, dead);
    snprintf(token.path, sizeof token.path, "a token was redacted"); /* another trouble */
    token.code = POLICY_ALLOWED;
    add(&c, token);
    nowhere.code = POLICY_NO_ADDRESS;
    assert_int_equal(netcount_add(&c, &nowhere), 0);
    netcount_report(&c);
    assert_string_equal(buf_str(&seen),
                        "bawn: network: evil.com:443 denied 24,620 times (BAWN_NET_DENIED_HOST); see 'bawn policy log'\n"
                        "bawn: network: dead.example:443 not reached 2 times (the proxy answered 407), "
                        "nowhere.example:80 not reached (The name is allowed but has no address)\n");
}

/* The same again and again is merged; what differs in its path is not the same. */
static void test_repeat(void **state) {
    struct gate_msg m = event(GATE_EVENT_REQUEST, RULE_DENY, "evil.example", 443), other = m;
    struct netlog *l = open_log();

    for (int i = 0; i < 500; i++)
        assert_int_equal(netlog_is_new(l, "request", &m), i < NETLOG_REPEATS);
    snprintf(other.path, sizeof other.path, "/other");
    assert_true(netlog_is_new(l, "request", &other));
    netlog_flush(l);
    assert_true(netlog_timeout(l) > 0);
    netlog_free(l);
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
    assert_int_equal(c.n, NETCOUNT_HOSTS / 2);
    assert_int_equal(c.others.refused, 1000 - NETCOUNT_HOSTS / 2);
    add(&c, event(GATE_EVENT_CONNECTION, RULE_ALLOW, "reached.example", 443)); /* refusals leave room for it */
    netcount_json(&c, &out);
    v = json_loads(buf_str(&out), 0, NULL);
    assert_int_equal(json_array_size(json_object_get(v, "refused")), NETCOUNT_HOSTS / 2 + 1);
    assert_int_equal(json_array_size(json_object_get(v, "reached")), 1);
    json_decref(v);
    netcount_report(&c);
    assert_non_null(strstr(buf_str(&seen), ", 119 more; see"));
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

/* The audit log of a flood: bounded, nothing of another kind is left out, the first of each credential is there, and all are counted. */
static void test_audit_is_bounded(void **state) {
    enum { ASKED = 3 * NETLOG_AUDIT_BURST };
    const struct audit_ids ids = {.log = "user", .sandbox = "4711", .run = "", .tenant = ""};
    struct gate_msg m = event(GATE_EVENT_LOOKUP, RULE_DENY, "evil.example", 0),
                    secret = event(GATE_EVENT_LOOKUP, RULE_ALLOW, "api.example", 443),
                    misplaced = event(GATE_EVENT_REQUEST, RULE_DENY, "thief.example", 443),
                    answer = event(GATE_EVENT_CONNECTION, RULE_ALLOW, "asked.example", 443);
    CLEANUP(freep) char *path = str_dupf("%s/audit/user.jsonl", state_dir);
    CLEANUP(buf_done) struct buf text = BUF_INIT(8 << 20);
    CLEANUP(audit_freep) struct audit *audit = NULL;
    struct netlog *l = open_log();
    uint64_t lines = 0, events = 0;

    misplaced.code = POLICY_SECRET_MISPLACED;
    assert_int_equal(audit_new(state_dir, &ids, &audit, NULL), 0);
    netlog_also(l, audit);
    for (size_t i = 0; i < ASKED; i++) {
        netlog_audit(l, AUDIT_NETWORK, "lookup", &m, 1);
        snprintf(misplaced.host, sizeof misplaced.host, "thief%zu.example", i);
        snprintf(misplaced.secret, sizeof misplaced.secret, "one");
        netlog_audit(l, AUDIT_NETWORK, "request", &misplaced, 1);
    }
    snprintf(secret.secret, sizeof secret.secret, "key");
    netlog_audit(l, AUDIT_SECRET, "secret", &secret, 1);
    snprintf(misplaced.secret, sizeof misplaced.secret, "two");
    netlog_audit(l, AUDIT_NETWORK, "request", &misplaced, 1);
    netlog_audit(l, AUDIT_ASK, "session", &answer, 1);
    netlog_free(l);
    assert_int_equal(paths_read_own(path, 8 << 20, &text, NULL), 0);
    for (const char *at = buf_str(&text), *end; (end = strchr(at, '\n')); at = end + 1, lines++) {
        const char *count = memmem(at, (size_t)(end - at), "\"count\":", 8);

        events += count ? strtoull(count + 8, NULL, 10) : 1;
    }
    assert_true(lines >= 2 * NETLOG_AUDIT_BURST + 3 && lines < 2 * NETLOG_AUDIT_BURST + 200);
    assert_int_equal(events, 2 * ASKED + 3);
    assert_non_null(strstr(buf_str(&text), "\"type\":\"secret\""));
    assert_non_null(strstr(buf_str(&text), "\"secret\":\"two\""));
    assert_non_null(strstr(buf_str(&text), "\"answer\":\"session\""));
    assert_non_null(strstr(buf_str(&text), "\"host\":\"evil.example\",\"port\":0,\"count\":2000,\"first\":\"2"));
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_line),
        LOG_TEST(test_flood_pushes_nothing_out),
        LOG_TEST(test_rotation),
        LOG_TEST(test_cannot_write),
        LOG_TEST(test_summary_of_failures),
        LOG_TEST(test_repeat),
        LOG_TEST(test_summary),
        LOG_TEST(test_bounded_hosts),
        LOG_TEST(test_secrets),
        LOG_TEST(test_ssh),
        LOG_TEST(test_audit_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
