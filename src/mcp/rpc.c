/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes lines of JSON-RPC. */
#include "mcp/rpc.h"

#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"

void rpc_reader_done(struct rpc_reader *r) {
    buf_done(&r->line);
}

/* -- one line ------------------------------------------------------------------------------------------------------------ */

/* jansson has a ceiling of its own, but every level costs a frame of its parser: count before it begins. */
static bool rpc_is_deep(const char *text, size_t len) {
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        if (quoted && text[i] == '\\') {
            i++;
        } else if (quoted) {
            quoted = text[i] != '"';
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '[' || text[i] == '{') {
            if (++depth > RPC_DEPTH_MAX)
                return true;
        } else if ((text[i] == ']' || text[i] == '}') && depth) {
            depth--;
        }
    }
    return false;
}

static bool rpc_is_id(const json_t *id) {
    return json_is_integer(id) || json_is_real(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

/* Why it is no request; NULL: it is one. */
static const char *rpc_fault(const json_t *v) {
    const json_t *method = json_object_get(v, "method"), *id = json_object_get(v, "id"), *params = json_object_get(v, "params");

    if (!json_is_object(v))
        return "a message must be an object";
    if (!str_eq(json_get_text(v, "jsonrpc"), "2.0"))
        return "\"jsonrpc\" must be \"2.0\"";
    if (!json_is_string(method) || json_string_length(method) > RPC_METHOD_MAX)
        return "\"method\" must be a short string";
    if (id && !rpc_is_id(id))
        return "\"id\" must be a short string or a number";
    return params && !json_is_object(params) ? "\"params\" must be an object" : NULL;
}

static bool rpc_is_answer(const json_t *v) {
    return json_is_object(v) && !json_object_get(v, "method") && (json_object_get(v, "result") || json_object_get(v, "error"));
}

static void rpc_take(struct rpc_reader *r, const json_t *v) {
    const json_t *id = json_object_get(v, "id");
    const char *fault = rpc_fault(v);
    const struct rpc_message m = {id, json_string_value(json_object_get(v, "method")), json_object_get(v, "params")};

    if (rpc_is_answer(v))
        return;
    if (fault)
        r->refuse(r->arg, rpc_is_id(id) ? id : NULL, RPC_INVALID_REQUEST, fault);
    else
        r->message(r->arg, &m);
}

static void rpc_take_batch(struct rpc_reader *r, const json_t *list) {
    size_t n = json_array_size(list);

    if (n == 0 || n > RPC_BATCH_MAX)
        r->refuse(r->arg, NULL, RPC_INVALID_REQUEST, n ? "too many messages in one list" : "an empty list is no message");
    for (size_t i = 0; n <= RPC_BATCH_MAX && i < n; i++)
        rpc_take(r, json_array_get(list, i));
}

static void rpc_take_line(struct rpc_reader *r, const char *text, size_t len) {
    CLEANUP(json_decrefp) json_t *v = NULL;
    json_error_t why;

    if (strspn(text, " \t\r") == len)
        return;
    if (rpc_is_deep(text, len)) {
        r->refuse(r->arg, NULL, RPC_PARSE_ERROR, "the message is nested too deeply");
        return;
    }
    v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!v)
        r->refuse(r->arg, NULL, RPC_PARSE_ERROR, why.text);
    else if (json_is_array(v))
        rpc_take_batch(r, v);
    else
        rpc_take(r, v);
}

void rpc_feed(struct rpc_reader *r, const char *data, size_t len) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;

        if (!r->skipping)
            buf_add(&r->line, data, n);
        if (!r->skipping && !buf_ok(&r->line)) {
            r->skipping = true;
            r->refuse(r->arg, NULL, RPC_PARSE_ERROR, "the message is too long");
        }
        if (end && !r->skipping)
            rpc_take_line(r, buf_str(&r->line), r->line.len);
        if (end || r->skipping) {
            buf_done(&r->line);
            r->line = (struct buf)BUF_INIT(RPC_LINE_MAX);
        }
        r->skipping = r->skipping && !end;
        data += n + (end != NULL);
        len -= n + (end != NULL);
    }
}

/* -- writing ------------------------------------------------------------------------------------------------------------- */

static void rpc_add_id(struct buf *out, const json_t *id) {
    CLEANUP(freep) char *text = id ? json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    buf_adds(out, text ? text : "null");
}

void rpc_begin_answer(struct buf *out, const json_t *id, const char *member) {
    buf_adds(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    rpc_add_id(out, id);
    buf_addf(out, ",\"%s\":", member);
}

void rpc_add_error(struct buf *out, const json_t *id, enum rpc_code code, const char *why) {
    rpc_begin_answer(out, id, "error");
    buf_addf(out, "{\"code\":%d,\"message\":", (int)code);
    rpc_add_text(out, why, strlen(why));
    buf_adds(out, "}}\n");
}

/* buf_add_json() takes strings, and a NUL ends one. */
void rpc_add_text(struct buf *out, const char *data, size_t len) {
    CLEANUP(freep) char *copy = NULL;
    const char *end = data + len;

    buf_addc(out, '"');
    for (;;) {
        CLEANUP(buf_done) struct buf piece = BUF_INIT(out->ceiling);
        size_t n = strnlen(data, (size_t)(end - data));

        free(copy);
        copy = strndup(data, n);
        buf_add_json(&piece, copy ? copy : "");
        if (piece.len > 2)
            buf_add(out, piece.data + 1, piece.len - 2);
        data += n;
        if (data == end)
            break;
        buf_adds(out, "\\u0000");
        data++;
    }
    buf_addc(out, '"');
}
