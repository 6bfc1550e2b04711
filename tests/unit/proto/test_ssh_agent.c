/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "../../fuzz/fuzz_ssh_agent.c"
#include "../policy/corpus.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1
#define PART(s)          \
    (struct ssh_bytes) { \
        BYTES(s)         \
    }
#define STR(len, s) "\0\0\0" len s

static void test_frames(void **state) {
    assert_int_equal(ssh_agent_frame(BYTES("")), 0);
    assert_int_equal(ssh_agent_frame(BYTES("\0\0\0")), 0);
    assert_int_equal(ssh_agent_frame(BYTES("\0\0\0\1")), 0);
    assert_int_equal(ssh_agent_frame(BYTES("\0\0\0\1\13")), 5);
    assert_int_equal(ssh_agent_frame(BYTES("\0\0\0\1\13\0\0\0\1\13")), 5);
    assert_int_equal(ssh_agent_frame(BYTES("\0\0\0\0\13")), -EMSGSIZE);
    assert_int_equal(ssh_agent_frame(BYTES("\0\4\0\1")), -EMSGSIZE); /* one byte more than the ceiling */
    assert_int_equal(ssh_agent_frame(BYTES("\0\4\0\0")), 0);
    assert_int_equal(ssh_agent_frame(BYTES("\377\377\377\377")), -EMSGSIZE);
}

static void test_only_three_messages_pass(void **state) {
    struct ssh_agent_request q;

    for (unsigned type = 0; type < 256; type++) {
        uint8_t msg[64] = {(uint8_t)type};

        if (type != SSH_AGENTC_SIGN_REQUEST && type != SSH_AGENTC_EXTENSION)
            assert_int_equal(ssh_agent_parse(msg, 1, &q), type == SSH_AGENTC_REQUEST_IDENTITIES ? 0 : -EOPNOTSUPP);
        if (type != SSH_AGENTC_REQUEST_IDENTITIES)
            assert_true(ssh_agent_parse(msg, sizeof msg, &q) < 0);
    }
    assert_int_equal(ssh_agent_parse(BYTES(""), &q), -EOPNOTSUPP);
    assert_int_equal(ssh_agent_parse(BYTES("\13\0"), &q), -EBADMSG);
    assert_int_equal(ssh_agent_parse(BYTES("\33" STR("\5", "query")), &q), -EOPNOTSUPP);
    assert_int_equal(ssh_agent_parse(BYTES("\33" STR("\6", "query")), &q), -EBADMSG);
}

static void test_sign(void **state) {
    struct ssh_sign s;

    assert_int_equal(ssh_sign_parse(PART(STR("\1", "k") STR("\2", "da") "\0\0\0\4"), &s), 0);
    assert_true(ssh_is(s.key, "k") && ssh_is(s.data, "da"));
    assert_int_equal(s.flags, SSH_AGENT_RSA_SHA2_512);
    assert_int_equal(ssh_sign_parse(PART(STR("\1", "k") STR("\2", "da") "\0\0\0\4x"), &s), -EBADMSG);
    assert_int_equal(ssh_sign_parse(PART(STR("\1", "k") STR("\2", "da") "\0\0\0"), &s), -EBADMSG);
    assert_int_equal(ssh_sign_parse(PART(STR("\1", "k") STR("\2", "da") "\0\0\0\1"), &s), -EBADMSG); /* an old, weak kind */
    assert_int_equal(ssh_sign_parse(PART(STR("\0", "") STR("\2", "da") "\0\0\0\0"), &s), -EBADMSG);
    assert_int_equal(ssh_sign_parse(PART("\377\377\377\377k" STR("\2", "da") "\0\0\0\0"), &s), -EBADMSG);
}

static void test_bind(void **state) {
    struct ssh_agent_request q;

    assert_int_equal(
        ssh_agent_parse(BYTES("\33" STR("\30", "session-bind@openssh.com") STR("\1", "h") STR("\1", "i") STR("\1", "s") "\1"),
                        &q),
        0);
    assert_true(q.bind.forwarding && ssh_is(q.bind.host_key, "h") && ssh_is(q.bind.session, "i") &&
                ssh_is(q.bind.signature, "s"));
    assert_int_equal(ssh_bind_parse(PART(STR("\1", "h") STR("\1", "i") STR("\1", "s") "\0"), &q.bind), 0);
    assert_false(q.bind.forwarding);
    assert_int_equal(ssh_bind_parse(PART(STR("\1", "h") STR("\1", "i") STR("\1", "s") "\2"), &q.bind), -EBADMSG);
    assert_int_equal(ssh_bind_parse(PART(STR("\1", "h") STR("\1", "i") STR("\1", "s")), &q.bind), -EBADMSG);
    assert_int_equal(ssh_bind_parse(PART(STR("\1", "h") STR("\0", "") STR("\1", "s") "\0"), &q.bind), -EBADMSG);
    assert_int_equal(ssh_bind_parse(PART(STR("\1", "h") STR("\1", "i") STR("\1", "s") "\0\0"), &q.bind), -EBADMSG);
}

#define CONNECTION STR("\16", "ssh-connection")
#define PUBLICKEY STR("\11", "publickey")
#define HOSTBOUND STR("\43", "publickey-hostbound-v00@openssh.com")
#define TAIL STR("\1", "a") STR("\1", "k")

static void test_userauth(void **state) {
    struct ssh_userauth u;

    assert_int_equal(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION PUBLICKEY "\1" TAIL), &u), 0);
    assert_true(ssh_is(u.session, "S") && ssh_is(u.user, "git") && ssh_is(u.key, "k") && u.host_key.len == 0);
    assert_int_equal(
        ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION HOSTBOUND "\1" TAIL STR("\1", "h")), &u), 0);
    assert_true(ssh_is(u.host_key, "h"));
    /* another message, another service, another method, no signature wanted, something behind it, no host key, no session */
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\63" STR("\3", "git") CONNECTION PUBLICKEY "\1" TAIL), &u) < 0);
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") STR("\3", "ssh") PUBLICKEY "\1" TAIL), &u) < 0);
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION STR("\11", "hostbased") "\1" TAIL), &u) <
                0);
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION PUBLICKEY "\0" TAIL), &u) < 0);
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION PUBLICKEY "\1" TAIL "x"), &u) < 0);
    assert_true(ssh_userauth_parse(PART(STR("\1", "S") "\62" STR("\3", "git") CONNECTION HOSTBOUND "\1" TAIL), &u) < 0);
    assert_true(ssh_userauth_parse(PART(STR("\0", "") "\62" STR("\3", "git") CONNECTION PUBLICKEY "\1" TAIL), &u) < 0);
}

#define DIGEST "01234567890123456789012345678901"

static void test_sshsig(void **state) {
    struct ssh_sshsig s;

    assert_int_equal(ssh_sshsig_parse(PART("SSHSIG" STR("\3", "git") STR("\0", "") STR("\6", "sha256") STR("\40", DIGEST)), &s),
                     0);
    assert_true(ssh_is(s.purpose, "git") && ssh_is(s.hash, "sha256"));
    assert_int_equal(
        ssh_sshsig_parse(PART("SSHSIG" STR("\3", "git") STR("\0", "") STR("\6", "sha512") STR("\100", DIGEST DIGEST)), &s), 0);
    assert_true(ssh_sshsig_parse(PART("SSHSIG" STR("\3", "git") STR("\0", "") STR("\6", "sha512") STR("\40", DIGEST)), &s) < 0);
    assert_true(ssh_sshsig_parse(PART("SSHSIG" STR("\3", "git") STR("\1", "r") STR("\6", "sha256") STR("\40", DIGEST)), &s) < 0);
    assert_true(ssh_sshsig_parse(PART("SSHSIG" STR("\0", "") STR("\0", "") STR("\6", "sha256") STR("\40", DIGEST)), &s) < 0);
    assert_true(ssh_sshsig_parse(PART("SSHSIG" STR("\3", "git") STR("\0", "") STR("\6", "sha256") STR("\40", DIGEST) "x"), &s) <
                0);
    assert_true(ssh_sshsig_parse(PART("SSHSI"), &s) < 0);
}

static void test_identities(void **state) {
    struct ssh_identities i;
    struct ssh_identity id;

    assert_int_equal(ssh_identities_begin(BYTES("\14\0\0\0\2" STR("\1", "k") STR("\1", "c") STR("\1", "K") STR("\0", "")), &i),
                     0);
    assert_int_equal(ssh_identities_next(&i, &id), 1);
    assert_true(ssh_is(id.key, "k") && ssh_is(id.comment, "c"));
    assert_int_equal(ssh_identities_next(&i, &id), 1);
    assert_int_equal(ssh_identities_next(&i, &id), 0);
    assert_int_equal(ssh_identities_begin(BYTES("\14\0\0\0\0x"), &i), 0);
    assert_int_equal(ssh_identities_next(&i, &id), -EBADMSG);
    assert_int_equal(ssh_identities_begin(BYTES("\14\0\0\0\1"), &i), 0);
    assert_int_equal(ssh_identities_next(&i, &id), -EBADMSG);
    assert_int_equal(ssh_identities_begin(BYTES("\14\377\377\377\377"), &i), -EBADMSG);
    assert_int_equal(ssh_identities_begin(BYTES("\5"), &i), -EBADMSG);
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/ssh_agent", 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),     cmocka_unit_test(test_only_three_messages_pass),
        cmocka_unit_test(test_sign),       cmocka_unit_test(test_bind),
        cmocka_unit_test(test_userauth),   cmocka_unit_test(test_sshsig),
        cmocka_unit_test(test_identities), cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
