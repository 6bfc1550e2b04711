/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/rules/rule.h"

static void test_words(void **state) {
    static const struct {
        const char *text, *json; /* NULL: refused */
    } table[] = {
        {"Example.COM.", "{\"action\": \"allow\", \"host\": \"example.com\"}"},
        {"example.com:443", "{\"action\": \"allow\", \"host\": \"example.com\", \"ports\": [443]}"},
        {"*.example.com:8443", "{\"action\": \"allow\", \"host\": \"*.example.com\", \"ports\": [8443]}"},
        {"**", "{\"action\": \"allow\", \"host\": \"**\"}"},
        {"10.0.0.0/8:5432", "{\"action\": \"allow\", \"host\": \"10.0.0.0/8\", \"ports\": [5432]}"},
        {"2001:db8::/32", "{\"action\": \"allow\", \"host\": \"2001:db8::/32\"}"},
        {"2001:db8::1", "{\"action\": \"allow\", \"host\": \"2001:db8::1\"}"},
        {"[2001:db8::1]:443", "{\"action\": \"allow\", \"host\": \"2001:db8::1\", \"ports\": [443]}"},
        {"[2001:db8::/32]", "{\"action\": \"allow\", \"host\": \"2001:db8::/32\"}"},
        {"@git:22", "{\"action\": \"allow\", \"host\": \"@git\", \"ports\": [22]}"},
        {"host.bawn.internal:1",
         "{\"action\": \"allow\", \"host\": \"host.bawn.internal\", \"ports\": [1], \"allow_private\": true}"},
        {"", NULL},
        {":443", NULL},
        {"example.com:", NULL},
        {"example.com:0", NULL},
        {"example.com:65536", NULL},
        {"example.com:https", NULL},
        {"example.com:+1", NULL},
        {"[2001:db8::1", NULL},
        {"[2001:db8::1]443", NULL},
        {"a.*.example.com", NULL},
        {"https://example.com", NULL},
        {"user@example.com", NULL},
        {"127.1", NULL},
        {"0x7f.0.0.1:80", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
        CLEANUP(rule_done) struct rule rule = {0};
        struct err err = {0};
        int r = rule_from_text(table[i].text, RULE_ALLOW, &rule, &err);

        if (!table[i].json) {
            if (r != -EINVAL || err_exit_status(&err) != EXIT_USAGE_ERR)
                fail_msg("'%s': %d, status %d, '%s'", table[i].text, r, err_exit_status(&err), err.msg);
            assert_int_equal(rule.n_hosts, 0);
            continue;
        }
        if (r < 0)
            fail_msg("'%s': %s", table[i].text, err.msg);
        rule_add_json(&rule, &b);
        assert_string_equal(buf_str(&b), table[i].json);
    }
}

static void test_a_url_is_no_host(void **state) {
    static const char words[] = "a rule names a host, not a URL";
    static const struct {
        const char *text, *meant; /* NULL: nothing that a rule could name */
    } table[] = {
        {"http://h/", "h"},
        {"https://example.com", "example.com"},
        {"https://example.com:8443/a?b#c", "example.com:8443"},
        {"https://example.com?q=/x", "example.com"},
        {"https://ann:pass@word@example.com/", "example.com"},
        {"ws://[2001:db8::1]:443/", "[2001:db8::1]:443"},
        {"https://*.example.com/", "*.example.com"},
        {"http:///etc/passwd", NULL},
        {"https://", NULL},
        {"https://http://x", NULL},
        {"https://a b/", NULL},
        {"https://example.com:https/", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(freep)
        char *want = table[i].meant ? str_dupf("%s; did you mean '%s'?", words, table[i].meant) : str_dupf("%s", words);
        struct rule rule = {0};
        struct err err = {0};

        assert_int_equal(rule_from_text(table[i].text, RULE_ALLOW, &rule, &err), -EINVAL);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        assert_string_equal(err.msg, want);
    }
}

static void test_a_denial_grants_nothing(void **state) {
    CLEANUP(rule_done) struct rule rule = {0};

    assert_int_equal(rule_from_text("host.bawn.internal", RULE_DENY, &rule, NULL), 0);
    assert_false(rule.allow_private);
}

static void add(struct rules *rules, const char *text, const char *id) {
    struct rule rule = {0};

    assert_int_equal(rule_from_text(text, RULE_ALLOW, &rule, NULL), 0);
    assert_int_equal(rule_give_id(rules, &rule, NULL), 0);
    assert_string_equal(rule.id, id);
    assert_true(rule_id_ok(rule.id));
    assert_int_equal(rules_add(rules, rules->len, &rule, NULL), 0);
}

static void test_ids(void **state) {
    CLEANUP(rules_done) struct rules rules = {0};
    char name[300];

    add(&rules, "example.com", "allow-example.com");
    add(&rules, "example.com:443", "allow-example.com-2");
    add(&rules, "example.com:80", "allow-example.com-3");
    add(&rules, "*.example.com", "allow-_.example.com");
    add(&rules, "@git", "allow-_git");
    add(&rules, "10.0.0.0/8", "allow-10.0.0.0_8");
    memset(name, 'a', sizeof name);
    for (size_t i = 60; i < 240; i += 60)
        name[i] = '.';
    name[240] = 0;
    for (int i = 0; i < 12; i++) {
        struct rule rule = {0};

        assert_int_equal(rule_from_text(name, RULE_ALLOW, &rule, NULL), 0);
        assert_int_equal(rule_give_id(&rules, &rule, NULL), 0);
        assert_true(rule_id_ok(rule.id));
        assert_int_equal(rules_add(&rules, rules.len, &rule, NULL), 0);
    }
    assert_int_equal(rules_compile(&rules, NULL), 0);
}

static void test_same(void **state) {
    CLEANUP(rule_done) struct rule a = {0}, b = {0}, c = {0};

    assert_int_equal(rule_from_text("EXAMPLE.com:443", RULE_ALLOW, &a, NULL), 0);
    assert_int_equal(rule_from_text("example.com.:443", RULE_ALLOW, &b, NULL), 0);
    assert_int_equal(rule_from_text("example.com:443", RULE_DENY, &c, NULL), 0);
    b.id = strdup("other");
    b.comment = strdup("why");
    assert_true(rule_same(&a, &b));
    assert_false(rule_same(&a, &c));
    b.allow_private = true;
    assert_false(rule_same(&a, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_a_url_is_no_host),
        cmocka_unit_test(test_a_denial_grants_nothing),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
