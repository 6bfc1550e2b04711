/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: ordered, compared, written. */
#include "policy/rules/rule.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "base/vec.h"

const char *const rule_action_names[RULE_ACTIONS] = {[RULE_DENY] = "deny", [RULE_ASK] = "ask", [RULE_ALLOW] = "allow"};
const char *const net_mode_names[NET_MODES] = {
    [NET_UNSET] = "unset", [NET_NONE] = "none", [NET_LIMITED] = "limited", [NET_FULL] = "full", [NET_LIST] = "list"};

enum net_mode net_mode_find(const char *name) {
    if (str_eq(name, "off"))
        return NET_NONE;
    if (str_eq(name, "on"))
        return NET_FULL;
    return (enum net_mode)MAX_OF(str_index(name, net_mode_names, NET_MODES), (int)NET_UNSET);
}

void rule_done(struct rule *rule) {
    for (size_t i = 0; i < rule->n_hosts; i++)
        pattern_done(&rule->hosts[i]);
    free(rule->hosts);
    free(rule->ports);
    strv_done(&rule->methods);
    strv_done(&rule->paths);
    free(rule->comment);
    free(rule->id);
    *rule = (struct rule){0};
}

static void groups_free(struct group *groups, size_t n) {
    for (size_t i = 0; i < n; i++)
        group_done(&groups[i]);
    free(groups);
}

void rules_done(struct rules *rules) {
    for (size_t i = 0; i < rules->len; i++)
        rule_done(&rules->v[i]);
    free(rules->v);
    groups_free(rules->groups, rules->n_groups);
    groups_free(rules->builtin, rules->n_builtin);
    free(rules->entries);
    *rules = (struct rules){0};
}

bool rule_id_ok(const char *id) {
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n <= RULE_ID_MAX && id[n] == 0;
}

int rules_add(struct rules *rules, size_t at, struct rule *rule, struct err *err) {
    CLEANUP(rule_done) struct rule mine = TAKE(*rule, (struct rule){0});

    if (at > rules->len || rules->len == RULES_MAX)
        return err_set(err, -EINVAL, "there are at most %d rules", RULES_MAX);
    if (VEC_INSERT(rules->v, rules->len, at, TAKE(mine, (struct rule){0})) < 0)
        return err_oom(err);
    free(TAKE_PTR(rules->entries)); /* it points into what has moved */
    rules->n_entries = 0;
    return 0;
}

bool rules_look(const struct rules *rules) {
    for (size_t i = 0; i < rules->len; i++) {
        const struct rule *r = &rules->v[i];

        if (r->inspect == INSPECT_YES || (r->inspect != INSPECT_NO && (rule_is_about_http(r) || r->max_body)))
            return true;
    }
    return false;
}

const struct rule *rules_find(const struct rules *rules, const char *id) {
    for (size_t i = 0; i < rules->len; i++)
        if (rules->v[i].id && str_eq(rules->v[i].id, id))
            return &rules->v[i];
    return NULL;
}

int rules_remove(struct rules *rules, const char *id) {
    const struct rule *found = rules_find(rules, id);
    size_t at = found ? (size_t)(found - rules->v) : 0;

    if (!found)
        return -ENOENT;
    free(TAKE_PTR(rules->entries));
    rules->n_entries = 0;
    rule_done(&rules->v[at]);
    VEC_REMOVE(rules->v, rules->len, at);
    return 0;
}

bool rule_has_port(const struct rule *rule, uint16_t port) {
    for (size_t i = 0; i < rule->n_ports; i++)
        if (port >= rule->ports[i].first && port <= rule->ports[i].last)
            return true;
    return rule->n_ports == 0;
}

static void add_patterns(struct jsonout *j, const char *key, const struct pattern *p, size_t n) {
    jsonout_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        jsonout_text(j, NULL, p[i].text);
    jsonout_close(j, ']');
}

static void add_ports(struct jsonout *j, const struct rule *rule) {
    jsonout_open(j, "ports", '[');
    for (size_t i = 0; i < rule->n_ports; i++) {
        const struct port_range *p = &rule->ports[i];

        jsonout_key(j, NULL);
        buf_addf(j->to, p->first == p->last ? "%u" : "\"%u-%u\"", p->first, p->last);
    }
    jsonout_close(j, ']');
}

static void add_rule(struct buf *b, const struct rule *rule, bool named) {
    struct jsonout j = {.to = b};

    buf_addc(b, '{'); /* not jsonout_open(): what is in front is the caller's */
    if (rule->id && named)
        jsonout_text(&j, "id", rule->id);
    jsonout_text(&j, "action", rule_action_names[rule->action]);
    if (rule->n_hosts == 1)
        jsonout_text(&j, "host", rule->hosts[0].text);
    else
        add_patterns(&j, "host", rule->hosts, rule->n_hosts);
    if (rule->n_ports)
        add_ports(&j, rule);
    if (rule->methods.len)
        jsonout_list(&j, "methods", &rule->methods);
    if (rule->paths.len)
        jsonout_list(&j, "paths", &rule->paths);
    if (rule->max_body)
        jsonout_u64(&j, "max_body", rule->max_body);
    if (rule->inspect != INSPECT_IF_NEEDED)
        jsonout_bool(&j, "inspect", rule->inspect == INSPECT_YES);
    if (rule->allow_private)
        jsonout_bool(&j, "allow_private", true);
    if (rule->comment && named)
        jsonout_text(&j, "comment", rule->comment);
    jsonout_close(&j, '}');
}

void rule_add_json(const struct rule *rule, struct buf *b) {
    add_rule(b, rule, true);
}

bool rule_same(const struct rule *a, const struct rule *b) {
    CLEANUP(buf_done) struct buf one = BUF_INIT(RULES_SIZE_MAX), two = BUF_INIT(RULES_SIZE_MAX);

    add_rule(&one, a, false);
    add_rule(&two, b, false);
    return buf_ok(&one) && buf_ok(&two) && str_eq(buf_str(&one), buf_str(&two));
}

void rules_write(const struct rules *rules, struct buf *b) {
    struct jsonout j = {.to = b};

    buf_adds(b, "{\n");
    if (rules->mode != NET_UNSET)
        buf_addf(b, "  \"mode\": \"%s\",\n", net_mode_names[rules->mode]);
    if (rules->unlisted == RULE_ASK)
        buf_adds(b, "  \"unlisted\": \"ask\",\n");
    buf_adds(b, rules->n_groups ? "  \"groups\": {" : "");
    for (size_t i = 0; i < rules->n_groups; i++) {
        jsonout_break(&j, "\n    ");
        add_patterns(&j, rules->groups[i].name, rules->groups[i].hosts, rules->groups[i].n); /* group_name_ok(): no quotes */
    }
    buf_adds(b, rules->n_groups ? "\n  },\n  \"rules\": [" : "  \"rules\": [");
    for (size_t i = 0; i < rules->len; i++) {
        jsonout_break(&j, "\n    ");
        add_rule(b, &rules->v[i], true);
    }
    buf_adds(b, rules->len ? "\n  ]\n}\n" : "]\n}\n");
}
