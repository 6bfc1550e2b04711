/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules by path. HIGH: the host runs or obeys it without a further decision of the user. MEDIUM: with a usual action, such as
 * a build, a test or a push. LOW: worth a look. Of each class the first row that matches counts, so exceptions stand first.
 */
#include "review/risk/risk_rule.h"

const struct risk_rule risk_rules[] = {
    /* The sandbox itself. */
    {".sandboxignore", RISK_SANDBOX_POLICY, RISK_HIGH, ".sandboxignore decides what the next run can see", risk_inspect_policy},
    {".bawn/**", RISK_SANDBOX_POLICY, RISK_HIGH, "it is the project's configuration of the sandbox"},

    /* Git: hooks. */
    {".git/hooks/**|.git/modules/**/hooks/**|.git/worktrees/*/hooks/**", RISK_GIT_HOOK, RISK_HIGH, "git runs this hook",
     risk_inspect_hook},
    {".husky/_/.gitignore|.husky/.gitignore", RISK_GIT_HOOK, RISK_LOW, "it lies among the hooks of husky"},
    {".husky/**|.githooks/**|.git-hooks/**|git-hooks/**|.hooks/**|.huskyrc*|husky.config.*", RISK_GIT_HOOK, RISK_HIGH,
     "git runs this hook where it is set up"},
    {"lefthook.yml|lefthook.yaml|.lefthook.yml|.lefthook.yaml|lefthook.json|lefthook.toml|lefthook-local.*|.lefthook/**|"
     ".lefthook-local/**|.overcommit.yml|.git-hooks.yml|captainhook.json|.captainhook.json|grumphp.yml|.grumphp.yml|"
     ".lintstagedrc*|lint-staged.config.*|.simple-git-hooks.*|simple-git-hooks.*|.cargo-husky/**|prek.toml|hk.pkl",
     RISK_GIT_HOOK, RISK_HIGH, "its commands run as git hooks"},
    {".pre-commit-config.yaml|.pre-commit-config.yml|.pre-commit-hooks.yaml", RISK_GIT_HOOK, RISK_HIGH,
     "pre-commit runs it at every commit", risk_inspect_keys, &risk_pre_commit},
    {".git/rebase-merge/**|.git/rebase-apply/**|.git/sequencer/**|.git/worktrees/*/rebase-merge/**|"
     ".git/worktrees/*/rebase-apply/**|.git/worktrees/*/sequencer/**|.git/modules/**/rebase-merge/**|"
     ".git/modules/**/rebase-apply/**|.git/modules/**/sequencer/**",
     RISK_GIT_HOOK, RISK_HIGH, "git obeys it, 'exec' lines included, when a rebase goes on"},

    /* Git: configuration. */
    {".git/config|.git/config.worktree|.git/modules/**/config|.git/modules/**/config.worktree|"
     ".git/worktrees/*/config.worktree|.git/worktrees/*/config",
     RISK_GIT_CONFIG, RISK_HIGH, "git obeys it at every call", risk_inspect_keys, &risk_git_config},
    {".gitconfig|gitconfig|.lfsconfig", RISK_GIT_CONFIG, RISK_MEDIUM, "git obeys it where it is included", risk_inspect_keys,
     &risk_git_config},
    {".gitmodules", RISK_GIT_CONFIG, RISK_MEDIUM, "git takes submodules from it", risk_inspect_keys, &risk_gitmodules},
    {".git/remotes/**|.git/branches/**", RISK_GIT_CONFIG, RISK_MEDIUM, "git takes the addresses of remotes from it"},
    {".git/info/attributes|.gitattributes", RISK_GIT_ATTRIBUTES, RISK_MEDIUM, "git takes filters and drivers from it",
     risk_inspect_attributes},
    {".git/objects/info/alternates|.git/objects/info/http-alternates|.git/modules/**/objects/info/alternates|"
     ".git/info/grafts|.git/refs/replace/**|.git/modules/**/refs/replace/**|.git/modules/**/info/grafts",
     RISK_GIT_DIR, RISK_HIGH, "it makes git take objects from elsewhere, or others in their place"},
    {".git/objects/info/commit-graphs/**|.git/objects/pack/multi-pack-index*|.git/modules/**/objects/info/commit-graphs/**|"
     ".git/modules/**/objects/pack/multi-pack-index*",
     RISK_GIT_DIR, RISK_HIGH,
     "git believes what this cache says about commits and objects, and it is not examined; delete it, git makes it anew"},
    {".git/reftable/**|.git/modules/**/reftable/**|.git/worktrees/*/reftable/**", RISK_GIT_DIR, RISK_HIGH,
     "branches are stored in it, and it cannot be examined"},
    {".git/shallow", RISK_GIT_DIR, RISK_MEDIUM, "it cuts the history that git sees"},
    {".git/rr-cache/**|.git/modules/**/rr-cache/**", RISK_GIT_DIR, RISK_MEDIUM,
     "git puts this text into files when the same conflict comes again"},
    {".git/commondir|.git/gitdir|.git/worktrees/*/commondir|.git/worktrees/*/gitdir|.git/modules/**/commondir|"
     ".git/modules/**/gitdir",
     RISK_GIT_DIR, RISK_HIGH, "it leads git to another directory", risk_inspect_git_file},
    {".git", RISK_GIT_DIR, RISK_HIGH, "it leads git to another directory", risk_inspect_git_file},
    {".git/info/exclude|.gitignore|.git/info/sparse-checkout", RISK_IGNORED, RISK_LOW,
     "it changes which files git leaves out of status and diff"},

    /* Continuous integration. */
    {".github/workflows/**|.github/actions/**|action.yml|action.yaml", RISK_CI, RISK_MEDIUM, "GitHub Actions runs it"},
    {".forgejo/**|.gitea/**", RISK_CI, RISK_MEDIUM, "Forgejo or Gitea Actions run it"},
    {".gitlab-ci.yml|.gitlab-ci.yaml|*.gitlab-ci.yml|.gitlab/**", RISK_CI, RISK_MEDIUM, "GitLab runs it"},
    {"Jenkinsfile|Jenkinsfile.*|*.jenkinsfile|.jenkins/**", RISK_CI, RISK_MEDIUM, "Jenkins runs it"},
    {".circleci/**", RISK_CI, RISK_MEDIUM, "CircleCI runs it"},
    {"azure-pipelines.yml|azure-pipelines.yaml|azure-pipelines-*|.azure-pipelines/**|.azuredevops/**", RISK_CI, RISK_MEDIUM,
     "Azure Pipelines runs it"},
    {".travis.yml|.travis.yaml|.drone.yml|.drone.yaml|.drone.star|.drone.jsonnet|.woodpecker.yml|.woodpecker.yaml|"
     ".woodpecker/**|.buildkite/**|buildkite.yml|bitbucket-pipelines.yml|.cirrus.yml|.cirrus.star|appveyor.yml|"
     ".appveyor.yml|.semaphore/**|codemagic.yaml|wercker.yml|.teamcity/**|cloudbuild.yaml|cloudbuild.yml|cloudbuild.json|"
     "buildspec.yml|buildspec.yaml|.builds/**|.build.yml|.tekton/**|.ci/**|netlify.toml|vercel.json|render.yaml|fly.toml|"
     "Procfile|app.yaml|.platform.app.yaml|.readthedocs.yaml|.readthedocs.yml|.gitpod.yml|skaffold.yaml|dagger.json|"
     "Earthfile|.garden.yml|serverless.yml|wrangler.toml|firebase.json|.goreleaser.yml|.goreleaser.yaml",
     RISK_CI, RISK_MEDIUM, "a build or deployment service runs it"},
    {".github/dependabot.yml|.github/dependabot.yaml|renovate.json|renovate.json5|.renovaterc|.renovaterc.json|"
     ".github/renovate.json*|.gitlab/renovate.json*|.mergify.yml|.github/mergify.yml|.kodiak.toml|CODEOWNERS|"
     ".github/settings.yml|.github/rulesets/**",
     RISK_CI, RISK_MEDIUM, "it decides what bots change or merge, or whose review is needed"},

    /* Editors and containers for development. */
    {".vscode/tasks.json", RISK_IDE, RISK_MEDIUM, "the editor runs its tasks", risk_inspect_keys, &risk_vscode_tasks},
    {".vscode/launch.json", RISK_IDE, RISK_MEDIUM, "the editor runs its launchers", risk_inspect_keys, &risk_vscode_launch},
    {".vscode/settings.json", RISK_IDE, RISK_MEDIUM, "the editor obeys its settings", risk_inspect_keys, &risk_vscode_settings},
    {".vscode/extensions.json", RISK_IDE, RISK_LOW, "the editor proposes its extensions to all who open the folder"},
    {".vscode/mcp.json", RISK_AGENT, RISK_HIGH, "the editor starts its MCP servers", risk_inspect_keys, &risk_vscode_mcp},
    {".vscode/**", RISK_IDE, RISK_MEDIUM, "the editor reads it when the folder is opened"},
    {"*.code-workspace", RISK_IDE, RISK_MEDIUM, "the editor obeys it when the workspace is opened", risk_inspect_keys,
     &risk_workspace_file},
    {".devcontainer/devcontainer.json|.devcontainer.json|.devcontainer/*/devcontainer.json|devcontainer.json|"
     "devcontainer-feature.json",
     RISK_IDE, RISK_MEDIUM, "the development container is made from it", risk_inspect_keys, &risk_devcontainer},
    {".devcontainer/**", RISK_IDE, RISK_MEDIUM, "the development container is made from it"},
    {".idea/workspace.xml|.idea/runConfigurations/**|.run/**|.idea/externalDependencies.xml|.idea/watcherTasks.xml|"
     ".idea/tools/**|.idea/**",
     RISK_IDE, RISK_MEDIUM, "the IDE takes run configurations, tools and interpreters from it"},
    {".zed/settings.json|.zed/tasks.json|.zed/debug.json", RISK_IDE, RISK_MEDIUM, "the editor obeys it", risk_inspect_keys,
     &risk_zed},
    {".vim/**|.exrc|.vimrc|_vimrc|.nvimrc|.nvim.lua|.nvim/**|.lvimrc|.local.vimrc|.dir-locals.el|.dir-locals-2.el|"
     ".projectile|.emacs.d/**|.kakrc|.helix/**|.sublime-project|*.sublime-project|*.sublime-build|.fleet/**|.zed/**|"
     ".nova/**|.vs/**|.settings/**|.project|.classpath|*.iml|.kateproject|.ycm_extra_conf.py|.clangd|.ccls|"
     "compile_flags.txt|.neoconf.json|coc-settings.json|.lsp.json|*.xcscheme|*.vcxproj|*.csproj|*.fsproj|*.sln",
     RISK_IDE, RISK_MEDIUM, "an editor loads or runs it when the folder is opened"},
    {".editorconfig|.dprint.json|.prettierrc|.prettierrc.json|.clang-format", RISK_IDE, RISK_LOW, "editors format by it"},

    /* What is loaded on entering the folder. */
    {".envrc|.direnvrc|.autoenv.zsh|.autoenv|.env.leave|.in|.out|.kshrc|.bashrc|.bash_profile|.profile|.zshrc|.zshenv|"
     ".zprofile|.inputrc|.tmux.conf|.tmuxinator.yml|.gdbinit|.lldbinit|.screenrc|.pythonrc|.irbrc|.pryrc|.Rprofile|"
     ".Renviron|.psqlrc|.sqliterc|.my.cnf|.octaverc|startup.m|.iex.exs|.curlrc|.wgetrc|.netrc|.ssh/**|.gnupg/**",
     RISK_ENVIRONMENT, RISK_HIGH, "a shell or tool loads it when it starts in the folder"},
    {"mise.toml|.mise.toml|mise.*.toml|.mise.*.toml|mise/config.toml|.mise/config.toml|.config/mise.toml|.config/mise/**",
     RISK_ENVIRONMENT, RISK_HIGH, "mise loads it when you enter the folder", risk_inspect_keys, &risk_mise},
    {".tool-versions|.python-version|.ruby-version|.go-version|.java-version|.terraform-version|.sdkmanrc|.asdfrc|"
     "rust-toolchain|rust-toolchain.toml|.jvmopts",
     RISK_ENVIRONMENT, RISK_MEDIUM, "a version manager takes the tools to install and run from it"},
    {".nvmrc|.node-version", RISK_ENVIRONMENT, RISK_LOW, "a version manager takes the version of node from it"},
    {"flake.nix|shell.nix|default.nix|devenv.nix|devenv.yaml|devbox.json|.flox/**|guix.scm|manifest.scm|pixi.toml|"
     "environment.yml|environment.yaml",
     RISK_ENVIRONMENT, RISK_MEDIUM, "the shell of the project is made from it"},
    {"Vagrantfile|Dockerfile|Dockerfile.*|*.dockerfile|Containerfile|Containerfile.*|docker-compose*.yml|"
     "docker-compose*.yaml|compose.yml|compose.yaml|compose.*.yml|compose.*.yaml|podman-compose*|.dockerignore|Tiltfile|"
     "docker-bake.hcl|docker-bake.json|devspace.yaml|*.nomad",
     RISK_ENVIRONMENT, RISK_MEDIUM, "a machine or container is made from it"},
    {".env|.env.*|*.env", RISK_ENVIRONMENT, RISK_MEDIUM, "programs and tools take their environment from it"},
    {"terragrunt.hcl|*.tf|*.tofu|.terraformrc|terraform.rc|playbook*.yml|ansible.cfg|Pulumi.yaml|Pulumi.*.yaml|Chart.yaml|"
     "helmfile.yaml|kustomization.yaml",
     RISK_ENVIRONMENT, RISK_LOW, "infrastructure is made from it"},

    /* Packages and builds. */
    {"package.json", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "package managers run its scripts", risk_inspect_keys, &risk_package_json},
    {".npmrc|npmrc|.pnpmrc", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "npm and pnpm obey it", risk_inspect_keys, &risk_npmrc},
    {".yarnrc.yml|.yarnrc|pnpm-workspace.yaml", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "the package manager obeys it",
     risk_inspect_keys, &risk_yarnrc},
    {"bunfig.toml|.bunfig.toml", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "bun obeys it", risk_inspect_keys, &risk_bunfig},
    {".pnpmfile.cjs|pnpmfile.js|.yarn/releases/**|.yarn/plugins/**|.pnp.cjs|.pnp.loader.mjs|binding.gyp|.corepack.env",
     RISK_PACKAGE_SCRIPT, RISK_HIGH, "the package manager runs it at every install"},
    {"pyproject.toml", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "pip and development tools obey it", risk_inspect_keys, &risk_pyproject},
    {"setup.cfg|tox.ini|pytest.ini|.pylintrc|.coveragerc|mypy.ini|.flake8|pip.conf|.pip/pip.conf|uv.ini", RISK_PACKAGE_SCRIPT,
     RISK_MEDIUM, "python tools obey it", risk_inspect_keys, &risk_setup_cfg},
    {"uv.toml|poetry.toml|pdm.toml|hatch.toml|.pdm.toml", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a python package manager obeys it"},
    {"sitecustomize.py|usercustomize.py|*.pth|*.egg-link|__editable__*", RISK_PACKAGE_SCRIPT, RISK_HIGH,
     "python runs it whenever it starts"},
    {"setup.py", RISK_PACKAGE_SCRIPT, RISK_HIGH, "pip runs it at every install"},
    {"conftest.py|noxfile.py|tasks.py|fabfile.py|dodo.py|SConstruct|SConscript|wscript|manage.py|hatch_build.py|build.py",
     RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a test or build runs it"},
    {"pyvenv.cfg", RISK_EXECUTABLE, RISK_HIGH, "it decides which python the environment runs", risk_inspect_keys, &risk_pyvenv},
    {"venv/bin/*|.venv/bin/*|env/bin/*|virtualenv/bin/*|venv/Scripts/*|.venv/Scripts/*|node_modules/.bin/*|vendor/bin/*|"
     ".tox/**/bin/*|.nox/**/bin/*|.bin/*",
     RISK_EXECUTABLE, RISK_HIGH, "it is a command that the environment's tools and your shell run by its name"},
    {"Cargo.toml", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "cargo obeys it", risk_inspect_keys, &risk_cargo_toml},
    {"build.rs", RISK_PACKAGE_SCRIPT, RISK_HIGH, "cargo runs it at every build, and editors when the folder is opened"},
    {".cargo/config.toml|.cargo/config", RISK_PACKAGE_SCRIPT, RISK_HIGH, "cargo obeys it", risk_inspect_keys, &risk_cargo_config},
    {"gradle-wrapper.properties|gradle.properties|maven-wrapper.properties", RISK_PACKAGE_SCRIPT, RISK_MEDIUM,
     "the build tool obeys it", risk_inspect_keys, &risk_gradle_wrapper},
    {"gradle-wrapper.jar|maven-wrapper.jar|gradlew|gradlew.bat|mvnw|mvnw.cmd|sbt|sbtx|millw|mill|bazelisk", RISK_PACKAGE_SCRIPT,
     RISK_HIGH, "it is the program that every build starts with, and IDEs run it when the folder is opened"},
    {".mvn/**", RISK_PACKAGE_SCRIPT, RISK_HIGH, "maven loads it at every call"},
    {"build.gradle|build.gradle.kts|settings.gradle|settings.gradle.kts|init.gradle|init.gradle.kts|*.gradle|*.gradle.kts|"
     "buildSrc/**|pom.xml|build.xml|build.sbt|project/*.sbt|build.sc|build.mill|project.clj|deps.edn|build.boot",
     RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build runs it, and IDEs do when the folder is opened"},
    {"Makefile|makefile|GNUmakefile|BSDmakefile|Makefile.*|*.mk|*.mak|*.make|configure|configure.ac|configure.in|*.am|*.m4|"
     "autogen.sh|bootstrap.sh|Kbuild|CMakeLists.txt|*.cmake|CMakePresets.json|CMakeUserPresets.json|meson.build|"
     "meson.options|meson_options.txt|native.ini|cross.ini|conanfile.py|conanfile.txt|vcpkg.json|xmake.lua|premake*.lua|"
     "build.ninja|*.ninja|BUILD|BUILD.bazel|WORKSPACE|WORKSPACE.bazel|MODULE.bazel|*.bzl|BUCK|.buckconfig|pants.toml|"
     ".please/**",
     RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build runs it"},
    {".bazelrc|*.bazelrc|.bazelversion|.bazeliskrc", RISK_PACKAGE_SCRIPT, RISK_HIGH, "bazel obeys it at every call"},
    {"Justfile|.justfile|*.just|Taskfile|Taskfile.yml|Taskfile.yaml|Taskfile.*.yml|Rakefile|*.rake|Guardfile|Capfile|"
     "Fastfile|Dangerfile*|Brewfile|Podfile|Gruntfile.*|gulpfile.*|turbo.json|nx.json|project.json|lerna.json|"
     "webpack.config.*|vite.config.*|rollup.config.*|babel.config.*|.babelrc*|eslint.config.*|.eslintrc*|jest.config.*|"
     "vitest.config.*|playwright.config.*|cypress.config.*|postcss.config.*|tailwind.config.*|next.config.*|nuxt.config.*|"
     "svelte.config.*|astro.config.*|metro.config.*|karma.conf.*|.mocharc*|.prettierrc.*|prettier.config.*|"
     "stylelint.config.*|commitlint.config.*|.stylelintrc*|tsconfig*.json|mix.exs|rebar.config|build.zig|Package.swift|"
     "dub.json|dune|dune-project|*.cabal|stack.yaml|Setup.hs|*.gemspec|Directory.Build.props|Directory.Build.targets|"
     "NuGet.config|*.targets|*.props|phpunit.xml|phpunit.xml.dist|artisan|.rspec|.irbrc|deno.json|deno.jsonc|"
     "import_map.json",
     RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "a build, test or task runner runs or obeys it"},
    {"composer.json", RISK_PACKAGE_SCRIPT, RISK_MEDIUM, "composer obeys it", risk_inspect_keys, &risk_composer},
    {"go.mod|go.work", RISK_DEPENDENCY, RISK_MEDIUM, "go takes dependencies from it", risk_inspect_keys, &risk_go_mod},
    {"Gemfile|gems.rb|Pipfile|.bundle/config|.gemrc", RISK_PACKAGE_SCRIPT, RISK_MEDIUM,
     "the package manager runs or obeys it at every install"},

    /* Locked versions. */
    {"requirements*.txt|*requirements.txt|requirements/*.txt|constraints*.txt", RISK_DEPENDENCY, RISK_MEDIUM,
     "pip installs from it", risk_inspect_requirements},
    {"package-lock.json|npm-shrinkwrap.json|.package-lock.json|yarn.lock|pnpm-lock.yaml|bun.lock|Cargo.lock|poetry.lock|"
     "uv.lock|pdm.lock|pylock*.toml|Pipfile.lock|go.sum|go.work.sum|Gemfile.lock|composer.lock|gradle.lockfile|flake.lock|"
     "deno.lock",
     RISK_DEPENDENCY, RISK_MEDIUM, "the next install takes dependencies from it", risk_inspect_lock},
    {"bun.lockb|conda-lock.yml|pixi.lock|mix.lock|pubspec.lock|Podfile.lock|Package.resolved|packages.lock.json|"
     "MODULE.bazel.lock|verification-metadata.xml|.terraform.lock.hcl|stack.yaml.lock|rebar.lock|paket.lock|mise.lock",
     RISK_DEPENDENCY, RISK_MEDIUM, "the next install takes dependencies from it, and this reader does not know the format"},

    /* Agents. */
    {".claude/settings.json|.claude/settings.local.json|.gemini/settings.json|.cursor/hooks.json|.cursor/cli.json|"
     ".cursor/environment.json|.opencode/opencode.json|opencode.json|opencode.jsonc|.amazonq/*.json|.amazonq/agents/*.json|"
     ".qwen/settings.json|.crush.json|crush.json|.factory/*.json|.continue/config.json|.roomodes|.kilocodemodes|"
     ".claude-plugin/*.json|.claude/*.json|.cline/*.json|.kiro/*.json|.zencoder/*.json",
     RISK_AGENT, RISK_HIGH, "a coding agent obeys it", risk_inspect_keys, &risk_agent_json},
    {".mcp.json|mcp.json|.cursor/mcp.json|.roo/mcp.json|.amazonq/mcp.json|.windsurf/mcp.json|mcp_config.json|"
     ".kiro/settings/mcp.json|.kilocode/mcp.json",
     RISK_AGENT, RISK_HIGH, "agents start its MCP servers", risk_inspect_keys, &risk_vscode_mcp},
    {".codex/*.toml|.goose/*.toml|.vibe/*.toml", RISK_AGENT, RISK_HIGH, "a coding agent obeys it", risk_inspect_keys,
     &risk_agent_toml},
    {".aider.conf.yml|.continue/*.yaml|.continue/**/*.yaml|.goosehints.yaml|.goose/*.yaml", RISK_AGENT, RISK_HIGH,
     "a coding agent obeys it", risk_inspect_keys, &risk_agent_yaml},
    {".claude/**|.claude-plugin/**|.cursor/**|.codex/**|.gemini/**|.windsurf/**|.aider*|.continue/**|.opencode/**|.roo/**|"
     ".amazonq/**|.qwen/**|.kiro/**|.cline/**|.clinerules/**|.kilocode/**|.augment/**|.factory/**|.junie/**|.goose/**|"
     ".openhands/**|.agents/**|.agent/**|.github/agents/**|.github/prompts/**|.github/chatmodes/**|.github/instructions/**|"
     ".trae/**|.zencoder/**|.crush/**|.vibe/**|.sourcegraph/**",
     RISK_AGENT, RISK_MEDIUM, "a coding agent takes commands, rules or skills from it"},
    {"AGENTS.md|AGENTS.override.md|AGENT.md|CLAUDE.md|CLAUDE.local.md|GEMINI.md|QWEN.md|CRUSH.md|WARP.md|CONVENTIONS.md|"
     "SKILL.md|.cursorrules|.windsurfrules|.clinerules|.roorules*|.goosehints|.rules|.replit.md|copilot-instructions.md|"
     "*.instructions.md|*.prompt.md|*.mdc|.junie/guidelines.md|llms.txt|.cursorignore|.claudeignore|.geminiignore|"
     ".aiderignore|.copilotignore|.aiignore|.codeiumignore|.rooignore",
     RISK_INSTRUCTIONS, RISK_MEDIUM, "coding agents obey it in their next session"},
    {NULL},
};
