/* SPDX-License-Identifier: Apache-2.0 */
/* Values in memory: who gets one, who waits for one. */
#include "broker/values/values_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"
#include "broker/values/render.h"
#include "os/clock.h"
#include "os/fd.h"

enum { GRANT_BYTES_MAX = 1024 * 1024 };

int values_new(struct values **ret) {
    struct values *v = calloc(1, sizeof *v);
    int r;

    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < GRANTS_MAX; i++) {
        v->v[i].sock = -1;
        v->v[i].last = &v->v[i].first;
    }
    r = secret_alloc(&v->in, sizeof(struct vault_value) + VAULT_VALUE_MAX + VAULT_IDENTITY_MAX);
    r = r < 0 ? r : secret_alloc(&v->work, RENDER_WORK_MAX);
    if (r < 0)
        values_free(TAKE_PTR(v));
    else
        *ret = v;
    return r;
}

uint32_t value_index(const struct broker *b, const struct value *s) {
    return (uint32_t)(s - b->values->v);
}

/* Says what was asked, by whom, and what became of it, before the gate knows. */
static void report_request(struct broker *b, const struct broker_request *req, int status) {
    struct broker_msg m = {.type = BROKER_MSG_USED, .index = req->index, .value = status, .port = MIN_OF(req->port, UINT16_MAX)};
    struct host host;
    bool ok = host_parse(req->host, strlen(req->host), &host, NULL) == 0;

    if (req->index >= b->config.n_grants || req->type == BROKER_COVER) /* goes into no request */
        return;
    snprintf(m.host, sizeof m.host, "%s", ok ? host.text : "");
    snprintf(m.method, sizeof m.method, "%s", req->method);
    snprintf(m.text, sizeof m.text, "%s", b->config.grants[req->index].c.name);
    used_report(b, &m);
}

/* LOGIN is no use of the value: it goes nowhere. */
static void refuse_request(struct broker *b, const struct broker_request *req, int status) {
    if (req->type != BROKER_LOGIN)
        report_request(b, req, status);
    broker_answer_send(b, req->id, status, NULL, 0);
}

static int judge_request(const struct broker *b, const struct broker_request *req, const uint8_t *data) {
    size_t len;

    if (req->type == BROKER_LOGIN)
        return judge_login_place(b, req);
    if (req->type == BROKER_COVER)
        return judge_cover(b, req);
    if (req->index >= b->config.n_grants || render_path(&b->config.grants[req->index].c, req, data, b->values->path, &len) < 0)
        return -EACCES;
    return judge_grant(b, req, b->values->path, len);
}

/*
 * A client inside that has logged in redeems the placeholder at the token endpoint, or renews it: what it is answered with by the gate. The
 * login itself was outside, and nothing of a token that is worth anything is here: of a JWT header and payload, which say who the user is.
 */

/* All of a JWT but its signature; "" of anything else: an opaque token is a secret from the first byte on. */
static struct broker_part public_part(const struct secret *token) {
    static const char begin[] = "eyJ";
    const char *last = token->len > strlen(begin) ? memrchr(token->p, '.', token->len) : NULL;
    bool is_jwt = last && memcmp(token->p, begin, strlen(begin)) == 0 && memchr(token->p, '.', (size_t)(last - token->p)) &&
                  (size_t)(token->p + token->len - last) > 1;

    return is_jwt ? (struct broker_part){token->p, (size_t)(last - token->p)} : (struct broker_part){"", 0};
}

static void login_give(struct broker *b, const struct value *s, const struct broker_request *req) {
    uint64_t now = (uint64_t)time(NULL);
    char seconds[24] = "";
    struct broker_part parts[] = {public_part(&s->value), {s->identity.p ? s->identity.p : "", s->identity.len}, {seconds, 0}};

    if (s->expires > now)
        parts[2].len = (size_t)snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)(s->expires - now));
    broker_answer_parts(b, req->id, parts, ARRAY_LEN(parts));
}

static void give_value(struct broker *b, struct value *s, const struct broker_request *req, const uint8_t *data) {
    struct broker_part parts[RENDER_PARTS_MAX];
    int n;

    if (req->type == BROKER_LOGIN) {
        login_give(b, s, req);
        return;
    }
    n = render_answer(&b->config.grants[req->index].c, req, data, &s->value, &b->values->work, parts);

    if (n < 0) {
        refuse_request(b, req, n);
    } else {
        report_request(b, req, 0);
        broker_answer_parts(b, req->id, parts, (size_t)n);
    }
    secret_drop(&b->values->work);
}

/* Answers all waiting requests: with the value, judged by the policy of now; or with why there is none. */
static void serve_waiting(struct broker *b, struct value *s, int status) {
    struct waiting *w = TAKE_PTR(s->first), *next;

    s->last = &s->first;
    for (; w; w = next) {
        int r = status < 0 ? status : judge_request(b, &w->req, w->data);

        next = w->next;
        if (r < 0)
            refuse_request(b, &w->req, r);
        else
            give_value(b, s, &w->req, w->data);
        b->values->n_waiting--;
        b->values->waiting_bytes -= w->req.len;
        free(w);
    }
}

static void forget_value(struct value *s) {
    secret_done(&s->value);
    secret_done(&s->identity);
    closep(&s->sock);
    s->expires = 0;
}

void value_fail(struct broker *b, struct value *s, int status) {
    forget_value(s);
    s->state = VALUE_FAILED;
    s->status = status;
    s->deadline_ms = clock_ms() + VALUES_BACKOFF_MS;
    serve_waiting(b, s, status);
}

static int copy_part(struct secret *to, const struct broker_part *from) {
    int r = from->len ? secret_alloc(to, from->len) : 0;

    return r < 0 || !from->len ? r : secret_set(to, from->p, from->len);
}

int value_ready(struct broker *b, struct value *s, const struct broker_part *value, const struct broker_part *identity,
                uint64_t expires) {
    int r;

    forget_value(s);
    r = copy_part(&s->value, value);
    r = r < 0 ? r : copy_part(&s->identity, identity);
    if (r < 0) {
        value_fail(b, s, r);
        return r;
    }
    s->state = VALUE_READY;
    s->expires = expires;
    serve_waiting(b, s, 0);
    return 0;
}

void value_end(struct value *s) {
    forget_value(s);
    s->state = VALUE_NONE;
    s->ended = true;
}

static int wait_for_value(struct broker *b, struct value *s, const struct broker_request *req, const uint8_t *data) {
    struct values *v = b->values;
    struct waiting *w;

    if (v->n_waiting >= BROKER_PENDING_MAX || v->waiting_bytes + req->len > VALUES_WAITING_BYTES_MAX)
        return -EBUSY;
    w = malloc(sizeof *w + req->len);
    if (!w)
        return -ENOMEM;
    w->next = NULL;
    w->req = *req;
    memcpy(w->data, data, req->len);
    *s->last = w;
    s->last = &w->next;
    v->n_waiting++;
    v->waiting_bytes += req->len;
    return 0;
}

void value_request(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    int r = judge_request(b, req, data);
    struct value *s;

    if (r < 0) {
        refuse_request(b, req, r);
        return;
    }
    s = &b->values->v[req->index];
    if (s->state == VALUE_READY && value_is_over(s))
        value_end(s);
    if (s->state == VALUE_FAILED && clock_ms() >= s->deadline_ms)
        s->state = VALUE_NONE;
    if (s->state == VALUE_READY) {
        give_value(b, s, req, data);
        return;
    }
    r = s->state == VALUE_FAILED ? s->status : wait_for_value(b, s, req, data);
    if (r < 0) {
        refuse_request(b, req, r);
        return;
    }
    if (s->state == VALUE_NONE) {
        s->state = VALUE_WANTED;
        s->deadline_ms = clock_ms() + BROKER_VAULT_TIMEOUT_MS;
    }
    value_ask(b, s);
}

static bool same_grant(const struct gate_config *now, const struct gate_config *next, size_t i) {
    CLEANUP(buf_done) struct buf a = BUF_INIT(GRANT_BYTES_MAX), c = BUF_INIT(GRANT_BYTES_MAX);

    if (i >= now->n_grants || i >= next->n_grants)
        return false;
    return grants_encode(&now->grants[i], 1, &a) == 0 && grants_encode(&next->grants[i], 1, &c) == 0 && buf_ok(&a) &&
           buf_ok(&c) && a.len == c.len && memcmp(a.data, c.data, a.len) == 0;
}

static void drop_value(struct broker *b, struct value *s) {
    serve_waiting(b, s, -EACCES);
    forget_value(s);
    s->state = VALUE_NONE;
    s->ended = false;
    s->stale += TAKE(s->asked, false);
}

void values_renew(struct broker *b, uint32_t index) {
    struct value *s = index < b->config.n_grants ? &b->values->v[index] : NULL;

    if (!s)
        return;
    forget_value(s);
    s->state = s->state == VALUE_WANTED ? VALUE_WANTED : VALUE_NONE;
    s->ended = false;
    s->stale += TAKE(s->asked, false);
    value_ask(b, s);
}

void values_reload(struct broker *b, const struct gate_config *next) {
    for (size_t i = 0; i < GRANTS_MAX; i++)
        if (!same_grant(&b->config, next, i))
            drop_value(b, &b->values->v[i]);
}

void values_free(struct values *v) {
    for (size_t i = 0; v && i < GRANTS_MAX; i++) {
        struct value *s = &v->v[i];

        while (s->first) {
            struct waiting *w = s->first;

            s->first = w->next;
            free(w);
        }
        forget_value(s);
    }
    if (v) {
        secret_done(&v->in);
        secret_done(&v->work);
    }
    free(v);
}
