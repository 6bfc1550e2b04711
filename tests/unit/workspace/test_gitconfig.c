/* SPDX-License-Identifier: Apache-2.0 */
/* The examples; test_worktree_git.py asks git about very many more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "workspace/git/gitconfig.h"

static int note(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    buf_addf(arg, "%u:%s%s%s|", line, key, value ? "=" : "", value ? value : "");
    return 0;
}

/* What was told, then "!" if the file is broken. */
static void expect(const char *text, size_t len, const char *told) {
    CLEANUP(buf_done) struct buf got = BUF_INIT(10000);
    struct err err = {0};
    int r = gitconfig_parse(text, len, note, &got, &err);

    if (r < 0) {
        assert_int_equal(r, -EBADMSG);
        assert_non_null(strstr(err.msg, "line"));
        buf_addc(&got, '!');
    }
    assert_string_equal(buf_str(&got), told);
}

static void test_syntax(void **state) {
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"", ""},
        {"[core]\n\tfsmonitor = evil.sh\n", "2:core.fsmonitor=evil.sh|"},
        {"[CORE] HooksPath=x", "1:core.hookspath=x|"},
        {"[remote \"Ori.gin\"]\nURL = u\n", "2:remote.Ori.gin.url=u|"},
        {"[a \"q\\\"\\\\x\"] k = v", "1:a.q\"\\x.k=v|"},
        {"[A.B] k", "1:a.b.k|"},
        {"[a]\nk=\n", "2:a.k=|"},
        {"[a]k = one \\\n  two ; comment\nl = \"# no\" # yes\n", "1:a.k=one   two|3:a.l=# no|"},
        {"[a]\r\nk = v\r\n", "2:a.k=v|"},
        {"[a]\nk = \\t\\n\\b\\\\\\\"\n", "2:a.k=\t\n\b\\\"|"},
        {"[a]\nk = a\tb\n", "2:a.k=a b|"},
        {"# [b]\n; x = y\n[a]\nk\n", "4:a.k|"},
        {"\xef\xbb\xbf[a]k", "1:a.k|"},
        {"\xef\xbb[a]k", "!"},
        {"[include]\npath = ../x\n[includeIf \"gitdir:~/w/\"]\npath=y", "2:include.path=../x|4:includeif.gitdir:~/w/.path=y|"},
        {"[a]\nk = v\n[b", "2:a.k=v|!"},
        {"[a]\nk = \"open\n", "!"},
        {"[a]\nk = \\x\n", "!"},
        {"[a]\n9 = v\n", "!"},
        {"[a]\nk v\n", "!"},
        {"[a_b]\n", "!"},
        {"[a \"b]\n", "!"},
        {"[a \"b\" ]\n", "!"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect(rows[i].text, strlen(rows[i].text), rows[i].told);
}

static void test_nul(void **state) {
    static const char value[] = "[a]\nk = v\0w\nl = x\n", name[] = "[a]\nk\0 = v\n", alone[] = "\0";

    expect(value, sizeof value - 1, "2:a.k=v|3:a.l=x|");
    expect(name, sizeof name - 1, "!");
    expect(alone, 1, "!");
}

static int stop(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    return err_set(err, -ECANCELED, "enough");
}

static void test_the_caller_ends_it(void **state) {
    struct err err = {0};

    assert_int_equal(gitconfig_parse("[a]\nk\nl\n", 8, stop, NULL, &err), -ECANCELED);
    assert_string_equal(err.msg, "enough");
}

static void test_too_large(void **state) {
    CLEANUP(freep) char *text = calloc(1, GITCONFIG_SIZE_MAX + 1);

    assert_int_equal(gitconfig_parse(text, GITCONFIG_SIZE_MAX + 1, stop, NULL, NULL), -EFBIG);
}

static void test_is(void **state) {
    assert_true(gitconfig_is("remote.a.b.url", "remote", "url"));
    assert_true(gitconfig_is("include.path", "include", "path"));
    assert_false(gitconfig_is("remotes.a.url", "remote", "url"));
    assert_false(gitconfig_is("remote.url.x", "remote", "url"));
    assert_false(gitconfig_is("remote", "remote", "url"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax),    cmocka_unit_test(test_nul), cmocka_unit_test(test_the_caller_ends_it),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
