/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn rm`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_manage.h"

struct rm_line {
    struct sandbox_remove remove;
    bool json;
};

static const struct opt opts[] = {
    {0, 'f', "force", NULL, "stop it first if it runs; also one whose files are damaged", NULL,
     OPT_TO_FLAG(struct rm_line, remove.force)},
    {0, 0, "all-stopped", NULL, "every sandbox that is not running", NULL, OPT_TO_FLAG(struct rm_line, remove.all_stopped)},
    {0, 0, "discard-changes", NULL, "throw away changes that were not applied, for good", NULL,
     OPT_TO_FLAG(struct rm_line, remove.discard)},
    {0, 0, "keep-changes", NULL, "leave changes that were not applied as a run of the same name", NULL,
     OPT_TO_FLAG(struct rm_line, remove.keep)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct rm_line, json)},
};

static int check_line(const struct sandbox_remove *q, struct err *err) {
    if (q->all_stopped && q->n)
        return err_usage(err, "--all-stopped and names exclude each other");
    if (q->discard && q->keep)
        return err_usage(err, "--discard-changes and --keep-changes exclude each other");
    if (!q->all_stopped && q->n == 0)
        return err_usage(err, "which sandbox? see 'bawn ps -a'");
    return 0;
}

static void add_outcomes_json(const struct sandbox_outcomes *l, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < l->n; i++) {
        jsonout_break(&j, "\n  ");
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "name", l->v[i].name);
        jsonout_bool(&j, "removed", l->v[i].end == SANDBOX_END_REMOVED);
        if (l->v[i].end == SANDBOX_END_FAILED)
            jsonout_text(&j, "error", l->v[i].err.msg);
        jsonout_close(&j, '}');
    }
    buf_adds(out, l->n ? "\n]\n" : "]\n");
}

/* The exit status is the first failure's. */
static int print_outcomes(const struct sandbox_outcomes *l, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    int status = 0, r;

    if (json)
        add_outcomes_json(l, &out);
    for (size_t i = 0; i < l->n; i++) {
        const struct sandbox_outcome *o = &l->v[i];

        if (o->end == SANDBOX_END_FAILED && status == 0)
            status = err_exit_status(&o->err);
        if (o->end == SANDBOX_END_FAILED && !json)
            log_err(&o->err);
        else if (!json)
            buf_addf(&out, "%s\n", o->name);
    }
    r = run_print_out(&out, err);
    return r < 0 ? r : status;
}

static int run_rm_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    struct rm_line q = {.remove.names = argv + 1};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    q.remove.n = (size_t)MAX_OF(r, 0);
    r = r < 0 ? r : check_line(&q.remove, &err);
    r = r < 0 ? r : sandbox_remove(&q.remove, &l, &err);
    r = r < 0 ? r : print_outcomes(&l, q.json, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Removes persistent sandboxes with their home, logs and checkpoints, for good. One that runs is refused, unless --force stops it "
    "first. NAME is a name or an id.\n\n"
    "Changes in overlay, sync or worktree mode that were not applied yet are never deleted silently: the sandbox stays, and the "
    "message names them. --discard-changes throws them away, --keep-changes leaves them as a run of the same name, for 'bawn "
    "review' and 'bawn apply'. The workspace itself and the audit log are not touched.\n\n"
    "    bawn rm dev\n"
    "    bawn rm --all-stopped";

const struct verb verb_rm = {
    .name = "rm",
    .summary = "remove persistent sandboxes",
    .synopsis = "[options] NAME...",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rm_verb,
};
