/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn mcp`. */
#include "base/err.h"
#include "base/str.h"
#include "cli/verb.h"
#include "mcp/mcp.h"
#include "ops/run/run_shape.h"
#include "supervisor/terminal/stdio.h"

struct mcp_line {
    struct run_request request; /* first: RUN_SHAPE_OPTS fill it */
    struct strv tools;
    struct mcp_http_opts http;
    bool over_http;
};

#define HTTP_USUAL "127.0.0.1:7071"

/* "exec,read_file" */
static int take_tools(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    struct strv *names = to;

    while (*value) {
        size_t n = strcspn(value, ",");

        if (n && strv_addf(names, "%.*s", (int)n, value) < 0)
            return err_oom(err);
        value += n + (value[n] == ',');
    }
    return names->len ? mcp_tools_check(names, err) : err_usage(err, "--tools takes names, e.g. exec,read_file");
}

static int take_http(const struct opt *o UNUSED, const char *value, void *to, struct err *err UNUSED) {
    struct mcp_line *l = to;

    l->over_http = true;
    l->http.address = value ? value : HTTP_USUAL;
    return 0;
}

static const struct opt opts[] = {
    {0, 0, "http", "[=ADDRESS]", "speak HTTP at this loopback address (default: " HTTP_USUAL "; port 0: any that is free)", NULL,
     OPT_TO_CALL(struct mcp_line, request, take_http)},
    {0, 0, "token-file", "FILE",
     "with --http: the token is in this file, which is made if it is not there (default: a new one, printed)", "@file",
     OPT_TO_TEXT(struct mcp_line, http.token)},
    {0, 0, "tools", "LIST", "only these tools, e.g. exec,read_file (may be repeated; default: all)", NULL,
     OPT_TO_CALL(struct mcp_line, tools, take_tools)},
    RUN_SHAPE_OPTS,
    RUN_IDLE_OPT,
};

static int run_mcp(struct verb_call *c, struct err *err) {
    struct mcp_line l = {0};
    bool closed[3];
    int r = stdio_reserve(closed), words;

    r = r < 0 ? err_sys(err, r, "standard streams") : verb_parse(c, &l, 1, err);
    words = r;
    if (r >= 0 && l.http.token && !l.over_http)
        r = err_usage(err, "--token-file is for --http");
    if (r >= 0 && !l.over_http && (closed[0] || closed[1]))
        r = err_usage(err, "standard input and output must be those of an MCP client");
    if (r >= 0) {
        const struct mcp_opts o = {
            .sandbox = words ? c->argv[1] : NULL, .dir = l.request.dir, .request = &l.request, .tools = &l.tools};

        r = l.over_http ? mcp_http_serve(&o, &l.http, err) : mcp_serve(&o, err);
    }
    run_request_done(&l.request);
    strv_done(&l.tools);
    return r < 0 ? r : 0;
}

const struct verb verb_mcp = {
    .name = "mcp",
    .summary = "tools for an agent outside whose work is to happen in a sandbox (MCP)",
    .synopsis = "[options] [SANDBOX]",
    .description =
        "Speaks the Model Context Protocol on its standard input and output: an agent that runs outside starts it as an MCP server, and has tools "
        "that act in a persistent sandbox, the project's own unless SANDBOX is named. The sandbox is started when it is first needed, with these "
        "options, which are those of 'bawn start', and stays when the agent is gone.\n\n"
        "Tools: exec, read_file, write_file, edit, list_files, diff, review, expose_port, and request_access, by which the agent asks you for a host, "
        "a path or a package: you answer with 'bawn policy approve' or 'bawn policy reject --reason', or in 'bawn top'. Nothing that a tool does can "
        "reach more than a command in the sandbox can.\n\n"
        "With --http it speaks streamable HTTP instead, for several clients at a time, at a loopback address and only to who has the token. It prints both "
        "when it begins, and ends with ^C.\n\n"
        "    claude mcp add bawn -- bawn mcp\n"
        "    bawn mcp --http --token-file ~/.config/bawn/mcp-token\n"
        "    bawn mcp --tools exec,read_file -w overlay web",
    VERB_OPTS(opts),
    .run = run_mcp,
};
