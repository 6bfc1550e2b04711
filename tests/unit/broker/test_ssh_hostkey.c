/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ssh/ssh_hostkey.h"

#include "ssh_scene.h"

static void check_kind(struct ssh_pair p, int wanted) {
    CLEANUP(buf_done) struct buf sig = BUF_INIT(SCENE_BYTES);
    static const uint8_t session[32] = "0123456789", other[32] = "0123456780";
    struct ssh_bytes key = bytes_of(&p.blob);

    pair_sign(&p, (struct ssh_bytes){session, sizeof session}, &sig);
    assert_int_equal(ssh_hostkey_verify(key, bytes_of(&sig), (struct ssh_bytes){session, sizeof session}), wanted);
    if (wanted == 0) {
        assert_int_equal(ssh_hostkey_verify(key, bytes_of(&sig), (struct ssh_bytes){other, sizeof other}), -EKEYREJECTED);
        assert_int_equal(ssh_hostkey_verify(key, bytes_of(&sig), (struct ssh_bytes){session, 31}), -EKEYREJECTED);
        for (size_t cut = 0; cut < p.blob.len; cut++)
            assert_true(ssh_hostkey_verify((struct ssh_bytes){key.p, cut}, bytes_of(&sig), (struct ssh_bytes){session, 32}) < 0);
        for (size_t cut = 0; cut < sig.len; cut++)
            assert_true(ssh_hostkey_verify(key, (struct ssh_bytes){(uint8_t *)sig.data, cut}, (struct ssh_bytes){session, 32}) <
                        0);
        buf_addc(&sig, 0);
        assert_int_equal(ssh_hostkey_verify(key, bytes_of(&sig), (struct ssh_bytes){session, 32}), -EBADMSG);
    }
    pair_done(&p);
}

static void test_kinds(void **state) {
    check_kind(pair_ed25519(), 0);
    check_kind(pair_ecdsa("ecdsa-sha2-nistp256", "nistp256", "P-256", "SHA256"), 0);
    check_kind(pair_ecdsa("ecdsa-sha2-nistp384", "nistp384", "P-384", "SHA384"), 0);
    check_kind(pair_ecdsa("ecdsa-sha2-nistp521", "nistp521", "P-521", "SHA512"), 0);
    check_kind(pair_rsa(2048, "rsa-sha2-256", "SHA256"), 0);
    check_kind(pair_rsa(3072, "rsa-sha2-512", "SHA512"), 0);
}

static void test_weak_kinds(void **state) {
    check_kind(pair_rsa(2048, "ssh-rsa", "SHA1"), -EOPNOTSUPP);
    check_kind(pair_rsa(1024, "rsa-sha2-256", "SHA256"), -EOPNOTSUPP);
    check_kind(pair_ecdsa("ecdsa-sha2-nistp256", "nistp384", "P-256", "SHA256"), -EBADMSG);
    check_kind(pair_ecdsa("ssh-dss", "nistp256", "P-256", "SHA256"), -EOPNOTSUPP);
    check_kind(pair_ecdsa("ecdsa-sha2-nistp256-cert-v01@openssh.com", "nistp256", "P-256", "SHA256"), -EOPNOTSUPP);
}

/* A signature of one kind is none of another one, though the same key made it. */
static void test_mixed_up(void **state) {
    CLEANUP(buf_done) struct buf sig = BUF_INIT(SCENE_BYTES);
    CLEANUP(pair_done) struct ssh_pair p = pair_rsa(2048, "rsa-sha2-256", "SHA256"), q = pair_ed25519();
    struct ssh_bytes data = {(const uint8_t *)"data", 4};

    p.how = "rsa-sha2-512";
    pair_sign(&p, data, &sig);
    assert_int_equal(ssh_hostkey_verify(bytes_of(&p.blob), bytes_of(&sig), data), -EKEYREJECTED);
    buf_clear(&sig);
    pair_sign(&q, data, &sig);
    assert_int_equal(ssh_hostkey_verify(bytes_of(&p.blob), bytes_of(&sig), data), -EOPNOTSUPP);
    assert_int_equal(ssh_hostkey_verify(bytes_of(&q.blob), bytes_of(&sig), data), 0);
}

/* An exponent of 2048 bits makes one check as dear as a thousand. */
static void test_dear_exponent(void **state) {
    CLEANUP(buf_done) struct buf key = BUF_INIT(SCENE_BYTES), sig = BUF_INIT(SCENE_BYTES);
    CLEANUP(pair_done) struct ssh_pair p = pair_rsa(2048, "rsa-sha2-256", "SHA256");
    struct ssh_bytes data = {(const uint8_t *)"data", 4};
    uint8_t huge[256];

    memset(huge, 0x7f, sizeof huge);
    put_text(&key, "ssh-rsa");
    ssh_put_string(&key, huge, sizeof huge);
    put_param_number(&key, p.key, OSSL_PKEY_PARAM_RSA_N);
    pair_sign(&p, data, &sig);
    assert_int_equal(ssh_hostkey_verify(bytes_of(&key), bytes_of(&sig), data), -EBADMSG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_weak_kinds),
        cmocka_unit_test(test_mixed_up),
        cmocka_unit_test(test_dear_exponent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
