/* SPDX-License-Identifier: Apache-2.0 */
/* What only a look at the whole folder shows. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/safepath.h"
#include "review/fold/fold_packages.h"

void fold_packages_done(struct fold_package *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(v[i].root);
        free(v[i].name);
        free(v[i].was);
        free(v[i].is);
        free(v[i].scripts);
    }
    free(v);
}

/* -- shared by the readers ------------------------------------------------------------------------------------------------ */

void fold_risk(struct fold_work *w, const struct change *c, enum risk_level level, const char *fmt, ...) {
    struct risk_list *l = c->hidden ? NULL : w->risks(w->arg, c);
    struct risk r = {.class = RISK_DEPENDENCY, .level = level};
    va_list ap;

    if (!l)
        return;
    va_start(ap, fmt);
    if (vasprintf(&r.reason, fmt, ap) < 0)
        r.reason = NULL;
    va_end(ap);
    if (!r.reason || risk_append(l, r) < 0)
        w->failed = true;
    risk_sort(l);
}

bool fold_text(struct fold_work *w, const char *path, bool after, struct risk_text *ret) {
    const struct change *c = change_find(w->ctx->set, path);
    int fd;

    if (c && !S_ISREG(after ? c->new_.mode : c->old_.mode))
        return false;
    if (c)
        fd = after ? change_open_new(w->ctx->set, c) : change_open_old(w->ctx->set, c);
    else
        fd = w->ctx->workspace < 0 ? -1 : safepath_open(w->ctx->workspace, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0)
        return false;
    if (risk_text_read(fd, ret) < 0)
        w->failed = true;
    return !w->failed && ret->whole;
}

bool fold_matters(const struct change *c) {
    mode_t mode = c->new_.mode ? c->new_.mode : c->old_.mode;

    return !S_ISDIR(mode) && !(c->kind == CHANGE_MODIFIED && !(c->what & (CHANGE_CONTENT | CHANGE_LINK | CHANGE_TYPE)));
}

static char *copy_some(const char *s, bool *failed) {
    char *copy = s && *s ? strdup(s) : NULL;

    *failed |= s && *s && !copy;
    return copy;
}

struct fold_package *fold_package_new(struct fold_work *w, const char *root, const char *name, const char *was, const char *is) {
    struct fold *f = w->f;
    struct fold_package *p = f->n_packages < FOLD_PACKAGES_MAX ? VEC_NEW(f->packages, f->n_packages) : NULL;

    if (!p) {
        w->failed = true;
        return NULL;
    }
    *p = (struct fold_package){.root = copy_some(root, &w->failed), .name = strdup(name), .was = copy_some(was, &w->failed)};
    p->is = copy_some(is, &w->failed);
    w->failed |= !p->name || !p->root;
    return w->failed ? NULL : p;
}

/* -- links and commands --------------------------------------------------------------------------------------------------- */

/* Names that scripts and people call and mean the system's. Scripts of a package manager find those of the folder first. */
static const char shadowed[] =
    "sh|bash|zsh|dash|fish|env|sudo|su|doas|git|ssh|scp|ssh-agent|gpg|curl|wget|node|npm|npx|pnpm|yarn|corepack|bun|deno|python|"
    "python2|python3|pip|pip3|ruby|gem|perl|php|composer|go|cargo|rustc|java|javac|mvn|gradle|make|cmake|gcc|g++|cc|c++|clang|ld|"
    "docker|podman|kubectl|helm|terraform|aws|gcloud|az|gh|ls|cat|cp|mv|rm|ln|mkdir|rmdir|chmod|chown|touch|find|grep|egrep|sed|"
    "awk|sort|head|tail|tr|cut|xargs|tee|test|[|true|false|echo|printf|date|sleep|kill|ps|tar|gzip|unzip|zip|less|more|vi|vim|"
    "nano|which|id|whoami|uname|hostname|mount|systemctl|crontab|bawn";

/* An environment has these by itself, and means to come first. */
static bool is_shadow(const struct fold *f, const char *name) {
    static const char own[] = "python|python2|python3|pip|pip3";

    if (!risk_glob(shadowed, name, strlen(name)))
        return false;
    return f->kind->reader != FOLD_PYTHON || !risk_glob(own, name, strlen(name));
}

/* A link to what a package declares as its command is what npm makes. */
static bool is_declared(struct fold_work *w, const struct change *c) {
    CLEANUP(freep) char *folder = risk_folder(c->path), *where = NULL, *manifest = NULL;
    CLEANUP(risk_text_done) struct risk_text t = {0};
    size_t root;

    if (!folder || risk_resolve(w->ctx, folder, c->new_.link, &where) <= 0 || !str_starts(where, w->f->path))
        return false;
    root = strlen(where) > strlen(w->f->path) + 1 ? fold_package_root(w->f, where) : 0;
    manifest = root ? str_dupf("%.*s/%s", (int)root, where, w->f->kind->file) : NULL;
    return manifest && fold_text(w, manifest, true, &t) && package_declares(t.data, t.len, where + root + 1);
}

/* pnpm writes a script instead of a link. */
static void judge_origin(struct fold_work *w, const struct change *c) {
    bool pnpm = w->f->lock.path && str_ends(w->f->lock.path, "pnpm-lock.yaml");

    if (!str_eq(w->f->kind->name, "npm"))
        return;
    if (S_ISLNK(c->new_.mode) && c->new_.link && !is_declared(w, c))
        fold_risk(w, c, RISK_HIGH, "no package declares this command");
    else if (S_ISREG(c->new_.mode) && !pnpm)
        fold_risk(w, c, RISK_HIGH, "it is a file of its own, where a link to the command of a package would be");
}

static void judge_command(struct fold_work *w, const struct change *c) {
    size_t len = strlen(w->f->path), deep = w->f->kind->commands ? strlen(w->f->kind->commands) : 0;
    const char *rest = strlen(c->path) > len ? c->path + len + 1 : "";

    if (!deep || !c->new_.mode || S_ISDIR(c->new_.mode) || strncmp(rest, w->f->kind->commands, deep) != 0 || rest[deep] != '/')
        return;
    judge_origin(w, c);
    if (is_shadow(w->f, rest + deep + 1))
        fold_risk(w, c, RISK_HIGH, "it has the name of a command of the system, and scripts find it first");
}

static void judge_link(struct fold_work *w, const struct change *c) {
    CLEANUP(freep) char *folder = NULL, *where = NULL;
    char shown[RISK_SHOWN_MAX + 4];
    size_t len = strlen(w->f->path);
    int r;

    if (!S_ISLNK(c->new_.mode) || !c->new_.link)
        return;
    folder = risk_folder(c->path);
    r = folder ? risk_resolve(w->ctx, folder, c->new_.link, &where) : -ENOMEM;
    w->failed |= r < 0;
    if (r < 0 || (r > 0 && strncmp(where, w->f->path, len) == 0 && (where[len] == '/' || where[len] == 0)))
        return;
    w->failed |= strv_add(&w->f->links, c->path) < 0;
    if (r > 0) /* of one that leaves the workspace risk_judge_link() has said so */
        fold_risk(w, c, RISK_MEDIUM, "it leads out of %s, to '%s'", w->f->path, risk_shown(c->new_.link, shown));
}

/* -- all folders ---------------------------------------------------------------------------------------------------------- */

static int by_package(const void *a, const void *b) {
    const struct fold_package *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    return r ? r : strcmp(x->root, y->root);
}

static int judge_fold(struct fold_work *w, struct err *err) {
    static fold_packages_fn *const readers[] = {
        [FOLD_MANIFEST] = fold_packages_manifest, [FOLD_LIST] = fold_packages_list, [FOLD_PYTHON] = fold_packages_python};
    struct fold *f = w->f;

    fold_lock_load(w);
    if (readers[f->kind->reader] && !w->failed)
        readers[f->kind->reader](w);
    for (size_t i = 0; i < w->ctx->set->n && !w->failed; i++)
        if (w->set->of[i] == w->number) {
            judge_command(w, &w->ctx->set->v[i]);
            judge_link(w, &w->ctx->set->v[i]);
        }
    fold_lock_done(&w->lock);
    if (w->failed)
        return err_oom(err);
    if (f->n_packages)
        qsort(f->packages, f->n_packages, sizeof *f->packages, by_package);
    if (f->lock.state == FOLD_LOCK_AGREES && f->lock.unlocked)
        f->lock.state = FOLD_LOCK_PARTLY;
    return 0;
}

int fold_judge(const struct risk_context *ctx, struct fold_set *s, fold_risks_fn *risks, void *arg, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++) {
        struct fold_work w = {.ctx = ctx, .set = s, .f = &s->v[i], .number = (uint16_t)(i + 1), .lock = {.deps = DEPS_INIT}};

        w.risks = risks;
        w.arg = arg;
        r = judge_fold(&w, err);
    }
    return r;
}
