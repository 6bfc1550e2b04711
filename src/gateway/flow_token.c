/*
 * The token endpoint of a credential (RFC 6749): tokens that a login inside asks for are caught here. The broker gets them,
 * the client gets the placeholder in their place. A client that wants to refresh is told that it has: the broker does so by
 * itself.
 */
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/brokerlink.h"
#include "gateway/flow_secret.h"

enum { EXPIRES_S = 3600, EXPIRES_MAX_S = 365 * 24 * 3600, TOKEN_OUT_MAX = TOKEN_ANSWER_MAX + 4096 };

static uint32_t find_endpoint(const struct flow *f, const char *path) {
    const struct gate_config *c = &f->gate->config;

    for (size_t i = 0; i < c->n_grants; i++)
        if (cred_is_token_endpoint(&c->grants[i].c, f->host.text, f->port, path))
            return (uint32_t)i;
    return UINT32_MAX;
}

uint32_t flow_token_begin(struct flow_request *q, const struct httpx_request *req) {
    struct flow_token *t = &q->secret->token;
    const struct grant *g;
    uint32_t index = q->flow->is_tls && str_eq(req->method, "POST") ? find_endpoint(q->flow, req->path.text) : UINT32_MAX;

    if (index == UINT32_MAX)
        return index;
    g = &q->flow->gate->config.grants[index];
    t->on = true;
    t->index = index;
    snprintf(t->name, sizeof t->name, "%s", g->c.name);
    snprintf(t->placeholder, sizeof t->placeholder, "%s", g->placeholder);
    q->secret->collecting = req->has_body;
    return index;
}

/* What JSON is read into held tokens. */
static void free_zeroed(void *p) {
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

static json_t *read_json(const void *data, size_t len) {
    json_t *root;

    json_set_alloc_funcs(malloc, free_zeroed);
    root = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root))
        return root;
    json_decref(root);
    return NULL;
}

static bool form_refreshes(const uint8_t *body, size_t len) {
    static const char wanted[] = "grant_type=refresh_token";
    const char *at = (const char *)body, *end = at + len;

    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);

        if (n == sizeof wanted - 1 && memcmp(at, wanted, n) == 0)
            return true;
        at = stop ? stop + 1 : end;
    }
    return false;
}

static bool json_refreshes(const uint8_t *body, size_t len) {
    json_t *root = read_json(body, len);
    const char *type = json_string_value(json_object_get(root, "grant_type"));
    bool is = type && str_eq(type, "refresh_token");

    json_decref(root);
    return is;
}

void flow_token_collected(struct flow_request *q, const uint8_t *body, size_t len) {
    struct flow_token *t = &q->secret->token;

    if (t->on && len <= TOKEN_REQUEST_MAX)
        t->refresh = form_refreshes(body, len) || json_refreshes(body, len);
}

bool flow_token_answer(struct flow_request *q) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TOKEN_OUT_MAX);
    const struct flow_token *t = &q->secret->token;

    if (!t->refresh)
        return false;
    buf_adds(&b, "{\"access_token\": ");
    buf_add_json(&b, t->placeholder);
    buf_adds(&b, ", \"refresh_token\": ");
    buf_add_json(&b, t->placeholder);
    buf_addf(&b, ", \"token_type\": \"Bearer\", \"expires_in\": %d}\n", EXPIRES_S);
    snprintf(q->msg.secret, sizeof q->msg.secret, "%s", t->name);
    inspect_answer(q->flow->inspect, q->id, 200, "application/json", buf_str(&b), b.len);
    return true;
}

bool flow_token_head(struct flow_request *q, int status) {
    struct flow_token *t = &q->secret->token;

    t->catching = t->on && status >= 200 && status < 300;
    if (t->catching && secret_alloc(&t->answer, TOKEN_ANSWER_MAX) < 0)
        t->too_large = true;
    return t->catching;
}

/* A JWT is read by clients that want to know who they are: only what makes it valid is taken away. */
static char *stand_in(const char *token, const char *placeholder) {
    const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;

    if (!str_starts(token, "eyJ") || !second)
        return strdup(placeholder);
    return str_dupf("%.*s.%s", (int)(second - token), token, placeholder_core(placeholder));
}

static int replace(json_t *root, const char *key, const char *placeholder) {
    const char *token = json_string_value(json_object_get(root, key));
    CLEANUP(freep) char *text = token ? stand_in(token, placeholder) : NULL;

    if (!token)
        return json_object_get(root, key) ? -EBADMSG : 0;
    return text && json_object_set_new(root, key, json_string(text)) == 0 ? 0 : -ENOMEM;
}

static void on_kept(void *arg, int status, const uint8_t *data UNUSED, size_t len UNUSED) {
    if (status < 0)
        gate_trouble(arg, 0, "", 0, "the tokens of a login could not be kept: it has to be done again");
}

static struct broker_part part_of(const json_t *root, const char *key) {
    const char *text = json_string_value(json_object_get(root, key));

    return (struct broker_part){text ? text : "", text ? strlen(text) : 0};
}

/* To the broker, before the client hears of it: requests that follow are answered in this order. */
static int give_away(struct flow_request *q, const json_t *root) {
    const struct flow_token *t = &q->secret->token;
    json_int_t expires = json_integer_value(json_object_get(root, "expires_in"));
    struct broker_request req = {.type = BROKER_TOKENS, .index = t->index, .port = q->flow->port, .method = "POST"};
    char seconds[24];
    const struct broker_part parts[] = {part_of(root, "access_token"), part_of(root, "refresh_token"), {seconds, 0}};
    struct broker_part all[ARRAY_LEN(parts)];
    uint8_t *data = malloc(BROKER_DATA_MAX);
    long n;
    bool sent;

    memcpy(all, parts, sizeof all);
    all[2].len = (size_t)snprintf(seconds, sizeof seconds, "%lld",
                                  (long long)(expires > 0 && expires < EXPIRES_MAX_S ? expires : EXPIRES_S));
    n = data ? broker_parts_write(all, ARRAY_LEN(all), data, BROKER_DATA_MAX) : -ENOMEM;
    snprintf(req.host, sizeof req.host, "%s", q->flow->host.text);
    sent = n > 0 && broker_call(q->flow->gate->broker, &req, data, (size_t)n, on_kept, q->flow->gate);
    if (data)
        explicit_bzero(data, BROKER_DATA_MAX);
    free(data);
    return sent ? 0 : -ECONNRESET;
}

static bool has_tokens(const json_t *root) {
    return json_object_get(root, "access_token") || json_object_get(root, "refresh_token") || json_object_get(root, "id_token");
}

static int exchange(struct flow_request *q, struct buf *out) {
    static const char *const keys[] = {"access_token", "refresh_token", "id_token"};
    const struct flow_token *t = &q->secret->token;
    json_t *root = t->too_large ? NULL : read_json(t->answer.p, t->answer.len);
    char *text = NULL;
    int r = root ? 0 : -EBADMSG;

    if (r == 0 && has_tokens(root)) {
        r = json_object_get(root, "access_token") ? give_away(q, root) : -EBADMSG;
        snprintf(q->msg.secret, sizeof q->msg.secret, "%s", t->name);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(keys); i++)
        r = replace(root, keys[i], t->placeholder);
    if (r == 0)
        text = json_dumps(root, JSON_COMPACT);
    if (text)
        buf_adds(out, text);
    free_zeroed(text);
    json_decref(root);
    return text ? 0 : -EBADMSG;
}

bool flow_token_receiving(struct flow_request *q, const uint8_t *data, size_t len, bool end, struct buf *out) {
    struct flow_token *t = &q->secret->token;

    if (!t->catching)
        return false;
    if (t->too_large || len > t->answer.cap - t->answer.len) {
        t->too_large = true;
    } else if (len) {
        memcpy(t->answer.p + t->answer.len, data, len);
        t->answer.len += len;
    }
    if (end && exchange(q, out) < 0) {
        gate_trouble(q->flow->gate, q->flow->id, q->flow->host.text, q->flow->port,
                     "the answer with tokens was not understood, or the broker did not take them: nobody got them");
        buf_adds(out, "{\"error\": \"server_error\", "
                      "\"error_description\": \"Bawn could not keep the tokens of this login\"}\n");
    }
    return true;
}
