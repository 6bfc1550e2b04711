/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

static struct ignore *make(const struct strv *extra, const char *hooks_path) {
    struct ignore *ig = NULL;
    struct err err = {0};

    if (protect_rules(extra, hooks_path, &ig, &err) < 0)
        fail_msg("%s", err.msg);
    return ig;
}

static bool is_protected(const struct ignore *ig, const char *path, bool is_dir) {
    return ignore_match(ig, path, is_dir) == IGNORE_EXCLUDED;
}

/* Every place of ATTACKS 2, 34 to 37 and 40 that the host runs or obeys. A '/' at the end: a folder. */
static void test_protected(void **state) {
    static const char *const paths[] = {
        ".git/hooks/",
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".git/hooks/sub/x",
        ".git/config",
        ".git/config.worktree",
        ".git/commondir",
        ".git/gitdir",
        ".git/info/attributes",
        ".git/modules/sub/config",
        ".git/modules/a/b/hooks/post-checkout",
        ".git/modules/sub/config.worktree",
        ".git/modules/sub/commondir",
        ".git/worktrees/w/gitdir",
        ".git/worktrees/w/commondir",
        ".git/worktrees/w/config.worktree",
        ".git",
        "sub/.git",
        "sub/deep/.git/config",
        "sub/.git/hooks/pre-push",
        "sub/.git/modules/x/config",
        ".git/info",
        ".git/modules",
        ".git/worktrees",
        ".husky/pre-commit",
        ".vscode/tasks.json",
        "web/.vscode/settings.json",
        ".vscode/launch.json",
        ".vscode/mcp.json",
        ".vscode",
        "x.code-workspace",
        ".idea/workspace.xml",
        ".idea/runConfigurations/x.xml",
        ".run/app.run.xml",
        ".fleet/run.json",
        ".zed/tasks.json",
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".envrc",
        "sub/.envrc",
        "mise.toml",
        ".mise.local.toml",
        ".config/mise/config.toml",
        ".config",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks/x.sh",
        ".claude",
        "sub/.claude/settings.json",
        ".mcp.json",
        ".cursor/mcp.json",
        ".cursor/hooks.json",
        ".cursor/new.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".windsurf/mcp_config.json",
        ".aider.conf.yml",
        "opencode.json",
        ".opencode/plugin/x.js",
        ".github/hooks/x.json",
        ".github",
        ".bawn/config.json",
        ".bawn/",
        ".sandboxignore",
        "a/b/.sandboxignore",
        ".hg/hgrc",
        "sub/.hg",
        ".jj/repo/config.toml",
        ".jj/repo",
        ".jj/workspace-config.toml",
        "mise/config.toml",
        "a/mise/conf.d/x.toml",
        ".vscode/cmake-kits.json",
        ".Rprofile",
        "analysis/.Rprofile",
        ".RData",
        ".ghci",
        ".pdbrc",
        ".irbrc",
        "$irbrc",
        ".gdbinit",
        ".lldbinit",
        ".octaverc",
        "hie.yaml",
        ".git/objects/info/alternates",
        ".git/refs/replace/x",
    };
    CLEANUP(ignore_freep) struct ignore *ig = make(NULL, NULL);

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CLEANUP(freep) char *path = strdup(paths[i]);
        bool is_dir = str_ends(path, "/");

        path[strlen(path) - is_dir] = 0;
        if (!is_protected(ig, path, is_dir))
            fail_msg("'%s' is not protected", paths[i]);
    }
}

/* What git needs for add, commit, branch and stash, and what agents are asked to edit. */
static void test_left_alone(void **state) {
    static const char *const paths[] = {
        ".git/",
        ".git/index",
        ".git/index.lock",
        ".git/HEAD",
        ".git/objects/ab/cd",
        ".git/refs/heads/config",
        ".git/refs/stash",
        ".git/logs/HEAD",
        ".git/packed-refs",
        ".git/COMMIT_EDITMSG",
        ".git/info/",
        ".git/info/exclude",
        ".git/ORIG_HEAD",
        ".git/modules/",
        ".git/modules/s/HEAD",
        ".git/modules/s/index",
        ".git/worktrees/w/HEAD",
        ".gitignore",
        ".gitattributes",
        ".gitmodules",
        ".github/",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        "package.json",
        "Makefile",
        "AGENTS.md",
        "CLAUDE.md",
        ".vscode/",
        ".claude/",
        ".claude/notes.md",
        ".cursor/",
        ".cursor/rules/",
        ".cursor/rules/a.mdc",
        "config",
        "hooks/x",
        "src/config",
        "src/hooks/useX.ts",
        ".config/",
        ".config/app.json",
        ".tool-versions",
        "settings.json",
        ".hg/",
        ".hg/store/data/x.i",
        ".hgignore",
        ".jj/repo/",
        ".jj/repo/op_store/operations/x",
        "mise/tasks/x",
        ".git/objects/info/packs",
        ".git/refs/replaced",
        ".vim/",
        "config.toml",
        "tasks.json",
    };
    CLEANUP(ignore_freep) struct ignore *ig = make(NULL, NULL);

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CLEANUP(freep) char *path = strdup(paths[i]);
        bool is_dir = str_ends(path, "/");

        path[strlen(path) - is_dir] = 0;
        if (is_protected(ig, path, is_dir))
            fail_msg("'%s' is protected", paths[i]);
    }
}

static void test_the_user_adds_and_takes_out(void **state) {
    CLEANUP(strv_done) struct strv extra = {0};
    CLEANUP(ignore_freep) struct ignore *ig = NULL;

    strv_add(&extra, "/deploy/*.sh");
    strv_add(&extra, "!.envrc");
    ig = make(&extra, NULL);
    assert_true(is_protected(ig, "deploy/x.sh", false));
    assert_false(is_protected(ig, ".envrc", false));
    assert_true(is_protected(ig, ".mcp.json", false));
}

/* Whatever the name is, it is protected, and not much else is. */
static void test_hooks_path(void **state) {
    static const char *const paths[] = {".githooks", "tools/git hooks", "a*b",     "[x]", "back\\slash", "new\nline ", "!not",
                                        "#no",       "x?y/z",           "\xff\xfe"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CLEANUP(ignore_freep) struct ignore *ig = make(NULL, paths[i]);
        CLEANUP(freep) char *below = str_dupf("%s/pre-commit", paths[i]);

        assert_true(is_protected(ig, paths[i], true));
        assert_true(is_protected(ig, below, false));
        assert_false(is_protected(ig, "other", true));
        assert_false(is_protected(ig, "a-b", true));
        assert_false(is_protected(ig, "x", false));
    }
}

static void test_a_hooks_path_that_cannot_be_protected(void **state) {
    static const char *const paths[] = {"", ".", "/etc"};
    struct ignore *ig = NULL;
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(protect_rules(NULL, paths[i], &ig, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_protected),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_the_user_adds_and_takes_out),
        cmocka_unit_test(test_hooks_path),
        cmocka_unit_test(test_a_hooks_path_that_cannot_be_protected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
