/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that ask for more: a port of the sandbox on this machine, and what a human has to grant. */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "ops/policy/access_ask.h"

/* -- expose_port --------------------------------------------------------------------------------------------------------- */

struct expose_call {
    int port;
};

static const struct json_field expose_fields[] = {JSON_INT("port", struct expose_call, port, 1, UINT16_MAX)};
static const struct json_table expose_table = {expose_fields, ARRAY_LEN(expose_fields), .strict = true};

/* "--publish=[ADDRESS:]INSIDE[:OUTSIDE]" of the sandbox's options: the address for this port; false: it is about another one. */
static bool expose_matches(const char *word, int port, struct buf *out) {
    static const char option[] = "--publish=";
    const char *ports = word + sizeof option - 1, *last, *middle;
    uint64_t inside = 0, outside = 0;

    if (!str_starts(word, option))
        return false;
    last = strrchr(ports, ':');
    middle = last ? memrchr(ports, ':', (size_t)(last - ports)) : NULL;
    if (parse_u64(last ? last + 1 : ports, 0, UINT16_MAX, &outside, NULL) < 0)
        return false;
    inside = last ? strtoul(middle ? middle + 1 : ports, NULL, 10) : outside;
    if (inside != (uint64_t)port || outside == 0)
        return false;
    buf_addf(out, "%.*s:%llu", middle ? (int)(middle - ports) : 9, middle ? ports : "127.0.0.1", (unsigned long long)outside);
    return true;
}

/* Listeners are made with the sandbox, so that a port that is taken is known before anything runs. */
int mcp_tool_expose(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(buf_done) struct buf address = BUF_INIT(256);
    struct jsonout j = {.to = &ret->json, .compact = true};
    struct expose_call q = {0};
    int r = json_table_read(&expose_table, arguments, &q, err);

    r = r < 0 ? r : mcp_sandbox(c, err);
    r = r < 0 ? r : sandbox_pick(&(struct sandbox_pick_opts){.name = c->name, .need = SANDBOX_RUNNING}, &p, err);
    for (size_t i = 0; r == 0 && !address.len && i < p.box.info.options.len; i++)
        expose_matches(p.box.info.options.v[i], q.port, &address);
    if (r < 0)
        return r;
    if (!address.len)
        return err_set(err, -ENOENT,
                       "port %d of the sandbox is not published; ask the user to run: bawn stop %s && bawn start %s --publish %d",
                       q.port, c->name, c->name, q.port);
    jsonout_open(&j, NULL, '{');
    jsonout_int(&j, "port", q.port);
    jsonout_text(&j, "address", buf_str(&address));
    jsonout_close(&j, '}');
    buf_addf(&ret->text, "port %d of the sandbox answers on %s of this machine", q.port, buf_str(&address));
    return 0;
}

/* -- request_access ------------------------------------------------------------------------------------------------------ */

struct access_call {
    int kind;
    char *value, *reason;
};

static const struct json_field access_fields[] = {
    {.key = "kind",
     .kind = JSON_KIND_ENUM,
     JSON_AT(struct access_call, kind, OFFSET_AS_ENUM(struct access_call, kind)),
     .names = access_kinds,
     .n_names = ACCESS_KINDS},
    JSON_STRING_OF("value", struct access_call, value, 0),
    JSON_STRING_OF("reason", struct access_call, reason, 0),
};
static const struct json_table access_table = {access_fields, ARRAY_LEN(access_fields), .strict = true};

int mcp_tool_request(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    struct jsonout j = {.to = &ret->json, .compact = true};
    struct access_answer answer = {0};
    struct access_call q = {0};
    int r = json_table_read(&access_table, arguments, &q, err);

    r = r < 0 ? r : mcp_sandbox(c, err);
    if (r == 0) {
        const struct access_wish wish = {
            .sandbox = c->name, .kind = (enum access_kind)q.kind, .value = q.value, .reason = q.reason};

        r = access_ask(&wish, &answer, err);
    }
    free(q.value);
    free(q.reason);
    if (r < 0)
        return r;
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "granted", answer.granted);
    jsonout_text(&j, "how", answer.how);
    jsonout_text(&j, "reason", answer.reason);
    jsonout_text(&j, "note", answer.note);
    jsonout_close(&j, '}');
    buf_addf(&ret->text, answer.granted ? "granted (%s)" : "refused%s", answer.granted ? answer.how : "");
    if (answer.reason[0])
        buf_addf(&ret->text, ": %s", answer.reason);
    if (answer.note[0])
        buf_addf(&ret->text, "\n%s", answer.note);
    return 0;
}
