/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 through the gate. What is sent on must be what the gate itself reads as the same requests: a second connection that
 * is fed with the first one's output must give that output again. The other half of the inputs drives both directions in any
 * order, with hooks that collect, refuse, hold back and put in.
 */
#include "base/buf.h"
#include "base/err.h"
#include "gateway/http/httpx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 * 1024 * 1024 };

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

struct line {
    struct httpx *x;
    size_t judged, passed, answered, refused;
    enum httpx_answer say;
    bool refuse_answer, decide; /* what hooks do */
    int held;                   /* a byte of the answer that is held back; -1: none */
    struct buf out[2];
};

static enum httpx_answer judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct line *l = arg;

    if (strlen(req->path.text) != req->path.len || (req->path.text[0] != '/' && strcmp(req->path.text, "*") != 0))
        BUG("a path that is none");
    if (strpbrk(req->query, " \r\n#") || (req->query[0] && req->query[0] != '?'))
        BUG("a query that is none");
    for (size_t i = 0; i < req->head->len; i++)
        if (strlen(req->head->v[i].name) != req->head->v[i].name_len ||
            strlen(req->head->v[i].value) != req->head->v[i].value_len)
            BUG("a header with a NUL in it");
    l->judged++;
    l->passed += l->say == HTTPX_ALLOW;
    if (l->say == HTTPX_DENY)
        policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, ret);
    return l->say;
}

static void refused(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why, int status) {
    ((struct line *)arg)->refused++;
}

static void collected(void *arg, uint32_t id, const uint8_t *body, size_t len) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct line *l = arg;

    if (len > HTTPX_COLLECT_MAX || !httpx_head(l->x, id))
        BUG("a body that is too large, or of a request that is gone");
    l->passed++;
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

    if (status)
        l->held = -1;
    if (l->refuse_answer)
        policy_refuse(POLICY_CANNOT_LOOK, "example.com", NULL, ret);
    return !l->refuse_answer && http_head_set(head, "X-Seen", "yes", 3) == 0;
}

/* Always one byte behind. */
static void receiving(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out) {
    struct line *l = arg;

    if (l->held >= 0 && (len || end)) {
        buf_addc(out, (char)l->held);
        l->held = -1;
    }
    if (len)
        buf_add(out, data, end ? len : len - 1);
    if (len && !end)
        l->held = data[len - 1];
}

static void line_open(struct line *l, bool proxied, bool hooks) {
    struct host host;
    struct httpx_opts opts = {.kind = HTTPX_H1, .host = &host, .port = 80, .proxied = proxied};

    if (host_parse("example.com", 11, &host, NULL) < 0)
        BUG("no host");
    *l = (struct line){.say = HTTPX_ALLOW, .held = -1, .out = {BUF_INIT(OUT_MAX), BUF_INIT(OUT_MAX)}};
    opts.hooks = (struct httpx_hooks){.arg = l, .judge = judge, .refused = refused};
    if (hooks) {
        opts.hooks.collected = collected;
        opts.hooks.sending = sending;
        opts.hooks.answer_head = answer_head;
        opts.hooks.receiving = receiving;
    }
    if (httpx_new(&opts, &l->x) < 0)
        BUG("no memory");
}

static void line_close(struct line *l) {
    httpx_free(l->x);
    buf_done(&l->out[0]);
    buf_done(&l->out[1]);
}

static void drain(struct line *l) {
    for (enum httpx_way way = 0; way < 2; way++) {
        const uint8_t *p;
        size_t n = httpx_out(l->x, way, &p);

        buf_add(&l->out[way], p, n);
        httpx_wrote(l->x, way, n);
    }
}

/* The server answers at once, so that pipelined requests go on. */
static void answer_all(struct line *l) {
    drain(l);
    while (l->answered < l->passed) {
        l->answered++;
        httpx_data(l->x, HTTPX_TO_CLIENT, (const uint8_t *)answer, sizeof answer - 1);
        drain(l);
    }
}

static void same_again(const uint8_t *data, size_t size, bool proxied, bool collect) {
    struct line one, two;
    size_t step = size ? 1 + data[0] : 1;

    line_open(&one, proxied, collect);
    line_open(&two, false, false);
    one.say = collect ? HTTPX_COLLECT : HTTPX_ALLOW;
    one.decide = true;
    for (size_t i = 0; i < size; i += step) {
        if (httpx_data(one.x, HTTPX_TO_SERVER, data + i, MIN_OF(step, size - i)) < 0)
            break;
        answer_all(&one);
    }
    answer_all(&one);
    if (one.out[HTTPX_TO_SERVER].len) {
        const struct buf *sent = &one.out[HTTPX_TO_SERVER], *again = &two.out[HTTPX_TO_SERVER];

        httpx_data(two.x, HTTPX_TO_SERVER, (const uint8_t *)sent->data, sent->len);
        answer_all(&two);
        if (two.refused || two.judged != one.passed || again->len != sent->len || memcmp(again->data, sent->data, sent->len) != 0)
            BUG("what is sent on is read in another way");
    }
    line_close(&one);
    line_close(&two);
}

/* What a hook's caller may do with a request that waits. */
static void act(struct line *l, uint32_t id, uint8_t how) {
    const struct policy_verdict v = {.action = how & 1 ? RULE_ALLOW : RULE_DENY, .code = POLICY_DENIED_HOST};
    struct http_head *head = httpx_head(l->x, id);

    if (head && how & 2 && http_head_set_secret(head, "Authorization", "secret", 6) < 0)
        BUG("a header could not be set");
    if (how & 4)
        httpx_set_query(l->x, id, how & 8 ? "?secret" : "");
    if (how & 16)
        httpx_answer(l->x, id, 200, "text/plain", "ours", 4);
    else
        httpx_decide(l->x, id, &v);
    if (httpx_head(l->x, id))
        BUG("a request still waits");
}

/* A byte that says what to do, then what with. */
static void any_order(const uint8_t *data, size_t size, bool hooks) {
    struct line l;

    line_open(&l, false, hooks);
    while (size >= 2) {
        uint8_t op = data[0];
        size_t n = MIN_OF((size_t)data[1], size - 2);

        l.say = (enum httpx_answer)(op >> 1 & 3);
        if (l.say == HTTPX_COLLECT && !hooks)
            l.say = HTTPX_WAIT;
        l.decide = data[1] & 1;
        l.refuse_answer = data[1] == 0xff;
        if ((op >> 3 & 7) == 7)
            httpx_eof(l.x, op & 1);
        else if ((op >> 3 & 7) == 6)
            act(&l, 1 + n / 32, (uint8_t)n);
        else
            httpx_data(l.x, op & 1, data + 2, n);
        if (op & 0x80)
            drain(&l);
        if (l.judged == 0 && l.out[HTTPX_TO_SERVER].len)
            BUG("bytes to the server before a verdict");
        data += 2 + n;
        size -= 2 + n;
    }
    line_close(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    if (data[0] == 'o' || data[0] == 'h')
        any_order(data + 1, size - 1, data[0] == 'h');
    else
        same_again(data, size, false, false);
    same_again(data, size, true, false);
    same_again(data, size, false, true);
    return 0;
}
