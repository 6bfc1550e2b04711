/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "base/hex.h"
#include "base/str.h"
#include "gateway/secret/injection.h"

#define SIGV4_SCHEME "AWS4-HMAC-SHA256"

/* A piece of a query: "key=value", without what separates it. */
struct param {
    const char *p;
    size_t key_len, len;
};

static const char *next_param(const char *at, struct param *ret) {
    at += *at == '?' || *at == '&';
    *ret = (struct param){.p = at, .key_len = strcspn(at, "=&"), .len = strcspn(at, "&")};
    return at + ret->len;
}

size_t cred_url_decode(const char *p, size_t len, char *out) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int byte = hex_percent(p + i, len - i);

        out[n++] = byte >= 0 ? (char)byte : p[i] == '+' ? ' ' : p[i];
        i += byte >= 0 ? 2 : 0;
    }
    return n;
}

static bool key_is(const struct param *q, const char *key) {
    char decoded[256];
    size_t n = q->key_len <= sizeof decoded ? cred_url_decode(q->p, q->key_len, decoded) : 0;

    return n == strlen(key) && memcmp(decoded, key, n) == 0;
}

static const char *slot_of(const struct credential *c) {
    switch (c->place) {
    case PLACE_HEADER:
        return c->header;
    case PLACE_QUERY:
        return c->query;
    case PLACE_BASIC:
    case PLACE_SIGV4:
        return "authorization";
    case CREDENTIAL_PLACES:
        break;
    }
    BUG("a credential without place");
}

/* Does text have the placeholder of `tag`? *ret_other: another one that is there, too. */
static bool text_has(const struct cred_request *r, const char *text, size_t len, uint32_t tag, uint32_t *ret_other) {
    const struct finder *f = placeholders_finder(r->placeholders);
    struct finder_match m;
    bool has = false;

    while (len && finder_find(f, text, len, &m)) {
        if (m.tag == tag)
            has = true;
        else
            *ret_other = m.tag;
        text += m.at + 1;
        len -= m.at + 1;
    }
    return has;
}

static bool header_has(const struct cred_request *r, const char *name, uint32_t tag, uint32_t *ret_other) {
    const struct http_head *head = r->http->head;
    bool has = false;

    for (size_t i = 0; i < head->len; i++)
        if (strcasecmp(head->v[i].name, name) == 0)
            has = text_has(r, head->v[i].value, head->v[i].value_len, tag, ret_other) || has;
    return has;
}

static bool query_has(const struct cred_request *r, const char *key, uint32_t tag, uint32_t *ret_other) {
    const char *at = r->http->query;
    struct param q;
    bool has = false;

    while (*at) {
        at = next_param(at, &q);
        if (key_is(&q, key))
            has = text_has(r, q.p, q.len, tag, ret_other) || has;
    }
    return has;
}

static bool slot_has(const struct cred_request *r, const struct credential *c, uint32_t tag, uint32_t *ret_other) {
    return c->place == PLACE_QUERY ? query_has(r, slot_of(c), tag, ret_other) : header_has(r, slot_of(c), tag, ret_other);
}

/* A request that nobody signed says not which of its fields are to be. */
static bool can_be_signed(const struct cred_request *r) {
    const char *value = http_head_get(r->http->head, "authorization");

    return value && strncmp(value, SIGV4_SCHEME, strlen(SIGV4_SCHEME)) == 0;
}

static bool is_wanted(const struct cred_request *r, const struct credential *c, bool there) {
    if (c->place == PLACE_SIGV4)
        return there && can_be_signed(r);
    return there || !c->only_placeholder;
}

static bool same_slot(const struct cred_put *put, const struct credential *c) {
    return (put->place == PLACE_QUERY) == (c->place == PLACE_QUERY) &&
           (put->place == PLACE_QUERY ? str_eq(put->slot, slot_of(c)) : strcasecmp(put->slot, slot_of(c)) == 0);
}

static void put_done(struct cred_put *put) {
    free(put->name);
    free(put->slot);
    free(put->sigv4);
}

static int put_fill(struct cred_put *put, uint32_t index, const struct credential *c, bool there) {
    struct cred_put made = {
        .index = index,
        .place = c->place,
        .there = there,
        .name = strdup(c->name),
        .slot = strdup(slot_of(c)),
        .sigv4 = c->place == PLACE_SIGV4 ? strdup(c->service) : NULL,
    };

    if (!made.name || !made.slot || (c->place == PLACE_SIGV4 && !made.sigv4)) {
        put_done(&made);
        return -ENOMEM;
    }
    put_done(put);
    *put = made;
    return 0;
}

/* One per slot: the one whose placeholder is there, else the first. */
static int choose(const struct cred_request *r, struct cred_plan *plan) {
    for (size_t i = 0; r->tls && i < r->n_grants; i++) {
        const struct credential *c = &r->grants[i].c;
        uint32_t other;
        size_t at = 0;
        bool there;

        if (!credential_is_for(c, r->host, r->port))
            continue;
        there = slot_has(r, c, placeholder_tag(i, false), &other);
        if (!is_wanted(r, c, there))
            continue;
        while (at < plan->n && !same_slot(&plan->puts[at], c))
            at++;
        if (at < plan->n && (plan->puts[at].there || !there))
            continue;
        if (at == CRED_PUTS_MAX)
            return -E2BIG;
        if (put_fill(&plan->puts[at], (uint32_t)i, c, there) < 0)
            return -ENOMEM;
        plan->n = MAX_OF(plan->n, at + 1);
    }
    return 0;
}

static const struct cred_put *find_put(const struct cred_plan *plan, const char *name) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].place != PLACE_QUERY && strcasecmp(plan->puts[i].slot, name) == 0)
            return &plan->puts[i];
    return NULL;
}

static bool is_replaced(const struct cred_plan *plan, const struct param *q) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].place == PLACE_QUERY && key_is(q, plan->puts[i].slot))
            return true;
    return false;
}

static bool has_query_put(const struct cred_plan *plan) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].place == PLACE_QUERY)
            return true;
    return false;
}

/* The query without the parameters that are replaced. */
static int trim_query(const struct cred_request *r, struct cred_plan *plan) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(HTTPX_URI_MAX);
    const char *at = r->http->query;
    struct param q;

    if (!has_query_put(plan))
        return 0;
    while (*at) {
        at = next_param(at, &q);
        if (is_replaced(plan, &q))
            continue;
        buf_addc(&b, b.len ? '&' : '?');
        buf_add(&b, q.p, q.len);
    }
    plan->query = buf_take(&b);
    return plan->query ? 0 : -ENOMEM;
}

/* What stands in a slot is replaced, but another grant's placeholder has no business there. */
static bool slots_are_clean(const struct cred_request *r, const struct cred_plan *plan, uint32_t *ret_tag) {
    *ret_tag = UINT32_MAX;
    for (size_t i = 0; i < plan->n; i++) {
        uint32_t index = plan->puts[i].index;

        slot_has(r, &r->grants[index].c, placeholder_tag(index, false), ret_tag);
    }
    return *ret_tag == UINT32_MAX;
}

struct injection_search {
    const struct finder *finder;
    struct finder_stream stream;
    uint32_t tag;
};

static int search(struct injection_search *s, const char *text, size_t len) {
    int r = len ? finder_watch(s->finder, &s->stream, text, len, &s->tag) : 0;

    return r > 0 ? -EACCES : r;
}

/* As it came, and as a server reads it. */
static int search_query(struct injection_search *s, const char *query) {
    size_t len = strlen(query);
    char *decoded;
    int r = search(s, query, len);

    if (r < 0 || !strchr(query, '%'))
        return r;
    decoded = malloc(len);
    if (!decoded)
        return -ENOMEM;
    r = search(s, decoded, cred_url_decode(query, len, decoded));
    free(decoded);
    return r;
}

/* Values follow one another in one stream: a placeholder that is split over two fields is one (ATTACKS 57). */
static int search_fields(struct injection_search *s, const struct http_head *head, const struct cred_plan *plan) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < head->len; i++) {
        struct finder_match m;

        if (find_put(plan, head->v[i].name))
            continue;
        r = search(s, head->v[i].value, head->v[i].value_len);
        if (r == 0 && finder_find(s->finder, head->v[i].name, head->v[i].name_len, &m)) {
            s->tag = m.tag;
            r = -EACCES;
        }
    }
    return r;
}

static int search_all(const struct cred_request *r, const struct cred_plan *plan, uint32_t *ret_tag, const char **ret_where) {
    struct injection_search s = {.finder = placeholders_finder(r->placeholders)};
    int e = search(&s, r->http->path.text, r->http->path.len);

    *ret_where = "its path";
    if (e == 0) {
        *ret_where = "its query";
        e = search_query(&s, plan->query ? plan->query : r->http->query);
    }
    if (e == 0) {
        *ret_where = "a header";
        e = search_fields(&s, r->http->head, plan);
    }
    *ret_tag = s.tag;
    finder_stream_done(&s.stream);
    return e;
}

int cred_plan(const struct cred_request *r, struct cred_plan *ret, uint32_t *ret_tag, const char **ret_where) {
    struct cred_plan plan = {.n = 0};
    int e = choose(r, &plan);

    e = e < 0 ? e : trim_query(r, &plan);
    if (e == 0 && !slots_are_clean(r, &plan, ret_tag)) {
        *ret_where = "the place of another credential";
        e = -EACCES;
    }
    e = e < 0 ? e : search_all(r, &plan, ret_tag, ret_where);
    if (e < 0)
        cred_plan_done(&plan);
    else
        *ret = plan;
    return e;
}

void cred_plan_set_query(struct cred_plan *p, char *query) {
    if (p->query)
        explicit_bzero(p->query, strlen(p->query));
    free(p->query);
    p->query = query;
}

void cred_plan_done(struct cred_plan *p) {
    for (size_t i = 0; i < CRED_PUTS_MAX; i++)
        put_done(&p->puts[i]);
    cred_plan_set_query(p, NULL);
    *p = (struct cred_plan){.n = 0};
}
