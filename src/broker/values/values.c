/* SPDX-License-Identifier: Apache-2.0 */
/* Values in memory: fetched from bawn-vault, given to requests, ended in time. */
#include "broker/values/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"
#include "broker/values/render.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"

enum { GRANT_BYTES_MAX = 1024 * 1024, CLOCK_LOOK_MS = 60 * 1000 };

/* A request that waits for a value. */
struct waiting {
    struct waiting *next;
    struct broker_request req;
    uint8_t data[];
};

enum value_state { VALUE_NONE, VALUE_WANTED, VALUE_READY, VALUE_FAILED };

struct value {
    enum value_state state;
    struct secret value;    /* READY */
    struct secret identity; /* READY, OAuth: header and payload of the id_token */
    uint64_t expires;       /* READY: as in vault_value */
    int status;             /* FAILED */
    uint64_t deadline_ms;   /* WANTED: then it fails; FAILED: then it may be tried again */
    int sock;               /* of a bawn-vault that gets the value; -1: none */
    bool ended;             /* the one before was good once: the store's copy may be that one */
    struct waiting *first, **last;

    bool asked;     /* BROKER_MSG_WANT_VALUE: not answered yet */
    unsigned stale; /* answers still to come that are for another grant, or another login */
};

struct values {
    struct value v[GRANTS_MAX];
    size_t n_waiting, waiting_bytes;
    struct secret in, work;
    char path[BROKER_DATA_MAX]; /* of the request that is judged */
};

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

static uint32_t value_index(const struct broker *b, const struct value *s) {
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

static void value_fail(struct broker *b, struct value *s, int status) {
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

static int value_ready(struct broker *b, struct value *s, const struct broker_part *value, const struct broker_part *identity,
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

/* Zeroes it; the next one has to be a fresh one. */
static void value_end(struct value *s) {
    forget_value(s);
    s->state = VALUE_NONE;
    s->ended = true;
}

static bool value_is_over(const struct value *s) {
    return s->expires && s->expires <= (uint64_t)time(NULL);
}

/* One question at a time: what comes back says only for which grant it is. */
static void value_ask(struct broker *b, struct value *s) {
    struct broker_msg m = {.type = BROKER_MSG_WANT_VALUE, .index = value_index(b, s), .value = s->ended};

    if (s->asked || s->stale || m.index >= b->config.n_grants || s->state != VALUE_WANTED || s->sock >= 0)
        return;
    snprintf(m.text, sizeof m.text, "%s", b->config.grants[m.index].c.name);
    s->asked = true;
    broker_msg_send(b, &m);
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

static void value_want(struct broker *b, struct value *s) {
    if (s->state == VALUE_NONE) {
        s->state = VALUE_WANTED;
        s->deadline_ms = clock_ms() + BROKER_VAULT_TIMEOUT_MS;
    }
    value_ask(b, s);
}

void values_fetch(struct broker *b, uint32_t index) {
    if (index < b->config.n_grants)
        value_want(b, &b->values->v[index]);
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
    value_want(b, s);
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

/* From bawn-vault -------------------------------------------------------------------------------------------------- */

static int read_value(struct broker *b, struct value *s, struct broker_part *ret, struct broker_part *ret_identity,
                      uint64_t *ret_expires) {
    struct secret *in = &b->values->in;
    long n = sock_recv(s->sock, in->p, in->cap, NULL, NULL);
    struct vault_value head;

    if (n < (long)sizeof head)
        return -ENOKEY;
    memcpy(&head, in->p, sizeof head);
    if (head.status)
        return vault_status(head.status);
    if (head.len > VAULT_VALUE_MAX || head.identity > VAULT_IDENTITY_MAX || (size_t)n != sizeof head + head.len + head.identity)
        return -ENOKEY;
    if (credential_value_check(&b->config.grants[value_index(b, s)].c, in->p + sizeof head, head.len, NULL) < 0)
        return -ENOKEY;
    if (head.expires && head.expires <= (uint64_t)time(NULL))
        return -EKEYEXPIRED;
    *ret = (struct broker_part){in->p + sizeof head, head.len};
    *ret_identity = (struct broker_part){in->p + sizeof head + head.len, head.identity};
    *ret_expires = head.expires;
    return 0;
}

static void take_value(struct broker *b, struct value *s) {
    struct broker_part value = {0}, identity = {0};
    uint64_t expires = 0;
    int r = read_value(b, s, &value, &identity, &expires);

    if (r < 0)
        value_fail(b, s, r);
    else
        value_ready(b, s, &value, &identity, expires);
    secret_clear(&b->values->in);
}

void values_vault(struct broker *b, const struct broker_msg *m, int fd) {
    CLEANUP(closep) int sock = fd;
    struct value *s;
    bool asked;

    if (m->index >= GRANTS_MAX)
        return;
    s = &b->values->v[m->index];
    asked = s->stale ? false : TAKE(s->asked, false);
    if (s->stale)
        s->stale--;
    if (asked && s->state == VALUE_WANTED) {
        if (m->value || sock < 0)
            value_fail(b, s, vault_status(m->value > 0 ? -m->value : m->value));
        else
            s->sock = TAKE_FD(sock);
    }
    value_ask(b, s);
}

void values_poll_fill(const struct broker *b, struct pollfd *ret) {
    for (size_t i = 0; i < GRANTS_MAX; i++)
        ret[i] = (struct pollfd){.fd = b->values->v[i].sock, .events = POLLIN};
}

void values_poll_done(struct broker *b, const struct pollfd *fds) {
    for (size_t i = 0; i < GRANTS_MAX; i++) {
        struct value *s = &b->values->v[i];

        if (s->sock >= 0 && fds[i].fd == s->sock && fds[i].revents)
            take_value(b, s);
        if (s->state == VALUE_WANTED && clock_ms() >= s->deadline_ms)
            value_fail(b, s, -ETIMEDOUT);
        if (s->state == VALUE_READY && value_is_over(s))
            value_end(s);
    }
}

int values_timeout_ms(const struct broker *b) {
    uint64_t least = UINT64_MAX, now = clock_ms(), clock = (uint64_t)time(NULL);

    for (size_t i = 0; i < GRANTS_MAX; i++) {
        const struct value *s = &b->values->v[i];

        if (s->state == VALUE_WANTED)
            least = MIN_OF(least, s->deadline_ms > now ? s->deadline_ms - now : 0);
        if (s->state == VALUE_READY && s->expires)
            least = MIN_OF(least, s->expires > clock ? MIN_OF((s->expires - clock) * 1000, CLOCK_LOOK_MS) : 0);
    }
    return least == UINT64_MAX ? -1 : (int)MIN_OF(least, CLOCK_LOOK_MS); /* the clock may be set meanwhile */
}
