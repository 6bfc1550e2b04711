/* SPDX-License-Identifier: Apache-2.0 */
/* What of a command line is shown, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "audit/redact.h"
#include "base/str.h"

#define HEX32 "0123456789abcdef0123456789abcdef"
#define TOKEN40 "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0xR3uL6oI9e"

/* The arguments, and how the last is shown. */
static const struct {
    const char *argv[4], *shown;
} cases[] = {
    /* nothing secret */
    {{"make", "test"}, "test"},
    {{"ls", "/usr/lib/x86_64-linux-gnu/libc.so.6"}, "/usr/lib/x86_64-linux-gnu/libc.so.6"},
    {{"node", "src/components/UserProfile2/index-page-of-everything.ts"},
     "src/components/UserProfile2/index-page-of-everything.ts"},
    {{"git", "clone", "ssh://git@example.com/x.git"}, "ssh://git@example.com/x.git"},
    {{"model", "--max-tokens", "1000"}, "1000"},
    {{"model", "max_tokens=1000"}, "max_tokens=1000"},
    {{"env", "PWD=/tmp"}, "PWD=/tmp"},
    {{"tool", "--bypass", "x"}, "x"},
    {{"mkdir", "-p", "a/b"}, "a/b"},
    {{"claude", "-p", "fix the bug"}, "fix the bug"},
    {{"tool", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"}, "3f2504e0-4f89-11d3-9a0c-0305e82c3301"},
    {{"curl", "https://example.com:8443/a?b=c"}, "https://example.com:8443/a?b=c"},
    {{"tool", "task-token-less"}, "task-token-less"},
    /* behind a name */
    {{"tool", "--token", "abc"}, REDACTED},
    {{"tool", "--token=abc"}, "--token=" REDACTED},
    {{"tool", "--password", "two words"}, REDACTED},
    {{"tool", "--api-key", "abc"}, REDACTED},
    {{"tool", "-password=abc"}, "-password=" REDACTED},
    {{"tool", "--access-token", "-x"}, REDACTED},
    {{"tool", "--password", "--verbose"}, "--verbose"},
    {{"sshpass", "-p", "abc"}, REDACTED},
    {{"mysql", "-pabc"}, "-p" REDACTED},
    {{"/usr/bin/mysqldump", "-pabc"}, "-p" REDACTED},
    {{"curl", "-u", "me:abc"}, "me:" REDACTED},
    {{"env", "GITHUB_TOKEN=abc"}, "GITHUB_TOKEN=" REDACTED},
    {{"env", "MYSQL_PWD=abc"}, "MYSQL_PWD=" REDACTED},
    {{"env", "DB_PASS=abc"}, "DB_PASS=" REDACTED},
    {{"env", "aws_secret_access_key=abc"}, "aws_secret_access_key=" REDACTED},
    {{"docker", "run", "--env=API_KEY=abc"}, "--env=API_KEY=" REDACTED},
    {{"curl", "-H", "Authorization: Bearer abc"}, "Authorization: Bearer " REDACTED},
    {{"curl", "-H", "X-Api-Key: abc"}, "X-Api-Key: " REDACTED},
    {{"curl", "-H", "Cookie:abc"}, "Cookie:" REDACTED},
    {{"curl", "https://x.example/?token=abc&a=b"}, "https://x.example/?token=" REDACTED "&a=b"},
    {{"curl", "-d", "{\"password\": \"a b\", \"n\": 1}"}, "{\"password\": \"" REDACTED "\", \"n\": 1}"},
    {{"sh", "-c", "export TOKEN='a b'; make"}, "export TOKEN='" REDACTED "'; make"},
    {{"sh", "-c", "login --password abc && make"}, "login --password " REDACTED " && make"},
    /* in a URL */
    {{"git", "clone", "https://me:abc@example.com/x"}, "https://" REDACTED "@example.com/x"},
    {{"git", "clone", "https://abc@example.com/x"}, "https://" REDACTED "@example.com/x"},
    {{"psql", "postgres://me:p@ss@db/x"}, "postgres://" REDACTED "@db/x"},
    /* by its shape */
    {{"tool", "ghp_abcdefghij"}, REDACTED},
    {{"tool", "x:sk-abcdefghijklmno"}, "x:" REDACTED},
    {{"tool", "xoxb-123456-abc"}, REDACTED},
    {{"tool", "AKIAIOSFODNN7EXAMPLE"}, REDACTED},
    {{"tool", "eyJhbGciOiJIUzI1NiJ9.e30.abc"}, REDACTED},
    {{"tool", "github_pat_11ABCDEFG"}, REDACTED},
    {{"tool", HEX32}, REDACTED},
    {{"tool", "a=" HEX32}, "a=" REDACTED},
    {{"tool", TOKEN40}, REDACTED},
    {{"tool", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, REDACTED},
    {{"sh", "-c", "echo " TOKEN40 " > f"}, "echo " REDACTED " > f"},
    {{"tool", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"}, REDACTED},
};

static void shows_what_is_no_secret_only(void **state UNUSED) {
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *argv[5] = {0};
        size_t n = 0;
        CLEANUP(freep) char *shown = NULL;

        for (; n < 4 && cases[i].argv[n]; n++)
            argv[n] = (char *)cases[i].argv[n];
        shown = redact_argument(argv, n - 1);
        assert_string_equal(shown, cases[i].shown);
    }
}

/* Whatever the bytes, it is one JSON object, and short enough for a line. */
static void arguments_are_json(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX), object = BUF_INIT(AUDIT_LINE_MAX);
    CLEANUP(freep) char *bad = malloc(100000);
    char *argv[200];
    json_t *v;

    for (size_t i = 0; i < 99999; i++)
        bad[i] = (char)(1 + i % 255);
    bad[99999] = 0;
    for (size_t i = 0; i < ARRAY_LEN(argv); i++)
        argv[i] = bad + i % 7;
    audit_add_argv(&b, argv, ARRAY_LEN(argv));
    assert_true(buf_ok(&b) && b.len < AUDIT_LINE_MAX - 4096);
    buf_addf(&object, "{%s}", buf_str(&b));
    v = json_loads(buf_str(&object), 0, NULL);
    assert_non_null(v);
    assert_int_equal(json_integer_value(json_object_get(v, "argc")), 200);
    assert_int_equal(strlen(json_string_value(json_object_get(v, "argv_sha256"))), 64);
    json_decref(v);
}

static void an_argument_is_cut(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    char word[1000], *argv[] = {"x", word};

    for (size_t i = 0; i + 5 < sizeof word; i += 5)
        memcpy(word + i, "w x y", 6);
    word[255] = '\xc3'; /* a character across the cut */
    word[256] = '\xa4';
    audit_add_argv(&b, argv, 2);
    assert_true(b.len < 500);
    assert_null(strstr(buf_str(&b), "\xef\xbf\xbd"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_what_is_no_secret_only),
        cmocka_unit_test(arguments_are_json),
        cmocka_unit_test(an_argument_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
