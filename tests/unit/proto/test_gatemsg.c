/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "../../fuzz/fuzz_gatemsg.c"
#include "../policy/corpus.h"

static struct gate_msg good(void) {
    struct gate_msg m = {.type = GATE_MSG_EVENT, .kind = GATE_EVENT_REQUEST, .action = RULE_ALLOW, .port = 65535, .status = 200};

    snprintf(m.host, sizeof m.host, "example.com");
    return m;
}

static void test_good(void **state) {
    struct gate_msg m = good();

    assert_int_equal(gatemsg_sane(&m), 0);
    assert_string_equal(m.host, "example.com");
    m = (struct gate_msg){.type = GATE_MSG_READY, .value = -EINVAL};
    assert_int_equal(gatemsg_sane(&m), 0);
    m = (struct gate_msg){.type = GATE_MSG_ANSWER, .value = GATE_ALLOW_ALWAYS};
    assert_int_equal(gatemsg_sane(&m), 0);
}

static void test_out_of_range(void **state) {
    struct gate_msg bad[11];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good();
    bad[0].type = 0;
    bad[1].type = GATE_MSG_TYPES;
    bad[2].kind = GATE_EVENT_KINDS;
    bad[3].action = RULE_ACTIONS;
    bad[4].code = POLICY_CODES;
    bad[5].port = 65536;
    bad[6].status = 1000;
    memset(bad[7].path, 'a', sizeof bad[7].path);
    bad[8].type = GATE_MSG_ANSWER;
    bad[8].value = -1;
    bad[9].type = GATE_MSG_OPEN;
    bad[9].value = 2;
    memset(bad[10].secret, 'a', sizeof bad[10].secret);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(gatemsg_sane(&bad[i]), -EBADMSG);
}

static void test_strings_become_plain(void **state) {
    struct gate_msg m = good();

    memcpy(m.host, "a\x1b]0;\x07\xff\n\0hidden", 16);
    assert_int_equal(gatemsg_sane(&m), 0);
    assert_memory_equal(m.host, "a?]0;???\0\0\0\0\0\0\0\0", 16);
    snprintf(m.secret, sizeof m.secret, "a\nb");
    assert_int_equal(gatemsg_sane(&m), 0);
    assert_string_equal(m.secret, "a?b");
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/gatemsg", 17);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_strings_become_plain),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
