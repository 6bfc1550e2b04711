/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn apply`. */
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/apply_ask.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/changes/changes.h"
#include "review/report/escape.h"

enum { EXIT_NOT_DONE = 1, RISKY_SHOWN = 10, BELOW_SHOWN = 50 };

static opt_call take_classes;

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
    {0, 'y', "yes", "[=CLASSES]", "do not ask, apply all; or only these: high, dependencies, medium, low, none",
     "high|dependencies|medium|low|none|dependencies,medium,low|medium,low",
     OPT_TO_CALL(struct apply_request, apply.classes, take_classes)},
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
};

/* "medium,low". What has no risk always comes along: "none" alone is only that. */
static int take_classes(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    unsigned *classes = to;

    if (!value) {
        *classes = CHANGES_ALL;
        return 0;
    }
    *classes = 1u << CHANGES_NONE;
    for (const char *s = value;; s++) {
        size_t len = strcspn(s, ",");
        int i = 0;

        while (i < CHANGES_CLASSES && !(strlen(changes_class_names[i]) == len && strncmp(s, changes_class_names[i], len) == 0))
            i++;
        if (i == CHANGES_CLASSES)
            return err_usage(err, "--yes is a list of high, dependencies, medium, low and none, not '%s'", value);
        *classes |= 1u << i;
        s += len;
        if (*s == 0)
            return 0;
    }
}

static int read_request(const struct verb_call *c, struct apply_request *ret, struct err *err) {
    int n = verb_parse(c, ret, 1, err);

    if (n < 0)
        return n;
    ret->apply.run = n ? c->argv[1] : NULL;
    if (ret->force && !ret->undo)
        return err_usage(err, "--force goes with --undo; see --conflict overwrite");
    if (!ret->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        ret->apply.ask = apply_ask;
    if (ret->undo && (ret->apply.only.len || ret->apply.except.len || ret->apply.dry_run))
        return err_usage(err, "--undo takes back the whole apply");
    return 0;
}

/* "12 applied, 1 left"; of a dry run "12 would be applied, 1 left". */
static void add_counts(struct buf *b, const struct apply_result *r, bool would) {
    size_t count[APPLY_OUTCOMES] = {0};
    bool any = false;

    for (size_t i = 0; i < r->n; i++)
        count[r->v[i].outcome]++;
    for (int i = 0; i < APPLY_OUTCOMES; i++)
        if (count[i]) {
            buf_addf(b, "%s%zu %s%s", any ? ", " : "", count[i], would && i <= APPLY_MERGED ? "would be " : "",
                     apply_outcome_names[i]);
            any = true;
        }
    buf_adds(b, any ? "" : "no changes");
}

static const char *outcome_word(enum apply_outcome outcome, bool would) {
    static const char *const words[] = {[APPLY_DONE] = "would apply", [APPLY_MERGED] = "would merge"};

    return would && outcome <= APPLY_MERGED ? words[outcome] : apply_outcome_names[outcome];
}

/* Changes from `first` on that are below the same folder at the top; *ret_applied: how many of them were applied. */
static size_t count_below(const struct apply_result *r, size_t first, size_t *ret_applied) {
    const char *path = r->v[first].change->path;
    size_t len = strcspn(path, "/") + 1, i = first;

    *ret_applied = 0;
    for (; i < r->n && (i == first || (path[len - 1] && strncmp(r->v[i].change->path, path, len) == 0)); i++)
        *ret_applied += r->v[i].outcome == APPLY_DONE;
    return i - first;
}

/* Thousands of lines of one folder are no help; --json has them all. */
static void add_items(struct buf *b, const struct apply_result *r, bool would) {
    for (size_t i = 0, end; i < r->n; i = end) {
        const char *path = r->v[i].change->path;
        size_t applied;

        end = i + count_below(r, i, &applied);
        if (applied > BELOW_SHOWN) {
            CLEANUP(freep) char *top = strndup(path, strcspn(path, "/") + 1);

            buf_addf(b, "  %-9s ", outcome_word(APPLY_DONE, would));
            escape_text(b, top ? top : path);
            buf_addf(b, " (%zu changes)\n", applied);
        }
        for (; i < end; i++) {
            const struct apply_item *it = &r->v[i];

            if (it->outcome == APPLY_DONE ? applied <= BELOW_SHOWN : it->outcome != APPLY_LEFT || it->change->hidden)
                run_print_line(b, it->change, outcome_word(it->outcome, would), it->why);
        }
    }
}

/* What stays in the run for its class. */
static void add_left(struct buf *b, const struct changes_applied *a) {
    bool any = false;

    for (int i = 0; i < CHANGES_NONE; i++)
        if (a->left[i]) {
            buf_addf(b, "%s%zu %s", any ? ", " : "left in the run for their risk: ", a->left[i], apply_class_words[i]);
            any = true;
        }
    if (any)
        buf_addf(b, "; 'bawn review %s' shows them\n", a->pick.rd.name);
}

static void add_text_result(struct buf *b, const struct apply_request *q, const struct changes_applied *a) {
    const struct apply_result *r = &a->result;
    const char *run = a->pick.rd.name;
    bool would = q->apply.dry_run || r->conflicts;

    add_items(b, r, would);
    add_left(b, a);
    add_counts(b, r, would);
    if (r->conflicts)
        buf_addf(b, "; nothing was done. Look at 'bawn diff %s', then choose --conflict skip, keep-both or overwrite\n", run);
    else if (q->apply.dry_run)
        buf_adds(b, "; nothing was done (--dry-run)\n");
    else
        buf_addf(b, "; 'bawn apply --undo %s' takes it back\n", run);
}

static void add_risky(struct buf *b, const struct changes_applied *a) {
    const struct strv *risky = &a->risky;
    size_t high = risky->len - a->usual, shown = MIN_OF(high, (size_t)RISKY_SHOWN);

    for (size_t i = 0; i < shown; i++) {
        buf_adds(b, "high risk: ");
        escape_text(b, risky->v[i]);
        buf_addc(b, '\n');
    }
    if (high > shown)
        buf_addf(b, "and %zu more\n", high - shown);
    if (a->usual)
        buf_addf(b, "high risk, but usual after an install: %zu in folders of dependencies\n", a->usual);
    buf_addf(b,
             "nothing was done: the host might run or obey %s. Look at 'bawn review %s', then use --except, --yes=%s to leave "
             "%s in the run, or --yes for all\n",
             risky->len == 1 ? "this file" : "these files", a->pick.rd.name,
             high && a->usual ? "dependencies,medium,low" : "medium,low", risky->len == 1 ? "it" : "them");
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
static int apply(const struct apply_request *q, struct buf *out, struct err *err) {
    CLEANUP(changes_applied_done) struct changes_applied a = CHANGES_APPLIED_INIT;
    int r = changes_apply(&q->apply, &a, err);

    verb_say(&a.set.notes);
    if (a.unlogged)
        log_line("the audit log could not record that nothing was applied");
    if (r < 0)
        return r;
    if (q->json)
        add_json_result(out, q, &a);
    else if (a.stopped)
        buf_adds(out, "nothing was done\n");
    else if (a.risky.len)
        add_risky(out, &a);
    else
        add_text_result(out, q, &a);
    return a.risky.len || a.stopped || a.result.conflicts ? EXIT_NOT_DONE : 0;
}

static int undo(const struct apply_request *q, struct buf *out, struct err *err) {
    const struct run_pick_opts o = {.directory = q->apply.directory, .name = q->apply.run, .what = RUN_PICK_UNDO, .lock = true};
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    CLEANUP(strv_done) struct strv left = {0};
    struct jsonout j = {.to = out};
    int r = run_pick(&o, &p, err);

    r = r < 0 ? r : changes_undo(&p, q->force, &left, err);
    if (r < 0)
        return r;
    if (q->json) {
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "run", p.rd.name);
        jsonout_bool(&j, "undone", true);
        run_print_json_list(&j, "left", &left);
        buf_adds(out, "}\n");
    } else {
        run_print_left(out, &left, "changed since; --force restores it all the same");
        buf_addf(out, "taken back%s\n", left.len ? ", but for these" : "");
    }
    return left.len ? EXIT_NOT_DONE : 0;
}

static int run_apply(struct verb_call *c, struct err *err) {
    struct apply_request q = {0};
    int r = read_request(c, &q, err);

    if (r == 0)
        r = q.undo ? undo(&q, &c->out, err) : apply(&q, &c->out, err);
    changes_apply_done(&q.apply);
    return r;
}

const struct verb verb_apply = {
    .name = "apply",
    .summary = "bring the changes of a run into the workspace",
    .synopsis = "[options] [RUN]",
    .description =
        "Brings the changes of a run in overlay, sync or worktree mode into the workspace. RUN is the name of a run; without it, the "
        "latest of this workspace that has changes left.\n\n"
        "All or nothing: if a file was changed on the host, too, and the changes cannot be merged, nothing is done until --conflict "
        "says what to do. Each file is replaced in one step, and a crash in the middle is taken back by the next call. Hidden names, "
        "devices, setuid bits and symbolic links that may lead out of the workspace are never brought in (the last with "
        "--allow-links-out).\n\n"
        "If 'bawn review' calls anything a high risk, you are asked on the terminal about each class: high; dependencies (node_modules, "
        ".venv and their like, but for what no honest install brings, which is high); medium; low. What you do not want stays in the run. Without a terminal "
        "nothing is done unless --yes says what: all, or a list of classes, and the rest stays in the run. What has no risk always comes along; "
        "--yes=none is only that.\n\n"
        "What was applied leaves the run; the rest stays for later. Until the next apply in this workspace, or 'bawn discard RUN', "
        "--undo takes the last one back, and the changes are in the run again.\n\n"
        "The exit status is 0 if it was done, 1 if nothing was because of conflicts or risks (with --undo: if some files were left), "
        "125 if it failed.\n\n"
        "    bawn apply\n"
        "    bawn apply --only 'src/**' --except '*.lock'\n"
        "    bawn apply --except node_modules/ --yes=medium,low\n"
        "    bawn apply my-run --conflict keep-both\n"
        "    bawn apply --undo",
    VERB_OPTS(opts),
    .run = run_apply,
};
