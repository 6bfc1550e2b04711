/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that need no process of their own, and the list of tools. */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"

/* The latest first: what a client gets that asks for one that we do not know. */
static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};

bool mcp_version_known(const char *version) {
    return str_index(version, versions, ARRAY_LEN(versions)) >= 0;
}

static const char instructions[] =
    "These tools work inside a sandbox: commands and files are those of the project as the sandbox has it, and the network reaches only what "
    "its rules allow. Paths are relative to the project's folder. What was denied says so, with a reason; if you need more, ask for it with "
    "request_access: a human decides, and a refusal comes with the reason. Do not try to work around a denial.";

static int mcp_initialize(const json_t *params, struct buf *out, const char **ret_why) {
    struct jsonout j = {.to = out, .compact = true};
    const char *asked = json_get_text(params, "protocolVersion");
    int at = str_index(asked, versions, ARRAY_LEN(versions));

    if (!asked[0]) {
        *ret_why = "\"protocolVersion\" must be a string";
        return RPC_INVALID_PARAMS;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "protocolVersion", versions[at < 0 ? 0 : at]);
    jsonout_key(&j, "capabilities");
    buf_adds(out, "{\"tools\":{\"listChanged\":false}}");
    jsonout_open(&j, "serverInfo", '{');
    jsonout_text(&j, "name", "bawn");
    jsonout_text(&j, "title", "Bawn sandbox");
    jsonout_text(&j, "version", BAWN_VERSION);
    jsonout_close(&j, '}');
    jsonout_text(&j, "instructions", instructions);
    jsonout_close(&j, '}');
    return 0;
}

int mcp_method(const struct mcp_opts *o, const char *method, const json_t *params, struct buf *out, const char **ret_why) {
    if (str_eq(method, "initialize"))
        return mcp_initialize(params, out, ret_why);
    if (str_eq(method, "ping"))
        buf_adds(out, "{}");
    else if (str_eq(method, "tools/list"))
        mcp_tools_list(o, out);
    else
        return -ENOSYS;
    return 0;
}

/* -- tools --------------------------------------------------------------------------------------------------------------- */

static bool mcp_tool_allowed(const struct mcp_opts *o, const char *name) {
    return o->tools->len == 0 || strv_has(o->tools, name);
}

const struct mcp_tool *mcp_tool_find(const struct mcp_opts *o, const char *name) {
    for (size_t i = 0; i < n_mcp_tools; i++)
        if (str_eq(mcp_tools[i].name, name))
            return mcp_tool_allowed(o, name) ? &mcp_tools[i] : NULL;
    return NULL;
}

void mcp_tools_list(const struct mcp_opts *o, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "tools", '[');
    for (size_t i = 0; i < n_mcp_tools; i++) {
        const struct mcp_tool *t = &mcp_tools[i];

        if (!mcp_tool_allowed(o, t->name))
            continue;
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "name", t->name);
        jsonout_text(&j, "title", t->title);
        jsonout_text(&j, "description", t->description);
        jsonout_key(&j, "inputSchema");
        buf_adds(out, t->input);
        jsonout_key(&j, "outputSchema");
        buf_adds(out, t->output);
        jsonout_key(&j, "annotations");
        buf_adds(out, t->hints);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
    jsonout_close(&j, '}');
}

int mcp_tools_check(const struct strv *names, struct err *err) {
    CLEANUP(buf_done) struct buf known = BUF_INIT(4096);

    for (size_t i = 0; i < n_mcp_tools; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", mcp_tools[i].name);
    for (size_t i = 0; i < names->len; i++) {
        size_t k = 0;

        while (k < n_mcp_tools && !str_eq(mcp_tools[k].name, names->v[i]))
            k++;
        if (k == n_mcp_tools)
            return err_usage(err, "there is no tool '%.40s'; there are %s", names->v[i], buf_str(&known));
    }
    return 0;
}
