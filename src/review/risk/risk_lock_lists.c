/* SPDX-License-Identifier: Apache-2.0 */
/* Lockfiles that are JSON or TOML with a list of dependencies. */
#include "base/str.h"
#include "review/pairs/pairs.h"
#include "review/risk/risk_deps.h"
#include "review/risk/risk_rule.h"

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
