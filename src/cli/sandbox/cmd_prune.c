/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn prune`. */
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/record.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "ops/sandbox/prune.h"

static const uint64_t month_ms = 30ull * 86400 * 1000;

struct prune_line {
    struct prune_opts opts;
    bool json;
};

static const struct opt opts[] = {
    {0, 'n', "dry-run", NULL, "only say what would be removed", NULL, OPT_TO_FLAG(struct prune_line, opts.dry_run)},
    {0, 0, "older", "TIME", "what was not used for so long (default: 30d)", NULL, OPT_TO_TIME(struct prune_line, opts.older_ms)},
    {0, 0, "budget", "SIZE", "then the least used ones, until all of it takes no more than this", NULL,
     OPT_TO_SIZE(struct prune_line, opts.budget)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct prune_line, json)},
};

static const struct column removed_columns[] = {
    {NULL, "kind", COLUMN(TEXT, struct prune_item, kind)},
    {NULL, "name", COLUMN(TEXT, struct prune_item, name)},
    {NULL, "bytes", COLUMN(U64, struct prune_item, bytes)},
};
static const struct column left_columns[] = {
    {NULL, "kind", COLUMN(TEXT, struct prune_item, kind)},
    {NULL, "name", COLUMN(TEXT, struct prune_item, name)},
    {NULL, "why", COLUMN(CHARS, struct prune_item, why)},
};
static const struct column space_columns[] = {
    {"SIZE", NULL, COLUMN(SIZE, struct space_item, bytes)},
    {"WHAT", "kind", COLUMN(ENUM, struct space_item, kind), .names = space_kind_names},
    {"NAME", "name", COLUMN(TEXT, struct space_item, name)},
    {NULL, "bytes", COLUMN(U64, struct space_item, bytes)},
};
static const struct record_kind removed_items = {removed_columns, ARRAY_LEN(removed_columns), sizeof(struct prune_item)},
                                left_items = {left_columns, ARRAY_LEN(left_columns), sizeof(struct prune_item)},
                                spaces = {space_columns, ARRAY_LEN(space_columns), sizeof(struct space_item)};

static void add_prune_json(const struct prune_line *q, const struct prune_result *o, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "dry_run", q->opts.dry_run);
    jsonout_break(&j, "\n ");
    jsonout_open(&j, "stale", '{');
    jsonout_int(&j, "sockets", o->swept.sockets);
    jsonout_int(&j, "folders", o->swept.folders);
    jsonout_int(&j, "cgroups", o->swept.groups);
    jsonout_int(&j, "sandboxes", o->swept.sandboxes);
    jsonout_int(&j, "checkpoints", o->swept.checkpoints);
    jsonout_close(&j, '}');
    jsonout_break(&j, "\n ");
    record_array(&removed_items, o->removed.v, o->removed.n, "removed", RECORD_INLINE, &j);
    jsonout_break(&j, "\n ");
    record_array(&left_items, o->left.v, o->left.n, "kept", RECORD_INLINE, &j);
    jsonout_break(&j, "\n ");
    record_array(&spaces, o->space.v, o->space.n, "space", RECORD_INLINE, &j);
    jsonout_break(&j, "\n ");
    jsonout_u64(&j, "total", o->space.total);
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}

static void add_prune_lines(const struct prune_line *q, const struct prune_result *o, struct buf *out) {
    int stale = o->swept.sockets + o->swept.folders + o->swept.groups + o->swept.sandboxes + o->swept.checkpoints;
    const char *verb = q->opts.dry_run ? "would remove" : "removed";
    uint64_t freed = 0;
    char size[24];

    for (size_t i = 0; i < o->removed.n; i++) {
        format_size(o->removed.v[i].bytes, size);
        freed += o->removed.v[i].bytes;
        buf_addf(out, "%s %s ", verb, o->removed.v[i].kind);
        buf_add_printable(out, o->removed.v[i].name);
        buf_addf(out, " (%s)\n", size);
    }
    for (size_t i = 0; i < o->left.n; i++) {
        buf_addf(out, "left %s %s: ", o->left.v[i].kind, o->left.v[i].name);
        buf_add_printable(out, o->left.v[i].why);
        buf_addc(out, '\n');
    }
    if (stale)
        buf_addf(out, "%s %d %s of processes that were killed\n", verb, stale, stale == 1 ? "leftover" : "leftovers");
    format_size(freed, size);
    buf_addf(out, "%s %s\n\n", size, q->opts.dry_run ? "would be freed" : "freed");
    record_table(&spaces, o->space.v, o->space.n, false, out);
    format_size(o->space.total, size);
    buf_addf(out, "%s in all\n", size);
}

static int run_prune(struct verb_call *c, struct err *err) {
    CLEANUP(prune_result_done) struct prune_result result = {0};
    struct prune_line q = {.opts.older_ms = month_ms};
    int r = verb_parse(c, &q, 0, err);

    r = r < 0 ? r : prune(&q.opts, &result, err);
    if (r < 0)
        return r;
    (q.json ? add_prune_json : add_prune_lines)(&q, &result, &c->out);
    if (!q.json && q.opts.budget && !q.opts.dry_run && result.space.total > q.opts.budget)
        log_line("more than the budget is left: what runs, what waits to be applied, and what no sandbox owns stays");
    return 0;
}

const struct verb verb_prune = {
    .name = "prune",
    .summary = "remove what is stale or unused, and show what takes the space",
    .synopsis = "[options]",
    .description =
        "Removes what is not needed any more: leftovers of processes that were killed (sockets, control groups, half-made folders); persistent "
        "sandboxes that are stopped and were not used for 30 days, or for the time of --older; runs in which nothing waits to be applied; "
        "rotated logs, and what the tasks of batches printed, of that age. With --budget it goes on with the least used sandboxes and runs until everything takes no more than "
        "that.\n\n"
        "A sandbox that runs is never touched, nor is one with changes that were not applied: those are named. The workspace, caches, "
        "installed agents and the audit log stay. Afterwards it lists what takes the space, the largest first.\n\n"
        "    bawn prune --dry-run\n"
        "    bawn prune --older 7d --budget 10g",
    VERB_OPTS(opts),
    .run = run_prune,
};
