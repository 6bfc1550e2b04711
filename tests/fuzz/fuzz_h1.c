/*
 * HTTP/1 through the gate. What is sent on must be what the gate itself reads as the same requests: a second connection that
 * is fed with the first one's output must give that output again. The other half of the inputs drives both directions in any
 * order.
 */
#include "base/buf.h"
#include "base/err.h"
#include "gateway/httpx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 * 1024 * 1024 };

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

struct line {
    struct httpx *x;
    size_t judged, answered, refused;
    enum httpx_answer say;
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
    if (l->say == HTTPX_DENY)
        policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, ret);
    return l->say;
}

static void refused(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why, int status) {
    ((struct line *)arg)->refused++;
}

static void line_open(struct line *l, bool proxied) {
    struct host host;
    struct httpx_opts opts = {.kind = HTTPX_H1, .host = &host, .port = 80, .proxied = proxied};

    if (host_parse("example.com", 11, &host, NULL) < 0)
        BUG("no host");
    *l = (struct line){.say = HTTPX_ALLOW, .out = {BUF_INIT(OUT_MAX), BUF_INIT(OUT_MAX)}};
    opts.hooks = (struct httpx_hooks){.arg = l, .judge = judge, .refused = refused};
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
    while (l->answered < l->judged) {
        l->answered++;
        httpx_data(l->x, HTTPX_TO_CLIENT, (const uint8_t *)answer, sizeof answer - 1);
        drain(l);
    }
}

static void same_again(const uint8_t *data, size_t size, bool proxied) {
    struct line one, two;
    size_t step = size ? 1 + data[0] : 1;

    line_open(&one, proxied);
    line_open(&two, false);
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
        if (two.refused || two.judged != one.judged || again->len != sent->len || memcmp(again->data, sent->data, sent->len) != 0)
            BUG("what is sent on is read in another way");
    }
    line_close(&one);
    line_close(&two);
}

/* A byte that says what to do, then what with. */
static void any_order(const uint8_t *data, size_t size) {
    struct policy_verdict v = {.action = RULE_ALLOW};
    struct line l;

    line_open(&l, false);
    while (size >= 2) {
        uint8_t op = data[0];
        size_t n = MIN_OF((size_t)data[1], size - 2);

        l.say = (enum httpx_answer)(op >> 1 & 3) % 3;
        if ((op >> 3 & 7) == 7)
            httpx_eof(l.x, op & 1);
        else if ((op >> 3 & 7) == 6)
            httpx_decide(l.x, (uint32_t)n, &v);
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
    if (data[0] == 'o')
        any_order(data + 1, size - 1);
    else
        same_again(data, size, false);
    same_again(data, size, true);
    return 0;
}
