/* SPDX-License-Identifier: Apache-2.0 */
/* Values on their way in and out: into a request that waits, and covered in what comes back. */
#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/flow/flow_secret.h"
#include "proto/brokermsg.h"

/* The value, and all it looks like, is looked for in the answer. */
static int cover(struct flow_secret *s, const char *p, size_t len) {
    int r = s->cover ? 0 : cover_new(&s->cover);

    return r < 0 || !len ? r : cover_add(s->cover, p, len);
}

/* Headers that would have the server pack its answer, in which no value could be found then; or cut it, also within a value. */
static const char *const packing[] = {"sec-websocket-extensions", "grpc-accept-encoding"};
static const char *const cutting[] = {"range", "if-range", "request-range"};

int flow_secret_want_plain(struct flow_secret *s, struct http_head *head) {
    for (size_t i = 0; i < ARRAY_LEN(packing); i++)
        http_head_remove(head, packing[i]);
    for (size_t i = 0; s->whole_only && i < ARRAY_LEN(cutting); i++)
        http_head_remove(head, cutting[i]);
    return http_head_set(head, "Accept-Encoding", "identity", strlen("identity"));
}

/* "Basic dTpw": the part behind the space, which holds the value in a form of its own. */
static int cover_rendered(struct flow_secret *s, const struct broker_part *rendered, const struct broker_part *value) {
    const char *space = memchr(rendered->p, ' ', rendered->len);
    const char *from = space ? space + 1 : rendered->p;

    if (memmem(rendered->p, rendered->len, value->p, value->len))
        return 0;
    return cover(s, from, rendered->len - (size_t)(from - rendered->p));
}

/* Another parameter may follow, so the plan keeps what there is until the request goes on. A server may encode once more what
 * it was sent, so the encoded value has forms of its own. */
static int put_query(struct flow_request *q, const struct cred_put *put, const struct broker_part *value) {
    struct cred_plan *plan = &q->secret->plan;
    char *query = cred_query_add(plan->query, put->slot, value->p, value->len);
    const char *encoded;
    int r;

    if (!query)
        return -ENOMEM;
    cred_plan_set_query(plan, query);
    r = inspect_set_query(q->flow->inspect, q->id, query);
    encoded = strrchr(query, '=') + 1;
    return r < 0 || strlen(encoded) == value->len ? r : cover(q->secret, encoded, strlen(encoded));
}

static int put_rendered(struct flow_request *q, const struct cred_put *put, const uint8_t *data, size_t len) {
    struct http_head *head = inspect_head(q->flow->inspect, q->id);
    struct broker_part parts[2];
    int r = broker_parts_read(data, len, parts, ARRAY_LEN(parts));

    if (r < 0 || !head)
        return r < 0 ? r : -ENOENT;
    if (put->place == PLACE_QUERY)
        r = put_query(q, put, &parts[0]);
    else
        r = http_head_set_secret(head, put->slot, parts[0].p, parts[0].len);
    r = r < 0 ? r : cover(q->secret, parts[1].p, parts[1].len);
    return r < 0 ? r : cover_rendered(q->secret, &parts[0], &parts[1]);
}

static int put_signature(struct flow_request *q, const uint8_t *data, size_t len) {
    struct http_head *head = inspect_head(q->flow->inspect, q->id);
    struct broker_part parts[4];
    int r = broker_parts_read(data, len, parts, ARRAY_LEN(parts));

    if (r < 0 || !head)
        return r < 0 ? r : -ENOENT;
    r = http_head_set_secret(head, "Authorization", parts[0].p, parts[0].len);
    http_head_remove(head, "x-amz-security-token");
    if (r == 0 && parts[1].len)
        r = http_head_set_secret(head, "x-amz-security-token", parts[1].p, parts[1].len);
    for (size_t i = 1; r >= 0 && i < ARRAY_LEN(parts); i++)
        r = cover(q->secret, parts[i].p, parts[i].len);
    return r;
}

int flow_secret_cover(struct flow_secret *s, const uint8_t *data, size_t len) {
    struct broker_part parts[3];
    int r = broker_parts_read(data, len, parts, ARRAY_LEN(parts));

    r = r < 0 ? r : cover(s, parts[0].p, parts[0].len);
    r = r < 0 ? r : cover_rendered(s, &parts[1], &parts[0]);
    return r < 0 ? r : cover(s, parts[2].p, parts[2].len);
}

int flow_secret_put(struct flow_request *q, const struct cred_put *put, const uint8_t *data, size_t len) {
    return put->place == PLACE_SIGV4 ? put_signature(q, data, len) : put_rendered(q, put, data, len);
}

static bool has_body(const struct flow_request *q, int status) {
    return status >= 200 && status != 204 && status != 304 && !str_eq(q->msg.method, "HEAD");
}

static bool is_part(const struct http_head *head, int status) {
    const char *type = http_head_get(head, "content-type");

    return status == 206 || (type && strncasecmp(type, "multipart/byteranges", strlen("multipart/byteranges")) == 0);
}

static bool can_be_searched(const struct flow_request *q, const struct http_head *head, int status, struct policy_verdict *ret) {
    const char *why = NULL;

    if (!has_body(q, status) && status != 101)
        return true;
    if (!cred_is_plain(head))
        why = "The server packed its answer although it was asked not to, and a credential could be in it";
    else if (q->secret->whole_only && is_part(head, status))
        why = "The server gave a part of its answer although it was asked for all of it, and a credential could be cut by that";
    if (why)
        policy_refuse(POLICY_CANNOT_LOOK, q->flow->host.text, why, ret);
    return !why;
}

bool flow_secret_answer_head(void *arg, uint32_t id, int status, struct http_head *head, struct policy_verdict *ret) {
    struct flow_request *q = flow_request_find(arg, id);
    struct flow_secret *s = q ? q->secret : NULL;

    if (!s || (!s->cover && !s->token.watched))
        return true;
    flow_token_head(q, head);
    for (size_t i = 0; s->cover && i < head->len; i++) {
        cover_text(s->cover, head->v[i].name, head->v[i].name_len);
        cover_text(s->cover, head->v[i].value, head->v[i].value_len);
    }
    if (!can_be_searched(q, head, status, ret)) {
        flow_request_stopped(q, ret);
        return false;
    }
    s->is_websocket = status == 101;
    if (has_body(q, status))
        cover_ends_init(&s->ends, http_head_get(head, "content-type"));
    return true;
}

/* Nothing goes on that was not looked at: who fails marks out as failed. */
static void cover_piece(struct flow_secret *s, const uint8_t *data, size_t len, bool end, struct buf *out) {
    size_t upto = end ? len : s->is_websocket ? COVER_HOLD : cover_ends_take(&s->ends, data, len);
    int r = 0;

    s->fresh |= len > 0;
    if (!s->is_websocket)
        r = cover_pass(s->cover, &s->back, data, len, upto, out);
    else if (len)
        r = cover_ws_pass(s->cover, &s->back, &s->websocket, data, len, out);
    if (r == 0 && s->is_websocket && end)
        r = cover_ws_flush(s->cover, &s->back, &s->websocket, out);
    if (r < 0)
        out->failed = true;
}

void flow_secret_receiving(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out) {
    struct flow_request *q = flow_request_find(arg, id);
    struct flow_secret *s = q ? q->secret : NULL;
    CLEANUP(buf_done) struct buf tokens = BUF_INIT(len + TOKEN_COVER_MIN);

    if (s && s->token.watched) {
        flow_token_receiving(q, data, len, end, &tokens);
        data = (const uint8_t *)buf_str(&tokens);
        len = tokens.len;
        out->failed |= !buf_ok(&tokens);
    }
    if (s && s->cover)
        cover_piece(s, data, len, end, out);
    else
        buf_add(out, data, len);
}

bool flow_secret_pause(void *arg, uint32_t id, struct buf *out) {
    struct flow_request *q = flow_request_find(arg, id);
    struct flow_secret *s = q ? q->secret : NULL;
    bool fresh = s && s->fresh;
    int r;

    if (!s || !s->cover || !cover_holds(&s->back))
        return false;
    s->fresh = false;
    if (fresh)
        return true;
    r = s->is_websocket ? cover_ws_flush(s->cover, &s->back, &s->websocket, out)
                        : cover_pass(s->cover, &s->back, NULL, 0, 0, out);
    if (r < 0)
        out->failed = true;
    return false;
}
