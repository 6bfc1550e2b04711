/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies of a lockfile, and what changed about them. */
#include "review/risk/risk_deps.h"

#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "review/risk/risk_rule.h"

enum {
    HOST_MAX = 128,
    HOSTS_MAX = 512,
    VERSIONS_MAX = 64, /* of one name that are looked at: the file may have thousands to keep the reader busy */
};

void deps_done(struct deps *d) {
    free(d->v);
    buf_done(&d->text);
    *d = (struct deps)DEPS_INIT;
}

static const char *dep_text(const struct deps *d, const struct dep *dep, enum dep_field f) {
    return d->text.data ? d->text.data + dep->field[f] : "";
}

const char *deps_field(const struct deps *d, size_t i, enum dep_field f) {
    return dep_text(d, &d->v[i], f);
}

void deps_odd(struct deps *d, unsigned line) {
    if (d->odd == 0)
        d->odd = MAX_OF(line, 1u);
}

void deps_begin(struct deps *d, unsigned line) {
    if (d->n >= DEPS_MAX || VEC_ADD(d->v, d->n, (struct dep){.line = line}) < 0)
        deps_odd(d, line);
}

static void store_field(struct deps *d, enum dep_field f, const char *s, size_t len) {
    size_t at;

    if (d->text.len == 0)
        buf_addc(&d->text, 0); /* offset 0 is the empty string */
    at = d->text.len;
    buf_add(&d->text, s, len);
    buf_addc(&d->text, 0);
    if (buf_ok(&d->text))
        d->v[d->n - 1].field[f] = at;
    else
        deps_odd(d, d->v[d->n - 1].line);
}

/* "https://user@host/path" is host. Of other ways all but the revision counts: "git+https://github.com/x/y", a path. */
static void cut_source(const char *s, size_t len, char out[static HOST_MAX]) {
    static const struct { const char *scheme, *shown; } plain[] = {{"https://", ""}, {"http://", "http://"}};

    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        size_t start = strlen(plain[i].scheme), n = 0;
        const char *at;

        if (len < start || memcmp(s, plain[i].scheme, start) != 0)
            continue;
        while (start + n < len && !strchr("/?#", s[start + n]))
            n++;
        at = memrchr(s + start, '@', n);
        if (at) {
            n -= (size_t)(at + 1 - (s + start));
            start = (size_t)(at + 1 - s);
        }
        snprintf(out, HOST_MAX, "%s%.*s", plain[i].shown, (int)MIN_OF(n, (size_t)HOST_MAX), s + start);
        return;
    }
    for (size_t n = 0;; n++)
        if (n == MIN_OF(len, (size_t)HOST_MAX) || s[n] == '?' || s[n] == '#') {
            snprintf(out, HOST_MAX, "%.*s", (int)n, s);
            return;
        }
}

static void add_host(struct deps *d, const char *s, size_t len) {
    const char *known = dep_text(d, &d->v[d->n - 1], DEP_SOURCE);
    char name[HOST_MAX], all[HOSTS_MAX];

    cut_source(s, len, name);
    if (!*name || strstr(known, name) || strstr(name, "@npm:")) /* yarn: a@npm:1.0.0 is the usual registry */
        return;
    snprintf(all, sizeof all, "%s%s%s", known, *known ? " " : "", name);
    store_field(d, DEP_SOURCE, all, strlen(all));
}

static void add_hash(struct deps *d, const char *s, size_t len) {
    CLEANUP(freep) char *both = NULL;
    const char *known = dep_text(d, &d->v[d->n - 1], DEP_HASH);
    char digest[SHA256_HEX_SIZE];

    if (!*known) {
        store_field(d, DEP_HASH, s, len);
        return;
    }
    both = str_dupf("%s %.*s", known, (int)MIN_OF(len, (size_t)RISK_FILE_MAX), s);
    if (!both) {
        deps_odd(d, d->v[d->n - 1].line);
        return;
    }
    sha256_hex(both, strlen(both), digest);
    store_field(d, DEP_HASH, digest, strlen(digest));
}

void deps_set(struct deps *d, enum dep_field f, const char *s, size_t len) {
    if (d->n == 0 || len == 0)
        return;
    switch (f) {
    case DEP_SOURCE:
        add_host(d, s, len);
        break;
    case DEP_HASH:
        add_hash(d, s, len);
        break;
    case DEP_NAME:
    case DEP_VERSION:
    case DEP_FIELDS:
        store_field(d, f, s, len);
        break;
    }
}

void deps_set_at(struct deps *d, const char *s, size_t len) {
    const char *at = len > 1 ? memchr(s + 1, '@', len - 1) : NULL;

    deps_set(d, DEP_NAME, s, at ? (size_t)(at - s) : len);
    if (at)
        deps_set(d, DEP_VERSION, at + 1, (size_t)(s + len - at - 1));
}

static int by_name(const void *a, const void *b, void *arg) {
    const struct deps *d = arg;

    for (int f = DEP_NAME; f < DEP_FIELDS; f++) {
        int r = strcmp(dep_text(d, a, (enum dep_field)f), dep_text(d, b, (enum dep_field)f));

        if (r)
            return r;
    }
    return 0;
}

/* The first that has this name (and version, unless NULL); d->n: none. */
static size_t find_dep(const struct deps *d, const char *name, const char *version) {
    size_t lo = 0, hi = d->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int r = strcmp(dep_text(d, &d->v[mid], DEP_NAME), name);

        if (r == 0 && version)
            r = strcmp(dep_text(d, &d->v[mid], DEP_VERSION), version);
        if (r < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == d->n || !str_eq(dep_text(d, &d->v[lo], DEP_NAME), name) ||
        (version && !str_eq(dep_text(d, &d->v[lo], DEP_VERSION), version)))
        return d->n;
    return lo;
}

/* The strings of one change, cut for a reason. */
struct shown {
    char name[RISK_SHOWN_MAX + 4], version[RISK_SHOWN_MAX + 4], was[RISK_SHOWN_MAX + 4], is[RISK_SHOWN_MAX + 4];
};

static void compare_source(struct risk_case *c, struct shown *s, const char *was, const char *is, unsigned line) {
    if (!str_eq(was, is))
        risk_add(c, RISK_DEPENDENCY, RISK_HIGH, line, "dependency '%s' moved: it comes from '%s' now, and came from '%s'",
                 s->name, *is ? risk_shown(is, s->is) : "the usual registry",
                 *was ? risk_shown(was, s->was) : "the usual registry");
}

/* The same version on both sides, so whatever differs is suspicious. */
static void compare_same(struct risk_case *c, struct shown *s, const struct deps *before, const struct dep *was,
                         const struct deps *now, const struct dep *is) {
    const char *old_hash = dep_text(before, was, DEP_HASH), *new_hash = dep_text(now, is, DEP_HASH);

    compare_source(c, s, dep_text(before, was, DEP_SOURCE), dep_text(now, is, DEP_SOURCE), is->line);
    if (*old_hash && !*new_hash)
        risk_add(c, RISK_DEPENDENCY, RISK_HIGH, is->line, "dependency '%s' %s lost its integrity hash", s->name, s->version);
    else if (*old_hash && !str_eq(old_hash, new_hash))
        risk_add(c, RISK_DEPENDENCY, RISK_HIGH, is->line, "dependency '%s' has another integrity hash for the same version %s",
                 s->name, s->version);
}

/* A version of this name that the new file has no more; NULL: all are still there. */
static const struct dep *replaced(const struct deps *before, const struct deps *now, const char *name) {
    size_t first = find_dep(before, name, NULL), end = MIN_OF(first + VERSIONS_MAX, before->n);

    for (size_t i = first; i < end && str_eq(dep_text(before, &before->v[i], DEP_NAME), name); i++)
        if (find_dep(now, name, dep_text(before, &before->v[i], DEP_VERSION)) == now->n)
            return &before->v[i];
    return NULL;
}

static void compare_new(struct risk_case *c, struct shown *s, const struct deps *before, const struct deps *now,
                        const struct dep *is) {
    const struct dep *was = replaced(before, now, dep_text(now, is, DEP_NAME));
    const char *source = dep_text(now, is, DEP_SOURCE);

    if (!was) {
        risk_add(c, RISK_DEPENDENCY, RISK_MEDIUM, is->line, "dependency '%s' %s was added%s%s", s->name, s->version,
                 *source ? ", from " : "", risk_shown(source, s->is));
        return;
    }
    risk_add(c, RISK_DEPENDENCY, RISK_MEDIUM, is->line, "dependency '%s' changed from version %s to %s", s->name,
             risk_shown(dep_text(before, was, DEP_VERSION), s->was), s->version);
    compare_source(c, s, dep_text(before, was, DEP_SOURCE), source, is->line);
    if (*dep_text(before, was, DEP_HASH) && !*dep_text(now, is, DEP_HASH))
        risk_add(c, RISK_DEPENDENCY, RISK_HIGH, is->line, "dependency '%s' %s has no integrity hash any more", s->name,
                 s->version);
}

void deps_compare(struct risk_case *c, struct deps *before, struct deps *now) {
    struct shown s;

    if (before->n)
        qsort_r(before->v, before->n, sizeof *before->v, by_name, before);
    if (now->n)
        qsort_r(now->v, now->n, sizeof *now->v, by_name, now);
    for (size_t i = 0; i < now->n; i++) {
        const struct dep *is = &now->v[i];
        size_t at = find_dep(before, dep_text(now, is, DEP_NAME), dep_text(now, is, DEP_VERSION));

        risk_shown(dep_text(now, is, DEP_NAME), s.name);
        risk_shown(dep_text(now, is, DEP_VERSION), s.version);
        if (at < before->n)
            compare_same(c, &s, before, &before->v[at], now, is);
        else
            compare_new(c, &s, before, now, is);
        if (strstr(dep_text(now, is, DEP_SOURCE), "http://") &&
            (at == before->n || !strstr(dep_text(before, &before->v[at], DEP_SOURCE), "http://")))
            risk_add(c, RISK_DEPENDENCY, RISK_HIGH, is->line, "dependency '%s' is fetched without encryption", s.name);
    }
    for (size_t i = 0; i < before->n; i++)
        if (find_dep(now, dep_text(before, &before->v[i], DEP_NAME), NULL) == now->n)
            risk_add(c, RISK_DEPENDENCY, RISK_LOW, 0, "dependency '%s' was removed",
                     risk_shown(dep_text(before, &before->v[i], DEP_NAME), s.name));
}
