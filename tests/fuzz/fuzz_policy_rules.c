/* SPDX-License-Identifier: Apache-2.0 */
/* Files of rules by whoever: written back they read the same; as an untrusted project's they never allow more than there was; and
 * what is said before all is known is never stricter than what is said then. */
#include "base/buf.h"
#include "base/err.h"
#include "policy/rules/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const hosts[] = {"a.com",    "b.a.com", "c.b.a.com",       "github.com",     "db.lan",
                                    "10.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2606::1"};
static const char *const addresses[] = {"93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254", "64:ff9b::a00:1", "::1"};
static const uint16_t ports[] = {22, 80, 443};
static const char *const methods[] = {"GET", "POST"};
static const char *const paths[] = {"/", "/a/b", "/a%2fb"};

static void check_written(const struct rules *rules) {
    CLEANUP(rules_done) struct rules again = {0};
    CLEANUP(buf_done) struct buf one = BUF_INIT(2 * RULES_SIZE_MAX), two = BUF_INIT(2 * RULES_SIZE_MAX);
    struct err err = {0};

    rules_write(rules, &one);
    if (one.len > RULES_SIZE_MAX)
        return;
    if (!buf_ok(&one) || rules_read("again", buf_str(&one), one.len, &again, &err) < 0)
        BUG("rules that cannot be read back");
    rules_write(&again, &two);
    if (strcmp(buf_str(&one), buf_str(&two)) != 0)
        BUG("rules that are other ones when read back");
}

static enum rule_action judge(const struct policy *p, const struct policy_request *req, struct policy_verdict *v) {
    policy_judge(p, req, v);
    if (!v->reason[0] || !v->layer || (v->action == RULE_DENY && v->needs))
        BUG("a verdict without a reason");
    return v->action;
}

/* The same request, more and more of it known. */
static enum rule_action ask(const struct policy *p, const char *host, size_t pick) {
    static struct http_path path;
    struct policy_verdict v;
    struct policy_request req = {0};
    enum rule_action before, after;
    struct err err = {0};
    struct host h;
    struct addr a;

    host_parse(host, strlen(host), &h, &err);
    req.host = &h;
    before = judge(p, &req, &v);
    for (int step = 0; step < 4; step++, before = after) {
        if (step == 0)
            req.port = ports[pick % ARRAY_LEN(ports)];
        if (step == 1 &&
            addr_parse(addresses[pick % ARRAY_LEN(addresses)], strlen(addresses[pick % ARRAY_LEN(addresses)]), &a) == 0)
            req.address = &a;
        if (step == 2)
            req.method = methods[pick % ARRAY_LEN(methods)];
        if (step == 3 &&
            http_path_parse(paths[pick % ARRAY_LEN(paths)], strlen(paths[pick % ARRAY_LEN(paths)]), &path, &err) == 0)
            req.path = &path;
        after = judge(p, &req, &v);
        if (after > before)
            BUG("a verdict that got milder when more was known");
    }
    if (v.needs)
        BUG("all is known and something is needed");
    return before;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char user[] =
        "{\"mode\":\"list\",\"unlisted\":\"ask\",\"rules\":[{\"action\":\"allow\",\"host\":[\"a.com\",\"*.a.com\",\"8.8.8.8\"],"
        "\"methods\":\"GET\"},{\"action\":\"allow\",\"host\":\"db.lan\",\"allow_private\":true},{\"action\":\"deny\","
        "\"host\":\"**.a.com\"},{\"action\":\"allow\",\"host\":[\"10.0.0.0/8\",\"@git\"],\"ports\":443}]}";
    CLEANUP(rules_done) struct rules rules = {0}, mine = {0};
    CLEANUP(policy_done) struct policy p = {0};
    struct err err = {0};
    enum rule_action plain[ARRAY_LEN(hosts)];

    if (rules_read("input", (const char *)data, size, &rules, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a failure without a message");
        return 0;
    }
    check_written(&rules);
    if (policy_init(&p, NET_UNSET, true, &err) < 0 || rules_read("user", user, sizeof user - 1, &mine, &err) < 0)
        BUG(err.msg);
    policy_set_layer(&p, LAYER_USER, &mine, false);
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        plain[i] = ask(&p, hosts[i], size + i);
    policy_set_layer(&p, LAYER_PROJECT, &rules, true);
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        if (ask(&p, hosts[i], size + i) > plain[i])
            BUG("an untrusted project got more");
    p.layers[LAYER_PROJECT].narrow_only = false;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        ask(&p, hosts[i], size + i);
    return 0;
}
