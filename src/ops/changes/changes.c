/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a run: applied, taken back, discarded, rolled back. */
#include "ops/changes/changes.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/audit_verb.h"
#include "ops/changes/changes_review.h"
#include "supervisor/session/review_spawn.h"

/* -- apply -------------------------------------------------------------------------------------------------------------- */

void changes_apply_done(struct changes_apply *q) {
    strv_done(&q->only);
    strv_done(&q->except);
}

void changes_applied_done(struct changes_applied *a) {
    apply_result_done(&a->result);
    strv_done(&a->risky);
    change_set_done(&a->set);
    run_pick_done(&a->pick);
}

static struct apply_opts apply_options(const struct changes_apply *q) {
    return (struct apply_opts){
        .only = &q->only,
        .except = &q->except,
        .conflict = q->conflict,
        .dry_run = q->dry_run,
        .allow_links_out = q->links_out,
        .merge = review_merge,
    };
}

/* Which changes would come in, by class. */
struct apply_classes {
    struct changes_verdicts verdicts;
    const struct changes_verdict **v[CHANGES_CLASSES]; /* the riskiest first */
    size_t n[CHANGES_CLASSES];
    struct changes_verdict *unjudged; /* count as high */
    bool *leave;                      /* for each change of the set */
};

static void classes_done(struct apply_classes *c) {
    changes_verdicts_done(&c->verdicts);
    for (size_t i = 0; i < CHANGES_CLASSES; i++)
        free(c->v[i]);
    free(c->unjudged);
    free(c->leave);
}

static bool comes_in(const struct apply_item *it) {
    return it->outcome == APPLY_DONE || it->outcome == APPLY_MERGED || it->outcome == APPLY_CONFLICT;
}

static int by_rank(const void *a, const void *b) {
    const struct changes_verdict *x = *(const struct changes_verdict *const *)a, *y = *(const struct changes_verdict *const *)b;

    return x < y ? -1 : x > y;
}

/* What the review does not name was not judged. */
static int sort_classes(struct apply_classes *c, const struct apply_result *would, struct err *err) {
    bool ok = (c->unjudged = calloc(would->n + 1, sizeof *c->unjudged)) && (c->leave = calloc(would->n + 1, sizeof *c->leave));

    for (size_t i = 0; i < CHANGES_CLASSES; i++)
        ok &= (c->v[i] = calloc(would->n + 1, sizeof(void *))) != NULL;
    for (size_t i = 0; ok && i < would->n; i++) {
        const struct changes_verdict *v = changes_verdict_find(&c->verdicts, would->v[i].change->path);

        if (!comes_in(&would->v[i]))
            continue;
        c->unjudged[i] =
            (struct changes_verdict){.path = would->v[i].change->path, .folder = "", .class = CHANGES_HIGH, .high = true};
        v = v ? v : &c->unjudged[i];
        c->v[v->class][c->n[v->class]++] = v;
    }
    for (size_t i = 0; ok && i < CHANGES_CLASSES; i++) /* the report has them in their order */
        qsort(c->v[i], c->n[i], sizeof(void *), by_rank);
    return ok ? 0 : err_oom(err);
}

static int find_classes(const struct changes_apply *q, struct changes_applied *a, struct apply_classes *c, struct err *err) {
    CLEANUP(apply_result_done) struct apply_result would = {0};
    struct apply_opts o = apply_options(q);
    int r;

    o.dry_run = true;
    o.merge = NULL;
    r = apply_changes(&a->pick.rd, &a->set, a->pick.workspace, &o, &would, err);
    if (r < 0)
        return r;
    r = changes_verdicts(&a->pick, NULL, NULL, &c->verdicts, err);
    r = r < 0 ? r : sort_classes(c, &would, err);
    if (r == 0)
        return 0;
    return err_ctx(err, r, "the changes could not be judged, and --yes %s", q->classes ? "is not for all" : "was not given");
}

static void leave_class(struct changes_applied *a, struct apply_classes *c, enum changes_class class) {
    for (size_t i = 0; i < c->n[class]; i++) {
        const struct change *change = change_find(&a->set, c->v[class][i]->path);

        if (change)
            c->leave[change - a->set.v] = true;
    }
    a->left[class] = c->n[class];
}

static void ask_classes(const struct changes_apply *q, struct changes_applied *a, struct apply_classes *c) {
    for (int i = 0; i < CHANGES_NONE && !a->stopped; i++) {
        const struct changes_question question = {a->pick.rd.name, (enum changes_class)i, c->v[i], c->n[i]};
        enum changes_answer answer = c->n[i] ? q->ask(&question, q->ask_arg) : CHANGES_TAKE;

        a->stopped = answer == CHANGES_STOP;
        if (answer == CHANGES_LEAVE)
            leave_class(a, c, (enum changes_class)i);
    }
}

/* What is of high risk, that of CHANGES_HIGH first. */
static int find_risky(struct changes_applied *a, const struct apply_classes *c, struct err *err) {
    static const enum changes_class high[] = {CHANGES_HIGH, CHANGES_DEPENDENCIES};

    for (size_t i = 0; i < ARRAY_LEN(high); i++)
        for (size_t k = 0; k < c->n[high[i]]; k++) {
            const struct changes_verdict *v = c->v[high[i]][k];

            if (v->high && strv_add(&a->risky, v->path) < 0)
                return err_oom(err);
            a->usual += v->high && high[i] == CHANGES_DEPENDENCIES;
        }
    return 0;
}

/* Without an answer, what is of high risk is named, and nothing is done. */
static int choose_classes(const struct changes_apply *q, struct changes_applied *a, struct apply_classes *c, struct err *err) {
    int r = find_classes(q, a, c, err);

    if (r < 0)
        return r;
    if (q->classes) {
        for (int i = 0; i < CHANGES_NONE; i++)
            if (!(q->classes & 1u << i))
                leave_class(a, c, (enum changes_class)i);
        return 0;
    }
    r = find_risky(a, c, err);
    if (r == 0 && a->risky.len && q->ask) {
        strv_done(&a->risky);
        ask_classes(q, a, c);
    }
    return r;
}

/* A run of which nothing is left does not come up again; with sweep it takes the place of earlier ones that wait for an undo. What
 * could not be looked at (notes) may be a change. */
static int close_run(struct run_pick *p, bool sweep, struct err *err) {
    CLEANUP(change_set_done) struct change_set now = CHANGE_SET_INIT;
    int r = run_pick_changes(p, &now, err);

    if (r < 0 || now.n || now.notes.len)
        return r;
    r = run_pick_mark_applied(p, err);
    return r < 0 || !sweep ? r : run_pick_sweep(p, err);
}

static int check_named(const struct changes_apply *q, const struct apply_result *r, struct err *err) {
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].outcome != APPLY_LEFT)
            return 0;
    return r->n && (q->only.len || q->except.len) ? err_usage(err, "--only and --except leave none of the changes") : 0;
}

/* For the audit log: "apply --yes=medium,low". */
static void apply_word(const struct changes_apply *q, const struct changes_applied *a, char word[static 128]) {
    size_t len = (size_t)snprintf(word, 128, "apply%s", q->classes ? " --yes" : "");
    const char *lead = q->classes ? "=" : ", without ";

    if (q->classes == CHANGES_ALL)
        return;
    for (int i = 0; i < CHANGES_NONE; i++)
        if (q->classes ? (q->classes & 1u << i) != 0 : a->left[i] > 0) {
            len += (size_t)snprintf(word + len, 128 - len, "%s%s", lead, changes_class_names[i]);
            lead = ",";
        }
}

static int apply_now(const struct changes_apply *q, struct changes_applied *a, const bool *leave, struct err *err) {
    struct apply_opts o = apply_options(q);
    const char *run = a->pick.rd.name;
    char word[128];
    int r;

    o.leave = leave;
    apply_word(q, a, word);
    r = q->dry_run ? 0 : audit_verb_changes(AUDIT_APPLY, run, word, &a->set, &q->only, err);
    r = r < 0 ? r : apply_changes(&a->pick.rd, &a->set, a->pick.workspace, &o, &a->result, err);
    if (!q->dry_run && (r < 0 || a->result.conflicts))
        a->unlogged = audit_verb_word(AUDIT_APPLY, run, "not applied", NULL, NULL) < 0;
    r = r < 0 ? r : check_named(q, &a->result, err);
    return r < 0 || q->dry_run || a->result.conflicts ? r : close_run(&a->pick, true, err);
}

int changes_apply(const struct changes_apply *q, struct changes_applied *ret, struct err *err) {
    const struct run_pick_opts o = {.directory = q->directory, .name = q->run, .what = RUN_PICK_APART, .lock = true};
    CLEANUP(classes_done) struct apply_classes c = {.verdicts = CHANGES_VERDICTS_INIT};
    int r = run_pick(&o, &ret->pick, err);

    if (r < 0)
        return r;
    if (ret->pick.rd.info.mode == WORKSPACE_DIRECT)
        return err_usage(err,
                         "run '%s' was in direct mode: its changes are in the workspace already; 'bawn rollback' takes them back",
                         ret->pick.rd.name);
    r = run_pick_changes(&ret->pick, &ret->set, err);
    if (r == 0 && q->classes != CHANGES_ALL && (q->classes || !q->dry_run))
        r = choose_classes(q, ret, &c, err);
    return r < 0 || ret->risky.len || ret->stopped ? r : apply_now(q, ret, c.leave, err);
}

int changes_undo(struct run_pick *p, bool force, struct strv *ret_left, struct err *err) {
    int r = audit_verb_word(AUDIT_ROLLBACK, p->rd.name, force ? "apply --undo --force" : "apply --undo", NULL, err);

    r = r < 0 ? r : apply_undo(&p->rd, p->workspace, force, ret_left, err);
    return r < 0 ? r : run_pick_unmark(p, err);
}

/* -- discard ------------------------------------------------------------------------------------------------------------ */

void changes_discard_done(struct changes_discard *d) {
    run_pick_done(&d->pick);
    change_set_done(&d->before);
    change_set_done(&d->after);
    strv_done(&d->left);
}

int changes_discard_open(const char *directory, const char *run, struct changes_discard *ret, struct err *err) {
    const struct run_pick_opts o = {.directory = directory, .name = run, .what = RUN_PICK_APART, .lock = true};
    int r = run_pick(&o, &ret->pick, err);
    const char *name = ret->pick.rd.name;

    if (r < 0)
        return r;
    if (ret->pick.rd.info.mode == WORKSPACE_DIRECT)
        return err_usage(err, "run '%s' was in direct mode: its changes are in the workspace; 'bawn rollback %s' takes them back",
                         name, name);
    return run_pick_changes(&ret->pick, &ret->before, err);
}

int changes_discard_some(struct changes_discard *d, const struct strv *only, struct err *err) {
    int r = audit_verb_changes(AUDIT_DISCARD, d->pick.rd.name, "discard --only", &d->before, only, err);

    r = r < 0 ? r : discard_changes(&d->pick.rd, &d->before, only, &d->left, err);
    r = r < 0 ? r : run_pick_changes(&d->pick, &d->after, err);
    if (r < 0)
        return r;
    return d->before.n == d->after.n && d->left.len == 0 ? err_usage(err, "--only names none of the changes") : 0;
}

int changes_discard_run(struct changes_discard *d, struct err *err) {
    int r = audit_verb_changes(AUDIT_DISCARD, d->pick.rd.name, "discard", &d->before, NULL, err);

    return r < 0 ? r : run_pick_remove(&d->pick, err);
}

/* -- rollback ----------------------------------------------------------------------------------------------------------- */

void changes_rolled_back_done(struct changes_rolled_back *r) {
    run_pick_done(&r->pick);
    change_set_done(&r->set);
    change_set_done(&r->after);
    strv_done(&r->left);
}

static int roll_back_now(const struct changes_rollback *q, struct changes_rolled_back *b, struct err *err) {
    struct run_pick *p = &b->pick;
    int r = audit_verb_changes(AUDIT_ROLLBACK, p->rd.name, q->force ? "rollback --force" : "rollback", &b->set, &q->only, err);

    r = r < 0 ? r : rollback_run(&p->rd, &b->set, p->workspace, &q->only, q->force, &b->left, err);
    return r < 0 ? r : run_pick_changes(p, &b->after, err);
}

int changes_rollback(const struct changes_rollback *q, struct changes_rolled_back *ret, struct err *err) {
    const struct run_pick_opts o = {.directory = q->directory, .name = q->run, .what = RUN_PICK_DIRECT, .lock = true};
    struct run_pick *p = &ret->pick;
    int r = run_pick(&o, p, err);

    if (r < 0)
        return r;
    if (p->rd.info.mode != WORKSPACE_DIRECT)
        return err_usage(err,
                         "run '%s' was in %s mode, so the workspace has nothing of it; 'bawn discard %s' throws its changes away",
                         p->rd.name, workspace_mode_names[p->rd.info.mode], p->rd.name);
    r = run_pick_changes(p, &ret->set, err);
    if (r < 0)
        return r;
    return q->dry_run ? rollback_check(&p->rd, &ret->set, p->workspace, &q->only, q->force, &ret->left, err)
                      : roll_back_now(q, ret, err);
}

/* -- one decision for each change ---------------------------------------------------------------------------------------- */

void changes_decided_done(struct changes_decided *d) {
    apply_result_done(&d->applied);
    free(d->chosen);
    strv_done(&d->not_discarded);
    strv_done(&d->not_rolled_back);
}

static int decided_apply(struct run_pick *p, const struct change_set *part, struct changes_decided *d, struct err *err) {
    const struct apply_opts opts = {.merge = review_merge};
    int r = apply_changes(&p->rd, part, p->workspace, &opts, &d->applied, err);

    if (r == 0 && d->applied.conflicts)
        r = err_set(err, -EEXIST, "because of conflicts nothing was applied or discarded; see 'bawn apply --help'");
    return r;
}

static int decided_discard(struct run_pick *p, const struct change_set *part, struct changes_decided *d, struct err *err) {
    return discard_changes(&p->rd, part, NULL, &d->not_discarded, err);
}

static int decided_roll_back(struct run_pick *p, const struct change_set *part, struct changes_decided *d, struct err *err) {
    return rollback_run(&p->rd, part, p->workspace, NULL, false, &d->not_rolled_back, err);
}

static const struct {
    enum changes_decision decision;
    enum audit_type type;
    int (*run)(struct run_pick *p, const struct change_set *part, struct changes_decided *d, struct err *err);
} actions[] = {
    {DECIDE_APPLY, AUDIT_APPLY, decided_apply},
    {DECIDE_DISCARD, AUDIT_DISCARD, decided_discard},
    {DECIDE_ROLL_BACK, AUDIT_ROLLBACK, decided_roll_back},
};

int changes_decide(struct run_pick *p, const struct change_set *s, const enum changes_decision *v, struct changes_decided *ret,
                   struct err *err) {
    struct change_set part = *s; /* shares all but the array */
    int r = 0;

    ret->chosen = part.v = calloc(s->n + 1, sizeof *ret->chosen);
    part.n = 0;
    if (!part.v)
        return err_oom(err);
    for (size_t k = 0; r == 0 && k < ARRAY_LEN(actions); k++) {
        part.v += part.n; /* results point to the part before */
        part.n = 0;
        for (size_t i = 0; i < s->n; i++)
            if (v[i] == actions[k].decision)
                part.v[part.n++] = s->v[i];
        if (part.n)
            r = audit_verb_changes(actions[k].type, p->rd.name, "review --interactive", &part, NULL, err);
        if (part.n && r == 0)
            r = actions[k].run(p, &part, ret, err);
    }
    return r < 0 || p->rd.info.mode == WORKSPACE_DIRECT ? r : close_run(p, false, err);
}
