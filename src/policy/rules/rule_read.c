/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/rules/rule_priv.h"

static int read_rule(struct rule_reader *rd, json_t *v, struct err *err) {
    CLEANUP(rule_done) struct rule rule = {0};
    int r;

    r = rule_read_one(rd, v, &rule, err);
    if (r < 0)
        return r;
    return json_ctx(&rd->at, rules_add(rd->rules, rd->rules->len, &rule, err), err);
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

static int check_ids(struct rule_reader *rd, struct err *err) {
    CLEANUP(freep) struct rule_seen *seen = calloc(rd->rules->len + 1, sizeof *seen);
    size_t n = 0;

    if (!seen)
        return err_oom(err);
    for (size_t i = 0; i < rd->rules->len; i++)
        if (rd->rules->v[i].id)
            seen[n++] = (struct rule_seen){rd->rules->v[i].id, i};
    qsort(seen, n, sizeof *seen, compare_seen);
    for (size_t i = 1; i < n; i++)
        if (str_eq(seen[i - 1].id, seen[i].id)) {
            json_enter(&rd->at, seen[i].index, NULL);
            return json_fail(&rd->at, err, "rule %zu has the id '%s' already", seen[i - 1].index + 1, seen[i].id);
        }
    return 0;
}

static int read_rules(struct rule_reader *rd, json_t *v, struct err *err) {
    json_t *value;
    size_t i;

    if (!json_is_array(v))
        return json_fail(&rd->at, err, "must be an array of rules");
    json_array_foreach(v, i, value) {
        int r;

        json_enter(&rd->at, i, NULL);
        r = read_rule(rd, value, err);
        json_leave(&rd->at);
        if (r < 0)
            return r;
    }
    return check_ids(rd, err);
}

static int read_group(struct rule_reader *rd, const char *name, json_t *v, struct err *err) {
    struct group *g = &rd->rules->groups[rd->rules->n_groups];
    struct patterns to = {&g->hosts, &g->n, true};

    if (!group_name_ok(name, strlen(name)))
        return json_fail_key(&rd->at, err, "a group is '@' and up to %d small letters, digits or hyphens", GROUP_NAME_MAX - 1);
    if (builtin_group_find(name))
        return json_fail_key(&rd->at, err, "this group is built in (take another name)");
    g->name = strdup(name);
    if (!g->name)
        return err_oom(err);
    rd->rules->n_groups++;
    if (!json_is_array(v))
        return json_fail(&rd->at, err, "must be an array of hosts");
    return rule_for_each(rd, v, GROUP_HOSTS_MAX, rule_add_pattern, &to, err);
}

static int read_groups(struct rule_reader *rd, json_t *v, struct err *err) {
    size_t index = 0;
    const char *key;
    json_t *value;

    if (!json_is_object(v) || json_object_size(v) > RULES_GROUPS_MAX)
        return json_fail(&rd->at, err, "must be an object of at most %d groups", RULES_GROUPS_MAX);
    rd->rules->groups = calloc(RULES_GROUPS_MAX, sizeof *rd->rules->groups);
    if (!rd->rules->groups)
        return err_oom(err);
    json_object_foreach(v, key, value) {
        int r;

        json_enter(&rd->at, index++, key);
        r = read_group(rd, key, value, err);
        json_leave(&rd->at);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_mode(struct rule_reader *rd, json_t *v, struct err *err) {
    rd->rules->mode = json_is_string(v) ? net_mode_find(json_string_value(v)) : NET_UNSET;
    if (rd->rules->mode == NET_UNSET)
        return json_fail(&rd->at, err, "must be \"none\" (or \"off\"), \"limited\", \"full\" (or \"on\") or \"list\"");
    return 0;
}

static int read_unlisted(struct rule_reader *rd, json_t *v, struct err *err) {
    struct rule answer = {0};
    int r = rule_read_action(rd, v, &answer, err);

    if (r < 0 || answer.action == RULE_ALLOW)
        return json_fail(&rd->at, err, "must be \"deny\" or \"ask\" (to allow everything, set \"mode\" to \"full\")");
    rd->rules->unlisted = answer.action;
    return 0;
}

static int read_nothing(struct rule_reader *rd, json_t *v, struct err *err) {
    return json_is_string(v) ? 0 : json_fail(&rd->at, err, "must be a string");
}

/* In the order in which they are read: rules may name groups that stand behind them in the file. */
static const struct {
    const char *name;
    int (*read)(struct rule_reader *rd, json_t *v, struct err *err);
} sections[] = {
    {"$schema", read_nothing},   {"comment", read_nothing}, {"mode", read_mode},
    {"unlisted", read_unlisted}, {"groups", read_groups},   {"rules", read_rules},
};

static int check_sections(struct rule_reader *rd, const json_t *root, struct err *err) {
    const char *known[ARRAY_LEN(sections)], *key;
    size_t index = 0;
    json_t *value;

    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        known[i] = sections[i].name;
    json_object_foreach((json_t *)root, key, value) {
        bool found = false;

        for (size_t i = 0; i < ARRAY_LEN(sections); i++)
            found |= str_eq(key, known[i]);
        json_enter(&rd->at, index++, key);
        if (!found)
            return rule_unknown_key(rd, key, known, ARRAY_LEN(known), err);
        json_leave(&rd->at);
    }
    return 0;
}

static size_t index_of(json_t *root, const char *name) {
    size_t index = 0;
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value) {
        if (str_eq(key, name))
            break;
        index++;
    }
    return index;
}

int rules_read(const char *name, const char *data, size_t len, struct rules *ret, struct err *err) {
    CLEANUP(json_text_done) struct json_text text = {0};
    CLEANUP(rules_done) struct rules rules = {0};
    struct rule_reader rd = {.at = {.text = &text}, .rules = &rules};
    int r;

    r = json_text_parse(name, data, len, RULES_SIZE_MAX, &text, err);
    if (r < 0)
        return r;
    r = check_sections(&rd, text.root, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(sections); i++) {
        json_t *v = json_object_get(text.root, sections[i].name);

        if (!v)
            continue;
        json_enter(&rd.at, index_of(text.root, sections[i].name), sections[i].name);
        r = sections[i].read(&rd, v, err);
        json_leave(&rd.at);
    }
    if (r < 0)
        return r;
    r = json_ctx(&rd.at, rules_compile(&rules, err), err);
    if (r < 0)
        return r;
    *ret = TAKE(rules, (struct rules){0});
    return 0;
}
