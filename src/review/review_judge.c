/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the change set of a run and judges each change. */
#include "review/review_judge.h"

#include "base/err.h"
#include "base/str.h"
#include "review/risk/risk_rule.h"
#include "review/risk/rules.h"
#include "workspace/apply/apply_filter.h"
#include "workspace/hide/ignore.h"

void judgement_done(struct judgement *j) {
    for (size_t i = 0; i < j->n; i++)
        risk_list_done(&j->v[i].risks);
    free(j->v);
    gitnew_done(&j->git);
    fold_set_done(&j->folds);
    change_set_done(&j->set);
    *j = (struct judgement)JUDGEMENT_INIT;
}

static bool is_dir(const struct change *c) {
    return S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode);
}

/* Hidden is what either set of rules hides (workspace/hide/pin.h). */
static void hide_more(struct change_set *set, const struct ignore *accepted) {
    for (size_t i = 0; accepted && i < set->n; i++)
        if (ignore_match(accepted, set->v[i].path, is_dir(&set->v[i])) == IGNORE_EXCLUDED)
            set->v[i].hidden = true;
}

static bool is_in_folder(const char *path, const char *folder) {
    size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == 0);
}

static bool wanted(const struct review_request *q, const struct apply_filter *f, const struct change *c) {
    if (q->folder && !is_in_folder(c->path, q->folder))
        return false;
    if (q->paths.len && !strv_has(&q->paths, c->path))
        return false;
    return apply_filter_wants_change(f, c);
}

/* The report about git's own state is made at the end of every run that changed it: it waits for no other file. What carries commits under another name is
 * judged when that is known. */
static bool is_later(const struct review_request *q, const struct change *c) {
    return q->format == REQUEST_GIT && !str_starts(c->path, ".git/") && !strstr(c->path, "/.git/");
}

static int judge_verdict(const struct risk_context *ctx, struct verdict *v, struct err *err) {
    int r = risk_judge(ctx, v->change, &v->risks, err);

    return r < 0 ? err_ctx(err, r, "judge a change") : 0;
}

static int judge_one(const struct review_request *q, const struct risk_context *ctx, struct change *c, struct judgement *j,
                     struct err *err) {
    bool later = is_later(q, c);
    int r;

    if (!later)
        c->git_ignored = risk_git_ignored(ctx, c);
    j->v[j->n] = (struct verdict){.change = c};
    r = later ? 0 : judge_verdict(ctx, &j->v[j->n], err);
    j->n += r == 0;
    return r;
}

/* Moves the risks of what a change carries to those of the change itself. */
static int merge_item(struct verdict *v, struct gitnew_item *it, struct err *err) {
    for (size_t i = 0; i < it->risks.n; i++) {
        struct risk r = it->risks.v[i];

        it->risks.v[i] = (struct risk){.level = r.level};
        if (risk_append(&v->risks, r) < 0)
            return err_oom(err);
    }
    risk_sort(&v->risks);
    return 0;
}

static int by_change(const void *a, const void *b) {
    const struct verdict *x = a, *y = b;

    return x->change < y->change ? -1 : x->change > y->change;
}

/* Verdicts are in the order of the set, which is an array. */
static struct verdict *verdict_for(struct judgement *j, const struct change *c) {
    const struct verdict key = {.change = c};

    return j->n ? bsearch(&key, j->v, j->n, sizeof key, by_change) : NULL;
}

/* Some formats show no risks. Interactive review asks path by path: only those in a folder can be git's. */
static bool asks_for_git(const struct review_request *q) {
    bool any = q->paths.len == 0;

    for (size_t i = 0; i < q->paths.len; i++)
        any |= strchr(q->paths.v[i], '/') != NULL;
    return any && q->format != REQUEST_PATCH && q->format != REQUEST_STAT && q->format != REQUEST_NAMES;
}

/* Not for bawn itself, which asks for paths that can be applied. */
static int judge_branch(const struct review_request *q, const struct apply_filter *f, struct judgement *j, struct err *err) {
    struct gitnew_item *it = &j->git.v[j->git.n - 1];

    if (it->carrier != j->git.branch || it->risks.n == 0 || q->format == REQUEST_PATHS || !wanted(q, f, it->carrier))
        return 0;
    j->v[j->n++] = (struct verdict){.change = it->carrier, .git = true};
    return merge_item(&j->v[j->n - 1], it, err);
}

/* Commits and the index. The branch of worktree mode is in no change set: it comes last. */
static int judge_git(const struct review_request *q, const struct apply_filter *f, const struct risk_context *ctx, int run,
                     struct judgement *j, struct err *err) {
    const struct gitnew_args a = {.ctx = ctx, .mode = q->mode, .run = run, .name = q->run, .base = q->base};
    int r = gitnew_judge(&a, &j->git, err);

    for (size_t i = 0; r == 0 && i < j->git.n; i++) {
        struct gitnew_item *it = &j->git.v[i];
        struct verdict *v = it->carrier == j->git.branch ? NULL : verdict_for(j, it->carrier);

        if (v && !v->git && is_later(q, v->change))
            r = judge_verdict(ctx, v, err);
        if (v)
            v->git = true;
        r = v && r == 0 ? merge_item(v, it, err) : r;
    }
    return r < 0 || !j->git.branch ? r : judge_branch(q, f, j, err);
}

/* -- folders -------------------------------------------------------------------------------------------------------------- */

static bool asks_for_folds(const struct review_request *q) {
    static const bool wanted_by[REQUEST_FORMATS] = {
        [REQUEST_TEXT] = true, [REQUEST_JSON] = true, [REQUEST_SARIF] = true, [REQUEST_PATHS] = true};

    return wanted_by[q->format];
}

static struct risk_list *risks_for(void *arg, const struct change *c) {
    struct verdict *v = verdict_for(arg, c);

    return v ? &v->risks : NULL;
}

static void set_level(struct verdict *v) {
    v->level = RISK_NONE;
    for (size_t k = 0; k < v->risks.n; k++)
        v->level = MAX_OF(v->level, v->risks.v[k].level);
}

static int judge_folds(const struct risk_context *ctx, struct judgement *j, struct err *err) {
    int r = fold_find(ctx, &j->folds, err);

    r = r < 0 ? r : fold_judge(ctx, &j->folds, risks_for, j, err);
    if (r == 0)
        fold_drop_small(&j->set, &j->folds);
    return r;
}

/* After git's turn: what is in a folder stays a risk of its own where the kind is strict. */
static void count_folds(struct judgement *j) {
    for (size_t i = 0; i < j->n; i++) {
        struct verdict *v = &j->v[i];
        bool in_set = v->change >= j->set.v && v->change < j->set.v + j->set.n;
        uint16_t number = in_set && j->folds.of ? j->folds.of[v->change - j->set.v] : 0;
        struct fold *f = number ? &j->folds.v[number - 1] : NULL;

        v->unusual = f && fold_unusual(v->change, &v->risks);
        if (!f || (f->kind->strict && v->level == RISK_HIGH))
            continue;
        v->fold = f;
        fold_count(f, v->change, &v->risks, v->level);
        j->folded++;
    }
}

static int judge_set(const struct review_request *q, int run, int workspace, const struct ignore *protect, struct judgement *j,
                     struct err *err) {
    CLEANUP(apply_filter_done) struct apply_filter f = {0};
    CLEANUP(risk_context_done) struct risk_context ctx = {0};
    int r = apply_filter_init(&f, &q->only, &q->except, err);

    r = r < 0 ? r : risk_context_init(&ctx, &j->set, workspace, protect, err);
    if (r < 0)
        return r;
    j->v = calloc(j->set.n + 2, sizeof *j->v);
    if (!j->v)
        return err_oom(err);
    for (size_t i = 0; i < j->set.n; i++) {
        struct change *c = &j->set.v[i];

        if (!wanted(q, &f, c)) {
            j->left_out++;
            continue;
        }
        r = judge_one(q, &ctx, c, j, err);
        if (r < 0)
            return r;
    }
    if (asks_for_folds(q))
        r = judge_folds(&ctx, j, err);
    if (r == 0 && asks_for_git(q)) /* last: it may add a verdict about something that is no change */
        r = judge_git(q, &f, &ctx, run, j, err);
    for (size_t i = 0; i < j->n; i++) {
        set_level(&j->v[i]);
        j->count[j->v[i].level]++;
    }
    count_folds(j);
    return r;
}

int judge_run(const struct review_request *q, int run, int workspace, const struct review_rules *rules, struct judgement *ret,
              struct err *err) {
    const struct rundir rd = {
        .name = q->run,
        .path = q->run,
        .fd = run,
        .lock = -1,
        .info = {.mode = q->mode, .workspace = q->workspace, .begun_ns = q->begun_ns, .ended_ns = q->ended_ns},
    };
    struct judgement j = JUDGEMENT_INIT;
    int r = change_set_make(&rd, workspace, rules->now, &j.set, err);

    if (r < 0)
        return r;
    hide_more(&j.set, rules->accepted);
    r = judge_set(q, run, workspace, rules->protect, &j, err);
    if (r < 0) {
        judgement_done(&j);
        return r;
    }
    *ret = j;
    return 0;
}

static int by_risk(const void *a, const void *b) {
    const struct verdict *x = *(const struct verdict *const *)a, *y = *(const struct verdict *const *)b;

    if (x->level != y->level)
        return x->level > y->level ? -1 : 1;
    return strcmp(x->change->path, y->change->path);
}

/* What is in a folder of thousands comes last, one folder after the other, what is not usual there first. */
static int by_fold_and_risk(const void *a, const void *b) {
    const struct verdict *x = *(const struct verdict *const *)a, *y = *(const struct verdict *const *)b;

    if (x->fold != y->fold)
        return !x->fold ? -1 : !y->fold ? 1 : x->fold < y->fold ? -1 : 1;
    if (x->unusual != y->unusual)
        return x->unusual ? -1 : 1;
    return by_risk(a, b);
}

const struct verdict **judge_by_risk(const struct judgement *j, bool all) {
    const struct verdict **order = calloc(j->n + 1, sizeof(void *));

    for (size_t i = 0; order && i < j->n; i++)
        order[i] = &j->v[i];
    if (order)
        qsort(order, j->n, sizeof(void *), all ? by_risk : by_fold_and_risk);
    return order;
}
