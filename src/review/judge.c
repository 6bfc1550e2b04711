#include "review/judge.h"

#include "base/err.h"
#include "base/str.h"
#include "workspace/apply_filter.h"
#include "workspace/ignore.h"

void judgement_done(struct judgement *j) {
    for (size_t i = 0; i < j->n; i++)
        risk_list_done(&j->v[i].risks);
    free(j->v);
    change_set_done(&j->set);
    *j = (struct judgement)JUDGEMENT_INIT;
}

static bool is_dir(const struct change *c) {
    return S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode);
}

/* Hidden is what either set of rules hides (workspace/pin.h). */
static void hide_more(struct change_set *set, const struct ignore *accepted) {
    for (size_t i = 0; accepted && i < set->n; i++)
        if (ignore_match(accepted, set->v[i].path, is_dir(&set->v[i])) == IGNORE_EXCLUDED)
            set->v[i].hidden = true;
}

static bool wanted(const struct request *q, const struct apply_filter *f, const struct change *c) {
    if (q->paths.len && !strv_has(&q->paths, c->path))
        return false;
    return apply_filter_wants(f, c->path, is_dir(c));
}

static int judge_one(const struct risk_context *ctx, const struct change *c, struct judgement *j, struct err *err) {
    struct verdict *v = &j->v[j->n];
    int r;

    *v = (struct verdict){.change = c};
    r = risk_judge(ctx, c, &v->risks, err);
    if (r < 0)
        return err_ctx(err, r, "judge a change");
    for (size_t i = 0; i < v->risks.n; i++)
        v->level = MAX_OF(v->level, v->risks.v[i].level);
    j->count[v->level]++;
    j->n++;
    return 0;
}

static int judge_set(const struct request *q, int workspace, struct judgement *j, struct err *err) {
    CLEANUP(apply_filter_done) struct apply_filter f = {0};
    CLEANUP(risk_context_done) struct risk_context ctx = {0};
    int r = apply_filter_init(&f, &q->only, NULL, err);

    r = r < 0 ? r : risk_context_init(&ctx, &j->set, workspace, err);
    if (r < 0)
        return r;
    j->v = calloc(j->set.n + 1, sizeof *j->v);
    if (!j->v)
        return err_oom(err);
    for (size_t i = 0; i < j->set.n; i++) {
        struct change *c = &j->set.v[i];

        if (!wanted(q, &f, c)) {
            j->left_out++;
            continue;
        }
        c->git_ignored = risk_git_ignored(&ctx, c);
        r = judge_one(&ctx, c, j, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int judge_run(const struct request *q, int run, int workspace, const struct ignore *now, const struct ignore *accepted,
              struct judgement *ret, struct err *err) {
    const struct rundir rd = {
        .name = q->run,
        .path = q->run,
        .fd = run,
        .lock = -1,
        .info = {.mode = q->mode, .workspace = q->workspace, .begun_ns = q->begun_ns, .ended_ns = q->ended_ns},
    };
    struct judgement j = JUDGEMENT_INIT;
    int r = change_set_make(&rd, workspace, now, &j.set, err);

    if (r < 0)
        return r;
    hide_more(&j.set, accepted);
    r = judge_set(q, workspace, &j, err);
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

const struct verdict **judge_by_risk(const struct judgement *j) {
    const struct verdict **order = calloc(j->n + 1, sizeof(void *));

    for (size_t i = 0; order && i < j->n; i++)
        order[i] = &j->v[i];
    if (order)
        qsort(order, j->n, sizeof(void *), by_risk);
    return order;
}
