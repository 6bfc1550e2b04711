/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of `bawn mcp`: the table of tools, and what the process of a call has. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "mcp/mcp.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/keep/exec_client.h"

struct err;
struct mcp_call;

enum {
    MCP_REPLY_MAX = 16 * 1024 * 1024, /* bytes of an answer */
    MCP_OUTPUT_USUAL = 64 * 1024,     /* of each stream of a command, unless the call says more */
    MCP_OUTPUT_MAX = 1024 * 1024,
    MCP_FILE_MAX = 4 * 1024 * 1024, /* that is edited */
    MCP_CALLS_MAX = 32              /* at once */
};

/* What a call answers: words for the model, and the same for programs. */
struct mcp_reply {
    struct buf text, json; /* json: an object */
};
#define MCP_REPLY_INIT \
    { .text = BUF_INIT(MCP_REPLY_MAX), .json = BUF_INIT(MCP_REPLY_MAX) }

struct mcp_tool {
    const char *name, *title, *description;
    const char *input, *output; /* JSON schemas */
    const char *hints;          /* annotations, JSON */
    /* arguments: an object. Arguments that are not as the schema says: -EBADMSG. Any other failure is an answer that says so. */
    int (*run)(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
};
extern const struct mcp_tool mcp_tools[];
extern const size_t n_mcp_tools;
/* NULL: there is none, or it is not among those that were allowed. */
const struct mcp_tool *mcp_tool_find(const struct mcp_opts *o, const char *name);
/* The answer to tools/list, an object. */
void mcp_tools_list(const struct mcp_opts *o, struct buf *out);

bool mcp_version_known(const char *version);
/* A method that is answered here and now: 0, or a code of enum rpc_code with a message in *ret_why. -ENOSYS: there is no such method. */
int mcp_method(const struct mcp_opts *o, const char *method, const json_t *params, struct buf *out, const char **ret_why);

/* -- in the process of a call (mcp_work.c) ----------------------------------------------------------------------------------- */

struct mcp_call {
    const struct mcp_opts *o;
    int out;             /* lines for the client */
    const json_t *token; /* of progress; NULL: the client asks for none */
    uint64_t begun_ms, said_ms;
    char name[BOX_ID_MAX + 1]; /* of the sandbox; "": not known yet */
    bool started;              /* by us, or it runs as the options say */
};

/* Does the call and writes its answer, a line with MCP_LINE_ANSWER before it. id: of the request. */
void mcp_work(const struct mcp_opts *o, const json_t *id, const struct mcp_tool *t, const json_t *params, int out);
enum { MCP_LINE_ANSWER = '=', MCP_LINE_OTHER = '+' }; /* what a line begins with on its way to the client */

/* The sandbox runs, and is named in c; started if it did not. */
int mcp_sandbox(struct mcp_call *c, struct err *err);
/* A place inside, as ops/files/inside.h has it. */
int mcp_path(struct mcp_call *c, const char *path, char **ret, struct err *err);

/* A command inside. */
struct mcp_command {
    char *const *argv;
    size_t argc;
    const char *cwd; /* absolute, inside; NULL: the workspace */
    const char *in;  /* its standard input */
    size_t in_len;
    uint64_t timeout_ms; /* 0: none */
    size_t most;         /* bytes of each stream */
};
struct mcp_ran {
    struct exec_result result;
    struct buf out[2]; /* the first bytes */
    uint64_t bytes[2]; /* all */
};
#define MCP_RAN_INIT                                                      \
    {                                                                     \
        .out = { BUF_INIT(MCP_FILE_MAX + 1), BUF_INIT(MCP_FILE_MAX + 1) } \
    }
void mcp_ran_done(struct mcp_ran *r);
/* Says how far it is, if the client wants to know. */
int mcp_run(struct mcp_call *c, const struct mcp_command *q, struct mcp_ran *ret, struct err *err);
/* A script of sh with arguments. It failed: err has what it said. */
int mcp_script(struct mcp_call *c, const char *script, const char *const *words, size_t n, const struct mcp_command *how,
               struct mcp_ran *ret, struct err *err);

int mcp_tool_exec(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_read(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_write(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_edit(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_list(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_diff(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_review(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_expose(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
int mcp_tool_request(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err);
