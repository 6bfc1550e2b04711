/* SPDX-License-Identifier: Apache-2.0 */
/* A connection through httpx, for tests: text in, text out, and a judge that does what the test says. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "gateway/http/httpx.h"

enum { RIG_MAX = 64 * 1024 * 1024 };

struct rig {
    struct httpx *x;
    enum httpx_answer answer;
    uint64_t max_body;
    const char *deny_path; /* this one, whatever answer says */
    const char *set_name, *set_value;
    size_t judged, refused, answered;
    int refused_status, answered_status;
    uint32_t id;
    char method[40], path[200], query[200];
    bool has_body, upgrade;
    uint64_t body_len;
    struct buf out[2];
    struct hooked *hooked; /* hook_rig.h */
};

static enum httpx_answer rig_judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct rig *r = arg;

    r->judged++;
    r->id = req->id;
    snprintf(r->method, sizeof r->method, "%s", req->method);
    snprintf(r->path, sizeof r->path, "%.199s", req->path.text);
    snprintf(r->query, sizeof r->query, "%.199s", req->query);
    r->has_body = req->has_body;
    r->upgrade = req->upgrade;
    r->body_len = req->body_len;
    if (r->set_name)
        assert_int_equal(http_head_set(req->head, r->set_name, r->set_value, strlen(r->set_value)), 0);
    ret->max_body = r->max_body;
    if (r->answer != HTTPX_DENY && !(r->deny_path && str_eq(r->deny_path, r->path)))
        return r->answer;
    policy_refuse(POLICY_DENIED_PATH, "example.com", NULL, ret);
    return HTTPX_DENY;
}

static void rig_refused(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why,
                        int status) {
    struct rig *r = arg;

    r->refused++;
    r->refused_status = status;
    assert_int_equal(why->action, RULE_DENY);
}

static void rig_answered(void *arg, uint32_t id, int status) {
    struct rig *r = arg;

    r->answered++;
    r->answered_status = status;
}

/* more: hooks besides the usual ones. */
static inline void rig_open_with(struct rig *r, enum httpx_kind kind, bool tls, bool proxied, const struct httpx_hooks *more) {
    static struct host host;
    struct httpx_opts opts = {.kind = kind, .host = &host, .port = tls ? 443 : 80, .tls = tls, .proxied = proxied};

    assert_int_equal(host_parse("example.com", 11, &host, NULL), 0);
    *r = (struct rig){.answer = HTTPX_ALLOW, .out = {BUF_INIT(RIG_MAX), BUF_INIT(RIG_MAX)}};
    opts.hooks = *more;
    opts.hooks.arg = r;
    opts.hooks.judge = rig_judge;
    opts.hooks.refused = rig_refused;
    opts.hooks.answered = rig_answered;
    assert_int_equal(httpx_new(&opts, &r->x), 0);
}

static inline void rig_open(struct rig *r, enum httpx_kind kind, bool tls, bool proxied) {
    rig_open_with(r, kind, tls, proxied, &(struct httpx_hooks){0});
}

static inline void rig_close(struct rig *r) {
    httpx_free(r->x);
    buf_done(&r->out[0]);
    buf_done(&r->out[1]);
}

/* Everything that waits, both ways. */
static inline void rig_drain(struct rig *r) {
    size_t n, total;
    const uint8_t *p;

    do {
        total = 0;
        for (enum httpx_way way = 0; way < 2; way++) {
            n = httpx_out(r->x, way, &p);
            buf_add(&r->out[way], p, n);
            httpx_wrote(r->x, way, n);
            total += n;
        }
    } while (total);
}

static inline int rig_send(struct rig *r, enum httpx_way way, const void *data, size_t len) {
    int result = httpx_data(r->x, way, data, len);

    rig_drain(r);
    return result;
}

static inline int rig_client(struct rig *r, const char *text) {
    return rig_send(r, HTTPX_TO_SERVER, text, strlen(text));
}

static inline int rig_server(struct rig *r, const char *text) {
    return rig_send(r, HTTPX_TO_CLIENT, text, strlen(text));
}

static inline void rig_eof(struct rig *r, enum httpx_way way) {
    httpx_eof(r->x, way);
    rig_drain(r);
}

static inline const char *rig_to_server(struct rig *r) {
    return buf_str(&r->out[HTTPX_TO_SERVER]);
}

static inline const char *rig_to_client(struct rig *r) {
    return buf_str(&r->out[HTTPX_TO_CLIENT]);
}

static inline void rig_clear(struct rig *r) {
    buf_clear(&r->out[0]);
    buf_clear(&r->out[1]);
}

static inline bool rig_over(const struct rig *r) {
    return httpx_finished(r->x, HTTPX_TO_CLIENT) && httpx_finished(r->x, HTTPX_TO_SERVER);
}
