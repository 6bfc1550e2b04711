/* SPDX-License-Identifier: Apache-2.0 */
/* Lockfiles: which dependency was added, changed, moved or lost its hash. */
#include "risk_scene.h"

#define NPM(v, host, hash) \
    "{\"packages\":{\"node_modules/a.b\":{\"version\":\"" v "\",\"resolved\":\"https://" host "/a.tgz\"," hash "\"x\":1}}}"
#define SUM "\"integrity\":\"sha512-abc\","

static void npm(void **state) {
    static const struct example examples[] = {
        {"package-lock.json", "{\"packages\":{}}", NPM("1.0", "registry.npmjs.org", SUM), RISK_DEPENDENCY, RISK_MEDIUM,
         "dependency 'node_modules/a.b' 1.0 was added, from registry.npmjs.org"},
        {"package-lock.json", NPM("1.0", "x", SUM), NPM("1.1", "x", SUM), RISK_DEPENDENCY, RISK_MEDIUM,
         "changed from version 1.0 to 1.1"},
        {"package-lock.json", NPM("1.0", "x", SUM), NPM("1.1", "evil", SUM), RISK_DEPENDENCY, RISK_HIGH,
         "comes from 'evil' now, and came from 'x'"},
        {"package-lock.json", NPM("1.0", "x", SUM), NPM("1.0", "x", ""), RISK_DEPENDENCY, RISK_HIGH, "lost its integrity hash"},
        {"package-lock.json", NPM("1.0", "x", SUM), NPM("1.0", "x", "\"integrity\":\"sha512-evil\","), RISK_DEPENDENCY, RISK_HIGH,
         "another integrity hash for the same version 1.0"},
        {"package-lock.json", NPM("1.0", "x", SUM), "{\"packages\":{}}", RISK_DEPENDENCY, RISK_LOW,
         "'node_modules/a.b' was removed"},
        {"package-lock.json", NPM("1.0", "x", SUM), NPM("1.0", "x", SUM) "\n", RISK_DEPENDENCY, RISK_NONE, NULL},
        {"package-lock.json", "{}", "{\"packages\":{\"a\":{\"resolved\":\"http://x/y\"}}}", RISK_DEPENDENCY, RISK_HIGH,
         "without encryption"},
        {"npm-shrinkwrap.json", "{}",
         "{\"dependencies\":{\"a\":{\"version\":\"1\",\"dependencies\":{\"b\":{\"version\":\"2\"}}}}}", RISK_DEPENDENCY,
         RISK_MEDIUM, "dependency 'b' 2 was added"},
        {"package-lock.json", "{}", "{\"packages\":{", RISK_DEPENDENCY, RISK_HIGH, "could not be read"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void other_javascript(void **state) {
    static const char v1[] = "# yarn lockfile v1\n\n\"@s/a@^1.0.0\", \"@s/a@^1.1.0\":\n  version \"1.1.0\"\n  resolved "
                             "\"https://registry.yarnpkg.com/a#1\"\n"
                             "  integrity sha512-a\n  dependencies:\n    version \"9\"\n";
    static const char berry[] =
        "__metadata:\n  version: 6\n\n\"a@npm:^1.0.0\":\n  version: 1.0.0\n  resolution: \"a@npm:1.0.0\"\n  checksum: abc\n";
    static const char pnpm[] = "lockfileVersion: '9.0'\npackages:\n\n  '@s/a@1.0.0':\n    resolution: {integrity: sha512-a}\n";
    static const char bun[] = "{\"packages\": {\n  \"a\": [\"a@1.0.0\", \"\", {\"bin\": \"x\"}, \"sha512-a\"],\n}}";
    static const struct example examples[] = {
        {"yarn.lock", "", v1, RISK_DEPENDENCY, RISK_MEDIUM, "dependency '@s/a' 1.1.0 was added, from registry.yarnpkg.com"},
        {"yarn.lock", v1, "\"@s/a@^1.0.0\":\n  version \"1.1.0\"\n  resolved \"https://evil/a#1\"\n  integrity sha512-a\n",
         RISK_DEPENDENCY, RISK_HIGH, "comes from 'evil'"},
        {"yarn.lock", v1, "\"@s/a@^1.0.0\":\n  version \"1.1.0\"\n  resolved \"https://registry.yarnpkg.com/a#1\"\n",
         RISK_DEPENDENCY, RISK_HIGH, "lost its"},
        {"yarn.lock", "__metadata:\n", berry, RISK_DEPENDENCY, RISK_MEDIUM, "dependency 'a@npm:^1.0.0' 1.0.0 was added"},
        {"yarn.lock", berry,
         "__metadata:\n\"a@npm:^1.0.0\":\n  version: 1.0.1\n  resolution: \"a@npm:1.0.1\"\n  checksum: "
         "abc\n",
         RISK_DEPENDENCY, RISK_MEDIUM, "from version 1.0.0 to 1.0.1"},
        {"pnpm-lock.yaml", "packages:\n", pnpm, RISK_DEPENDENCY, RISK_MEDIUM, "dependency '@s/a' 1.0.0 was added"},
        {"pnpm-lock.yaml", pnpm, "packages:\n  '@s/a@1.0.0':\n    resolution: {integrity: sha512-a, tarball: https://evil/a}\n",
         RISK_DEPENDENCY, RISK_HIGH, "comes from 'evil'"},
        {"pnpm-lock.yaml", pnpm, "packages:\n  '@s/a@1.0.0':\n    resolution: {integrity: sha512-b}\n", RISK_DEPENDENCY,
         RISK_HIGH, "another integrity"},
        {"bun.lock", "{}", bun, RISK_DEPENDENCY, RISK_MEDIUM, "dependency 'a' 1.0.0 was added"},
        {"bun.lock", bun, "{\"packages\": {\"a\": [\"a@1.0.0\", \"https://evil/x\", {}, \"sha512-a\"]}}", RISK_DEPENDENCY,
         RISK_HIGH, "comes from 'evil'"},
        {"deno.lock", "{}", "{\"npm\":{\"a@1.0\":{\"integrity\":\"x\"}}}", RISK_DEPENDENCY, RISK_MEDIUM,
         "dependency 'a' 1.0 was added"},
        {"deno.lock", "{\"remote\":{\"https://x/y\":\"1\"}}", "{\"remote\":{\"https://x/y\":\"2\"}}", RISK_DEPENDENCY, RISK_HIGH,
         "another integrity"},
        {"bun.lockb", NULL, "x", RISK_DEPENDENCY, RISK_MEDIUM, "does not know the format"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void toml(void **state) {
    static const char cargo[] = "version = 3\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = "
                                "\"registry+https://github.com/rust-lang/crates.io-index\"\n"
                                "checksum = \"abc\"\ndependencies = [\n \"b\",\n]\n";
    static const char poetry[] =
        "[[package]]\nname = \"a\"\nversion = \"1.0\"\nfiles = [\n  {file = \"a.whl\", hash = \"sha256:1\"},\n"
        "  {file = \"a.tgz\", hash = \"sha256:2\"},\n]\n\n[package.source]\ntype = \"legacy\"\nurl = \"https://x/simple\"\n";
    static const char uv[] = "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = { registry = "
                             "\"https://pypi.org/simple\" }\n"
                             "wheels = [\n  { url = \"https://files/a.whl\", hash = \"sha256:1\" },\n]\n";
    static const struct example examples[] = {
        {"Cargo.lock", "", cargo, RISK_DEPENDENCY, RISK_MEDIUM, "dependency 'a' 1.0 was added"},
        {"Cargo.lock", cargo, "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = \"git+https://github.com/evil/a#1\"\n",
         RISK_DEPENDENCY, RISK_HIGH, "comes from 'git+https://github.com/evil/a' now"},
        {"Cargo.lock", cargo, "[[package]]\nname = \"a\"\nversion = \"1.0\"\n", RISK_DEPENDENCY, RISK_HIGH,
         "lost its integrity hash"},
        {"poetry.lock", poetry,
         "[[package]]\nname = \"a\"\nversion = \"1.0\"\nfiles = [\n  {file = \"a.whl\", hash = \"sha256:1\"},\n  {file = "
         "\"a.tgz\", hash = \"sha256:3\"},\n]\n"
         "[package.source]\nurl = \"https://x/simple\"\n",
         RISK_DEPENDENCY, RISK_HIGH, "another integrity hash"},
        {"poetry.lock", poetry,
         "[[package]]\nname = \"a\"\nversion = \"1.0\"\n[package.source]\nurl = "
         "\"https://evil/simple\"\n",
         RISK_DEPENDENCY, RISK_HIGH, "comes from 'evil'"},
        {"uv.lock", uv,
         "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = { registry = \"https://pypi.org/simple\" }\n"
         "wheels = [{ url = \"https://evil/a.whl\", hash = \"sha256:1\" }]\n",
         RISK_DEPENDENCY, RISK_HIGH, "evil"},
        {"uv.lock", uv, uv, RISK_DEPENDENCY, RISK_NONE, NULL},
        {"pdm.lock", "", "[[package]]\nname = \"a\"\nversion = \"1\"\n", RISK_DEPENDENCY, RISK_MEDIUM, "'a' 1 was added"},
        {"pylock.toml", "", "[[packages]]\nname = \"a\"\nversion = \"1\"\n", RISK_DEPENDENCY, RISK_MEDIUM, "'a' 1 was added"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void others(void **state) {
    static const char gem[] =
        "GEM\n  remote: https://rubygems.org/\n  specs:\n    a (1.0)\n      b (~> 2)\n\nPLATFORMS\n  ruby\n\nCHECKSUMS\n  a "
        "(1.0) sha256=x\n";
    static const char flake[] =
        "{\"nodes\":{\"n\":{\"locked\":{\"owner\":\"NixOS\",\"repo\":\"nixpkgs\",\"rev\":\"1\",\"narHash\":\"h\"}}}}";
    static const struct example examples[] = {
        {"Pipfile.lock", "{}", "{\"default\":{\"a\":{\"version\":\"==1\",\"hashes\":[\"sha256:1\"]}}}", RISK_DEPENDENCY,
         RISK_MEDIUM, "'a' ==1 was added"},
        {"Pipfile.lock", "{\"_meta\":{\"sources\":[{\"url\":\"https://pypi.org/simple\"}]}}",
         "{\"_meta\":{\"sources\":[{\"url\":\"https://evil/\"}]}}", RISK_DEPENDENCY, RISK_HIGH, "comes from 'evil'"},
        {"requirements.txt", "a==1.0\n", "a==1.1\n", RISK_DEPENDENCY, RISK_MEDIUM, "'a' changed from version ==1.0 to ==1.1"},
        {"requirements-dev.txt", "", "b @ git+https://evil/x\n", RISK_DEPENDENCY, RISK_MEDIUM, "'b'"},
        {"requirements.txt", "a==1 \\\n  --hash=sha256:1\n", "a==1\n", RISK_DEPENDENCY, RISK_HIGH, "lost its integrity hash"},
        {"requirements.txt", "a==1\n", "--extra-index-url https://evil\na==1\n", RISK_DEPENDENCY, RISK_HIGH,
         "changes where pip takes packages from"},
        {"go.sum", "", "a.com/b v1 h1:x\n", RISK_DEPENDENCY, RISK_MEDIUM, "'a.com/b' v1 was added"},
        {"go.sum", "a.com/b v1 h1:x\n", "a.com/b v1 h1:y\n", RISK_DEPENDENCY, RISK_HIGH, "another integrity hash"},
        {"Gemfile.lock", "", gem, RISK_DEPENDENCY, RISK_MEDIUM, "'a' 1.0 was added, from rubygems.org"},
        {"Gemfile.lock", gem, "GEM\n  remote: https://evil/\n  specs:\n    a (1.0)\n\nCHECKSUMS\n  a (1.0) sha256=x\n",
         RISK_DEPENDENCY, RISK_HIGH, "evil"},
        {"composer.lock", "{}", "{\"packages\":[{\"name\":\"a/b\",\"version\":\"1\",\"dist\":{\"url\":\"https://x/y\"}}]}",
         RISK_DEPENDENCY, RISK_MEDIUM, "'a/b' 1 was added, from x"},
        {"gradle.lockfile", "a:b:1=x\n", "a:b:2=x\n", RISK_DEPENDENCY, RISK_MEDIUM, "'a:b' changed from version 1 to 2"},
        {"flake.lock", flake,
         "{\"nodes\":{\"n\":{\"locked\":{\"owner\":\"evil\",\"repo\":\"nixpkgs\",\"rev\":\"1\",\"narHash\":\"h\"}}}}",
         RISK_DEPENDENCY, RISK_HIGH, "evil"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void a_long_list_is_cut(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);

    for (int i = 0; i < 50; i++)
        buf_addf(&b, "m%d v1 h1:x\n", i);
    scene_text(*state, "go.sum", "", buf_str(&b));
    scene_expect(*state, "go.sum", RISK_DEPENDENCY, RISK_MEDIUM, "and 30 more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(npm, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(other_javascript, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(toml, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(others, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(a_long_list_is_cut, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
