/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, writing and asking a file of rules. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/rules/rule.h"

static void read_text(const char *text, struct rules *ret) {
    struct err err = {0};

    if (rules_read("p.json", text, strlen(text), ret, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_errors(void **state) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "p.json:1:"},
        {"[]", "p.json:1:1: the file must hold an object"},
        {"{\"rules\": [}", "p.json:1:12: not valid JSON"},
        {"{\"rules\": [],\n \"rules\": []}", "p.json:2:"},
        {"{\n  \"ruels\": []}", "p.json:2:3: unknown key 'ruels' (did you mean 'rules'?)"},
        {"{\"\\u001b[31m\": 1}", "p.json:1:2: unknown key '\\x1b[31m'"},
        {"{\"rules\": {}}", "p.json:1:11: rules: must be an array"},
        {"{\"rules\": [7]}", "p.json:1:12: rules[0]: must be a rule"},
        {"{\"rules\": [{\"host\": \"a.b\"}]}", "p.json:1:12: rules[0]: a rule needs an \"action\""},
        {"{\"rules\": [{\"action\": \"allow\"}]}", "p.json:1:12: rules[0]: a rule needs a \"host\""},
        {"{\"rules\": [\n{\"action\": \"allow\", \"host\": \"a\"},\n{\"action\": \"permit\", \"host\": \"a\"}]}",
         "p.json:3:12: rules[1].action: must be \"allow\", \"deny\" or \"ask\""},
        {"{\"rules\": [{\"action\": \"allow\",\n \"host\": [\"ok.example\", \"ü\\\"ö]{\", \"b..c\"]}]}",
         "p.json:2:25: rules[0].host[1]: "},
        {"{\"rules\": [{\"action\": \"allow\",\n \"host\": [\"\xc3\xbc.example\", \"b..c\"]}]}",
         "p.json:2:24: rules[0].host[1]: the host name has an empty part"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"port\": 1}]}",
         "p.json:1:45: unknown key 'rules[0].port' (did you mean 'ports'?)"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"*\"}]}", "write ** for every name"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a*.com\"}]}", "'*' may only stand for whole labels"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a.*.com\"}]}", "'*' may only stand for whole labels"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"*.*.com\"}]}", "'*' may only stand for whole labels"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"*.\"}]}", "'*' may only"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"*.127.0.0.1\"}]}", "a wildcard does not go with an address"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"127.1\"}]}", "number"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"10.0.0.1/8\"}]}", "did you mean 10.0.0.0/8?"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"@nobody\"}]}",
         "p.json:1:40: rules[0].host: there is no group '@nobody'"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"@No\"}]}", "a group is '@'"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": []}]}", "must not be empty"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": 7}]}", "must be a host"},
        {"{\"groups\": {\"@git\": [\"a.b\"]}}", "p.json:1:13: groups.@git: this group is built in"},
        {"{\"groups\": {\"x\": [\"a.b\"]}}", "p.json:1:13: groups.x: a group is '@'"},
        {"{\"groups\": {\"@x\": [\"@git\"]}}", "p.json:1:20: groups.@x[0]: a group cannot hold a group"},
        {"{\"groups\": {\"@x\": \"a.b\"}}", "must be an array"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": [443, 0]}]}",
         "p.json:1:60: rules[0].ports[1]: must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": \"9-8\"}]}", "must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": \"1-65536\"}]}", "must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": \"1-\"}]}", "must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": \"1-2-3\"}]}", "must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": [\"99999999999999999999999\"]}]}", "must be a port"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"ports\": []}]}", "must not be empty"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"methods\": [\"G ET\"]}]}", "must be a method"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"paths\": [\"/a\", \"b\"]}]}",
         "rules[0].paths[1]: the path does not start with a slash"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"paths\": \"/a?b\"}]}", "not at the query"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"max_body\": \"lots\"}]}",
         "rules[0].max_body: 'lots' is not a size"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"max_body\": -1}]}", "must be a size"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"inspect\": \"yes\"}]}", "must be true or false"},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\", \"inspect\": false, \"methods\": \"GET\"}]}",
         "need a look inside"},
        {"{\"rules\": [{\"action\": \"deny\", \"host\": \"a\", \"allow_private\": true}]}", "no use for allow_private"},
        {"{\"rules\": [{\"id\": \"a b\", \"action\": \"deny\", \"host\": \"a\"}]}", "rules[0].id: must be 1 to 64 letters"},
        {"{\"rules\": [{\"id\": \"x\", \"action\": \"deny\", \"host\": \"a\"},\n{\"id\": \"x\", \"action\": \"deny\", \"host\": \"a\"}]}",
         "p.json:2:1: rules[1]: rule 1 has the id 'x' already"},
        {"{\"mode\": \"some\"}", "p.json:1:10: mode: must be \"none\""},
        {"{\"unlisted\": \"allow\"}", "p.json:1:14: unlisted: must be \"deny\" or \"ask\""},
        {"{\"rules\": [{\"action\": \"allow\", \"host\": \"a\\u0000.b\"}]}", "p.json:1:"},
        {"{\"a\": \"\xff\"}", "p.json:1:8: byte 0xff is not valid UTF-8"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(rules_done) struct rules rules = {0};
        struct err err = {0};

        if (rules_read("p.json", rows[i].text, strlen(rows[i].text), &rules, &err) != -EINVAL)
            fail_msg("%s was accepted", rows[i].text);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("%s\n  says      %s\n  not       %s", rows[i].text, err.msg, rows[i].says);
    }
}

static const char sample[] =
    "{\n"
    "  \"mode\": \"list\",\n"
    "  \"unlisted\": \"ask\",\n"
    "  \"groups\": {\n"
    "    \"@ours\": [\"git.example.com\", \"*.ci.example.com\", \"10.0.0.0/8\"]\n"
    "  },\n"
    "  \"rules\": [\n"
    "    {\"id\": \"push\", \"action\": \"allow\", \"host\": \"@ours\", \"ports\": [22, \"8000-8999\"]},\n"
    "    {\"id\": \"rule-2\", \"action\": \"ask\", \"host\": [\"**.example.com\", \"**\"], \"methods\": [\"GET\", \"M-SEARCH\"], "
    "\"paths\": [\"/v1/**\", \"/~me\"], \"max_body\": 1048576, \"inspect\": true, \"allow_private\": true, "
    "\"comment\": \"caf\xc3\xa9 \\\"x\\\"\"},\n"
    "    {\"id\": \"rule-3\", \"action\": \"deny\", \"host\": \"2001:db8::/32\", \"inspect\": false}\n"
    "  ]\n"
    "}\n";

static void test_written_as_read(void **state) {
    CLEANUP(rules_done) struct rules rules = {0}, empty = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);

    read_text(sample, &rules);
    rules_write(&rules, &b);
    assert_string_equal(buf_str(&b), sample);
    read_text("{}", &empty);
    buf_clear(&b);
    rules_write(&empty, &b);
    assert_string_equal(buf_str(&b), "{\n  \"rules\": []\n}\n");
}

static void test_normal_forms(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);

    read_text("{\"mode\":\"on\",\"rules\":[{\"action\":\"allow\",\"host\":[\"*.B\xc3\xbc"
              "cher.DE.\",\"[::0001]\",\"1.2.3.4/32\"],"
              "\"ports\":\"443\",\"methods\":\"get\",\"paths\":\"/%7Ea//b\",\"max_body\":\"1k\"}]}",
              &rules);
    rules_write(&rules, &b);
    assert_string_equal(buf_str(&b),
                        "{\n  \"mode\": \"full\",\n  \"rules\": [\n    {\"id\": \"rule-1\", \"action\": \"allow\", \"host\": "
                        "[\"*.xn--bcher-kva.de\", \"::1\", \"1.2.3.4\"], \"ports\": [443], \"methods\": [\"GET\"], "
                        "\"paths\": [\"/~a/b\"], \"max_body\": 1024}\n  ]\n}\n");
}

static void test_ids(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};
    CLEANUP(rule_done) struct rule more = {.action = RULE_DENY};
    struct err err = {0};

    read_text("{\"rules\":[{\"action\":\"allow\",\"host\":\"a\"},{\"id\":\"rule-1\",\"action\":\"deny\",\"host\":\"b\"},"
              "{\"action\":\"deny\",\"host\":\"c\"}]}",
              &rules);
    assert_string_equal(rules.v[0].id, "rule-2");
    assert_string_equal(rules.v[1].id, "rule-1");
    assert_string_equal(rules.v[2].id, "rule-4");
    more.hosts = calloc(1, sizeof *more.hosts);
    more.n_hosts = 1;
    assert_int_equal(pattern_parse("*.d", 3, more.hosts, &err), 0);
    assert_int_equal(rules_add(&rules, 0, &more, &err), 0);
    assert_null(more.hosts);
    assert_int_equal(rules_compile(&rules, &err), 0);
    assert_int_equal(rules.len, 4);
    assert_string_equal(rules.v[0].id, "rule-3");
    assert_ptr_equal(rules_find(&rules, "rule-4"), &rules.v[3]);
    assert_null(rules_find(&rules, "rule-5"));
}

/* The ids of the rules that match, in order. */
static void expect(const struct rules *rules, const char *host, const char *address, const char *ids) {
    CLEANUP(buf_done) struct buf got = BUF_INIT(10000);
    const struct rule *last = NULL;
    struct err err = {0};
    struct addr a;
    struct host h;
    struct rule_walk w;
    struct rule_hit hit;

    assert_int_equal(host_parse(host, strlen(host), &h, &err), 0);
    if (address)
        assert_int_equal(addr_parse(address, strlen(address), &a), 0);
    rule_walk_init(&w, rules, &h, address ? &a : NULL);
    for (; rule_walk_next(&w, &hit); last = hit.rule)
        if (hit.rule != last)
            buf_addf(&got, "%s ", hit.rule->id);
    if (!str_eq(buf_str(&got), ids))
        fail_msg("%s: '%s', not '%s'", host, buf_str(&got), ids);
}

static void test_patterns(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};

    read_text("{\"groups\":{\"@g\":[\"google.com\",\"*.group.net\"]},\"rules\":["
              "{\"id\":\"one\",\"action\":\"allow\",\"host\":\"*.google.com\"},"
              "{\"id\":\"deep\",\"action\":\"allow\",\"host\":\"**.google.com\"},"
              "{\"id\":\"exact\",\"action\":\"deny\",\"host\":[\"google.com\",\"google.com\"]},"
              "{\"id\":\"group\",\"action\":\"allow\",\"host\":[\"@g\",\"www.google.com\"]},"
              "{\"id\":\"tld\",\"action\":\"ask\",\"host\":\"*.com\"},"
              "{\"id\":\"net\",\"action\":\"deny\",\"host\":[\"10.0.0.0/8\",\"10.1.0.0/16\"]},"
              "{\"id\":\"wide\",\"action\":\"allow\",\"host\":\"0.0.0.0/0\"},"
              "{\"id\":\"v6\",\"action\":\"allow\",\"host\":\"::/0\"},"
              "{\"id\":\"any\",\"action\":\"allow\",\"host\":\"**\"},"
              "{\"id\":\"none\",\"action\":\"deny\",\"host\":\"**\"}]}",
              &rules);
    expect(&rules, "google.com", NULL, "exact group tld any none ");
    expect(&rules, "GOOGLE.com.", NULL, "exact group tld any none ");
    expect(&rules, "www.google.com", NULL, "one deep group any none ");
    expect(&rules, "a.www.google.com", NULL, "deep any none ");
    expect(&rules, "evilgoogle.com", NULL, "tld any none "); /* ATTACKS 47 */
    expect(&rules, "google.com.evil.net", NULL, "any none ");
    expect(&rules, "com", NULL, "any none ");
    expect(&rules, "a.group.net", NULL, "group any none ");
    expect(&rules, "b.a.group.net", NULL, "any none ");
    expect(&rules, "a.b", "10.1.2.3", "net wide any none ");
    expect(&rules, "a.b", "::ffff:10.1.2.3", "net wide any none ");
    expect(&rules, "a.b", "2606::1", "v6 any none ");
    expect(&rules, "10.2.0.0", NULL, "net wide none ");
    expect(&rules, "[::ffff:10.2.0.0]", NULL, "net wide none ");
    expect(&rules, "[64:ff9b::10.2.0.0]", NULL, "net v6 none "); /* the tunnel is denied, but only its own address allows it */
    expect(&rules, "[2002:a01:203::1]", NULL, "net v6 none ");
}

static void test_builtin_groups(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};

    read_text("{\"rules\":[{\"id\":\"g\",\"action\":\"allow\",\"host\":\"@git\"},{\"id\":\"r\",\"action\":\"allow\",\"host\":"
              "[\"@registries\",\"@git\"]},{\"id\":\"m\",\"action\":\"allow\",\"host\":\"@models\"}]}",
              &rules);
    expect(&rules, "github.com", NULL, "g r ");
    expect(&rules, "gist.github.com", NULL, "");
    expect(&rules, "ssh.github.com", NULL, ""); /* ATTACKS 60 */
    expect(&rules, "registry.npmjs.org", NULL, "r ");
    expect(&rules, "api.anthropic.com", NULL, "m ");
    expect(&rules, "storage.googleapis.com", NULL, ""); /* ATTACKS 61 */
    for (size_t i = 0; i < n_builtin_groups; i++) {
        CLEANUP(group_done) struct group g = {0};
        struct err err = {0};

        assert_int_equal(group_read(builtin_groups[i].name, builtin_groups[i].text, &g, &err), 0);
        assert_true(g.n >= 10);
        for (size_t k = 0; k < g.n; k++) { /* nothing wide, nothing twice */
            assert_true(g.hosts[k].kind == PATTERN_EXACT || g.hosts[k].kind == PATTERN_ONE);
            assert_non_null(strchr(g.hosts[k].key, '.'));
            for (size_t j = 0; j < k; j++)
                assert_string_not_equal(g.hosts[j].text, g.hosts[k].text);
        }
    }
}

static void test_group_lines(void **state) {
    CLEANUP(group_done) struct group g = {0};
    struct err err = {0};

    assert_int_equal(group_read("@x", "# c\n\na.b  # why\r\n*.c.d\t\n1.2.3.4", &g, &err), 0);
    assert_int_equal(g.n, 3);
    assert_string_equal(g.hosts[0].text, "a.b");
    assert_string_equal(g.hosts[1].text, "*.c.d");
    group_done(&g);
    assert_int_equal(group_read("@x", "a.b\nc..d\n", &g, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "@x, line 2: "));
    assert_int_equal(group_read("@x", "@git\n", &g, &err), -EINVAL);
}

/* Without the index of struct rules: to check that index. */
static bool matches_name(const struct pattern *p, const char *name) {
    size_t n = strlen(name), k = strlen(p->key);

    if (p->kind == PATTERN_EXACT || p->kind == PATTERN_ANY)
        return p->kind == PATTERN_ANY || strcmp(name, p->key) == 0;
    if (n <= k + 1 || name[n - k - 1] != '.' || strcmp(name + n - k, p->key) != 0)
        return false;
    return p->kind == PATTERN_DEEP || strchr(name, '.') == name + n - k - 1;
}

/* As many rules as may be, of every kind: found by the index as by looking at each. */
static void test_many(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_SIZE_MAX);
    struct err err = {0};

    buf_adds(&b, "{\"rules\":[");
    for (unsigned i = 0; i < 10000; i++) {
        static const char *const shapes[] = {"h%u.example.com", "*.h%u.example.com", "**.d%u.example.com", "**.%u.h7.net"};
        char host[64];

        snprintf(host, sizeof host, shapes[i % 4], i % 997);
        buf_addf(&b, "%s{\"action\":\"%s\",\"host\":\"%s\"}", i ? "," : "", i % 3 ? "allow" : "deny", host);
    }
    buf_adds(&b, "]}");
    assert_true(buf_ok(&b));
    assert_int_equal(rules_read("p", buf_str(&b), b.len, &rules, &err), 0);
    for (unsigned i = 0; i < 3000; i++) {
        static const char *const asked[] = {"h%u.example.com", "a.h%u.example.com", "a.b.d%u.example.com", "x.y.%u.h7.net",
                                            "no%u.org"};
        struct rule_walk w;
        struct rule_hit hit;
        struct host h;
        char host[64];

        snprintf(host, sizeof host, asked[i % 5], i % 1100);
        assert_int_equal(host_parse(host, strlen(host), &h, &err), 0);
        rule_walk_init(&w, &rules, &h, NULL);
        for (size_t k = 0; k < rules.len; k++)
            if (matches_name(&rules.v[k].hosts[0], h.text)) {
                assert_true(rule_walk_next(&w, &hit));
                assert_ptr_equal(hit.rule, &rules.v[k]);
            }
        assert_false(rule_walk_next(&w, &hit));
    }
}

static void test_ceilings(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(2 * RULES_SIZE_MAX);
    struct rules rules;
    struct err err = {0};

    buf_adds(&b, "{\"rules\":[");
    for (unsigned i = 0; i <= RULES_MAX; i++)
        buf_addf(&b, "%s{\"action\":\"allow\",\"host\":\"a\"}", i ? ",\n" : "");
    buf_adds(&b, "]}");
    assert_int_equal(rules_read("p", buf_str(&b), b.len, &rules, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "p:20001:1: rules[20000]: there are at most 20000 rules"));
    buf_clear(&b);
    buf_adds(&b, "{\"rules\":[");
    for (unsigned i = 0; i < 15000; i++)
        buf_addf(&b, "%s{\"action\":\"allow\",\"host\":\"@registries\"}", i ? "," : "");
    buf_adds(&b, "]}");
    assert_int_equal(rules_read("p", buf_str(&b), b.len, &rules, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "groups written out"));
    buf_clear(&b);
    while (b.len <= RULES_SIZE_MAX)
        buf_adds(&b, "                                                                                ");
    assert_int_equal(rules_read("p", buf_str(&b), b.len, &rules, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "bytes (at most"));
    buf_clear(&b);
    for (unsigned i = 0; i < 100000; i++)
        buf_adds(&b, "{\"a\":[");
    assert_int_equal(rules_read("p", buf_str(&b), b.len, &rules, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_written_as_read),
        cmocka_unit_test(test_normal_forms), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_patterns),     cmocka_unit_test(test_builtin_groups),
        cmocka_unit_test(test_group_lines),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_ceilings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
