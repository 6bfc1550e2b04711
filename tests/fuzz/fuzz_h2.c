/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 through the gate: frames in any order from both peers, verdicts in between; hooks that collect, refuse, keep back
 * and put in. */
#include "base/buf.h"
#include "base/err.h"
#include "gateway/http/httpx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WAITING_MAX = 2 * 1024 * 1024, HELD_MAX = 1024 * 1024 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
static const char settings[] = "\0\0\0\4\0\0\0\0\0";

struct line {
    struct httpx *x;
    enum httpx_answer say;
    uint64_t max_body;
    const char *set; /* a header that the hook puts in */
    bool hold, refuse_answer, decide;
    struct buf held; /* of all answers: whose it is does not matter here */
};

static enum httpx_answer judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct line *l = arg;

    if (strlen(req->path.text) != req->path.len || (req->path.text[0] != '/' && strcmp(req->path.text, "*") != 0))
        BUG("a path that is none");
    if (strpbrk(req->query, " \r\n#") || (req->query[0] && req->query[0] != '?'))
        BUG("a query that is none");
    for (size_t i = 0; i < req->head->len; i++)
        if (req->head->v[i].name[0] == ':' || strpbrk(req->head->v[i].value, "\r\n"))
            BUG("a header that is none");
    if (l->set && http_head_set(req->head, l->set, "secret", 6) < 0)
        BUG("a header could not be set");
    ret->max_body = l->max_body;
    if (l->say == HTTPX_DENY)
        policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, ret);
    return l->say;
}

static void collected(void *arg, uint32_t id, const uint8_t *body, size_t len) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct line *l = arg;

    if (len > HTTPX_COLLECT_MAX || !httpx_head(l->x, id))
        BUG("a body that is too large, or of a request that is gone");
    if (l->decide)
        httpx_decide(l->x, id, &v);
}

static bool sending(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct policy_verdict *ret) {
    if (!len || !memchr(data, '!', len))
        return true;
    policy_refuse(POLICY_SECRET_MISPLACED, "example.com", NULL, ret);
    return false;
}

static bool answer_head(void *arg, uint32_t id, int status, struct http_head *head, struct policy_verdict *ret) {
    struct line *l = arg;

    if (l->refuse_answer)
        policy_refuse(POLICY_CANNOT_LOOK, "example.com", NULL, ret);
    return !l->refuse_answer && http_head_set(head, "x-seen", "yes", 3) == 0;
}

static void receiving(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out) {
    struct line *l = arg;

    buf_add(&l->held, data, len);
    if (l->hold && !end && buf_ok(&l->held))
        return;
    buf_add(out, buf_str(&l->held), l->held.len);
    buf_clear(&l->held);
}

/* What a hook's caller may do with a request that waits. */
static void act(struct line *l, uint32_t id, uint8_t op) {
    const struct policy_verdict v = {.action = op & 2 ? RULE_ALLOW : RULE_DENY, .code = POLICY_DENIED_HOST};
    struct http_head *head = httpx_head(l->x, id);

    if (head && op & 4 && http_head_set_secret(head, "Authorization", "secret", 6) < 0)
        BUG("a header could not be set");
    if (op & 4)
        httpx_set_query(l->x, id, op & 0x40 ? "?secret" : "");
    if (op & 1)
        httpx_answer(l->x, id, 200, "text/plain", "ours", 4);
    else
        httpx_decide(l->x, id, &v);
    if (httpx_head(l->x, id))
        BUG("a request still waits");
}

static void drain(struct line *l, enum httpx_way way) {
    const uint8_t *p;
    size_t n = httpx_out(l->x, way, &p);

    if (n > WAITING_MAX)
        BUG("too much waits");
    httpx_wrote(l->x, way, n);
}

/* A byte that says what to do, then what with. */
static void step(struct line *l, uint8_t op, const uint8_t *data, size_t n) {
    l->say = (enum httpx_answer)(op >> 1 & 3);
    l->hold = op & 0x20;
    l->decide = op & 0x40;
    l->refuse_answer = n == 0xff;
    l->max_body = op & 0x40 ? 8 : 0;
    l->set = op & 0x40 ? "X-Secret" : NULL;
    switch (op >> 3 & 7) {
    case 7:
        httpx_eof(l->x, op & 1);
        break;
    case 6:
        act(l, (uint32_t)n, op);
        break;
    default:
        httpx_data(l->x, op & 1, data, n);
        break;
    }
    if (op & 0x80) {
        drain(l, HTTPX_TO_CLIENT);
        drain(l, HTTPX_TO_SERVER);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct host host;
    struct line l = {.say = HTTPX_ALLOW, .held = BUF_INIT(HELD_MAX)};
    struct httpx_opts opts = {.kind = HTTPX_H2, .host = &host, .port = 443, .tls = true, .hooks = {.arg = &l, .judge = judge}};

    if (size && data[0] == 'h') { /* an operation of its own otherwise */
        opts.hooks.sending = sending;
        opts.hooks.answer_head = answer_head;
        opts.hooks.receiving = receiving;
    }
    opts.hooks.collected = collected;

    if (host_parse("example.com", 11, &host, NULL) < 0 || httpx_new(&opts, &l.x) < 0)
        BUG("no connection");
    httpx_data(l.x, HTTPX_TO_SERVER, (const uint8_t *)preface, sizeof preface - 1);
    httpx_data(l.x, HTTPX_TO_CLIENT, (const uint8_t *)settings, sizeof settings - 1);
    while (size >= 2) {
        size_t n = MIN_OF((size_t)data[1], size - 2);

        step(&l, data[0], data + 2, n);
        data += 2 + n;
        size -= 2 + n;
    }
    drain(&l, HTTPX_TO_CLIENT);
    drain(&l, HTTPX_TO_SERVER);
    httpx_free(l.x);
    buf_done(&l.held);
    return 0;
}
