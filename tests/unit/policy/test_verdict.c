/* SPDX-License-Identifier: Apache-2.0 */
/* Requests against rules. Each row is a question; the rules stand above it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/rules/verdict.h"

static void set(struct policy *p, enum policy_layer_kind kind, const char *text, bool narrow_only) {
    CLEANUP(rules_done) struct rules rules = {0};
    struct err err = {0};

    if (rules_read("p.json", text, strlen(text), &rules, &err) < 0)
        fail_msg("%s", err.msg);
    policy_set_layer(p, kind, &rules, narrow_only);
}

static void init(struct policy *p, enum net_mode mode, const char *user) {
    struct err err = {0};

    assert_int_equal(policy_init(p, mode, true, &err), 0);
    if (user)
        set(p, LAYER_USER, user, false);
}

struct question {
    const char *host; /* "name:port" */
    const char *method, *path, *address;
    enum policy_code code;
    const char *rule; /* NULL: none decided */
    unsigned needs;
    enum policy_look look;
    bool tls;
};

static struct http_path path;

static void ask(const struct policy *p, const struct question *q, struct policy_verdict *ret) {
    struct policy_request req = {.method = q->method, .is_tls = q->tls};
    struct host h;
    struct addr a;
    struct err err = {0};

    if (host_parse_with_port(q->host, strlen(q->host), &h, &req.port, &err) < 0)
        fail_msg("%s: %s", q->host, err.msg);
    req.host = &h;
    if (q->path && http_path_parse(q->path, strlen(q->path), &path, &err) < 0)
        fail_msg("%s: %s", q->path, err.msg);
    req.path = q->path ? &path : NULL;
    if (q->address && addr_parse(q->address, strlen(q->address), &a) < 0)
        fail_msg("%s is no address", q->address);
    req.address = q->address ? &a : NULL;
    policy_judge(p, &req, ret);
}

static void check(const struct policy *p, const struct question *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct question *q = &rows[i];
        struct policy_verdict v;

        ask(p, q, &v);
        if (v.code != q->code || v.needs != q->needs || v.look != q->look ||
            (v.rule ? !q->rule || !str_eq(q->rule, v.rule->id) : !!q->rule))
            fail_msg("row %zu: %s %s %s %s: %s by %s, needs %u, look %u: %s", i, q->host, q->method ? q->method : "-",
                     q->path ? q->path : "-", q->address ? q->address : "-", policy_codes[v.code].name,
                     v.rule ? v.rule->id : "none", v.needs, v.look, v.reason);
        assert_int_equal(v.action, v.code == POLICY_ALLOWED ? RULE_ALLOW : v.code == POLICY_ASK ? RULE_ASK : RULE_DENY);
        assert_true(v.reason[0] && v.reason[strlen(v.reason) - 1] == '.');
        assert_true(v.hint[0] || v.code == POLICY_ALLOWED);
        assert_true(str_is_utf8(v.reason) && str_is_utf8(v.hint));
    }
}

#define CHECK(p, rows) check(p, rows, ARRAY_LEN(rows))
#define PUBLIC "93.184.216.34"

static void test_modes(void **state) {
    static const struct question none[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_OFF},
        {"yes.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_OFF},
        {"8.8.8.8:53", NULL, NULL, NULL, POLICY_DENIED_OFF},
    };
    static const struct question limited[] = {
        {"a.com", NULL, NULL, NULL, POLICY_ALLOWED, NULL, NEEDS_PORT | NEEDS_ADDRESS},
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED},
        {"a.com:80", NULL, NULL, PUBLIC, POLICY_ALLOWED},
        {"a.com:22", NULL, NULL, PUBLIC, POLICY_DENIED_PORT}, /* ATTACKS 48 */
        {"a.com:25", NULL, NULL, PUBLIC, POLICY_DENIED_PORT},
        {"yes.com:22", NULL, NULL, PUBLIC, POLICY_ALLOWED, "yes"},
        {"8.8.8.8:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT}, /* it may be that of "no" */
        {"8.8.8.8:53", NULL, NULL, NULL, POLICY_DENIED_PORT},
        {"127.0.0.1:80", NULL, NULL, NULL, POLICY_DENIED_ADDRESS},
        {"a.com:80", NULL, NULL, "10.0.0.1", POLICY_DENIED_ADDRESS},
    };
    static const struct question full[] = {
        {"a.com", NULL, NULL, NULL, POLICY_ALLOWED, NULL, NEEDS_ADDRESS},
        {"a.com:22", NULL, NULL, PUBLIC, POLICY_ALLOWED},
        {"8.8.8.8:53", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"no.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "no"},
        {"no.com", NULL, NULL, NULL, POLICY_DENIED_HOST, "no"},
        {"a.com:443", NULL, NULL, "169.254.169.254", POLICY_DENIED_ADDRESS},
    };
    static const struct question list[] = {
        {"a.com", NULL, NULL, NULL, POLICY_DENIED_HOST},
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST},
        {"yes.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "yes"},
        {"github.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST},
        {"8.8.8.8:53", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT}, /* ATTACKS 48 */
        {"[2606:4700::1111]:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
    };
    static const struct {
        enum net_mode mode;
        const struct question *rows;
        size_t n;
    } modes[] = {
        {NET_NONE, none, ARRAY_LEN(none)},
        {NET_LIMITED, limited, ARRAY_LEN(limited)},
        {NET_FULL, full, ARRAY_LEN(full)},
        {NET_LIST, list, ARRAY_LEN(list)},
    };

    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        CLEANUP(policy_done) struct policy p = {0};

        init(&p, modes[i].mode,
             "{\"rules\":[{\"id\":\"yes\",\"action\":\"allow\",\"host\":\"yes.com\"},"
             "{\"id\":\"no\",\"action\":\"deny\",\"host\":\"no.com\"}]}");
        check(&p, modes[i].rows, modes[i].n);
    }
}

static void test_nothing_named(void **state) {
    static const struct question terminal[] = {
        {"github.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "git"},
        {"github.com:22", NULL, NULL, PUBLIC, POLICY_ALLOWED, "git"},
        {"github.com:80", NULL, NULL, PUBLIC, POLICY_ASK},
        {"registry.npmjs.org:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "registries"},
        {"api.anthropic.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "models"},
        {"evil.com:443", NULL, NULL, PUBLIC, POLICY_ASK},
        {"evil.com", NULL, NULL, NULL, POLICY_ASK, NULL, NEEDS_ADDRESS},
        {"github.com", NULL, NULL, NULL, POLICY_ALLOWED, "git", NEEDS_PORT | NEEDS_ADDRESS},
        {"8.8.8.8:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"evil.com:443", NULL, NULL, "192.168.1.1", POLICY_DENIED_ADDRESS},
    };
    static const struct question alone[] = {
        {"github.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "git"},
        {"github.com:80", NULL, NULL, PUBLIC, POLICY_DENIED_PORT},
        {"evil.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST},
        {"evil.com", NULL, NULL, NULL, POLICY_DENIED_HOST},
    };
    CLEANUP(policy_done) struct policy p = {0};

    init(&p, NET_UNSET, NULL);
    CHECK(&p, terminal);
    p.can_ask = false;
    CHECK(&p, alone);
    set(&p, LAYER_USER, "{\"mode\":\"list\",\"rules\":[]}", false); /* a mode in a file ends the built-in rules */
    check(&p, &alone[2], 2);
    check(&p, &(struct question){"github.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST}, 1);
    set(&p, LAYER_SANDBOX, "{\"mode\":\"full\"}", false);
    check(&p, &(struct question){"github.com:80", NULL, NULL, PUBLIC, POLICY_ALLOWED}, 1);
}

static void test_order_and_conditions(void **state) {
    static const struct question rows[] = {
        {"api.x.com", NULL, NULL, NULL, POLICY_ALLOWED, "get", NEEDS_PORT | NEEDS_HTTP | NEEDS_ADDRESS, LOOK_HTTP},
        {"api.x.com:443", NULL, NULL, NULL, POLICY_ALLOWED, "get", NEEDS_HTTP | NEEDS_ADDRESS, LOOK_TLS, true},
        {"api.x.com:443", "GET", "/v1/users", PUBLIC, POLICY_ALLOWED, "get", 0, LOOK_NO},
        {"api.x.com:443", "GET", "/v1", PUBLIC, POLICY_ALLOWED, "get"},
        {"api.x.com:443", "GET", "/v2", PUBLIC, POLICY_DENIED_PATH},
        {"api.x.com:443", "GET", "/v1/secret/x", PUBLIC, POLICY_DENIED_PATH, "secret"},
        {"api.x.com:443", "GET", "/v1/./secret//x", PUBLIC, POLICY_DENIED_PATH, "secret"},
        {"api.x.com:443", "GET", "/v1/%73ecret/x", PUBLIC, POLICY_DENIED_PATH, "secret"},
        {"api.x.com:443", "GET", "/v1/secret%2fx", PUBLIC, POLICY_DENIED_PATH, "secret"}, /* one reading is enough to deny */
        {"api.x.com:443", "GET", "/v1%2fusers", PUBLIC, POLICY_DENIED_PATH},              /* both are needed to allow */
        {"api.x.com:443", "POST", "/v1/users", PUBLIC, POLICY_DENIED_METHOD},
        {"api.x.com:443", "get", "/v1/users", PUBLIC, POLICY_DENIED_METHOD},
        {"api.x.com:80", "GET", "/v1/users", PUBLIC, POLICY_DENIED_PORT},
        {"api.x.com:80", NULL, NULL, PUBLIC, POLICY_DENIED_PORT},
        {"up.x.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "up", 0, LOOK_TLS, true}, /* the size has to be watched */
        {"pin.x.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "pin", 0, LOOK_NO, true},
        {"look.x.com:80", NULL, NULL, PUBLIC, POLICY_ALLOWED, "look", 0, LOOK_HTTP},
        {"nodel.x.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "nodel-rest", NEEDS_HTTP, LOOK_TLS, true},
        {"nodel.x.com:443", "DELETE", "/", PUBLIC, POLICY_DENIED_METHOD, "nodel"},
        {"nodel.x.com:443", "delete", "/", PUBLIC, POLICY_DENIED_METHOD, "nodel"},
        {"nodel.x.com:443", "GET", "/", PUBLIC, POLICY_ALLOWED, "nodel-rest"},
        {"deny.x.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST}, /* all that may come denies: no look, no lookup */
        {"deny.x.com", NULL, NULL, NULL, POLICY_DENIED_HOST},
        {"same.x.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "same-2"}, /* nothing a look could change */
        {"ask.x.com:443", NULL, NULL, PUBLIC, POLICY_ASK, "ask"},
        {"p.x.com", NULL, NULL, NULL, POLICY_ALLOWED, "p", NEEDS_PORT | NEEDS_ADDRESS},
        {"p.x.com:8500", NULL, NULL, NULL, POLICY_ALLOWED, "p", NEEDS_ADDRESS},
        {"p.x.com:9000", NULL, NULL, NULL, POLICY_DENIED_PORT},
    };
    CLEANUP(policy_done) struct policy p = {0};
    struct policy_verdict v;

    init(
        &p, NET_LIST,
        "{\"rules\":["
        "{\"id\":\"secret\",\"action\":\"deny\",\"host\":\"api.x.com\",\"paths\":[\"/v1/secret/**\"]},"
        "{\"id\":\"get\",\"action\":\"allow\",\"host\":\"api.x.com\",\"ports\":443,\"methods\":[\"GET\",\"HEAD\"],\"paths\":\"/v1/**\"},"
        "{\"id\":\"up\",\"action\":\"allow\",\"host\":\"up.x.com\",\"max_body\":\"1m\"},"
        "{\"id\":\"pin\",\"action\":\"allow\",\"host\":\"pin.x.com\",\"inspect\":false},"
        "{\"id\":\"look\",\"action\":\"allow\",\"host\":\"look.x.com\",\"inspect\":true},"
        "{\"id\":\"nodel\",\"action\":\"deny\",\"host\":\"nodel.x.com\",\"methods\":\"DELETE\"},"
        "{\"id\":\"nodel-rest\",\"action\":\"allow\",\"host\":\"nodel.x.com\"},"
        "{\"id\":\"deny\",\"action\":\"deny\",\"host\":\"deny.x.com\",\"methods\":\"GET\"},"
        "{\"id\":\"same\",\"action\":\"allow\",\"host\":\"same.x.com\",\"methods\":\"GET\"},"
        "{\"id\":\"same-2\",\"action\":\"allow\",\"host\":\"same.x.com\"},"
        "{\"id\":\"ask\",\"action\":\"ask\",\"host\":\"ask.x.com\"},"
        "{\"id\":\"p\",\"action\":\"allow\",\"host\":\"p.x.com\",\"ports\":[22,\"8000-8999\"]}]}");
    CHECK(&p, rows);
    ask(&p, &(struct question){"up.x.com:443"}, &v);
    assert_int_equal(v.max_body, 1 << 20);
    assert_string_equal(v.pattern, "up.x.com");
    p.can_ask = false;
    check(&p, &(struct question){"ask.x.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_UNANSWERED, "ask"}, 1);
}

/* A WebSocket is more than the GET that opens it. */
static void test_websocket(void **state) {
    static const struct question rows[] = {
        {"get.com:443", "GET", "/", PUBLIC, POLICY_ALLOWED, "get"},
        {"get.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_DENIED_METHOD},
        {"both.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_ALLOWED, "both"},
        {"any.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_ALLOWED, "any"},
        {"no-get.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_DENIED_METHOD, "no-get"},
        {"no-post.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_ALLOWED, "rest"},
        {"no-ws.com:443", POLICY_WEBSOCKET, "/", PUBLIC, POLICY_DENIED_METHOD, "no-ws"},
        {"no-ws.com:443", "GET", "/", PUBLIC, POLICY_ALLOWED, "rest"},
    };
    CLEANUP(policy_done) struct policy p;

    init(&p, NET_LIST,
         "{\"rules\":["
         "{\"id\":\"get\",\"action\":\"allow\",\"host\":\"get.com\",\"methods\":\"GET\"},"
         "{\"id\":\"both\",\"action\":\"allow\",\"host\":\"both.com\",\"methods\":[\"GET\",\"WebSocket\"]},"
         "{\"id\":\"any\",\"action\":\"allow\",\"host\":\"any.com\"},"
         "{\"id\":\"no-get\",\"action\":\"deny\",\"host\":\"no-get.com\",\"methods\":\"GET\"},"
         "{\"id\":\"no-post\",\"action\":\"deny\",\"host\":\"no-post.com\",\"methods\":\"POST\"},"
         "{\"id\":\"no-ws\",\"action\":\"deny\",\"host\":\"no-ws.com\",\"methods\":\"WEBSOCKET\"},"
         "{\"id\":\"rest\",\"action\":\"allow\",\"host\":[\"no-get.com\",\"no-post.com\",\"no-ws.com\"]}]}");
    CHECK(&p, rows);
}

/* ATTACKS 49-51 */
static void test_addresses(void **state) {
    static const struct question rows[] = {
        {"any.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "any"},
        {"any.com:443", NULL, NULL, "127.0.0.1", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "::ffff:127.0.0.1", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "172.16.0.1", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "169.254.169.254", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "168.63.129.16", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "192.0.0.192", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "100.100.100.200", POLICY_ALLOWED, "any"}, /* named by "meta": reachable anyhow */
        {"any.com:443", NULL, NULL, "fd00:ec2::254", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "64:ff9b::10.0.0.9", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "2002:c0a8:101::1", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "198.41.0.4", POLICY_DENIED_ADDRESS}, /* our own, though public */
        {"any.com:443", NULL, NULL, "0.0.0.0", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "100.64.0.1", POLICY_DENIED_ADDRESS},
        {"any.com:443", NULL, NULL, "10.1.2.3", POLICY_ALLOWED, "any"},  /* named by "ten" */
        {"any.com:443", NULL, NULL, "10.66.0.1", POLICY_DENIED_ADDRESS}, /* "no66" keeps "ten" from naming it */
        {"any.com:443", NULL, NULL, "1.0.0.1", POLICY_ALLOWED, "any"},   /* the rule for the name stands before "no1" */
        {"late.com:443", NULL, NULL, "1.0.0.1", POLICY_DENIED_ADDRESS, "no1"},
        {"late.com:443", NULL, NULL, "10.66.0.1", POLICY_DENIED_ADDRESS, "no66"},
        {"late.com:443", NULL, NULL, "::ffff:10.66.0.1", POLICY_DENIED_ADDRESS, "no66"},
        {"late.com:443", NULL, NULL, "64:ff9b::10.66.0.1", POLICY_DENIED_ADDRESS, "no66"},
        {"late.com:443", NULL, NULL, "10.1.2.3", POLICY_ALLOWED, "late"},
        {"late.com:443", NULL, NULL, "9.9.9.9", POLICY_ASK, "ask9"},
        {"any.com:443", NULL, NULL, "192.168.7.7", POLICY_ASK, "ask192"}, /* allowed by name, the address only by asking */
        {"db.lan:5432", NULL, NULL, "172.16.0.1", POLICY_ALLOWED, "db"},
        {"db.lan:5432", NULL, NULL, "127.0.0.1", POLICY_ALLOWED, "db"},
        {"db.lan:5432", NULL, NULL, "198.41.0.4", POLICY_ALLOWED, "db"},
        {"db.lan:5432", NULL, NULL, "0.0.0.0", POLICY_DENIED_ADDRESS}, /* never dialled */
        {"db.lan:5432", NULL, NULL, "224.0.0.1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "172.16.0.1", POLICY_ALLOWED, "corp"},
        {"x.corp.lan:80", NULL, NULL, "169.254.169.254", POLICY_DENIED_ADDRESS}, /* a wildcard does not mean that */
        {"x.corp.lan:80", NULL, NULL, "198.41.0.4", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "127.0.0.1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "127.9.9.9", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "::1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "::ffff:127.0.0.1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "64:ff9b::127.0.0.1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "2002:7f00:1::1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "::", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "fe80::1", POLICY_DENIED_ADDRESS},
        {"x.corp.lan:80", NULL, NULL, "169.254.9.9", POLICY_ALLOWED, "corp"}, /* named by "link" */
        {"unknown.com:443", NULL, NULL, "10.1.2.3", POLICY_DENIED_HOST},      /* an address rule allows no name */
        {"10.1.2.3:443", NULL, NULL, NULL, POLICY_ALLOWED, "ten"},
        {"[::ffff:10.1.2.3]:443", NULL, NULL, NULL, POLICY_ALLOWED, "ten"},
        {"10.66.0.1:443", NULL, NULL, NULL, POLICY_DENIED_ADDRESS, "no66"},
        {"8.8.8.8:53", NULL, NULL, NULL, POLICY_ALLOWED, "wide"},
        {"172.16.0.1:53", NULL, NULL, NULL, POLICY_DENIED_ADDRESS}, /* 0.0.0.0/0 names nothing special */
        {"127.0.0.1:53", NULL, NULL, NULL, POLICY_DENIED_ADDRESS},
        {"127.0.0.1:8080", NULL, NULL, NULL, POLICY_ALLOWED, "loop"},
        {"169.254.169.254:80", NULL, NULL, NULL, POLICY_DENIED_ADDRESS}, /* "link" is wider than the service */
        {"169.254.1.1:80", NULL, NULL, NULL, POLICY_ALLOWED, "link"},
        {"100.100.100.200:80", NULL, NULL, NULL, POLICY_ALLOWED, "meta"},
        {"[64:ff9b::10.1.2.3]:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"0.0.0.0:8080", NULL, NULL, NULL, POLICY_DENIED_ADDRESS},
    };
    struct addr own[2];
    struct err err = {0};
    CLEANUP(policy_done) struct policy p = {0};

    init(&p, NET_LIST,
         "{\"rules\":["
         "{\"id\":\"any\",\"action\":\"allow\",\"host\":\"any.com\"},"
         "{\"id\":\"no66\",\"action\":\"deny\",\"host\":\"10.66.0.0/16\"},"
         "{\"id\":\"no1\",\"action\":\"deny\",\"host\":\"1.0.0.0/24\"},"
         "{\"id\":\"ask9\",\"action\":\"ask\",\"host\":\"9.9.9.9\"},"
         "{\"id\":\"late\",\"action\":\"allow\",\"host\":\"late.com\"},"
         "{\"id\":\"ten\",\"action\":\"allow\",\"host\":\"10.0.0.0/8\",\"ports\":443},"
         "{\"id\":\"ask192\",\"action\":\"ask\",\"host\":\"192.168.0.0/16\"},"
         "{\"id\":\"db\",\"action\":\"allow\",\"host\":\"db.lan\",\"ports\":5432,\"allow_private\":true},"
         "{\"id\":\"corp\",\"action\":\"allow\",\"host\":\"**.corp.lan\",\"allow_private\":true},"
         "{\"id\":\"loop\",\"action\":\"allow\",\"host\":\"127.0.0.1\",\"ports\":8080},"
         "{\"id\":\"link\",\"action\":\"allow\",\"host\":\"169.254.0.0/16\"},"
         "{\"id\":\"meta\",\"action\":\"allow\",\"host\":\"100.100.100.200\"},"
         "{\"id\":\"wide\",\"action\":\"allow\",\"host\":\"0.0.0.0/0\"}]}");
    addr_parse("198.41.0.4", 10, &own[0]);
    addr_parse("127.0.0.1", 9, &own[1]);
    assert_int_equal(policy_set_own(&p, own, 2, &err), 0);
    CHECK(&p, rows);
}

static void test_every_name_and_addresses(void **state) {
    static const struct question denied[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "all"},
        {"8.8.8.8:443", NULL, NULL, NULL, POLICY_DENIED_HOST, "all"},
    };
    static const struct question allowed[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "all"},
        {"8.8.8.8:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"a.com:443", NULL, NULL, "10.0.0.1", POLICY_DENIED_ADDRESS},
    };
    CLEANUP(policy_done) struct policy p = {0}, q = {0};

    init(&p, NET_FULL, "{\"rules\":[{\"id\":\"all\",\"action\":\"deny\",\"host\":\"**\"}]}");
    CHECK(&p, denied);
    init(&q, NET_LIST, "{\"rules\":[{\"id\":\"all\",\"action\":\"allow\",\"host\":\"**\"}]}");
    CHECK(&q, allowed);
}

static void test_layers(void **state) {
    static const struct question granted[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "u-a"},
        {"b.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "p-b"}, /* the project is stronger than the user */
        {"c.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "p-c"},
        {"d.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-d"},
    };
    static const struct question narrowed[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "u-a"},
        {"b.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "p-b"},
        {"c.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST}, /* an untrusted project gives nothing */
        {"d.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-d"},
        {"e.com:443", NULL, NULL, PUBLIC, POLICY_ASK, "p-e", NEEDS_HTTP, LOOK_HTTP},
        {"e.com:443", "GET", "/", PUBLIC, POLICY_ASK, "p-e"},
        {"e.com:443", "PUT", "/", PUBLIC, POLICY_DENIED_METHOD, "p-put"},
        {"f.com:443", NULL, NULL, "10.0.0.1", POLICY_DENIED_ADDRESS}, /* nor an address */
    };
    static const struct question floored[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "o-a"},
        {"d.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-d"},
        {"d.com:443", NULL, NULL, "1.2.3.4", POLICY_DENIED_ADDRESS, "o-net"},
        {"1.2.3.4:443", NULL, NULL, NULL, POLICY_DENIED_ADDRESS, "o-net"},
        {"c.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST}, /* the floor gives nothing either */
    };
    static const struct question listed[] = {
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "u-a"},
        {"d.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST},
        {"d.com", NULL, NULL, NULL, POLICY_DENIED_HOST},
    };
    static const struct question asked[] = {
        {"db.com:443", NULL, NULL, "10.0.0.1", POLICY_ASK, "o"}, /* where a name leads */
        {"db.com:443", NULL, NULL, "192.168.0.1", POLICY_ALLOWED, "db"},
        {"a.com:443", NULL, NULL, "9.9.9.9", POLICY_ASK, "o"},
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "u-a"},
        {"a.com:443", NULL, NULL, "10.0.0.1", POLICY_DENIED_ADDRESS}, /* it grants nothing */
    };
    CLEANUP(policy_done) struct policy p = {0};
    struct policy_verdict v;

    init(
        &p, NET_LIST,
        "{\"rules\":[{\"id\":\"u-a\",\"action\":\"allow\",\"host\":\"a.com\"},{\"id\":\"u-b\",\"action\":\"allow\",\"host\":\"b.com\"},"
        "{\"id\":\"u-d\",\"action\":\"deny\",\"host\":\"d.com\"},{\"id\":\"u-e\",\"action\":\"allow\",\"host\":[\"e.com\",\"f.com\"]}]}");
    set(&p, LAYER_SESSION, "{\"rules\":[{\"id\":\"s-d\",\"action\":\"allow\",\"host\":\"d.com\"}]}", false);
    set(&p, LAYER_PROJECT,
        "{\"rules\":[{\"id\":\"p-b\",\"action\":\"deny\",\"host\":\"b.com\"},{\"id\":\"p-c\",\"action\":\"allow\",\"host\":\"c.com\"},"
        "{\"id\":\"p-put\",\"action\":\"deny\",\"host\":\"e.com\",\"methods\":\"PUT\"},{\"id\":\"p-e\",\"action\":\"ask\",\"host\":\"e.com\"},"
        "{\"id\":\"p-f\",\"action\":\"allow\",\"host\":[\"f.com\",\"10.0.0.0/8\"],\"allow_private\":true}]}",
        false);
    CHECK(&p, granted);
    p.layers[LAYER_PROJECT].narrow_only = true;
    CHECK(&p, narrowed);
    ask(&p, &narrowed[4], &v);
    assert_string_equal(v.layer, "project");
    set(&p, LAYER_ORGANISATION,
        "{\"rules\":[{\"id\":\"o-a\",\"action\":\"deny\",\"host\":\"a.com\"},{\"id\":\"o-c\",\"action\":\"allow\",\"host\":\"c.com\"},"
        "{\"id\":\"o-net\",\"action\":\"deny\",\"host\":\"1.2.3.0/24\"}]}",
        false);
    CHECK(&p, floored);
    ask(&p, &floored[0], &v);
    assert_string_equal(v.layer, "organisation");
    assert_non_null(strstr(v.hint, "administrator"));
    set(&p, LAYER_ORGANISATION,
        "{\"mode\":\"list\",\"rules\":[{\"id\":\"o-a\",\"action\":\"allow\",\"host\":\"a.com\",\"max_body\":5}]}", true);
    p.layers[LAYER_PROJECT].present = false;
    ask(&p, &listed[0], &v);
    assert_int_equal(v.max_body, 5);
    assert_int_equal(v.look, LOOK_HTTP);
    check(&p, &listed[1], 2);
    set(&p, LAYER_ORGANISATION, "{\"rules\":[{\"id\":\"o\",\"action\":\"ask\",\"host\":[\"10.0.0.0/8\",\"9.9.9.9\"]}]}", true);
    set(&p, LAYER_SANDBOX, "{\"rules\":[{\"id\":\"db\",\"action\":\"allow\",\"host\":\"db.com\",\"allow_private\":true}]}",
        false);
    CHECK(&p, asked);
    set(&p, LAYER_ORGANISATION, "{\"mode\":\"none\"}", true);
    check(&p, &(struct question){"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_OFF}, 1);
}

/* What the user asks about holds against a project, also where it is an address; not against an exact name for this sandbox. */
static void test_questions_about_addresses(void **state) {
    static const struct question rows[] = {
        {"lan.com:443", NULL, NULL, "10.0.0.1", POLICY_ASK, "u"},        {"lan.com:443", NULL, NULL, "9.9.9.9", POLICY_ASK, "u"},
        {"lan.com:443", NULL, NULL, "192.168.0.1", POLICY_ALLOWED, "p"}, {"lan.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "p"},
        {"db.com:443", NULL, NULL, "10.0.0.1", POLICY_ALLOWED, "s"},
    };
    CLEANUP(policy_done) struct policy p = {0};

    init(&p, NET_LIST, "{\"rules\":[{\"id\":\"u\",\"action\":\"ask\",\"host\":[\"10.0.0.0/8\",\"9.9.9.9\"]}]}");
    set(&p, LAYER_PROJECT, "{\"rules\":[{\"id\":\"p\",\"action\":\"allow\",\"host\":\"lan.com\",\"allow_private\":true}]}",
        false);
    set(&p, LAYER_SANDBOX, "{\"rules\":[{\"id\":\"s\",\"action\":\"allow\",\"host\":\"db.com\",\"allow_private\":true}]}", false);
    CHECK(&p, rows);
}

/* An address that a client names itself: allowed by the modes until some rule is about a host by name, on that port. */
static void test_addresses_beside_names(void **state) {
    static const struct question free_rows[] = {{"8.8.8.8:443", NULL, NULL, NULL, POLICY_ALLOWED},
                                                {"[2606:4700::1111]:80", NULL, NULL, NULL, POLICY_ALLOWED}};
    static const struct question bound[] = {
        {"8.8.8.8:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"[2606:4700::1111]:443", NULL, NULL, NULL, POLICY_NOT_HANDED_OUT},
        {"8.8.8.8:80", NULL, NULL, NULL, POLICY_ALLOWED},
        {"9.9.9.9:443", NULL, NULL, NULL, POLICY_ALLOWED, "nine"},
        {"a.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED},
    };
    static const enum policy_layer_kind layers[] = {LAYER_SANDBOX, LAYER_PROJECT, LAYER_USER, LAYER_ORGANISATION};

    for (size_t i = 0; i < 2 * ARRAY_LEN(layers); i++) {
        CLEANUP(policy_done) struct policy p = {0};

        init(&p, i % 2 ? NET_FULL : NET_LIMITED, NULL);
        set(&p, layers[i / 2],
            "{\"rules\":[{\"action\":\"deny\",\"host\":\"7.7.7.0/24\"},{\"action\":\"allow\",\"host\":\"b.com\"}]}", false);
        CHECK(&p, free_rows);
        set(&p, LAYER_SESSION, "{\"rules\":[{\"id\":\"nine\",\"action\":\"allow\",\"host\":\"9.9.9.9\"}]}", false);
        set(&p, layers[i / 2], "{\"rules\":[{\"action\":\"deny\",\"host\":[\"7.7.7.0/24\",\"*.no.com\"],\"ports\":443}]}",
            layers[i / 2] == LAYER_PROJECT);
        CHECK(&p, bound);
    }
}

/* What a weaker layer denies, and a stronger one allows. */
static void test_overruling(void **state) {
    static const struct question rows[] = {
        {"gist.hub.com", NULL, NULL, NULL, POLICY_DENIED_HOST, "gist"}, /* not by "**.hub.com" */
        {"gist.hub.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "gist"},
        {"api.hub.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-hub"},
        {"said.hub.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-said"}, /* as closely as the deny */
        {"a.deep.net:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-deep"},   /* more closely than "**.net" */
        {"b.net:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "net"},
        {"put.hub.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-hub", NEEDS_HTTP, LOOK_HTTP},
        {"put.hub.com:443", "GET", "/", PUBLIC, POLICY_ALLOWED, "s-hub"},
        {"put.hub.com:443", "PUT", "/", PUBLIC, POLICY_DENIED_METHOD, "put"},
        {"exact.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-exact", NEEDS_HTTP, LOOK_HTTP}, /* a deny of methods is closer */
        {"exact.com:443", "PUT", "/", PUBLIC, POLICY_DENIED_METHOD, "put"},
        {"port.com:22", NULL, NULL, PUBLIC, POLICY_DENIED_PORT, "ssh"},
        {"port.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-port"},
        {"port22.com:22", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-port22"},
        {"ask.hub.com:443", NULL, NULL, PUBLIC, POLICY_ASK, "ask"},
        {"api.hub.com:443", NULL, NULL, "7.7.7.9", POLICY_DENIED_ADDRESS, "seven"}, /* where a name leads */
        {"said.hub.com:443", NULL, NULL, "7.7.7.9", POLICY_ALLOWED, "s-said"},
        {"7.7.7.7:443", NULL, NULL, NULL, POLICY_ALLOWED, "s-addr"},
        {"7.7.7.8:443", NULL, NULL, NULL, POLICY_DENIED_ADDRESS, "seven"},  /* not by 7.7.0.0/16 */
        {"first.hub.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-hub"}, /* the user's own exception stands first */
        {"set.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "set"},     /* networkAllow, a profile, a project: never */
        {"project.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "project"},
        {"other.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "p-other"},
        {"github.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_HOST, "git"}, /* a group is less than its name */
        {"gitlab.com:443", NULL, NULL, PUBLIC, POLICY_ALLOWED, "s-git"},
    };
    CLEANUP(policy_done) struct policy p = {0};
    struct policy_verdict v;

    init(
        &p, NET_LIST,
        "{\"rules\":[{\"id\":\"first\",\"action\":\"allow\",\"host\":\"first.hub.com\"},"
        "{\"id\":\"gist\",\"action\":\"deny\",\"host\":[\"gist.hub.com\",\"first.hub.com\",\"said.hub.com\"]},"
        "{\"id\":\"put\",\"action\":\"deny\",\"host\":[\"put.hub.com\",\"exact.com\"],\"methods\":\"PUT\"},"
        "{\"id\":\"ssh\",\"action\":\"deny\",\"host\":[\"port.com\",\"port22.com\"],\"ports\":22},"
        "{\"id\":\"ask\",\"action\":\"ask\",\"host\":\"ask.hub.com\"},{\"id\":\"net\",\"action\":\"deny\",\"host\":\"**.net\"},"
        "{\"id\":\"seven\",\"action\":\"deny\",\"host\":\"7.7.7.0/24\"},{\"id\":\"set\",\"action\":\"deny\",\"host\":\"set.com\"},"
        "{\"id\":\"project\",\"action\":\"deny\",\"host\":\"project.com\"},{\"id\":\"git\",\"action\":\"deny\",\"host\":\"github.com\"}]}");
    set(&p, LAYER_SANDBOX,
        "{\"rules\":[{\"id\":\"s-said\",\"action\":\"allow\",\"host\":\"said.hub.com\"},{\"id\":\"s-hub\",\"action\":\"allow\",\"host\":\"**.hub.com\"},"
        "{\"id\":\"s-deep\",\"action\":\"allow\",\"host\":\"**.deep.net\"},{\"id\":\"s-exact\",\"action\":\"allow\",\"host\":\"exact.com\"},"
        "{\"id\":\"s-port\",\"action\":\"allow\",\"host\":\"port.com\"},{\"id\":\"s-port22\",\"action\":\"allow\",\"host\":\"port22.com\",\"ports\":22},"
        "{\"id\":\"s-addr\",\"action\":\"allow\",\"host\":\"7.7.7.7\"},{\"id\":\"s-net\",\"action\":\"allow\",\"host\":\"7.7.0.0/16\"},"
        "{\"id\":\"s-git\",\"action\":\"allow\",\"host\":\"@git\"}]}",
        false);
    set(&p, LAYER_SETTINGS, "{\"rules\":[{\"id\":\"w-set\",\"action\":\"allow\",\"host\":\"set.com\"}]}", false);
    set(&p, LAYER_PROJECT, "{\"rules\":[{\"id\":\"p-other\",\"action\":\"allow\",\"host\":[\"project.com\",\"other.com\"]}]}",
        false);
    CHECK(&p, rows);
    ask(&p, &rows[1], &v);
    assert_string_equal(v.layer, "user");
    assert_non_null(strstr(v.reason, "'s-hub' (sandbox) is wider"));
}

static void test_project_does_not_switch_on_what_the_user_switched_off(void **state) {
    CLEANUP(policy_done) struct policy p = {0};

    init(&p, NET_UNSET, "{\"mode\":\"none\"}");
    set(&p, LAYER_PROJECT, "{\"mode\":\"full\"}", false);
    check(&p, &(struct question){"a.com:443", NULL, NULL, PUBLIC, POLICY_DENIED_OFF}, 1);
}

static void test_words(void **state) {
    CLEANUP(policy_done) struct policy p = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(10000);
    struct policy_verdict v;

    init(&p, NET_LIST,
         "{\"rules\":[{\"id\":\"g\",\"action\":\"allow\",\"host\":\"@git\",\"ports\":[22,443]},"
         "{\"id\":\"x\",\"action\":\"deny\",\"host\":\"*.evil.com\"}]}");
    ask(&p, &(struct question){"exfil.io:443", NULL, NULL, PUBLIC}, &v);
    assert_string_equal(v.reason, "exfil.io is not among the hosts that this sandbox may reach.");
    assert_string_equal(
        v.hint,
        "Trying again does not help. If you need it, ask the user to run, outside the sandbox: bawn policy allow exfil.io:443");
    ask(&p, &(struct question){"github.com:80", NULL, NULL, PUBLIC}, &v);
    assert_string_equal(v.reason, "Port 80 of github.com may not be reached (allowed: 22, 443).");
    ask(&p, &(struct question){"a.evil.com:443", NULL, NULL, PUBLIC}, &v);
    assert_string_equal(v.reason, "Rule 'x' (user) denies a.evil.com.");
    assert_string_equal(v.pattern, "*.evil.com");
    policy_verdict_add_json(&v, "a.evil.com", 443, NULL, &b);
    assert_string_equal(
        buf_str(&b),
        "{\"code\": \"BAWN_NET_DENIED_HOST\", \"action\": \"deny\", \"host\": \"a.evil.com\", \"port\": 443, \"rule\": \"x\", "
        "\"layer\": \"user\", \"reason\": \"Rule 'x' (user) denies a.evil.com.\", \"hint\": \"Trying again does not "
        "help. If you need it, ask the user, who can change rule 'x'.\"}");
    ask(&p, &(struct question){"github.com:443", NULL, NULL, "127.0.0.1"}, &v);
    assert_string_equal(v.reason, "github.com leads to a loopback address.");
    assert_string_equal(v.layer, "address");
    policy_refuse(POLICY_NAME_INVALID, "a\x1b[2J", "the host name has a NUL byte in it", &v);
    assert_null(strchr(v.reason, 0x1b));
    assert_non_null(strstr(v.reason, "NUL byte in it."));
    assert_int_equal(v.action, RULE_DENY);
}

/* A hint names exactly what was asked for, in words that a shell takes as they are; and never how to get at this machine. */
static void test_hints(void **state) {
    static const struct {
        struct question q;
        const char *command; /* NULL: none */
    } rows[] = {
        {{"a.example.io:8443", NULL, NULL, PUBLIC}, "bawn policy allow a.example.io:8443"},
        {{"a.example.io", NULL, NULL, NULL}, "bawn policy allow a.example.io:PORT"},
        {{"api.com:443", "DELETE", "/v1/x", PUBLIC}, "bawn policy allow api.com:443 --method DELETE --path /v1/x"},
        {{"api.com:443", "GET", "/v2/$(reboot)", PUBLIC}, "bawn policy allow api.com:443 --method GET"},
        {{"api.com:443", "GET", "/v2/**", PUBLIC}, "bawn policy allow api.com:443 --method GET"},
        {{"lan.com:80", NULL, NULL, "10.0.0.5"}, "bawn policy allow lan.com:80 --private"},
        {{"[2001:db8::1]:443", NULL, NULL, NULL}, NULL},
        {{"lan.com:80", NULL, NULL, "169.254.169.254"}, NULL},
        {{"lan.com:80", NULL, NULL, "127.0.0.1"}, NULL},
        {{"lan.com:80", NULL, NULL, "93.184.216.35"}, NULL}, /* this machine's own */
        {{"169.254.169.254:80", NULL, NULL, NULL}, NULL},
        {{"127.0.0.1:80", NULL, NULL, NULL}, NULL},
        {{"metadata.google.internal:80", NULL, NULL, NULL}, NULL},
        {{"host.bawn.internal:5432", NULL, NULL, NULL}, NULL},
    };
    CLEANUP(policy_done) struct policy p = {0};
    struct addr own;

    init(&p, NET_LIST,
         "{\"rules\":[{\"action\":\"allow\",\"host\":\"api.com\",\"methods\":[\"GET\"],\"paths\":[\"/v1/*\"]},"
         "{\"action\":\"allow\",\"host\":\"lan.com\"}]}");
    assert_int_equal(addr_parse("93.184.216.35", 13, &own), 0);
    assert_int_equal(policy_set_own(&p, &own, 1, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct policy_verdict v;
        const char *at;

        ask(&p, &rows[i].q, &v);
        at = strstr(v.hint, "bawn policy");
        if (v.action != RULE_DENY || (at ? !rows[i].command || !str_eq(at, rows[i].command) : rows[i].command != NULL))
            fail_msg("row %zu, %s: %s", i, v.reason, v.hint);
    }
}

/* Each code stands in the schema, with the same words. */
static void test_codes(void **state) {
    static char schema[64 * 1024];
    FILE *f = fopen("spec/policy.schema.json", "re");

    assert_non_null(f);
    assert_true(fread(schema, 1, sizeof schema - 1, f) > 0);
    fclose(f);
    for (size_t i = 0; i < POLICY_CODES; i++) {
        char row[300];

        assert_true(str_starts(policy_codes[i].name, "BAWN_NET_"));
        assert_true(str_ends(policy_codes[i].help, "."));
        snprintf(row, sizeof row, "{ \"const\": \"%s\", \"description\": \"%s\" }", policy_codes[i].name, policy_codes[i].help);
        if (!strstr(schema, row))
            fail_msg("spec/policy.schema.json has no %s", row);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(policy_codes[i].name, policy_codes[k].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_nothing_named),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_order_and_conditions),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_every_name_and_addresses),
        cmocka_unit_test(test_questions_about_addresses),
        cmocka_unit_test(test_addresses_beside_names),
        cmocka_unit_test(test_overruling),
        cmocka_unit_test(test_project_does_not_switch_on_what_the_user_switched_off),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
