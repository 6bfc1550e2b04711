/* SPDX-License-Identifier: Apache-2.0 */
/* resolv.conf and hosts, as people and DHCP clients write them. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "gateway/net/resolve_conf.h"

static void test_resolv_conf(void **state) {
    static const struct {
        const char *text, *servers;
        unsigned timeout_s, attempts;
    } rows[] = {
        {"", "127.0.0.1#53 ", 5, 2},
        {"nameserver 192.0.2.1", "192.0.2.1#53 ", 5, 2},
        {"# a comment\n; another\nsearch example.com\n\n  nameserver\t192.0.2.1  # dhcp\r\nnameserver 2001:db8::1\n",
         "192.0.2.1#53 2001:db8::1#53 ", 5, 2},
        {"nameserver [192.0.2.1]:5353\nnameserver [::1]:54\nnameserver [::2]", "192.0.2.1#5353 ::1#54 ::2#53 ", 5, 2},
        {"nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\nnameserver 4.4.4.4", "1.1.1.1#53 2.2.2.2#53 3.3.3.3#53 ", 5,
         2},
        {"nameserver\nnameserver 127.1\nnameserver fe80::1%eth0\nnameserver [::1\nnameserver [::1]53\nnameserver [::1]:0\n"
         "nameserver [::1]:65536\nnameserverx 1.1.1.1\nnameserver 9.9.9.9",
         "9.9.9.9#53 ", 5, 2},
        {"options timeout:2 attempts:3 rotate\nnameserver 9.9.9.9\n", "9.9.9.9#53 ", 2, 3},
        {"options timeout:30 attempts:100\nnameserver 9.9.9.9\n", "9.9.9.9#53 ", RESOLVE_TRY_MAX_S, RESOLVE_ATTEMPTS_MAX},
        {"options timeout:0 attempts:-1\noptions timeout: attempts:x\nnameserver 9.9.9.9\n", "9.9.9.9#53 ", 5, 2},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct resolve_conf c;
        char servers[256] = "";
        size_t at = 0;

        resolve_conf_read(rows[i].text, &c);
        for (size_t k = 0; k < c.n_servers; k++) {
            char text[ADDR_TEXT_SIZE];

            addr_format(&c.servers[k].addr, text);
            at += (size_t)snprintf(servers + at, sizeof servers - at, "%s#%u ", text, c.servers[k].port);
        }
        assert_string_equal(servers, rows[i].servers);
        assert_int_equal(c.timeout_s, rows[i].timeout_s);
        assert_int_equal(c.attempts, rows[i].attempts);
    }
}

static void check(const struct resolve_hosts *hosts, const char *name, const char *want) {
    struct addr found[3];
    struct host h;
    char all[256] = "";
    size_t n, at = 0;

    assert_int_equal(host_parse(name, strlen(name), &h, NULL), 0);
    n = resolve_hosts_find(hosts, &h, found, ARRAY_LEN(found));
    for (size_t i = 0; i < n; i++) {
        char text[ADDR_TEXT_SIZE];

        addr_format(&found[i], text);
        at += (size_t)snprintf(all + at, sizeof all - at, "%s ", text);
    }
    assert_string_equal(all, want);
}

static void test_hosts(void **state) {
    static const char text[] = "127.0.0.1\tlocalhost\n"
                               "::1 localhost ip6-localhost   ip6-loopback\n"
                               "# 192.0.2.9 commented\n"
                               "192.0.2.2 Db.LAN db # 192.0.2.3 other\r\n"
                               "192.0.2.1 db.lan bad..name 10.0.0.1 ok.lan\n"
                               "fe80::1%eth0 zone.lan\n"
                               "nonsense nonsense.lan\n"
                               "192.0.2.4\n"
                               "0.0.0.0 ads.example\n"
                               "1.0.0.1 many\n1.0.0.2 many\n1.0.0.3 many\n1.0.0.4 many";
    CLEANUP(resolve_hosts_done) struct resolve_hosts hosts = {0};

    assert_int_equal(resolve_hosts_read(text, &hosts), 0);
    check(&hosts, "localhost", "127.0.0.1 ::1 ");
    check(&hosts, "ip6-loopback", "::1 ");
    check(&hosts, "DB.lan", "192.0.2.2 192.0.2.1 ");
    check(&hosts, "db", "192.0.2.2 ");
    check(&hosts, "ok.lan", "192.0.2.1 ");
    check(&hosts, "ads.example", "0.0.0.0 "); /* that it is not dialled is for policy to say */
    check(&hosts, "many", "1.0.0.1 1.0.0.2 1.0.0.3 ");
    check(&hosts, "commented", "");
    check(&hosts, "other", "");
    check(&hosts, "zone.lan", "");
    check(&hosts, "nonsense.lan", "");
    check(&hosts, "d", "");
    check(&hosts, "zzz", "");
}

static void test_empty_hosts(void **state) {
    CLEANUP(resolve_hosts_done) struct resolve_hosts hosts = {0};

    assert_int_equal(resolve_hosts_read("", &hosts), 0);
    check(&hosts, "localhost", "");
}

static void test_long_words(void **state) {
    CLEANUP(resolve_hosts_done) struct resolve_hosts hosts = {0};
    char text[1000] = "192.0.2.1 ";

    memset(text + 10, 'a', 900);
    memcpy(text + 910, " ok.lan", 8);
    assert_int_equal(resolve_hosts_read(text, &hosts), 0);
    assert_int_equal(hosts.len, 1);
    check(&hosts, "ok.lan", "192.0.2.1 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolv_conf),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_empty_hosts),
        cmocka_unit_test(test_long_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
