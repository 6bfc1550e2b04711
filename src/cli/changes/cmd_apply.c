/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/audit_verb.h"
#include "ops/changes/apply_risk.h"
#include "ops/changes/run_pick.h"
#include "review/report/escape.h"
#include "supervisor/session/review_spawn.h"
#include "workspace/apply/apply.h"

enum {
    OPT_DIRECTORY = 1,
    OPT_ONLY,
    OPT_EXCEPT,
    OPT_CONFLICT,
    OPT_LINKS_OUT,
    OPT_DRY_RUN,
    OPT_UNDO,
    OPT_FORCE,
    OPT_YES,
    OPT_JSON,
    EXIT_NOT_DONE = 1,
    RISKY_SHOWN = 10
};

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_ONLY, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL},
    {OPT_EXCEPT, 0, "except", "GLOB", "all but these paths; may be repeated", NULL},
    {OPT_CONFLICT, 0, "conflict", "WAY", "if both sides changed a file: stop (default), skip, keep-both or overwrite",
     "stop|skip|keep-both|overwrite"},
    {OPT_LINKS_OUT, 0, "allow-links-out", NULL, "also symbolic links that may lead out of the workspace", NULL},
    {OPT_DRY_RUN, 'n', "dry-run", NULL, "only say what would be done", NULL},
    {OPT_UNDO, 0, "undo", NULL, "take the last apply, or rollback, back", NULL},
    {OPT_FORCE, 0, "force", NULL, "with --undo: also where files changed since", NULL},
    {OPT_YES, 'y', "yes", NULL, "apply changes of high risk, too", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct apply_request {
    const char *directory, *run;
    struct strv only, except;
    enum apply_conflict conflict;
    bool links_out, dry_run, undo, force, yes, json;
};

static void request_done(struct apply_request *q) {
    strv_done(&q->only);
    strv_done(&q->except);
}

static int read_conflict(const char *word, enum apply_conflict *ret, struct err *err) {
    static const char *const words[] = {
        [APPLY_STOP] = "stop", [APPLY_SKIP] = "skip", [APPLY_KEEP_BOTH] = "keep-both", [APPLY_OVERWRITE] = "overwrite"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq(words[i], word)) {
            *ret = (enum apply_conflict)i;
            return 0;
        }
    return err_usage(err, "--conflict is stop, skip, keep-both or overwrite, not '%s'", word);
}

static int set_option(struct apply_request *q, int id, const char *value, struct err *err) {
    switch (id) {
    case OPT_DIRECTORY:
        q->directory = value;
        break;
    case OPT_ONLY:
        return strv_add(&q->only, value) < 0 ? err_oom(err) : 0;
    case OPT_EXCEPT:
        return strv_add(&q->except, value) < 0 ? err_oom(err) : 0;
    case OPT_CONFLICT:
        return read_conflict(value, &q->conflict, err);
    case OPT_LINKS_OUT:
        q->links_out = true;
        break;
    case OPT_DRY_RUN:
        q->dry_run = true;
        break;
    case OPT_UNDO:
        q->undo = true;
        break;
    case OPT_FORCE:
        q->force = true;
        break;
    case OPT_YES:
        q->yes = true;
        break;
    case OPT_JSON:
        q->json = true;
        break;
    }
    return 0;
}

/* The name of the run may stand before options, too. */
static int read_options(int argc, char **argv, struct apply_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r = 0;

    while (r >= 0) {
        while ((r = opt_next(&it, err)) > 0) {
            r = set_option(ret, it.id, it.value, err);
            if (r < 0)
                return r;
        }
        if (r < 0 || it.pos >= argc)
            break;
        if (ret->run)
            return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
        ret->run = argv[it.pos++];
    }
    if (r == 0 && ret->force && !ret->undo)
        return err_usage(err, "--force goes with --undo; see --conflict overwrite");
    if (r == 0 && ret->undo && (ret->only.len || ret->except.len || ret->dry_run))
        return err_usage(err, "--undo takes back the whole apply");
    return r;
}

/* -- saying what happened ----------------------------------------------------------------------------------------------- */

static void add_items(struct buf *b, const struct apply_result *r, bool json) {
    for (size_t i = 0, shown = 0; i < r->n; i++) {
        const struct apply_item *it = &r->v[i];
        const char *outcome = apply_outcome_names[it->outcome];

        if (json) {
            buf_adds(b, shown++ ? ",\n  " : "\n  ");
            run_print_json(b, it->change, outcome, it->why);
        } else if (it->outcome != APPLY_LEFT || it->change->hidden) {
            run_print_line(b, it->change, outcome, it->why);
        }
    }
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

static void add_summary(struct buf *b, const struct apply_request *q, const struct run_pick *p, const struct apply_result *r) {
    const char *run = p->rd.name;

    add_counts(b, r);
    if (r->conflicts)
        buf_addf(b, "; nothing was done. Look at 'bawn diff %s', then choose --conflict skip, keep-both or overwrite\n", run);
    else if (q->dry_run)
        buf_adds(b, "; nothing was done (--dry-run)\n");
    else
        buf_addf(b, "; 'bawn apply --undo %s' takes it back\n", run);
}

static int tell(const struct apply_request *q, const struct run_pick *p, const struct apply_result *r, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);

    if (q->json) {
        buf_adds(&b, "{\"run\": ");
        buf_add_json(&b, p->rd.name);
        buf_addf(&b, ", \"done\": %s, \"conflicts\": %s, \"changes\": [", r->conflicts || q->dry_run ? "false" : "true",
                 r->conflicts ? "true" : "false");
        add_items(&b, r, true);
        buf_adds(&b, "]}\n");
    } else {
        add_items(&b, r, false);
        add_summary(&b, q, p, r);
    }
    return run_print_out(&b, err);
}

static int tell_risky(const struct apply_request *q, const struct run_pick *p, const struct strv *risky, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);

    if (q->json) {
        buf_adds(&b, "{\"run\": ");
        buf_add_json(&b, p->rd.name);
        buf_adds(&b, ", \"done\": false, \"conflicts\": false, \"risky\": ");
        run_print_json_list(&b, risky);
        buf_adds(&b, "}\n");
        return run_print_out(&b, err);
    }
    for (size_t i = 0; i < risky->len && i < RISKY_SHOWN; i++) {
        buf_adds(&b, "high risk: ");
        escape_text(&b, risky->v[i]);
        buf_addc(&b, '\n');
    }
    if (risky->len > RISKY_SHOWN)
        buf_addf(&b, "and %zu more\n", risky->len - RISKY_SHOWN);
    buf_addf(&b,
             "nothing was done: the host might run or obey %s. Look at 'bawn review %s', then use --except, or --yes for all\n",
             risky->len == 1 ? "this file" : "these files", p->rd.name);
    return run_print_out(&b, err);
}

/* -- doing it ----------------------------------------------------------------------------------------------------------- */

static struct apply_opts options_for(const struct apply_request *q) {
    return (struct apply_opts){
        .only = &q->only,
        .except = &q->except,
        .conflict = q->conflict,
        .dry_run = q->dry_run,
        .allow_links_out = q->links_out,
        .merge = review_merge,
    };
}

/* Returns 1, and has said so, if there is something that the user has to look at first. */
static int check_risks(const struct apply_request *q, struct run_pick *p, const struct change_set *s, struct err *err) {
    CLEANUP(apply_result_done) struct apply_result would = {0};
    CLEANUP(strv_done) struct strv risky = {0};
    struct apply_opts o = options_for(q);
    int r;

    o.dry_run = true;
    o.merge = NULL;
    r = apply_changes(&p->rd, s, p->workspace, &o, &would, err);
    if (r < 0)
        return r;
    r = apply_risks(p, &would, &risky, err);
    if (r < 0)
        return err_ctx(err, r, "the changes could not be judged, and --yes was not given");
    if (risky.len == 0)
        return 0;
    r = tell_risky(q, p, &risky, err);
    return r < 0 ? r : 1;
}

/* A run of which nothing is left is kept for --undo alone, and takes the place of earlier ones. */
static int close_run(struct run_pick *p, struct err *err) {
    CLEANUP(change_set_done) struct change_set now = CHANGE_SET_INIT;
    int r = run_pick_changes(p, &now, err);

    if (r < 0 || now.n)
        return r;
    r = run_pick_mark_applied(p, err);
    return r < 0 ? r : run_pick_sweep(p, err);
}

static int check_named(const struct apply_request *q, const struct apply_result *r, struct err *err) {
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].outcome != APPLY_LEFT)
            return 0;
    return r->n && (q->only.len || q->except.len) ? err_usage(err, "--only and --except leave none of the changes") : 0;
}

/* Whoever wrote --yes has approved what is risky, too. */
static int note(const struct apply_request *q, const struct run_pick *p, const struct change_set *s, struct err *err) {
    return q->dry_run ? 0 : audit_verb_changes(AUDIT_APPLY, p->rd.name, q->yes ? "apply --yes" : "apply", s, &q->only, err);
}

static int apply(const struct apply_request *q, struct run_pick *p, struct err *err) {
    CLEANUP(change_set_done) struct change_set s = CHANGE_SET_INIT;
    CLEANUP(apply_result_done) struct apply_result result = {0};
    const struct apply_opts o = options_for(q);
    int r;

    if (p->rd.info.mode == WORKSPACE_DIRECT)
        return err_usage(err,
                         "run '%s' was in direct mode: its changes are in the workspace already; 'bawn rollback' takes them back",
                         p->rd.name);
    r = run_pick_changes(p, &s, err);
    for (size_t i = 0; r == 0 && i < s.notes.len; i++)
        log_line("%s", s.notes.v[i]);
    if (r == 0 && !q->yes && !q->dry_run)
        r = check_risks(q, p, &s, err);
    if (r != 0)
        return r < 0 ? r : EXIT_NOT_DONE;
    r = note(q, p, &s, err);
    r = r < 0 ? r : apply_changes(&p->rd, &s, p->workspace, &o, &result, err);
    if (!q->dry_run && (r < 0 || result.conflicts)) {
        int told = audit_verb_word(AUDIT_APPLY, p->rd.name, "not applied", NULL, NULL);

        if (told < 0)
            log_line("that it was not applied is not in the audit log");
    }
    r = r < 0 ? r : check_named(q, &result, err);
    if (r == 0 && !q->dry_run && !result.conflicts)
        r = close_run(p, err);
    r = r < 0 ? r : tell(q, p, &result, err);
    return r < 0 ? r : result.conflicts ? EXIT_NOT_DONE : 0;
}

static int undo(const struct apply_request *q, struct run_pick *p, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);
    CLEANUP(strv_done) struct strv left = {0};
    int r = audit_verb_word(AUDIT_ROLLBACK, p->rd.name, q->force ? "apply --undo --force" : "apply --undo", NULL, err);

    r = r < 0 ? r : apply_undo(&p->rd, p->workspace, q->force, &left, err);
    r = r < 0 ? r : run_pick_unmark(p, err);
    if (r < 0)
        return r;
    if (q->json) {
        buf_adds(&b, "{\"run\": ");
        buf_add_json(&b, p->rd.name);
        buf_adds(&b, ", \"undone\": true, \"left\": ");
        run_print_json_list(&b, &left);
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
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    struct err err = {0};
    int r = read_options(argc, argv, &q, &err);
    const struct run_pick_opts o = {
        .directory = q.directory, .name = q.run, .what = q.undo ? RUN_PICK_UNDO : RUN_PICK_APART, .lock = true};

    r = r < 0 ? r : run_pick(&o, &p, &err);
    if (r == 0)
        r = q.undo ? undo(&q, &p, &err) : apply(&q, &p, &err);
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
