/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes/review_ask.h"
#include "ops/changes/run_pick.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/help/pager.h"
#include "ops/audit_verb.h"
#include "review/report/escape.h"
#include "supervisor/session/review_spawn.h"
#include "workspace/apply/apply.h"

enum { PATHS_MAX = 1024 * 1024 * 1024 };

enum answer { ANSWER_LEAVE, ANSWER_APPLY, ANSWER_DISCARD, ANSWER_ROLL_BACK, ANSWER_VIEW, ANSWER_QUIT, ANSWER_HELP, ANSWER_COUNT };

/* Direct mode's changes are in the workspace already: there is nothing to apply. */
static const struct {
    char key;
    enum answer answer;
    bool direct, other;
    const char *help;
} keys[] = {
    {'a', ANSWER_APPLY, false, true, "apply: bring this change into the workspace"},
    {'s', ANSWER_LEAVE, false, true, "skip: leave it in the run for later"},
    {'d', ANSWER_DISCARD, false, true, "discard: take this change out of the run, for good"},
    {'k', ANSWER_LEAVE, true, false, "keep: leave the workspace as it is"},
    {'r', ANSWER_ROLL_BACK, true, false, "roll back: restore what was there before"},
    {'v', ANSWER_VIEW, true, true, "view it in the pager"},
    {'q', ANSWER_QUIT, true, true, "quit: ask no more; what was decided is done"},
    {'?', ANSWER_HELP, true, true, "help"},
};

struct review_session {
    struct run_pick *p;
    const struct strv *words;
    bool colour, direct;
    struct change_set set;
    struct buf order;     /* "level" NUL "path" NUL ... */
    enum answer *answers; /* one per change of the set */
};

static void session_done(struct review_session *s) {
    change_set_done(&s->set);
    buf_done(&s->order);
    free(s->answers);
}

static void to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}

static int job_words(const struct review_session *s, struct strv *ret, struct err *err) {
    for (size_t i = 0; i < s->words->len; i++)
        if (strv_add(ret, s->words->v[i]) < 0)
            return err_oom(err);
    if (s->colour && strv_add(ret, "--color") < 0)
        return err_oom(err);
    return strv_add(ret, "--terminal") < 0 ? err_oom(err) : 0;
}

static int prepare(struct review_session *s, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = "review", RUN_PICK_JOB(*s->p)};
    int r = run_pick_changes(s->p, &s->set, err);

    r = r < 0 ? r : job_words(s, &job.words, err);
    if (r < 0)
        return r;
    s->answers = calloc(s->set.n + 1, sizeof *s->answers);
    if (!s->answers || strv_add(&job.words, "--format=paths") < 0)
        return err_oom(err);
    r = review_spawn(&job, to_buf, &s->order, err);
    return r < 0 ? r : buf_ok(&s->order) ? 0 : err_oom(err);
}

static int show(const struct review_session *s, const char *path, bool pager, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = "review", RUN_PICK_JOB(*s->p)};
    struct pager out;
    int written, r = job_words(s, &job.words, err);

    if (r < 0)
        return r;
    if (strv_add(&job.words, "--block") < 0 || strv_add(&job.words, "--diff") < 0 || strv_addf(&job.words, "--path=%s", path) < 0)
        return err_oom(err);
    pager_begin(&out, pager);
    r = review_spawn(&job, pager_sink, &out, err);
    written = pager_end(&out, r < 0 ? NULL : err);
    return r < 0 ? r : written < 0 ? written : r;
}

static bool offered(const struct review_session *s, size_t i) {
    return s->direct ? keys[i].direct : keys[i].other;
}

static void print_help(const struct review_session *s) {
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (offered(s, i))
            printf("  %c  %s\n", keys[i].key, keys[i].help);
}

static void prompt(const struct review_session *s, size_t i, size_t n) {
    printf("[%zu/%zu] what now? [", i, n);
    for (size_t k = 0, any = 0; k < ARRAY_LEN(keys); k++)
        if (offered(s, k))
            printf("%s%c", any++ ? "," : "", keys[k].key);
    printf("] ");
    fflush(stdout);
}

/* The end of the input is the end of the questions. */
static enum answer read_answer(const struct review_session *s) {
    char line[64];

    if (!fgets(line, sizeof line, stdin))
        return ANSWER_QUIT;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (offered(s, i) && line[0] == keys[i].key && (line[1] == '\n' || line[1] == 0))
            return keys[i].answer;
    return ANSWER_HELP;
}

static int ask_one(struct review_session *s, const struct change *c, size_t i, size_t n, struct err *err) {
    int r = show(s, c->path, false, err);

    while (r >= 0) {
        enum answer a;

        prompt(s, i, n);
        a = read_answer(s);
        if (a == ANSWER_HELP)
            print_help(s);
        else if (a == ANSWER_VIEW)
            r = show(s, c->path, true, err);
        else {
            s->answers[c - s->set.v] = a;
            return a == ANSWER_QUIT;
        }
    }
    return r;
}

static size_t count_order(const struct review_session *s) {
    size_t zeros = 0;

    for (size_t i = 0; i < s->order.len; i++)
        zeros += s->order.data[i] == 0;
    return zeros / 2;
}

static int ask_all(struct review_session *s, struct err *err) {
    const char *at = buf_str(&s->order);
    size_t n = count_order(s);

    for (size_t i = 0; i < n; i++) {
        const char *path = at + strlen(at) + 1;
        const struct change *c = change_find(&s->set, path);
        int r = c ? ask_one(s, c, i + 1, n, err) : 0;

        if (r != 0)
            return r < 0 ? r : 0;
        at = path + strlen(path) + 1;
    }
    return 0;
}

/* The part of the change set that got this answer. Shares everything with the whole but the array. */
static int chosen(const struct review_session *s, enum answer a, struct change_set *ret, struct err *err) {
    *ret = s->set;
    ret->n = 0;
    ret->v = calloc(s->set.n + 1, sizeof *ret->v);
    if (!ret->v)
        return err_oom(err);
    for (size_t i = 0; i < s->set.n; i++)
        if (s->answers[i] == a)
            ret->v[ret->n++] = s->set.v[i];
    return 0;
}

static void print_outcome(const char *what, const char *path, const char *why) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    escape_text(&b, path);
    if (*why) {
        buf_adds(&b, ": ");
        escape_text(&b, why);
    }
    printf("%s: %s\n", what, buf_str(&b));
}

static int do_apply(struct review_session *s, const struct change_set *part, struct err *err) {
    const struct apply_opts opts = {.merge = review_merge};
    struct apply_result result = {0};
    int r = audit_verb_changes(AUDIT_APPLY, s->p->rd.name, "review --interactive", part, NULL, err);

    r = r < 0 ? r : apply_changes(&s->p->rd, part, s->p->workspace, &opts, &result, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < result.n; i++)
        if (!result.conflicts || result.v[i].outcome == APPLY_CONFLICT || result.v[i].outcome == APPLY_REFUSED)
            print_outcome(apply_outcome_names[result.v[i].outcome], result.v[i].change->path, result.v[i].why);
    if (result.conflicts)
        r = err_set(err, -EEXIST, "because of conflicts nothing was applied or discarded; see 'bawn apply --help'");
    apply_result_done(&result);
    return r;
}

static int do_discard(struct review_session *s, const struct change_set *part, struct err *err) {
    CLEANUP(strv_done) struct strv left = {0};
    int r = audit_verb_changes(AUDIT_DISCARD, s->p->rd.name, "review --interactive", part, NULL, err);

    r = r < 0 ? r : discard_changes(&s->p->rd, part, NULL, &left, err);
    for (size_t i = 0; r >= 0 && i < left.len; i++)
        print_outcome("not discarded", left.v[i], "");
    return r;
}

static int do_roll_back(struct review_session *s, const struct change_set *part, struct err *err) {
    CLEANUP(strv_done) struct strv left = {0};
    int r = audit_verb_changes(AUDIT_ROLLBACK, s->p->rd.name, "review --interactive", part, NULL, err);

    r = r < 0 ? r : rollback_run(&s->p->rd, part, s->p->workspace, NULL, false, &left, err);
    for (size_t i = 0; r >= 0 && i < left.len; i++)
        print_outcome("not rolled back", left.v[i], "");
    return r;
}

static int carry_out(struct review_session *s, struct err *err) {
    static const struct {
        enum answer answer;
        int (*run)(struct review_session *s, const struct change_set *part, struct err *err);
    } actions[] = {{ANSWER_APPLY, do_apply}, {ANSWER_DISCARD, do_discard}, {ANSWER_ROLL_BACK, do_roll_back}};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(actions); i++) {
        struct change_set part;

        r = chosen(s, actions[i].answer, &part, err);
        if (r == 0 && part.n)
            r = actions[i].run(s, &part, err);
        free(part.v);
    }
    return r;
}

/* A run of which nothing is left does not come up again. */
static int close_run(struct review_session *s, struct err *err) {
    CLEANUP(change_set_done) struct change_set now = CHANGE_SET_INIT;
    int r = s->direct ? 0 : run_pick_changes(s->p, &now, err);

    return r < 0 || s->direct || now.n ? r : run_pick_mark_applied(s->p, err);
}

int review_ask(struct run_pick *p, const struct strv *words, bool colour, struct err *err) {
    CLEANUP(session_done)
    struct review_session s = {.p = p,
                               .words = words,
                               .colour = colour,
                               .direct = p->rd.info.mode == WORKSPACE_DIRECT,
                               .set = CHANGE_SET_INIT,
                               .order = BUF_INIT(PATHS_MAX)};
    int r = prepare(&s, err);

    if (r == 0 && count_order(&s) == 0)
        printf("no changes\n");
    r = r < 0 ? r : ask_all(&s, err);
    r = r < 0 ? r : carry_out(&s, err);
    return r < 0 ? r : close_run(&s, err);
}
