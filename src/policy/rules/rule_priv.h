/* SPDX-License-Identifier: Apache-2.0 */
/* Between rule_read.c, which reads a file of rules, and rule_field.c, which reads one rule. */
#pragma once

#include "policy/rules/json_text.h"
#include "policy/rules/rule.h"

struct err;

struct rule_reader {
    struct json_at at;
    struct rules *rules; /* what has been read so far: the groups come first */
};

int rule_read_one(struct rule_reader *rd, json_t *v, struct rule *rule, struct err *err);
int rule_read_action(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err);

/* Calls each for the value, or for every element if it is an array. */
typedef int each_fn(struct rule_reader *rd, const json_t *v, void *arg, struct err *err);
int rule_for_each(struct rule_reader *rd, const json_t *v, size_t max, each_fn *each, void *arg, struct err *err);

struct patterns {
    struct pattern **v;
    size_t *n;
    bool no_groups;
};
each_fn rule_add_pattern; /* arg: struct patterns */

int rule_unknown_key(struct rule_reader *rd, const char *key, const char *const *known, size_t n, struct err *err);
