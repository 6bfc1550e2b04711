/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what an install left agrees with the lockfile: names, versions and, where the tool records them, hashes. The
 * archives are not there, so the content of packages is not compared: it is what the run says it is.
 */
#include <errno.h>

#include "base/str.h"
#include "base/vec.h"
#include "review/fold/fold_packages.h"

enum { DIFFERENCES_MAX = 100 };

void fold_lock_done(struct fold_lock_index *x) {
    for (size_t i = 0; i < x->n; i++)
        free(x->v[i].name);
    free(x->v);
    deps_done(&x->deps);
    *x = (struct fold_lock_index){.deps = DEPS_INIT};
}

/* -- reading ------------------------------------------------------------------------------------------------------------- */

/* What of a name in a lockfile is the package's. */
enum lock_names { LOCK_PLAIN, LOCK_PATHS /* npm */, LOCK_AT /* yarn: name@range */, LOCK_PYTHON };

static const struct {
    const char *file;
    enum lock_names names;
    bool partly; /* unless it has hashes, pip takes more than it names */
} lock_styles[] = {
    {"package-lock.json|npm-shrinkwrap.json", LOCK_PATHS, false},
    {"yarn.lock|pnpm-lock.yaml|bun.lock", LOCK_AT, false},
    {"requirements*", LOCK_PYTHON, true},
    {"uv.lock|poetry.lock|pdm.lock|Pipfile.lock|pylock.toml", LOCK_PYTHON, false},
    {"*", LOCK_PLAIN, false},
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct fold_lock_entry *)a)->name, ((const struct fold_lock_entry *)b)->name);
}

static char *name_of(const char *name, enum lock_names style) {
    const char *at = style == LOCK_AT && *name ? strchr(name + 1, '@') : NULL;
    char *copy = strndup(name, at ? (size_t)(at - name) : strlen(name));

    if (copy && style == LOCK_PYTHON)
        package_python_name(copy);
    return copy;
}

static int add_entries(struct fold_lock_index *x, enum lock_names style, bool partly) {
    x->complete = !partly;
    for (size_t i = 0; i < x->deps.n; i++) {
        struct fold_lock_entry e = {.name = name_of(deps_field(&x->deps, i, DEP_NAME), style),
                                    .version = deps_field(&x->deps, i, DEP_VERSION),
                                    .hash = deps_field(&x->deps, i, DEP_HASH)};

        if (!e.name || VEC_ADD(x->v, x->n, e) < 0) {
            free(e.name);
            return -ENOMEM;
        }
        x->complete |= partly && *e.hash;
        x->by_path |= style == LOCK_PATHS && strstr(e.name, "node_modules/");
    }
    if (x->n)
        qsort(x->v, x->n, sizeof *x->v, by_name);
    return 0;
}

static void read_lock(struct fold_work *w, const char *name, const struct risk_text *t) {
    deps_read_fn *read = deps_reader(name);
    size_t i = 0;

    if (!read || !t->whole) {
        w->f->lock.state = FOLD_LOCK_UNREAD;
        return;
    }
    read(&w->lock.deps, t->data, t->len);
    while (!risk_glob(lock_styles[i].file, name, strlen(name)))
        i++;
    if (w->lock.deps.odd)
        w->f->lock.state = FOLD_LOCK_UNREAD;
    else if (add_entries(&w->lock, lock_styles[i].names, lock_styles[i].partly) < 0)
        w->failed = true;
    else
        w->f->lock.state = FOLD_LOCK_AGREES;
}

/* In this folder ("" or with a slash at its end). */
static bool find_lock(struct fold_work *w, const char *folder, size_t len) {
    for (const char *names = w->f->kind->locks;; names++) {
        size_t n = strcspn(names, "|");
        CLEANUP(freep) char *path = str_dupf("%.*s%.*s", (int)len, folder, (int)n, names);
        CLEANUP(risk_text_done) struct risk_text t = {0};

        if (path && fold_text(w, path, true, &t)) {
            w->lock.above = len;
            w->f->lock.changed = change_find(w->ctx->set, path) != NULL;
            read_lock(w, path + len, &t);
            w->f->lock.path = TAKE_PTR(path);
            return true;
        }
        names += n;
        if (*names == 0)
            return false;
    }
}

/* Beside the folder, or above: of a workspace with several packages the lockfile is at the top. */
void fold_lock_load(struct fold_work *w) {
    size_t len = strlen(w->f->path);

    while (w->f->kind->locks && !w->failed) {
        while (len && w->f->path[len - 1] != '/')
            len--;
        if (find_lock(w, w->f->path, len) || len == 0)
            return;
        len--;
    }
}

/* -- comparing ----------------------------------------------------------------------------------------------------------- */

static const char *plain_version(const char *v) {
    return v + strspn(v, "=v ");
}

/* "1.0.0", "==1.0.0", "v1.0.0", "1.0.0(peer@2)". What is no fixed version agrees with any. */
static bool same_version(const char *locked, const char *is) {
    const char *a = plain_version(locked), *b = plain_version(is);
    size_t n = strcspn(a, "( ,");

    if (!*a || strpbrk(locked, "<>~!*^"))
        return true;
    return strlen(b) == n && memcmp(a, b, n) == 0;
}

static void add_difference(struct fold_work *w, const struct change *c, const char *sentence) {
    struct strv *d = &w->f->lock.differences;

    w->f->lock.state = FOLD_LOCK_DIFFERS;
    if (d->len < DIFFERENCES_MAX && strv_add(d, sentence) < 0)
        w->failed = true;
    if (c)
        fold_risk(w, c, RISK_HIGH, "%s", sentence);
}

/* The first entry of this name; n: none. */
static size_t first_entry(const struct fold_lock_index *x, const char *name) {
    size_t lo = 0, hi = x->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (strcmp(x->v[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < x->n && str_eq(x->v[lo].name, name) ? lo : x->n;
}

/* Of every environment that python makes. */
static bool is_of_the_tool(const struct fold_work *w, const char *name) {
    return w->f->kind->reader == FOLD_PYTHON && risk_glob("pip|setuptools|wheel", name, strlen(name));
}

void fold_lock_check(struct fold_work *w, const struct fold_package *p, const char *hash) {
    const struct fold_lock_index *x = &w->lock;
    const char *key = x->by_path ? p->root + x->above : p->name;
    size_t first = x->n ? first_entry(x, key) : 0, i = first;
    char text[PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX + 512];

    if (w->f->lock.state == FOLD_LOCK_NONE || w->f->lock.state == FOLD_LOCK_UNREAD || !p->is)
        return;
    if (first == x->n) {
        w->f->lock.unlocked += !is_of_the_tool(w, p->name);
        snprintf(text, sizeof text, "'%s' %s is not in %s", p->name, p->is, w->f->lock.path);
        if (x->complete && !is_of_the_tool(w, p->name))
            add_difference(w, p->manifest, text);
        return;
    }
    while (i < x->n && str_eq(x->v[i].name, key) && !same_version(x->v[i].version, p->is))
        i++;
    if (i == x->n || !str_eq(x->v[i].name, key)) {
        snprintf(text, sizeof text, "'%s' is version %s, and %s in %s", p->name, p->is, plain_version(x->v[first].version),
                 w->f->lock.path);
        add_difference(w, p->manifest, text);
    } else if (hash && *hash && *x->v[i].hash && !str_eq(hash, x->v[i].hash)) {
        snprintf(text, sizeof text, "'%s' %s has another checksum than %s has", p->name, p->is, w->f->lock.path);
        add_difference(w, p->manifest, text);
    }
}

void fold_lock_installed(struct fold_work *w) {
    CLEANUP(freep) char *path = str_dupf("%s/.package-lock.json", w->f->path);
    const struct change *c = path ? change_find(w->ctx->set, path) : NULL;
    CLEANUP(risk_text_done) struct risk_text t = {0};
    CLEANUP(deps_done) struct deps d = DEPS_INIT;

    if (!c || !w->lock.by_path || !fold_text(w, path, true, &t))
        return;
    deps_read_npm(&d, t.data, t.len);
    for (size_t i = 0; i < d.n; i++) {
        const char *name = deps_field(&d, i, DEP_NAME), *hash = deps_field(&d, i, DEP_HASH);
        size_t at = first_entry(&w->lock, name);
        char text[PACKAGE_NAME_MAX + 512], shown[RISK_SHOWN_MAX + 4];

        if (at == w->lock.n || !*hash || !*w->lock.v[at].hash || str_eq(hash, w->lock.v[at].hash))
            continue;
        snprintf(text, sizeof text, "'%s' was installed with another integrity hash than %s has", risk_shown(name, shown),
                 w->f->lock.path);
        add_difference(w, c, text);
    }
}
