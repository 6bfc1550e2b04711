/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-front as the front of `bawn mcp --http` (API_CONF_MCP in START): one path, three methods, and none of the routes of the API.
 * Rows of the same tables, with numbers of their own, which no operation or field of spec/openapi.yaml has.
 */
#pragma once

#include "proto/api/apitable.h"

#define MCP_PATH "/mcp"

enum mcp_op { MCP_OP_POST = 0x4001, MCP_OP_GET, MCP_OP_DELETE };

enum mcp_field {
    MCP_FIELD_SESSION = 0x4001, /* Mcp-Session-Id */
    MCP_FIELD_VERSION,          /* MCP-Protocol-Version */
    MCP_FIELD_BODY              /* the message, without line feeds */
};

enum { MCP_SESSION_MAX = 64, MCP_VERSION_MAX = 32, MCP_BODY_MAX = 8 * 1024 * 1024 };

static_assert(API_OPS <= (int)MCP_OP_POST && API_FIELDS <= (int)MCP_FIELD_SESSION, "numbers of their own");
