/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn apply`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/changes/changes.h"
#include "review/report/escape.h"

enum { EXIT_NOT_DONE = 1, RISKY_SHOWN = 10 };

struct apply_request {
    struct changes_apply apply;
    bool undo, force, json;
};

static const char *const conflict_words[] = {
    [APPLY_STOP] = "stop", [APPLY_SKIP] = "skip", [APPLY_KEEP_BOTH] = "keep-both", [APPLY_OVERWRITE] = "overwrite"};

#define TO(kind, member) OPT_TO_##kind(struct apply_request, member)
static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, apply.directory)},
    {0, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL, TO(LIST, apply.only)},
    {0, 0, "except", "GLOB", "all but these paths; may be repeated", NULL, TO(LIST, apply.except)},
    {0, 0, "conflict", "WAY", "if both sides changed a file: stop (default), skip, keep-both or overwrite",
     "stop|skip|keep-both|overwrite", OPT_TO_ENUM(struct apply_request, apply.conflict, conflict_words)},
    {0, 0, "allow-links-out", NULL, "also symbolic links that may lead out of the workspace", NULL, TO(FLAG, apply.links_out)},
    {0, 'n', "dry-run", NULL, "only say what would be done", NULL, TO(FLAG, apply.dry_run)},
    {0, 0, "undo", NULL, "take the last apply, or rollback, back", NULL, TO(FLAG, undo)},
    {0, 0, "force", NULL, "with --undo: also where files changed since", NULL, TO(FLAG, force)},
    {0, 'y', "yes", NULL, "apply changes of high risk, too", NULL, TO(FLAG, apply.risky)},
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
};

static void request_done(struct apply_request *q) {
    changes_apply_done(&q->apply);
}

static int read_request(int argc, char **argv, struct apply_request *ret, struct err *err) {
    int n = opt_parse(opts, ARRAY_LEN(opts), argc, argv, ret, 1, err);

    if (n < 0)
        return n;
    ret->apply.run = n ? argv[1] : NULL;
    if (ret->force && !ret->undo)
        return err_usage(err, "--force goes with --undo; see --conflict overwrite");
    if (ret->undo && (ret->apply.only.len || ret->apply.except.len || ret->apply.dry_run))
        return err_usage(err, "--undo takes back the whole apply");
    return 0;
}

static void add_counts(struct buf *b, const struct apply_result *r) {
    size_t count[APPLY_OUTCOMES] = {0};
    bool any = false;

    for (size_t i = 0; i < r->n; i++)
        count[r->v[i].outcome]++;
    for (int i = 0; i < APPLY_OUTCOMES; i++)
        if (count[i]) {
            buf_addf(b, "%s%zu %s", any ? ", " : "", count[i], apply_outcome_names[i]);
            any = true;
        }
    buf_adds(b, any ? "" : "no changes");
}

static void add_text_result(struct buf *b, const struct apply_request *q, const struct changes_applied *a) {
    const struct apply_result *r = &a->result;
    const char *run = a->pick.rd.name;

    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].outcome != APPLY_LEFT || r->v[i].change->hidden)
            run_print_line(b, r->v[i].change, apply_outcome_names[r->v[i].outcome], r->v[i].why);
    add_counts(b, r);
    if (r->conflicts)
        buf_addf(b, "; nothing was done. Look at 'bawn diff %s', then choose --conflict skip, keep-both or overwrite\n", run);
    else if (q->apply.dry_run)
        buf_adds(b, "; nothing was done (--dry-run)\n");
    else
        buf_addf(b, "; 'bawn apply --undo %s' takes it back\n", run);
}

static void add_risky(struct buf *b, const struct changes_applied *a) {
    const struct strv *risky = &a->risky;

    for (size_t i = 0; i < risky->len && i < RISKY_SHOWN; i++) {
        buf_adds(b, "high risk: ");
        escape_text(b, risky->v[i]);
        buf_addc(b, '\n');
    }
    if (risky->len > RISKY_SHOWN)
        buf_addf(b, "and %zu more\n", risky->len - RISKY_SHOWN);
    buf_addf(b,
             "nothing was done: the host might run or obey %s. Look at 'bawn review %s', then use --except, or --yes for all\n",
             risky->len == 1 ? "this file" : "these files", a->pick.rd.name);
}

static void add_json_result(struct buf *b, const struct apply_request *q, const struct changes_applied *a) {
    const struct apply_result *r = &a->result;
    struct jsonout j = {.to = b};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "run", a->pick.rd.name);
    jsonout_bool(&j, "done", !a->risky.len && !r->conflicts && !q->apply.dry_run);
    jsonout_bool(&j, "conflicts", r->conflicts);
    if (a->risky.len) {
        run_print_json_list(&j, "risky", &a->risky);
    } else {
        jsonout_open(&j, "changes", '[');
        for (size_t i = 0; i < r->n; i++)
            run_print_json(&j, r->v[i].change, apply_outcome_names[r->v[i].outcome], r->v[i].why);
        jsonout_close(&j, ']');
    }
    jsonout_close(&j, '}');
    buf_addc(b, '\n');
}

/* Returns the exit status, or negative. */
static int apply(const struct apply_request *q, struct err *err) {
    CLEANUP(changes_applied_done) struct changes_applied a = CHANGES_APPLIED_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);
    int r = changes_apply(&q->apply, &a, err);

    for (size_t i = 0; i < a.set.notes.len; i++)
        log_line("%s", a.set.notes.v[i]);
    if (a.unlogged)
        log_line("the audit log could not record that nothing was applied");
    if (r < 0)
        return r;
    if (q->json)
        add_json_result(&b, q, &a);
    else if (a.risky.len)
        add_risky(&b, &a);
    else
        add_text_result(&b, q, &a);
    r = run_print_out(&b, err);
    return r < 0 ? r : a.risky.len || a.result.conflicts ? EXIT_NOT_DONE : 0;
}

static int undo(const struct apply_request *q, struct err *err) {
    const struct run_pick_opts o = {.directory = q->apply.directory, .name = q->apply.run, .what = RUN_PICK_UNDO, .lock = true};
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);
    CLEANUP(strv_done) struct strv left = {0};
    struct jsonout j = {.to = &b};
    int r = run_pick(&o, &p, err);

    r = r < 0 ? r : changes_undo(&p, q->force, &left, err);
    if (r < 0)
        return r;
    if (q->json) {
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "run", p.rd.name);
        jsonout_bool(&j, "undone", true);
        run_print_json_list(&j, "left", &left);
        buf_adds(&b, "}\n");
    } else {
        run_print_left(&b, &left, "changed since; --force restores it all the same");
        buf_addf(&b, "taken back%s\n", left.len ? ", but for these" : "");
    }
    r = run_print_out(&b, err);
    return r < 0 ? r : left.len ? EXIT_NOT_DONE : 0;
}

static int run_apply(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct apply_request q = {0};
    struct err err = {0};
    int r = read_request(argc, argv, &q, &err);

    if (r == 0)
        r = q.undo ? undo(&q, &err) : apply(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Brings the changes of a run in overlay, sync or worktree mode into the workspace. RUN is the name of a run; without it, the "
    "latest of this workspace that has changes left.\n\n"
    "All or nothing: if a file was changed on the host, too, and the changes cannot be merged, nothing is done until --conflict "
    "says what to do. Each file is replaced in one step, and a crash in the middle is taken back by the next call. Hidden names, "
    "devices, setuid bits and symbolic links that may lead out of the workspace are never brought in (the last with "
    "--allow-links-out). Changes that 'bawn review' calls a high risk need --yes.\n\n"
    "What was applied leaves the run; the rest stays for later. Until the next apply in this workspace, or 'bawn discard RUN', "
    "--undo takes the last one back, and the changes are in the run again.\n\n"
    "The exit status is 0 if it was done, 1 if nothing was because of conflicts or risks (with --undo: if some files were left), "
    "125 if it failed.\n\n"
    "    bawn apply\n"
    "    bawn apply --only 'src/**' --except '*.lock'\n"
    "    bawn apply my-run --conflict keep-both\n"
    "    bawn apply --undo";

const struct verb verb_apply = {
    .name = "apply",
    .summary = "bring the changes of a run into the workspace",
    .synopsis = "[options] [RUN]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_apply,
};
