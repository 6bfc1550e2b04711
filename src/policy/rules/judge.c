/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a request by the rules of one layer. */
#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "policy/rules/judge_priv.h"

enum match { MATCH_NO_PORT, MATCH_NO_METHOD, MATCH_NO_PATH, MATCH_MAYBE, MATCH_YES };

static bool method_matches(const struct rule *rule, const char *method) {
    bool opens = rule->action != RULE_ALLOW && str_eq(method, POLICY_WEBSOCKET);

    for (size_t i = 0; i < rule->methods.len; i++)
        if (rule->action == RULE_ALLOW
                ? str_eq(rule->methods.v[i], method)
                : strcasecmp(rule->methods.v[i], method) == 0 || (opens && str_eq(rule->methods.v[i], "GET")))
            return true;
    return rule->methods.len == 0;
}

static bool any_glob(const struct rule *rule, const char *path) {
    for (size_t i = 0; i < rule->paths.len; i++)
        if (path_glob_match(rule->paths.v[i], path))
            return true;
    return rule->paths.len == 0;
}

static bool any_loose_glob(const struct rule *rule, const struct http_path *path) {
    for (size_t i = 0; i < rule->paths.len; i++)
        if (path_glob_match_loose(rule->paths.v[i], path))
            return true;
    return false;
}

/* Two readings of a path: see http_path.h. */
static bool path_matches(const struct rule *rule, const struct http_path *path) {
    if (rule->action == RULE_ALLOW)
        return any_glob(rule, path->text) && (!path->other[0] || any_glob(rule, path->other));
    return any_glob(rule, path->text) || (path->other[0] && any_glob(rule, path->other)) || any_loose_glob(rule, path);
}

static enum match test(const struct rule *rule, const struct policy_request *req, unsigned *ret_needs) {
    *ret_needs = 0;
    if (rule->n_ports && req->port && !rule_has_port(rule, req->port))
        return MATCH_NO_PORT;
    if (rule->methods.len && req->method && !method_matches(rule, req->method))
        return MATCH_NO_METHOD;
    if (rule->paths.len && req->path && !path_matches(rule, req->path))
        return MATCH_NO_PATH;
    if (rule->n_ports && !req->port)
        *ret_needs |= NEEDS_PORT;
    if ((rule->methods.len && !req->method) || (rule->paths.len && !req->path))
        *ret_needs |= NEEDS_HTTP;
    return *ret_needs ? MATCH_MAYBE : MATCH_YES;
}

static void note_miss(struct finding *f, const struct rule *rule, enum match m) {
    enum policy_code code = m == MATCH_NO_PORT     ? POLICY_DENIED_PORT
                            : m == MATCH_NO_METHOD ? POLICY_DENIED_METHOD
                                                   : POLICY_DENIED_PATH;

    if (rule->action == RULE_DENY || (f->near && f->near_code >= code)) /* the codes stand in that order */
        return;
    f->near = rule;
    f->near_code = code;
}
static_assert(POLICY_DENIED_PORT < POLICY_DENIED_METHOD && POLICY_DENIED_METHOD < POLICY_DENIED_PATH,
              "the nearest miss is the largest");

static void note_grant(struct finding *f, const struct rule_hit *hit) {
    const struct rule *rule = hit->rule;

    if (rule->action == RULE_DENY)
        return;
    f->look |= rule->inspect == INSPECT_YES || rule->max_body;
    f->private_ok |= rule->allow_private;
    f->private_exact_ok |= rule->allow_private && hit->exact;
}

static void note_maybe(struct finding *f, const struct rule_hit *hit, enum policy_layer_kind layer, unsigned needs) {
    if (!f->maybe.any || hit->rule->action > f->maybe.hit.rule->action) {
        f->maybe.hit = *hit;
        f->maybe.layer = layer;
    }
    f->maybe.any = true;
    f->maybe.actions |= 1u << hit->rule->action;
    f->maybe.needs |= needs;
    f->maybe.differs |= hit->rule->max_body || hit->rule->inspect == INSPECT_YES || hit->rule->allow_private;
    note_grant(f, hit);
}

/* What kind of thing in the rule made it deny, for the code. */
static enum policy_code code_of(const struct rule_hit *hit) {
    const struct rule *rule = hit->rule;

    if (rule->action == RULE_ALLOW)
        return POLICY_ALLOWED;
    if (rule->action == RULE_ASK)
        return POLICY_ASK;
    if (rule->paths.len)
        return POLICY_DENIED_PATH;
    if (rule->methods.len)
        return POLICY_DENIED_METHOD;
    if (rule->n_ports)
        return POLICY_DENIED_PORT;
    return hit->cidr ? POLICY_DENIED_ADDRESS : POLICY_DENIED_HOST;
}

static void decide(struct finding *f, const struct rule_hit *hit, enum policy_layer_kind layer) {
    f->decided = true;
    f->action = hit->rule->action;
    f->code = code_of(hit);
    f->by = *hit;
    f->layer = layer;
    f->max_body = hit->rule->max_body;
    note_grant(f, hit);
}

/* A rule that does not deny matches the address, if only perhaps. */
static void name_address(struct finding *f, const struct rule_hit *hit, enum policy_layer_kind layer, bool surely,
                         const struct addr_verdict *class) {
    bool names = hit->bits >= class->bits, first = surely && !f->decided && !f->maybe.any;

    if (hit->rule->action == RULE_ALLOW) {
        f->named |= names;
        f->private_ok |= hit->rule->allow_private;
        f->private_exact_ok |= hit->rule->allow_private && hit->exact;
        return;
    }
    if (f->ask.rule ? first && !f->ask_first : first || names) {
        f->ask = *hit;
        f->ask_layer = layer;
    }
    f->ask_first |= first;
    f->named_by_ask |= names;
}

/* A rule about the address, while the host is a name or was decided about already: it can name the address (or ask about it), and,
 * before the rule for the name, deny it. */
static void take_address(struct finding *f, const struct rule_hit *hit, enum policy_layer_kind layer, enum match m,
                         const struct addr_verdict *class) {
    if (m < MATCH_MAYBE || f->addresses_done)
        return;
    if (hit->rule->action != RULE_DENY) {
        name_address(f, hit, layer, m == MATCH_YES, class);
        return;
    }
    if (m == MATCH_YES && !f->decided)
        decide(f, hit, layer);
    f->addresses_done |= m == MATCH_YES;
}

static void take_hit(struct finding *f, const struct policy_request *req, const struct rule_hit *hit,
                     enum policy_layer_kind layer, const struct addr_verdict *class) {
    unsigned needs;
    enum match m = test(hit->rule, req, &needs);

    if (hit->cidr && (req->host->kind == HOST_NAME || f->decided)) {
        take_address(f, hit, layer, m, class);
        return;
    }
    if (f->decided)
        return;
    if (m < MATCH_MAYBE) {
        note_miss(f, hit->rule, m);
    } else if (m == MATCH_MAYBE) {
        note_maybe(f, hit, layer, needs);
        if (hit->cidr)
            take_address(f, hit, layer, m, class);
    } else {
        decide(f, hit, layer);
        if (hit->cidr)
            take_address(f, hit, layer, m, class);
    }
}

/* A human said, for this sandbox, that this host is allowed all the same: in one of the layers of humans above this one. */
static bool is_overruled(const struct policy *p, const struct policy_request *req, const struct rule_hit *stricter,
                         enum policy_layer_kind layer) {
    struct rule_walk w;
    struct rule_hit hit;
    unsigned needs;

    for (enum policy_layer_kind l = LAYER_SESSION; l <= LAYER_SANDBOX && l < layer; l++) {
        if (!p->layers[l].present || p->layers[l].narrow_only)
            continue;
        rule_walk_init(&w, &p->layers[l].rules, req->host, req->address);
        while (rule_walk_next(&w, &hit))
            if (hit.rule->action != RULE_DENY && test(hit.rule, req, &needs) >= MATCH_MAYBE && rule_overrules(&hit, stricter))
                return true;
    }
    return false;
}

/* Behind the rule that decides, only rules that name a special address have anything to add. */
bool finding_is_final(const struct finding *f, const struct addr_verdict *class) {
    return f->decided && (f->action == RULE_DENY || f->addresses_done || class->class == ADDR_PUBLIC);
}

void finding_walk(struct finding *f, const struct policy *p, enum policy_layer_kind layer, const struct policy_request *req,
                  const struct addr_verdict *class) {
    struct rule_walk w;
    struct rule_hit hit;

    rule_walk_init(&w, &p->layers[layer].rules, req->host, req->address);
    while (rule_walk_next(&w, &hit)) {
        if (f->is_check && hit.rule->action != RULE_ALLOW && is_overruled(p, req, &hit, layer))
            continue;
        take_hit(f, req, &hit, layer, class);
        if (finding_is_final(f, class))
            return;
    }
}

void finding_take_mode(struct finding *f, const struct policy_request *req, enum net_mode mode, enum rule_action unlisted) {
    bool literal = req->host->kind != HOST_NAME;

    f->action = RULE_ALLOW;
    f->code = POLICY_ALLOWED;
    switch (mode) {
    case NET_UNSET:
    case NET_FULL:
        return;
    case NET_NONE:
        f->action = RULE_DENY;
        f->code = POLICY_DENIED_OFF;
        return;
    case NET_LIMITED:
        f->needs |= req->port ? 0 : NEEDS_PORT;
        if (!req->port || req->port == 80 || req->port == 443)
            return;
        f->action = RULE_DENY;
        f->code = f->near ? f->near_code : POLICY_DENIED_PORT;
        return;
    case NET_LIST:
        f->action = literal ? RULE_DENY : unlisted;
        f->code = f->action == RULE_ASK ? POLICY_ASK : literal ? POLICY_NOT_HANDED_OUT : POLICY_DENIED_HOST;
        if (f->action == RULE_DENY && f->near)
            f->code = f->near_code;
        return;
    case NET_MODES:
        break;
    }
    BUG("a mode that is none");
}

void finding_settle(struct finding *f) {
    if (!f->maybe.any)
        return;
    if (f->maybe.actions != 1u << f->action || f->maybe.differs)
        f->needs |= f->maybe.needs;
    if (f->maybe.hit.rule->action <= f->action)
        return;
    f->action = f->maybe.hit.rule->action;
    f->code = code_of(&f->maybe.hit);
    f->by = f->maybe.hit;
    f->layer = f->maybe.layer;
    f->max_body = f->maybe.hit.rule->max_body;
}

static bool is_never_dialled(enum addr_class class) {
    return class == ADDR_UNSPECIFIED || class == ADDR_MULTICAST || class == ADDR_BROADCAST;
}

/* A wildcard, or a network, that allows private addresses means a private network: not this machine, and not what only speaks to
 * neighbours on the same cable. In the zone of a wildcard any name may be made up to lead there. */
static bool must_be_exact(enum addr_class class) {
    return class == ADDR_METADATA || class == ADDR_OWN || class == ADDR_LOOPBACK || class == ADDR_LINK_LOCAL;
}

static bool address_ok(const struct finding *f, enum addr_class class) {
    if (class == ADDR_PUBLIC)
        return true;
    if (is_never_dialled(class))
        return false;
    return f->named || (must_be_exact(class) ? f->private_exact_ok : f->private_ok);
}

static void ask_about_address(struct finding *f) {
    f->asks_address = true;
    f->action = RULE_ASK;
    f->code = POLICY_ASK;
    f->by = f->ask;
    f->layer = f->ask_layer;
}

void finding_filter_address(struct finding *f) {
    if (f->action != RULE_DENY && f->ask_first)
        ask_about_address(f);
}

void finding_guard_address(struct finding *f, const struct addr_verdict *class) {
    bool ok = address_ok(f, class->class), by_ask = f->named_by_ask && !is_never_dialled(class->class);

    if (f->action != RULE_DENY && f->ask.rule && (ok ? f->ask_first : by_ask)) {
        ask_about_address(f);
        return;
    }
    if (f->action == RULE_DENY || ok || by_ask)
        return;
    f->action = RULE_DENY;
    f->code = POLICY_DENIED_ADDRESS;
    f->by = (struct rule_hit){0};
}
