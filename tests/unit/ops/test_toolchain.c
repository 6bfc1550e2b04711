/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of the table of toolchains, and the table itself. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/strv.h"
#include "ops/tools/toolchain.h"

static void patterns(void **state UNUSED) {
    static const struct {
        const char *pattern, *path;
        bool prefix, matches;
        const char *name;
    } t[] = {
        {".cargo/bin", ".cargo/bin", false, true, ""},
        {".cargo/bin", ".cargo", false, false, ""},
        {".cargo/bin", ".cargo/bin/x", false, false, ""},
        {".cargo/bin", ".cargo/bin/x/y", true, true, ""},
        {".cargo/bin", ".cargo/binary", true, false, ""},
        {".cargo/bin", ".cargo", true, false, ""},
        {".nvm/versions/node/*/bin", ".nvm/versions/node/v20.1.0/bin", false, true, "v20.1.0"},
        {".nvm/versions/node/*/bin", ".nvm/versions/node/.hidden/bin", false, false, ""},
        {".nvm/versions/node/*/bin", ".nvm/versions/node/a/b/bin", false, false, "a"},
        {".nvm/versions/node/$", ".nvm/versions/node/v20/bin/node", true, true, "v20"},
        {"sdk/go*", "sdk/go1.22", false, true, "go1.22"},
        {"sdk/go*", "sdk/rust", false, false, ""},
        {"*/*", "a/b", false, true, "a"},
        {".vscode/**", ".vscode/a/b/c/d", false, true, ""},
        {".vscode/**", ".vscode", false, false, ""},
        {"we[ird", "we[ird", false, true, "we[ird"},
    };

    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        char name[TOOLCHAIN_NAME_SIZE], root[TOOLCHAIN_NAME_SIZE] = "";

        /* wherever the root ends */
        for (const char *below = t[i].pattern, *end = below; end; below = end ? end + 1 : NULL) {
            if (toolchain_match(root, below, t[i].path, t[i].prefix, name) != t[i].matches)
                fail_msg("'%s', '%s' and '%s'", root, below, t[i].path);
            if (t[i].matches)
                assert_string_equal(name, t[i].name);
            end = strchr(below, '/');
            snprintf(root, sizeof root, "%.*s", (int)(end ? end - t[i].pattern : 0), t[i].pattern);
        }
        assert_int_equal(toolchain_match(t[i].pattern, "", t[i].path, t[i].prefix, name), t[i].matches);
    }
}

static void filled(void **state UNUSED) {
    static const struct {
        const char *pattern;
        bool all;
        const char *want;
    } t[] = {
        {"versions/node/$/etc", false, "versions/node/v20/etc"}, {"$", false, "v20"},          {"", false, ""},
        {"tools/*/pip.conf", false, "tools/*/pip.conf"},         {"sdk/go*", true, "sdk/v20"},
    };

    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        CLEANUP(freep) char *got = toolchain_fill(t[i].pattern, "v20", t[i].all);

        assert_non_null(got);
        assert_string_equal(got, t[i].want);
    }
}

static void expect_clean(const char *path) {
    assert_false(str_starts(path, "/"));
    assert_false(str_ends(path, "/"));
    assert_null(strstr(path, ".."));
    assert_null(strstr(path, "//"));
}

/* No row shows the home itself, or a folder that holds more than programs. */
static void table(void **state UNUSED) {
    static const char *const never[] = {"",       ".",    ".config", ".local", ".local/share", ".local/state",  ".ssh",
                                        ".cache", ".aws", ".gnupg",  ".npmrc", ".netrc",       ".config/gcloud"};

    for (size_t i = 0; i < n_toolchains; i++) {
        const struct toolchain *row = &toolchains[i];

        assert_non_null(row->name);
        assert_non_null(row->reason);
        assert_true(row->path[0] || row->program || row->parts[0]);
        assert_null(row->path[TOOLCHAIN_WORDS - 1]);
        expect_clean(row->root + (row->root[0] == '/'));
        for (size_t k = 0; k < TOOLCHAIN_WORDS && row->parts[k]; k++) {
            CLEANUP(freep) char *whole = *row->parts[k] ? str_dupf("%s/%s", row->root, row->parts[k]) : strdup(row->root);

            expect_clean(row->parts[k]);
            for (size_t n = 0; n < ARRAY_LEN(never); n++)
                assert_string_not_equal(whole, never[n]);
            assert_null(strstr(whole, "credential"));
            assert_null(strstr(whole, "npmrc"));
            assert_null(strstr(whole, "auth"));
        }
        for (size_t k = 0; k < TOOLCHAIN_WORDS && row->without[k]; k++)
            expect_clean(row->without[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(filled), cmocka_unit_test(table)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
