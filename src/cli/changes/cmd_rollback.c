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
#include "ops/changes/run_pick.h"
#include "workspace/apply/apply.h"

enum { OPT_DIRECTORY = 1, OPT_ONLY, OPT_FORCE, OPT_DRY_RUN, OPT_JSON, EXIT_NOT_ALL = 1 };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {OPT_ONLY, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL},
    {OPT_FORCE, 0, "force", NULL, "also files that changed since the run ended", NULL},
    {OPT_DRY_RUN, 'n', "dry-run", NULL, "only say what would be done", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct rollback_request {
    const char *directory, *run;
    struct strv only;
    bool force, dry_run, json;
};

static void request_done(struct rollback_request *q) {
    strv_done(&q->only);
}

/* The name of the run may stand before options, too. */
static int read_options(int argc, char **argv, struct rollback_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) >= 0) {
        if (r == 0 && it.pos >= argc)
            return 0;
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
        case OPT_FORCE:
            ret->force = true;
            break;
        case OPT_DRY_RUN:
            ret->dry_run = true;
            break;
        case OPT_JSON:
            ret->json = true;
            break;
        }
    }
    return r;
}

static bool is_left(const struct strv *left, const struct change *c) {
    return strv_has(left, c->path) || (c->from && strv_has(left, c->from));
}

/* What is still there afterwards, and was not named as left, was not asked for. */
static void add_changes(struct buf *b, const struct change_set *s, const struct change_set *after, const struct strv *left,
                        bool json, size_t *ret_restored) {
    size_t shown = 0;

    *ret_restored = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct change *c = &s->v[i];
        bool stays = is_left(left, c);
        const char *outcome = stays ? "left" : "restored", *why = stays ? "changed since, in use, or not kept" : NULL;

        if (!stays && change_find(after, c->path))
            continue;
        *ret_restored += !stays;
        if (json) {
            buf_adds(b, shown++ ? ",\n  " : "\n  ");
            run_print_json(b, c, outcome, why);
        } else {
            run_print_line(b, c, outcome, why);
        }
    }
}

static int tell(const struct rollback_request *q, const struct run_pick *p, const struct change_set *s,
                const struct change_set *after, const struct strv *left, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_PRINT_MAX);
    size_t restored = 0;

    if (q->json) {
        buf_adds(&b, "{\"run\": ");
        buf_add_json(&b, p->rd.name);
        buf_addf(&b, ", \"done\": %s, \"changes\": [", q->dry_run ? "false" : "true");
        add_changes(&b, s, after, left, true, &restored);
        buf_adds(&b, "]}\n");
        return run_print_out(&b, err);
    }
    add_changes(&b, s, after, left, false, &restored);
    buf_addf(&b, "%zu restored, %zu left; ", restored, left->len);
    if (q->dry_run)
        buf_adds(&b, "nothing was done (--dry-run)\n");
    else if (restored)
        buf_addf(&b, "'bawn apply --undo %s' takes it back\n", p->rd.name);
    else
        buf_adds(&b, "nothing had to be done\n");
    return run_print_out(&b, err);
}

static int roll_back(const struct rollback_request *q, struct run_pick *p, struct err *err) {
    CLEANUP(change_set_done) struct change_set s = CHANGE_SET_INIT, after = CHANGE_SET_INIT;
    CLEANUP(strv_done) struct strv left = {0};
    int r;

    if (p->rd.info.mode != WORKSPACE_DIRECT)
        return err_usage(err,
                         "run '%s' was in %s mode, so the workspace has nothing of it; 'bawn discard %s' throws its changes away",
                         p->rd.name, workspace_mode_names[p->rd.info.mode], p->rd.name);
    r = run_pick_changes(p, &s, err);
    for (size_t i = 0; r == 0 && i < s.notes.len; i++)
        log_line("%s", s.notes.v[i]);
    if (r < 0)
        return r;
    if (q->dry_run)
        r = rollback_check(&p->rd, &s, p->workspace, &q->only, q->force, &left, err);
    else
        r = audit_verb_changes(AUDIT_ROLLBACK, p->rd.name, q->force ? "rollback --force" : "rollback", &s, &q->only, err);
    if (r == 0 && !q->dry_run)
        r = rollback_run(&p->rd, &s, p->workspace, &q->only, q->force, &left, err);
    if (r == 0 && !q->dry_run)
        r = run_pick_changes(p, &after, err);
    r = r < 0 ? r : tell(q, p, &s, &after, &left, err);
    return r < 0 ? r : left.len ? EXIT_NOT_ALL : 0;
}

static int run_rollback(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct rollback_request q = {0};
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    struct err err = {0};
    int r = read_options(argc, argv, &q, &err);
    const struct run_pick_opts o = {.directory = q.directory, .name = q.run, .what = RUN_PICK_DIRECT, .lock = true};

    r = r < 0 ? r : run_pick(&o, &p, &err);
    r = r < 0 ? r : roll_back(&q, &p, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Restores what a run in direct mode changed, deleted or replaced in the workspace, and removes what it made. RUN is the name of "
    "a run; without it, the latest one in direct mode.\n\n"
    "Files that changed since the run ended stay as they are and are named, unless --force is given; so are files whose old content "
    "was too large to be kept. All or nothing otherwise, and 'bawn apply --undo' takes the rollback itself back.\n\n"
    "The exit status is 0 if everything was restored, 1 if something was left, 125 if it failed.\n\n"
    "    bawn rollback --dry-run\n"
    "    bawn rollback --only 'src/**'\n"
    "    bawn rollback my-run --force";

const struct verb verb_rollback = {
    .name = "rollback",
    .summary = "restore the workspace as it was before a run in direct mode",
    .synopsis = "[options] [RUN]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rollback,
};
