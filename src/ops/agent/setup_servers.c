/* SPDX-License-Identifier: Apache-2.0 */
/* MCP servers as each agent wants them: four programs, four forms of the same three values. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ops/agent/agent_setup.h"

/* The words behind the first. */
static json_t *arguments_of(const json_t *command) {
    json_t *rest = json_array();

    for (size_t i = 1; rest && i < json_array_size(command); i++)
        json_array_append(rest, json_array_get(command, i));
    return rest;
}

/* {"command": "x", "args": [...], "env": {...}}, or the address under the name `url`. */
static json_t *server_plain(const json_t *server, const char *url, const char *type) {
    json_t *command = json_object_get(server, "command"), *env = json_object_get(server, "env"), *o = json_object();
    int r = 0;

    if (command) {
        r |= json_object_set(o, "command", json_array_get(command, 0));
        r |= json_object_set_new(o, "args", arguments_of(command));
    } else {
        r |= type ? json_object_set_new(o, "type", json_string(type)) : 0;
        r |= json_object_set(o, url, json_object_get(server, "url"));
    }
    if (env && json_object_size(env))
        r |= json_object_set(o, "env", env);
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *server_opencode(const json_t *server) {
    json_t *command = json_object_get(server, "command"), *env = json_object_get(server, "env"), *o = json_object();
    int r = json_object_set_new(o, "type", json_string(command ? "local" : "remote"));

    r |= json_object_set_new(o, "enabled", json_true());
    r |= command ? json_object_set(o, "command", command) : json_object_set(o, "url", json_object_get(server, "url"));
    if (env && json_object_size(env))
        r |= json_object_set(o, "environment", env);
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *server_in_form(enum agent_mcp form, const json_t *server) {
    switch (form) {
    case AGENT_MCP_CLAUDE:
        return server_plain(server, "url", "http");
    case AGENT_MCP_GEMINI:
        return server_plain(server, "httpUrl", NULL);
    case AGENT_MCP_OPENCODE:
        return server_opencode(server);
    case AGENT_MCP_CODEX:
        break;
    }
    return NULL;
}

static int render_json(enum agent_mcp form, const json_t *servers, const char *old, char **ret, struct err *err) {
    CLEANUP(json_decrefp) json_t *file = old ? json_loads(old, JSON_REJECT_DUPLICATES, NULL) : json_object();
    const char *name;
    json_t *server, *all = json_object();

    json_object_foreach((json_t *)servers, name, server) {
        if (json_object_set_new(all, name, server_in_form(form, server)) < 0) {
            json_decref(all);
            return err_oom(err);
        }
    }
    if (!json_is_object(file)) {
        json_decref(all);
        return err_set(err, -EINVAL, "the preset's file for MCP servers is no JSON object");
    }
    if (json_object_set_new(file, form == AGENT_MCP_OPENCODE ? "mcp" : "mcpServers", all) < 0)
        return err_oom(err);
    *ret = json_dumps(file, JSON_INDENT(2));
    return *ret ? 0 : err_oom(err);
}

/* A string of JSON without escapes for "/" and beyond ASCII is a basic string of TOML as well; control characters were refused. */
static void add_value(struct buf *b, const json_t *v) {
    CLEANUP(freep) char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

    if (text)
        buf_adds(b, text);
}

/* TOML (Codex). A name may have dots, so it is quoted. */
static void add_table(struct buf *b, const char *name, const json_t *server) {
    json_t *command = json_object_get(server, "command"), *env = json_object_get(server, "env"), *value;
    CLEANUP(json_decrefp) json_t *arguments = arguments_of(command);
    const char *key;

    buf_addf(b, "\n[mcp_servers.\"%s\"]\n%s = ", name, command ? "command" : "url");
    add_value(b, command ? json_array_get(command, 0) : json_object_get(server, "url"));
    if (command) {
        buf_adds(b, "\nargs = ");
        add_value(b, arguments);
    }
    buf_addc(b, '\n');
    if (!env || json_object_size(env) == 0)
        return;
    buf_addf(b, "\n[mcp_servers.\"%s\".env]\n", name);
    json_object_foreach(env, key, value) {
        buf_addf(b, "%s = ", key);
        add_value(b, value);
        buf_addc(b, '\n');
    }
}

static int render_toml(const json_t *servers, const char *old, char **ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SETUP_FILE_MAX);
    const char *name;
    json_t *server;

    buf_adds(&b, old ? old : "");
    json_object_foreach((json_t *)servers, name, server) {
        add_table(&b, name, server);
    }
    *ret = buf_ok(&b) ? strdup(buf_str(&b)) : NULL;
    return *ret ? 0 : err_oom(err);
}

int setup_render_servers(enum agent_mcp form, const json_t *servers, const char *old, char **ret, struct err *err) {
    return form == AGENT_MCP_CODEX ? render_toml(servers, old, ret, err) : render_json(form, servers, old, ret, err);
}
