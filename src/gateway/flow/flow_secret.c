/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of inspected requests:
 *
 *     begin       placeholders where they do not belong: refused. Which grants go in (injection.h)
 *     collected   SigV4 signs the body, too
 *     fetch       the broker judges the request itself and gives the value for it, for this one request
 *     go          all values are in: the request goes on
 *     sending     the body is watched for placeholders
 *     answer      the values of all grants for this host, also of those that did not go into this request (a page that shows the
 *                 last key on another port), are covered with '*', however they are encoded (ATTACKS 55, cover.h)
 *
 * A value is in the request's head, until that is written, and in the cover of the answer, until that is over.
 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/flow/flow_secret.h"
#include "gateway/secret/brokerlink.h"

static void secret_name(struct flow_request *q, const char *name) {
    snprintf(q->msg.secret, sizeof q->msg.secret, "%s", name);
}

void flow_secret_done(struct flow_secret *s) {
    if (!s)
        return;
    if (s->call)
        broker_call_cancel(s->call);
    cred_plan_done(&s->plan);
    cred_body_done(&s->body);
    cover_stream_done(&s->back);
    cover_free(s->cover);
    placeholders_unref(s->placeholders);
    free(s->canonical);
    free(s);
}

static enum httpx_answer refuse_memory(struct flow *f, struct policy_verdict *ret) {
    policy_refuse(POLICY_SECRET_UNAVAILABLE, f->host.text, "The gate is out of memory", ret);
    return HTTPX_DENY;
}

static void refuse_misplaced(struct flow_request *q, uint32_t tag, const char *where, struct policy_verdict *ret) {
    const char *name = placeholders_name(q->secret->placeholders, tag);
    char why[200];

    secret_name(q, name);
    snprintf(why, sizeof why, "It is that of '%s', in %s%s", name, where, q->flow->is_tls ? "" : ", and this is plain HTTP");
    policy_refuse(POLICY_SECRET_MISPLACED, q->flow->host.text, why, ret);
}

static const struct cred_put *find_sigv4(const struct cred_plan *plan) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].place == PLACE_SIGV4)
            return &plan->puts[i];
    return NULL;
}

/* What is signed, but for the hash of the body if that has to be made first. */
static int begin_sigv4(struct flow_request *q, const struct httpx_request *req, struct err *err) {
    const struct cred_put *put = find_sigv4(&q->secret->plan);
    CLEANUP(buf_done) struct buf b = BUF_INIT(BROKER_DATA_MAX);
    bool needs_hash = false;
    int r;

    if (!put)
        return 0;
    r = sigv4_canonical(
        &(struct sigv4_request){.http = req, .host = &q->flow->host, .port = q->flow->port, .service = put->sigv4}, &b,
        &needs_hash, err);
    if (r < 0)
        return r;
    q->secret->canonical = buf_take(&b);
    if (!q->secret->canonical)
        return err_oom(err);
    q->secret->collecting |= needs_hash;
    q->secret->needs_hash = needs_hash;
    return 0;
}

static bool is_put(const struct cred_plan *plan, size_t index) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].index == index)
            return true;
    return false;
}

/* Every grant for this host, on whatever port, with or without TLS. */
static void begin_cover(struct flow_request *q) {
    const struct gate_config *c = &q->flow->gate->config;
    struct flow_secret *s = q->secret;

    for (uint32_t i = 0; i < c->n_grants; i++) {
        if (!credential_next_port(&c->grants[i].c, q->flow->host.text, &(size_t){0}))
            continue;
        s->whole_only |= c->grants[i].c.place != PLACE_SIGV4; /* the server never gets that key, only what was made with it */
        if (!is_put(&s->plan, i))
            s->extra[s->n_extra++] = i;
    }
}

static int begin_plan(struct flow_request *q, struct httpx_request *req, struct policy_verdict *ret) {
    struct flow *f = q->flow;
    const struct cred_request r = {
        .grants = f->gate->config.grants,
        .n_grants = f->gate->config.n_grants,
        .placeholders = q->secret->placeholders,
        .host = f->host.text,
        .port = f->port,
        .tls = f->is_tls,
        .http = req,
    };
    const char *where = "";
    uint32_t tag = 0;
    int e = cred_plan(&r, &q->secret->plan, &tag, &where);

    if (e == -EACCES)
        refuse_misplaced(q, tag, where, ret);
    else if (e < 0)
        refuse_memory(f, ret);
    else
        begin_cover(q);
    return e;
}

static struct flow_secret *secret_new(struct gate *g, const struct http_head *head) {
    struct flow_secret *s = g->placeholders ? calloc(1, sizeof *s) : NULL;

    if (!s)
        return NULL;
    s->placeholders = placeholders_ref(g->placeholders);
    if (cred_body_init(&s->body, head) == 0)
        return s;
    flow_secret_done(s);
    return NULL;
}

enum httpx_answer flow_secret_begin(struct flow_request *q, struct httpx_request *req, struct policy_verdict *ret) {
    struct flow *f = q->flow;
    struct err err = {0};

    if (!f->gate->config.n_grants) /* a reload took the last one away */
        return HTTPX_ALLOW;
    q->secret = secret_new(f->gate, req->head);
    if (!q->secret)
        return refuse_memory(f, ret);
    flow_token_begin(q, req);
    if (q->secret->token.on) /* it goes nowhere, so whatever is in it may be */
        return q->secret->collecting ? HTTPX_COLLECT : HTTPX_WAIT;
    if (begin_plan(q, req, ret) < 0)
        return HTTPX_DENY;
    q->secret->whole_only |= q->secret->token.watched; /* a part could cut off what a token is known by */
    req->covered = q->secret->plan.n || q->secret->n_extra || q->secret->token.watched;
    if (req->covered && flow_secret_want_plain(q->secret, req->head) < 0)
        return refuse_memory(f, ret);
    if (begin_sigv4(q, req, &err) < 0) {
        policy_refuse(POLICY_SECRET_UNAVAILABLE, f->host.text, err.msg, ret);
        return HTTPX_DENY;
    }
    if (q->secret->collecting)
        return HTTPX_COLLECT;
    return q->secret->plan.n + q->secret->n_extra ? HTTPX_WAIT : HTTPX_ALLOW;
}

bool flow_secret_is_collecting(const struct flow_request *q) {
    return q->secret->collecting;
}

static bool body_is_clean(struct flow_request *q, const uint8_t *data, size_t len, struct policy_verdict *ret) {
    uint32_t tag = 0;
    int r = cred_body_watch(&q->secret->body, placeholders_finder(q->secret->placeholders), data, len, &tag);

    if (r > 0)
        refuse_misplaced(q, tag, "its body", ret);
    else if (r == -ENOMEM)
        refuse_memory(q->flow, ret);
    else if (r < 0)
        policy_refuse(POLICY_CANNOT_LOOK, q->flow->host.text,
                      r == -EFBIG ? "The body has more than 64 MiB when it is decompressed"
                                  : "The body is not compressed as its head says",
                      ret);
    return r == 0;
}

void flow_secret_collected(void *arg, uint32_t id, const uint8_t *body, size_t len) {
    struct flow_request *q = flow_request_find(arg, id);

    if (!q || !q->secret)
        return;
    q->secret->collecting = false;
    if (q->secret->needs_hash)
        sha256_hex(body, len, q->secret->hash);
    flow_token_collected(q, body, len);
    flow_request_go(q);
}

static const char *reason_of(int status) {
    static const struct {
        int status;
        const char *why;
    } reasons[] = {
        {-EACCES, "It is only sent with requests that a rule allows without asking"},
        {-ENOKEY, "Its store has no value for it, or is locked"},
        {-EKEYEXPIRED, "Its login has ended, and the user has to log in again outside (bawn secret login)"},
        {-ETIMEDOUT, "Its store did not answer in time"},
        {-E2BIG, "It is too large for a request"},
        {-EINVAL, "Its value has bytes that are not allowed in a request"},
        {-EBUSY, "Too many requests are waiting for it"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].why;
    return "bawn-broker is not running, or failed";
}

void flow_secret_unavailable(struct flow_request *q, const char *name, int status, struct policy_verdict *ret) {
    char why[250];

    secret_name(q, name);
    snprintf(why, sizeof why, "It is '%s'. %s%s", name, reason_of(status),
             q->secret->at < q->secret->plan.n ? "" : ". Answers of its host only pass when it can be redacted in them");
    policy_refuse(POLICY_SECRET_UNAVAILABLE, q->flow->host.text, why, ret);
}

/* Another configuration may have come meanwhile, and with it another grant by this number. */
static bool is_same_grant(const struct flow *f, const struct cred_put *put) {
    const struct gate_config *c = &f->gate->config;

    return put->index < c->n_grants && str_eq(c->grants[put->index].c.name, put->name);
}

/* A login that has no token, or an old one, has nothing to cover; it must be possible to begin one. */
static bool is_nothing(const struct credential *c, int status) {
    return c->token_url && (status == -ENOKEY || status == -EKEYEXPIRED);
}

static void on_cover(void *arg, int status, const uint8_t *data, size_t len) {
    struct flow_request *q = arg;
    struct flow_secret *s = q->secret;
    const struct gate_config *c = &q->flow->gate->config;
    uint32_t index = s->extra[s->at - s->plan.n];
    bool known = index < c->n_grants && credential_next_port(&c->grants[index].c, q->flow->host.text, &(size_t){0});
    struct policy_verdict v;

    s->call = NULL;
    if (!known) /* another configuration has come */
        status = -ESTALE;
    if (status == 0)
        status = flow_secret_cover(s, data, len);
    else if (known && is_nothing(&c->grants[index].c, status))
        status = 0;
    if (status < 0) {
        flow_secret_unavailable(q, known ? c->grants[index].c.name : "", status, &v);
        flow_request_refuse(q, &v);
        return;
    }
    s->at++;
    flow_request_go(q);
}

static bool fetch_cover(struct flow_request *q, struct policy_verdict *ret) {
    struct flow_secret *s = q->secret;
    const struct gate_config *c = &q->flow->gate->config;
    struct broker_request req = {.type = BROKER_COVER, .index = s->extra[s->at - s->plan.n], .port = q->flow->port};

    snprintf(req.host, sizeof req.host, "%s", q->flow->host.text);
    s->call = broker_call(q->flow->gate->broker, &req, "", 0, on_cover, q);
    if (!s->call)
        flow_secret_unavailable(q, req.index < c->n_grants ? c->grants[req.index].c.name : "", -EBUSY, ret);
    return s->call != NULL;
}

static void on_value(void *arg, int status, const uint8_t *data, size_t len) {
    struct flow_request *q = arg;
    struct flow_secret *s = q->secret;
    const struct cred_put *put = &s->plan.puts[s->at];
    struct policy_verdict v;

    s->call = NULL;
    if (status == 0 && !is_same_grant(q->flow, put))
        status = -ESTALE;
    if (status == 0)
        status = flow_secret_put(q, put, data, len);
    if (status < 0) {
        flow_secret_unavailable(q, put->name, status, &v);
        flow_request_refuse(q, &v);
        return;
    }
    if (!q->msg.secret[0])
        secret_name(q, put->name);
    s->at++;
    flow_request_go(q);
}

static bool fetch_value(struct flow_request *q, struct policy_verdict *ret) {
    struct flow_secret *s = q->secret;
    const struct cred_put *put = &s->plan.puts[s->at];
    bool sign = put->place == PLACE_SIGV4;
    struct broker_request req = {.type = sign ? BROKER_SIGV4 : BROKER_VALUE, .index = put->index, .port = q->flow->port};
    CLEANUP(freep) char *text = sign ? str_dupf("%s%s", s->canonical, s->needs_hash ? s->hash : "") : NULL;
    const char *data = sign ? text : q->path;

    snprintf(req.host, sizeof req.host, "%s", q->flow->host.text);
    snprintf(req.method, sizeof req.method, "%s", q->msg.method);
    s->call = data ? broker_call(q->flow->gate->broker, &req, data, strlen(data), on_value, q) : NULL;
    if (!s->call)
        flow_secret_unavailable(q, put->name, -EBUSY, ret);
    return s->call != NULL;
}

bool flow_secret_fetch(struct flow_request *q, struct policy_verdict *ret) {
    if (q->secret->token.on)
        return flow_token_ask(q, ret);
    return q->secret->at < q->secret->plan.n ? fetch_value(q, ret) : fetch_cover(q, ret);
}

bool flow_secret_go(struct flow_request *q) {
    struct flow_secret *s = q->secret;
    struct policy_verdict v;

    if (s->token.on || s->at < s->plan.n + s->n_extra) {
        if (!flow_secret_fetch(q, &v))
            flow_request_refuse(q, &v);
        return false;
    }
    cred_plan_set_query(&s->plan, NULL);
    if (s->cover)
        cover_build(s->cover);
    return true;
}

bool flow_secret_sending(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end UNUSED, struct policy_verdict *ret) {
    struct flow_request *q = flow_request_find(arg, id);

    if (!q || !q->secret)
        return true;
    if (q->secret->token.on) /* goes no further */
        return true;
    if (body_is_clean(q, data, len, ret))
        return true;
    flow_request_stopped(q, ret);
    return false;
}
