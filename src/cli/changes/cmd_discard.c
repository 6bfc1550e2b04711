/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/changes/run_pick.h"
#include "workspace/apply/apply.h"

enum { OPT_DIRECTORY = 1, OPT_ONLY, OPT_ALL, OPT_YES, EXIT_NOT_DONE = 1, QUESTION_MAX = 1024 };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_ONLY, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL},
    {OPT_ALL, 0, "all", NULL, "every run of this workspace, but those in direct mode", NULL},
    {OPT_YES, 'y', "yes", NULL, "do not ask", NULL},
};

struct discard_request {
    const char *directory, *run;
    struct strv only;
    bool all, yes;
};

static void request_done(struct discard_request *q) {
    strv_done(&q->only);
}

static int check(const struct discard_request *q, struct err *err) {
    if (q->all && q->run)
        return err_usage(err, "--all and the name of a run exclude each other");
    if (q->all && q->only.len)
        return err_usage(err, "--all and --only exclude each other");
    return 0;
}

/* The name of the run may stand before options, too. */
static int read_options(int argc, char **argv, struct discard_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) >= 0) {
        if (r == 0 && it.pos >= argc)
            return check(ret, err);
        if (r == 0 && ret->run)
            return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
        if (r == 0) {
            ret->run = argv[it.pos++];
            continue;
        }
        switch (it.id) {
        case OPT_DIRECTORY:
            ret->directory = it.value;
            break;
        case OPT_ONLY:
            if (strv_add(&ret->only, it.value) < 0)
                return err_oom(err);
            break;
        case OPT_ALL:
            ret->all = true;
            break;
        case OPT_YES:
            ret->yes = true;
            break;
        }
    }
    return r;
}

static int agree(const struct discard_request *q, const char *question, struct err *err) {
    if (q->yes)
        return 0;
    if (!isatty(STDIN_FILENO))
        return err_usage(err, "nobody is there to be asked; look at the run with 'bawn review' and repeat with --yes");
    return run_print_ask(question) ? 0 : err_set(err, -ECANCELED, "nothing was discarded");
}

static int discard_part(const struct discard_request *q, struct run_pick *p, struct err *err) {
    CLEANUP(change_set_done) struct change_set before = CHANGE_SET_INIT, after = CHANGE_SET_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);
    CLEANUP(strv_done) struct strv left = {0};
    char question[QUESTION_MAX];
    int r = run_pick_changes(p, &before, err);

    snprintf(question, sizeof question, "Discard these changes of run '%s' for good?", p->rd.name);
    r = r < 0 ? r : agree(q, question, err);
    r = r < 0 ? r : audit_verb_changes(AUDIT_DISCARD, p->rd.name, "discard --only", &before, &q->only, err);
    r = r < 0 ? r : discard_changes(&p->rd, &before, &q->only, &left, err);
    r = r < 0 ? r : run_pick_changes(p, &after, err);
    if (r < 0)
        return r;
    if (before.n == after.n && left.len == 0)
        return err_usage(err, "--only names none of the changes");
    for (size_t i = 0; i < before.n; i++)
        if (!change_find(&after, before.v[i].path))
            run_print_line(&b, &before.v[i], "discarded", NULL);
    run_print_left(&b, &left, "a folder above it was deleted or replaced as a whole; discard that");
    buf_addf(&b, "%zu %s discarded, %zu left in run '%s'\n", before.n - after.n, run_print_files(before.n - after.n), after.n,
             p->rd.name);
    r = run_print_out(&b, err);
    return r < 0 ? r : left.len ? EXIT_NOT_DONE : 0;
}

static int discard_run(const struct discard_request *q, struct run_pick *p, struct err *err) {
    CLEANUP(change_set_done) struct change_set s = CHANGE_SET_INIT;
    CLEANUP(freep) char *name = strdup(p->rd.name);
    char question[QUESTION_MAX];
    int r = run_pick_changes(p, &s, err);

    if (!name)
        return err_oom(err);
    snprintf(question, sizeof question, "Discard run '%s' with %zu changed %s for good?", name, s.n, run_print_files(s.n));
    r = r < 0 ? r : agree(q, question, err);
    r = r < 0 ? r : audit_verb_changes(AUDIT_DISCARD, name, "discard", &s, NULL, err);
    r = r < 0 ? r : run_pick_remove(p, err);
    if (r == 0)
        printf("run '%s' discarded, with %zu changed %s\n", name, s.n, run_print_files(s.n));
    return r;
}

static int discard_one(const struct discard_request *q, const char *name, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    const struct run_pick_opts o = {.directory = q->directory, .name = name, .what = RUN_PICK_APART, .lock = true};
    int r = run_pick(&o, &p, err);

    if (r < 0)
        return r;
    if (p.rd.info.mode == WORKSPACE_DIRECT)
        return err_usage(err, "run '%s' was in direct mode: its changes are in the workspace; 'bawn rollback %s' takes them back",
                         p.rd.name, p.rd.name);
    return q->only.len ? discard_part(q, &p, err) : discard_run(q, &p, err);
}

/* One that runs stays, and is named; the others go. */
static int discard_listed(const struct discard_request *q, const struct rundir_list *list, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        struct err why = {0};

        if (list->v[i].info.mode == WORKSPACE_DIRECT)
            continue;
        r = discard_one(q, list->v[i].name, &why);
        if (r == -EBUSY) {
            log_err(&why);
            r = 0;
        } else if (r < 0) {
            *err = why;
        }
    }
    return r < 0 ? r : 0;
}

static int discard_all(const struct discard_request *q, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    CLEANUP(freep) char *home = NULL, *runs = NULL, *workspace = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : rundir_folder(environ, home, &runs, err);
    r = r < 0 ? r : paths_workspace(q->directory, &workspace, err);
    if (r < 0)
        return r;
    if (!runs || access(runs, F_OK) < 0)
        return 0;
    r = rundir_list(runs, workspace, &list, err);
    return r < 0 ? r : discard_listed(q, &list, err);
}

static int run_discard(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct discard_request q = {0};
    struct err err = {0};
    int r = read_options(argc, argv, &q, &err);

    if (r == 0)
        r = q.all ? discard_all(&q, &err) : discard_one(&q, q.run, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Throws away what a run in overlay, sync or worktree mode changed, for good; in worktree mode its branch, too. RUN is the name "
    "of a run; without it, the latest of this workspace that has changes left. The workspace itself is not touched.\n\n"
    "On a terminal it asks first; elsewhere it needs --yes. With --only, the rest of the run stays. A run in direct mode has "
    "changed the workspace itself: 'bawn rollback' takes that back.\n\n"
    "    bawn discard\n"
    "    bawn discard my-run --only 'dist/'\n"
    "    bawn discard --all --yes";

const struct verb verb_discard = {
    .name = "discard",
    .summary = "throw away what a run changed",
    .synopsis = "[options] [RUN]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_discard,
};
