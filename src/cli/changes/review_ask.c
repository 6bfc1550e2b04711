/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about each change, and what came of the answers. */
#include "cli/changes/review_ask.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/help/pager.h"
#include "ops/changes/changes.h"
#include "ops/changes/changes_review.h"
#include "review/report/escape.h"

enum ask_action { ASK_DECIDE, ASK_VIEW, ASK_QUIT, ASK_HELP };

/* Direct mode's changes are in the workspace already: there is nothing to apply. */
static const struct ask_key {
    char key;
    enum ask_action action;
    enum changes_decision decision;
    bool direct, other;
    const char *help;
} keys[] = {
    {'a', ASK_DECIDE, DECIDE_APPLY, false, true, "apply: bring this change into the workspace"},
    {'s', ASK_DECIDE, DECIDE_LEAVE, false, true, "skip: leave it in the run for later"},
    {'d', ASK_DECIDE, DECIDE_DISCARD, false, true, "discard: take this change out of the run, for good"},
    {'k', ASK_DECIDE, DECIDE_LEAVE, true, false, "keep: leave the workspace as it is"},
    {'r', ASK_DECIDE, DECIDE_ROLL_BACK, true, false, "roll back: restore what was there before"},
    {'v', ASK_VIEW, DECIDE_LEAVE, true, true, "view it in the pager"},
    {'q', ASK_QUIT, DECIDE_LEAVE, true, true, "quit: ask no more; what was decided is done"},
    {'?', ASK_HELP, DECIDE_LEAVE, true, true, "help"},
};

struct review_session {
    struct run_pick *p;
    const struct review_args *args;
    struct change_set set;
    struct buf order;                /* of changes_paths() */
    enum changes_decision *decision; /* one per change of the set */
};

static void session_done(struct review_session *s) {
    change_set_done(&s->set);
    buf_done(&s->order);
    free(s->decision);
}

static int prepare_session(struct review_session *s, struct err *err) {
    int r = run_pick_changes(s->p, &s->set, err);

    if (r < 0)
        return r;
    s->decision = calloc(s->set.n + 1, sizeof *s->decision);
    return s->decision ? changes_paths(s->p, &s->args->only, &s->order, err) : err_oom(err);
}

static int show_change(const struct review_session *s, const char *path, bool pager, struct err *err) {
    const struct changes_report q = {.task = "review",
                                     .path = path,
                                     .fail_on = s->args->fail_on,
                                     .only = &s->args->only,
                                     .diff = true,
                                     .colour = review_colours(s->args),
                                     .terminal = true};
    struct pager out;
    int written, r;

    pager_begin(&out, pager);
    r = changes_report(s->p, &q, pager_sink, &out, err);
    written = pager_end(&out, r < 0 ? NULL : err);
    return r < 0 ? r : written < 0 ? written : r;
}

static bool is_offered(const struct review_session *s, const struct ask_key *k) {
    return s->p->rd.info.mode == WORKSPACE_DIRECT ? k->direct : k->other;
}

static void print_help(const struct review_session *s) {
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (is_offered(s, &keys[i]))
            printf("  %c  %s\n", keys[i].key, keys[i].help);
}

/* The end of the input is the end of the questions. */
static const struct ask_key *read_answer(const struct review_session *s, size_t i, size_t n) {
    static const struct ask_key quit = {.action = ASK_QUIT}, help = {.action = ASK_HELP};
    char line[64];

    printf("[%zu/%zu] what now? [", i, n);
    for (size_t k = 0, any = 0; k < ARRAY_LEN(keys); k++)
        if (is_offered(s, &keys[k]))
            printf("%s%c", any++ ? "," : "", keys[k].key);
    printf("] ");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return &quit;
    for (size_t k = 0; k < ARRAY_LEN(keys); k++)
        if (is_offered(s, &keys[k]) && line[0] == keys[k].key && (line[1] == '\n' || line[1] == 0))
            return &keys[k];
    return &help;
}

/* Returns 1 if the user wants no more questions. */
static int ask_one(struct review_session *s, const struct change *c, size_t i, size_t n, struct err *err) {
    int r = show_change(s, c->path, false, err);

    while (r >= 0) {
        const struct ask_key *k = read_answer(s, i, n);

        switch (k->action) {
        case ASK_HELP:
            print_help(s);
            break;
        case ASK_VIEW:
            r = show_change(s, c->path, true, err);
            break;
        case ASK_QUIT:
        case ASK_DECIDE:
            s->decision[c - s->set.v] = k->decision;
            return k->action == ASK_QUIT;
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

    if (n == 0)
        printf("no changes\n");
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

static void print_outcome(const char *what, const char *path, const char *why) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);

    escape_text(&b, path);
    if (*why) {
        buf_adds(&b, ": ");
        escape_text(&b, why);
    }
    printf("%s: %s\n", what, buf_str(&b));
}

static void print_decided(const struct changes_decided *d) {
    const struct apply_result *a = &d->applied;

    for (size_t i = 0; i < a->n; i++)
        if (!a->conflicts || a->v[i].outcome == APPLY_CONFLICT || a->v[i].outcome == APPLY_REFUSED)
            print_outcome(apply_outcome_names[a->v[i].outcome], a->v[i].change->path, a->v[i].why);
    for (size_t i = 0; i < d->not_discarded.len; i++)
        print_outcome("not discarded", d->not_discarded.v[i], "");
    for (size_t i = 0; i < d->not_rolled_back.len; i++)
        print_outcome("not rolled back", d->not_rolled_back.v[i], "");
}

int review_ask(struct run_pick *p, const struct review_args *a, struct err *err) {
    CLEANUP(session_done)
    struct review_session s = {.p = p, .args = a, .set = CHANGE_SET_INIT, .order = BUF_INIT(CHANGES_PATHS_MAX)};
    CLEANUP(changes_decided_done) struct changes_decided done = {0};
    int r = prepare_session(&s, err);

    r = r < 0 ? r : ask_all(&s, err);
    r = r < 0 ? r : changes_decide(p, &s.set, s.decision, &done, err);
    print_decided(&done);
    return r;
}
