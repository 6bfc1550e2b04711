/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: ordered, compared, written, and read from one word. */
#include "policy/rules/rule.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/parse.h"
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

/* -- from the words of --allow and --deny -------------------------------------------------------------------------- */

/* Splits "HOST:PORT" and "[HOST]:PORT"; an IPv6 address without brackets has no port. *ret_port is NULL if there is none. */
static int split(const char *text, const char **ret_host, size_t *ret_len, const char **ret_port, struct err *err) {
    const char *colon = strchr(text, ':');

    if (text[0] == '[') {
        const char *end = strchr(text, ']');

        if (!end || (end[1] && end[1] != ':'))
            return err_usage(err, "'%.80s' has a bracket that does not end before the port", text);
        *ret_host = text + 1;
        *ret_len = (size_t)(end - text - 1);
        *ret_port = end[1] ? end + 2 : NULL;
        return 0;
    }
    *ret_host = text;
    *ret_port = colon && !strchr(colon + 1, ':') ? colon + 1 : NULL;
    *ret_len = *ret_port ? (size_t)(colon - text) : strlen(text);
    return 0;
}

/* People paste what their browser shows. The answer is the word that they should have given, if there is one. */
static int refuse_url(const char *text, struct err *err) {
    const char *host = strstr(text, "://") + 3, *end = host + strcspn(host, "/?#"),
               *at = memrchr(host, '@', (size_t)(end - host));
    CLEANUP(freep) char *word = NULL;
    CLEANUP(rule_done) struct rule meant = {0};

    host = at ? at + 1 : host;
    word = strndup(host, (size_t)(end - host));
    if (!word)
        return err_oom(err);
    if (rule_from_text(word, RULE_DENY, &meant, NULL) < 0)
        return err_usage(err, "a rule names a host, not a URL");
    return err_usage(err, "a rule names a host, not a URL; did you mean '%s'?", word);
}

static int set_port(const char *text, struct rule *rule, struct err *err) {
    uint64_t port;

    if (parse_u64(text, 1, 65535, &port, NULL) < 0)
        return err_usage(err, "'%.60s' is not a port from 1 to 65535", text);
    rule->ports = calloc(1, sizeof *rule->ports);
    if (!rule->ports)
        return err_oom(err);
    rule->ports[0] = (struct port_range){(uint16_t)port, (uint16_t)port};
    rule->n_ports = 1;
    return 0;
}

int rule_from_text(const char *text, enum rule_action action, struct rule *ret, struct err *err) {
    CLEANUP(rule_done) struct rule rule = {.action = action};
    const char *host, *port;
    size_t len;
    int r;

    if (strstr(text, "://"))
        return refuse_url(text, err);
    r = split(text, &host, &len, &port, err);
    if (r < 0)
        return r;
    rule.hosts = calloc(1, sizeof *rule.hosts);
    if (!rule.hosts)
        return err_oom(err);
    r = pattern_parse(host, len, &rule.hosts[0], err);
    if (r == -EINVAL && err)
        err->status = EXIT_USAGE_ERR;
    if (r < 0)
        return r;
    rule.n_hosts = 1;
    r = port ? set_port(port, &rule, err) : 0;
    if (r < 0)
        return r;
    rule.allow_private = action != RULE_DENY && str_eq(rule.hosts[0].text, HOST_OF_THE_MACHINE);
    *ret = TAKE(rule, (struct rule){0});
    return 0;
}

int rule_give_id(const struct rules *rules, struct rule *rule, struct err *err) {
    char id[RULE_ID_MAX + 1];
    size_t n;

    snprintf(id, sizeof id - 6, "%s-%s", rule_action_names[rule->action], rule->hosts[0].text);
    n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", id[i]))
            id[i] = '_';
    for (unsigned k = 2; rules_find(rules, id); k++)
        snprintf(id + n, sizeof id - n, "-%u", k);
    rule->id = strdup(id);
    return rule->id ? 0 : err_oom(err);
}
