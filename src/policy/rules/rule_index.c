/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Every pattern of every rule, groups written out, becomes an entry; the entries are sorted by kind and key.
 * A name can match only the entries whose key is the name itself or one of its suffixes, an address only those whose key is the
 * address cut to a prefix length that some rule has. Each of these few keys is one binary search and gives a run of entries in the
 * order of the rules; the walk merges the runs. A sorted table, not a hash: a hostile file cannot make it slow.
 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/rules/rule.h"

struct rule_entry {
    const char *key; /* name or suffix; bytes of the address */
    uint8_t kind, bits, len;
    uint32_t rule;
    const struct pattern *pattern;
};
static_assert(HOST_TEXT_MAX <= UINT8_MAX, "a key's length fits");

static int compare_keys(const struct rule_entry *a, const struct rule_entry *b) {
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->bits != b->bits)
        return a->bits < b->bits ? -1 : 1;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->len ? memcmp(a->key, b->key, a->len) : 0;
}

static int compare_entries(const void *pa, const void *pb) {
    const struct rule_entry *a = pa, *b = pb;
    int r = compare_keys(a, b);

    return r ? r : a->rule < b->rule ? -1 : a->rule > b->rule;
}

static int group_get(struct rules *rules, const char *name, const struct group **ret, struct err *err) {
    const struct builtin_group *known;
    struct group *more;
    int r;

    for (size_t i = 0; i < rules->n_groups; i++)
        if (str_eq(rules->groups[i].name, name)) {
            *ret = &rules->groups[i];
            return 0;
        }
    for (size_t i = 0; i < rules->n_builtin; i++)
        if (str_eq(rules->builtin[i].name, name)) {
            *ret = &rules->builtin[i];
            return 0;
        }
    known = builtin_group_find(name);
    if (!known)
        return err_set(err, -EINVAL, "there is no group '%s'", name);
    if (!rules->builtin) {
        more = calloc(n_builtin_groups, sizeof *more); /* never moves: entries point into it */
        if (!more)
            return err_oom(err);
        rules->builtin = more;
    }
    r = group_read(name, known->text, &rules->builtin[rules->n_builtin], err);
    if (r < 0)
        return r;
    *ret = &rules->builtin[rules->n_builtin++];
    return 0;
}

static struct rule_entry make_entry(struct rules *rules, size_t rule, const struct pattern *p, const struct pattern *named) {
    struct rule_entry e = {.key = p->key, .kind = (uint8_t)p->kind, .rule = (uint32_t)rule, .pattern = named};

    if (p->kind == PATTERN_CIDR) {
        e.key = (const char *)p->cidr.addr.b;
        e.len = p->cidr.addr.len;
        e.bits = p->cidr.bits;
        rules->prefixes[e.len == 16][e.bits / 64] |= UINT64_C(1) << e.bits % 64;
    } else if (p->kind != PATTERN_ANY) {
        e.len = (uint8_t)strlen(p->key);
    }
    return e;
}

/* Counts if entries is NULL. */
static int add_entries(struct rules *rules, size_t i, struct rule_entry *entries, size_t *n, struct err *err) {
    const struct rule *rule = &rules->v[i];

    for (size_t k = 0; k < rule->n_hosts; k++) {
        const struct pattern *named = &rule->hosts[k], *p = named;
        size_t count = 1;

        if (named->kind == PATTERN_GROUP) {
            const struct group *g;
            int r = group_get(rules, named->text, &g, err);

            if (r < 0)
                return err_ctx(err, r, "rule %zu", i + 1);
            p = g->hosts;
            count = g->n;
        }
        for (size_t j = 0; j < count && entries; j++)
            entries[*n + j] = make_entry(rules, i, &p[j], named);
        *n += count;
        if (*n > RULES_ENTRIES_MAX)
            return err_set(err, -EINVAL, "the rules have more than %d hosts, groups written out", RULES_ENTRIES_MAX);
    }
    return 0;
}

/* All ids, sorted; rules without one are left out. */
static int sort_ids(const struct rules *rules, const char ***ret, size_t *ret_n, struct err *err) {
    const char **ids = calloc(rules->len + 1, sizeof *ids);
    size_t n = 0;

    if (!ids)
        return err_oom(err);
    for (size_t i = 0; i < rules->len; i++)
        if (rules->v[i].id)
            ids[n++] = rules->v[i].id;
    qsort(ids, n, sizeof *ids, str_compare);
    *ret = ids;
    *ret_n = n;
    return 0;
}

static int give_ids(struct rules *rules, struct err *err) {
    CLEANUP(freep) const char **ids = NULL;
    size_t n = 0;
    int r;

    r = sort_ids(rules, &ids, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 1; i < n; i++)
        if (str_eq(ids[i - 1], ids[i]))
            return err_set(err, -EINVAL, "two rules have the id '%s'", ids[i]);
    for (size_t i = 0, number = 1; i < rules->len; i++, number++)
        while (!rules->v[i].id) {
            CLEANUP(freep) char *id = str_dupf("rule-%zu", number);

            if (!id)
                return err_oom(err);
            if (bsearch(&id, ids, n, sizeof *ids, str_compare))
                number++;
            else
                rules->v[i].id = TAKE_PTR(id);
        }
    return 0;
}

/* Denies or asks about them. */
static bool is_about_names(const struct rule *rule) {
    for (size_t k = 0; rule->action != RULE_ALLOW && k < rule->n_hosts; k++)
        if (rule->hosts[k].kind != PATTERN_CIDR && rule->hosts[k].kind != PATTERN_ANY)
            return true;
    return false;
}

const struct rule *rules_strict_name(const struct rules *rules, uint16_t port) {
    for (size_t i = 0; rules->n_strict && i < rules->len; i++)
        if (is_about_names(&rules->v[i]) && (!port || rule_has_port(&rules->v[i], port)))
            return &rules->v[i];
    return NULL;
}

int rules_compile(struct rules *rules, struct err *err) {
    CLEANUP(freep) struct rule_entry *entries = NULL;
    size_t n = 0, filled = 0;
    int r;

    r = give_ids(rules, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < rules->len; i++) {
        r = add_entries(rules, i, NULL, &n, err);
        if (r < 0)
            return r;
    }
    entries = calloc(n + 1, sizeof *entries);
    if (!entries)
        return err_oom(err);
    memset(rules->prefixes, 0, sizeof rules->prefixes);
    for (size_t i = 0; i < rules->len; i++)
        add_entries(rules, i, entries, &filled, err);
    qsort(entries, n, sizeof *entries, compare_entries);
    free(rules->entries);
    rules->entries = TAKE_PTR(entries);
    rules->n_entries = n;
    rules->n_strict = 0;
    for (size_t i = 0; i < rules->len; i++)
        rules->n_strict += is_about_names(&rules->v[i]);
    return 0;
}

/* The first entry that is not below the key (or, with after, the first that is above it). */
static const struct rule_entry *bound(const struct rules *rules, const struct rule_entry *key, bool after) {
    size_t low = 0, high = rules->n_entries;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int r = compare_keys(&rules->entries[mid], key);

        if (r < 0 || (after && r == 0))
            low = mid + 1;
        else
            high = mid;
    }
    return rules->entries + low;
}

static void add_run(struct rule_walk *w, struct rule_entry key, bool no_allow) {
    const struct rule_entry *at = bound(w->rules, &key, false), *all = w->rules->entries + w->rules->n_entries;

    if (at == all || compare_keys(at, &key) != 0)
        return;
    if (w->n == RULE_WALK_LISTS)
        BUG("a request with more keys than there can be");
    w->lists[w->n].at = at;
    w->lists[w->n].end = bound(w->rules, &key, true);
    w->lists[w->n++].no_allow = no_allow;
}

static void add_address(struct rule_walk *w, const struct addr *a, bool no_allow) {
    const uint64_t *have = w->rules->prefixes[a->len == 16];

    for (unsigned bits = 0; bits <= 8u * a->len; bits++) {
        struct addr m;

        if (!(have[bits / 64] >> bits % 64 & 1))
            continue;
        m = addr_masked(a, bits);
        add_run(w, (struct rule_entry){(const char *)m.b, PATTERN_CIDR, (uint8_t)bits, m.len, 0, NULL}, no_allow);
    }
}

/* What a tunnel would carry to a denied address is denied; to allow it, its own address must be named. */
static void add_all_addresses(struct rule_walk *w, const struct addr *given) {
    struct addr a = addr_unmapped(given), inner[ADDR_INNER_MAX];
    size_t n = addr_inner(&a, inner);

    add_address(w, &a, false);
    for (size_t i = 0; i < n; i++)
        add_address(w, &inner[i], true);
}

static void add_name(struct rule_walk *w, const char *name, size_t len) {
    const char *dot = memchr(name, '.', len), *end = name + len;

    add_run(w, (struct rule_entry){name, PATTERN_EXACT, 0, (uint8_t)len, 0, NULL}, false);
    if (dot)
        add_run(w, (struct rule_entry){dot + 1, PATTERN_ONE, 0, (uint8_t)(end - dot - 1), 0, NULL}, false);
    for (; dot; dot = memchr(dot + 1, '.', (size_t)(end - dot - 1)))
        add_run(w, (struct rule_entry){dot + 1, PATTERN_DEEP, 0, (uint8_t)(end - dot - 1), 0, NULL}, false);
}

static bool is_grouped(const struct rule_hit *hit) {
    return hit->pattern->kind == PATTERN_GROUP;
}

/* What the stricter rule is narrowed to, the other one has to be about, too. */
static bool is_as_narrow(const struct rule *allow, const struct rule *stricter) {
    return (allow->n_ports || !stricter->n_ports) && (allow->methods.len || !stricter->methods.len) &&
           (allow->paths.len || !stricter->paths.len);
}

bool rule_overrules(const struct rule_hit *allow, const struct rule_hit *stricter) {
    if (!is_as_narrow(allow->rule, stricter->rule))
        return false;
    if (stricter->cidr && !allow->cidr) /* where the name leads */
        return allow->exact && !is_grouped(allow);
    if (allow->rank == stricter->rank)
        return !is_grouped(allow) || is_grouped(stricter);
    return allow->rank > stricter->rank;
}

void rule_walk_init(struct rule_walk *w, const struct rules *rules, const struct host *host, const struct addr *address) {
    w->rules = rules;
    w->n = 0;
    w->has_name = host->kind == HOST_NAME;
    if (rules->n_entries == 0)
        return;
    add_run(w, (struct rule_entry){.kind = PATTERN_ANY}, !w->has_name); /* "**" denies addresses too, but allows names only */
    if (w->has_name)
        add_name(w, host->text, host->len);
    else
        add_all_addresses(w, &host->addr);
    if (w->has_name && address)
        add_all_addresses(w, address);
}

static uint16_t rank_of(const struct rule_entry *e) {
    if (e->kind == PATTERN_EXACT)
        return UINT16_MAX;
    if (e->kind == PATTERN_ONE || e->kind == PATTERN_DEEP)
        return (uint16_t)(2 * e->len + (e->kind == PATTERN_ONE));
    return e->kind == PATTERN_CIDR ? (uint16_t)(e->bits + 1) : 0;
}

static struct rule_hit make_hit(const struct rule_walk *w, const struct rule_entry *e) {
    return (struct rule_hit){
        .rule = &w->rules->v[e->rule],
        .pattern = e->pattern,
        .exact = e->kind == PATTERN_EXACT || (e->kind == PATTERN_CIDR && e->bits == 8 * e->len),
        .cidr = e->kind == PATTERN_CIDR,
        .bits = e->bits,
        .rank = rank_of(e),
    };
}

bool rule_walk_next(struct rule_walk *w, struct rule_hit *ret) {
    for (;;) {
        const struct rule_entry *e;
        bool no_allow;
        size_t best = w->n;

        for (size_t i = 0; i < w->n; i++)
            if (w->lists[i].at < w->lists[i].end && (best == w->n || w->lists[i].at->rule < w->lists[best].at->rule))
                best = i;
        if (best == w->n)
            return false;
        no_allow = w->lists[best].no_allow;
        e = w->lists[best].at++;
        if (no_allow && w->rules->v[e->rule].action == RULE_ALLOW)
            continue;
        *ret = make_hit(w, e);
        return true;
    }
}
