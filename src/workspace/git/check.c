/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/vec.h"
#include "workspace/git/gitindex.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/ignore_scan.h"

const char *const check_kind_names[CHECK_KINDS] = {
    [CHECK_NO_FILE] = "no-file",
    [CHECK_MISSING] = "missing",
    [CHECK_REINCLUDED] = "reincluded",
    [CHECK_TRACKED] = "tracked",
};

struct checker {
    struct ignore *rules, *defaults;
    struct ignore_check found;
};

static void checker_done(struct checker *c) {
    ignore_free(c->rules);
    ignore_free(c->defaults);
    ignore_check_done(&c->found);
}

static void finding_done(struct check_finding *f) {
    free(f->path);
    free(f->origin);
    free(f->rule);
}

void ignore_check_done(struct ignore_check *c) {
    for (size_t i = 0; i < c->n; i++)
        finding_done(&c->v[i]);
    free(c->v);
    *c = (struct ignore_check){0};
}

static int add_finding(struct ignore_check *c, enum check_kind kind, const char *pattern, const char *path,
                       const struct ignore_why *why, bool hidden, struct err *err) {
    struct check_finding f = {.kind = kind,
                              .pattern = pattern,
                              .hidden = hidden,
                              .path = strdup(path),
                              .origin = strdup(why && why->origin ? why->origin : ""),
                              .rule = strdup(why && why->pattern ? why->pattern : ""),
                              .line = why ? why->line : 0};

    if (f.path && f.origin && f.rule && VEC_ADD(c->v, c->n, f) == 0)
        return 0;
    finding_done(&f);
    return err_oom(err);
}

static bool is_reported(const struct ignore_check *c, const struct ignore_why *why, const char *pattern) {
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].kind == CHECK_REINCLUDED && c->v[i].line == why->line && str_eq(c->v[i].origin, why->origin) &&
            (!pattern || str_eq(c->v[i].pattern, pattern)))
            return true;
    return false;
}

/* What the rules of the whole workspace do to the files that a recommended pattern is for: one finding at most. */
static int check_pattern(struct checker *c, const struct ignore_default *d, struct err *err) {
    for (size_t i = 0; i < DEFAULTS_SAMPLES && d->samples[i]; i++) {
        struct ignore_why why;
        enum ignore_verdict v = ignore_explain(c->rules, d->samples[i], false, &why);

        if (v != IGNORE_EXCLUDED)
            return add_finding(&c->found, v == IGNORE_NONE ? CHECK_MISSING : CHECK_REINCLUDED, d->line, d->samples[i], &why,
                               false, err);
    }
    return 0;
}

/* The same file in a subfolder that has rules of its own. */
static int check_below(struct checker *c, const char *folder, const struct ignore_default *d, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    struct ignore_why why;

    if (asprintf(&path, "%s/%s", folder, d->samples[0]) < 0)
        return err_oom(err);
    if (ignore_explain(c->rules, path, false, &why) != IGNORE_REINCLUDED || is_reported(&c->found, &why, d->line))
        return 0;
    return add_finding(&c->found, CHECK_REINCLUDED, d->line, path, &why, false, err);
}

static int check_patterns(struct checker *c, struct err *err) {
    const char *folder;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n_ignore_defaults; i++)
        if (ignore_defaults[i].samples[0])
            r = check_pattern(c, &ignore_defaults[i], err);
    for (size_t f = 0; r == 0 && (folder = ignore_folder(c->rules, f)); f++)
        for (size_t i = 0; r == 0 && folder[0] && i < n_ignore_defaults; i++)
            if (ignore_defaults[i].samples[0])
                r = check_below(c, folder, &ignore_defaults[i], err);
    return r;
}

/* The table's own string for a rule of the defaults, which outlives the checker. */
static const char *default_pattern(const struct ignore_why *why) {
    return ignore_defaults[why->line - 1].line;
}

static int check_tracked(const struct gitindex_entry *e, void *arg, struct err *err) {
    struct checker *c = arg;
    struct ignore_why secret, shown;
    enum ignore_verdict v;

    if (ignore_explain(c->defaults, e->path, false, &secret) != IGNORE_EXCLUDED)
        return 0;
    v = ignore_explain(c->rules, e->path, false, &shown);
    if (v == IGNORE_REINCLUDED && !is_reported(&c->found, &shown, NULL))
        return 0;
    return add_finding(&c->found, CHECK_TRACKED, default_pattern(&secret), e->path, NULL, v == IGNORE_EXCLUDED, err);
}

static int check_all(struct checker *c, int root, struct err *err) {
    struct stat st;
    int r;

    if (fstatat(root, IGNORE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        r = add_finding(&c->found, CHECK_NO_FILE, "", "", NULL, false, err);
        if (r < 0)
            return r;
    }
    r = ignore_scan(c->rules, root, NULL, NULL, err);
    if (r == 0)
        r = defaults_add(c->defaults, err);
    if (r == 0)
        r = check_patterns(c, err);
    if (r == 0)
        r = gitindex_read(root, check_tracked, c, err);
    c->found.git = r > 0;
    return r < 0 ? r : 0;
}

int ignore_check(int root, struct ignore_check *ret, struct err *err) {
    CLEANUP(checker_done) struct checker c = {.rules = ignore_new(), .defaults = ignore_new()};
    int r;

    if (!c.rules || !c.defaults)
        return err_oom(err);
    r = check_all(&c, root, err);
    if (r == 0)
        *ret = TAKE(c.found, (struct ignore_check){0});
    return r;
}
