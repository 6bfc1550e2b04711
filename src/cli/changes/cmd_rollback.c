/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn rollback`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/changes/changes.h"

enum { EXIT_NOT_ALL = 1 };

struct rollback_request {
    struct changes_rollback rollback;
    bool json;
};

#define TO(kind, member) OPT_TO_##kind(struct rollback_request, member)
static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, rollback.directory)},
    {0, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL, TO(LIST, rollback.only)},
    {0, 0, "force", NULL, "also files that changed since the run ended", NULL, TO(FLAG, rollback.force)},
    {0, 'n', "dry-run", NULL, "only say what would be done", NULL, TO(FLAG, rollback.dry_run)},
    {0, 0, "json", NULL, "print JSON", NULL, TO(FLAG, json)},
};

/* What is still there afterwards, and was not named as left, was not asked for. Returns how many were restored. */
static size_t add_changes(const struct changes_rolled_back *b, struct jsonout *json, struct buf *text) {
    size_t restored = 0;

    for (size_t i = 0; i < b->set.n; i++) {
        const struct change *c = &b->set.v[i];
        bool stays = strv_has(&b->left, c->path) || (c->from && strv_has(&b->left, c->from));
        const char *outcome = stays ? "left" : "restored",
                   *why = stays ? "changed since, in use, or its old content was not stored" : NULL;

        if (!stays && change_find(&b->after, c->path))
            continue;
        restored += !stays;
        if (json)
            run_print_json(json, c, outcome, why);
        else
            run_print_line(text, c, outcome, why);
    }
    return restored;
}

static void add_json_changes(const struct changes_rolled_back *b, bool dry_run, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "run", b->pick.rd.name);
    jsonout_bool(&j, "done", !dry_run);
    jsonout_open(&j, "changes", '[');
    add_changes(b, &j, NULL);
    buf_adds(out, "]}\n");
}

static void add_text_changes(const struct changes_rolled_back *b, bool dry_run, struct buf *out) {
    size_t restored = add_changes(b, NULL, out);

    buf_addf(out, "%zu restored, %zu left; ", restored, b->left.len);
    if (dry_run)
        buf_adds(out, "nothing was done (--dry-run)\n");
    else if (restored)
        buf_addf(out, "'bawn apply --undo %s' takes it back\n", b->pick.rd.name);
    else
        buf_adds(out, "nothing had to be done\n");
}

/* Returns the exit status, or negative. */
static int roll_back(const struct rollback_request *q, struct buf *out, struct err *err) {
    CLEANUP(changes_rolled_back_done) struct changes_rolled_back done = CHANGES_ROLLED_BACK_INIT;
    int r = changes_rollback(&q->rollback, &done, err);

    verb_say(&done.set.notes);
    if (r < 0)
        return r;
    (q->json ? add_json_changes : add_text_changes)(&done, q->rollback.dry_run, out);
    return done.left.len ? EXIT_NOT_ALL : 0;
}

static int run_rollback(struct verb_call *c, struct err *err) {
    struct rollback_request q = {0};
    int r = verb_parse(c, &q, 1, err);

    q.rollback.run = r > 0 ? c->argv[1] : NULL;
    r = r < 0 ? r : roll_back(&q, &c->out, err);
    strv_done(&q.rollback.only);
    return r;
}

const struct verb verb_rollback = {
    .name = "rollback",
    .summary = "restore the workspace as it was before a run in direct mode",
    .synopsis = "[options] [RUN]",
    .description =
        "Restores what a run in direct mode changed, deleted or replaced in the workspace, and removes what it made. RUN is the name of "
        "a run; without it, the latest one in direct mode.\n\n"
        "Files that changed since the run ended stay as they are and are named, unless --force is given; so are files whose old content "
        "was too large to store. All or nothing otherwise, and 'bawn apply --undo' takes the rollback itself back.\n\n"
        "The exit status is 0 if everything was restored, 1 if something was left, 125 if it failed.\n\n"
        "    bawn rollback --dry-run\n"
        "    bawn rollback --only 'src/**'\n"
        "    bawn rollback my-run --force",
    VERB_OPTS(opts),
    .run = run_rollback,
};
