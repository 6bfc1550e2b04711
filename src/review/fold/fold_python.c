/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of a virtual environment: NAME-VERSION.dist-info, of which RECORD lists the files. */
#include <search.h>

#include "base/str.h"
#include "base/vec.h"
#include "review/fold/fold_packages.h"

static const char site[] = "/site-packages/";

/* A package on one side. */
struct fold_dist {
    char *place; /* its site-packages and normal name: what an update has in common */
    size_t root; /* length of the path of site-packages in it */
    char *was, *is;
    const struct change *metadata;
};

struct fold_dists {
    struct fold_dist *v;
    size_t n;
    struct strv owned; /* paths of files that came or went with a package */
    void *tree;        /* of them */
    const char *site;  /* of the RECORD that is read, and its length */
    size_t site_len;
    bool failed;
};

static void keep_owned(void *name UNUSED) {}

static void dists_done(struct fold_dists *d) {
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].place);
        free(d->v[i].was);
        free(d->v[i].is);
    }
    free(d->v);
    tdestroy(d->tree, keep_owned);
    strv_done(&d->owned);
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* "../../../bin/x" is relative to site-packages, too. */
static void add_owned(const char *path, void *arg) {
    struct fold_dists *d = arg;
    size_t up = d->site_len;
    char *full;

    while (str_starts(path, "../")) {
        while (up && d->site[up - 1] != '/')
            up--;
        up -= up > 0;
        path += 3;
    }
    full = str_dupf("%.*s/%s", (int)up, d->site, path);
    if (!full || strv_add_take(&d->owned, full) < 0 || !tsearch(full, &d->tree, by_text))
        d->failed = true;
}

static void read_record(struct fold_work *w, struct fold_dists *d, const struct change *c, size_t site_len) {
    d->site = c->path;
    d->site_len = site_len;
    for (int after = 0; after < 2; after++) {
        CLEANUP(risk_text_done) struct risk_text t = {0};

        if (fold_text(w, c->path, after, &t))
            package_read_record(t.data, t.len, add_owned, d);
    }
}

static void read_metadata(struct fold_work *w, struct fold_dists *d, const struct change *c, size_t site_len) {
    for (int after = 0; after < 2; after++) {
        CLEANUP(risk_text_done) struct risk_text t = {0};
        struct package_facts f = {0};
        struct fold_dist e = {.metadata = c, .root = site_len};

        if (!fold_text(w, c->path, after, &t))
            continue;
        package_read_metadata(&f, t.data, t.len);
        package_python_name(f.name);
        e.place = str_dupf("%.*s/%s", (int)site_len, c->path, *f.name ? f.name : "?");
        *(after ? &e.is : &e.was) = strdup(*f.version ? f.version : "?");
        if (d->n < FOLD_PACKAGES_MAX && e.place && VEC_ADD(d->v, d->n, e) == 0)
            continue;
        d->failed = true;
        free(e.place);
        free(e.was);
        free(e.is);
    }
}

static int by_place(const void *a, const void *b) {
    const struct fold_dist *x = a, *y = b;
    int r = strcmp(x->place, y->place);

    return r ? r : (x->is != NULL) - (y->is != NULL);
}

static void add_dists(struct fold_work *w, struct fold_dists *d) {
    if (d->n)
        qsort(d->v, d->n, sizeof *d->v, by_place);
    for (size_t i = 0; i < d->n && !w->failed; i++) {
        struct fold_dist *e = &d->v[i], *next = i + 1 < d->n && str_eq(e->place, e[1].place) ? e + 1 : NULL;
        bool both = !e->is && next && next->is;
        const char *is = e->is ? e->is : both ? next->is : "";
        struct fold_package *p;

        if (e->was && str_eq(e->was, is)) { /* the same version, installed again: its files say what changed */
            i += both;
            continue;
        }
        p = fold_package_new(w, e->place, e->place + e->root + 1, e->was ? e->was : "", is);
        if (p) {
            p->manifest = both ? next->metadata : e->metadata;
            fold_lock_check(w, p, NULL);
        }
        i += both;
    }
}

/* Imports make bytecode, and make it anew when the time of the file changed. It is judged as a binary. */
static bool is_bytecode(const struct change *c) {
    return strstr(c->path, "/__pycache__/") && str_ends(c->path, ".pyc");
}

static void judge_file(struct fold_work *w, const struct fold_dists *d, const struct change *c, const char *rest) {
    if (c->new_.mode && !strchr(rest, '/') && risk_glob("*.pth|sitecustomize.py|usercustomize.py", rest, strlen(rest)) &&
        strv_add(&w->f->starts, c->path) < 0)
        w->failed = true;
    if (fold_matters(c) && !is_bytecode(c) && !tfind(c->path, &d->tree, by_text))
        fold_risk(w, c, RISK_HIGH, "it belongs to no package that came or went in this run");
}

static const char *below_site(const struct fold_work *w, const struct change *c) {
    const char *at = strstr(c->path + strlen(w->f->path), site);

    return at && !S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode) ? at + strlen(site) : NULL;
}

void fold_packages_python(struct fold_work *w) {
    CLEANUP(dists_done) struct fold_dists d = {0};
    const struct change_set *set = w->ctx->set;

    for (int pass = 0; pass < 2 && !w->failed; pass++) {
        for (size_t i = 0; i < set->n; i++) {
            const struct change *c = &set->v[i];
            const char *rest = w->set->of[i] == w->number ? below_site(w, c) : NULL;
            size_t len = rest ? strcspn(rest, "/") : 0, site_len = rest ? (size_t)(rest - c->path) - 1 : 0;

            if (rest && pass)
                judge_file(w, &d, c, rest);
            else if (rest && risk_glob("*.dist-info", rest, len) && str_eq(rest + len, "/METADATA"))
                read_metadata(w, &d, c, site_len);
            else if (rest && risk_glob("*.dist-info", rest, len) && str_eq(rest + len, "/RECORD"))
                read_record(w, &d, c, site_len);
        }
        w->failed |= d.failed;
    }
    if (!w->failed)
        add_dists(w, &d);
}
