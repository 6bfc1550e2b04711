/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of a folder where each is in a folder of its own: npm, bower, cargo; go and composer, which list them. */
#include "review/fold/fold_packages.h"

#include <errno.h>

#include "base/str.h"
#include "base/vec.h"

/* A change of the folder, and how much of its path is the package. */
struct fold_part {
    const struct change *c;
    size_t root; /* length; 0: of no package */
};

static int by_root(const void *a, const void *b) {
    const struct fold_part *x = a, *y = b;
    int r = strncmp(x->c->path, y->c->path, MIN_OF(x->root, y->root));

    if (r == 0)
        r = (x->root > y->root) - (x->root < y->root);
    return r ? r : x->c < y->c ? -1 : x->c > y->c;
}

static bool same_root(const struct fold_part *x, const struct fold_part *y) {
    return x->root == y->root && memcmp(x->c->path, y->c->path, x->root) == 0;
}

/* -- one manifest per package -------------------------------------------------------------------------------------------- */

/* The end of the name at `at`, "@scope/name" as one; 0: there is nothing below it. */
static size_t name_end(const char *path, size_t at, bool scopes) {
    size_t end = at + strcspn(path + at, "/");

    if (scopes && path[at] == '@' && path[end])
        end += 1 + strcspn(path + end + 1, "/");
    return path[end] == '/' ? end : 0;
}

/*
 * node_modules/a/node_modules/@b/c is a package; node_modules/a/test/node_modules/d is a's. pnpm has them in
 * node_modules/.pnpm/a@1.0.0/node_modules/a.
 */
size_t fold_package_root(const struct fold *f, const char *path) {
    static const char deeper[] = "/node_modules/", store[] = ".pnpm/";
    bool npm = str_eq(f->kind->file, "package.json");
    size_t at = strlen(f->path) + 1, end, root = 0;

    if (npm && strncmp(path + at, store, strlen(store)) == 0) {
        end = name_end(path, at + strlen(store), false);
        at = end && str_starts(path + end, deeper) ? end + strlen(deeper) : at;
    }
    for (;;) {
        end = path[at] == '.' ? 0 : name_end(path, at, npm);
        if (!end)
            return root;
        root = end;
        if (!npm || !str_starts(path + end, deeper))
            return root;
        at = end + strlen(deeper);
    }
}

static package_read_fn *reader_of(const struct fold *f) {
    return str_eq(f->kind->file, "Cargo.toml") ? package_read_cargo : package_read_json;
}

static bool read_facts(struct fold_work *w, const char *path, bool after, package_read_fn *read, struct package_facts *ret) {
    CLEANUP(risk_text_done) struct risk_text t = {0};

    *ret = (struct package_facts){0};
    if (!fold_text(w, path, after, &t))
        return false;
    read(ret, t.data, t.len);
    return true;
}

/* What npm runs by itself, and cargo at every build. */
static void add_build_scripts(struct fold_work *w, const char *root, struct package_facts *now) {
    static const struct { const char *kind, *file; } builds[] = {{"npm", "binding.gyp"}, {"cargo-vendor", "build.rs"}};

    for (size_t i = 0; i < ARRAY_LEN(builds); i++) {
        CLEANUP(freep) char *path = str_dupf("%s/%s", root, builds[i].file);
        size_t len = strlen(now->scripts);

        if (str_eq(w->f->kind->name, builds[i].kind) && path && risk_after_exists(w->ctx, path))
            snprintf(now->scripts + len, sizeof now->scripts - len, "%s%s", len ? ", " : "", builds[i].file);
    }
}

/* The version is the same, so its files should be. */
static void judge_same(struct fold_work *w, const struct fold_part *v, size_t n, const char *name, const char *version) {
    char shown[RISK_SHOWN_MAX + 4];

    risk_shown(name, shown);
    for (size_t i = 0; i < n; i++)
        if (fold_matters(v[i].c))
            fold_risk(w, v[i].c, RISK_HIGH, "it is a file of '%s' %s, whose version did not change", shown, version);
}

static void judge_strays(struct fold_work *w, const struct fold_part *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fold_matters(v[i].c) && v[i].c->new_.mode)
            fold_risk(w, v[i].c, RISK_HIGH,
                      "it belongs to no package: programs find it here by its name, and no lockfile knows of it");
}

static void unfold(struct fold_work *w, const struct fold_part *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        w->set->of[v[i].c - w->ctx->set->v] = 0;
}

static void add_checked(struct fold_work *w, const char *root, const char *manifest, const struct package_facts *was,
                        struct package_facts *now) {
    const char *name = root + strlen(w->f->path) + 1, *deeper;
    struct fold_package *p;
    struct package_facts sum = {0};
    CLEANUP(freep) char *marker = w->f->kind->marker ? str_dupf("%s/%s", root, w->f->kind->marker) : NULL;

    while ((deeper = strstr(name, "node_modules/")))
        name = deeper + strlen("node_modules/");
    if (w->f->kind->marker && *now->name)
        name = now->name;
    add_build_scripts(w, root, now);
    if (marker)
        read_facts(w, marker, true, package_read_checksum, &sum);
    p = fold_package_new(w, root, name, was->version, now->version);
    if (!p)
        return;
    p->manifest = change_find(w->ctx->set, manifest);
    p->scripts = p->is && *now->scripts ? strdup(now->scripts) : NULL;
    w->failed |= p->is && *now->scripts && !p->scripts;
    fold_lock_check(w, p, sum.checksum);
}

/* All changes of one package. */
static void judge_package(struct fold_work *w, const struct fold_part *v, size_t n) {
    CLEANUP(freep)
    char *root = strndup(v->c->path, v->root), *manifest = root ? str_dupf("%s/%s", root, w->f->kind->file) : NULL,
         *marker = root && w->f->kind->marker ? str_dupf("%s/%s", root, w->f->kind->marker) : NULL;
    struct package_facts was = {0}, now = {0};
    bool before, after;

    if (!manifest || (w->f->kind->marker && !marker)) {
        w->failed = true;
        return;
    }
    before = read_facts(w, manifest, false, reader_of(w->f), &was);
    after = read_facts(w, manifest, true, reader_of(w->f), &now);
    if (before && !*was.version) /* a package without a version is one all the same */
        was.version[0] = '?';
    if (after && !*now.version)
        now.version[0] = '?';
    if (marker && !risk_after_exists(w->ctx, marker) && !change_find(w->ctx->set, marker))
        unfold(w, v, n);
    else if (!before && !after)
        judge_strays(w, v, n);
    else if (before && after && str_eq(was.version, now.version))
        judge_same(w, v, n, root + strlen(w->f->path) + 1, now.version);
    else
        add_checked(w, root, manifest, &was, &now);
}

/* What lies beside the packages. Names with a dot are the tool's own (.bin, .cache): no program finds them by their name. */
static void judge_beside(struct fold_work *w, const struct fold_part *part) {
    size_t len = strlen(w->f->path);

    if (w->f->kind->marker)
        unfold(w, part, 1);
    else if (part->c->path[len] == '/' && part->c->path[len + 1] != '.')
        judge_strays(w, part, 1);
}

/* The changes of the folder, without folders. */
static struct fold_part *collect_parts(struct fold_work *w, size_t *ret_n) {
    const struct change_set *set = w->ctx->set;
    struct fold_part *v = calloc(set->n + 1, sizeof *v);
    size_t n = 0;

    for (size_t i = 0; v && i < set->n; i++)
        if (w->set->of[i] == w->number && !S_ISDIR(set->v[i].new_.mode ? set->v[i].new_.mode : set->v[i].old_.mode))
            v[n++] = (struct fold_part){.c = &set->v[i]};
    w->failed |= !v;
    *ret_n = n;
    return v;
}

void fold_packages_manifest(struct fold_work *w) {
    size_t n;
    CLEANUP(freep) struct fold_part *v = collect_parts(w, &n);

    for (size_t i = 0; i < n; i++)
        v[i].root = fold_package_root(w->f, v[i].c->path);
    if (n)
        qsort(v, n, sizeof *v, by_root);
    for (size_t i = 0, end; i < n && !w->failed; i = end) {
        for (end = i + 1; end < n && v[i].root && same_root(&v[i], &v[end]); end++)
            ;
        if (v[i].root)
            judge_package(w, v + i, end - i);
        else
            judge_beside(w, v + i);
    }
    if (str_eq(w->f->kind->name, "npm"))
        fold_lock_installed(w);
}

/* -- one list for all ---------------------------------------------------------------------------------------------------- */

/* A package of the list, before and after. */
struct fold_listed {
    char *name, *was, *is;
};

struct fold_listing {
    struct fold_listed *v; /* by name once both versions were read */
    size_t n;
    bool after, failed;
};

static void listing_done(struct fold_listing *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].name);
        free(l->v[i].was);
        free(l->v[i].is);
    }
    free(l->v);
}

static void add_listed(const char *name, const char *version, void *arg) {
    struct fold_listing *l = arg;
    struct fold_listed e = {.name = strdup(name)};

    *(l->after ? &e.is : &e.was) = strdup(*version ? version : "?");
    if (l->n < FOLD_PACKAGES_MAX && VEC_ADD(l->v, l->n, e) == 0)
        return;
    l->failed = true;
    free(e.name);
    free(e.was);
    free(e.is);
}

static int by_listed_name(const void *a, const void *b) {
    return strcmp(((const struct fold_listed *)a)->name, ((const struct fold_listed *)b)->name);
}

static int by_listed(const void *a, const void *b) {
    const struct fold_listed *x = a, *y = b;
    int r = by_listed_name(a, b);

    return r ? r : (x->is != NULL) - (y->is != NULL);
}

/* The old and the new entry of a name become one. */
static void merge_listing(struct fold_listing *l) {
    size_t n = 0;

    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_listed);
    for (size_t i = 0; i < l->n; i++) {
        if (n && str_eq(l->v[n - 1].name, l->v[i].name) && !l->v[n - 1].is) {
            l->v[n - 1].is = TAKE_PTR(l->v[i].is);
            free(l->v[i].name);
            free(l->v[i].was);
            continue;
        }
        l->v[n++] = l->v[i];
    }
    l->n = n;
}

/* The package whose folder a path is in: the longest name that is a part of it. */
static const struct fold_listed *listed_for(const struct fold_listing *l, const char *rest) {
    for (size_t len = strlen(rest); len; len--) {
        char name[PACKAGE_NAME_MAX + 1];
        struct fold_listed key = {.name = name}, *found;

        if (rest[len] != '/' || len > PACKAGE_NAME_MAX)
            continue;
        memcpy(name, rest, len);
        name[len] = 0;
        found = l->n ? bsearch(&key, l->v, l->n, sizeof key, by_listed_name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static void judge_listed(struct fold_work *w, const struct fold_listing *l, const char *list) {
    size_t n, len = strlen(w->f->path) + 1;
    CLEANUP(freep) struct fold_part *v = collect_parts(w, &n);

    for (size_t i = 0; i < l->n && !w->failed; i++) {
        const struct fold_listed *e = &l->v[i];
        CLEANUP(freep) char *root = str_dupf("%s/%s", w->f->path, e->name);
        struct fold_package *p;

        if (root && (!e->was || !e->is || !str_eq(e->was, e->is))) {
            p = fold_package_new(w, root, e->name, e->was ? e->was : "", e->is ? e->is : "");
            if (p) {
                p->manifest = change_find(w->ctx->set, list);
                fold_lock_check(w, p, NULL);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct fold_listed *e = strlen(v[i].c->path) > len ? listed_for(l, v[i].c->path + len) : NULL;

        if (e && e->was && e->is && str_eq(e->was, e->is))
            judge_same(w, &v[i], 1, e->name, e->is);
    }
}

void fold_packages_list(struct fold_work *w) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", w->f->path, w->f->kind->file);
    CLEANUP(listing_done) struct fold_listing l = {0};
    bool go = str_eq(w->f->kind->file, "modules.txt");

    for (int after = 0; path && after < 2; after++) {
        CLEANUP(risk_text_done) struct risk_text t = {0};

        l.after = after;
        if (fold_text(w, path, after, &t))
            (go ? package_read_modules : package_read_installed)(t.data, t.len, add_listed, &l);
    }
    merge_listing(&l);
    w->failed |= !path || l.failed;
    if (!w->failed)
        judge_listed(w, &l, path);
}
