/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be known to run a coding agent in a sandbox: one file each, built in (profiles/agents/NAME.json) or the user's own
 * ($XDG_CONFIG_HOME/bawn/agents/NAME.json, which comes first). spec/agent.schema.json describes the file.
 */
#pragma once

#include "base/strv.h"

struct err;

enum { AGENT_NAME_MAX = 32, AGENT_LIST_MAX = 64 };

/* The form that an agent wants its MCP servers in (ops/agent/setup_servers.c). */
enum agent_mcp { AGENT_MCP_CLAUDE, AGENT_MCP_CODEX, AGENT_MCP_GEMINI, AGENT_MCP_OPENCODE };

struct agent {
    char *name, *title, *docs;
    char *command;    /* name of the program */
    char *package;    /* of npm, to install it; NULL: it cannot be installed that way */
    struct strv args; /* come before the user's own; "{workspace}" is the project's path */
    struct strv env;  /* "NAME=VALUE"; what the user sets is stronger */
    struct strv home; /* folders below the home that the agent keeps between runs, each project has its own: ".claude" */
    struct strv
        files; /* pairs: path below the home, in one of these folders, and content: made if it is not there (first-run questions, instructions) */
    struct strv hosts, deny; /* as --allow and --deny */
    /* For --agent-config (ops/agent/agent_config.h), all below the home: files and folders; pairs of a file and the only key of it that comes
     * in; pairs of a file and where it is inside; keys whose values run something. */
    struct strv config_files, config_parts, config_as, config_runs;
    char *secret_name, *secret_host; /* the credential that it wants; NULL: none */
    struct strv secret_env;          /* its variables */
    /* Another place of the model, such as a company's gateway (ops/agent/agent_url.h): variables that name it, and arguments that come
     * first then, with its URL for "{}". */
    struct strv url_env, url_args;
    /* The question whether to use the key of a variable (ops/agent/agent_answer.h): the variable, the JSON file below the home, and in it the
     * lists of the ends of keys that were said yes and no to, as "a.b". NULL: it does not ask. */
    char *answer_env, *answer_file, *answer_yes, *answer_no;
    /* For --agent-setup (ops/agent/agent_setup.h), below the home: the file of its instructions, the folder of its skills, the file of its MCP
     * servers. NULL: it has none. */
    char *instructions, *skills, *mcp_file;
    enum agent_mcp mcp_form;
};

bool agent_name_ok(const char *name);
/* 1; 0: there is none of this name. Mistakes in a user's file: exit status 64 with file:line:column. */
int agent_read(const char *name, char *const *environ_, const char *home, struct agent *ret, struct err *err);
void agent_done(struct agent *a);
/* Names, sorted: built-in ones and the user's. */
int agent_names(char *const *environ_, const char *home, struct strv *ret, struct err *err);
