/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front of `bawn mcp --http`: streamable HTTP of the Model Context Protocol at one path. Nothing of a message is understood here: it is passed
 * on as one line. Each answer is a JSON message, or server-sent events that come ready-made.
 *
 * A page of another site cannot get here: its Host is not ours (front_head.c), its Origin is refused here, it cannot send JSON or a header of
 * its own without being allowed to by us, which never happens, and it has no token.
 */
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "proto/api/mcproute.h"
#include "service/front/front.h"

#define SESSION_HEADER "Mcp-Session-Id"

static const struct api_check checks[] = {
    {.field = (uint16_t)MCP_FIELD_SESSION,
     .name = "mcp_session_id",
     .wire = SESSION_HEADER,
     .in = API_IN_HEADER,
     .check = API_CHECK_PRINTABLE,
     .max = MCP_SESSION_MAX,
     .max_items = 1},
    {.field = (uint16_t)MCP_FIELD_VERSION,
     .name = "mcp_protocol_version",
     .wire = "MCP-Protocol-Version",
     .in = API_IN_HEADER,
     .check = API_CHECK_PRINTABLE,
     .max = MCP_VERSION_MAX,
     .max_items = 1},
};
static const struct api_schema schema = {checks, ARRAY_LEN(checks)};

static const struct api_route routes[] = {
    {.op = (enum api_op)MCP_OP_POST,
     .method = API_METHOD_POST,
     .path = MCP_PATH,
     .id = "mcpPost",
     .scope = API_SCOPE_TENANT,
     .body = API_BODY_JSON,
     .answer = API_ANSWER_EITHER,
     .status = 200,
     .content = "text/event-stream",
     .schema = &schema},
    {.op = (enum api_op)MCP_OP_GET,
     .method = API_METHOD_GET,
     .path = MCP_PATH,
     .id = "mcpStream",
     .scope = API_SCOPE_TENANT,
     .answer = API_ANSWER_STREAM,
     .status = 200,
     .content = "text/event-stream",
     .schema = &schema},
    {.op = (enum api_op)MCP_OP_DELETE,
     .method = API_METHOD_DELETE,
     .path = MCP_PATH,
     .id = "mcpEnd",
     .scope = API_SCOPE_TENANT,
     .answer = API_ANSWER_JSON,
     .status = 204,
     .schema = &schema},
};

struct route_match front_mcp_route(const struct uri *u, int method) {
    return route_find_in(routes, ARRAY_LEN(routes), u, method);
}

int front_mcp_origin(struct front_exchange *x, struct front_fault *fault) {
    const char *origin = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN),
               *host = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

    if (!origin || (host && strncasecmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0))
        return 0;
    return fault_set(fault, 403, API_PROBLEM_FORBIDDEN, "a request from another site");
}

/* A line feed in JSON is a space, or an error: a string has none. */
int front_mcp_body(struct front_exchange *x, struct front_fault *fault) {
    char *text = x->body.data;

    if (memchr(text, 0, x->body.len))
        return fault_set(fault, 400, API_PROBLEM_BAD_JSON, "the body has a NUL");
    for (size_t i = 0; i < x->body.len; i++)
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
    return api_fields_add(&x->fields, MCP_FIELD_BODY, text, x->body.len);
}

/* "SESSION NUL JSON": SESSION is empty unless the answer begins one. */
static void answer_json(struct front_exchange *x, struct api_msg *m) {
    const char *session = api_msg_text(m, 0), *json = api_msg_text(m, 1);
    const char *const other[] = {SESSION_HEADER, session, NULL};
    size_t len = strlen(json);

    front_answer_with(x, m->value, MHD_create_response_from_buffer(len, (void *)(uintptr_t)json, MHD_RESPMEM_MUST_COPY),
                      len ? "application/json" : NULL, session[0] ? other : NULL);
    front_answer_ready(x);
}

void front_mcp_answer(struct front_exchange *x, struct api_msg *m) {
    x->form = FORM_BYTES;
    if (m->flags & API_FLAG_STREAM)
        front_source_begin(x, m);
    else if (m->value >= 400 && api_msg_text(m, 0)[0])
        front_answer_refusal(x, m->value, m, 0);
    else
        answer_json(x, m);
}
