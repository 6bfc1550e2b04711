/* SPDX-License-Identifier: Apache-2.0 */
/* Rules from the words of --allow and --deny. */
#include <errno.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/rules/rule.h"

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
