/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another place of an agent's model than the usual one: a company's gateway, a server of one's own. The user names it by the variable that the
 * agent itself knows (`--env ANTHROPIC_BASE_URL=https://llm.corp.example`, or "env" in the configuration, which a project has only if it is
 * trusted). From that follow the host that is allowed, the host that the credential is for, and arguments where the agent has no variable.
 *
 * Only the name of an https URL is allowed by it. Addresses and plain http need a rule: no one variable opens this machine's own network.
 */
#pragma once

#include "config/load/agent.h"
#include "policy/host/host.h"

struct err;
struct settings;

struct agent_url {
    const char *text; /* within settings or environment; NULL: the model is in its usual place */
    bool https;
    struct host host;
    uint16_t port;
};

/* The value of the n-th variable of the preset. One that is no URL: exit status 64. */
int agent_url_find(const struct agent *a, size_t n, const struct settings *s, char *const *environ_, struct agent_url *ret,
                   struct err *err);
/* Of the first variable that has one. */
int agent_url_first(const struct agent *a, const struct settings *s, char *const *environ_, struct agent_url *ret,
                    struct err *err);
/* Adds the hosts of all of them to those that are allowed. */
int agent_url_allow(const struct agent *a, char *const *environ_, struct settings *s, struct err *err);
/* Adds the preset's arguments for it; none if there is no URL. */
int agent_url_add_args(const struct agent *a, const struct agent_url *u, struct strv *argv, struct err *err);

/* Adds the preset's own arguments, with the workspace's path for "{workspace}". One that has it is left out if the path has quotes, backslashes or
 * bytes that are no text: then the agent asks. */
int agent_args_add(const struct agent *a, const char *workspace, struct strv *argv, struct err *err);
