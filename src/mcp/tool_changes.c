/* SPDX-License-Identifier: Apache-2.0 */
/* Tools about what the sandbox changed: bawn-review reads it, in its jail, as for `bawn diff` and `bawn review`. */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"
#include "ops/audit_verb.h"
#include "ops/changes/changes_review.h"

enum { PATHS_MAX = 1000 };

struct changes_call {
    struct strv paths;
};

static const struct json_field fields[] = {JSON_STRINGS("paths", struct changes_call, paths, JSON_OPTIONAL, PATHS_MAX)};
static const struct json_table table = {fields, ARRAY_LEN(fields), .strict = true};

/* 1: something is risky; -ENOENT: nothing has changed. */
static int changes_ask(struct mcp_call *c, const struct changes_call *q, const char *task, const char *format, struct buf *out,
                       struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    CLEANUP(strv_done) struct strv none = {0};
    const struct changes_report report = {
        .task = task, .format = format, .only = &q->paths, .except = &none, .all = format[0] == 'p', .diff = format[0] == 'p'};
    int r = mcp_sandbox(c, err);

    r = r < 0 ? r : run_pick(&(struct run_pick_opts){.name = c->name, .what = RUN_PICK_CHANGES}, &p, err);
    r = r < 0 ? r : audit_verb_word(AUDIT_REVIEW, p.rd.name, task, "mcp", err);
    return r < 0 ? r : changes_report(&p, &report, changes_to_buf, out, err);
}

/* Nothing was changed, or there is nothing that changes could be in (-ENOENT): both are an answer. */
static bool changes_any(const struct buf *report) {
    CLEANUP(json_decrefp) json_t *v = json_loadb(buf_str(report), report->len, 0, NULL);

    return json_array_size(json_object_get(v, "changes")) + json_array_size(json_object_get(v, "folders")) > 0;
}

int mcp_tool_diff(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    struct jsonout j = {.to = &ret->json, .compact = true};
    struct changes_call q = {0};
    int r = json_table_read(&table, arguments, &q, err);

    r = r < 0 ? r : changes_ask(c, &q, "diff", "patch", &ret->text, err);
    strv_done(&q.paths);
    if (r < 0 && r != -ENOENT)
        return r;
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "changed", ret->text.len > 0);
    jsonout_key(&j, "patch");
    rpc_add_text(&ret->json, buf_str(&ret->text), ret->text.len);
    jsonout_close(&j, '}');
    if (!ret->text.len)
        buf_adds(&ret->text, "nothing has changed");
    return 0;
}

int mcp_tool_review(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    CLEANUP(buf_done) struct buf report = BUF_INIT(MCP_REPLY_MAX / 2);
    struct jsonout j = {.to = &ret->json, .compact = true};
    struct changes_call q = {0};
    int r = json_table_read(&table, arguments, &q, err);

    r = r < 0 ? r : changes_ask(c, &q, "review", "text", &ret->text, err);
    r = r < 0 ? r : changes_ask(c, &q, "review", "json", &report, err);
    strv_done(&q.paths);
    if (r < 0 && r != -ENOENT)
        return r;
    for (size_t i = 0; i < report.len; i++) /* laid out for people; a message is one line */
        report.data[i] = report.data[i] == '\n' ? ' ' : report.data[i];
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "changed", changes_any(&report));
    jsonout_bool(&j, "risky", r == 1);
    jsonout_key(&j, "report");
    buf_adds(&ret->json, report.len ? buf_str(&report) : "{}");
    jsonout_close(&j, '}');
    if (!ret->text.len)
        buf_adds(&ret->text, "nothing has changed");
    return 0;
}
