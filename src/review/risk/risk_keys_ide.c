/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of editors, development containers and coding agents. */
#include "review/risk/risk_rule.h"

#define HIGH RISK_IDE, RISK_HIGH
#define MEDIUM RISK_IDE, RISK_MEDIUM
#define LOW RISK_IDE, RISK_LOW
#define FINE RISK_IDE, RISK_NONE, NULL

static const struct risk_key task_keys[] = {
    {"*runOptions.runOn", "folderOpen", HIGH, "which starts the task as soon as the folder is opened"},
    {"*command|*args[]*|*options.shell.*|*.linux.*|*.osx.*|*.windows.*", NULL, MEDIUM, "which the editor runs as a task"},
    {"*script|*type", NULL, LOW, "which chooses what the task runs"},
    {"*options.env.*|*options.cwd", NULL, MEDIUM, "which the task gets from here"},
    {"*inputs[]*", NULL, MEDIUM, "which the editor asks for, or runs, before a task"},
    {"*label|*group*|*presentation*|*problemMatcher*|*detail|version|*isBackground|tasks[]|*icon*", NULL, FINE},
    {NULL},
};
const struct risk_format risk_vscode_tasks = {pairs_read_json, task_keys, RISK_LOW, "which is part of a task"};

static const struct risk_key launch_keys[] = {
    {"*program|*args[]*|*runtimeExecutable|*runtimeArgs[]*|*preLaunchTask|*postDebugTask|*command|*miDebuggerPath|"
     "*debuggerPath|*python|*pythonPath|*pipeProgram|*setupCommands[]*|*initCommands[]*|*debugServerPath|"
     "*serverReadyAction*|*Commands[]*",
     NULL, MEDIUM, "which the editor runs when you debug"},
    {"*env.*|*envFile|*cwd|*environment[]*", NULL, MEDIUM, "which the debugged program gets from here"},
    {"*url|*host|*address|*port|*remoteRoot", NULL, MEDIUM, "which the debugger connects to"},
    {"*name|version|*type|*request|configurations[]|compounds[]|*presentation*|*console", NULL, FINE},
    {NULL},
};
const struct risk_format risk_vscode_launch = {pairs_read_json, launch_keys, RISK_LOW, "which is part of a launcher"};

/* Of the settings that name programs, those of the widespread extensions; and whatever sounds like one. */
static const struct risk_key settings_keys[] = {
    {"*task.allowAutomaticTasks", NULL, HIGH, "which lets tasks start when the folder is opened"},
    {"*security.workspace.trust*", NULL, HIGH, "which switches the trust in folders"},
    {"*chat.tools.autoApprove|*chat.tools.*|*chat.agent.*|*autoApprove*|*yolo*|*dangerously*|*bypassPermissions*", NULL, HIGH,
     "which lets the editor's agent act without asking"},
    {"*mcp*", NULL, HIGH, "which starts an MCP server on the host"},
    {"*git.path|*git.terminalAuthentication|*git.postCommitCommand|*git.openRepositoryInParentFolders", NULL, HIGH,
     "which decides what the editor runs as git"},
    {"*terminal.integrated.*", NULL, HIGH, "which decides what every terminal of the editor runs and has in its environment"},
    {"*automationProfile*|*shellArgs*|*.shell.*|*shellIntegration*", NULL, HIGH, "which the editor takes as its shell"},
    {"*path|*paths[]*|*Path.*|*executable*|*command|*commands[]*|*command.*|*binary*|*interpreter*|*runtime*|*.server.*|"
     "*Args|*args[]*|*tsdk|*nodePath|*toolsGopath|*alternateTools*|*Cmd|*cmd.*|*script*|*program*|*.env|*.env.*|*envFile|"
     "*EnvironmentVariables*|*linker*|*overrideCommand*|*lib.*|*home|*homes*|*.toolchain*|*plugins[]*|*configFile*|*config*",
     NULL, MEDIUM, "which names a program, a path or its environment for the editor"},
    {"*http.proxy*|*proxyStrictSSL|*.url|*Url|*endpoint*|*registry*|*server*", NULL, MEDIUM, "which the editor connects to"},
    {"*files.exclude.*|*search.exclude.*|*git.ignored*|*files.watcherExclude.*|*explorer.excludeGitIgnore", NULL, LOW,
     "which hides files in the editor"},
    {"*codeActionsOnSave*|*formatOnSave|*runOnSave*|*emeraldwalk*|*defaultFormatter", NULL, LOW,
     "which the editor does at every save"},
    {NULL},
};
const struct risk_format risk_vscode_settings = {pairs_read_json, settings_keys, RISK_NONE, NULL};
const struct risk_format risk_zed = {pairs_read_json, settings_keys, RISK_LOW, "which is a setting of the editor"};

static const struct risk_key workspace_keys[] = {
    {"*runOptions.runOn", "folderOpen", HIGH, "which starts a task as soon as the workspace is opened"},
    {"tasks.*|launch.*", NULL, MEDIUM, "which the editor runs as a task or launcher"},
    {"folders[].path|folders[].uri", "/*|*..*|*:*", MEDIUM, "a folder outside this one"},
    {"folders[]*", NULL, LOW, "a folder of the workspace"},
    {NULL},
};
const struct risk_format risk_workspace_file = {pairs_read_json, workspace_keys, RISK_LOW, "which is part of the workspace",
                                                settings_keys};

static const struct risk_key mcp_keys[] = {
    {"*", NULL, RISK_AGENT, RISK_HIGH, "part of an MCP server that is started or asked on the host"},
    {NULL},
};
const struct risk_format risk_vscode_mcp = {pairs_read_json, mcp_keys, RISK_HIGH, "part of an MCP server"};

static const struct risk_key container_keys[] = {
    {"initializeCommand*", NULL, HIGH, "which runs on the host itself when the container is built"},
    {"mounts[]*|workspaceMount|workspaceFolder", NULL, HIGH, "which shows folders of the host to the container"},
    {"runArgs[]*|privileged|capAdd[]*|securityOpt[]*|*.docker*|build.options[]*|hostRequirements*", NULL, HIGH,
     "which decides how far the container is apart from the host"},
    {"onCreateCommand*|updateContentCommand*|postCreateCommand*|postStartCommand*|postAttachCommand*", NULL, MEDIUM,
     "which runs in the container with what is mounted there"},
    {"image|build.*|dockerFile|dockerComposeFile*|context|features.*|service|runServices*", NULL, MEDIUM,
     "which is what the container is made of"},
    {"containerEnv.*|remoteEnv.*|remoteUser|containerUser|userEnvProbe", NULL, MEDIUM, "which the container gets from the host"},
    {"forwardPorts*|appPort*|portsAttributes*", NULL, LOW, "which opens ports of the host"},
    {"customizations.vscode.extensions[]*|extensions[]*", NULL, MEDIUM, "an extension that is installed into the editor"},
    {"name", NULL, FINE},
    {NULL},
};
const struct risk_format risk_devcontainer = {pairs_read_json, container_keys, RISK_LOW, "which is part of the container",
                                              settings_keys};

/* Agents differ in names, not in what they let a file decide. */
static const struct risk_key agent_keys[] = {
    {"*hooks*|*notify*", NULL, RISK_AGENT, RISK_HIGH, "which the agent runs on the host as a hook"},
    {"*mcp*|*context_servers*", NULL, RISK_AGENT, RISK_HIGH, "part of an MCP server that the agent starts on the host"},
    {"*permissions*deny[]*|*denylist*|*exclude*|*blocked*", NULL, RISK_AGENT, RISK_LOW, "which the agent may not do"},
    {"*permission*|*allow*|*approv*|*trust*|*yolo*|*sandbox*|*dangerous*|*bypass*|*autoRun*|*auto_*|*coreTools*|*tools*", NULL,
     RISK_AGENT, RISK_HIGH, "which decides what the agent may do without asking"},
    {"*command*|*apiKeyHelper*|*awsAuthRefresh*|*awsCredentialExport*|*otelHeadersHelper*|*statusLine*|*helper*|*script*|"
     "*args[]*|*exec*|*formatter*|*lsp*|*plugin*|*marketplace*|*extension*|*.shell*",
     NULL, RISK_AGENT, RISK_HIGH, "which the agent runs or loads on the host"},
    {"*env.*|*env|*environment*", NULL, RISK_AGENT, RISK_HIGH, "which is in the environment of the agent and what it runs"},
    {"*url*|*endpoint*|*baseUrl*|*base_url*|*proxy*|*provider*|*host*|*telemetry*|*otel*", NULL, RISK_AGENT, RISK_HIGH,
     "which is where the agent sends what it reads"},
    {"*director*|*include*|*path*|*read*|*file*", NULL, RISK_AGENT, RISK_MEDIUM, "which decides what the agent reads"},
    {NULL},
};
const struct risk_format risk_agent_json = {pairs_read_json, agent_keys, RISK_MEDIUM, "a setting of a coding agent"};
const struct risk_format risk_agent_toml = {pairs_read_toml, agent_keys, RISK_MEDIUM, "a setting of a coding agent"};
const struct risk_format risk_agent_yaml = {pairs_read_yaml, agent_keys, RISK_MEDIUM, "a setting of a coding agent"};
