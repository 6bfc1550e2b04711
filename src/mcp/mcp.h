/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn mcp`: the Model Context Protocol over standard input and output, for an agent outside whose work is to happen inside. Its tools act in
 * one persistent sandbox, the project's own unless one is named, which is started when it is first needed.
 *
 * What a tool does inside, a command inside does: exec, and the files' tools too. So no tool can see or change what a command in the
 * sandbox cannot, whatever its arguments say. Each call is a process of its own (mcp_work.c), several run at once, and cancelling one is
 * killing it: the sandbox ends the command of a client that hangs up. This process only passes lines on.
 */
#pragma once

#include "base/strv.h"

struct err;
struct run_request;

struct mcp_opts {
    const char *sandbox, *dir;         /* as in struct sandbox_start */
    const struct run_request *request; /* what shapes it */
    const struct strv *tools;          /* only these; empty: all */
};

/* -EINVAL (exit status 64): no such tool. */
int mcp_tools_check(const struct strv *names, struct err *err);
/* Until the input ends. Standard input and output are the client's. */
int mcp_serve(const struct mcp_opts *o, struct err *err);

struct mcp_http_opts {
    const char *address; /* "127.0.0.1:7071": loopback, with a port; 0: any that is free */
    const char *token;   /* a file; NULL: a new token, which is printed */
};
/* The same over HTTP (mcp_http.h), until it is ended. Prints where it is. */
int mcp_http_serve(const struct mcp_opts *o, const struct mcp_http_opts *http, struct err *err);
