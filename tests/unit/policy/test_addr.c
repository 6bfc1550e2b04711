/* SPDX-License-Identifier: Apache-2.0 */
/* ATTACKS 49-51: what an address is for, however it is wrapped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "policy/host/addr.h"

static struct addr addr(const char *text) {
    struct addr a;

    if (addr_parse(text, strlen(text), &a) < 0)
        fail_msg("'%s' is no address", text);
    return a;
}

static const struct {
    const char *text;
    enum addr_class class;
} classes[] = {
    {"8.8.8.8", ADDR_PUBLIC},
    {"1.1.1.1", ADDR_PUBLIC},
    {"93.184.216.34", ADDR_PUBLIC},
    {"0.0.0.0", ADDR_UNSPECIFIED},
    {"0.1.2.3", ADDR_UNSPECIFIED},
    {"127.0.0.1", ADDR_LOOPBACK},
    {"127.255.255.255", ADDR_LOOPBACK},
    {"126.255.255.255", ADDR_PUBLIC},
    {"128.0.0.1", ADDR_PUBLIC},
    {"10.0.0.0", ADDR_PRIVATE},
    {"10.255.255.255", ADDR_PRIVATE},
    {"11.0.0.0", ADDR_PUBLIC},
    {"172.15.255.255", ADDR_PUBLIC},
    {"172.16.0.0", ADDR_PRIVATE},
    {"172.31.255.255", ADDR_PRIVATE},
    {"172.32.0.0", ADDR_PUBLIC},
    {"192.167.255.255", ADDR_PUBLIC},
    {"192.168.0.0", ADDR_PRIVATE},
    {"192.169.0.0", ADDR_PUBLIC},
    {"169.254.1.1", ADDR_LINK_LOCAL},
    {"169.254.169.254", ADDR_METADATA},
    {"169.254.170.2", ADDR_METADATA},
    {"100.63.255.255", ADDR_PUBLIC},
    {"100.64.0.0", ADDR_CGNAT},
    {"100.127.255.255", ADDR_CGNAT},
    {"100.128.0.0", ADDR_PUBLIC},
    {"100.100.100.200", ADDR_METADATA},
    {"168.63.129.16", ADDR_METADATA},
    {"168.63.129.17", ADDR_PUBLIC},
    {"192.0.0.192", ADDR_METADATA},
    {"192.0.0.1", ADDR_RESERVED},
    {"192.0.2.1", ADDR_DOCUMENTATION},
    {"198.51.100.1", ADDR_DOCUMENTATION},
    {"203.0.113.1", ADDR_DOCUMENTATION},
    {"198.18.0.1", ADDR_BENCHMARK},
    {"198.19.255.255", ADDR_BENCHMARK},
    {"198.20.0.0", ADDR_PUBLIC},
    {"224.0.0.1", ADDR_MULTICAST},
    {"239.255.255.255", ADDR_MULTICAST},
    {"240.0.0.1", ADDR_RESERVED},
    {"255.255.255.255", ADDR_BROADCAST},
    {"2606:4700:4700::1111", ADDR_PUBLIC},
    {"2a00:1450:4001::200e", ADDR_PUBLIC},
    {"::", ADDR_UNSPECIFIED},
    {"::1", ADDR_LOOPBACK},
    {"::2", ADDR_RESERVED},
    {"fe80::1", ADDR_LINK_LOCAL},
    {"febf::1", ADDR_LINK_LOCAL},
    {"fe80::a9fe:a9fe", ADDR_METADATA},
    {"fec0::1", ADDR_SITE_LOCAL},
    {"fc00::1", ADDR_ULA},
    {"fdff::1", ADDR_ULA},
    {"fd00:ec2::254", ADDR_METADATA},
    {"fd00:ec2::253", ADDR_METADATA},
    {"fd00:ec3::253", ADDR_ULA},
    {"fd00:42::42", ADDR_METADATA},
    {"fd00:42::43", ADDR_ULA},
    {"fd00:c1::a9fe:a9fe", ADDR_METADATA},
    {"fd00:a9fe:a9fe::1", ADDR_METADATA},
    {"fd00:100::100:200", ADDR_METADATA},
    {"fd20:ce::254", ADDR_METADATA},
    {"169.254.42.42", ADDR_METADATA},
    {"169.254.0.23", ADDR_METADATA},
    {"169.254.169.252", ADDR_METADATA},
    {"77.221.156.49", ADDR_METADATA},
    {"77.221.156.48", ADDR_PUBLIC},
    /* an operator's NAT64 prefix, perhaps */
    {"2a00:64::a00:5", ADDR_PRIVATE},
    {"2a00:64::7f00:1", ADDR_LOOPBACK},
    {"2a00:64::a9fe:a9fe", ADDR_METADATA},
    {"2a00:64::a83f:8110", ADDR_METADATA},
    {"2a00:64::6440:1", ADDR_CGNAT},
    {"2a00:64::1", ADDR_PUBLIC},
    {"2a00:64::8888", ADDR_PUBLIC},
    {"2606:4700::6810:84e5", ADDR_PUBLIC},
    {"2a00:64:0:1:1::a00:5", ADDR_PUBLIC},
    {"fd20:ce::254", ADDR_METADATA},
    {"ff02::1", ADDR_MULTICAST},
    {"2001:db8::1", ADDR_DOCUMENTATION},
    {"3fff::1", ADDR_DOCUMENTATION},
    {"2001:2::1", ADDR_BENCHMARK},
    {"2001:10::1", ADDR_RESERVED},
    {"2001:200::1", ADDR_PUBLIC},
    {"100::1", ADDR_RESERVED},
    {"4000::1", ADDR_RESERVED},
    {"8000::1", ADDR_RESERVED},
    /* wrapped */
    {"::ffff:8.8.8.8", ADDR_PUBLIC},
    {"::ffff:127.0.0.1", ADDR_LOOPBACK},
    {"::ffff:a9fe:a9fe", ADDR_METADATA},
    {"::ffff:168.63.129.16", ADDR_METADATA},
    {"::127.0.0.1", ADDR_LOOPBACK},
    {"::10.0.0.1", ADDR_PRIVATE},
    {"::ffff:0:10.0.0.1", ADDR_PRIVATE},
    {"2002:7f00:1::", ADDR_LOOPBACK},
    {"2002:a9fe:a9fe::1", ADDR_METADATA},
    {"2002:6464:64c8::", ADDR_METADATA},
    {"2002:808:808::1", ADDR_PUBLIC},
    {"2001:0:7f00:1::", ADDR_LOOPBACK},
    {"2001:0:4136:e378:8000:63bf:f5ff:fffe", ADDR_PRIVATE},       /* client 10.0.0.1 */
    {"2001:0:4136:e378:8000:63bf:3fff:fdd2", ADDR_DOCUMENTATION}, /* client 192.0.2.45 */
    {"2001:0:4136:e378:8000:63bf:f7f7:f7f7", ADDR_PUBLIC},        /* client 8.8.8.8 */
    {"64:ff9b::8.8.8.8", ADDR_PUBLIC},
    {"64:ff9b::10.0.0.1", ADDR_PRIVATE},
    {"64:ff9b::a9fe:a9fe", ADDR_METADATA},
    {"64:ff9b:1::8.8.8.8", ADDR_PUBLIC},
    {"64:ff9b:1::169.254.169.254", ADDR_METADATA},
    {"64:ff9b:1:808:8:800::", ADDR_TRANSLATED},
    {"64:ff9b:2::8.8.8.8", ADDR_RESERVED},
    {"2606:4700::5efe:10.0.0.1", ADDR_PRIVATE},
    {"fe80::5efe:8.8.8.8", ADDR_LINK_LOCAL},
    {"2606:4700::200:5efe:127.0.0.1", ADDR_LOOPBACK},
};

static void test_classes(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        struct addr a = addr(classes[i].text);
        struct addr_verdict v = addr_classify(&a, NULL, 0);

        if (v.class != classes[i].class)
            fail_msg("%s is not %s", classes[i].text, addr_class_names[v.class]);
    }
}

static void test_own(void **state) {
    const struct addr own[] = {addr("198.41.0.4"), addr("192.168.1.10"), addr("2606:4700::1"), addr("::ffff:9.9.9.9"),
                               addr("127.0.0.1")};
    static const struct {
        const char *text;
        enum addr_class class;
    } rows[] = {
        {"198.41.0.4", ADDR_OWN},       {"::ffff:198.41.0.4", ADDR_OWN}, {"64:ff9b::198.41.0.4", ADDR_OWN},
        {"2002:c629:4::1", ADDR_OWN},   {"198.41.0.5", ADDR_PUBLIC},     {"192.168.1.10", ADDR_OWN},
        {"192.168.1.11", ADDR_PRIVATE}, {"2606:4700::1", ADDR_OWN},      {"9.9.9.9", ADDR_OWN},
        {"127.0.0.1", ADDR_LOOPBACK},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct addr a = addr(rows[i].text);

        assert_int_equal(addr_classify(&a, own, ARRAY_LEN(own)).class, rows[i].class);
    }
}

static void test_cidr(void **state) {
    static const struct {
        const char *cidr, *in, *out;
    } rows[] = {
        {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
        {"0.0.0.0/0", "255.255.255.255", "::1"},
        {"192.0.2.7", "192.0.2.7", "192.0.2.8"},
        {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
        {"198.18.0.0/15", "198.19.255.255", "198.20.0.0"},
        {"::/0", "ffff::", "1.2.3.4"},
        {"2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"},
        {"fc00::/7", "fdff::", "fe00::"},
        {"::1/128", "::1", "::2"},
    };
    static const char *const bad[] = {
        "10.0.0.1/8",  "10.0.0.0/33",   "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "10/8",    "10.0.0.0/8 ", "::1/127",
        "::/129",      "example.com/8", "",          "/8",          "1.2.3.4/ 8",  "::/0x10", "010.0.0.0/8", "10.0.0.0/1000",
        "10.0.0.0/8/8"};
    struct err err = {0};
    struct cidr c;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[ADDR_TEXT_SIZE + 4];
        struct addr in = addr(rows[i].in), out = addr(rows[i].out);

        assert_int_equal(cidr_parse(rows[i].cidr, strlen(rows[i].cidr), &c, &err), 0);
        assert_true(cidr_has(&c, &in));
        assert_false(cidr_has(&c, &out));
        cidr_format(&c, text);
        if (!strstr(rows[i].cidr, "/128"))
            assert_string_equal(text, rows[i].cidr);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (cidr_parse(bad[i], strlen(bad[i]), &c, &err) != -EINVAL)
            fail_msg("'%s' was taken for a network", bad[i]);
    cidr_parse("10.0.0.1/8", 10, &c, &err);
    assert_non_null(strstr(err.msg, "did you mean 10.0.0.0/8?"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_own), cmocka_unit_test(test_cidr)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
