/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "../../fuzz/fuzz_oci.c"
#include "../policy/corpus.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_references(void **state) {
    static const char *const good[][2] = {
        {"debian", "docker.io/library/debian:latest"},
        {"debian:12", "docker.io/library/debian:12"},
        {"a/b", "docker.io/a/b:latest"},
        {"docker.io/library/debian:latest", "docker.io/library/debian:latest"},
        {"index.docker.io/debian", "docker.io/library/debian:latest"},
        {"localhost/x", "localhost/x:latest"},
        {"127.0.0.1:5000/a/b-c_d.e:T.1", "127.0.0.1:5000/a/b-c_d.e:T.1"},
        {"[::1]:5000/x", "[::1]:5000/x:latest"},
        {"ghcr.io/o/r@sha256:" A64, "ghcr.io/o/r@sha256:" A64},
        {"ghcr.io/o/r:t@sha256:" A64, "ghcr.io/o/r:t@sha256:" A64},
    };
    static const char *const bad[] = {"",
                                      "Debian",
                                      "a//b",
                                      "../x",
                                      "/etc",
                                      "a:",
                                      "a:b:c",
                                      "a@sha1:0",
                                      "a@sha256:AAAA",
                                      "x.io/",
                                      "host:99999999/x",
                                      "a b",
                                      "a?b",
                                      "-a",
                                      "a.io/b..c",
                                      "a.io:x/b",
                                      "a.io/b#c",
                                      "[::1/x",
                                      "a/b/",
                                      "a\nb",
                                      "a:-b"};
    struct oci_ref r;
    struct err err = {0};
    char name[OCI_NAME_SIZE];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(oci_ref_parse(good[i][0], &r, &err), 0);
        oci_ref_name(&r, name);
        assert_string_equal(name, good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(oci_ref_parse(bad[i], &r, &err) < 0);
    assert_true(oci_host_is_local("127.0.0.1:5000") && oci_host_is_local("localhost") && oci_host_is_local("[::1]:1"));
    assert_false(oci_host_is_local("127.0.0.1.example.com") || oci_host_is_local("localhost.example.com") ||
                 oci_host_is_local("127.0.0.1:80@example.com") || oci_host_is_local("localhost:x"));
}

static void test_manifests(void **state) {
    static const char two[] = "{\"schemaVersion\":2,\"layers\":[],\"manifests\":[]}", old[] = "{\"schemaVersion\":1}",
                      twice[] = "{\"layers\":[],\"layers\":[]}",
                      index[] = "{\"manifests\":[{\"digest\":\"sha256:" A64
                                "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v7\"}}]}";
    struct oci_manifest m;
    struct err err = {0};
    size_t at = 9;

    assert_int_equal(oci_manifest_parse(two, strlen(two), &m, &err), -EBADMSG);
    assert_int_equal(oci_manifest_parse(old, strlen(old), &m, &err), -EPROTO);
    assert_int_equal(oci_manifest_parse(twice, strlen(twice), &m, &err), -EBADMSG);
    assert_int_equal(oci_manifest_parse(index, strlen(index), &m, &err), 0);
    assert_int_equal(oci_manifest_pick(&m, "amd64", &at, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "linux/arm"));
    assert_int_equal(oci_manifest_pick(&m, "arm/v7", &at, &err), 0);
    assert_int_equal(at, 0);
    oci_manifest_done(&m);
}

/* The example of the image specification: ChainID(A,B) = SHA256(A + " " + B). */
static void test_chain(void **state) {
    char id[OCI_DIGEST_SIZE], next[OCI_DIGEST_SIZE];

    oci_chain_id(NULL, "sha256:" A64, id);
    assert_string_equal(id, "sha256:" A64);
    oci_chain_id(id, "sha256:" A64, next);
    assert_string_equal(next, "sha256:9d2cc34dc7dc748dba0ed439e6987c2f2c39ec504fa0c1527531d9bc7d0f1052");
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/oci", 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_references), cmocka_unit_test(test_manifests),
                                       cmocka_unit_test(test_chain), cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
