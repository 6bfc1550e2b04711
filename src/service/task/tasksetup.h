/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request gives an agent: instructions, skills, MCP servers, as the file of `bawn run --agent-setup` (ops/agent/agent_setup.h). It is in memory
 * only, and made by the tenant's own process. `bawn` reads and checks it.
 */
#pragma once

struct buf;
struct err;

/* A descriptor of the file; -ENOENT: the request has none of it, and err is not set. */
int tasksetup_open(const struct buf *request, struct err *err);
