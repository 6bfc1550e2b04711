/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of paths, and the driver around it. */
#include "risk_scene.h"

#include "workspace/hide/protect.h"

/* A path that the pattern names: "**" and "*" become "x". */
static void sample(const char *pattern, size_t len, char *out, size_t size) {
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < size; i++) {
        if (pattern[i] == '*' && i + 1 < len && pattern[i + 1] == '*')
            continue;
        out[n++] = pattern[i] == '*' ? 'x' : pattern[i];
    }
    out[n] = 0;
}

static void every_pattern_is_reported(void **state) {
    struct scene *s = *state;
    size_t patterns = 0;

    for (const struct risk_rule *r = risk_rules; r->pattern; r++)
        for (const char *p = r->pattern; *p;) {
            size_t len = strcspn(p, "|");
            char path[256];
            int start = snprintf(path, sizeof path, "%zu/", patterns);

            sample(p, len, path + start, sizeof path - (size_t)start);
            /* No reader understands this, so also rows that read the file must say something. */
            scene_text(s, path, NULL, "{ \x01 [\n: = ] filter=x\n--index-url=x\n");
            {
                CLEANUP(risk_list_done) struct risk_list l = scene_judge(s, path);
                bool found = false;

                for (size_t i = 0; i < l.n; i++)
                    found |= l.v[i].class == r->class;
                if (!found)
                    scene_print(path, &l);
                assert_true(found);
            }
            scene_clear(s);
            patterns++;
            p += len + (p[len] == '|');
        }
    assert_true(patterns > 300);
}

/* What direct mode does not let be written has a risk in review, and its class is one that review knows. */
static void every_protected_path_is_reported(void **state) {
    struct scene *s = *state;

    for (size_t i = 0; i < n_protect_rows; i++) {
        const char *pattern = protect_rows[i].pattern;
        bool known = false;
        char path[256];
        int start = snprintf(path, sizeof path, "%zu/", i); /* a file in one row is a folder in another */

        for (size_t k = 0; k < RISK_CLASSES; k++)
            known |= str_eq(risk_classes[k].name, protect_rows[i].class);
        if (!known)
            fail_msg("'%s' has the unknown class '%s'", pattern, protect_rows[i].class);
        if (*pattern == '!')
            continue;
        pattern += str_starts(pattern, "**/") ? 3 : 0;
        sample(pattern, strlen(pattern), path + start, sizeof path - (size_t)start);
        for (char *twice; (twice = strstr(path, "//"));)
            memmove(twice, twice + 1, strlen(twice));
        scene_text(s, path, NULL, "{ \x01 [\n: = ] filter=x\n");
        {
            CLEANUP(risk_list_done) struct risk_list l = scene_judge(s, path);

            if (l.n == 0)
                fail_msg("'%s' is protected, and has no risk", path);
        }
        scene_clear(s);
    }
}

/* Names that only the list of protected paths knows. */
static void protected_paths_without_a_rule_are_high(void **state) {
    static const char *const paths[] = {".hg/hgrc", "sub/.jj/repo/config.toml", ".ghci", ".pdbrc", ".ocamlinit", "gptme.toml"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CLEANUP(risk_list_done) struct risk_list l = {0};

        scene_text(*state, paths[i], NULL, "x\n");
        l = scene_judge(*state, paths[i]);
        assert_true(l.n > 0);
        assert_int_equal(l.v[0].level, RISK_HIGH);
        scene_clear(*state);
    }
}

/* Paths in a repository that mean nothing. */
static void ordinary_files_have_no_risk(void **state) {
    static const char *const paths[] = {"src/main.c",           "README.md",      "docs/a/b.txt",       "lib/util.js",
                                        "test/data.json",       ".git/index",     ".git/HEAD",          ".git/refs/heads/main",
                                        ".git/objects/ab/cdef", ".git/logs/HEAD", ".git/COMMIT_EDITMSG"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        scene_text(*state, paths[i], "a\n", "b\n");
        scene_expect_none(*state, paths[i]);
        scene_clear(*state);
    }
}

static void rows_by_name(void **state) {
    static const struct example examples[] = {
        {".github/workflows/ci.yml", "on: push\n", "on: push\nrun: curl evil\n", RISK_CI, RISK_MEDIUM,
         "line 2 is now 'run: curl evil'"},
        {"sub/.gitlab-ci.yml", NULL, "x", RISK_CI, RISK_MEDIUM, "GitLab runs it"},
        {".envrc", "a", "b", RISK_ENVIRONMENT, RISK_HIGH, "loads it"},
        {".nvmrc", "18", "20", RISK_ENVIRONMENT, RISK_LOW, "node"},
        {"Makefile", "a:\n", "a:\n\tx\n", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build runs it"},
        {"makefile", NULL, "a:", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build runs it"},
        {"setup.py", NULL, "import os", RISK_PACKAGE_SCRIPT, RISK_HIGH, "every install"},
        {"lib/python3/site-packages/x.pth", NULL, "import os", RISK_PACKAGE_SCRIPT, RISK_HIGH, "whenever it starts"},
        {"AGENTS.md", "a", "b", RISK_INSTRUCTIONS, RISK_MEDIUM, "next session"},
        {".claude/commands/x.md", NULL, "b", RISK_AGENT, RISK_MEDIUM, "commands"},
        {".venv/bin/python", NULL, "b", RISK_EXECUTABLE, RISK_HIGH, "by its name"},
        {".bawn/config.json", "{}", "{\"x\":1}", RISK_SANDBOX_POLICY, RISK_HIGH, "configuration of the sandbox"},
        {".VSCode/Tasks.json", NULL, "{\"tasks\":[{\"command\":\"x\"}]}", RISK_IDE, RISK_MEDIUM, "tasks[].command is 'x'"},
        {".vscode/Makefile", NULL, "x", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build runs it"}, /* two classes */
        {".git/hooks/pre-commit.sample", NULL, "x", RISK_GIT_HOOK, RISK_LOW, "sample"},
        {".github/workflows/ci.yml", "x", NULL, RISK_CI, RISK_LOW, "was removed"},
        {".sandboxignore", "x", NULL, RISK_SANDBOX_POLICY, RISK_HIGH, "open to the next run"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void what_is_hidden_stays_inside(void **state) {
    struct scene *s = *state;

    scene_text(s, ".git/hooks/pre-commit", NULL, "x");
    scene_change(s, ".git/hooks/pre-commit")->hidden = true;
    scene_expect_none(s, ".git/hooks/pre-commit");
}

static void renames_count_on_both_sides(void **state) {
    struct scene *s = *state;
    struct change *c;

    scene_text(s, ".git/config", NULL, "[core]\n\tfsmonitor = evil\n");
    scene_write(s->old_root, "notes.txt", "[core]\n\tfsmonitor = evil\n", 24);
    c = scene_change(s, ".git/config");
    c->kind = CHANGE_RENAMED;
    c->from = strdup("notes.txt");
    c->old_.mode = S_IFREG | 0644;
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_HIGH, "core.fsmonitor is 'evil'");
    scene_clear(s);

    scene_text(s, "old-rules", NULL, "*.pem\n");
    c = scene_change(s, "old-rules");
    c->kind = CHANGE_RENAMED;
    c->from = strdup(".sandboxignore");
    scene_expect(s, "old-rules", RISK_SANDBOX_POLICY, RISK_HIGH, "'.sandboxignore' was removed");
}

static void links_in_the_place_of_files_and_folders(void **state) {
    struct scene *s = *state;

    scene_link(s, ".git/config", "../evil");
    scene_link(s, ".git/hooks", "../evil");
    scene_link(s, ".vscode", "evil");
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_HIGH, "symbolic link to '../evil'");
    scene_expect(s, ".git/hooks", RISK_GIT_HOOK, RISK_HIGH, "symbolic link to '../evil'");
    scene_expect(s, ".vscode", RISK_IDE, RISK_MEDIUM, "symbolic link to 'evil'");
}

static void a_folder_in_the_place_of_a_file(void **state) {
    struct scene *s = *state;

    scene_text(s, ".sandboxignore", "*.pem\n", NULL);
    scene_change(s, ".sandboxignore")->kind = CHANGE_MODIFIED;
    scene_change(s, ".sandboxignore")->what = CHANGE_TYPE;
    scene_change(s, ".sandboxignore")->new_.mode = S_IFDIR | 0755;
    scene_expect(s, ".sandboxignore", RISK_SANDBOX_POLICY, RISK_HIGH, "was removed");
}

static void old_content_that_was_not_kept(void **state) {
    struct scene *s = *state;

    scene_text(s, ".git/config", "[alias]\n\tx = !sh\n", "[alias]\n\tx = !sh\n");
    scene_change(s, ".git/config")->old_unknown = true;
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_HIGH, "alias.x is '!sh'");
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_LOW, "not stored");
}

static void too_large_to_read(void **state) {
    struct scene *s = *state;
    char *big = calloc(1, RISK_FILE_MAX + 1);

    assert_non_null(big);
    memset(big, '\n', RISK_FILE_MAX + 1);
    scene_bytes(s, "package.json", "{}", 2, big, RISK_FILE_MAX + 1);
    scene_bytes(s, "x.txt", "", 0, big, RISK_FILE_MAX);
    scene_expect(s, "package.json", RISK_PACKAGE_SCRIPT, RISK_HIGH, "could not be read");
    scene_expect_none(s, "x.txt");
    free(big);
}

/* A flood of small risks hides no large one, and is counted. */
static void many_risks_of_one_kind(void **state) {
    struct scene *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);

    buf_adds(&b, "[alias]\n");
    for (int i = 0; i < 100; i++)
        buf_addf(&b, "\ta%d = log\n", i);
    buf_adds(&b, "[core]\n\tfsmonitor = evil\n");
    scene_text(s, ".git/config", NULL, buf_str(&b));
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_HIGH, "fsmonitor");
    scene_expect(s, ".git/config", RISK_GIT_CONFIG, RISK_LOW, "and 80 more");
}

static void special_files(void **state) {
    struct scene *s = *state;

    scene_add(s, (struct change){.kind = CHANGE_ADDED, .path = strdup("fifo"), .new_ = {S_IFIFO | 0644, 0, NULL}});
    scene_add(s, (struct change){.kind = CHANGE_ADDED, .path = strdup("disk"), .new_ = {S_IFBLK | 0644, 0, NULL}});
    scene_expect(s, "fifo", RISK_SPECIAL_FILE, RISK_MEDIUM, "FIFO");
    scene_expect(s, "disk", RISK_SPECIAL_FILE, RISK_HIGH, "device");
}

static void classes_are_complete(void **state) {
    for (size_t i = 0; i < RISK_CLASSES; i++) {
        assert_non_null(risk_classes[i].name);
        assert_non_null(risk_classes[i].title);
        assert_true(str_ends(risk_classes[i].help, "."));
    }
}

static void patterns_of_paths(void **state) {
    static const struct {
        const char *patterns, *path;
        bool match, leads;
    } cases[] = {
        {"a/b", "a/b", true, false},          {"a/b", "x/a/b", true, false},     {"a/b", "a/b/c", false, false},
        {"a/b", "xa/b", false, false},        {"a/b", "x/a", false, true},       {"a/**/b", "a/x/y/b", true, false},
        {"a/**/b", "a/b", true, false},       {"a/**", "q/a/x/y", true, false},  {"*.x", "d/f.x", true, false},
        {"*.x", "f.x/y", false, false},       {"z|a/*b*", "a/1B2", true, false}, {"a/a/b", "a/a/a/b", true, false},
        {"a/**/b/c", "a/b/b/c", true, false}, {"a/**/b/c", "a", false, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct risk_path path;

        risk_path_split(cases[i].path, &path);
        assert_int_equal(risk_path_match(cases[i].patterns, &path), cases[i].match);
        assert_int_equal(risk_path_leads(cases[i].patterns, &path), cases[i].leads);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_pattern_is_reported, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(every_protected_path_is_reported, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(protected_paths_without_a_rule_are_high, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(ordinary_files_have_no_risk, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(rows_by_name, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(what_is_hidden_stays_inside, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(renames_count_on_both_sides, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(links_in_the_place_of_files_and_folders, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(a_folder_in_the_place_of_a_file, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(old_content_that_was_not_kept, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(too_large_to_read, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(many_risks_of_one_kind, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(special_files, scene_setup, scene_teardown),
        cmocka_unit_test(classes_are_complete),
        cmocka_unit_test(patterns_of_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
