/* SPDX-License-Identifier: Apache-2.0 */
/* Every place where git looks for code (ATTACKS 34 to 39). */
#include "risk_scene.h"

static void keys_of_the_configuration(void **state) {
    static const struct {
        const char *text, *key;
        enum risk_level level;
    } cases[] = {
        {"[core]\nfsmonitor = evil", "core.fsmonitor is 'evil', which git runs at every status", RISK_HIGH},
        {"[CORE] FSMonitor = evil", "core.fsmonitor is 'evil'", RISK_HIGH},
        {"[core]\nhooksPath = x", "core.hookspath", RISK_HIGH},
        {"[core]\nsshCommand = x", "core.sshcommand", RISK_HIGH},
        {"[core]\neditor = x", "core.editor", RISK_HIGH},
        {"[sequence]\neditor = x", "sequence.editor", RISK_HIGH},
        {"[core]\npager = x", "core.pager", RISK_HIGH},
        {"[pager]\nlog = x", "pager.log", RISK_HIGH},
        {"[core]\naskPass = x", "core.askpass", RISK_HIGH},
        {"[core]\ngitProxy = x", "core.gitproxy", RISK_HIGH},
        {"[core]\nattributesFile = x", "core.attributesfile", RISK_HIGH},
        {"[core]\nexcludesFile = x", "core.excludesfile", RISK_MEDIUM},
        {"[core]\nworktree = /", "core.worktree", RISK_HIGH},
        {"[attr]\ntree = x", "attr.tree", RISK_HIGH},
        {"[diff]\nexternal = x", "diff.external", RISK_HIGH},
        {"[diff \"a.b\"]\ncommand = x", "diff.a.b.command", RISK_HIGH},
        {"[diff \"a\"]\ntextconv = x", "diff.a.textconv", RISK_HIGH},
        {"[filter \"a\"]\nclean = x", "filter.a.clean", RISK_HIGH},
        {"[filter \"a\"]\nsmudge = x", "filter.a.smudge", RISK_HIGH},
        {"[filter \"a\"]\nprocess = x", "filter.a.process", RISK_HIGH},
        {"[filter \"lfs\"]\nprocess = git-lfs filter-process", "filter.lfs.process", RISK_LOW},
        {"[merge \"a\"]\ndriver = x", "merge.a.driver", RISK_HIGH},
        {"[credential]\nhelper = !x", "credential.helper", RISK_HIGH},
        {"[credential \"https://x\"]\nhelper = x", "credential.https://x.helper", RISK_HIGH},
        {"[gpg]\nprogram = x", "gpg.program", RISK_HIGH},
        {"[gpg \"ssh\"]\nprogram = x", "gpg.ssh.program", RISK_HIGH},
        {"[gpg \"ssh\"]\ndefaultKeyCommand = x", "gpg.ssh.defaultkeycommand", RISK_HIGH},
        {"[uploadpack]\npackObjectsHook = x", "uploadpack.packobjectshook", RISK_HIGH},
        {"[alias]\nst = !x", "alias.st is '!x'", RISK_HIGH},
        {"[alias]\nst = status", "alias.st", RISK_LOW},
        {"[include]\npath = x", "include.path", RISK_HIGH},
        {"[includeIf \"gitdir:/\"]\npath = x", "includeif.gitdir:/.path", RISK_HIGH},
        {"[url \"evil\"]\ninsteadOf = https://github.com", "url.evil.insteadof", RISK_HIGH},
        {"[url \"evil\"]\npushInsteadOf = x", "url.evil.pushinsteadof", RISK_HIGH},
        {"[remote \"origin\"]\nurl = ext::sh -c x", "remote.origin.url", RISK_HIGH},
        {"[remote \"origin\"]\nurl = https://x", "remote.origin.url", RISK_MEDIUM},
        {"[remote \"origin\"]\nuploadpack = x", "remote.origin.uploadpack", RISK_HIGH},
        {"[remote \"origin\"]\nreceivepack = x", "remote.origin.receivepack", RISK_HIGH},
        {"[remote \"origin\"]\nproxy = x", "remote.origin.proxy", RISK_HIGH},
        {"[remote \"origin\"]\nvcs = x", "remote.origin.vcs", RISK_HIGH},
        {"[submodule \"a\"]\nupdate = !x", "submodule.a.update", RISK_HIGH},
        {"[protocol \"ext\"]\nallow = always", "protocol.ext.allow", RISK_HIGH},
        {"[protocol]\nallow = always", "protocol.allow", RISK_HIGH},
        {"[browser \"x\"]\ncmd = x", "browser.x.cmd", RISK_HIGH},
        {"[man \"x\"]\npath = x", "man.x.path", RISK_HIGH},
        {"[mergetool \"x\"]\ncmd = x", "mergetool.x.cmd", RISK_HIGH},
        {"[difftool \"x\"]\ncmd = x", "difftool.x.cmd", RISK_HIGH},
        {"[trailer \"x\"]\ncommand = x", "trailer.x.command", RISK_HIGH},
        {"[http]\nproxy = x", "http.proxy", RISK_HIGH},
        {"[http \"https://x\"]\nproxy = x", "http.https://x.proxy", RISK_HIGH},
        {"[http]\nsslVerify = false", "http.sslverify", RISK_HIGH},
        {"[http]\nextraHeader = x", "http.extraheader", RISK_HIGH},
        {"[safe]\ndirectory = *", "safe.directory", RISK_HIGH},
        {"[extensions]\nworktreeConfig = true", "extensions.worktreeconfig", RISK_LOW},
        {"[init]\ntemplateDir = x", "init.templatedir", RISK_MEDIUM},
        {"[interactive]\ndiffFilter = x", "interactive.difffilter", RISK_HIGH},
        {"[sendemail]\nsmtpServer = /bin/x", "sendemail.smtpserver", RISK_HIGH},
        {"[something]\nnew = x", "something.new is 'x', a key that no rule knows", RISK_LOW},
        {"[core]\nx = y\n[broken", "line 3 could not be read", RISK_HIGH},
    };
    static const char *const files[] = {".git/config", ".git/config.worktree", ".git/modules/a/b/config", "sub/.git/config",
                                        ".git/worktrees/w/config.worktree"};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scene_text(*state, files[i % ARRAY_LEN(files)], "[user]\nname = me\n", cases[i].text);
        scene_expect(*state, files[i % ARRAY_LEN(files)], RISK_GIT_CONFIG, cases[i].level, cases[i].key);
        scene_clear(*state);
    }
}

static void only_keys_that_changed(void **state) {
    static const char before[] = "[alias]\n\tst = !old\n[core]\n\tfsmonitor = mine\n";
    struct scene *s = *state;

    scene_text(s, ".git/config", before,
               "[alias]\n\tst = !old\n[core]\n\tfsmonitor = mine\n[branch \"x\"]\n\tremote = "
               "origin\n");
    scene_expect_none(s, ".git/config");
    scene_clear(s);
    scene_text(s, ".git/config", before, "[alias]\n\tst = !old\n");
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_LOW, "core.fsmonitor was 'mine' and is gone");
}

static void the_line_is_told(void **state) {
    CLEANUP(risk_list_done) struct risk_list l = {0};

    scene_text(*state, ".git/config", "[core]\n\tbare = false\n", "[core]\n\tbare = false\n\tfsmonitor = evil\n");
    l = scene_judge(*state, ".git/config");
    assert_int_equal(l.n, 1);
    assert_int_equal(l.v[0].line, 3);
}

static void hooks(void **state) {
    static const char *const paths[] = {".git/hooks/pre-commit", ".git/modules/a/hooks/post-checkout",
                                        "nested/.git/hooks/pre-push", ".husky/pre-commit", ".husky/_/husky.sh"};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        scene_text(s, paths[i], NULL, "#!/bin/sh\n");
        scene_expect(s, paths[i], RISK_GIT_HOOK, RISK_HIGH, "git runs this hook");
    }
    scene_clear(s);
    /* Made executable, and nothing else (ATTACKS 41). */
    scene_text(s, ".git/hooks/pre-push", "x", "x");
    scene_change(s, ".git/hooks/pre-push")->what = CHANGE_MODE;
    scene_change(s, ".git/hooks/pre-push")->new_.mode |= 0111;
    scene_expect(s, ".git/hooks/pre-push", RISK_GIT_HOOK, RISK_HIGH, "not executable before");
}

/* The folder need not exist when the run begins (ATTACKS 36). */
static void hooks_path_of_the_host(void **state) {
    struct scene *s = *state;

    scene_write(s->old_root, ".git/config", "[core]\n\thooksPath = tools/my-hooks\n", 35);
    scene_text(s, "tools/my-hooks/pre-commit", NULL, "x");
    scene_text(s, "tools/other/pre-commit", NULL, "x");
    scene_expect(s, "tools/my-hooks/pre-commit", RISK_GIT_HOOK, RISK_HIGH, "core.hooksPath");
    scene_expect_none(s, "tools/other/pre-commit");
}

static void hooks_path_of_a_nested_repository(void **state) {
    struct scene *s = *state;

    scene_write(s->old_root, "lib/.git/config", "[core]\n\thooksPath = ../tools\n", 28);
    scene_text(s, "tools/pre-commit", NULL, "x");
    scene_text(s, "lib/x", NULL, "x"); /* repositories above a change are looked at */
    scene_expect(s, "tools/pre-commit", RISK_GIT_HOOK, RISK_HIGH, "core.hooksPath");
}

/* The run turns the key away and fills the folder: if only the second is applied, the hook runs. */
static void hooks_path_that_the_run_changes(void **state) {
    struct scene *s = *state;

    scene_text(s, ".git/config", "[core]\n\thooksPath = a\n", "[core]\n\thooksPath = /home/me/project/b/c\n");
    scene_text(s, "a/pre-commit", NULL, "x");
    scene_text(s, "b/c/pre-commit", NULL, "x");
    scene_text(s, "b/pre-commit", NULL, "x");
    scene_expect(s, "a/pre-commit", RISK_GIT_HOOK, RISK_HIGH, "core.hooksPath");
    scene_expect(s, "b/c/pre-commit", RISK_GIT_HOOK, RISK_HIGH, "core.hooksPath");
    scene_expect_none(s, "b/pre-commit");
}

static void included_configuration(void **state) {
    struct scene *s = *state;

    scene_write(s->old_root, ".git/config", "[include]\n\tpath = ../dev/git.conf\n", 34);
    scene_write(s->old_root, "dev/git.conf", "[include]\n\tpath = more.conf\n", 28);
    scene_text(s, "dev/git.conf", "[include]\n\tpath = more.conf\n", "[include]\n\tpath = more.conf\n[alias]\n\tx = !evil\n");
    scene_text(s, "dev/more.conf", NULL, "[core]\n\tpager = evil\n");
    scene_expect(s, "dev/git.conf", RISK_GIT_CONFIG, RISK_HIGH, "alias.x");
    scene_expect(s, "dev/more.conf", RISK_GIT_CONFIG, RISK_HIGH, "core.pager");
}

static void files_that_lead_to_a_git_directory(void **state) {
    static const struct example examples[] = {
        {"sub/.git", NULL, "gitdir: ../evil\n", RISK_GIT_DIR, RISK_HIGH, "'gitdir: ../evil'"},
        {".git/commondir", NULL, "../evil", RISK_GIT_DIR, RISK_HIGH, "'../evil'"},
        {".git/worktrees/w/gitdir", "a", "/b", RISK_GIT_DIR, RISK_HIGH, "'/b'"},
        {".git/worktrees/w/gitdir", NULL, "/w/b/.git\n", RISK_GIT_DIR, RISK_LOW, "'/w/b/.git'"},
        {".git/worktrees/w/commondir", NULL, "../..\n", RISK_GIT_DIR, RISK_LOW, "'../..'"},
        {".git/worktrees/w/commondir", NULL, "../../evil\n", RISK_GIT_DIR, RISK_HIGH, "'../../evil'"},
        {".git/modules/a/b/config", NULL, "[core]\n\tworktree = ../../../../a/b\n", RISK_GIT_CONFIG, RISK_LOW, "core.worktree"},
        {".git/modules/b/config", NULL, "[core]\n\tworktree = ../../../../b\n", RISK_GIT_CONFIG, RISK_HIGH, "core.worktree"},
        {".git/config", NULL, "[core]\n\tworktree = ../b\n", RISK_GIT_CONFIG, RISK_HIGH, "core.worktree"},
        {".git/commondir", NULL, "../..\n", RISK_GIT_DIR, RISK_HIGH, "'../..'"},
        {"a/sub/.git", NULL, "gitdir: ../../.git/modules/sub\n", RISK_GIT_DIR, RISK_LOW, "'gitdir: ../../.git/modules/sub'"},
        {"sub/.git", NULL, "gitdir: ../.git/modules/../../evil\n", RISK_GIT_DIR, RISK_HIGH, "evil"},
        {"sub/.git", NULL, "gitdir: ../x/.git/modules/evil\n", RISK_GIT_DIR, RISK_HIGH, "evil"},
        {"sub2/.git/HEAD", NULL, "ref: x", RISK_GIT_DIR, RISK_MEDIUM, "'sub2' is a repository of its own"},
        {".git/objects/info/alternates", NULL, "/evil", RISK_GIT_DIR, RISK_HIGH, "objects from elsewhere"},
        {".git/refs/replace/abc", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "others in their place"},
        {".git/rebase-merge/git-rebase-todo", NULL, "exec evil", RISK_GIT_HOOK, RISK_HIGH, "rebase"},
        {"a/.GIT/config", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "the same as '.git'"},
        {"git~1/hooks/x", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "the same as '.git'"},
        {".g\xe2\x80\x8cit/config", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "the same as '.git'"},
        {".git./config", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "the same as '.git'"},
        {".git::$INDEX_ALLOCATION/config", NULL, "x", RISK_GIT_DIR, RISK_HIGH, "the same as '.git'"},
        {".gitx/y", NULL, "x", RISK_GIT_DIR, RISK_NONE, NULL},
        {"git~10/y", NULL, "x", RISK_GIT_DIR, RISK_NONE, NULL},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void bare_repository_in_the_tree(void **state) {
    struct scene *s = *state;

    scene_text(s, "data/HEAD", NULL, "ref: refs/heads/main");
    scene_text(s, "data/config", NULL, "[core]\n\tfsmonitor = evil\n");
    scene_text(s, "data/objects/x", NULL, "");
    scene_expect_none(s, "data/config"); /* refs is missing */
    scene_text(s, "data/hooks/pre-commit", NULL, "x");
    scene_write(s->old_root, "data/refs/x", "", 0); /* already there on the host */
    scene_expect(s, "data/HEAD", RISK_GIT_DIR, RISK_HIGH, "'data' is a bare repository");
    scene_expect(s, "data/objects/x", RISK_GIT_DIR, RISK_HIGH, "'data' is a bare repository");
    scene_expect(s, "data/config", RISK_GIT_CONFIG, RISK_HIGH, "core.fsmonitor is 'evil'");
    scene_expect(s, "data/hooks/pre-commit", RISK_GIT_HOOK, RISK_HIGH, "bare repository");
}

/* Where nothing else would look: a link leads there as well as anywhere. */
static void repository_below_git(void **state) {
    struct scene *s = *state;

    scene_text(s, ".git/objects/zz/HEAD", NULL, "ref: refs/heads/main");
    scene_text(s, ".git/objects/zz/config", NULL, "[core]\n\tfsmonitor = evil\n");
    scene_text(s, ".git/objects/zz/objects/x", NULL, "");
    scene_expect_none(s, ".git/objects/zz/HEAD"); /* refs is missing */
    scene_text(s, ".git/objects/zz/refs/x", NULL, "");
    scene_expect(s, ".git/objects/zz/HEAD", RISK_GIT_DIR, RISK_HIGH, "'.git/objects/zz' is a bare repository");
    scene_expect(s, ".git/objects/zz/config", RISK_GIT_CONFIG, RISK_HIGH, "core.fsmonitor is 'evil'");
}

static void attributes_and_modules(void **state) {
    static const struct example examples[] = {
        {".gitattributes", "*.c diff=cpp\n", "*.c diff=cpp\n*.x filter=evil\n", RISK_GIT_ATTRIBUTES, RISK_MEDIUM,
         "'*.x filter=evil'"},
        {"a/.gitattributes", NULL, "* diff=evil\n", RISK_GIT_ATTRIBUTES, RISK_MEDIUM, "driver at every diff"},
        {".git/info/attributes", NULL, "* text merge=evil\n", RISK_GIT_ATTRIBUTES, RISK_MEDIUM, "driver at every merge"},
        {".gitattributes", NULL, "* filter=lfs\n", RISK_GIT_ATTRIBUTES, RISK_LOW, "git lfs"},
        {".gitattributes", NULL, "*.c -diff\n", RISK_GIT_ATTRIBUTES, RISK_LOW, "out of what diffs"},
        {".gitattributes", NULL, "*.py diff=python text=auto\n# filter=x\n", RISK_GIT_ATTRIBUTES, RISK_NONE, NULL},
        {".gitmodules", NULL, "[submodule \"a\"]\nupdate = !x\n", RISK_GIT_CONFIG, RISK_HIGH, "submodule.a.update is '!x'"},
        {".gitmodules", NULL, "[submodule \"a\"]\nurl = -u./x\n", RISK_GIT_CONFIG, RISK_HIGH, "an option"},
        {".gitmodules", NULL, "[submodule \"a\"]\nurl = https://x/y\n", RISK_GIT_CONFIG, RISK_MEDIUM, "https://x/y"},
        {".gitmodules", NULL, "[submodule \"a\"]\npath = x/../y\n", RISK_GIT_CONFIG, RISK_HIGH, "no submodule belongs"},
        {".gitmodules", NULL, "[submodule \"../../x\"]\npath = y\n", RISK_GIT_CONFIG, RISK_HIGH, "out of .git/modules"},
        {".lfsconfig", NULL, "[lfs]\nurl = https://x\n", RISK_GIT_CONFIG, RISK_MEDIUM, "lfs.url"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void sandbox_policy(void **state) {
    static const struct example examples[] = {
        {".sandboxignore", "*.pem\n.env\n", ".env\n", RISK_SANDBOX_POLICY, RISK_HIGH, "'*.pem' was removed"},
        {"web/.sandboxignore", ".env\n", ".env\n!.env\n", RISK_SANDBOX_POLICY, RISK_HIGH, "'!.env' was added"},
        {".sandboxignore", ".env\n", ".env\nx\n", RISK_SANDBOX_POLICY, RISK_LOW, "'x' was added"},
        {".sandboxignore", "!a\na\n", "a\n!a\n", RISK_SANDBOX_POLICY, RISK_HIGH, "order of its patterns"},
        {".sandboxignore", NULL, "x\n", RISK_SANDBOX_POLICY, RISK_HIGH, "built-in"},
        {".sandboxignore", "a\n# b\n", "a\n# c\n", RISK_SANDBOX_POLICY, RISK_NONE, NULL},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void ignored_files(void **state) {
    struct scene *s = *state;

    scene_write(s->old_root, ".git/info/exclude", "*.secret\n", 9);
    scene_write(s->old_root, ".gitignore", "*.log\nnode_modules/\n", 20);
    scene_text(s, "sub/.gitignore", NULL, "!keep.log\nhidden/\n");
    scene_text(s, "a.log", NULL, "x");
    scene_text(s, "a.secret", NULL, "x");
    scene_text(s, "sub/keep.log", NULL, "x");
    scene_text(s, "sub/hidden/x", NULL, "x");
    scene_text(s, "node_modules/a/index.js", NULL, "x");
    scene_expect(s, "a.log", RISK_IGNORED, RISK_LOW, "git ignores it");
    scene_expect(s, "a.secret", RISK_IGNORED, RISK_LOW, "git ignores it");
    scene_expect(s, "sub/hidden/x", RISK_IGNORED, RISK_LOW, "git ignores it"); /* by a rule that the run made */
    scene_expect(s, "node_modules/a/index.js", RISK_IGNORED, RISK_MEDIUM, "tools run");
    scene_expect(s, "sub/.gitignore", RISK_IGNORED, RISK_LOW, "changes which files");
    scene_expect_none(s, "sub/keep.log");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_of_the_configuration, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(only_keys_that_changed, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(the_line_is_told, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(hooks, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(hooks_path_of_the_host, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(hooks_path_of_a_nested_repository, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(hooks_path_that_the_run_changes, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(included_configuration, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(files_that_lead_to_a_git_directory, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(bare_repository_in_the_tree, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(repository_below_git, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(attributes_and_modules, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(sandbox_policy, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(ignored_files, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
