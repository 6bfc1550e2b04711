/* SPDX-License-Identifier: Apache-2.0 */
/* Lockfiles that are JSON, TOML or YAML with a table per dependency. */
#include "base/str.h"
#include "review/pairs/pairs.h"
#include "review/risk/risk_deps.h"
#include "review/risk/risk_rule.h"

/* The names of a key: first ... last. */
struct lock_table_names {
    const char *part[PAIRS_DEPTH_MAX + 2];
    size_t len[PAIRS_DEPTH_MAX + 2];
    size_t n;
};

static struct lock_table_names split(const char *key) {
    struct lock_table_names k = {.n = 0};

    for (;;) {
        size_t len = strcspn(key, "\x1f");

        k.part[k.n] = key;
        k.len[k.n++] = len;
        if (key[len] == 0 || k.n == ARRAY_LEN(k.part)) /* no reader goes deeper */
            return k;
        key += len + 1;
    }
}

static bool name_is(const struct lock_table_names *k, size_t i, const char *patterns) {
    return i < k->n && risk_glob(patterns, k->part[i], k->len[i]);
}

/* One line of a table: a leaf of a dependency's own table, and the field that it is. */
struct lock_table_leaf {
    const char *names;
    enum dep_field field;
};

/* Where the dependencies of a format are: TABLE . NAME . [INNER .] LEAF */
struct layout {
    const char *table; /* NULL: the top */
    const char *inner; /* NULL: none */
    enum { NAMED, VERSIONED /* name@version */, NESTED /* TABLE . NAME . TABLE . NAME */, FLAT /* no leaf */ } kind;
    struct lock_table_leaf leaves[4];
};

struct grouping {
    struct deps *out;
    const struct layout *layout;
    char group[PAIRS_KEY_MAX + 1]; /* of the dependency that is open */
};

/* Which of the names is the dependency's; false: the key is about something else. */
static bool locate(const struct layout *l, const struct lock_table_names *k, size_t *ret_name, size_t *ret_leaf) {
    size_t name = l->table ? 1 : 0, leaf;

    while (l->kind == NESTED && k->n > name + 3 && name_is(k, name + 1, l->table))
        name += 2;
    leaf = name + (l->kind == FLAT ? 0 : l->inner ? 2 : 1);
    *ret_name = name;
    *ret_leaf = leaf;
    return k->n == leaf + 1 && (!l->table || name_is(k, 0, l->table)) && (!l->inner || name_is(k, name + 1, l->inner));
}

static void open_group(struct grouping *g, const struct lock_table_names *k, size_t name, unsigned line) {
    size_t prefix = (size_t)(k->part[name] + k->len[name] - k->part[0]), slash = k->part[name][0] == '/';

    if (strlen(g->group) == prefix && memcmp(g->group, k->part[0], prefix) == 0)
        return;
    memcpy(g->group, k->part[0], prefix);
    g->group[prefix] = 0;
    deps_begin(g->out, line);
    if (g->layout->kind == VERSIONED)
        deps_set_at(g->out, k->part[name] + slash, k->len[name] - slash);
    else
        deps_set(g->out, DEP_NAME, k->part[name], k->len[name]);
}

/* Everything of one dependency follows each other in these files; if not, it counts as two. */
static void group_pair(struct grouping *g, const struct pairs *p, size_t i) {
    const struct lock_table_leaf *leaves = g->layout->leaves;
    struct lock_table_names k = split(pairs_key(p, i));
    size_t name, leaf;

    if (!locate(g->layout, &k, &name, &leaf))
        return;
    open_group(g, &k, name, p->v[i].line);
    for (size_t f = 0; f < ARRAY_LEN(g->layout->leaves) && leaves[f].names; f++)
        if (name_is(&k, leaf, leaves[f].names))
            deps_set(g->out, leaves[f].field, pairs_value(p, i), strlen(pairs_value(p, i)));
}

static void read_grouped(struct deps *d, pairs_read_fn *read, const struct layout *layouts, size_t n, const char *data,
                         size_t len) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    read(&p, data, len);
    for (size_t k = 0; k < n; k++) {
        struct grouping g = {.out = d, .layout = &layouts[k]};

        for (size_t i = 0; i < p.n; i++)
            group_pair(&g, &p, i);
    }
    if (p.odd)
        deps_odd(d, p.odd);
}

void deps_read_npm(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {"packages", NULL, NAMED, {{"version", DEP_VERSION}, {"resolved", DEP_SOURCE}, {"integrity", DEP_HASH}}},
        {"dependencies", NULL, NESTED, {{"version", DEP_VERSION}, {"resolved", DEP_SOURCE}, {"integrity", DEP_HASH}}},
    };

    read_grouped(d, pairs_read_json, layouts, ARRAY_LEN(layouts), data, len);
}

void deps_read_pnpm(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {"packages", "resolution", VERSIONED, {{"integrity|commit", DEP_HASH}, {"tarball|repo|directory", DEP_SOURCE}}},
    };

    read_grouped(d, pairs_read_yaml, layouts, ARRAY_LEN(layouts), data, len);
}

void deps_read_pipfile(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {"default|develop",
         NULL,
         NAMED,
         {{"version|ref", DEP_VERSION}, {"hashes[]", DEP_HASH}, {"index|git|path|file|url", DEP_SOURCE}}},
        {"_meta", NULL, NAMED, {{"url", DEP_SOURCE}, {"name", DEP_VERSION}, {"verify_ssl", DEP_HASH}}},
    };

    read_grouped(d, pairs_read_json, layouts, ARRAY_LEN(layouts), data, len);
}

void deps_read_flake(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {"nodes", "locked", NAMED, {{"rev", DEP_VERSION}, {"owner|repo|url|path|type", DEP_SOURCE}, {"narHash", DEP_HASH}}},
    };

    read_grouped(d, pairs_read_json, layouts, ARRAY_LEN(layouts), data, len);
}

void deps_read_deno(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {"npm|jsr", NULL, VERSIONED, {{"integrity", DEP_HASH}, {"tarball", DEP_SOURCE}}},
        {"remote|redirects", NULL, FLAT, {{"*", DEP_HASH}}},
    };

    read_grouped(d, pairs_read_json, layouts, ARRAY_LEN(layouts), data, len);
}

/* Berry is YAML with a table per descriptor; version 1 looks similar, but is not. */
void deps_read_yarn(struct deps *d, const char *data, size_t len) {
    static const struct layout layouts[] = {
        {NULL, NULL, NAMED, {{"version", DEP_VERSION}, {"resolution", DEP_SOURCE}, {"checksum", DEP_HASH}}},
    };

    if (memmem(data, len, "__metadata:", 11))
        read_grouped(d, pairs_read_yaml, layouts, ARRAY_LEN(layouts), data, len);
    else
        deps_read_yarn1(d, data, len);
}

/* -- lists in JSON or TOML ------------------------------------------------------------------------------------------------ */

/* Lockfiles that are JSON or TOML with a list of dependencies. */

struct lock_list_part {
    const char *keys;
    enum dep_field field;
};

/* An element of `list` is a dependency; `parts` says which of its keys matter. */
static void read_list(struct deps *d, const struct pairs *p, const char *list, const struct lock_list_part *parts, size_t n) {
    for (size_t i = 0; i < p->n; i++) {
        const char *key = pairs_key(p, i), *value = pairs_value(p, i);

        if (str_eq(value, "{") && risk_glob(list, key, strlen(key)))
            deps_begin(d, p->v[i].line);
        for (size_t k = 0; k < n; k++)
            if (risk_glob(parts[k].keys, key, strlen(key))) {
                deps_set(d, parts[k].field, value, strlen(value));
                break;
            }
    }
    if (p->odd)
        deps_odd(d, p->odd);
}

/* poetry writes [package.source] behind its [[package]], uv and pylock an inline table. */
void deps_read_toml(struct deps *d, const char *data, size_t len) {
    static const struct lock_list_part parts[] = {
        {"package[].name|packages[].name", DEP_NAME},
        {"package[].version|packages[].version", DEP_VERSION},
        {"package[].checksum|package*hash|package*.hashes.*|package*.commit-id|package*.resolved_reference", DEP_HASH},
        {"package[].source|package[].source.*|package.source.url|package[].git|package[].path|packages[].index|"
         "package*.url|package*.vcs.*",
         DEP_SOURCE},
    };
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    pairs_read_toml(&p, data, len);
    read_list(d, &p, "package[]|packages[]", parts, ARRAY_LEN(parts));
}

void deps_read_composer(struct deps *d, const char *data, size_t len) {
    static const struct lock_list_part parts[] = {
        {"packages[].name|packages-dev[].name", DEP_NAME},
        {"packages[].version|packages-dev[].version", DEP_VERSION},
        {"packages*[].dist.shasum|packages*[].dist.reference|packages*[].source.reference", DEP_HASH},
        {"packages*[].dist.url|packages*[].source.url", DEP_SOURCE},
    };
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    pairs_read_json(&p, data, len);
    read_list(d, &p, "packages[]|packages-dev[]", parts, ARRAY_LEN(parts));
}

/* "name": ["name@1.0.0", "registry", {...}, "sha512-..."] */
void deps_read_bun(struct deps *d, const char *data, size_t len) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;
    const char *open = "";

    pairs_read_json(&p, data, len);
    for (size_t i = 0; i < p.n; i++) {
        const char *key = pairs_key(&p, i), *value = pairs_value(&p, i);

        if (!risk_glob("packages.*[]", key, strlen(key)) || str_eq(value, "{") || strchr(key + 9, PAIR_STEP))
            continue;
        if (!str_eq(open, key)) {
            deps_begin(d, p.v[i].line);
            deps_set_at(d, value, strlen(value));
            open = key;
        } else {
            deps_set(d, str_starts(value, "sha") ? DEP_HASH : DEP_SOURCE, value, strlen(value));
        }
    }
    if (p.odd)
        deps_odd(d, p.odd);
}
