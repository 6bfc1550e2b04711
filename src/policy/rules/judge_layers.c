/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the answers of the layers. */
#include "policy/rules/judge_priv.h"

/* A literal address may belong to a host that a rule is about by name. The address does not show it. */
static void guard_names(struct finding *f, const struct policy *p, const struct policy_request *req) {
    for (enum policy_layer_kind l = 0; l < LAYERS && !f->by_name; l++) {
        f->by_name = p->layers[l].present ? rules_strict_name(&p->layers[l].rules, req->port) : NULL;
        f->by_name_layer = l;
    }
    if (!f->by_name)
        return;
    f->action = RULE_DENY;
    f->code = POLICY_NOT_HANDED_OUT;
}

/* The layers that grant, together. */
static struct finding judge_grants(const struct policy *p, const struct policy_request *req, const struct addr_verdict *class) {
    enum rule_action unlisted;
    enum net_mode mode = policy_mode(p, &unlisted);
    struct finding f = {0};

    if (mode == NET_NONE) {
        finding_take_mode(&f, req, mode, unlisted);
        return f;
    }
    for (size_t i = 0; i < LAYERS; i++)
        if (p->layers[i].present && !p->layers[i].narrow_only && (i != LAYER_BUILTIN || mode == NET_UNSET) &&
            !finding_is_final(&f, class))
            finding_walk(&f, p, i, req, class);
    if (!f.decided)
        finding_take_mode(&f, req, mode == NET_UNSET ? NET_LIST : mode, p->can_ask ? unlisted : RULE_DENY);
    if (!f.decided && f.action == RULE_ALLOW && req->host->kind != HOST_NAME && class->class == ADDR_PUBLIC)
        guard_names(&f, p, req);
    finding_settle(&f);
    finding_guard_address(&f, class);
    return f;
}

/* What a weaker layer denies or asks about holds, unless a human overruled it for this sandbox. Only what it takes away counts. */
static void hold_stricter(const struct policy *p, const struct policy_request *req, const struct addr_verdict *class,
                          enum policy_layer_kind layer, struct finding *f) {
    struct finding g = {.layer = layer, .is_check = true};

    finding_walk(&g, p, layer, req, class);
    if (!g.decided)
        finding_take_mode(&g, req, NET_UNSET, RULE_DENY);
    g.maybe.differs = false;
    finding_settle(&g);
    finding_filter_address(&g);
    f->needs |= g.needs;
    f->asks_address |= g.asks_address;
    if (g.action >= f->action)
        return;
    g.needs = f->needs;
    g.look = f->look;
    g.max_body = f->max_body;
    g.asks_address = f->asks_address;
    g.over = f->by;
    g.over_layer = f->layer;
    *f = g;
}

static bool has_rules(const struct policy *p, enum policy_layer_kind layer) {
    return p->layers[layer].present && !p->layers[layer].narrow_only && p->layers[layer].rules.len;
}

static void hold_all_stricter(const struct policy *p, const struct policy_request *req, const struct addr_verdict *class,
                              struct finding *f) {
    static const enum policy_layer_kind layers[] = {LAYER_SANDBOX, LAYER_PROJECT, LAYER_USER};
    bool stronger = false;

    for (size_t i = 0, k = 0; i < ARRAY_LEN(layers) && f->action != RULE_DENY; i++) {
        for (; k < layers[i]; k++)
            stronger |= has_rules(p, k);
        if (stronger && has_rules(p, layers[i]))
            hold_stricter(p, req, class, layers[i], f);
    }
}

static struct finding judge_filter(const struct policy *p, enum policy_layer_kind layer, const struct policy_request *req,
                                   const struct addr_verdict *class) {
    const struct rules *rules = &p->layers[layer].rules;
    struct finding f = {.layer = layer};

    if (rules->mode != NET_NONE)
        finding_walk(&f, p, layer, req, class);
    if (!f.decided)
        finding_take_mode(&f, req, rules->mode, p->can_ask ? rules->unlisted : RULE_DENY);
    finding_settle(&f);
    finding_filter_address(&f);
    return f;
}

/* The stricter one of two, with what both of them need. Of two that deny it is the organisation's: no user here can change that, so
 * the hint must not be to change the other. Returns whether it is the other one. */
static bool combine(struct finding *f, const struct finding *other) {
    bool stricter = other->action < f->action || (other->action == RULE_DENY && other->layer == LAYER_ORGANISATION);
    struct finding both = stricter ? *other : *f;

    both.needs = f->needs | other->needs;
    both.look = f->look | other->look;
    both.asks_address = f->asks_address || other->asks_address;
    both.max_body = f->max_body && other->max_body ? MIN_OF(f->max_body, other->max_body) : MAX_OF(f->max_body, other->max_body);
    *f = both;
    return stricter;
}

static enum policy_look how_to_look(const struct finding *f, const struct policy_request *req) {
    if (!f->look && !(f->needs & NEEDS_HTTP))
        return LOOK_NO;
    return req->is_tls ? LOOK_TLS : LOOK_HTTP;
}

static void report(const struct policy *p, const struct policy_request *req, struct finding *f, const struct addr_verdict *class,
                   bool by_filter, struct policy_verdict *ret) {
    const struct verdict_cause cause = {
        .near = f->near,
        .pattern = f->by.pattern,
        .class = class->class,
        .organisation = by_filter && f->layer == LAYER_ORGANISATION,
        .over = f->over.rule,
        .over_layer = f->over_layer,
        .by_name = f->by_name,
        .by_name_layer = f->by_name_layer,
    };

    if (f->action == RULE_ASK && !p->can_ask) {
        f->action = RULE_DENY;
        f->code = POLICY_DENIED_UNANSWERED;
    }
    if (f->action != RULE_DENY && req->host->kind == HOST_NAME && !req->address)
        f->needs |= NEEDS_ADDRESS;
    *ret = (struct policy_verdict){
        .action = f->action,
        .code = f->code,
        .needs = f->action == RULE_DENY ? 0 : f->needs,
        .look = f->action == RULE_DENY ? LOOK_NO : how_to_look(f, req),
        .max_body = f->action == RULE_DENY ? 0 : f->max_body,
        .asks_address = f->action == RULE_ASK && f->asks_address && req->address,
        .rule = f->by.rule,
        .layer = f->by.rule || by_filter            ? policy_layer_names[f->layer]
                 : f->code == POLICY_DENIED_ADDRESS ? "address"
                                                    : "mode",
    };
    verdict_explain(req, &cause, ret);
}

void policy_judge(const struct policy *p, const struct policy_request *given, struct policy_verdict *ret) {
    struct policy_request req = *given;
    struct addr_verdict class = {ADDR_PUBLIC, false, 0};
    struct finding f;
    bool by_filter = false;

    if (req.host->kind != HOST_NAME)
        req.address = NULL; /* the host is the address; nothing was looked up */
    if (req.host->kind != HOST_NAME || req.address)
        class = addr_classify(req.address ? req.address : &req.host->addr, p->own, p->n_own);
    if (class.class == ADDR_PUBLIC && host_is_metadata(req.host))
        class = (struct addr_verdict){ADDR_METADATA, false, 32};
    f = judge_grants(p, &req, &class);
    hold_all_stricter(p, &req, &class, &f);
    for (size_t i = 0; i < LAYERS; i++) {
        struct finding g;

        if (!p->layers[i].present || !p->layers[i].narrow_only)
            continue;
        g = judge_filter(p, i, &req, &class);
        by_filter |= combine(&f, &g);
    }
    report(p, &req, &f, &class, by_filter, ret);
}
