/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins (OAuth) as a sandbox meets them. A login is done outside, by bawn-vault, with a code and a verifier of its own; the client inside gets the
 * credential's placeholder as its code. So on the hosts of a login
 *
 *     a request to the token endpoint that redeems or renews the placeholder    is answered here, with placeholders: it never leaves
 *     any other one there, and every one to the device endpoint                 is refused: what it would get is not of the user's login
 *     tokens in any other answer, whatever path, method, status and type        are covered (token_cover.h)
 *
 * Nothing that a sandbox sends or receives there is ever stored.
 */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>

#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "gateway/flow/flow_secret.h"
#include "gateway/secret/brokerlink.h"

enum { EXPIRES_S = 3600, EXPIRES_MAX_S = 10 * 366 * 24 * 3600, TOKEN_OUT_MAX = 64 * 1024, PARAM_MAX = 16 * 1024 };

/* Which request it is -------------------------------------------------------------------------------------------- */

/* Servers are not strict: "/Token/" may be "/token". path is normal already (http_path.h); its second reading counts, too. */
static bool is_path(const char *url, const char *path) {
    const char *begin = url + strlen("https://");
    size_t len, n = strlen(path);

    begin += strcspn(begin, "/?#");
    len = strcspn(begin, "?#;");
    while (len && begin[len - 1] == '/')
        len--;
    n = MIN_OF(n, strcspn(path, ";"));
    while (n && path[n - 1] == '/')
        n--;
    return n == len && strncasecmp(begin, path, len) == 0;
}

static bool is_endpoint(const struct flow *f, const char *url, const struct http_path *path) {
    if (!cred_url_is_host(url, f->host.text))
        return false;
    return is_path(url, path->text) || (path->other[0] && is_path(url, path->other));
}

static void find_endpoint(const struct flow *f, const struct http_path *path, struct flow_token *t) {
    const struct gate_config *c = &f->gate->config;

    for (size_t i = 0; i < c->n_grants; i++) {
        const struct credential *one = &c->grants[i].c;

        t->cover.mode = cred_login_is_at(one, f->host.text) ? TOKEN_COVER_ANY : t->cover.mode;
        t->watched |=
            cred_login_is_at(one, f->host.text) || (one->token_url && credential_next_port(one, f->host.text, &(size_t){0}));
        if (t->on || !one->token_url)
            continue;
        t->on = is_endpoint(f, one->token_url, path) || is_endpoint(f, one->device_url, path);
        if (t->on)
            snprintf(t->name, sizeof t->name, "%s", one->name);
    }
}

void flow_token_begin(struct flow_request *q, const struct httpx_request *req) {
    struct flow_token *t = &q->secret->token;

    t->index = UINT32_MAX;
    t->cover.mode = TOKEN_COVER_MEMBERS;
    find_endpoint(q->flow, &req->path, t);
    q->secret->collecting |= t->on && req->has_body;
}

/* What it says --------------------------------------------------------------------------------------------------- */

struct token_params {
    char *grant_type, *code, *refresh_token;
    bool twice;
};

static void params_done(struct token_params *p) {
    free(p->grant_type);
    free(p->code);
    free(p->refresh_token);
}

static char **params_slot(struct token_params *p, const char *key) {
    return str_eq(key, "grant_type")      ? &p->grant_type
           : str_eq(key, "code")          ? &p->code
           : str_eq(key, "refresh_token") ? &p->refresh_token
                                          : NULL;
}

static void params_take(struct token_params *p, const char *key, const char *value) {
    char **slot = params_slot(p, key);

    if (!slot)
        return;
    p->twice |= *slot != NULL;
    free(*slot);
    *slot = strdup(value);
}

/* A form: every key and value decoded, as servers do it. */
static void params_form(struct token_params *p, const char *body, size_t len) {
    char *key = malloc(len + 1), *value = malloc(len + 1);

    for (const char *at = body, *end = body + len; key && value && at < end;) {
        const char *stop = memchr(at, '&', (size_t)(end - at)), *last = stop ? stop : end;
        const char *is = memchr(at, '=', (size_t)(last - at));

        key[cred_url_decode(at, (size_t)((is ? is : last) - at), key)] = 0;
        value[is ? cred_url_decode(is + 1, (size_t)(last - is - 1), value) : 0] = 0;
        params_take(p, key, value);
        at = last + 1;
    }
    free(key);
    free(value);
}

static void params_json(struct token_params *p, const char *body, size_t len) {
    json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL), *value;
    const char *key;

    if (json_is_object(root))
        json_object_foreach(root, key, value) if (json_is_string(value)) params_take(p, key, json_string_value(value));
    json_decref(root);
}

/* The placeholder is the code, and both tokens. */
static uint32_t redeemed(const struct flow *f, const struct token_params *p) {
    const struct gate_config *c = &f->gate->config;
    const char *what = !p->grant_type || p->twice                    ? NULL
                       : str_eq(p->grant_type, "authorization_code") ? p->code
                       : str_eq(p->grant_type, "refresh_token")      ? p->refresh_token
                                                                     : NULL;

    for (size_t i = 0; what && i < c->n_grants; i++)
        if (c->grants[i].c.token_url && str_eq(what, c->grants[i].placeholder) &&
            cred_url_is(c->grants[i].c.token_url, f->host.text, f->port))
            return (uint32_t)i;
    return UINT32_MAX;
}

void flow_token_collected(struct flow_request *q, const uint8_t *body, size_t len) {
    CLEANUP(params_done) struct token_params p = {0};
    struct flow_token *t = &q->secret->token;
    const struct gate_config *c = &q->flow->gate->config;

    if (!t->on || len > TOKEN_REQUEST_MAX || !q->flow->is_tls || !str_eq(q->msg.method, "POST"))
        return;
    if (len && body[0] == '{')
        params_json(&p, (const char *)body, len);
    else
        params_form(&p, (const char *)body, len);
    t->index = redeemed(q->flow, &p);
    if (t->index != UINT32_MAX)
        snprintf(t->name, sizeof t->name, "%s", c->grants[t->index].c.name);
}

/* Its answer ----------------------------------------------------------------------------------------------------- */

/* A JWT is read by clients that want to know who they are: only what makes it valid is not there. */
static void add_token(struct jsonout *j, const char *key, const struct broker_part *public_part, const char *placeholder) {
    CLEANUP(freep)
    char *jwt = public_part && public_part->len
                    ? str_dupf("%.*s.%s", (int)public_part->len, public_part->p, placeholder_core(placeholder))
                    : NULL;

    jsonout_text(j, key, jwt ? jwt : placeholder);
}

static uint64_t seconds_of(const struct broker_part *p) {
    char text[16] = "";
    uint64_t n = 0;

    if (p->len == 0 || p->len >= sizeof text)
        return EXPIRES_S;
    memcpy(text, p->p, p->len);
    return parse_u64(text, 1, EXPIRES_MAX_S, &n, NULL) < 0 ? EXPIRES_S : n;
}

static void answer_tokens(struct flow_request *q, const struct grant *g, const struct broker_part parts[static 3]) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TOKEN_OUT_MAX);
    struct jsonout j = {.to = &b};

    jsonout_open(&j, NULL, '{');
    add_token(&j, "access_token", &parts[0], g->placeholder);
    add_token(&j, "refresh_token", NULL, g->placeholder);
    if (parts[1].len)
        add_token(&j, "id_token", &parts[1], g->placeholder);
    jsonout_text(&j, "token_type", "Bearer");
    jsonout_u64(&j, "expires_in", seconds_of(&parts[2]));
    if (g->c.scope)
        jsonout_text(&j, "scope", g->c.scope);
    jsonout_close(&j, '}');
    buf_addc(&b, '\n');
    inspect_answer(q->flow->inspect, q->id, 200, "application/json", buf_str(&b), b.len);
}

static void on_login(void *arg, int status, const uint8_t *data, size_t len) {
    struct flow_request *q = arg;
    struct flow_token *t = &q->secret->token;
    const struct gate_config *c = &q->flow->gate->config;
    struct broker_part parts[3];
    struct policy_verdict v;

    q->secret->call = NULL;
    if (status == 0 && (t->index >= c->n_grants || !str_eq(c->grants[t->index].c.name, t->name))) /* another configuration came */
        status = -ESTALE;
    if (status == 0)
        status = broker_parts_read(data, len, parts, ARRAY_LEN(parts));
    if (status == 0) {
        answer_tokens(q, &c->grants[t->index], parts);
        return;
    }
    flow_secret_unavailable(q, t->name, status, &v);
    flow_request_refuse(q, &v);
}

static void refuse_login(struct flow_request *q, struct policy_verdict *ret) {
    char why[250];

    snprintf(q->msg.secret, sizeof q->msg.secret, "%s", q->secret->token.name);
    snprintf(why, sizeof why, "It is the secret '%s': the user logs in outside, with 'bawn secret login %s'",
             q->secret->token.name, q->secret->token.name);
    policy_refuse(POLICY_LOGIN_OUTSIDE, q->flow->host.text, why, ret);
}

bool flow_token_ask(struct flow_request *q, struct policy_verdict *ret) {
    struct flow_token *t = &q->secret->token;
    struct broker_request req = {.type = BROKER_LOGIN, .index = t->index, .port = q->flow->port, .method = "POST"};

    if (t->index == UINT32_MAX) {
        refuse_login(q, ret);
        return false;
    }
    snprintf(q->msg.secret, sizeof q->msg.secret, "%s", t->name);
    snprintf(req.host, sizeof req.host, "%s", q->flow->host.text);
    q->secret->call = broker_call(q->flow->gate->broker, &req, "", 0, on_login, q);
    if (!q->secret->call)
        flow_secret_unavailable(q, t->name, -EBUSY, ret);
    return q->secret->call != NULL;
}

/* Answers of the server's ---------------------------------------------------------------------------------------- */

static void report_covered(struct flow_request *q) {
    struct flow_token *t = &q->secret->token;

    if (!t->cover.any || t->reported)
        return;
    t->reported = true;
    gate_trouble(q->flow->gate, q->flow->id, q->flow->host.text, q->flow->port, POLICY_ALLOWED,
                 "an answer had tokens in it that do not come from a login of the user: they were redacted");
}

void flow_token_head(struct flow_request *q, struct http_head *head) {
    struct token_cover *c = &q->secret->token.cover;

    if (!q->secret->token.watched || c->mode != TOKEN_COVER_ANY)
        return;
    for (size_t i = 0; i < head->len; i++)
        c->any |= token_cover_field(head->v[i].name, head->v[i].name_len, head->v[i].value, head->v[i].value_len);
    report_covered(q);
}

void flow_token_receiving(struct flow_request *q, const uint8_t *data, size_t len, bool end, struct buf *out) {
    token_cover_feed(&q->secret->token.cover, data, len, end, out);
    report_covered(q);
}
