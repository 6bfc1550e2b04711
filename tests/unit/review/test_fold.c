/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of dependencies: what is one, readers of packages, and lockfiles of every format. */
#include "risk_scene.h"

#include "review/fold/fold_packages.h"

/* -- readers -------------------------------------------------------------------------------------------------------------- */

static void test_manifests(void **state) {
    static const struct {
        package_read_fn *read;
        const char *text, *name, *version, *scripts;
    } cases[] = {
        {package_read_json,
         "{\"name\":\"@a/b\",\"version\":\"1.0\",\"scripts\":{\"test\":\"x\",\"install\":\"y\",\"postinstall\":\"z\"}}", "@a/b",
         "1.0", "install, postinstall"},
        {package_read_json, "{\"x\":{\"name\":\"no\",\"version\":\"9\"}}", "", "", ""},
        {package_read_json, "{\"name\":\"a\",", "a", "", ""},
        {package_read_json, "", "", "", ""},
        {package_read_cargo, "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies.x]\nversion = \"2\"\n", "a", "1.0.0",
         ""},
        {package_read_metadata, "Metadata-Version: 2.1\nName: A\nversion: 1.0\nName: B\n\nVersion: 9\n", "A", "1.0", ""},
        {package_read_metadata, "Name:\nVersion: \n", "", "", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct package_facts f = {0};

        cases[i].read(&f, cases[i].text, strlen(cases[i].text));
        assert_string_equal(f.name, cases[i].name);
        assert_string_equal(f.version, cases[i].version);
        assert_string_equal(f.scripts, cases[i].scripts);
    }
}

static void test_a_long_name_is_cut(void **state) {
    char text[2000] = "Name: ";
    struct package_facts f = {0};

    memset(text + 6, 'x', sizeof text - 7);
    package_read_metadata(&f, text, strlen(text));
    assert_int_equal(strlen(f.name), PACKAGE_NAME_MAX);
}

static void join(const char *path, void *arg) {
    buf_addf(arg, "[%s]", path);
}

static void join_package(const char *name, const char *version, void *arg) {
    buf_addf(arg, "[%s %s]", name, version);
}

static void test_lists(void **state) {
    static const char record[] = "a.py,sha256=x,1\n\"b,\"\"c.py\",,\n../../../bin/d,,\n,,\n\"\",,\n";
    static const char modules[] = "# a.com/b v1.0\n## explicit\na.com/b/c\n# d v2 => ../d\n#\n# \n";
    static const char installed[] = "{\"packages\":[{\"name\":\"a/b\",\"version\":\"v1\"},{\"name\":\"c\",\"version\":\"2\"}]}";
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    package_read_record(record, strlen(record), join, &b);
    assert_string_equal(buf_str(&b), "[a.py][b,\"c.py][../../../bin/d]");
    buf_clear(&b);
    package_read_modules(modules, strlen(modules), join_package, &b);
    assert_string_equal(buf_str(&b), "[a.com/b v1.0][d v2 => ../d]");
    buf_clear(&b);
    package_read_installed(installed, strlen(installed), join_package, &b);
    assert_string_equal(buf_str(&b), "[a/b v1][c 2]");
}

static void test_commands(void **state) {
    static const struct {
        const char *text, *file;
        bool declared;
    } cases[] = {
        {"{\"bin\":\"cli.js\"}", "cli.js", true},
        {"{\"bin\":{\"x\":\"./bin/x\"}}", "bin/x", true},
        {"{\"bin\":{\"x\":\"./bin/x\"}}", "bin/x.js", true},
        {"{\"bin\":{\"x\":\"./bin/x\"}}", "bin/xy", false},
        {"{\"directories\":{\"bin\":\"./bin\"}}", "bin/x", true},
        {"{\"directories\":{\"bin\":\"./bin\"}}", "binx", false},
        {"{\"main\":\"cli.js\"}", "cli.js", false},
        {"{\"bin\":\"\"}", "cli.js", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(package_declares(cases[i].text, strlen(cases[i].text), cases[i].file), cases[i].declared);
}

static void test_names_of_python(void **state) {
    char name[] = "Foo.-_Bar__baz";

    package_python_name(name);
    assert_string_equal(name, "foo-bar-baz");
}

static void test_where_a_package_begins(void **state) {
    static const struct {
        const char *path, *root;
    } cases[] = {
        {"n/node_modules/a/x", "n/node_modules/a"},
        {"n/node_modules/@s/a/lib/x", "n/node_modules/@s/a"},
        {"n/node_modules/a/node_modules/b/x", "n/node_modules/a/node_modules/b"},
        {"n/node_modules/a/test/node_modules/b/x", "n/node_modules/a"},
        {"n/node_modules/.pnpm/a@1.0/node_modules/a/x", "n/node_modules/.pnpm/a@1.0/node_modules/a"},
        {"n/node_modules/a/node_modules/.bin/x", "n/node_modules/a"},
        {"n/node_modules/.bin/x", ""},
        {"n/node_modules/x.js", ""},
        {"n/node_modules/@s/x.js", ""},
    };
    const struct fold f = {.kind = &fold_kinds[0], .path = "n/node_modules"};

    assert_string_equal(fold_kinds[0].name, "npm");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(fold_package_root(&f, cases[i].path), strlen(cases[i].root));
        assert_memory_equal(cases[i].path, cases[i].root, strlen(cases[i].root));
    }
}

/* -- folders -------------------------------------------------------------------------------------------------------------- */

/* Room for the risks of each change. */
struct fold_found {
    const struct change_set *set;
    struct risk_list *risks;
};

static struct risk_list *risks_of(void *arg, const struct change *c) {
    struct fold_found *f = arg;

    return &f->risks[c - f->set->v];
}

/* The reasons that were added at a path, and in *ret_state the lockfile's. */
static void scene_folds(struct scene *s, struct fold_set *ret, const char *path, char *reason, size_t size) {
    CLEANUP(risk_context_done) struct risk_context ctx = {.workspace = -1};
    struct fold_found found = {.set = &s->set, .risks = calloc(s->set.n, sizeof *found.risks)};
    struct err err = {0};

    assert_int_equal(risk_context_init(&ctx, &s->set, s->old_root, NULL, &err), 0);
    assert_int_equal(fold_find(&ctx, ret, &err), 0);
    assert_int_equal(fold_judge(&ctx, ret, risks_of, &found, &err), 0);
    reason[0] = 0;
    for (size_t i = 0; i < s->set.n; i++) {
        if (str_eq(s->set.v[i].path, path) && found.risks[i].n)
            snprintf(reason, size, "%s", found.risks[i].v[0].reason);
        risk_list_done(&found.risks[i]);
    }
    free(found.risks);
}

static void test_proofs(void **state) {
    struct scene *s = *state;
    static const struct {
        const char *proof[2], *member, *kind;
    } cases[] = {
        {{"package.json"}, "node_modules/a/x", "npm"},
        {{"x"}, "node_modules/a/x", NULL},
        {{"package.json"}, "node_modules.txt/a", NULL},
        {{"sub/package.json"}, "sub/node_modules/a/x", "npm"},
        {{"package.json", "node_modules/b/package.json"}, "node_modules/b/node_modules/a/x", "npm"},
        {{"x", "node_modules/b/package.json"}, "node_modules/b/node_modules/a/x", NULL}, /* the outer one is not proved */
        {{"my.venv/pyvenv.cfg"}, "my.venv/lib/x", "venv"},
        {{"my.venv/pyvenv.cfg"}, "my.venv/src/x", NULL},
        {{"pyvenv.cfg", "bin/python"}, "lib/x", NULL},
        {{"src/pyvenv.cfg", "src/bin/python"}, "src/lib/x", NULL},
        {{"go.mod", "vendor/modules.txt"}, "vendor/a/x", "go-vendor"},
        {{"composer.json", "vendor/composer/installed.json"}, "vendor/a/x", "composer"},
        {{"Cargo.toml", "target/CACHEDIR.TAG"}, "target/debug/x", "cargo-target"},
        {{"Cargo.toml"}, "target/debug/x", NULL},
        {{".git/HEAD"}, ".git/objects/aa/bb", "git-objects"},
        {{"x"}, ".git/objects/aa/bb", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(fold_set_done) struct fold_set folds = {0};
        const struct change *c;
        char reason[200];
        uint16_t of;

        scene_text(s, cases[i].member, NULL, "x");
        for (size_t k = 0; k < 2 && cases[i].proof[k]; k++)
            scene_text(s, cases[i].proof[k], NULL, "{}");
        scene_folds(s, &folds, "", reason, sizeof reason);
        c = scene_change(s, cases[i].member);
        of = folds.of[c - s->set.v];
        if (cases[i].kind)
            assert_string_equal(of ? folds.v[of - 1].kind->name : "none", cases[i].kind);
        else
            assert_int_equal(of, 0);
        scene_clear(s);
    }
}

#define NPM_LOCK(entry) "{\"lockfileVersion\":3,\"packages\":{\"\":{\"name\":\"x\"}," entry "}}"
#define IS_100 "{\"name\":\"a\",\"version\":\"1.0.0\"}"

static void test_lockfiles(void **state) {
    struct scene *s = *state;
    static const struct {
        const char *lock, *text, *reason;
    } cases[] = {
        {"package-lock.json", NPM_LOCK("\"node_modules/a\":{\"version\":\"1.0.0\"}"), ""},
        {"package-lock.json", NPM_LOCK("\"node_modules/a\":{\"version\":\"1.0.1\"}"),
         "'a' is version 1.0.0, and 1.0.1 in package-lock.json"},
        {"package-lock.json", NPM_LOCK("\"node_modules/b\":{\"version\":\"1.0.0\"}"), "'a' 1.0.0 is not in package-lock.json"},
        /* of another package: the place counts, not the name alone */
        {"package-lock.json", NPM_LOCK("\"node_modules/b/node_modules/a\":{\"version\":\"1.0.0\"}"),
         "'a' 1.0.0 is not in package-lock.json"},
        {"package-lock.json", "{\"lockfileVersion\":1,\"dependencies\":{\"a\":{\"version\":\"1.0.0\"}}}", ""},
        {"package-lock.json", "{\"lockfileVersion\":1,\"dependencies\":{\"b\":{\"version\":\"1.0.0\"}}}",
         "'a' 1.0.0 is not in package-lock.json"},
        {"yarn.lock", "# yarn lockfile v1\n\na@^1.0.0, a@^1.0:\n  version \"1.0.0\"\n", ""},
        {"yarn.lock", "# yarn lockfile v1\n\na@^1.0.0:\n  version \"1.0.2\"\n", "'a' is version 1.0.0, and 1.0.2 in yarn.lock"},
        {"yarn.lock", "__metadata:\n  version: 8\n\n\"a@npm:^1.0.0\":\n  version: 1.0.0\n  resolution: \"a@npm:1.0.0\"\n", ""},
        {"pnpm-lock.yaml", "packages:\n  a@1.0.0:\n    resolution: {integrity: sha512-x}\n", ""},
        {"pnpm-lock.yaml", "packages:\n  a@1.0.0(b@2):\n    resolution: {integrity: sha512-x}\n", ""},
        {"bun.lock", "{\"packages\":{\"a\":[\"a@1.0.0\",\"\",{},\"sha512-x\"]}}", ""},
        {"bun.lock", "{\"packages\":{\"b\":[\"b@1.0.0\",\"\",{},\"sha512-x\"]}}", "'a' 1.0.0 is not in bun.lock"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(fold_set_done) struct fold_set folds = {0};
        char reason[400];

        scene_text(s, "package.json", NULL, "{}");
        scene_text(s, cases[i].lock, NULL, cases[i].text);
        scene_text(s, "node_modules/a/package.json", NULL, IS_100);
        scene_folds(s, &folds, "node_modules/a/package.json", reason, sizeof reason);
        assert_string_equal(reason, cases[i].reason);
        assert_int_equal(folds.v[0].lock.state, *reason ? FOLD_LOCK_DIFFERS : FOLD_LOCK_AGREES);
        scene_clear(s);
    }
}

static void test_lockfiles_of_python(void **state) {
    struct scene *s = *state;
    static const char metadata[] = ".venv/lib/python3.11/site-packages/Foo_Bar-1.0.dist-info/METADATA";
    static const struct {
        const char *lock, *text, *reason;
        enum fold_lock_state state;
    } cases[] = {
        {"requirements.txt", "foo.bar==1.0\n", "", FOLD_LOCK_AGREES},
        {"requirements.txt", "foo-bar>=0.5\n", "", FOLD_LOCK_AGREES},
        {"requirements.txt", "foo-bar==2.0\n", "'foo-bar' is version 1.0, and 2.0 in requirements.txt", FOLD_LOCK_DIFFERS},
        {"requirements.txt", "other==1.0\n", "", FOLD_LOCK_PARTLY},
        {"requirements.txt", "other==1.0 --hash=sha256:x\n", "'foo-bar' 1.0 is not in requirements.txt", FOLD_LOCK_DIFFERS},
        {"poetry.lock", "[[package]]\nname = \"foo-bar\"\nversion = \"1.0\"\n", "", FOLD_LOCK_AGREES},
        {"uv.lock", "[[package]]\nname = \"other\"\nversion = \"1.0\"\n", "'foo-bar' 1.0 is not in uv.lock", FOLD_LOCK_DIFFERS},
        {"Pipfile.lock", "{\"default\":{\"foo-bar\":{\"version\":\"==1.0\"}}}", "", FOLD_LOCK_AGREES},
        {"none.txt", "", "", FOLD_LOCK_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(fold_set_done) struct fold_set folds = {0};
        CLEANUP(freep) char *record = str_dupf("%.*s/RECORD", (int)(strlen(metadata) - strlen("/METADATA")), metadata);
        char reason[400];

        scene_text(s, ".venv/pyvenv.cfg", NULL, "x");
        scene_text(s, cases[i].lock, NULL, cases[i].text);
        scene_text(s, metadata, NULL, "Name: Foo.Bar\nVersion: 1.0\n\n");
        scene_text(s, record, NULL, "Foo_Bar-1.0.dist-info/METADATA,,\nFoo_Bar-1.0.dist-info/RECORD,,\n");
        scene_folds(s, &folds, metadata, reason, sizeof reason);
        assert_string_equal(reason, cases[i].reason);
        assert_int_equal(folds.v[0].lock.state, cases[i].state);
        assert_int_equal(folds.v[0].n_packages, 1);
        scene_clear(s);
    }
}

/* More folders than are folded: the rest is listed, and nothing grows without end. */
static void test_many_folders(void **state) {
    struct scene *s = *state;
    CLEANUP(fold_set_done) struct fold_set folds = {0};
    char path[64], reason[200];
    size_t listed = 0;

    for (int i = 0; i < FOLDS_MAX + 20; i++) {
        snprintf(path, sizeof path, "d%04d/package.json", i);
        scene_text(s, path, NULL, "{}");
        snprintf(path, sizeof path, "d%04d/node_modules/a/x", i);
        scene_text(s, path, NULL, "x");
    }
    scene_folds(s, &folds, "", reason, sizeof reason);
    assert_int_equal(folds.n, FOLDS_MAX);
    for (size_t i = 0; i < s->set.n; i++)
        listed += folds.of[i] == 0;
    assert_int_equal(listed, FOLDS_MAX + 20 + 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifests),
        cmocka_unit_test(test_a_long_name_is_cut),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_names_of_python),
        cmocka_unit_test(test_where_a_package_begins),
        cmocka_unit_test_setup_teardown(test_proofs, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_lockfiles, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_lockfiles_of_python, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(test_many_folders, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
