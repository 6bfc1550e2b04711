/* SPDX-License-Identifier: Apache-2.0 */
/* The name server's answers, without a socket. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "dns_query.h"
#include "gateway/net/dnsd.h"
#include "gateway/net/names.h"

static const char rules[] = "{\"mode\": \"list\", \"rules\": ["
                            "{\"id\": \"no-evil\", \"action\": \"deny\", \"host\": \"evil.example.com\"},"
                            "{\"action\": \"allow\", \"host\": \"**.example.com\"},"
                            "{\"action\": \"allow\", \"host\": \"host.bawn.internal\"},"
                            "{\"action\": \"allow\", \"host\": \"intranet\"},"
                            "{\"action\": \"allow\", \"host\": \"xn--bcher-kva.example\"},"
                            "{\"action\": \"ask\", \"host\": \"asked.example.org\"}]}";

struct scene {
    struct policy policy;
    struct dnsd_view view;
    struct dnsd_refusal refusal;
    uint8_t out[DNS_ANSWER_MAX];
    size_t len;
};

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    struct rules r = {0};
    struct err err = {0};

    assert_non_null(s);
    assert_int_equal(policy_init(&s->policy, NET_UNSET, true, &err), 0);
    if (rules_read("p.json", rules, strlen(rules), &r, &err) < 0)
        fail_msg("%s", err.msg);
    policy_set_layer(&s->policy, LAYER_USER, &r, false);
    s->view = (struct dnsd_view){.policy = &s->policy, .now_s = 1000, .ipv6 = true};
    assert_int_equal(names_new(&s->view.names), 0);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    names_free(s->view.names);
    policy_done(&s->policy);
    free(s);
    return 0;
}

static void ask(struct scene *s, const char *name, unsigned type, bool edns) {
    uint8_t query[DNS_QUERY_MAX];
    size_t len = make_query(query, name, type, edns);

    s->len = dnsd_answer(&s->view, query, len, s->out, sizeof s->out, &s->refusal);
    assert_true(s->len >= DNS_HEADER_SIZE);
    assert_memory_equal(s->out, query, 2);
    assert_memory_equal(s->out + 12, query + 12, strlen(name) + 2 + 4);
}

static unsigned rcode(const struct scene *s) {
    return s->out[3] & 15;
}

/* The data of the only answer record, or NULL; the record starts with a pointer to the question's name. */
static const uint8_t *record(const struct scene *s, const char *name, size_t want_len) {
    const uint8_t *r = s->out + 12 + (name[0] ? strlen(name) + 2 : 1) + 4;

    if (s->out[7] == 0)
        return NULL;
    assert_int_equal(s->out[7], 1);
    assert_int_equal(r[0] << 8 | r[1], 0xc00c);
    assert_int_equal(r[10] << 8 | r[11], want_len);
    return r + 12;
}

static void check_address(struct scene *s, const char *name, unsigned type, const char *want) {
    struct addr a = {.len = type == DNS_TYPE_A ? 4 : 16};
    const uint8_t *data;
    char text[ADDR_TEXT_SIZE];

    ask(s, name, type, false);
    data = record(s, name, a.len);
    if (rcode(s) || !data)
        fail_msg("%s: no address, code %u", name, rcode(s));
    memcpy(a.b, data, a.len);
    addr_format(&a, text);
    assert_string_equal(text, want);
    assert_false(s->refusal.refused);
}

static void test_addresses(void **state) {
    static const struct {
        const char *name;
        unsigned type;
        const char *want;
    } rows[] = {{"a.example.com", DNS_TYPE_A, "198.18.0.2"},
                {"a.example.com", DNS_TYPE_AAAA, "fd62:6177:6e00::2"},
                {"A.eXample.COM", DNS_TYPE_A, "198.18.0.2"},
                {"b.example.com", DNS_TYPE_AAAA, "fd62:6177:6e00::3"},
                {"b\xc3\xbc"
                 "cher.example",
                 DNS_TYPE_A, "198.18.0.4"}, /* what libc sends if nobody converts the name */
                {"xn--bcher-kva.example", DNS_TYPE_A, "198.18.0.4"},
                {"intranet", DNS_TYPE_A, "198.18.0.5"},
                {"asked.example.org", DNS_TYPE_A, "198.18.0.6"}, /* the question is asked when it connects */
                {"host.bawn.internal", DNS_TYPE_A, "198.18.0.7"},
                {"bawn.internal", DNS_TYPE_A, "198.18.0.1"},
                {"bawn.internal", DNS_TYPE_AAAA, "fd62:6177:6e00::1"},
                {"localhost", DNS_TYPE_A, "127.0.0.1"},
                {"localhost", DNS_TYPE_AAAA, "::1"},
                {"app.LOCALHOST", DNS_TYPE_A, "127.0.0.1"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_address(*state, rows[i].name, rows[i].type, rows[i].want);
    assert_int_equal(names_len(((struct scene *)*state)->view.names), 6);
}

static void test_denied(void **state) {
    static const unsigned types[] = {DNS_TYPE_A, DNS_TYPE_AAAA, DNS_TYPE_PTR, DNS_TYPE_HTTPS, 16, 255};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        ask(s, "c2VjcmV0.Evil.net", types[i], i % 2);
        assert_int_equal(rcode(s), DNS_NXDOMAIN);
        assert_int_equal(s->out[7], 0);
        assert_true(s->refusal.refused);
        assert_string_equal(s->refusal.host, "c2vjcmv0.evil.net");
        assert_int_equal(s->refusal.verdict.code, POLICY_DENIED_HOST);
    }
    ask(s, "evil.example.com", DNS_TYPE_A, false);
    assert_int_equal(rcode(s), DNS_NXDOMAIN);
    assert_string_equal(s->refusal.verdict.rule->id, "no-evil");
    assert_int_equal(names_len(s->view.names), 0);
}

/* Where every port is captured: an address that no allowed name ever has, the same each time, and the reason with it. */
static void test_denied_has_an_address(void **state) {
    static const unsigned others[] = {DNS_TYPE_PTR, DNS_TYPE_HTTPS, 16, 255};
    struct scene *s = *state;
    const uint8_t *data;

    s->view.answers_denied = true;
    for (int i = 0; i < 2; i++) {
        ask(s, "secret.Evil.net", DNS_TYPE_A, true);
        assert_int_equal(rcode(s), DNS_NOERROR);
        data = record(s, "secret.evil.net", 4);
        assert_memory_equal(data, "\xc6\x13\xc0\x00", 4);
        assert_non_null(memmem(s->out, s->len, "BAWN_NET_DENIED_HOST: ", 22));
        assert_true(s->refusal.refused);
        assert_int_equal(s->refusal.again, i);
        assert_int_equal(s->refusal.verdict.code, POLICY_DENIED_HOST);
    }
    ask(s, "secret.evil.net", DNS_TYPE_AAAA, false);
    assert_memory_equal(record(s, "secret.evil.net", 16), "\xfd\x62\x61\x77\x6e\0\0\0\0\0\0\0\0\x01\xc0\0", 16);
    s->view.ipv6 = false;
    ask(s, "secret.evil.net", DNS_TYPE_AAAA, false);
    assert_int_equal(rcode(s), DNS_NOERROR);
    assert_int_equal(s->out[7], 0);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ask(s, "secret.evil.net", others[i], true);
        assert_int_equal(rcode(s), DNS_NOERROR);
        assert_int_equal(s->out[7], 0);
        assert_true(s->refusal.refused);
    }
    assert_int_equal(names_len(s->view.names), 0);
}

/* Programs find out where they are by these: what does not exist here must not look as if it did. */
static void test_probes_have_none(void **state) {
    static const char *const names[] = {
        "metadata.google.internal", "instance-data", "wpad", "wpad.corp.example", "printer.local", "db", "metadata.goog",
        "use-application-dns.net"};
    struct scene *s = *state;

    s->view.answers_denied = true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        ask(s, names[i], DNS_TYPE_A, true);
        assert_int_equal(rcode(s), DNS_NXDOMAIN);
        assert_int_equal(s->out[7], 0);
        assert_true(s->refusal.refused);
    }
}

static void test_the_reason_is_told(void **state) {
    struct scene *s = *state;

    ask(s, "evil.net", DNS_TYPE_A, true);
    assert_int_equal(s->out[11], 1);
    assert_non_null(memmem(s->out, s->len, "\0\xf", 2));
    assert_non_null(memmem(s->out, s->len,
                           "\0\xf"
                           "BAWN_NET_DENIED_HOST: ",
                           24));
    ask(s, "evil.net", DNS_TYPE_A, false); /* who speaks no EDNS must not get a record of it */
    assert_int_equal(s->len, 12 + 10 + 4);
}

static void test_no_valid_name(void **state) {
    static const char *const names[] = {"a..b",
                                        "192.0.2.7",
                                        "0x7f.1",
                                        "-a.example.com",
                                        "a%2e.example.com",
                                        "a@b.example.com",
                                        "a b.example.com",
                                        "xn--a.example.com",
                                        "\xff.example.com",
                                        "a.b_"};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint8_t query[DNS_QUERY_MAX];
        size_t len = make_query(query, names[i], DNS_TYPE_A, true);

        s->len = dnsd_answer(&s->view, query, len, s->out, sizeof s->out, &s->refusal);
        if (i == 0) { /* an empty label ends the name: what follows is too much */
            assert_int_equal(rcode(s), DNS_FORMERR);
            assert_false(s->refusal.refused);
            continue;
        }
        if (rcode(s) != DNS_NXDOMAIN || !s->refusal.refused || s->refusal.verdict.code != POLICY_NAME_INVALID)
            fail_msg("%s passed", names[i]);
        assert_string_equal(s->refusal.host, "");
        assert_non_null(memmem(s->out, s->len, "BAWN_NET_NAME_INVALID", 21));
    }
    assert_int_equal(names_len(s->view.names), 0);
}

/* ATTACKS 46: the rule sees example.com at the end, a C program would see evil.net. */
static void test_nul_in_a_label(void **state) {
    static const uint8_t query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0"
                                   "\11evil-net\0"
                                   "\7example\3com\0\0\1\0\1";
    struct scene *s = *state;

    s->len = dnsd_answer(&s->view, query, sizeof query - 1, s->out, sizeof s->out, &s->refusal);
    assert_int_equal(rcode(s), DNS_NXDOMAIN);
    assert_int_equal(s->refusal.verdict.code, POLICY_NAME_INVALID);
}

static void test_no_data(void **state) {
    static const unsigned types[] = {DNS_TYPE_HTTPS, 64, 15, 16, 33, 6, 2, 255, 12};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        ask(s, "a.example.com", types[i], true);
        assert_int_equal(rcode(s), DNS_NOERROR);
        assert_int_equal(s->out[7], 0);
        ask(s, "bawn.internal", types[i], true);
        assert_int_equal(s->out[3] & 15, DNS_NOERROR);
        ask(s, "localhost", types[i], true);
        assert_int_equal(s->out[3] & 15, DNS_NOERROR);
    }
    assert_int_equal(names_len(s->view.names), 0);
    s->view.ipv6 = false;
    ask(s, "a.example.com", DNS_TYPE_AAAA, true);
    assert_int_equal(rcode(s), DNS_NOERROR);
    assert_int_equal(s->out[7], 0);
}

static void test_reverse(void **state) {
    struct scene *s = *state;
    const uint8_t *data;

    check_address(s, "a.example.com", DNS_TYPE_A, "198.18.0.2");
    ask(s, "2.0.18.198.in-addr.arpa", DNS_TYPE_PTR, false);
    data = record(s, "2.0.18.198.in-addr.arpa", 15);
    assert_memory_equal(data, "\1a\7example\3com", 15);
    ask(s, "1.0.18.198.IN-addr.arpa", DNS_TYPE_PTR, true);
    assert_memory_equal(record(s, "1.0.18.198.in-addr.arpa", 15), "\4bawn\10internal", 15);
    ask(s, "1.0.0.127.in-addr.arpa", DNS_TYPE_PTR, false);
    assert_memory_equal(record(s, "1.0.0.127.in-addr.arpa", 11), "\11localhost", 11);
    ask(s, "3.0.18.198.in-addr.arpa", DNS_TYPE_PTR, false);
    assert_int_equal(rcode(s), DNS_NXDOMAIN);
    assert_false(s->refusal.refused);
    ask(s, "8.8.8.8.in-addr.arpa", DNS_TYPE_PTR, false);
    assert_int_equal(rcode(s), DNS_NXDOMAIN);
    ask(s, "2.0.18.198.in-addr.arpa", DNS_TYPE_A, false); /* no reverse question: a name as any other */
    assert_true(s->refusal.refused);
}

static void test_other_codes(void **state) {
    static const uint8_t chaos[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\7version\4bind\0\0\x10\0\3";
    static const uint8_t root[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\0\0\2\0\1";
    static const uint8_t notify[] = "\x12\x34\x20\0\0\1\0\0\0\0\0\0\0\0\6\0\1";
    static const uint8_t answer[] = "\x12\x34\x81\x80\0\1\0\0\0\0\0\0\0\0\1\0\1";
    struct scene *s = *state;

    assert_int_equal(dnsd_answer(&s->view, chaos, sizeof chaos - 1, s->out, sizeof s->out, &s->refusal), sizeof chaos - 1);
    assert_int_equal(rcode(s), DNS_REFUSED);
    assert_int_equal(dnsd_answer(&s->view, root, sizeof root - 1, s->out, sizeof s->out, &s->refusal), sizeof root - 1);
    assert_int_equal(rcode(s), DNS_NOERROR);
    assert_int_equal(dnsd_answer(&s->view, notify, sizeof notify - 1, s->out, sizeof s->out, &s->refusal), 12);
    assert_int_equal(rcode(s), DNS_NOTIMP);
    assert_int_equal(dnsd_answer(&s->view, answer, sizeof answer - 1, s->out, sizeof s->out, &s->refusal), 0);
    assert_false(s->refusal.refused);
}

static void test_mode_none(void **state) {
    struct scene *s = *state;

    s->policy.mode = NET_NONE;
    ask(s, "a.example.com", DNS_TYPE_A, false);
    assert_int_equal(rcode(s), DNS_NXDOMAIN);
    assert_int_equal(s->refusal.verdict.code, POLICY_DENIED_OFF);
    check_address(s, "localhost", DNS_TYPE_A, "127.0.0.1");
}

static void test_all_numbers_in_use(void **state) {
    struct scene *s = *state;
    char name[64];

    for (unsigned i = 0; i < NAMES_MAX; i++) {
        struct addr a = {.len = 4};

        snprintf(name, sizeof name, "n%u.example.com", i);
        ask(s, name, DNS_TYPE_A, false);
        memcpy(a.b, record(s, name, 4), 4);
        names_hold(s->view.names, &a);
    }
    ask(s, "one-more.example.com", DNS_TYPE_A, true);
    assert_int_equal(rcode(s), DNS_SERVFAIL);
    assert_false(s->refusal.refused);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_addresses),        T(test_denied),         T(test_the_reason_is_told),
        T(test_no_valid_name),    T(test_nul_in_a_label), T(test_denied_has_an_address),
        T(test_probes_have_none), T(test_no_data),        T(test_reverse),
        T(test_other_codes),      T(test_mode_none),      T(test_all_numbers_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
