/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rules/rule.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

const char *const rule_action_names[RULE_ACTIONS] = {[RULE_DENY] = "deny", [RULE_ASK] = "ask", [RULE_ALLOW] = "allow"};
const char *const net_mode_names[NET_MODES] = {
    [NET_UNSET] = "unset", [NET_NONE] = "none", [NET_LIMITED] = "limited", [NET_FULL] = "full", [NET_LIST] = "list"};

enum net_mode net_mode_find(const char *name) {
    if (str_eq(name, "off"))
        return NET_NONE;
    if (str_eq(name, "on"))
        return NET_FULL;
    for (enum net_mode m = NET_NONE; m < NET_MODES; m++)
        if (str_eq(name, net_mode_names[m]))
            return m;
    return NET_UNSET;
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
    if (rules->len == rules->cap) {
        size_t cap = rules->cap ? 2 * rules->cap : 16;
        struct rule *more = reallocarray(rules->v, cap, sizeof *more);

        if (!more)
            return err_oom(err);
        rules->v = more;
        rules->cap = cap;
    }
    free(TAKE_PTR(rules->entries)); /* it points into what moves now */
    rules->n_entries = 0;
    memmove(rules->v + at + 1, rules->v + at, (rules->len - at) * sizeof *rules->v);
    rules->v[at] = TAKE(mine, (struct rule){0});
    rules->len++;
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
    memmove(rules->v + at, rules->v + at + 1, (rules->len - at - 1) * sizeof *rules->v);
    rules->len--;
    return 0;
}

bool rule_has_port(const struct rule *rule, uint16_t port) {
    for (size_t i = 0; i < rule->n_ports; i++)
        if (port >= rule->ports[i].first && port <= rule->ports[i].last)
            return true;
    return rule->n_ports == 0;
}

static void add_list(struct buf *b, const char *key, char *const *v, size_t n) {
    if (n == 0)
        return;
    buf_addf(b, ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, v[i]);
    }
    buf_addc(b, ']');
}

static void add_patterns(struct buf *b, const struct pattern *p, size_t n, bool bare) {
    bare = bare && n == 1;
    buf_adds(b, bare ? "" : "[");
    for (size_t i = 0; i < n; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, p[i].text);
    }
    buf_adds(b, bare ? "" : "]");
}

static void add_ports(struct buf *b, const struct rule *rule) {
    buf_adds(b, rule->n_ports ? ", \"ports\": [" : "");
    for (size_t i = 0; i < rule->n_ports; i++) {
        const struct port_range *p = &rule->ports[i];

        if (p->first == p->last)
            buf_addf(b, "%s%u", i ? ", " : "", p->first);
        else
            buf_addf(b, "%s\"%u-%u\"", i ? ", " : "", p->first, p->last);
    }
    buf_adds(b, rule->n_ports ? "]" : "");
}

static void add_rule(struct buf *b, const struct rule *rule, bool named) {
    buf_adds(b, "{");
    if (rule->id && named) {
        buf_adds(b, "\"id\": ");
        buf_add_json(b, rule->id);
        buf_adds(b, ", ");
    }
    buf_addf(b, "\"action\": \"%s\", \"host\": ", rule_action_names[rule->action]);
    add_patterns(b, rule->hosts, rule->n_hosts, true);
    add_ports(b, rule);
    add_list(b, "methods", rule->methods.v, rule->methods.len);
    add_list(b, "paths", rule->paths.v, rule->paths.len);
    if (rule->max_body)
        buf_addf(b, ", \"max_body\": %llu", (unsigned long long)rule->max_body);
    if (rule->inspect != INSPECT_IF_NEEDED)
        buf_addf(b, ", \"inspect\": %s", rule->inspect == INSPECT_YES ? "true" : "false");
    if (rule->allow_private)
        buf_adds(b, ", \"allow_private\": true");
    if (rule->comment && named) {
        buf_adds(b, ", \"comment\": ");
        buf_add_json(b, rule->comment);
    }
    buf_adds(b, "}");
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
    buf_adds(b, "{\n");
    if (rules->mode != NET_UNSET)
        buf_addf(b, "  \"mode\": \"%s\",\n", net_mode_names[rules->mode]);
    if (rules->unlisted == RULE_ASK)
        buf_adds(b, "  \"unlisted\": \"ask\",\n");
    buf_adds(b, rules->n_groups ? "  \"groups\": {\n" : "");
    for (size_t i = 0; i < rules->n_groups; i++) {
        buf_adds(b, "    ");
        buf_add_json(b, rules->groups[i].name);
        buf_adds(b, ": ");
        add_patterns(b, rules->groups[i].hosts, rules->groups[i].n, false);
        buf_adds(b, i + 1 < rules->n_groups ? ",\n" : "\n");
    }
    buf_adds(b, rules->n_groups ? "  },\n" : "");
    buf_adds(b, rules->len ? "  \"rules\": [\n" : "  \"rules\": [");
    for (size_t i = 0; i < rules->len; i++) {
        buf_adds(b, "    ");
        add_rule(b, &rules->v[i], true);
        buf_adds(b, i + 1 < rules->len ? ",\n" : "\n  ");
    }
    buf_adds(b, "]\n}\n");
}
