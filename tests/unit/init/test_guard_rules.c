/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "init/guard/guard_rules.c" /* bawn-init's sources are no part of the library */
#include "workspace/hide/protect.h"

struct row {
    const char *path;
    enum rules_kind kind;
    bool want;
};

static void make(struct guard_rules *r, const char *hide, const char *protect) {
    const struct init_text h = {"", "h", hide, strlen(hide)}, p = {"", "p", protect, strlen(protect)};
    struct err err = {0};

    assert_int_equal(guard_rules_init(r, &h, 1, &p, 1, &err), 0);
}

static void expect_protect(const struct guard_rules *r, const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (guard_rules_protect(r, rows[i].path, rows[i].kind) != rows[i].want)
            fail_msg("'%s' as kind %d: expected %d", rows[i].path, rows[i].kind, rows[i].want);
}

/* What guard_git.h may judge: samples are no hooks, and only the built-in rows give way. */
static void test_git_is_ours(void **state) {
    static const struct row samples[] = {
        {".git/hooks/pre-commit.sample", RULES_FILE, false},  {"a/.git/modules/x/y/hooks/update.sample", RULES_FILE, false},
        {".git/hooks/pre-commit.sample", RULES_LINK, true},   {".git/hooks/pre-commit.sample", RULES_FOLDER, true},
        {".git/hooks/x/update.sample", RULES_FILE, true},     {".git/hooks/.sample", RULES_FILE, true},
        {".git/hooks/update.sample.sh", RULES_FILE, true},    {".GIT/hooks/update.sample", RULES_FILE, true},
        {".idea/.git/hooks/update.sample", RULES_FILE, true},
    };
    static const struct row ours[] = {
        {".git/config", RULES_FILE, true},          {"a/.git", RULES_FOLDER, true},
        {"a/.GIT/config", RULES_FILE, false},       {".idea/.git", RULES_FOLDER, false},
        {".idea/x/.git/config", RULES_FILE, false}, {"mine/.git/config", RULES_FILE, false},
        {"link/.git/config", RULES_FILE, false},
    };
    const struct init_text texts[] = {{"", PROTECT_ORIGIN, protect_defaults, strlen(protect_defaults)},
                                      {"", "workspace.protect", "/mine/**\n", strlen("/mine/**\n")}};
    struct guard_rules r;
    struct err err = {0};

    (void)state;
    assert_int_equal(guard_rules_init(&r, NULL, 0, texts, 2, &err), 0);
    assert_int_equal(guard_rules_add_link(&r, "link/.git", ".git"), 0);
    expect_protect(&r, samples, ARRAY_LEN(samples));
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (guard_rules_is_ours(&r, ours[i].path, ours[i].kind) != ours[i].want)
            fail_msg("'%s': expected %d", ours[i].path, ours[i].want);
    guard_rules_done(&r);
}

static void test_defaults(void **state) {
    static const struct row rows[] = {
        {".git/hooks/pre-commit", RULES_FILE, true},
        {".git/hooks", RULES_FOLDER, true},
        {".git/hooks", RULES_LINK, true},
        {".git/config", RULES_FILE, true},
        {"a/b/.git/config", RULES_FILE, true},
        {".GIT/config", RULES_FILE, true},
        {"a/.Git/hooks/x", RULES_FILE, true},
        {"git~1/hooks/x", RULES_FILE, true},
        {"a/GIT~1/config", RULES_FILE, true},
        {".git./config", RULES_FILE, true},
        {".git . ./config", RULES_FILE, true},
        {".git:stream/config", RULES_FILE, true},
        {"a/.g\xe2\x80\x8cit/config", RULES_FILE, true},
        {"\xef\xbb\xbf.git/config", RULES_FILE, true},
        {"git~x/config", RULES_FILE, false},
        {"git~12/config", RULES_FILE, false},
        {".git.x/config", RULES_FILE, false},
        {".gitignore./config", RULES_FILE, false},
        {".git/config.lock", RULES_FILE, false},
        {".git/index", RULES_FILE, false},
        {".git/HEAD", RULES_FILE, false},
        {".git/refs/heads/main", RULES_FILE, false},
        {".git/objects/aa/bb", RULES_FILE, false},
        {".vscode/tasks.json", RULES_FILE, true},
        {".vscode/notes.txt", RULES_FILE, false},
        {".vscode", RULES_FOLDER, false},
        {".vscode", RULES_LINK, true},
        {".envrc", RULES_FILE, true},
        {"sub/.sandboxignore", RULES_FILE, true},
        {"src/main.c", RULES_FILE, false},
        {"", RULES_FOLDER, false},
    };
    struct guard_rules r;

    make(&r, "", protect_defaults);
    expect_protect(&r, rows, ARRAY_LEN(rows));
    assert_false(guard_rules_protect(&r, NULL, RULES_FILE));
    guard_rules_done(&r);
}

/* A rule for folders only must also stop a link of that name, through which a folder would stand there. */
static void test_links_are_folders_too(void **state) {
    static const struct row rows[] = {
        {"tools", RULES_FOLDER, true}, {"tools", RULES_LINK, true}, {"tools", RULES_FILE, false}, {"tools/x", RULES_FILE, true}};
    struct guard_rules r;

    make(&r, "cache/\n", "tools/\n");
    expect_protect(&r, rows, ARRAY_LEN(rows));
    assert_true(guard_rules_hide(&r, "cache", RULES_LINK));
    assert_false(guard_rules_hide(&r, "cache", RULES_FILE));
    guard_rules_done(&r);
}

static void test_leads(void **state) {
    static const struct {
        const char *path;
        bool want;
    } rows[] = {{"a", true},    {"a/b", true},    {"a/b/c", false},  {"x/a", false}, {"x", true},     {"x/y", false},
                {"d/.q", true}, {".q", true},     {".q/run", false}, {"m", true},    {"m/1/2", true}, {"n", false},
                {"not", false}, {"plain", false}, {"sp ace", true},  {"cr", true},   {"dir", false},  {"", false}};
    struct guard_rules r;

    make(&r, "", "a/b/c\n/x/y/\n**/.q/run\nm/**/end\n!not/this\n#n/o\nplain\nsp ace/x  \ncr/x\r\ndir/\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (guard_rules_lead(&r, rows[i].path) != rows[i].want)
            fail_msg("'%s': expected %d", rows[i].path, rows[i].want);
    assert_false(guard_rules_lead(&r, NULL));
    guard_rules_done(&r);
}

/* The rules of a folder lead through that folder's own paths. */
static void test_leads_of_a_nested_file(void **state) {
    const struct init_text p = {"sub", "sub/rules", "a/b\n", 4};
    struct guard_rules r;
    struct err err = {0};

    assert_int_equal(guard_rules_init(&r, NULL, 0, &p, 1, &err), 0);
    assert_true(guard_rules_lead(&r, "sub/a"));
    assert_false(guard_rules_lead(&r, "a"));
    assert_true(guard_rules_protect(&r, "sub/a/b", RULES_FILE));
    assert_false(guard_rules_protect(&r, "a/b", RULES_FILE));
    guard_rules_done(&r);
}

static void test_git_names(void **state) {
    static const char *const git[] = {".git",    "a/.git",           "a/b/.GIT",      ".git.",
                                      "a/git~1", ".gi\xe2\x81\xa0t", ".git        .", ".git::$INDEX_ALLOCATION"},
                             *const not_git[] = {"git", ".gitx", "a.git", ".git/x", ""};
    static const char *const core[] = {".git/x",         ".git/worktrees/x", ".git/modules",
                                       "a/.git/refsx/y", ".git/refs",        ".git/hooks/objects/x"};
    static const char *const free_parts[] = {".git/objects/aa", "a/.git/refs/heads/x", ".git/logs/HEAD", "objects", "x", ".git"};

    for (size_t i = 0; i < ARRAY_LEN(git); i++)
        assert_true(guard_rules_is_git(git[i]));
    for (size_t i = 0; i < ARRAY_LEN(not_git); i++)
        assert_false(guard_rules_is_git(not_git[i]));
    for (size_t i = 0; i < ARRAY_LEN(core); i++)
        assert_true(guard_rules_in_git_core(core[i]));
    for (size_t i = 0; i < ARRAY_LEN(free_parts); i++)
        assert_false(guard_rules_in_git_core(free_parts[i]));
    assert_true(guard_rules_below_git("a/.git/x"));
    assert_false(guard_rules_below_git("a/.git"));
}

static void test_bad_rules_are_refused(void **state) {
    struct init_text p = {"", "p", NULL, IGNORE_FILE_MAX + 1};
    struct guard_rules r;
    struct err err = {0};
    char *text = calloc(1, p.len);

    p.data = text;
    assert_true(guard_rules_init(&r, NULL, 0, &p, 1, &err) < 0);
    assert_true(err.code < 0);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_git_is_ours),
        cmocka_unit_test(test_links_are_folders_too),
        cmocka_unit_test(test_leads),
        cmocka_unit_test(test_leads_of_a_nested_file),
        cmocka_unit_test(test_git_names),
        cmocka_unit_test(test_bad_rules_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
