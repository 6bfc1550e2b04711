/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "policy/gateconf.h"

#define TEXT(s) ((char *)(s))

static char *hosts[] = {"api.example.com", "api.example.com:8443", NULL};
static struct grant grants[] = {
    {.c = {.name = TEXT("one"),
           .hosts = {hosts, 2, 2},
           .header = TEXT("x-api-key"),
           .format = TEXT("{}"),
           .shape = TEXT("sk-"),
           .length = 40,
           .only_placeholder = true},
     .placeholder = TEXT("sk-0123456789012345678901234567890123456"),
     .placeholder2 = TEXT("")},
    {.c = {.name = TEXT("two"), .hosts = {hosts, 1, 1}, .place = PLACE_BASIC, .user = TEXT(""), .shape = TEXT("")},
     .placeholder = TEXT("0123456789012345678901234567"),
     .placeholder2 = TEXT("")},
};

static struct gate_config full(void) {
    return (struct gate_config){
        .generation = 7,
        .mode = NET_LIST,
        .can_ask = true,
        .ask_timeout_ms = 60000,
        .layers = {{LAYER_USER, false, TEXT("network.json"), TEXT("{\"rules\": []}")},
                   {LAYER_ORGANISATION, true, TEXT("/etc/bawn/network.json"), TEXT("")}},
        .n_layers = 2,
        .resolv_conf = TEXT("nameserver 192.0.2.1\n"),
        .hosts = TEXT("127.0.0.1 localhost\n"),
        .http_proxy = TEXT(""),
        .https_proxy = TEXT("http://user:secret@proxy:3128"),
        .publish = {{3000, 8080}, {80, 0}},
        .n_publish = 2,
        .max_flows = 1024,
        .grants = grants,
        .n_grants = ARRAY_LEN(grants),
        .ssh = true,
        .ssh_keys = TEXT("SHA256:abc\nme@laptop\n"),
        .known_hosts = TEXT("github.com ssh-ed25519 AAAA\n"),
    };
}

/* Decodes a copy of exactly that size. */
static int decode(const struct buf *b, size_t len, struct gate_config *ret) {
    char *copy = malloc(len ? len : 1);
    int r;

    memcpy(copy, b->data, len);
    r = gate_config_decode(copy, len, ret);
    free(copy);
    return r;
}

static void test_round_trip(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(GATE_CONFIG_MAX);
    CLEANUP(gate_config_done) struct gate_config c = {0};
    struct gate_config want = full();

    assert_int_equal(gate_config_encode(&want, &b), 0);
    assert_int_equal(decode(&b, b.len, &c), 0);
    assert_int_equal(c.generation, 7);
    assert_int_equal(c.mode, NET_LIST);
    assert_true(c.can_ask);
    assert_int_equal(c.ask_timeout_ms, 60000);
    assert_int_equal(c.max_flows, 1024);
    assert_int_equal(c.n_layers, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(c.layers[i].kind, want.layers[i].kind);
        assert_int_equal(c.layers[i].narrow_only, want.layers[i].narrow_only);
        assert_string_equal(c.layers[i].name, want.layers[i].name);
        assert_string_equal(c.layers[i].text, want.layers[i].text);
    }
    assert_string_equal(c.resolv_conf, want.resolv_conf);
    assert_string_equal(c.hosts, want.hosts);
    assert_string_equal(c.http_proxy, "");
    assert_string_equal(c.https_proxy, want.https_proxy);
    assert_string_equal(c.no_proxy, ""); /* was NULL */
    assert_true(c.ssh);
    assert_string_equal(c.ssh_keys, want.ssh_keys);
    assert_string_equal(c.known_hosts, want.known_hosts);
    assert_int_equal(c.n_grants, 2);
    assert_string_equal(c.grants[0].c.name, "one");
    assert_string_equal(c.grants[0].c.hosts.v[1], "api.example.com:8443");
    assert_true(c.grants[0].c.only_placeholder);
    assert_string_equal(c.grants[0].placeholder, grants[0].placeholder);
    assert_null(c.grants[0].c.user);
    assert_int_equal(c.grants[1].c.place, PLACE_BASIC);
    assert_string_equal(c.grants[1].c.user, "");
    assert_int_equal(c.n_publish, 2);
    assert_memory_equal(c.publish, want.publish, 2 * sizeof c.publish[0]);
}

static void test_every_truncation_is_refused(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(GATE_CONFIG_MAX);
    struct gate_config c = full(), got = {.generation = 99};

    assert_int_equal(gate_config_encode(&c, &b), 0);
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(decode(&b, len, &got), -EBADMSG);
    buf_addc(&b, 0);
    assert_int_equal(decode(&b, b.len, &got), -EBADMSG);
    assert_int_equal(got.generation, 99);
}

static void expect_refused(const struct gate_config *c) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(GATE_CONFIG_MAX);
    struct gate_config got;

    assert_int_equal(gate_config_encode(c, &b), 0);
    assert_int_equal(decode(&b, b.len, &got), -EBADMSG);
}

static void test_out_of_range(void **state) {
    struct gate_config bad[6] = {full(), full(), full(), full(), full(), full()};
    struct grant short_one = grants[0], no_header = grants[0];

    bad[0].mode = NET_MODES;
    bad[1].layers[0].kind = LAYERS;
    bad[2].layers[1].kind = bad[2].layers[0].kind;
    bad[3].publish[1].inside = 0;
    short_one.placeholder = TEXT("sk-0123456789012345678");
    no_header.c.header = NULL;
    bad[4].grants = &short_one;
    bad[5].grants = &no_header;
    bad[4].n_grants = bad[5].n_grants = 1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_refused(&bad[i]);
}

static void test_ceilings(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(GATE_CONFIG_MAX);
    char *text = malloc(GATE_TEXT_MAX + 2);
    struct gate_config c = full();

    memset(text, 'a', GATE_TEXT_MAX + 1);
    text[GATE_TEXT_MAX] = text[GATE_TEXT_MAX + 1] = 0;
    c.hosts = text;
    assert_int_equal(gate_config_encode(&c, &b), 0);
    text[GATE_TEXT_MAX] = 'a';
    assert_int_equal(gate_config_encode(&c, &b), -E2BIG);
    free(text);
    c = full();
    c.n_publish = GATE_PUBLISH_MAX + 1;
    assert_int_equal(gate_config_encode(&c, &b), -E2BIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_ceilings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
