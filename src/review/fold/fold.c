/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folders that are shown as one entry, and counts what is in them. */
#include "review/fold/fold.h"

#include <search.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "review/fold/fold_packages.h"
#include "review/risk/risk_rule.h"

static void fold_done(struct fold *f) {
    fold_packages_done(f->packages, f->n_packages);
    free(f->lock.path);
    strv_done(&f->lock.differences);
    strv_done(&f->starts);
    strv_done(&f->links);
    free(f->path);
}

void fold_set_done(struct fold_set *s) {
    for (size_t i = 0; i < s->n; i++)
        fold_done(&s->v[i]);
    free(s->v);
    free(s->of);
    *s = (struct fold_set){0};
}

/* -- which folders ------------------------------------------------------------------------------------------------------- */

/* A folder that has the name of one; 0: and is none. */
struct fold_candidate {
    char *path;
    uint16_t fold; /* 1 + index */
};

struct fold_search {
    const struct risk_context *ctx;
    struct fold_set *set;
    void *tree; /* of candidates, by path */
    size_t checked;
    uint16_t last;      /* most changes are in the folder of the one before */
    const char *beside; /* a file that is in none; NULL: none yet */
};

static int by_candidate(const void *a, const void *b) {
    return strcmp(((const struct fold_candidate *)a)->path, ((const struct fold_candidate *)b)->path);
}

static void candidate_free(void *p) {
    free(((struct fold_candidate *)p)->path);
    free(p);
}

/* One alternative of a proof: "../../package.json" below "a/.yarn/cache" is "a/package.json". */
static char *proof_path(const char *folder, const char *name, size_t len) {
    size_t up = strlen(folder);

    while (len >= 3 && memcmp(name, "../", 3) == 0) {
        while (up && folder[up - 1] != '/')
            up--;
        up -= up > 0;
        name += 3;
        len -= 3;
    }
    return str_dupf("%.*s%s%.*s", (int)up, folder, up ? "/" : "", (int)len, name);
}

static bool is_proved(const struct risk_context *ctx, const char *folder, const char *names) {
    for (;;) {
        size_t len = strcspn(names, "|");
        CLEANUP(freep) char *path = proof_path(folder, names, len);

        if (path && risk_after_exists(ctx, path))
            return true;
        if (names[len] == 0)
            return false;
        names += len + 1;
    }
}

/* A folder of this kind above it that was not proved: what is in there is as unproved. */
static bool is_in_unproved(const struct fold_kind *k, struct risk_path path) {
    while (path.n > 1) {
        path.n--;
        if (risk_path_match(k->folder, &path))
            return true;
    }
    return false;
}

static const struct fold_kind *kind_of(const struct risk_context *ctx, const char *folder) {
    struct risk_path path;

    risk_path_split(folder, &path);
    for (const struct fold_kind *k = fold_kinds; k->name; k++)
        if (risk_path_match(k->folder, &path) && is_proved(ctx, folder, k->proof[0]) &&
            (!k->proof[1] || is_proved(ctx, folder, k->proof[1])) && !is_in_unproved(k, path))
            return k;
    return NULL;
}

static bool has_name_of_one(const char *folder) {
    struct risk_path path;

    risk_path_split(folder, &path);
    for (const struct fold_kind *k = fold_kinds; k->name; k++)
        if (risk_path_match(k->folder, &path))
            return true;
    return false;
}

/* Takes folder. */
static struct fold_candidate *candidate_new(struct fold_search *s, char *folder) {
    struct fold_candidate *c = calloc(1, sizeof *c);

    if (c)
        c->path = folder;
    if (c && tsearch(c, &s->tree, by_candidate))
        return c;
    free(folder);
    free(c);
    return NULL;
}

/* 1 + index of the fold at this folder; 0: it is none; -ENOMEM. Takes folder. */
static int look_at(struct fold_search *s, char *folder) {
    CLEANUP(freep) char *path = folder;
    struct fold_candidate key = {.path = folder}, *c, **found = tfind(&key, &s->tree, by_candidate);
    const struct fold_kind *kind;

    if (found)
        return (*found)->fold;
    if (!has_name_of_one(path) || s->checked++ >= FOLD_CHECKED_MAX || s->set->n >= FOLDS_MAX)
        return 0;
    kind = kind_of(s->ctx, path);
    c = candidate_new(s, TAKE_PTR(path));
    path = c && kind ? strdup(c->path) : NULL;
    if (!c || (kind && (!path || VEC_ADD(s->set->v, s->set->n, (struct fold){.kind = kind, .path = path}) < 0)))
        return -ENOMEM;
    TAKE_PTR(path);
    return c->fold = kind ? (uint16_t)s->set->n : 0;
}

/* The folder itself counts, too: it is new when its files are. */
static bool is_member(const struct fold *f, const char *path, bool folder) {
    size_t len = strlen(f->path);

    if (strncmp(path, f->path, len) != 0 || (path[len] != '/' && path[len] != 0))
        return false;
    if (path[len] == 0)
        return folder;
    return !f->kind->inside || risk_glob(f->kind->inside, path + len + 1, strcspn(path + len + 1, "/"));
}

/* In the same folder as the file before, which is in no fold. */
static bool is_beside(const struct fold_search *s, const char *path) {
    const char *slash = strrchr(path, '/'), *other = s->beside ? strrchr(s->beside, '/') : NULL;

    return slash && other && slash - path == other - s->beside && memcmp(path, s->beside, (size_t)(slash - path)) == 0;
}

/* The outermost folder counts. */
static int find_one(struct fold_search *s, const struct change *c, uint16_t *ret) {
    bool folder = S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode);
    int r = s->last && is_member(&s->set->v[s->last - 1], c->path, folder) ? s->last : 0;

    if (r == 0 && !folder && is_beside(s, c->path))
        return 0;
    for (size_t i = 1; r == 0 && c->path[i - 1]; i++)
        if (c->path[i] == '/' || (c->path[i] == 0 && folder)) {
            char *above = strndup(c->path, i);

            r = above ? look_at(s, above) : -ENOMEM;
            if (c->path[i] == 0)
                break;
        }
    if (r < 0)
        return r;
    if (r == 0 && !folder)
        s->beside = c->path;
    if (r == 0 || !is_member(&s->set->v[r - 1], c->path, folder))
        return 0;
    *ret = s->last = (uint16_t)r;
    return 0;
}

void fold_drop_small(const struct change_set *set, struct fold_set *s) {
    size_t n[FOLDS_MAX + 1] = {0};

    for (size_t i = 0; i < set->n; i++)
        n[s->of[i]]++;
    for (size_t i = 0; i < set->n; i++)
        if (s->of[i] && n[s->of[i]] < s->v[s->of[i] - 1].kind->min)
            s->of[i] = 0;
}

int fold_find(const struct risk_context *ctx, struct fold_set *ret, struct err *err) {
    struct fold_search s = {.ctx = ctx, .set = ret};
    int r = 0;

    ret->of = calloc(ctx->set->n + 1, sizeof *ret->of);
    if (!ret->of)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < ctx->set->n; i++)
        r = find_one(&s, &ctx->set->v[i], &ret->of[i]);
    tdestroy(s.tree, candidate_free);
    return r < 0 ? err_oom(err) : 0;
}

/* -- counts -------------------------------------------------------------------------------------------------------------- */

/* Risks that every honest install brings, each with the reason. */
static const struct {
    enum risk_class class;
    const char *reason;
} usual[] = {
    {RISK_PACKAGE_SCRIPT, "packages come with build scripts; those that an install runs are listed"},
    {RISK_EXECUTABLE, "packages come with commands; one that hides a command of the system is a risk of another class"},
    {RISK_BINARY, "some packages come compiled"},
    {RISK_IGNORED, "git ignores the folder"},
};

static bool is_usual(const struct change *c, const struct risk *r) {
    if (r->level < RISK_HIGH)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (usual[i].class == r->class)
            return !(c->new_.mode & (S_ISUID | S_ISGID));
    return false;
}

bool fold_unusual(const struct change *c, const struct risk_list *risks) {
    for (size_t i = 0; i < risks->n; i++)
        if (!is_usual(c, &risks->v[i]))
            return true;
    return false;
}

/* Reasons that begin alike are of one kind; those that begin with a name are, too. */
static bool same_kind(const char *a, const char *b) {
    enum { BEGINNING = 20 };

    return *a == '\'' ? *b == '\'' : strncmp(a, b, BEGINNING) == 0;
}

static void count_class(struct fold_class *k, const struct change *c, const struct risk *r) {
    size_t same = 0;

    k->count++;
    for (size_t i = 0; i < k->n_shown; i++)
        same += same_kind(k->shown[i].reason, r->reason);
    if (!is_usual(c, r) && !k->unusual) { /* the first of them takes the place of a usual one */
        k->unusual = true;
        k->n_shown = MIN_OF(k->n_shown, (size_t)FOLD_SAMPLES - 1);
    } else if (same >= 2) {
        return;
    }
    if (k->n_shown < FOLD_SAMPLES)
        k->shown[k->n_shown++] = (struct fold_shown){c->path, r->reason};
}

static bool is_command(const struct fold *f, const struct change *c) {
    size_t len = strlen(f->path), deep = f->kind->commands ? strlen(f->kind->commands) : 0;
    const char *rest = strlen(c->path) > len ? c->path + len + 1 : "";

    return deep && c->new_.mode && !S_ISDIR(c->new_.mode) && strncmp(rest, f->kind->commands, deep) == 0 && rest[deep] == '/';
}

void fold_count(struct fold *f, const struct change *c, const struct risk_list *risks, enum risk_level level) {
    bool seen[RISK_CLASSES][RISK_LEVELS] = {0}, binary = false;

    f->changes++;
    f->count[level]++;
    f->bytes += S_ISREG(c->new_.mode) ? c->new_.size : 0;
    f->unusual += fold_unusual(c, risks);
    f->commands += is_command(f, c);
    for (size_t i = 0; i < risks->n; i++) {
        const struct risk *r = &risks->v[i];

        binary |= r->class == RISK_BINARY && !strstr(c->path, "/__pycache__/"); /* every import leaves some */
        if (!seen[r->class][r->level])
            count_class(&f->classes[r->class][r->level], c, r);
        seen[r->class][r->level] = true;
    }
    f->binaries += binary;
}
