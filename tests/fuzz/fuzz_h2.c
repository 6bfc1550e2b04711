/* HTTP/2 through the gate: frames in any order from both peers, verdicts in between. */
#include "base/buf.h"
#include "base/err.h"
#include "gateway/httpx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WAITING_MAX = 2 * 1024 * 1024 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
static const char settings[] = "\0\0\0\4\0\0\0\0\0";

struct line {
    struct httpx *x;
    enum httpx_answer say;
    uint64_t max_body;
    const char *set; /* a header that the hook puts in */
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

static void drain(struct line *l, enum httpx_way way) {
    const uint8_t *p;
    size_t n = httpx_out(l->x, way, &p);

    if (n > WAITING_MAX)
        BUG("too much waits");
    httpx_wrote(l->x, way, n);
}

/* A byte that says what to do, then what with. */
static void step(struct line *l, uint8_t op, const uint8_t *data, size_t n) {
    struct policy_verdict v = {.action = op & 2 ? RULE_ALLOW : RULE_DENY, .code = POLICY_DENIED_HOST};

    l->say = (enum httpx_answer)(op >> 1 & 3) % 3;
    l->max_body = op & 0x40 ? 8 : 0;
    l->set = op & 0x40 ? "X-Secret" : NULL;
    switch (op >> 3 & 7) {
    case 7:
        httpx_eof(l->x, op & 1);
        break;
    case 6:
        httpx_decide(l->x, (uint32_t)n, &v);
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
    struct line l = {.say = HTTPX_ALLOW};
    struct httpx_opts opts = {.kind = HTTPX_H2, .host = &host, .port = 443, .tls = true, .hooks = {.arg = &l, .judge = judge}};

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
    return 0;
}
