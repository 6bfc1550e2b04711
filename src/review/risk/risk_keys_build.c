/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of package managers and build tools. */
#include "review/risk/risk_rule.h"

#define HIGH RISK_PACKAGE_SCRIPT, RISK_HIGH
#define MEDIUM RISK_PACKAGE_SCRIPT, RISK_MEDIUM
#define LOW RISK_PACKAGE_SCRIPT, RISK_LOW
#define FINE RISK_PACKAGE_SCRIPT, RISK_NONE, NULL
#define DEPENDS RISK_DEPENDENCY, RISK_MEDIUM
#define MOVES RISK_DEPENDENCY, RISK_HIGH

/* A dependency that is not a version of a registry's package. */
#define ELSEWHERE "git*|http*|file:*|link:*|*/*|*@*/*|ssh:*|portal:*|patch:*|exec:*|npm:*"

static const struct risk_key npm_keys[] = {
    {"scripts.preinstall|scripts.install|scripts.postinstall|scripts.prepare|scripts.preprepare|scripts.postprepare|"
     "scripts.prepublish|scripts.dependencies|scripts.pnpm:devPreinstall",
     NULL, HIGH, "which runs at every install"},
    {"scripts.*", NULL, MEDIUM, "which runs when its name, or one that calls it, is run"},
    {"dependencies.*|devDependencies.*|optionalDependencies.*|peerDependencies.*|overrides.*|resolutions.*|catalog*", ELSEWHERE,
     MOVES, "a dependency that does not come from the registry"},
    {"dependencies.*|devDependencies.*|optionalDependencies.*|peerDependencies.*", NULL, DEPENDS, "the version of a dependency"},
    {"overrides.*|resolutions.*|pnpm.overrides.*|pnpm.patchedDependencies.*|catalog*", NULL, DEPENDS,
     "which replaces dependencies of others"},
    {"pnpm.onlyBuiltDependencies*|pnpm.neverBuiltDependencies*|trustedDependencies*|allowScripts*|dependenciesMeta*", NULL, HIGH,
     "which lets packages run scripts at install"},
    {"bundledDependencies*|bundleDependencies*", NULL, DEPENDS, "a dependency that is taken from the folder"},
    {"packageManager|devEngines*|engines.*|volta.*", NULL, HIGH,
     "which decides what program is downloaded and run as package manager"},
    {"husky*|lint-staged*|simple-git-hooks*|pre-commit*|gitHooks*|*.hooks.*|ghooks*", NULL, RISK_GIT_HOOK, RISK_HIGH,
     "which runs as a git hook"},
    {"bin|bin.*|directories.bin", NULL, MEDIUM, "which is installed as a command"},
    {"publishConfig*", NULL, MEDIUM, "which decides where the package is published"},
    {"workspaces*|main|module|exports*|browser*|imports*|type|types|gypfile|binary*", NULL, LOW,
     "which decides what code is loaded"},
    {"eslintConfig*|babel*|jest*|prettier*|nyc*|ava*|mocha*|c8*|tsup*|vite*|release*|config*|wireit*|nx*|turbo*", NULL, MEDIUM,
     "which configures a tool that loads code"},
    {"name|version|description|keywords[]*|author*|license*|homepage|bugs*|repository*|private|contributors*|funding*|"
     "files[]*|sideEffects*|maintainers*",
     NULL, FINE},
    {NULL},
};
const struct risk_format risk_package_json = {pairs_read_json, npm_keys, RISK_LOW, "a field that tools may obey"};

static const struct risk_key npmrc_keys[] = {
    {"registry|*:registry|proxy|https-proxy|noproxy|ca|cafile|cert|key|strict-ssl|*:certfile|*:keyfile|replace-registry-host",
     NULL, MOVES, "where packages come from, or how that is verified"},
    {"script-shell|shell|node-options|git|node-path|init-module|prefix|userconfig|globalconfig|pnpmfile|global-pnpmfile|"
     "onload-script|python|editor|viewer|browser|scripts-prepend-node-path|ignore-scripts|enable-pre-post-scripts|"
     "unsafe-perm|side-effects-cache*|dangerously-allow-all-builds|node-linker|use-node-version|shell-emulator|hooks*|"
     "before",
     NULL, HIGH, "which decides what programs every install runs"},
    {"*_auth*|*token*|*password|*username|*email", NULL, MEDIUM, "which is sent to a registry as a credential"},
    {NULL},
};
const struct risk_format risk_npmrc = {pairs_read_ini, npmrc_keys, RISK_LOW, "a setting of the package manager"};

static const struct risk_key yarnrc_keys[] = {
    {"yarnPath*|yarn-path*|plugins*|nodeLinker|pnpEnableInlining|injectEnvironmentFiles*|httpsCaFilePath|enableScripts|"
     "initScope|unsafeHttpWhitelist*|preferInteractive|pnpmHooks*|hooks*",
     NULL, HIGH, "which decides what programs every yarn call runs"},
    {"*registr*|*npmScopes*|*proxy*|*strictSsl*|*checksumBehavior*|*npmMinimalAgeGate*", NULL, MOVES,
     "where packages come from, or how that is verified"},
    {"*packageExtensions*|*patchFolder*", NULL, DEPENDS, "which changes dependencies of others"},
    {"*Auth*|*token*", NULL, MEDIUM, "which is sent to a registry as a credential"},
    {NULL},
};
const struct risk_format risk_yarnrc = {pairs_read_yaml, yarnrc_keys, RISK_LOW, "a setting of yarn"};

static const struct risk_key bunfig_keys[] = {
    {"*preload*|run.*|loader.*|*.shell|test.preload*", NULL, HIGH, "which bun loads or runs before anything else"},
    {"install.registry*|install.scopes*|*cafile|*ca", NULL, MOVES, "where packages come from"},
    {"install.*|*security*", NULL, MEDIUM, "which changes what bun installs"},
    {NULL},
};
const struct risk_format risk_bunfig = {pairs_read_toml, bunfig_keys, RISK_LOW, "a setting of bun"};

static const struct risk_key pyproject_keys[] = {
    {"build-system.build-backend|build-system.backend-path*", NULL, HIGH, "which pip runs to build, and so at every install"},
    {"build-system.*", NULL, HIGH, "which pip installs and runs before every build"},
    {"tool.*index*|tool.*source*|tool.*find-links*|tool.*registr*|tool.*repositor*", NULL, MOVES, "where packages come from"},
    {"*dependenc*|*requires*|project.optional-*|tool.poetry.group.*|dependency-groups*|tool.pdm.dev*", "*://*|*git*|*@ *|*path*",
     MOVES, "a dependency that does not come from the registry"},
    {"*dependenc*|*requires*|project.optional-*|tool.poetry.group.*|dependency-groups*|tool.*override*|tool.*constraint*", NULL,
     DEPENDS, "a dependency"},
    {"project.scripts.*|project.gui-scripts.*|project.entry-points.*|tool.poetry.scripts.*|tool.poetry.plugins.*", NULL, MEDIUM,
     "which is installed as a command or plugin"},
    {"tool.hatch.*|tool.setuptools.*|tool.poetry.build*|tool.pdm.build*|tool.scikit-build*|tool.maturin*|tool.meson*|"
     "tool.cibuildwheel*",
     NULL, MEDIUM, "which is obeyed, or run, at every build"},
    {"tool.pytest*|tool.tox*|tool.nox*|tool.poe*|tool.taskipy*|tool.pdm.scripts*|tool.rye.scripts*|tool.pixi*|"
     "tool.hatch.envs*|tool.invoke*|tool.coverage*|tool.mypy.plugins*|tool.pylint*init-hook|tool.pylint*load-plugins*|"
     "tool.uv*|tool.black*|tool.ruff*extend|tool.commitizen*",
     NULL, MEDIUM, "which a development tool runs or loads"},
    {"project.name|project.version|project.description|project.authors*|project.license*|project.readme*|project.keywords*|"
     "project.classifiers*|project.urls*|project.requires-python|project.maintainers*|tool.ruff*|tool.isort*|tool.mypy*",
     NULL, FINE},
    {NULL},
};
const struct risk_format risk_pyproject = {pairs_read_toml, pyproject_keys, RISK_LOW, "a field that tools may obey"};

static const struct risk_key setup_keys[] = {
    {"options.cmdclass|*cmdclass*|*setup_requires*|*dependency_links*|*setup_hooks*|global.command_packages", NULL, HIGH,
     "which runs at every install"},
    {"*install_requires*|*extras_require*|*requires*|*deps*", NULL, DEPENDS, "a dependency"},
    {"*entry_points*|*scripts*|*.commands*|*command*|*allowlist_externals*|*setenv*|*passenv*|*addopts*|*plugins*|"
     "*load-plugins*|*init-hook*|*index*|*pythonpath*",
     NULL, MEDIUM, "which a build or test runs or loads"},
    {"metadata.*", NULL, FINE},
    {NULL},
};
const struct risk_format risk_setup_cfg = {pairs_read_ini, setup_keys, RISK_LOW, "a setting of a build or test tool"};

static const struct risk_key pyvenv_keys[] = {
    {"home|executable|command|base-*", NULL, RISK_EXECUTABLE, RISK_HIGH, "which is the interpreter that this environment runs"},
    {NULL},
};
const struct risk_format risk_pyvenv = {pairs_read_ini, pyvenv_keys, RISK_MEDIUM,
                                        "which changes what the environment's python loads"};

static const struct risk_key cargo_keys[] = {
    {"package.build", NULL, HIGH, "which cargo runs at every build, and editors when the folder is opened"},
    {"package.links|lib.proc-macro|lib.path|bin*path|workspace.members*", NULL, MEDIUM,
     "which decides what code is built, and run while building"},
    {"*dependencies*.git|*dependencies*.path|*dependencies*.registry*|*dependencies*.branch|*dependencies*.rev|patch.*|"
     "replace.*",
     NULL, MOVES, "a dependency that does not come from crates.io"},
    {"*dependencies*", NULL, DEPENDS, "a dependency"},
    {"profile.*|features.*|package.*|lints.*|workspace.*|lib.*|bin*|example*|test*|bench*", NULL, FINE},
    {NULL},
};
const struct risk_format risk_cargo_toml = {pairs_read_toml, cargo_keys, RISK_LOW, "a field that cargo may obey"};

static const struct risk_key cargo_config_keys[] = {
    {"*runner|*linker|*rustc-wrapper|*rustc-workspace-wrapper|*rustc|*rustdoc|*rustflags*|*credential-*|build.*|env.*|*.ar|"
     "alias.*|include*|paths*|doc.browser",
     NULL, HIGH, "which cargo runs or obeys at every build, and editors when the folder is opened"},
    {"source.*|registr*|net.*|http.*|patch.*", NULL, MOVES, "where crates come from"},
    {NULL},
};
const struct risk_format risk_cargo_config = {pairs_read_toml, cargo_config_keys, RISK_MEDIUM, "a setting of cargo"};

static const struct risk_key gradle_keys[] = {
    {"distributionUrl",
     "https\\://services.gradle.org/*|https://services.gradle.org/*|https\\://repo.maven.apache.org/*|"
     "https://repo.maven.apache.org/*",
     MEDIUM, "the build tool that the wrapper downloads and runs"},
    {"distributionUrl|wrapperUrl", NULL, HIGH, "a build tool from elsewhere that the wrapper downloads and runs"},
    {"distributionSha256Sum|validateDistributionUrl|wrapperSha256Sum", NULL, HIGH,
     "which decides whether the downloaded build tool is verified"},
    {"org.gradle.java.home|org.gradle.jvmargs|systemProp.*", NULL, HIGH, "which decides what every build runs"},
    {NULL},
};
const struct risk_format risk_gradle_wrapper = {pairs_read_ini, gradle_keys, RISK_LOW, "a setting of the build tool"};

static const struct risk_key composer_keys[] = {
    {"scripts.pre-*|scripts.post-*", NULL, HIGH, "which composer runs at every install"},
    {"scripts.*|bin*|autoload*files[]*", NULL, MEDIUM, "which composer runs or loads"},
    {"repositories*|config.allow-plugins*|config.secure-http|config.disable-tls|config.*", NULL, MOVES,
     "where packages come from, or what they may run"},
    {"require.*|require-dev.*|replace.*|provide.*", NULL, DEPENDS, "a dependency"},
    {NULL},
};
const struct risk_format risk_composer = {pairs_read_json, composer_keys, RISK_LOW, "a field that composer may obey"};

static const struct risk_key go_keys[] = {
    {"replace", NULL, MOVES, "which replaces a module by another, or by a folder"},
    {"toolchain", NULL, HIGH, "which go downloads and runs as the compiler"},
    {"go", NULL, LOW, "the version of the language, for which go may download a compiler"},
    {"require|tool|exclude|use", NULL, DEPENDS, "a dependency"},
    {"module|retract", NULL, FINE},
    {NULL},
};
const struct risk_format risk_go_mod = {pairs_read_go, go_keys, RISK_MEDIUM, "a directive that no rule knows"};

static const struct risk_key mise_keys[] = {
    {"*hooks.*|*enter*|*leave*|*_.source*|*_.file*|*_.path*|*_.python*|*watch_files*", NULL, RISK_ENVIRONMENT, RISK_HIGH,
     "which mise runs or loads when you enter the folder"},
    {"*env.*|env*", NULL, RISK_ENVIRONMENT, RISK_HIGH, "which is set when you enter the folder"},
    {"tasks.*|plugins.*|alias.*|settings.*|tools.*postinstall*", NULL, RISK_ENVIRONMENT, RISK_MEDIUM,
     "which mise runs or installs from"},
    {"tools.*", NULL, RISK_ENVIRONMENT, RISK_MEDIUM, "a tool that mise installs and puts on the path"},
    {NULL},
};
const struct risk_format risk_mise = {pairs_read_toml, mise_keys, RISK_MEDIUM, "a setting of mise"};

static const struct risk_key pre_commit_keys[] = {
    {"*entry|*.id|*args*|*language|*additional_dependencies*|*language_version", NULL, RISK_GIT_HOOK, RISK_HIGH,
     "which runs at every commit"},
    {"*repo|*rev", NULL, RISK_GIT_HOOK, RISK_HIGH, "the repository whose code runs at every commit"},
    {"*files|*exclude|*types*|*stages*|*name|*description|*fail_fast|ci.*|*verbose|minimum_pre_commit_version|repos[]|*hooks[]",
     NULL, RISK_GIT_HOOK, RISK_NONE, NULL},
    {NULL},
};
const struct risk_format risk_pre_commit = {pairs_read_yaml, pre_commit_keys, RISK_MEDIUM, "a setting of the commit hooks"};
