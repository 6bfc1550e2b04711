/* SPDX-License-Identifier: Apache-2.0 */
/* One-time links and sessions of the dashboard. */
#include "service/core/core_session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "service/core/core.h"

static bool pass_valid(const struct core_pass *p, uint64_t now_ns) {
    return p->tenant[0] && p->expires_ns > now_ns && (!p->until_ns || p->until_ns > now_ns);
}

/* A free place; of a tenant that has its share, the oldest of its own. NULL: all are taken. */
static struct core_pass *pass_place(struct core_pass *v, size_t n, size_t share, const char *tenant, uint64_t now_ns) {
    struct core_pass *free_one = NULL, *oldest = NULL;
    size_t own = 0;

    for (size_t i = 0; i < n; i++) {
        if (!pass_valid(&v[i], now_ns)) {
            free_one = &v[i];
            continue;
        }
        if (!str_eq(v[i].tenant, tenant))
            continue;
        own++;
        if (!oldest || v[i].begun_ns < oldest->begun_ns)
            oldest = &v[i];
    }
    return own >= share ? oldest : free_one;
}

/* The one with this hash, compared with all of them. */
static struct core_pass *pass_of(struct core_pass *v, size_t n, const char *text, size_t len, uint64_t now_ns) {
    unsigned char hash[SHA256_LEN];
    struct core_pass *found = NULL;

    if (!text || !token_hash(text, len, hash))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (token_same(v[i].hash, hash) && pass_valid(&v[i], now_ns))
            found = &v[i];
    return found;
}

static int pass_secret(char text[static TOKEN_SIZE], unsigned char hash[static SHA256_LEN]) {
    int r = token_make(text);

    if (r == 0 && !token_hash(text, TOKEN_SIZE - 1, hash))
        BUG("a token that is none");
    return r;
}

int session_link(struct core *c, const struct api_call *call, char code[static TOKEN_SIZE], uint64_t *ret_expires_ns) {
    const struct tenant_row *t = &call->tenant->row;
    uint64_t now = clock_mark();
    struct core_pass *p = pass_place(c->sessions.links, LINKS_MAX, LINKS_OF_TENANT, t->name, now);
    int r;

    if (!p)
        return -EBUSY;
    *p = (struct core_pass){.number = t->number, .admin = call->admin, .begun_ns = now, .expires_ns = now + LINK_NS};
    p->until_ns = call->until_ns;
    memcpy(p->token, call->token, sizeof p->token);
    r = pass_secret(code, p->hash);
    if (r < 0)
        return r;
    memcpy(p->tenant, t->name, sizeof p->tenant);
    *ret_expires_ns = p->expires_ns;
    return 0;
}

int session_open(struct core *c, const char *code, size_t len, char cookie[static TOKEN_SIZE], char csrf[static TOKEN_SIZE],
                 struct core_pass *ret) {
    uint64_t now = clock_mark();
    struct core_pass *link = pass_of(c->sessions.links, LINKS_MAX, code, len, now), *p, s;
    int r;

    if (!link)
        return 0;
    s = TAKE(*link, (struct core_pass){0}); /* once, whatever comes of it */
    p = pass_place(c->sessions.sessions, SESSIONS_MAX, SESSIONS_OF_TENANT, s.tenant, now);
    if (!p)
        return -EBUSY;
    s.begun_ns = now;
    s.expires_ns = now + SESSION_NS;
    if (s.until_ns && s.until_ns < s.expires_ns)
        s.expires_ns = s.until_ns;
    r = pass_secret(cookie, s.hash);
    r = r < 0 ? r : pass_secret(csrf, s.csrf);
    if (r < 0)
        return r;
    *ret = *p = s;
    return 1;
}

static struct core_pass *session_of(struct core *c, const struct api_call *call) {
    size_t len = 0;
    const char *text = api_field_bytes(&call->fields, API_FIELD_SESSION, 0, &len);

    return pass_of(c->sessions.sessions, SESSIONS_MAX, text, len, clock_mark());
}

int session_find(struct core *c, struct api_call *call) {
    const struct core_pass *p = session_of(c, call);
    unsigned char hash[SHA256_LEN];
    size_t len = 0;
    const char *csrf = api_field_bytes(&call->fields, API_FIELD_CSRF, 0, &len);
    struct tenant *t = p ? core_tenant(c, p->tenant) : NULL;

    if (!t || t->row.number != p->number || !csrf || !token_hash(csrf, len, hash) || !token_same(p->csrf, hash))
        return 0;
    call->tenant = t;
    call->admin = p->admin;
    call->session = true;
    memcpy(call->token, p->token, sizeof call->token);
    return 1;
}

/* A page that was taken over must not outlive its session: no tokens, no tenants, no links. */
bool session_forbids(const struct api_call *call) {
    const struct api_route *r = call->route;

    return call->session && (r->op == API_OP_LINK_CREATE || (r->scope == API_SCOPE_ADMIN && r->method != API_METHOD_GET));
}

void session_sign_out(struct core *c, const struct api_call *call) {
    struct core_pass *p = session_of(c, call);

    if (p)
        *p = (struct core_pass){0};
}

static void drop_of_token(struct core_pass *v, size_t n, const char *token) {
    for (size_t i = 0; i < n; i++)
        if (str_eq(v[i].token, token))
            v[i] = (struct core_pass){0};
}

void session_end_token(struct core *c, const char *token) {
    drop_of_token(c->sessions.links, LINKS_MAX, token);
    drop_of_token(c->sessions.sessions, SESSIONS_MAX, token);
}

/* "127.0.0.1", "[::1]"; a listener at every address is reached at the loopback one. */
static bool address_text(const struct sockaddr_storage *a, char *ret, size_t size, unsigned *ret_port) {
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;
    char text[INET6_ADDRSTRLEN];

    if (a->ss_family == AF_INET) {
        *ret_port = ntohs(v4->sin_port);
        snprintf(ret, size, "%s",
                 v4->sin_addr.s_addr == INADDR_ANY ? "127.0.0.1" : inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text));
        return true;
    }
    if (a->ss_family != AF_INET6)
        return false;
    *ret_port = ntohs(v6->sin6_port);
    snprintf(ret, size, "[%s]",
             IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ? "::1" : inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text));
    return true;
}

bool session_address(const struct core *c, char *ret, size_t size) {
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    unsigned port = 0;
    char host[INET6_ADDRSTRLEN + 2];

    if (!c->n_tcp || getsockname(c->tcp[0], (struct sockaddr *)&a, &len) < 0 || !address_text(&a, host, sizeof host, &port))
        return false;
    snprintf(ret, size, "%s://%s:%u", c->tls[0] >= 0 ? "https" : "http", c->conf.hosts.len ? c->conf.hosts.v[0] : host, port);
    return true;
}
