/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/sandbox/prune.h"
#include "ops/sandbox/space.h"
#include "supervisor/session/sweep.h"

enum { OPT_DRY_RUN = 1, OPT_OLDER, OPT_BUDGET, OPT_JSON };

static const uint64_t month_ns = 30ull * 86400 * 1000000000;

static const struct opt opts[] = {
    {OPT_DRY_RUN, 'n', "dry-run", NULL, "only say what would be removed", NULL},
    {OPT_OLDER, 0, "older", "TIME", "what was not used for so long (default: 30d)", NULL},
    {OPT_BUDGET, 0, "budget", "SIZE", "then the least used ones, until all of it takes no more than this", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct prune_request {
    struct prune_opts o;
    bool json;
};

static int take(void *arg, int id, const char *value, struct err *err) {
    struct prune_request *q = arg;
    uint64_t ms;
    int r = 0;

    switch (id) {
    case OPT_DRY_RUN:
        q->o.dry_run = true;
        break;
    case OPT_OLDER:
        r = parse_duration(value, &ms, err);
        q->o.older_ns = r < 0 ? 0 : ms * 1000000;
        break;
    case OPT_BUDGET:
        r = parse_size(value, &q->o.budget, err);
        break;
    case OPT_JSON:
        q->json = true;
        break;
    }
    return r;
}

struct outcome {
    struct swept swept;
    struct prune_items removed, kept;
    struct space_list space;
};

static void outcome_done(struct outcome *o) {
    prune_items_done(&o->removed);
    prune_items_done(&o->kept);
    space_list_done(&o->space);
}

static void add_items(const struct prune_items *l, bool kept, struct buf *out) {
    buf_addc(out, '[');
    for (size_t i = 0; i < l->n; i++) {
        buf_adds(out, i ? ", {" : "{");
        box_view_json_text(out, "kind", l->v[i].kind);
        box_view_json_text(out, "name", l->v[i].name);
        if (kept)
            box_view_json_text(out, "why", l->v[i].why);
        else
            buf_addf(out, ", \"bytes\": %" PRIu64, l->v[i].bytes);
        buf_addc(out, '}');
    }
    buf_addc(out, ']');
}

static void add_json(const struct prune_request *q, const struct outcome *o, struct buf *out) {
    buf_addf(
        out,
        "{\"dry_run\": %s,\n \"stale\": {\"sockets\": %d, \"folders\": %d, \"cgroups\": %d, \"sandboxes\": %d, \"checkpoints\": %d},\n \"removed\": ",
        q->o.dry_run ? "true" : "false", o->swept.sockets, o->swept.folders, o->swept.groups, o->swept.sandboxes,
        o->swept.checkpoints);
    add_items(&o->removed, false, out);
    buf_adds(out, ",\n \"kept\": ");
    add_items(&o->kept, true, out);
    buf_adds(out, ",\n \"space\": ");
    space_add_json(&o->space, out);
    buf_addf(out, ",\n \"total\": %" PRIu64 "}\n", o->space.total);
}

static void add_text(const struct prune_request *q, const struct outcome *o, struct buf *out) {
    int stale = o->swept.sockets + o->swept.folders + o->swept.groups + o->swept.sandboxes + o->swept.checkpoints;
    const char *verb = q->o.dry_run ? "would remove" : "removed";
    uint64_t freed = 0;
    char size[24];

    for (size_t i = 0; i < o->removed.n; i++) {
        format_size(o->removed.v[i].bytes, size);
        freed += o->removed.v[i].bytes;
        buf_addf(out, "%s %s ", verb, o->removed.v[i].kind);
        buf_add_printable(out, o->removed.v[i].name);
        buf_addf(out, " (%s)\n", size);
    }
    for (size_t i = 0; i < o->kept.n; i++) {
        buf_addf(out, "kept %s %s: ", o->kept.v[i].kind, o->kept.v[i].name);
        buf_add_printable(out, o->kept.v[i].why);
        buf_addc(out, '\n');
    }
    if (stale)
        buf_addf(out, "%s %d %s of processes that were killed\n", verb, stale, stale == 1 ? "leftover" : "leftovers");
    format_size(freed, size);
    buf_addf(out, "%s %s\n\n", size, q->o.dry_run ? "would be freed" : "freed");
    space_add_table(&o->space, out);
}

static int prune(const struct prune_request *q, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    CLEANUP(outcome_done) struct outcome o = {0};
    int r;

    sweep_stale(environ, q->o.home, q->o.dry_run, &o.swept);
    r = prune_all(&q->o, &o.removed, &o.kept, err);
    r = r < 0 ? r : space_list(q->o.state, &o.space, err);
    if (r < 0)
        return r;
    if (q->json)
        add_json(q, &o, &out);
    else
        add_text(q, &o, &out);
    if (!q->json && q->o.budget && !q->o.dry_run && o.space.total > q->o.budget)
        log_line("more than the budget is left: what runs, what waits to be applied, and what no sandbox owns stays");
    return run_print_out(&out, err);
}

static int run_prune(const struct verb *self, int argc, char **argv) {
    CLEANUP(freep) char *home = NULL, *state = NULL;
    struct prune_request q = {.o.older_ns = month_ns};
    struct policy_words words = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 0, &words, &err);

    r = r < 0 ? r : paths_home(environ, &home, &err);
    r = r < 0 ? r : paths_state_if_home(environ, home, "", &state, &err);
    if (r == 0 && !state)
        r = err_set(&err, -ENOENT, "there is no home folder, and so nothing is kept; set HOME or XDG_STATE_HOME");
    q.o.home = home;
    q.o.state = state;
    r = r < 0 ? r : prune(&q, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Removes what is not needed any more: leftovers of processes that were killed (sockets, control groups, half-made folders); kept "
    "sandboxes that are stopped and were not used for 30 days, or for the time of --older; runs in which nothing waits to be applied; "
    "rotated logs, and what the tasks of batches printed, of that age. With --budget it goes on with the least used sandboxes and runs until everything takes no more than "
    "that.\n\n"
    "A sandbox that runs is never touched, nor is one with changes that were not applied: those are named. The workspace, caches, "
    "installed agents and the audit log stay. Afterwards it lists what takes the space, the largest first.\n\n"
    "    bawn prune --dry-run\n"
    "    bawn prune --older 7d --budget 10g";

const struct verb verb_prune = {
    .name = "prune",
    .summary = "remove what is stale or unused, and show what takes the space",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_prune,
};
