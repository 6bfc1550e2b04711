/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coding agent as the command of a run (`bawn run --agent NAME`): its program is found on the host, or was installed in a folder of
 * Bawn's own; its settings, hosts and variables come from its preset (config/load/agent.h). What it keeps between runs is in folders
 * of the project's volumes: the host's own login and configuration are never shown to it.
 *
 *     $XDG_STATE_HOME/bawn/agents/NAME/                                node_modules of `bawn agents --install NAME`; runs see it read-only
 *     $XDG_STATE_HOME/bawn/volumes/<project>/agent-NAME/<folder>       ~/.claude and the like, for this project
 *     $XDG_STATE_HOME/bawn/volumes/<project>/agent-NAME-<hash>/<folder> the same for runs with this setup (agent_setup.h)
 */
#pragma once

#include "config/load/agent.h"
#include "jail/plan/plan.h"
#include "ops/agent/agent_config.h"

struct agent_url;
struct buf;
struct err;
struct notice;

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
int agent_install(const struct agent *a, const struct host_facts *facts, const struct notice *n, struct err *err);
/* The same by name; *ret is the preset. Exit status 64 if there is none. */
int agent_install_named(const char *name, const struct notice *n, struct agent *ret, struct err *err);

/* The name of the credential for this host, where the agent's model is, malloc'ed; *ret is NULL if there is none. */
int agent_credential(const char *host, uint16_t port, const struct host_facts *facts, char **ret, struct err *err);

/* "bawn secret set NAME --host HOST", with the variables that are not usual for the host; nothing if it wants no credential. url: where its
 * model is; NULL: in the usual place. */
void agent_add_secret_command(const struct agent *a, const struct agent_url *url, struct buf *b);
/* Adds the hosts that it needs, with those of agent_url.h, and those that are denied. */
int agent_add_hosts(const struct agent *a, char *const *environ_, struct settings *s, struct err *err);

struct agent_run {
    struct agent preset;
    struct strv argv, home; /* home: pairs for plan_input.home.agent */
};
void agent_run_done(struct agent_run *r);

struct agent_wanted {
    const char *name;
    char **argv; /* its arguments */
    size_t argc;
    bool dry_run;              /* nothing is installed or made */
    const char *setup;         /* file of agent_setup.h; NULL: none */
    struct config_wish config; /* its mode is NULL: the user's own settings stay out */
    const struct notice *notice;
};
/* 1: settings are those of the agent now, and r->argv is the command; 0: there is no preset of this name, only settings. */
int agent_run_prepare(struct agent_run *r, const struct agent_wanted *w, const struct host_facts *facts, struct settings *s,
                      struct err *err);

/* What is known of one agent on this machine. */
struct agent_state {
    struct agent agent;
    struct agent_program program;
    char *credential; /* the name of its credential; NULL: none */
};
struct agent_states {
    struct agent_state *v;
    size_t n;
};
/* Every agent with a preset. */
int agent_list(struct agent_states *ret, struct err *err);
void agent_states_done(struct agent_states *l);
