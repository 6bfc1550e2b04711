/* SPDX-License-Identifier: Apache-2.0 */
/* From a DNS query to its answer. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/net/dnsd.h"
#include "gateway/net/names.h"
#include "proto/dns.h"

enum { TTL_FIXED_S = 3600, NUMBER_OF_GATE = 1 };

struct exchange {
    const struct dnsd_view *view;
    struct dns_query query;
    struct host host;
    uint8_t *out;
    size_t size;
    struct dnsd_refusal *refusal;
};

static size_t answer_empty(struct exchange *x, enum dns_rcode rcode, enum dns_ede ede, const char *text) {
    struct dns_answer a;

    dns_answer_begin(&a, &x->query, rcode, x->out, x->size);
    return dns_answer_end(&a, ede, text);
}

/* addr: NULL for none. A name that has one for another type of question does exist: resolvers believe the first NXDOMAIN. */
static size_t answer_refusal(struct exchange *x, enum dns_rcode rcode, const struct addr *addr) {
    const struct policy_verdict *v = &x->refusal->verdict;
    char text[64 + sizeof v->reason];
    struct dns_answer a;

    snprintf(text, sizeof text, "%s: %s", policy_codes[v->code].name, v->reason);
    x->refusal->refused = true;
    dns_answer_begin(&a, &x->query, rcode, x->out, x->size);
    if (addr)
        dns_answer_address(&a, NAMES_TTL_S, addr->b, addr->len);
    return dns_answer_end(&a, DNS_EDE_BLOCKED, text);
}

static size_t answer_address(struct exchange *x, uint32_t ttl, const struct addr *addr) {
    struct dns_answer a;

    dns_answer_begin(&a, &x->query, DNS_NOERROR, x->out, x->size);
    dns_answer_address(&a, ttl, addr->b, addr->len);
    return dns_answer_end(&a, DNS_EDE_NONE, NULL);
}

static size_t answer_ptr(struct exchange *x, uint32_t ttl, const char *name) {
    struct dns_answer a;

    dns_answer_begin(&a, &x->query, DNS_NOERROR, x->out, x->size);
    dns_answer_ptr(&a, ttl, name);
    return dns_answer_end(&a, DNS_EDE_NONE, NULL);
}

/* How long an address of the asked type is; 0: it is not an address that is asked for, or the sandbox has no such addresses. */
static uint8_t wanted_len(const struct exchange *x) {
    if (x->query.type == DNS_TYPE_A)
        return 4;
    return x->query.type == DNS_TYPE_AAAA && x->view->ipv6 ? 16 : 0;
}

static size_t answer_localhost(struct exchange *x) {
    static const struct addr ipv4 = {.len = 4, .b = {127, 0, 0, 1}}, ipv6 = {.len = 16, .b = {[15] = 1}};

    if (x->query.type == DNS_TYPE_A)
        return answer_address(x, TTL_FIXED_S, &ipv4);
    if (x->query.type == DNS_TYPE_AAAA)
        return answer_address(x, TTL_FIXED_S, &ipv6);
    return answer_empty(x, DNS_NOERROR, DNS_EDE_NONE, NULL);
}

static size_t answer_number(struct exchange *x, uint32_t ttl, uint32_t number) {
    struct addr addr;

    names_address(number, wanted_len(x), &addr);
    return answer_address(x, ttl, &addr);
}

/* Whatever was not handed out here has no name, and no server is asked for it. */
static size_t answer_reverse(struct exchange *x, const struct addr *addr) {
    struct host name;

    if (names_is_gate(addr))
        return answer_ptr(x, TTL_FIXED_S, "bawn.internal");
    if (addr_classify(addr, NULL, 0).class == ADDR_LOOPBACK)
        return answer_ptr(x, TTL_FIXED_S, "localhost");
    if (names_find(x->view->names, addr, x->view->now_s, &name))
        return answer_ptr(x, NAMES_TTL_S, name.text);
    return answer_empty(x, DNS_NXDOMAIN, DNS_EDE_NONE, NULL);
}

/*
 * Programs ask for these names to find out where they are, and take any address for a yes: metadata services of clouds, proxies
 * that want to be found, the name by which networks tell browsers not to look names up elsewhere. The same goes for names
 * without a dot, which are the local network's.
 */
static bool is_probe(const struct host *h) {
    return !memchr(h->text, '.', h->len) || host_is_metadata(h) || str_starts(h->text, "wpad.") || str_ends(h->text, ".local") ||
           str_ends(h->text, ".arpa") || str_eq(h->text, "use-application-dns.net");
}

/* An address all the same, so that the connection comes to us and is answered with the reason (flow_refuse.c). */
static size_t answer_denied(struct exchange *x) {
    struct addr addr;
    uint32_t number;
    int r = -ENOENT;

    if (x->view->answers_denied && !is_probe(&x->host))
        r = names_number_denied(x->view->names, &x->host, x->view->now_s, &number);
    if (r < 0)
        return answer_refusal(x, DNS_NXDOMAIN, NULL);
    x->refusal->again = r == 0;
    if (!wanted_len(x))
        return answer_refusal(x, DNS_NOERROR, NULL);
    names_address(number, wanted_len(x), &addr);
    return answer_refusal(x, DNS_NOERROR, &addr);
}

static size_t answer_judged(struct exchange *x) {
    struct policy_request req = {.host = &x->host};
    uint32_t number;

    policy_judge(x->view->policy, &req, &x->refusal->verdict);
    if (x->refusal->verdict.action == RULE_DENY)
        return answer_denied(x);
    if (!wanted_len(x))
        return answer_empty(x, DNS_NOERROR, DNS_EDE_NONE, NULL);
    if (names_number(x->view->names, &x->host, x->view->now_s, &number) < 0)
        return answer_empty(x, DNS_SERVFAIL, DNS_EDE_OTHER, "too many different names were looked up");
    return answer_number(x, NAMES_TTL_S, number);
}

/* ATTACKS 46: bytes that a program behind us could read differently end here, before a rule is asked. */
static int read_host(struct exchange *x) {
    struct err err = {0};
    int r = 0;

    if (x->query.odd)
        r = err_set(&err, -EINVAL, "the host name has a control byte, a space or a dot inside of a part");
    if (r == 0)
        r = host_parse(x->query.name, x->query.name_len, &x->host, &err);
    if (r == 0 && x->host.kind != HOST_NAME)
        r = err_set(&err, -EINVAL, "an address is not looked up");
    if (r < 0)
        policy_refuse(POLICY_NAME_INVALID, "", err.msg, &x->refusal->verdict);
    return r;
}

static size_t answer_question(struct exchange *x) {
    const struct host *h = &x->host;
    struct addr reverse;

    if (x->query.class != DNS_CLASS_IN)
        return answer_empty(x, DNS_REFUSED, DNS_EDE_NONE, NULL);
    if (x->query.name_len == 0)
        return answer_empty(x, DNS_NOERROR, DNS_EDE_NONE, NULL);
    if (read_host(x) < 0)
        return answer_refusal(x, DNS_NXDOMAIN, NULL);
    memcpy(x->refusal->host, h->text, h->len + 1);
    if (str_eq(h->text, "localhost") || str_ends(h->text, ".localhost"))
        return answer_localhost(x);
    if (str_eq(h->text, "bawn.internal"))
        return wanted_len(x) ? answer_number(x, TTL_FIXED_S, NUMBER_OF_GATE) : answer_empty(x, DNS_NOERROR, DNS_EDE_NONE, NULL);
    reverse.len = (uint8_t)(x->query.type == DNS_TYPE_PTR ? dns_reverse_parse(h->text, h->len, reverse.b) : 0);
    return reverse.len ? answer_reverse(x, &reverse) : answer_judged(x);
}

size_t dnsd_answer(const struct dnsd_view *view, const uint8_t *query, size_t len, uint8_t *out, size_t size,
                   struct dnsd_refusal *ret) {
    struct exchange x = {.view = view, .out = out, .size = size, .refusal = ret};
    int r = dns_query_parse(query, len, &x.query);

    ret->refused = ret->again = false;
    ret->host[0] = 0;
    if (r < 0)
        return 0;
    return r == DNS_NOERROR ? answer_question(&x) : answer_empty(&x, (enum dns_rcode)r, DNS_EDE_NONE, NULL);
}
