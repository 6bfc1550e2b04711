/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn discard`. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/changes/changes.h"

enum { EXIT_NOT_DONE = 1, QUESTION_MAX = 1024 };

struct discard_request {
    const char *directory, *run;
    struct strv only;
    bool all, yes;
};

#define TO(kind, member) OPT_TO_##kind(struct discard_request, member)
static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, directory)},
    {0, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL, TO(LIST, only)},
    {0, 0, "all", NULL, "every run of this workspace, but those in direct mode", NULL, TO(FLAG, all)},
    {0, 'y', "yes", NULL, "do not ask", NULL, TO(FLAG, yes)},
};

static int read_request(const struct verb_call *c, struct discard_request *ret, struct err *err) {
    int n = verb_parse(c, ret, 1, err);

    if (n < 0)
        return n;
    ret->run = n ? c->argv[1] : NULL;
    if (ret->all && ret->run)
        return err_usage(err, "--all and the name of a run exclude each other");
    if (ret->all && ret->only.len)
        return err_usage(err, "--all and --only exclude each other");
    return 0;
}

static int ask_user(const struct discard_request *q, const char *question, struct err *err) {
    return q->yes ? 0 : run_print_ask(question, "look at the run with 'bawn review'", "nothing was discarded", err);
}

static int discard_part(const struct discard_request *q, struct changes_discard *d, struct buf *out, struct err *err) {
    char question[QUESTION_MAX];
    size_t n;
    int r;

    snprintf(question, sizeof question, "Discard these changes of run '%s' for good?", d->pick.rd.name);
    r = ask_user(q, question, err);
    r = r < 0 ? r : changes_discard_some(d, &q->only, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < d->before.n; i++)
        if (!change_find(&d->after, d->before.v[i].path))
            run_print_line(out, &d->before.v[i], "discarded", NULL);
    run_print_left(out, &d->left, "a folder above it was deleted or replaced as a whole; discard that");
    n = d->before.n - d->after.n;
    buf_addf(out, "%zu %s discarded, %zu left in run '%s'\n", n, run_print_files(n), d->after.n, d->pick.rd.name);
    return d->left.len ? EXIT_NOT_DONE : 0;
}

static int discard_whole(const struct discard_request *q, struct changes_discard *d, struct err *err) {
    CLEANUP(freep) char *name = strdup(d->pick.rd.name);
    char question[QUESTION_MAX];
    size_t n = d->before.n;
    int r;

    if (!name)
        return err_oom(err);
    snprintf(question, sizeof question, "Discard run '%s' with %zu changed %s for good?", name, n, run_print_files(n));
    r = ask_user(q, question, err);
    r = r < 0 ? r : changes_discard_run(d, err);
    if (r == 0)
        printf("run '%s' discarded, with %zu changed %s\n", name, n, run_print_files(n));
    return r;
}

static int discard_one(const struct discard_request *q, const char *name, struct buf *out, struct err *err) {
    CLEANUP(changes_discard_done) struct changes_discard d = CHANGES_DISCARD_INIT;
    int r = changes_discard_open(q->directory, name, &d, err);

    return r < 0 ? r : q->only.len ? discard_part(q, &d, out, err) : discard_whole(q, &d, err);
}

/* One that runs stays, and is named; the others go. */
static int discard_all(const struct discard_request *q, struct buf *out, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    int r = run_pick_list(q->directory, &list, err);

    for (size_t i = 0; i < list.n && r >= 0; i++) {
        struct err why = {0};

        if (list.v[i].info.mode == WORKSPACE_DIRECT)
            continue;
        r = discard_one(q, list.v[i].name, out, &why);
        if (r == -EBUSY) {
            log_err(&why);
            r = 0;
        } else if (r < 0) {
            *err = why;
        }
    }
    return r < 0 ? r : 0;
}

static int run_discard(struct verb_call *c, struct err *err) {
    struct discard_request q = {0};
    int r = read_request(c, &q, err);

    if (r == 0)
        r = q.all ? discard_all(&q, &c->out, err) : discard_one(&q, q.run, &c->out, err);
    strv_done(&q.only);
    return r;
}

const struct verb verb_discard = {
    .name = "discard",
    .summary = "throw away what a run changed",
    .synopsis = "[options] [RUN]",
    .description =
        "Throws away what a run in overlay, sync or worktree mode changed, for good; in worktree mode its branch, too. RUN is the name "
        "of a run; without it, the latest of this workspace that has changes left. The workspace itself is not touched.\n\n"
        "On a terminal it asks first; elsewhere it needs --yes. With --only, the rest of the run stays. A run in direct mode has "
        "changed the workspace itself: 'bawn rollback' takes that back.\n\n"
        "    bawn discard\n"
        "    bawn discard my-run --only 'dist/'\n"
        "    bawn discard --all --yes",
    VERB_OPTS(opts),
    .run = run_discard,
};
