/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own settings of an agent (`--agent-config`): a copy of the files that its preset names goes into the agent's folders of this
 * project, without credentials, history or sessions.
 *
 *   - Values that look like credentials are left out and named: by their names, by their shape, and all variables and headers of MCP servers.
 *   - What these settings run (hooks, helpers, MCP servers) is listed, and confirmed once, until it changes.
 *   - Where the preset has the same file, its values win.
 *
 * The files are written when they have changed since the last time, so what the agent changes in there stays until then.
 */
#pragma once

#include "base/buf.h"
#include "base/sha256.h"
#include "base/strv.h"
#include "config/load/agent.h"

struct err;
struct host_facts;
struct notice;

enum { CONFIG_FILE_MAX = 1024 * 1024, CONFIG_FILES_MAX = 2000, CONFIG_BYTES_MAX = 32 * 1024 * 1024, CONFIG_DEPTH_MAX = 12 };

struct config_file {
    char *path; /* below the home inside */
    struct buf data;
    unsigned mode;
};
struct agent_config {
    struct config_file *v;
    size_t n, bytes;
    struct strv runs; /* "settings.json: hooks.Stop.command = ./notify", safe for a terminal */
    struct strv left; /* "settings.json: env.GITHUB_TOKEN": what stays out */
    char hash[SHA256_HEX_SIZE], consent[SHA256_HEX_SIZE]; /* of all, and of what runs */
};
void agent_config_done(struct agent_config *c);

/* What would come in. */
int agent_config_collect(const struct agent *a, const struct host_facts *facts, struct agent_config *ret, struct err *err);

/* "ask": what runs commands is confirmed once; "yes": it is confirmed. */
struct config_wish {
    const char *mode;
    bool (*confirm)(const struct strv *runs, void *arg); /* NULL: there is no terminal */
    void *arg;
};
/* Brings it in, or fails. homes: pairs of a folder of the host's, and where it is below the home inside. */
int agent_config_bring(const struct agent *a, const struct config_wish *w, const struct host_facts *facts,
                       const struct strv *homes, const struct notice *n, struct err *err);

/* -- shared by its files --------------------------------------------------------------------------------------------------- */

#define CONFIG_STEP '\x1f' /* between the names of a key */

/* The name of the last step, or a pattern of the preset, says that a value runs something. */
bool config_runs(const struct agent *a, const char *key);
/* key: names with CONFIG_STEP between them. text: a string; NULL: something else. */
bool config_is_secret(const char *key, const char *text);
int config_note(struct strv *to, const char *file, const char *key, const char *value, struct err *err);

/* Each replaces the text by what comes in of it. only: the one key that does; NULL: all. preset: text whose values win; NULL: none.
 * -EINVAL: it cannot be read. */
int config_filter_json(const struct agent *a, struct config_file *f, const char *only, const char *preset, struct agent_config *c,
                       struct err *err);
int config_filter_toml(const struct agent *a, struct config_file *f, const char *preset, struct agent_config *c, struct err *err);
