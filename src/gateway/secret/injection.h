/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in requests, as the gate sees them: which grants go into a request and into which slot of it, and placeholders
 * that are where they do not belong (ATTACKS 57, 59). Pure: no socket, no value. flow_secret.c asks the broker and puts the
 * values in.
 *
 * A slot is what is replaced as a whole: all fields of a header's name, or all parameters of the query with one name. What
 * the client put there never leaves, so it may hold a placeholder in any form, but only that of the grant which is put in. Everything
 * else of a request (path, the rest of the query, names and values of the other fields, body) must not have any placeholder.
 */
#pragma once

#include <zlib.h>

#include "base/buf.h"
#include "gateway/http/httpx.h"
#include "gateway/secret/finder.h"
#include "policy/credential/credential.h"

enum { CRED_PUTS_MAX = 8, CRED_INFLATED_MAX = 64 * 1024 * 1024 };

/* The placeholders of one configuration: shared by the requests that began with it. */
struct placeholders;
int placeholders_new(const struct grant *v, size_t n, struct placeholders **ret);
struct placeholders *placeholders_ref(struct placeholders *p);
void placeholders_unref(struct placeholders *p); /* NULL is fine */
const struct finder *placeholders_finder(const struct placeholders *p);
/* Tags of matches: a grant has one for its placeholder and one for its second. */
static inline uint32_t placeholder_tag(size_t grant, bool second) {
    return (uint32_t)grant * 2 + second;
}
const char *placeholders_name(const struct placeholders *p, uint32_t tag); /* of the credential */

/* One value that goes into a request. */
struct cred_put {
    uint32_t index; /* of the grant */
    enum credential_place place;
    bool there;  /* the placeholder is in the slot */
    char *name;  /* of the credential */
    char *slot;  /* name of the header, or of the parameter */
    char *sigv4; /* SIGV4: the service */
};

struct cred_plan {
    struct cred_put puts[CRED_PUTS_MAX];
    size_t n;
    char *query; /* the request's, with its '?', without the parameters that are replaced; NULL: nothing goes into it */
};
/* query: malloc'ed, taken. The one before may have had a value: it is zeroed. */
void cred_plan_set_query(struct cred_plan *p, char *query);
void cred_plan_done(struct cred_plan *p);

struct cred_request {
    const struct grant *grants;
    size_t n_grants;
    const struct placeholders *placeholders;
    const char *host;
    uint16_t port;
    bool tls; /* verified: only then there is anything to put in */
    const struct httpx_request *http;
};

/* 0; -EACCES: the placeholder of tag *ret_tag is at *ret_where ("the path"); -ENOMEM, -E2BIG (too many slots). */
int cred_plan(const struct cred_request *r, struct cred_plan *ret, uint32_t *ret_tag, const char **ret_where);
/* OAuth. Is the URL (which may be NULL) one of this host, of this host and port? */
bool cred_url_is_host(const char *url, const char *host);
bool cred_url_is(const char *url, const char *host, uint16_t port);
bool cred_login_is_at(const struct credential *c, const char *host); /* any of its token, device and authorize URLs; any port */
/* %xx and '+' as servers read them; out has len bytes. Returns how many were used. */
size_t cred_url_decode(const char *p, size_t len, char *out);
/* Has any grant to do with this host and port: has it to be inspected? */
bool cred_any_for(const struct grant *v, size_t n, const char *host, uint16_t port);

/* Is any grant for this host, on whatever port: may its answers have a value in them? */
bool cred_any_at(const struct grant *v, size_t n, const char *host);

/* A query with a parameter more, URL-encoded; malloc'ed. NULL: no memory. */
char *cred_query_add(const char *query, const char *key, const char *value, size_t len);

/* A body that passes, and what it is when it is unpacked. Zeroed memory is a new one. */
struct cred_body {
    struct finder_stream plain, unpacked;
    z_stream *z; /* gzip or deflate; NULL: neither, or it has ended */
    uint64_t n_unpacked;
    bool deflate, begun;
};
int cred_body_init(struct cred_body *b, const struct http_head *head); /* -ENOMEM */
/* 0; 1: *ret_tag; -ENOMEM; -EFBIG: past CRED_INFLATED_MAX; -EBADMSG: what should be packed is not. */
int cred_body_watch(struct cred_body *b, const struct finder *f, const uint8_t *data, size_t len, uint32_t *ret_tag);
void cred_body_done(struct cred_body *b);

/* "identity", or nothing said. */
bool cred_is_plain(const struct http_head *head);
