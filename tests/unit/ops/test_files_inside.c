/* SPDX-License-Identifier: Apache-2.0 */
/* How places in a sandbox are written. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/files/inside.h"

static void test_names_and_paths(void **state UNUSED) {
    static const struct {
        const char *word, *name, *path; /* name NULL: the host's */
    } table[] = {
        {"box:a", "box", "a"},   {"box:", "box", ""},    {"box:a:b", "box", "a:b"},     {"box:/a", "box", "/a"},
        {"./box:a", NULL, NULL}, {"/box:a", NULL, NULL}, {"box", NULL, NULL},           {":a", NULL, NULL},
        {"a/b:c", NULL, NULL},   {"", NULL, NULL},       {"b.o-x_1:~", "b.o-x_1", "~"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(freep) char *name = NULL;
        const char *path = NULL;

        if (inside_split(table[i].word, &name, &path) != (table[i].name != NULL))
            fail_msg("'%s'", table[i].word);
        if (table[i].name) {
            assert_string_equal(name, table[i].name);
            assert_string_equal(path, table[i].path);
        }
    }
}

static void test_paths_are_tidied_by_letters(void **state UNUSED) {
    static const struct {
        const char *given, *want;
    } table[] = {
        {"", "/work/space"},
        {"a", "/work/space/a"},
        {"./a//b/.", "/work/space/a/b"},
        {"../x", "/work/x"},
        {"../../../../x", "/x"},
        {"/", "/"},
        {"/..", "/"},
        {"/etc/../usr", "/usr"},
        {"/workspace", "/work/space"},
        {"/workspace/a", "/work/space/a"},
        {"/workspaces/a", "/workspaces/a"},
        {"~", "/boxes/box/home"},
        {"~/a/../b", "/boxes/box/home/b"},
        {"~x", "/work/space/~x"},
        {"...", "/work/space/..."},
        {"-rf", "/work/space/-rf"},
        {"a\nb", "/work/space/a\nb"},
    };
    struct sandbox_pick p = SANDBOX_PICK_INIT;
    struct err err = {0};

    p.box.name = (char *)"box";
    p.box.path = (char *)"/boxes/box";
    p.box.info.workspace = (char *)"/work/space";
    snprintf(p.box.state.rung, sizeof p.box.state.rung, "landlock");
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(freep) char *path = NULL;

        assert_int_equal(inside_path(&p, table[i].given, &path, &err), 0);
        assert_string_equal(path, table[i].want);
    }
}

static void test_a_path_has_an_end(void **state UNUSED) {
    struct sandbox_pick p = SANDBOX_PICK_INIT;
    char path[8192], *none = NULL;
    struct err err = {0};

    p.box.info.workspace = (char *)"/w";
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(inside_path(&p, path, &none, &err), -ENAMETOOLONG);
    assert_null(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_paths),
        cmocka_unit_test(test_paths_are_tidied_by_letters),
        cmocka_unit_test(test_a_path_has_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
