/* SPDX-License-Identifier: Apache-2.0 */
/* A tool that runs on the host because the user's own configuration lists it in bypass_tools: `bawn exec --tool`. */
#pragma once

#include "base/macros.h"

struct err;

/* Replaces this program by the tool, after a record in the audit log; returns only on failure. dir: the workspace; NULL: the current folder. */
int host_tool_exec(const char *tool, const char *dir, char **argv, size_t argc, struct err *err);
