/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to the folders, the script and the arguments of a machine; strings of YAML and of profiles. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/guest/guest.h"
#include "engine/seatbelt/sbpl.h"

static struct container_mount mounts[] = {
    {(char *)"/usr", (char *)"/w", true},
    {(char *)"/usr/bin", (char *)"/tools", false},
    {(char *)"/b/box-1-2/files/0", (char *)"/etc/hosts", false},
};
static struct container_private privates[] = {{(char *)"/tmp", 01777, true}, {(char *)"/tmp/it's", 0755, false}};
static const struct container_plan plan = {.mounts = mounts, .n_mounts = 3, .privates = privates, .n_privates = 2};
static const struct plan run = {.hostname = "bawn",
                                .network = true,
                                .private_size = 42,
                                .ids = {.inside_uid = 501, .inside_gid = 20},
                                .limits = {.cpus_milli = 1500}};

static void test_shares(void **state UNUSED) {
    CLEANUP(guest_shares_done) struct guest_shares s = {0};
    CLEANUP(freep) char *inner = NULL, *none = NULL;
    struct err err = {0};

    assert_int_equal(guest_shares_make(&plan, "/b/box-1-2", "/mnt/bawn", &s, &err), 0);
    assert_int_equal(s.n, 2); /* what is below a shared folder needs no share of its own */
    assert_string_equal(s.v[1].at, "/mnt/bawn/1");
    assert_true(!s.v[0].writable && s.v[1].writable);
    inner = guest_path(&s, "/usr/bin");
    assert_string_equal(inner, "/mnt/bawn/1/bin");
    none = guest_path(&s, "/usrx");
    assert_null(none);
}

static void test_what_cannot_be_shared(void **state UNUSED) {
    static struct container_mount file[] = {{(char *)"/etc/hostname", (char *)"/x", true}};
    const struct container_plan p = {.mounts = file, .n_mounts = 1};
    CLEANUP(guest_shares_done) struct guest_shares s = {0};
    struct err err = {0};

    assert_int_equal(guest_shares_make(&p, "/b", NULL, &s, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.msg, "/etc/hostname"));
}

static void test_script(void **state UNUSED) {
    static const char *const lines[] = {
        "set -eu\n",
        "private /tmp 42\n",
        "put /mnt/bawn/0/link /run/bawn-link ro\n",
        "put /mnt/bawn/1 /w rw\n",
        "put /mnt/bawn/1/bin /tools ro\n",
        "umount -l /.old\n",
        "exec /run/bawn-link/bawn-enter 501 20 network - /run/bawn-link/bawn-init 1777:/tmp 755:'/tmp/it'\\''s' >&3 3>&-\n"};
    CLEANUP(guest_shares_done) struct guest_shares s = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(GUEST_TEXT_MAX);
    struct err err = {0};
    const char *at;

    assert_int_equal(guest_shares_make(&plan, "/b/box-1-2", "/mnt/bawn", &s, &err), 0);
    assert_int_equal(guest_script_make(&run, &plan, &s, "/b/box-1-2", &text, &err), 0);
    at = buf_str(&text);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) { /* in this order */
        at = strstr(at, lines[i]);
        if (!at)
            fail_msg("'%s' is not in its place:\n%s", lines[i], buf_str(&text));
    }
}

static void test_arguments(void **state UNUSED) {
    CLEANUP(guest_shares_done) struct guest_shares s = {0};
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(buf_done) struct buf file = BUF_INIT(GUEST_TEXT_MAX);
    struct err err = {0};
    static const char *const want[] = {"docker", "sandbox", "create", "--quiet", "--name=n", "shell", "/usr", "/b/box-1-2:ro"};

    assert_int_equal(guest_shares_make(&plan, "/b/box-1-2", NULL, &s, &err), 0);
    assert_int_equal(guest_docker_sandbox.create(&guest_docker_sandbox, "n", "/b", &run, NULL, &s, &argv, &file, &err), 0);
    assert_int_equal(argv.len, ARRAY_LEN(want));
    for (size_t i = 0; i < argv.len; i++)
        assert_string_equal(argv.v[i], want[i]);
    assert_int_equal(file.len, 0);
}

static void test_yaml(void **state UNUSED) {
    static const struct {
        const char *text, *want;
    } table[] = {{"", "\"\""},
                 {"a \"b\" \\", "\"a \\\"b\\\" \\\\\""},
                 {"\n\x7f", "\"\\x0a\\x7f\""},
                 {"ü☃😀", "\"\\xfc\\u2603\\U0001f600\""}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(1024);

        assert_int_equal(lima_quote(table[i].text, &out), 0);
        assert_string_equal(buf_str(&out), table[i].want);
    }
    CLEANUP(buf_done) struct buf out = BUF_INIT(1024);

    assert_int_equal(lima_quote("a\xff", &out), -EILSEQ);
}

static void test_real_paths(void **state UNUSED) {
    static const char *const table[][2] = {
        {"/tmp/x", "/private/tmp/x"}, {"/var", "/private/var"}, {"/tmpx", "/tmpx"}, {"/Users/u", "/Users/u"}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(freep) char *real = sbpl_real_path(table[i][0]);

        assert_string_equal(real, table[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares), cmocka_unit_test(test_what_cannot_be_shared),
        cmocka_unit_test(test_script), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_yaml),   cmocka_unit_test(test_real_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
