/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coding agent as the command of a run (`bawn run --agent NAME`): its program is found on the host, or was installed in a folder of
 * Bawn's own; its settings, hosts and variables come from its preset (config/load/agent.h). What it keeps between runs is in folders
 * of the project's volumes: the host's own login and configuration are never shown to it.
 *
 *     $XDG_STATE_HOME/bawn/agents/NAME/                                node_modules of `bawn agents --install NAME`; runs see it read-only
 *     $XDG_STATE_HOME/bawn/volumes/<project>/agent-NAME/<folder>       ~/.claude and the like, for this project
 */
#pragma once

#include "config/load/agent.h"
#include "jail/plan/plan.h"

struct buf;
struct err;
struct run_args;

struct agent_program {
    char *path;         /* canonical; NULL: there is none */
    char *interpreter;  /* it is a script of node's; NULL: it is not */
    struct strv mounts; /* what of it is not inside anyway */
    bool own;           /* in Bawn's folder */
};
int agent_find(const struct agent *a, const struct host_facts *facts, struct agent_program *ret, struct err *err);
void agent_program_done(struct agent_program *p);
/* The program of this name in PATH, canonical, or NULL. Not from the workspace or a relative folder: the agent writes there. */
char *agent_find_in_path(const char *name, const struct host_facts *facts);

/* Installs it with the host's npm in a sandbox. Whole or not at all. */
int agent_install(const struct agent *a, const struct host_facts *facts, struct err *err);

/* The name of the credential that goes to the agent's model, malloc'ed; *ret is NULL if there is none. */
int agent_credential(const struct agent *a, const struct host_facts *facts, char **ret, struct err *err);

/* "bawn secret set NAME --host HOST", with the variables that are not usual for the host; nothing if it wants no credential. */
void agent_add_secret_command(const struct agent *a, struct buf *b);
/* The hosts that it needs and those that it is kept from. */
int agent_add_hosts(const struct agent *a, struct settings *s, struct err *err);

struct agent_run {
    struct agent preset;
    struct strv argv, home; /* home: pairs for plan_input.home.agent */
};
void agent_run_done(struct agent_run *r);
/*
 * 1: settings, plan input and the command of `a` are those of the agent now; 0: there is no preset of this name, only settings. With
 * dry_run nothing is installed or made.
 */
int agent_run_prepare(struct agent_run *r, struct run_args *a, const struct host_facts *facts, struct settings *s,
                      struct err *err);
