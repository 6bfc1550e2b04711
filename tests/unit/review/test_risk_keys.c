/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of editors, package managers, build tools and agents: what is reported by key. */
#include "risk_scene.h"

static void editors(void **state) {
    static const struct example examples[] = {
        {".vscode/tasks.json", NULL,
         "{// c\n\"tasks\":[{\"label\":\"x\",\"command\":\"evil\",\"runOptions\":{\"runOn\":\"folderOpen\"},},]}", RISK_IDE,
         RISK_HIGH, "tasks[].runOptions.runOn is 'folderOpen', which starts the task as soon as the folder is opened"},
        {".vscode/tasks.json", "{\"tasks\":[]}", "{\"tasks\":[{\"command\":\"evil\"}]}", RISK_IDE, RISK_MEDIUM,
         "tasks[].command is 'evil'"},
        {".vscode/tasks.json", NULL, "{\"tasks\":[{\"c\\u006fmmand\":\"evil\"}]}", RISK_IDE, RISK_MEDIUM,
         "tasks[].command is 'evil'"},
        {".vscode/tasks.json", NULL, "{\"tasks\":[{\"label\":\"x\"}", RISK_IDE, RISK_HIGH, "could not be read"},
        {".vscode/launch.json", NULL, "{\"configurations\":[{\"program\":\"x\"}]}", RISK_IDE, RISK_MEDIUM, "when you debug"},
        {".vscode/settings.json", NULL, "{\"python.defaultInterpreterPath\": \"./evil\"}", RISK_IDE, RISK_MEDIUM,
         "python.defaultInterpreterPath is './evil'"},
        {".vscode/settings.json", NULL, "{\"terminal.integrated.env.linux\": {\"PATH\": \"x\"}}", RISK_IDE, RISK_HIGH,
         "every terminal"},
        {".vscode/settings.json", NULL, "{\"git.path\": \"x\"}", RISK_IDE, RISK_HIGH, "as git"},
        {".vscode/settings.json", NULL, "{\"chat.tools.autoApprove\": true}", RISK_IDE, RISK_HIGH, "without asking"},
        {".vscode/settings.json", NULL, "{\"editor.tabSize\": 4}", RISK_IDE, RISK_NONE, NULL},
        {".vscode/extensions.json", NULL, "{}", RISK_IDE, RISK_LOW, "extensions"},
        {".vscode/mcp.json", NULL, "{\"servers\":{\"a\":{\"command\":\"evil\"}}}", RISK_AGENT, RISK_HIGH,
         "servers.a.command is 'evil'"},
        {"x.code-workspace", NULL, "{\"folders\":[{\"path\":\"/etc\"}]}", RISK_IDE, RISK_MEDIUM, "outside this one"},
        {"x.code-workspace", NULL, "{\"settings\":{\"git.path\":\"x\"}}", RISK_IDE, RISK_HIGH, "as git"},
        {".devcontainer/devcontainer.json", NULL, "{\"initializeCommand\": \"evil\"}", RISK_IDE, RISK_HIGH,
         "on the host "
         "itself"},
        {".devcontainer/devcontainer.json", NULL, "{\"initializeCommand\": [\"a\", \"b\"]}", RISK_IDE, RISK_HIGH,
         "initializeCommand[] is 'b'"},
        {".devcontainer.json", NULL, "{\"mounts\": [\"source=/\"]}", RISK_IDE, RISK_HIGH, "folders of the host"},
        {".devcontainer/devcontainer.json", NULL, "{\"postCreateCommand\": \"x\"}", RISK_IDE, RISK_MEDIUM, "in the container"},
        {".zed/settings.json", NULL, "{\"lsp\":{\"x\":{\"binary\":{\"path\":\"evil\"}}}}", RISK_IDE, RISK_MEDIUM, "evil"},
        {".idea/runConfigurations/x.xml", NULL, "<x/>", RISK_IDE, RISK_MEDIUM, "run configurations"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void node(void **state) {
    static const struct example examples[] = {
        {"package.json", "{}", "{\"scripts\":{\"postinstall\":\"evil\"}}", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "scripts.postinstall is 'evil', which runs at every install"},
        {"package.json", "{}", "{\"scripts\":{\"prepare\":\"evil\"}}", RISK_PACKAGE_SCRIPT, RISK_HIGH, "scripts.prepare"},
        {"a/package.json", "{\"scripts\":{\"test\":\"a\"}}", "{\"scripts\":{\"test\":\"b\"}}", RISK_PACKAGE_SCRIPT, RISK_MEDIUM,
         "scripts.test is 'b'"},
        {"package.json", "{\"scripts\":{\"test\":\"a\"}}", "{\"name\":\"x\",\"scripts\":{\"test\":\"a\"}}", RISK_PACKAGE_SCRIPT,
         RISK_NONE, NULL},
        {"package.json", "{}", "{\"scripts\":{\"test\":\"a\",\"test\":\"b\"}}", RISK_PACKAGE_SCRIPT, RISK_MEDIUM,
         "scripts.test is 'a'"},
        {"package.json", "{}", "{\"dependencies\":{\"a\":\"^1\"}}", RISK_DEPENDENCY, RISK_MEDIUM, "dependencies.a is '^1'"},
        {"package.json", "{}", "{\"dependencies\":{\"a\":\"github:x/y\"}}", RISK_DEPENDENCY, RISK_HIGH,
         "not come from the registry"},
        {"package.json", "{}", "{\"packageManager\":\"pnpm@9\"}", RISK_PACKAGE_SCRIPT, RISK_HIGH, "packageManager"},
        {"package.json", "{}", "{\"simple-git-hooks\":{\"pre-commit\":\"x\"}}", RISK_GIT_HOOK, RISK_HIGH, "git hook"},
        {"package.json", "{}", "{\"bin\":\"x\"}", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "command"},
        {".npmrc", "", "registry=https://evil/\n", RISK_DEPENDENCY, RISK_HIGH, "registry is 'https://evil/'"},
        {".npmrc", "", "@a:registry=https://evil/\n", RISK_DEPENDENCY, RISK_HIGH, "evil"},
        {".npmrc", "", "script-shell = ./x\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "script-shell is './x'"},
        {".npmrc", "", "//registry.npmjs.org/:_authToken=abc\n", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "credential"},
        {".yarnrc.yml", "", "yarnPath: .yarn/evil.cjs\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "yarnPath is '.yarn/evil.cjs'"},
        {".yarnrc.yml", "", "npmScopes:\n  a:\n    npmRegistryServer: \"https://evil\"\n", RISK_DEPENDENCY, RISK_HIGH,
         "npmScopes.a.npmRegistryServer"},
        {"bunfig.toml", "", "preload = [\"./x.ts\"]\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "preload[] is './x.ts'"},
        {".pnpmfile.cjs", NULL, "x", RISK_PACKAGE_SCRIPT, RISK_HIGH, "every install"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void other_languages(void **state) {
    static const struct example examples[] = {
        {"pyproject.toml", "", "[build-system]\nbuild-backend = \"evil\"\n", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "build-system.build-backend is 'evil'"},
        {"pyproject.toml", "", "build-system.requires = [\n  \"evil\", # x\n]\n", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "build-system.requires[] is 'evil'"},
        {"pyproject.toml", "", "[project]\ndependencies = [\"a\", \"b @ https://evil\"]\n", RISK_DEPENDENCY, RISK_HIGH,
         "b @ https://evil"},
        {"pyproject.toml", "",
         "[tool.pytest.ini_options]\naddopts = \"-p "
         "evil\"\n",
         RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "-p evil"},
        {"pyproject.toml", "", "[[tool.uv.index]]\nurl = \"https://evil\"\n", RISK_DEPENDENCY, RISK_HIGH,
         "where packages come from"},
        {"pyproject.toml", "", "[project]\nversion = \"2\"\n", RISK_PACKAGE_SCRIPT, RISK_NONE, NULL},
        {"pyproject.toml", "", "[project\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "could not be read"},
        {"setup.cfg", "", "[options]\ncmdclass =\n    x = evil.X\n", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "options.cmdclass is 'x = evil.X'"},
        {"tox.ini", "", "[testenv]\ncommands = evil\n", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "testenv.commands is 'evil'"},
        {".venv/pyvenv.cfg", "home = /usr/bin\n", "home = /tmp/evil\n", RISK_EXECUTABLE, RISK_HIGH, "home is '/tmp/evil'"},
        {"Cargo.toml", "", "[package]\nbuild = \"x.rs\"\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "package.build is 'x.rs'"},
        {"Cargo.toml", "", "[dependencies]\na = { git = \"https://evil\" }\n", RISK_DEPENDENCY, RISK_HIGH,
         "dependencies.a.git is 'https://evil'"},
        {"Cargo.toml", "", "[dependencies]\na = \"1\"\n", RISK_DEPENDENCY, RISK_MEDIUM, "dependencies.a is '1'"},
        {".cargo/config.toml", "", "[build]\nrustc-wrapper = \"x\"\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "rustc-wrapper"},
        {".cargo/config.toml", "", "[target.'cfg(unix)']\nrunner = \"x\"\n", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "target.cfg(unix).runner is 'x'"},
        {".cargo/config.toml", "", "[source.crates-io]\nreplace-with = \"x\"\n", RISK_DEPENDENCY, RISK_HIGH,
         "where crates come from"},
        {"build.rs", NULL, "x", RISK_PACKAGE_SCRIPT, RISK_HIGH, "every build"},
        {"gradle/wrapper/gradle-wrapper.properties", "", "distributionUrl=https\\://evil/g.zip\n", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "from elsewhere"},
        {"gradle/wrapper/gradle-wrapper.properties", "", "distributionUrl=https\\://services.gradle.org/g.zip\n",
         RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "downloads"},
        {"gradle/wrapper/gradle-wrapper.jar", NULL, "x", RISK_PACKAGE_SCRIPT, RISK_HIGH, "every build starts with"},
        {"composer.json", "{}", "{\"scripts\":{\"post-install-cmd\":\"x\"}}", RISK_PACKAGE_SCRIPT, RISK_HIGH,
         "composer runs at every install"},
        {"go.mod", "module x\n", "module x\nreplace a => ../b\n", RISK_DEPENDENCY, RISK_HIGH, "replace is 'a => ../b'"},
        {"go.mod", "", "require (\n\ta v1.0.0 // indirect\n)\n", RISK_DEPENDENCY, RISK_MEDIUM, "require is 'a v1.0.0'"},
        {"go.mod", "", "toolchain go1.99\n", RISK_PACKAGE_SCRIPT, RISK_HIGH, "toolchain"},
        {".pre-commit-config.yaml", "",
         "repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: "
         "evil\n",
         RISK_GIT_HOOK, RISK_HIGH, "repos[].hooks[].entry is 'evil'"},
        {"mise.toml", "", "[env]\nPATH = \"x\"\n", RISK_ENVIRONMENT, RISK_HIGH, "env.PATH is 'x'"},
        {".mise.toml", "", "[tools]\nnode = \"20\"\n", RISK_ENVIRONMENT, RISK_MEDIUM, "tools.node"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

static void agents(void **state) {
    static const struct example examples[] = {
        {".claude/settings.json", "{}", "{\"hooks\":{\"PreToolUse\":[{\"hooks\":[{\"command\":\"evil\"}]}]}}", RISK_AGENT,
         RISK_HIGH, "hooks.PreToolUse[].hooks[].command is 'evil', which the agent runs on the host as a hook"},
        {".claude/settings.local.json", "{}", "{\"permissions\":{\"allow\":[\"Bash(*)\"]}}", RISK_AGENT, RISK_HIGH,
         "without asking"},
        {".claude/settings.json", "{}", "{\"permissions\":{\"deny\":[\"Bash(*)\"]}}", RISK_AGENT, RISK_LOW, "may not do"},
        {".claude/settings.json", "{}", "{\"env\":{\"ANTHROPIC_BASE_URL\":\"x\"}}", RISK_AGENT, RISK_HIGH, "environment"},
        {".mcp.json", "{}", "{\"mcpServers\":{\"a\":{\"command\":\"evil\"}}}", RISK_AGENT, RISK_HIGH,
         "mcpServers.a.command is 'evil'"},
        {".cursor/mcp.json", "{}", "{\"mcpServers\":{\"a\":{\"url\":\"evil\"}}}", RISK_AGENT, RISK_HIGH,
         "mcpServers.a.url is 'evil'"},
        {".codex/config.toml", "", "notify = [\"evil\"]\n", RISK_AGENT, RISK_HIGH, "notify[] is 'evil'"},
        {".codex/config.toml", "", "sandbox_mode = \"danger-full-access\"\n", RISK_AGENT, RISK_HIGH, "without asking"},
        {".gemini/settings.json", "{}", "{\"mcpServers\":{\"a\":{\"command\":\"x\"}}}", RISK_AGENT, RISK_HIGH, "MCP"},
        {".aider.conf.yml", "", "test-cmd: evil\nlint-cmd: evil\n", RISK_AGENT, RISK_MEDIUM, "test-cmd is 'evil'"},
        {".cursor/rules/x.mdc", NULL, "x", RISK_AGENT, RISK_MEDIUM, "rules"},
        {".github/copilot-instructions.md", NULL, "x", RISK_INSTRUCTIONS, RISK_MEDIUM, "obey"},
        {".cursorrules", NULL, "x", RISK_INSTRUCTIONS, RISK_MEDIUM, "obey"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(editors, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(node, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(other_languages, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(agents, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
