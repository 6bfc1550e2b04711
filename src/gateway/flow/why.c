/* SPDX-License-Identifier: Apache-2.0 */
/* The page that says what was denied lately. */
#include "gateway/flow/why.h"

#include <errno.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"

struct refusal {
    uint64_t at_s;
    uint64_t times; /* the same again and again is one line */
    uint16_t port;
    enum policy_code code;
    char host[HOST_TEXT_MAX + 1];
    char reason[sizeof((struct policy_verdict *)0)->reason], hint[sizeof((struct policy_verdict *)0)->hint];
};

struct why {
    struct refusal v[WHY_REFUSALS]; /* a ring */
    size_t next, len;
};

int why_new(struct why **ret) {
    struct why *w = calloc(1, sizeof *w);

    if (!w)
        return -ENOMEM;
    *ret = w;
    return 0;
}

void why_free(struct why *w) {
    free(w);
}

static bool is_same(const struct refusal *r, const char *host, uint16_t port, const struct policy_verdict *v) {
    return r->port == port && r->code == v->code && str_eq(r->host, host) && str_eq(r->reason, v->reason);
}

/* back: 0 is the latest. */
static const struct refusal *refusal_at(const struct why *w, size_t back) {
    return &w->v[(w->next + WHY_REFUSALS - 1 - back) % WHY_REFUSALS];
}

static void fill_refusal(struct refusal *r, uint64_t now_s, const char *host, uint16_t port, const struct policy_verdict *v) {
    *r = (struct refusal){.at_s = now_s, .times = 1, .port = port, .code = v->code};
    snprintf(r->host, sizeof r->host, "%s", host);
    snprintf(r->reason, sizeof r->reason, "%s", v->reason);
    snprintf(r->hint, sizeof r->hint, "%s", v->hint);
}

void why_note(struct why *w, uint64_t now_s, const char *host, uint16_t port, const struct policy_verdict *v) {
    struct refusal *r;

    if (!w)
        return;
    for (size_t i = 0; i < w->len; i++) {
        r = (struct refusal *)(uintptr_t)refusal_at(w, i);
        if (is_same(r, host, port, v)) {
            r->at_s = now_s;
            r->times++;
            return;
        }
        if (port && is_same(r, host, 0, v)) { /* the lookup before it */
            fill_refusal(r, now_s, host, port, v);
            return;
        }
    }
    fill_refusal(&w->v[w->next], now_s, host, port, v);
    w->next = (w->next + 1) % WHY_REFUSALS;
    w->len = MIN_OF(w->len + 1, (size_t)WHY_REFUSALS);
}

struct why_question {
    bool ok, why, json;
    char host[HOST_TEXT_MAX + 1]; /* "": all */
};

static void add_refusal_text(const struct refusal *r, uint64_t now_s, struct buf *b) {
    buf_adds(b, "- ");
    buf_add_printable(b, r->host[0] ? r->host : "(unreadable name)");
    if (r->port)
        buf_addf(b, ":%u", r->port);
    buf_addf(b, " %s", policy_codes[r->code].name);
    if (r->times > 1)
        buf_addf(b, " (%llu times)", (unsigned long long)r->times);
    buf_addf(b, ", %llu s ago\n  ", (unsigned long long)(now_s - r->at_s));
    buf_add_printable(b, r->reason);
    buf_adds(b, "\n  ");
    buf_add_printable(b, r->hint);
    buf_adds(b, "\n");
}

static void add_refusal_json(const struct refusal *r, uint64_t now_s, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "code", policy_codes[r->code].name);
    jsonout_text(j, "host", r->host);
    jsonout_u64(j, "port", r->port);
    jsonout_u64(j, "times", r->times);
    jsonout_u64(j, "secondsAgo", now_s - r->at_s);
    jsonout_text(j, "reason", r->reason);
    jsonout_text(j, "hint", r->hint);
    jsonout_close(j, '}');
}

static void add_refusals(const struct why *w, uint64_t now_s, const struct why_question *q, struct buf *b) {
    struct jsonout j = {.to = b};
    size_t shown = 0;

    buf_adds(b, q->json ? "{\"refusals\": [" : "What Bawn denied to this sandbox, the latest first:\n");
    for (size_t i = 0; i < w->len; i++) {
        const struct refusal *r = refusal_at(w, i);

        if (q->host[0] && !str_eq(q->host, r->host))
            continue;
        if (q->json && shown)
            jsonout_break(&j, "\n");
        if (q->json)
            add_refusal_json(r, now_s, &j);
        else
            add_refusal_text(r, now_s, b);
        shown++;
    }
    if (q->json)
        buf_adds(b, "]}\n");
    else if (!shown)
        buf_adds(b, "(nothing)\n");
}

static const char help[] = "This is Bawn's gate: every connection of this sandbox passes it.\n"
                           "\n"
                           "http://bawn.internal/why            what it denied, and what would help\n"
                           "http://bawn.internal/why?host=NAME  the same for one host\n"
                           "http://bawn.internal/why.json       for programs\n"
                           "\n"
                           "POST http://bawn.internal/request   asks the user for more, and waits: JSON with\n"
                           "    kind     network, path or package\n"
                           "    value    HOST or HOST:PORT, a path of the host, the name of a package\n"
                           "    reason   why you need it\n";

/* "/why.json?host=H" of the request line. Unknown paths get the help, too. */
static void read_target(const char *target, size_t len, struct why_question *q) {
    const char *query = memchr(target, '?', len);
    size_t path = query ? (size_t)(query - target) : len;
    static const char key[] = "?host=";
    struct host host;

    q->why = path >= 4 && memcmp(target, "/why", 4) == 0;
    q->json |= path == 9 && memcmp(target, "/why.json", 9) == 0;
    if (!query || len - path < sizeof key || memcmp(query, key, sizeof key - 1) != 0)
        return;
    if (host_parse(query + sizeof key - 1, len - path - (sizeof key - 1), &host, NULL) == 0)
        memcpy(q->host, host.text, host.len + 1);
    else
        q->ok = false;
}

static void read_question(const char *head, size_t len, struct why_question *q) {
    static const char scheme[] = "http://";
    const char *end = memchr(head, '\r', len), *target, *stop;

    if (!end || end - head < 5 || memcmp(head, "GET ", 4) != 0)
        return;
    target = head + 4;
    stop = memchr(target, ' ', (size_t)(end - target));
    if (!stop)
        return;
    if ((size_t)(stop - target) > sizeof scheme && memcmp(target, scheme, sizeof scheme - 1) == 0) {
        target = memchr(target + sizeof scheme - 1, '/', (size_t)(stop - target) - (sizeof scheme - 1));
        if (!target)
            target = stop; /* no path: the help */
    }
    q->ok = true;
    q->json = memmem(head, len, "application/json", 16) != NULL;
    read_target(target, (size_t)(stop - target), q);
}

bool why_answer(const struct why *w, uint64_t now_s, const uint8_t *request, size_t len, struct buf *out) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(WHY_ANSWER_MAX - 1024);
    struct why_question q = {0};

    if (len < WHY_REQUEST_MAX && !memmem(request, len, "\r\n\r\n", 4))
        return false;
    read_question((const char *)request, len, &q);
    if (q.ok && q.why)
        add_refusals(w, now_s, &q, &body);
    else
        buf_adds(&body, help);
    buf_addf(out, "HTTP/1.1 %s\r\nContent-Type: %s\r\n", q.ok ? "200 OK" : "400 Bad Request",
             q.ok && q.why && q.json ? "application/json" : "text/plain; charset=utf-8");
    buf_addf(out, "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", body.len);
    buf_add(out, buf_str(&body), body.len);
    return true;
}
