/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file of network rules. */
#include <errno.h>

#include "base/err.h"
#include "base/jsonfile.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "policy/host/http_path.h"
#include "policy/rules/rule.h"

struct reading {
    struct rule rule;
    const struct rules *rules; /* what has been read so far: the groups come first */
};

struct patterns {
    struct pattern **v;
    size_t *n;
    const struct rules *known; /* the groups that may be named; NULL: none */
};

static int want_string(struct jsonwalk *w, const json_t *v, const char *wanted, const char **ret, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_fail(w, err, "must be %s", wanted);
    *ret = json_string_value(v);
    return 0;
}

static int read_bool(struct jsonwalk *w, json_t *v, void *to, struct err *err) {
    if (!json_is_boolean(v))
        return jsonwalk_fail(w, err, "must be true or false");
    *(bool *)to = json_is_true(v);
    return 0;
}

static int read_id(struct jsonwalk *w, json_t *v, void *id, struct err *err) {
    const char *s;
    int r = want_string(w, v, "a string", &s, err);

    if (r < 0)
        return r;
    if (!rule_id_ok(s))
        return jsonwalk_fail(w, err, "must be 1 to %d letters, digits, '.', '_' or '-'", RULE_ID_MAX);
    return str_set(id, s) < 0 ? err_oom(err) : 0;
}

static int read_action(struct jsonwalk *w, json_t *v, void *action, struct err *err) {
    int i = json_is_string(v) ? str_index(json_string_value(v), rule_action_names, RULE_ACTIONS) : -1;

    if (i < 0)
        return jsonwalk_fail(w, err, "must be \"allow\", \"deny\" or \"ask\"");
    *(enum rule_action *)action = (enum rule_action)i;
    return 0;
}

static bool knows_group(const struct rules *rules, const char *name) {
    for (size_t i = 0; i < rules->n_groups; i++)
        if (str_eq(rules->groups[i].name, name))
            return true;
    return builtin_group_find(name) != NULL;
}

static int add_pattern(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    const struct patterns *to = arg;
    struct pattern *p;
    const char *s;
    int r;

    r = want_string(w, v, "a host, *.suffix, **.suffix, address, network or @group", &s, err);
    if (r < 0)
        return r;
    if (VEC_ROOM(*to->v, *to->n) < 0)
        return err_oom(err);
    p = &(*to->v)[*to->n];
    r = pattern_parse(s, json_string_length(v), p, err);
    if (r < 0)
        return jsonwalk_ctx(w, r, err);
    ++*to->n;
    if (p->kind == PATTERN_GROUP && !to->known)
        return jsonwalk_fail(w, err, "a group cannot hold a group");
    if (p->kind == PATTERN_GROUP && !knows_group(to->known, p->text))
        return jsonwalk_fail(w, err, "there is no group '%s'", p->text);
    return 0;
}

static int read_host(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct reading *r = arg;
    struct patterns to = {&r->rule.hosts, &r->rule.n_hosts, r->rules};

    return jsonwalk_one_or_more(w, v, RULE_HOSTS_MAX, add_pattern, &to, err);
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

static int add_port(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct rule *rule = arg;
    struct port_range range;
    json_int_t n = json_integer_value(v);

    if (json_is_integer(v) && n >= 1 && n <= 65535)
        range = (struct port_range){(uint16_t)n, (uint16_t)n};
    else if (!json_is_string(v) || !parse_range(json_string_value(v), &range))
        return jsonwalk_fail(w, err, "must be a port from 1 to 65535, or a range as in \"8000-8999\"");
    return VEC_ADD(rule->ports, rule->n_ports, range) < 0 ? err_oom(err) : 0;
}

static int read_ports(struct jsonwalk *w, json_t *v, void *rule, struct err *err) {
    return jsonwalk_one_or_more(w, v, RULE_PORTS_MAX, add_port, rule, err);
}

static int add_method(struct jsonwalk *w, json_t *v, void *methods, struct err *err) {
    char upper[RULE_ID_MAX];
    const char *s;
    size_t n;
    int r;

    r = want_string(w, v, "a method, as in \"GET\"", &s, err);
    if (r < 0)
        return r;
    n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-");
    if (n == 0 || s[n] || n >= sizeof upper)
        return jsonwalk_fail(w, err, "must be a method, as in \"GET\"");
    for (size_t i = 0; i <= n; i++)
        upper[i] = s[i] >= 'a' && s[i] <= 'z' ? (char)(s[i] - 0x20) : s[i];
    return strv_add(methods, upper) < 0 ? err_oom(err) : 0;
}

static int read_methods(struct jsonwalk *w, json_t *v, void *methods, struct err *err) {
    return jsonwalk_one_or_more(w, v, RULE_METHODS_MAX, add_method, methods, err);
}

static int add_path(struct jsonwalk *w, json_t *v, void *paths, struct err *err) {
    char glob[PATH_GLOB_MAX + 1];
    const char *s;
    int r;

    r = want_string(w, v, "a path, as in \"/api/**\"", &s, err);
    if (r < 0)
        return r;
    r = path_glob_parse(s, json_string_length(v), glob, err);
    if (r < 0)
        return jsonwalk_ctx(w, r, err);
    return strv_add(paths, glob) < 0 ? err_oom(err) : 0;
}

static int read_paths(struct jsonwalk *w, json_t *v, void *paths, struct err *err) {
    return jsonwalk_one_or_more(w, v, RULE_PATHS_MAX, add_path, paths, err);
}

static int read_max_body(struct jsonwalk *w, json_t *v, void *bytes, struct err *err) {
    if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= (json_int_t)1 << PARSE_SIZE_MAX_LOG2) {
        *(uint64_t *)bytes = (uint64_t)json_integer_value(v);
        return 0;
    }
    if (!json_is_string(v))
        return jsonwalk_fail(w, err, "must be a size: a number of bytes, or as in \"10m\"");
    return jsonwalk_ctx(w, parse_size(json_string_value(v), bytes, err), err);
}

static int read_inspect(struct jsonwalk *w, json_t *v, void *inspect, struct err *err) {
    bool yes;
    int r = read_bool(w, v, &yes, err);

    if (r == 0)
        *(enum rule_inspect *)inspect = yes ? INSPECT_YES : INSPECT_NO;
    return r;
}

static int read_comment(struct jsonwalk *w, json_t *v, void *comment, struct err *err) {
    const char *s;
    int r = want_string(w, v, "a string", &s, err);

    if (r < 0)
        return r;
    if (json_string_length(v) > RULE_COMMENT_MAX)
        return jsonwalk_fail(w, err, "must have at most %d bytes", RULE_COMMENT_MAX);
    return str_set(comment, s) < 0 ? err_oom(err) : 0;
}

#define AT(member) offsetof(struct reading, rule.member)

static const struct jsonwalk_key rule_keys[] = {
    {"id", read_id, AT(id)},
    {"action", read_action, AT(action)},
    {"host", read_host, 0},
    {"ports", read_ports, offsetof(struct reading, rule)},
    {"methods", read_methods, AT(methods)},
    {"paths", read_paths, AT(paths)},
    {"max_body", read_max_body, AT(max_body)},
    {"inspect", read_inspect, AT(inspect)},
    {"comment", read_comment, AT(comment)},
    {"allow_private", read_bool, AT(allow_private)},
};

/* What cannot be meant: a rule that would silently do less, or more, than it says. */
static int check_rule(struct jsonwalk *w, const json_t *v, const struct rule *rule, struct err *err) {
    if (!json_object_get(v, "action"))
        return jsonwalk_fail(w, err, "a rule needs an \"action\"");
    if (rule->n_hosts == 0)
        return jsonwalk_fail(w, err, "a rule needs a \"host\"");
    if (rule->inspect == INSPECT_NO && (rule_is_about_http(rule) || rule->max_body))
        return jsonwalk_fail(w, err, "methods, paths and max_body need a look inside, which \"inspect\": false forbids");
    if (rule->action == RULE_DENY && (rule->allow_private || rule->max_body))
        return jsonwalk_fail(w, err, "a rule that denies has no use for %s", rule->allow_private ? "allow_private" : "max_body");
    return 0;
}

static int read_rule(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct rules *rules = arg;
    struct reading reading = {.rules = rules};
    int r = json_is_object(v) ? jsonwalk_members(w, v, rule_keys, ARRAY_LEN(rule_keys), &reading, err)
                              : jsonwalk_fail(w, err, "must be a rule, { ... }");

    r = r < 0 ? r : check_rule(w, v, &reading.rule, err);
    r = r < 0 ? r : jsonwalk_ctx(w, rules_add(rules, rules->len, &reading.rule, err), err);
    rule_done(&reading.rule);
    return r;
}

struct rule_seen {
    const char *id;
    size_t index;
};

static int compare_seen(const void *pa, const void *pb) {
    const struct rule_seen *a = pa, *b = pb;
    int r = strcmp(a->id, b->id);

    return r ? r : a->index < b->index ? -1 : a->index > b->index;
}

static int check_ids(struct jsonwalk *w, const struct rules *rules, struct err *err) {
    CLEANUP(freep) struct rule_seen *seen = calloc(rules->len + 1, sizeof *seen);
    size_t n = 0;

    if (!seen)
        return err_oom(err);
    for (size_t i = 0; i < rules->len; i++)
        if (rules->v[i].id)
            seen[n++] = (struct rule_seen){rules->v[i].id, i};
    qsort(seen, n, sizeof *seen, compare_seen);
    for (size_t i = 1; i < n; i++)
        if (str_eq(seen[i - 1].id, seen[i].id)) {
            jsonwalk_enter_index(w, seen[i].index);
            return jsonwalk_fail(w, err, "rule %zu has the id '%s' already", seen[i - 1].index + 1, seen[i].id);
        }
    return 0;
}

static int read_rules(struct jsonwalk *w, json_t *v, struct rules *rules, struct err *err) {
    int r;

    if (!json_is_array(v))
        return jsonwalk_fail(w, err, "must be an array of rules");
    r = jsonwalk_elements(w, v, SIZE_MAX, read_rule, rules, err); /* rules_add() has the ceiling */
    return r < 0 ? r : check_ids(w, rules, err);
}

static int read_group(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    const char *name = jsonwalk_key_of(w);
    struct rules *rules = arg;
    struct group *g = &rules->groups[rules->n_groups];
    struct patterns to = {&g->hosts, &g->n, NULL};

    if (!group_name_ok(name, strlen(name)))
        return jsonwalk_fail_key(w, err, "a group is '@' and up to %d small letters, digits or hyphens", GROUP_NAME_MAX - 1);
    if (builtin_group_find(name))
        return jsonwalk_fail_key(w, err, "this group is built in (take another name)");
    if (str_set(&g->name, name) < 0)
        return err_oom(err);
    rules->n_groups++;
    if (!json_is_array(v))
        return jsonwalk_fail(w, err, "must be an array of hosts");
    return jsonwalk_one_or_more(w, v, GROUP_HOSTS_MAX, add_pattern, &to, err);
}

static int read_groups(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct rules *rules = arg;

    if (!json_is_object(v) || json_object_size(v) > RULES_GROUPS_MAX)
        return jsonwalk_fail(w, err, "must be an object of at most %d groups", RULES_GROUPS_MAX);
    rules->groups = calloc(RULES_GROUPS_MAX, sizeof *rules->groups);
    return rules->groups ? jsonwalk_each(w, v, read_group, rules, err) : err_oom(err);
}

static int read_net_mode(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct rules *rules = arg;

    rules->mode = json_is_string(v) ? net_mode_find(json_string_value(v)) : NET_UNSET;
    if (rules->mode == NET_UNSET)
        return jsonwalk_fail(w, err, "must be \"none\" (or \"off\"), \"limited\", \"full\" (or \"on\") or \"list\"");
    return 0;
}

static int read_unlisted(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct rules *rules = arg;
    enum rule_action answer;

    if (read_action(w, v, &answer, err) < 0 || answer == RULE_ALLOW)
        return jsonwalk_fail(w, err, "must be \"deny\" or \"ask\" (to allow everything, set \"mode\" to \"full\")");
    rules->unlisted = answer;
    return 0;
}

static int skip_text(struct jsonwalk *w, json_t *v, void *arg UNUSED, struct err *err) {
    return json_is_string(v) ? 0 : jsonwalk_fail(w, err, "must be a string");
}

static int skip_rules(struct jsonwalk *w UNUSED, json_t *v UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return 0;
}

/* Rules may name groups that follow them in the file, so they are read last. */
static const struct jsonwalk_key sections[] = {
    {"$schema", skip_text, 0},      {"comment", skip_text, 0},  {"mode", read_net_mode, 0},
    {"unlisted", read_unlisted, 0}, {"groups", read_groups, 0}, {"rules", skip_rules, 0},
};

int rules_read(const char *name, const char *data, size_t len, struct rules *ret, struct err *err) {
    CLEANUP(jsonfile_done) struct jsonfile file = {0};
    CLEANUP(rules_done) struct rules rules = {0};
    struct jsonwalk w = {.file = &file};
    json_t *v;
    int r = jsonfile_parse(name, data, len, RULES_SIZE_MAX, &file, err);

    r = r < 0 ? r : jsonwalk_members(&w, file.root, sections, ARRAY_LEN(sections), &rules, err);
    if (r < 0)
        return r;
    v = json_object_get(file.root, "rules");
    jsonwalk_enter(&w, "rules");
    r = v ? read_rules(&w, v, &rules, err) : 0;
    jsonwalk_leave(&w);
    r = r < 0 ? r : jsonwalk_ctx(&w, rules_compile(&rules, err), err);
    if (r < 0)
        return r;
    *ret = TAKE(rules, (struct rules){0});
    return 0;
}
