/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which request may have which credential. */
#include <errno.h>

#include "base/str.h"
#include "broker/broker.h"

enum { HTTPS_PORT = 443 };

static int judge_allowed(const struct broker *b, const struct policy_request *q) {
    struct policy_verdict v;

    policy_judge(&b->policy, q, &v);
    return v.action == RULE_ALLOW && !(v.needs & ~(unsigned)NEEDS_ADDRESS) ? 0 : -EACCES;
}

/* The address is the gate's part: it verifies the server's certificate, so that another address is no other server. */
static int allowed_request(const struct broker *b, const struct host *host, uint16_t port, const char *method, const char *path,
                           size_t path_len) {
    struct policy_request q = {.host = host, .port = port, .is_tls = true, .method = method, .terse = true};
    UNINITIALIZED struct http_path p; /* 16 KiB, for each request */

    if (!method[0] || http_path_parse(path, path_len, &p, NULL) < 0)
        return -EACCES;
    q.path = &p;
    return judge_allowed(b, &q);
}

static int read_host(const struct broker_request *req, struct host *ret) {
    bool ok = req->port > 0 && req->port <= UINT16_MAX && host_parse(req->host, strlen(req->host), ret, NULL) == 0;

    return ok ? 0 : -EACCES;
}

int judge_grant(const struct broker *b, const struct broker_request *req, const char *path, size_t path_len) {
    const struct credential *c;
    struct host host;

    if (req->index >= b->config.n_grants || read_host(req, &host) < 0)
        return -EACCES;
    c = &b->config.grants[req->index].c;
    if (!credential_is_for(c, host.text, (uint16_t)req->port))
        return -EACCES;
    return allowed_request(b, &host, (uint16_t)req->port, req->method, path, path_len);
}

int judge_cover(const struct broker *b, const struct broker_request *req) {
    const struct credential *c;
    struct policy_verdict v;
    struct host host;
    size_t at = 0;
    uint16_t port;

    if (req->index >= b->config.n_grants || read_host(req, &host) < 0)
        return -EACCES;
    c = &b->config.grants[req->index].c;
    while ((port = credential_next_port(c, host.text, &at))) {
        policy_judge(&b->policy, &(struct policy_request){.host = &host, .port = port, .is_tls = true, .terse = true}, &v);
        if (v.action == RULE_ALLOW) /* the most permissive verdict that method and path can bring */
            return 0;
    }
    return -EACCES;
}

int judge_login_place(const struct broker *b, const struct broker_request *req) {
    static const char scheme[] = "https://";
    const char *url, *path;
    struct host host, from;
    uint16_t port = 0;

    if (req->index >= b->config.n_grants || read_host(req, &from) < 0)
        return -EACCES;
    url = b->config.grants[req->index].c.token_url;
    if (!url || !str_starts(url, scheme))
        return -EACCES;
    url += sizeof scheme - 1;
    path = url + strcspn(url, "/?");
    if (host_parse_with_port(url, (size_t)(path - url), &host, &port, NULL) < 0)
        return -EACCES;
    port = port ? port : HTTPS_PORT;
    if (port != req->port || !host_eq(&host, &from))
        return -EACCES;
    return path[0] == '/' ? allowed_request(b, &host, port, "POST", path, strlen(path))
                          : allowed_request(b, &host, port, "POST", "/", 1);
}

int judge_connection(const struct broker *b, const struct host *host, uint16_t port) {
    return port ? judge_allowed(b, &(struct policy_request){.host = host, .port = port, .terse = true}) : -EACCES;
}
