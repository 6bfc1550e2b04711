/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ssh/ssh_names.h"

#include "base/str.h"

struct visit {
    ssh_name_fn *fn;
    void *arg;
    const struct rules *rules;
    const struct rule *rule; /* NULL: no ports but the usual ones */
};

static bool try_range(const struct visit *v, const struct host *host, const struct port_range *r) {
    uint32_t span = (uint32_t)(r->last - r->first), step = span >= SSH_NAMES_RANGE_MAX ? span : 1;

    for (uint32_t port = r->first; port <= r->last; port += step)
        if (port != SSH_PORT && v->fn(v->arg, host, (uint16_t)port))
            return true;
    return false;
}

static bool try_host(const struct visit *v, const struct host *host) {
    if (v->fn(v->arg, host, SSH_PORT))
        return true;
    for (size_t i = 0; v->rule && i < v->rule->n_ports; i++)
        if (try_range(v, host, &v->rule->ports[i]))
            return true;
    return false;
}

static bool try_pattern(const struct visit *v, const struct pattern *p) {
    struct host host;

    if (p->kind == PATTERN_CIDR && p->cidr.bits == 8 * p->cidr.addr.len)
        host_from_addr(&p->cidr.addr, &host);
    else if (p->kind != PATTERN_EXACT || host_parse(p->text, strlen(p->text), &host, NULL) < 0)
        return false;
    return try_host(v, &host);
}

static bool try_group(const struct visit *v, const struct group *groups, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; str_eq(groups[i].name, name) && k < groups[i].n; k++)
            if (try_pattern(v, &groups[i].hosts[k]))
                return true;
    return false;
}

static bool try_rule(const struct visit *v) {
    for (size_t i = 0; i < v->rule->n_hosts; i++) {
        const struct pattern *p = &v->rule->hosts[i];

        if (p->kind != PATTERN_GROUP && try_pattern(v, p))
            return true;
        if (p->kind == PATTERN_GROUP && (try_group(v, v->rules->groups, v->rules->n_groups, p->text) ||
                                         try_group(v, v->rules->builtin, v->rules->n_builtin, p->text)))
            return true;
    }
    return false;
}

static bool try_grants(const struct gate_config *c, ssh_name_fn *fn, void *arg) {
    struct visit v = {.fn = fn, .arg = arg};
    struct host host;
    uint16_t port;

    for (size_t i = 0; i < c->n_grants; i++)
        for (size_t k = 0; k < c->grants[i].c.hosts.len; k++) {
            const char *text = c->grants[i].c.hosts.v[k];

            if (host_parse_with_port(text, strlen(text), &host, &port, NULL) == 0 && try_host(&v, &host))
                return true;
        }
    return false;
}

bool ssh_names_each(const struct gate_config *c, const struct policy *p, ssh_name_fn *fn, void *arg) {
    if (ssh_known_each(c->known_hosts ? c->known_hosts : "", fn, arg) || try_grants(c, fn, arg))
        return true;
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; p->layers[l].present && i < p->layers[l].rules.len; i++)
            if (try_rule(&(struct visit){fn, arg, &p->layers[l].rules, &p->layers[l].rules.v[i]}))
                return true;
    return false;
}
