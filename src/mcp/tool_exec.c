/* SPDX-License-Identifier: Apache-2.0 */
/* The tool `exec`: a command in the sandbox. */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"
#include "proto/execmsg.h"

enum { ARGV_MAX = 4096, SECONDS_MAX = 7 * 24 * 3600 };

struct exec_call {
    char *command, *cwd, *in;
    struct strv argv;
    uint64_t seconds, most;
};

static void exec_call_done(struct exec_call *q) {
    free(q->command);
    free(q->cwd);
    free(q->in);
    strv_done(&q->argv);
}

static const struct json_field fields[] = {
    JSON_STRING_OF("command", struct exec_call, command, JSON_OPTIONAL),
    JSON_STRINGS("argv", struct exec_call, argv, JSON_OPTIONAL, ARGV_MAX),
    JSON_STRING_OF("cwd", struct exec_call, cwd, JSON_OPTIONAL),
    JSON_STRING_OF("stdin", struct exec_call, in, JSON_OPTIONAL),
    {.key = "timeout",
     .kind = JSON_KIND_U64,
     JSON_AS(struct exec_call, seconds, uint64_t),
     .flags = JSON_OPTIONAL,
     .min = 1,
     .max = SECONDS_MAX},
    {.key = "max_output",
     .kind = JSON_KIND_U64,
     JSON_AS(struct exec_call, most, uint64_t),
     .flags = JSON_OPTIONAL,
     .min = 0,
     .max = MCP_OUTPUT_MAX},
};
static const struct json_table table = {fields, ARRAY_LEN(fields), .strict = true};

/* "command" is for a shell; "argv" is executed as it is. */
static int exec_call_words(struct exec_call *q, struct err *err) {
    if (!q->command == !q->argv.len)
        return err_set(err, -EBADMSG, "give one of \"command\" (for a shell) and \"argv\" (without one)");
    if (!q->command)
        return q->argv.v[0][0] ? 0 : err_set(err, -EBADMSG, "\"argv\" begins with an empty word");
    if (strv_add(&q->argv, "/bin/sh") < 0 || strv_add(&q->argv, "-c") < 0 || strv_add(&q->argv, q->command) < 0)
        return err_oom(err);
    return 0;
}

/* -- how it ended -------------------------------------------------------------------------------------------------------- */

static const struct {
    unsigned end;
    const char *name, *words;
} ends[] = {
    {EXEC_END_TIMEOUT, "time", "the time limit ended it"},
    {EXEC_END_MEMORY, "memory", "the memory limit of the sandbox was reached"},
    {EXEC_END_PIDS, "pids", "the process limit of the sandbox was reached"},
    {EXEC_END_DISK, "disk", "the disk limit of the sandbox was reached"},
    {EXEC_END_PRIVATE, "private", "/tmp in the sandbox is full"},
};

static void exec_add_stream(struct buf *text, const char *name, const struct mcp_ran *ran, int which, bool always) {
    const struct buf *b = &ran->out[which];
    uint64_t rest = ran->bytes[which] - b->len;

    if (!always && ran->bytes[which] == 0)
        return;
    if (which)
        buf_addf(text, "%s[%s]\n", text->len ? "\n" : "", name);
    buf_add(text, buf_str(b), b->len);
    if (rest)
        buf_addf(text, "\n[%s is cut: %llu bytes more]\n", name, (unsigned long long)rest);
}

static void exec_add_words(const struct exec_call *q, const struct mcp_ran *ran, struct buf *text) {
    const struct exec_result *e = &ran->result;

    exec_add_stream(text, "stdout", ran, 0, false);
    exec_add_stream(text, "stderr", ran, 1, false);
    if (text->len && text->data[text->len - 1] != '\n')
        buf_addc(text, '\n');
    if (e->exec_errno)
        buf_addf(text, "%s: %s\n", q->argv.v[0], strerror(e->exec_errno));
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (e->end & ends[i].end)
            buf_addf(text, "[%s]\n", ends[i].words);
    if (e->end & EXEC_END_STOP)
        buf_adds(text, "[the sandbox was stopped]\n");
    if (e->signal)
        buf_addf(text, "[signal %d]\n", e->signal);
    buf_addf(text, "[exit status %d]", e->status);
}

static void exec_add_json(const struct mcp_ran *ran, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};
    const struct exec_result *e = &ran->result;

    jsonout_open(&j, NULL, '{');
    jsonout_int(&j, "exit_status", e->status);
    jsonout_int(&j, "signal", e->signal);
    jsonout_bool(&j, "timed_out", (e->end & EXEC_END_TIMEOUT) != 0);
    jsonout_key(&j, "stdout");
    rpc_add_text(out, buf_str(&ran->out[0]), ran->out[0].len);
    jsonout_key(&j, "stderr");
    rpc_add_text(out, buf_str(&ran->out[1]), ran->out[1].len);
    jsonout_u64(&j, "stdout_cut", ran->bytes[0] - ran->out[0].len);
    jsonout_u64(&j, "stderr_cut", ran->bytes[1] - ran->out[1].len);
    jsonout_open(&j, "limits_hit", '[');
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (e->end & ends[i].end)
            jsonout_text(&j, NULL, ends[i].name);
    jsonout_close(&j, ']');
    jsonout_u64(&j, "duration_ms", e->duration_us / 1000);
    jsonout_close(&j, '}');
}

int mcp_tool_exec(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    CLEANUP(exec_call_done) struct exec_call q = {.most = MCP_OUTPUT_USUAL};
    CLEANUP(mcp_ran_done) struct mcp_ran ran = MCP_RAN_INIT;
    CLEANUP(freep) char *cwd = NULL;
    struct mcp_command cmd;
    int r = json_table_read(&table, arguments, &q, err);

    r = r < 0 ? r : exec_call_words(&q, err);
    r = r < 0 || !q.cwd ? r : mcp_path(c, q.cwd, &cwd, err);
    if (r < 0)
        return r;
    cmd = (struct mcp_command){.argv = q.argv.v,
                               .argc = q.argv.len,
                               .cwd = cwd,
                               .in = q.in,
                               .in_len = q.in ? strlen(q.in) : 0,
                               .timeout_ms = q.seconds * 1000,
                               .most = q.most};
    r = mcp_run(c, &cmd, &ran, err);
    if (r < 0)
        return r;
    exec_add_words(&q, &ran, &ret->text);
    exec_add_json(&ran, &ret->json);
    return 0;
}
