/* SPDX-License-Identifier: Apache-2.0 */
/* Between judge.c, which asks the rules of a layer, judge_layers.c, which puts the layers together, and verdict.c, which finds the words. */
#pragma once

#include "policy/rules/verdict.h"

/* What one line of layers (all that grant, or one that only takes away) says. */
struct finding {
    enum rule_action action;
    enum policy_code code;
    struct rule_hit by; /* .rule is NULL if the mode decided */
    enum policy_layer_kind layer;
    bool decided; /* by a rule that matches whatever is still unknown */
    unsigned needs;
    bool look;
    uint64_t max_body;

    struct {                 /* rules that match if something unknown turns out so */
        struct rule_hit hit; /* the most permissive */
        enum policy_layer_kind layer;
        bool differs, any;
        unsigned actions; /* a bit for each enum rule_action */
        unsigned needs;
    } maybe;

    const struct rule *near; /* allows another port, method or path */
    enum policy_code near_code;

    struct rule_hit ask; /* a rule about the address that asks; .rule is NULL if there is none */
    enum policy_layer_kind ask_layer;
    bool ask_first;        /* it comes before the rule for the name */
    bool asks_address;     /* it is why the verdict is to ask, perhaps beside a rule for the name */
    bool named_by_ask;     /* it, or another one, names the address */
    bool named;            /* an allowing rule names the address */
    bool private_ok;       /* an allowing rule for the host has allow_private */
    bool private_exact_ok; /* ... and has no wildcard */
    bool addresses_done;   /* a rule denies the address behind this point: later ones do not name it any more */

    bool is_check;        /* of a layer whose stricter rules hold against stronger layers */
    struct rule_hit over; /* a rule that does not overrule what was found in a weaker layer; .rule is NULL if there is none */
    enum policy_layer_kind over_layer;
    const struct rule *by_name; /* why the mode does not allow an address */
    enum policy_layer_kind by_name_layer;
};

/* All rules of a layer that are about the host, in order. */
void finding_walk(struct finding *f, const struct policy *p, enum policy_layer_kind layer, const struct policy_request *req,
                  const struct addr_verdict *class);
/* Nothing that follows can change it. */
bool finding_is_final(const struct finding *f, const struct addr_verdict *class);
/* No rule decided: the mode does. NET_UNSET is a layer that has nothing to say. */
void finding_take_mode(struct finding *f, const struct policy_request *req, enum net_mode mode, enum rule_action unlisted);
/* Rules that match perhaps come before what decided: the best of all that counts until more is known. */
void finding_settle(struct finding *f);
/* Of a layer of which only what it takes away counts: its rules ask about addresses, too, and grant none. */
void finding_filter_address(struct finding *f);
/* The verdict on the address itself, if it is known. */
void finding_guard_address(struct finding *f, const struct addr_verdict *class);

/* What decided, beyond the verdict itself. */
struct verdict_cause {
    const struct rule *near;       /* a rule that would have allowed another port, method or path; may be NULL */
    const struct pattern *pattern; /* of the rule that decided; NULL without rule */
    enum addr_class class;         /* for POLICY_DENIED_ADDRESS without rule */
    enum net_mode mode;            /* for verdicts of a mode */
    bool organisation;             /* no user here can change it */
    const struct rule *over;       /* a rule of a stronger layer that would have allowed it; may be NULL */
    enum policy_layer_kind over_layer;
    const struct rule *by_name; /* why an address is not allowed by the mode; may be NULL */
    enum policy_layer_kind by_name_layer;
};

/* Fills in pattern, reason and hint. */
void verdict_explain(const struct policy_request *req, const struct verdict_cause *cause, struct policy_verdict *v);
