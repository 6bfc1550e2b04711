/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/host/http_path.h"
#include "policy/rules/rule_priv.h"

static int want_string(struct rule_reader *rd, const json_t *v, const char *wanted, const char **ret, struct err *err) {
    if (!json_is_string(v))
        return json_fail(&rd->at, err, "must be %s", wanted);
    *ret = json_string_value(v);
    return 0;
}

static int want_bool(struct rule_reader *rd, const json_t *v, bool *ret, struct err *err) {
    if (!json_is_boolean(v))
        return json_fail(&rd->at, err, "must be true or false");
    *ret = json_is_true(v);
    return 0;
}

int rule_for_each(struct rule_reader *rd, const json_t *v, size_t max, each_fn *each, void *arg, struct err *err) {
    size_t n = json_array_size(v);
    int r;

    if (!json_is_array(v))
        return each(rd, v, arg, err);
    if (n == 0)
        return json_fail(&rd->at, err, "must not be empty (leave it out)");
    if (n > max)
        return json_fail(&rd->at, err, "has %zu elements (at most %zu)", n, max);
    for (size_t i = 0; i < n; i++) {
        json_enter(&rd->at, i, NULL);
        r = each(rd, json_array_get(v, i), arg, err);
        json_leave(&rd->at);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_id(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    const char *s;
    int r = want_string(rd, v, "a string", &s, err);

    if (r < 0)
        return r;
    if (!rule_id_ok(s))
        return json_fail(&rd->at, err, "must be 1 to %d letters, digits, '.', '_' or '-'", RULE_ID_MAX);
    rule->id = strdup(s);
    return rule->id ? 0 : err_oom(err);
}

int rule_read_action(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    for (enum rule_action a = RULE_DENY; json_is_string(v) && a < RULE_ACTIONS; a++)
        if (str_eq(json_string_value(v), rule_action_names[a])) {
            rule->action = a;
            return 0;
        }
    return json_fail(&rd->at, err, "must be \"allow\", \"deny\" or \"ask\"");
}

static bool knows_group(const struct rules *rules, const char *name) {
    for (size_t i = 0; i < rules->n_groups; i++)
        if (str_eq(rules->groups[i].name, name))
            return true;
    return builtin_group_find(name) != NULL;
}

int rule_add_pattern(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    struct patterns *to = arg;
    struct pattern *more, *p;
    const char *s;
    int r;

    r = want_string(rd, v, "a host, *.suffix, **.suffix, address, network or @group", &s, err);
    if (r < 0)
        return r;
    more = reallocarray(*to->v, *to->n + 1, sizeof *more);
    if (!more)
        return err_oom(err);
    *to->v = more;
    p = &more[*to->n];
    r = pattern_parse(s, json_string_length(v), p, err);
    if (r < 0)
        return json_ctx(&rd->at, r, err);
    ++*to->n;
    if (p->kind == PATTERN_GROUP && to->no_groups)
        return json_fail(&rd->at, err, "a group cannot hold a group");
    if (p->kind == PATTERN_GROUP && !knows_group(rd->rules, p->text))
        return json_fail(&rd->at, err, "there is no group '%s'", p->text);
    return 0;
}

static int read_host(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    struct patterns to = {&rule->hosts, &rule->n_hosts, false};

    return rule_for_each(rd, v, RULE_HOSTS_MAX, rule_add_pattern, &to, err);
}

/* "443" or "8000-8999". */
static bool parse_range(const char *s, struct port_range *ret) {
    unsigned long v[2];
    char *end;

    for (int i = 0; i < 2; i++) {
        if (*s < '1' || *s > '9')
            return false;
        v[i] = strtoul(s, &end, 10);
        if (v[i] > 65535)
            return false;
        if (i == 0 && *end == 0) {
            v[1] = v[0];
            break;
        }
        if (*end != (i ? 0 : '-'))
            return false;
        s = end + 1;
    }
    *ret = (struct port_range){(uint16_t)v[0], (uint16_t)v[1]};
    return v[0] <= v[1];
}

static int add_port(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    struct rule *rule = arg;
    struct port_range range, *more;
    json_int_t n = json_integer_value(v);

    if (json_is_integer(v) && n >= 1 && n <= 65535)
        range = (struct port_range){(uint16_t)n, (uint16_t)n};
    else if (!json_is_string(v) || !parse_range(json_string_value(v), &range))
        return json_fail(&rd->at, err, "must be a port from 1 to 65535, or a range as in \"8000-8999\"");
    more = reallocarray(rule->ports, rule->n_ports + 1, sizeof *more);
    if (!more)
        return err_oom(err);
    rule->ports = more;
    rule->ports[rule->n_ports++] = range;
    return 0;
}

static int read_ports(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    return rule_for_each(rd, v, RULE_PORTS_MAX, add_port, rule, err);
}

static int add_method(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    struct rule *rule = arg;
    char upper[RULE_ID_MAX];
    const char *s;
    size_t n;
    int r;

    r = want_string(rd, v, "a method, as in \"GET\"", &s, err);
    if (r < 0)
        return r;
    n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-");
    if (n == 0 || s[n] || n >= sizeof upper)
        return json_fail(&rd->at, err, "must be a method, as in \"GET\"");
    for (size_t i = 0; i <= n; i++)
        upper[i] = s[i] >= 'a' && s[i] <= 'z' ? (char)(s[i] - 0x20) : s[i];
    return strv_add(&rule->methods, upper) < 0 ? err_oom(err) : 0;
}

static int read_methods(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    return rule_for_each(rd, v, RULE_METHODS_MAX, add_method, rule, err);
}

static int add_path(struct rule_reader *rd, const json_t *v, void *arg, struct err *err) {
    struct rule *rule = arg;
    char glob[PATH_GLOB_MAX + 1];
    const char *s;
    int r;

    r = want_string(rd, v, "a path, as in \"/api/**\"", &s, err);
    if (r < 0)
        return r;
    r = path_glob_parse(s, json_string_length(v), glob, err);
    if (r < 0)
        return json_ctx(&rd->at, r, err);
    return strv_add(&rule->paths, glob) < 0 ? err_oom(err) : 0;
}

static int read_paths(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    return rule_for_each(rd, v, RULE_PATHS_MAX, add_path, rule, err);
}

static int read_max_body(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= (json_int_t)1 << PARSE_SIZE_MAX_LOG2) {
        rule->max_body = (uint64_t)json_integer_value(v);
        return 0;
    }
    if (!json_is_string(v))
        return json_fail(&rd->at, err, "must be a size: a number of bytes, or as in \"10m\"");
    return json_ctx(&rd->at, parse_size(json_string_value(v), &rule->max_body, err), err);
}

static int read_inspect(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    bool yes;
    int r = want_bool(rd, v, &yes, err);

    if (r == 0)
        rule->inspect = yes ? INSPECT_YES : INSPECT_NO;
    return r;
}

static int read_allow_private(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    return want_bool(rd, v, &rule->allow_private, err);
}

static int read_comment(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err) {
    const char *s;
    int r = want_string(rd, v, "a string", &s, err);

    if (r < 0)
        return r;
    if (json_string_length(v) > RULE_COMMENT_MAX)
        return json_fail(&rd->at, err, "must have at most %d bytes", RULE_COMMENT_MAX);
    rule->comment = strdup(s);
    return rule->comment ? 0 : err_oom(err);
}

static const struct rule_field {
    const char *name;
    int (*read)(struct rule_reader *rd, const json_t *v, struct rule *rule, struct err *err);
} fields[] = {
    {"id", read_id},
    {"action", rule_read_action},
    {"host", read_host},
    {"ports", read_ports},
    {"methods", read_methods},
    {"paths", read_paths},
    {"max_body", read_max_body},
    {"inspect", read_inspect},
    {"comment", read_comment},
    {"allow_private", read_allow_private},
};

static const struct rule_field *find_field(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (str_eq(fields[i].name, name))
            return &fields[i];
    return NULL;
}

int rule_unknown_key(struct rule_reader *rd, const char *key, const char *const *known, size_t n, struct err *err) {
    const char *near = str_nearest(key, known, n);

    if (near)
        return json_fail_key(&rd->at, err, "nobody knows this key (did you mean '%s'?)", near);
    return json_fail_key(&rd->at, err, "nobody knows this key");
}

static int read_members(struct rule_reader *rd, json_t *v, struct rule *rule, struct err *err) {
    const char *known[ARRAY_LEN(fields)], *key;
    size_t index = 0;
    json_t *value;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        known[i] = fields[i].name;
    json_object_foreach(v, key, value) {
        const struct rule_field *f = find_field(key);
        int r;

        json_enter(&rd->at, index++, key);
        r = f ? f->read(rd, value, rule, err) : rule_unknown_key(rd, key, known, ARRAY_LEN(known), err);
        json_leave(&rd->at);
        if (r < 0)
            return r;
    }
    return 0;
}

/* What cannot be meant: a rule that would silently do less, or more, than it says. */
static int check_rule(struct rule_reader *rd, const json_t *v, const struct rule *rule, struct err *err) {
    if (!json_object_get(v, "action"))
        return json_fail(&rd->at, err, "a rule needs an \"action\"");
    if (rule->n_hosts == 0)
        return json_fail(&rd->at, err, "a rule needs a \"host\"");
    if (rule->inspect == INSPECT_NO && (rule_is_about_http(rule) || rule->max_body))
        return json_fail(&rd->at, err, "methods, paths and max_body need a look inside, which \"inspect\": false forbids");
    if (rule->action == RULE_DENY && (rule->allow_private || rule->max_body))
        return json_fail(&rd->at, err, "a rule that denies has no use for %s",
                         rule->allow_private ? "allow_private" : "max_body");
    return 0;
}

int rule_read_one(struct rule_reader *rd, json_t *v, struct rule *rule, struct err *err) {
    int r;

    if (!json_is_object(v))
        return json_fail(&rd->at, err, "must be a rule, { ... }");
    r = read_members(rd, v, rule, err);
    return r < 0 ? r : check_rule(rd, v, rule, err);
}
