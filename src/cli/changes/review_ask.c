/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about each change, and what came of the answers. */
#include "cli/changes/review_options.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "ops/changes/changes.h"
#include "ops/changes/changes_review.h"
#include "review/report/escape.h"

enum ask_action { ASK_DECIDE, ASK_REST, ASK_EACH, ASK_VIEW, ASK_QUIT, ASK_HELP };

/* What a key can be about. */
enum { ABOUT_FILE = 1, ABOUT_FOLDER = 2, ABOUT_BOTH = 3 };

/* Direct mode's changes are in the workspace already: there is nothing to apply. */
static const struct ask_key {
    char key;
    enum ask_action action;
    enum changes_decision decision;
    bool direct, other;
    int about;
    const char *help;
} keys[] = {
    {'a', ASK_DECIDE, DECIDE_APPLY, false, true, ABOUT_BOTH, "apply: bring this change into the workspace"},
    {'s', ASK_DECIDE, DECIDE_LEAVE, false, true, ABOUT_BOTH, "skip: leave it in the run for later"},
    {'d', ASK_DECIDE, DECIDE_DISCARD, false, true, ABOUT_BOTH, "discard: take this change out of the run, for good"},
    {'k', ASK_DECIDE, DECIDE_LEAVE, true, false, ABOUT_BOTH, "keep: leave the workspace as it is"},
    {'r', ASK_DECIDE, DECIDE_ROLL_BACK, true, false, ABOUT_BOTH, "roll back: restore what was there before"},
    {'A', ASK_REST, DECIDE_APPLY, false, true, ABOUT_FILE, "apply this and the rest of its folder, which is of no higher risk"},
    {'S', ASK_REST, DECIDE_LEAVE, false, true, ABOUT_FILE, "skip this and the rest of its folder"},
    {'D', ASK_REST, DECIDE_DISCARD, false, true, ABOUT_FILE, "discard this and the rest of its folder"},
    {'K', ASK_REST, DECIDE_LEAVE, true, false, ABOUT_FILE, "keep this and the rest of its folder"},
    {'R', ASK_REST, DECIDE_ROLL_BACK, true, false, ABOUT_FILE, "roll back this and the rest of its folder"},
    {'e', ASK_EACH, DECIDE_LEAVE, true, true, ABOUT_FOLDER, "each: step through the files of this folder"},
    {'v', ASK_VIEW, DECIDE_LEAVE, true, true, ABOUT_BOTH, "view it in the pager"},
    {'q', ASK_QUIT, DECIDE_LEAVE, true, true, ABOUT_BOTH, "quit: ask no more; what was decided is done"},
    {'?', ASK_HELP, DECIDE_LEAVE, true, true, ABOUT_BOTH, "help"},
};

struct review_session {
    struct run_pick *p;
    const struct review_args *args;
    struct change_set set;
    struct changes_verdicts verdicts; /* the order of the questions */
    enum changes_decision *decision;  /* one per change of the set */
    bool *decided;                    /* one per verdict */
};

/* What one question is about: a file, or a folder of dependencies. */
struct ask_item {
    size_t first, n; /* of the verdicts */
    bool folder;
};

static void session_done(struct review_session *s) {
    change_set_done(&s->set);
    changes_verdicts_done(&s->verdicts);
    free(s->decision);
    free(s->decided);
}

static int prepare_session(struct review_session *s, struct err *err) {
    int r = run_pick_changes(s->p, &s->set, err);

    r = r < 0 ? r : changes_verdicts(s->p, &s->args->only, &s->args->except, &s->verdicts, err);
    if (r < 0)
        return r;
    s->decision = calloc(s->set.n + 1, sizeof *s->decision);
    s->decided = calloc(s->verdicts.n + 1, sizeof *s->decided);
    return s->decision && s->decided ? 0 : err_oom(err);
}

/* list: the files of a folder instead of its summary. */
static int show_item(const struct review_session *s, const struct ask_item *it, bool list, bool pager, struct err *err) {
    const struct changes_verdict *v = &s->verdicts.v[it->first];
    char *one[] = {(char *)v->folder, NULL};
    const struct strv below = {.v = one, .len = 1};
    const struct changes_report q = {.task = "review",
                                     .path = it->folder ? NULL : v->path,
                                     .folder = it->folder ? v->folder : NULL,
                                     .fail_on = s->args->fail_on,
                                     .only = list ? &below : &s->args->only,
                                     .except = &s->args->except,
                                     .all = list,
                                     .diff = !it->folder,
                                     .colour = manual_colours(s->args->colour),
                                     .terminal = true};

    return review_report(s->p, &q, pager, err);
}

/* How much of a path names its folder, with the slash: that of dependencies, itself, or the one it lies in. 0: the workspace. */
static size_t rest_prefix(const struct review_session *s, size_t i) {
    const struct changes_verdict *v = &s->verdicts.v[i];
    const struct change *c = change_find(&s->set, v->path);
    const char *slash = strrchr(v->path, '/');

    if (*v->folder)
        return strlen(v->folder) + 1;
    if (c && S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode))
        return strlen(v->path) + 1;
    return slash ? (size_t)(slash + 1 - v->path) : 0;
}

static bool is_offered(const struct review_session *s, const struct ask_item *it, const struct ask_key *k) {
    if (!(k->about & (it->folder ? ABOUT_FOLDER : ABOUT_FILE)) || (k->action == ASK_REST && rest_prefix(s, it->first) == 0))
        return false;
    return s->p->rd.info.mode == WORKSPACE_DIRECT ? k->direct : k->other;
}

static void print_help(const struct review_session *s, const struct ask_item *it) {
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (is_offered(s, it, &keys[i]))
            printf("  %c  %s\n", keys[i].key, keys[i].help);
}

/* The end of the input is the end of the questions. */
static const struct ask_key *read_answer(const struct review_session *s, const struct ask_item *it, size_t i) {
    static const struct ask_key quit = {.action = ASK_QUIT}, help = {.action = ASK_HELP};
    char line[64];

    printf("[%zu/%zu] what now? [", i + it->n, s->verdicts.n);
    for (size_t k = 0, any = 0; k < ARRAY_LEN(keys); k++)
        if (is_offered(s, it, &keys[k]))
            printf("%s%c", any++ ? "," : "", keys[k].key);
    printf("] ");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return &quit;
    for (size_t k = 0; k < ARRAY_LEN(keys); k++)
        if (is_offered(s, it, &keys[k]) && line[0] == keys[k].key && (line[1] == '\n' || line[1] == 0))
            return &keys[k];
    return &help;
}

static void decide(struct review_session *s, size_t i, enum changes_decision d) {
    const struct change *c = change_find(&s->set, s->verdicts.v[i].path);

    s->decided[i] = true;
    if (c)
        s->decision[c - s->set.v] = d;
}

/* This one and what was not asked about yet in its folder. Its own path may lack the slash. */
static void decide_rest(struct review_session *s, size_t first, enum changes_decision d) {
    const char *path = s->verdicts.v[first].path;
    size_t len = rest_prefix(s, first) - 1;

    for (size_t i = first; i < s->verdicts.n; i++) {
        const char *other = s->verdicts.v[i].path;

        if (!s->decided[i] && strncmp(other, path, len) == 0 && (other[len] == '/' || other[len] == 0))
            decide(s, i, d);
    }
}

enum ask_result { ASKED, ASK_OPENED /* file by file */, ASKED_ENOUGH };

/* Returns an ask_result, or negative. */
static int ask_item(struct review_session *s, const struct ask_item *it, struct err *err) {
    int r = show_item(s, it, false, false, err);

    while (r >= 0) {
        const struct ask_key *k = read_answer(s, it, it->first);

        switch (k->action) {
        case ASK_HELP:
            print_help(s, it);
            break;
        case ASK_VIEW:
            r = show_item(s, it, it->folder, true, err);
            break;
        case ASK_EACH:
            return ASK_OPENED;
        case ASK_QUIT:
            return ASKED_ENOUGH;
        case ASK_REST:
            decide_rest(s, it->first, k->decision);
            return ASKED;
        case ASK_DECIDE:
            for (size_t i = it->first; i < it->first + it->n; i++)
                if (!s->decided[i])
                    decide(s, i, k->decision);
            return ASKED;
        }
    }
    return r;
}

/* A folder of dependencies is one question, unless it was opened; but each file in it that no honest install brings is one first. */
static struct ask_item next_item(const struct review_session *s, size_t first, const char *opened) {
    const struct changes_verdicts *v = &s->verdicts;
    struct ask_item it = {.first = first, .n = 1};

    it.folder = *v->v[first].folder && v->v[first].class != CHANGES_HIGH && !str_eq(v->v[first].folder, opened);

    while (it.folder && first + it.n < v->n && str_eq(v->v[first + it.n].folder, v->v[first].folder))
        it.n++;
    return it;
}

static int ask_all(struct review_session *s, struct err *err) {
    const char *opened = "";

    if (s->verdicts.n == 0)
        printf("no changes\n");
    for (size_t i = 0; i < s->verdicts.n;) {
        struct ask_item it = next_item(s, i, opened);
        int r = s->decided[i] ? ASKED : ask_item(s, &it, err);

        if (r < 0 || r == ASKED_ENOUGH)
            return r < 0 ? r : 0;
        if (r == ASK_OPENED)
            opened = s->verdicts.v[i].folder;
        else
            i += it.n;
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
    struct review_session s = {.p = p, .args = a, .set = CHANGE_SET_INIT, .verdicts = CHANGES_VERDICTS_INIT};
    CLEANUP(changes_decided_done) struct changes_decided done = {0};
    int r = prepare_session(&s, err);

    r = r < 0 ? r : ask_all(&s, err);
    r = r < 0 ? r : changes_decide(p, &s.set, s.decision, &done, err);
    print_decided(&done);
    return r;
}
