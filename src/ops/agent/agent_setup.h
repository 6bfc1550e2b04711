/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the caller of one run gives an agent (`bawn run --agent NAME --agent-setup FILE`): instructions, skills and MCP servers, as JSON. They become
 * files of the agent's own home, in the form that its preset names.
 *
 *     {"instructions": "Use tabs.", "skills": {"release": "..."}, "mcp_servers": {"docs": {"command": ["docs-mcp"]}, "wiki": {"url": "https://..."}}}
 *
 * The folders of such a run have the hash of the setup in their name, so runs with different ones never meet, and the plain agent of the project
 * sees nothing of either. Nothing of the host comes in by it but this text.
 */
#pragma once

#include <jansson.h>

#include "base/sha256.h"
#include "config/load/agent.h"

struct err;

enum {
    SETUP_FILE_MAX = 32 * 1024 * 1024,
    SETUP_TEXT_MAX = 256 * 1024,
    SETUP_SKILLS_MAX = 64,
    SETUP_SERVERS_MAX = 32,
    SETUP_WORDS_MAX = 64
};

struct agent_setup {
    char *instructions;
    struct strv skills; /* pairs: name, text */
    json_t *servers;    /* checked: {name: {"command": [...], "env": {...}} or {"url": ...}} */
    char hash[SHA256_HEX_SIZE];
};
void agent_setup_done(struct agent_setup *s);

/* Mistakes in the file: exit status 64 with file:line:column. */
int agent_setup_read(const char *path, struct agent_setup *ret, struct err *err);
/* Adds it to the files of the preset. What the agent has no place for is an error. */
int agent_setup_add(const struct agent_setup *s, struct agent *a, struct err *err);
/* The MCP servers in a file of this form that has `old` in it so far (NULL: nothing), malloc'ed. */
int setup_render_servers(enum agent_mcp form, const json_t *servers, const char *old, char **ret, struct err *err);
