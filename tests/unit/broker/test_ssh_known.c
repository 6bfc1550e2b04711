/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "broker/ssh/ssh_known.h"

/* "key1" and "key2" stand for keys: a2V5MQ==, a2V5Mg==. */
#define KEY1 " ssh-ed25519 a2V5MQ=="
#define KEY2 " ssh-ed25519 a2V5Mg=="
static const struct ssh_bytes key1 = {(const uint8_t *)"key1", 4};

static const struct {
    const char *text, *host;
    uint16_t port;
    bool has;
} rows[] = {
    {"a.example" KEY1, "a.example", 22, true},
    {"a.example" KEY1, "a.example", 2222, false},
    {"a.example" KEY1, "b.example", 22, false},
    {"A.Example" KEY1, "a.example", 22, true},
    {"a.example" KEY1 " comment\n", "a.example", 22, true},
    {"  a.example\t" KEY1 "\r\n", "a.example", 22, true},
    {"x,a.example,192.0.2.7" KEY1, "192.0.2.7", 22, true},
    {"[a.example]:2222" KEY1, "a.example", 2222, true},
    {"[a.example]:2222" KEY1, "a.example", 22, false},
    {"*.example" KEY1, "a.example", 22, true},
    {"*.example" KEY1, "example", 22, false},
    {"?.example" KEY1, "a.example", 22, true},
    {"?.example" KEY1, "ab.example", 22, false},
    {"a*x*e" KEY1, "a.example", 22, true},
    {"*.example,!a.example" KEY1, "a.example", 22, false},
    {"!a.example,*.example" KEY1, "a.example", 22, false},
    {"*.example,!a.example" KEY1, "b.example", 22, true},
    {"!a.example" KEY1, "b.example", 22, false},
    {"b.example" KEY1 "\na.example" KEY1, "a.example", 22, true},
    {"a.example ssh-ed25519 a2V5MQ", "a.example", 22, true}, /* without padding */
};

static void test_names(void **state) {
    struct ssh_known k;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(ssh_known_find(rows[i].text, key1, &k), 0);
        if (ssh_known_has(&k, rows[i].host, rows[i].port) != rows[i].has)
            fail_msg("row %zu: %s", i, rows[i].text);
    }
}

static void test_keys(void **state) {
    struct ssh_known k;

    assert_int_equal(ssh_known_find("", key1, &k), -ENOENT);
    assert_int_equal(ssh_known_find("a.example" KEY2, key1, &k), -ENOENT);
    assert_int_equal(ssh_known_find("#a.example" KEY1, key1, &k), -ENOENT);
    assert_int_equal(ssh_known_find("a.example a2V5MQ==", key1, &k), -ENOENT);
    assert_int_equal(ssh_known_find("@cert-authority *" KEY1, key1, &k), -ENOENT);
    assert_int_equal(ssh_known_find("@cert-authority *" KEY1 "\na" KEY1, key1, &k), 0);
    assert_int_equal(ssh_known_find("a" KEY1 "\n@revoked *" KEY1, key1, &k), -EKEYREVOKED);
    assert_int_equal(ssh_known_find("@revoked other" KEY1 "\na" KEY1, key1, &k), -EKEYREVOKED);
    assert_int_equal(ssh_known_find("a" KEY1 "\n@newer *" KEY1, key1, &k), -EKEYREVOKED);
    assert_int_equal(ssh_known_find("a" KEY1 "\n@revoked *" KEY2, key1, &k), 0);
    assert_int_equal(ssh_known_find("a" KEY1, (struct ssh_bytes){0}, &k), -ENOENT);
}

static void test_too_many_lines(void **state) {
    char text[SSH_KNOWN_LINES_MAX * 32 + 32] = "";
    struct ssh_known k;
    size_t len = 0;

    for (int i = 0; i < SSH_KNOWN_LINES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "h%d" KEY1 "\n", i);
    assert_int_equal(ssh_known_find(text, key1, &k), 0);
    snprintf(text + len, sizeof text - len, "one.more" KEY1 "\n");
    assert_int_equal(ssh_known_find(text, key1, &k), -E2BIG);
}

static void test_hashed(void **state) {
    /* Made by OpenSSH 9.2: ssh-keygen -H of "git.example.com" and "[git.example.com]:2222". */
    static const char text[] =
        "|1|Dc/UlTyuqE+mGBVApaqNTAc0mmg=|eQW2qLH2vKHx77l4t/DnPeydFwk=" KEY1
        "\n|1|wYf2Hlop0ehlKyRdMNxf1mD9pb0=|P8EYc4cRL1P1temEia7lJRZ7f3M=" KEY1 "\n|1|short|x" KEY1 "\n|2|x" KEY1 "\n";
    struct ssh_known k;

    assert_int_equal(ssh_known_find(text, key1, &k), 0);
    assert_true(ssh_known_has(&k, "git.example.com", 22));
    assert_true(ssh_known_has(&k, "git.example.com", 2222));
    assert_false(ssh_known_has(&k, "git.example.com", 443));
    assert_false(ssh_known_has(&k, "git.example.org", 22));
    k.tries = 0;
    assert_false(ssh_known_has(&k, "git.example.com", 22));
}

struct seen {
    char text[1024];
    size_t len;
    size_t stop_after;
};

static bool note(void *arg, const struct host *host, uint16_t port) {
    struct seen *s = arg;

    s->len += (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%s:%u ", host->text, (unsigned)port);
    return s->stop_after && --s->stop_after == 0;
}

static void test_written_out(void **state) {
    static const char text[] =
        "A.example,192.0.2.7,*.w.example,!n.example" KEY1 "\n[b.example]:2222,[c.example]:x,[d]2,[::1]:22" KEY2 "\n|1|x|y" KEY1
        "\n# z.example" KEY1 "\n127.1" KEY1;
    struct seen s = {0};

    assert_false(ssh_known_each(text, note, &s));
    assert_string_equal(s.text, "a.example:22 192.0.2.7:22 b.example:2222 ::1:22 ");
    s = (struct seen){.stop_after = 2};
    assert_true(ssh_known_each(text, note, &s));
    assert_string_equal(s.text, "a.example:22 192.0.2.7:22 ");
}

static void test_named_by_policy(void **state) {
    static const char text[] = "{\"groups\":{\"@ours\":[\"g.example\",\"*.w.example\"]},\"rules\":["
                               "{\"action\":\"allow\",\"host\":\"@ours\"},"
                               "{\"action\":\"allow\",\"host\":[\"h.example\",\"192.0.2.7\",\"10.0.0.0/8\"],"
                               "\"ports\":[2222,\"3000-3001\",\"4000-9000\"]}]}";
    char *hosts[] = {"grant.example:8443", NULL};
    struct grant grant = {.c = {.hosts = {hosts, 1, 2}}};
    struct gate_config config = {.grants = &grant, .n_grants = 1};
    struct policy policy;
    struct rules rules = {0};
    struct seen s = {0};

    assert_int_equal(policy_init(&policy, NET_LIST, false, NULL), 0);
    assert_int_equal(rules_read("rules", text, strlen(text), &rules, NULL), 0);
    policy_set_layer(&policy, LAYER_USER, &rules, false);
    assert_false(ssh_names_each(&config, &policy, note, &s));
    policy_done(&policy);
    assert_non_null(strstr(s.text, "grant.example:22 "));
    assert_non_null(strstr(s.text, "g.example:22 h.example:22 h.example:2222 h.example:3000 h.example:3001 h.example:4000 "
                                   "h.example:9000 192.0.2.7:22 "));
    assert_null(strstr(s.text, "10.0.0.0"));
    assert_null(strstr(s.text, "w.example"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_keys),        cmocka_unit_test(test_too_many_lines),
        cmocka_unit_test(test_hashed), cmocka_unit_test(test_written_out), cmocka_unit_test(test_named_by_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
