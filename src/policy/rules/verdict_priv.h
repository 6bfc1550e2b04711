/* SPDX-License-Identifier: Apache-2.0 */
/* Between judge.c, which decides, and verdict.c, which finds the words. */
#pragma once

#include "policy/rules/verdict.h"

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
