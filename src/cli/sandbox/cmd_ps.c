/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/help/manual.h"
#include "cli/policy/policy_view.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/sandbox/box_live.h"
#include "ops/sandbox/sandbox_pick.h"

enum { OPT_ALL = 1, OPT_JSON, OPT_QUIET, COLUMNS = 7, PATH_MAX_SHOWN = 16 * 1024 };

static const struct opt opts[] = {
    {OPT_ALL, 'a', "all", NULL, "those that are not running, too", NULL},
    {OPT_QUIET, 'q', "quiet", NULL, "names only", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct ps_request {
    bool all, json, quiet;
    char *home, *boxes;
};

static void request_done(struct ps_request *q) {
    free(q->home);
    free(q->boxes);
}

static int take(void *arg, int id, const char *value UNUSED, struct err *err UNUSED) {
    struct ps_request *q = arg;

    q->all |= id == OPT_ALL;
    q->json |= id == OPT_JSON;
    q->quiet |= id == OPT_QUIET;
    return 0;
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static bool is_shown(const struct ps_request *q, const struct box *b) {
    return q->all || box_sight_active(box_sight(b));
}

static int add_cells(const struct ps_request *q, const struct box *b, const struct box_usage *u, bool colours,
                     struct strv *cells) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(PATH_MAX_SHOWN);
    char status[BOX_WORD_MAX], memory[64], cpu[64], pids[64];

    box_view_status(b, box_view_now(), status);
    box_view_path(b->info.workspace, q->home, &path);
    box_usage_words(b, u, memory, cpu, pids);
    if (strv_add(cells, b->name) < 0 ||
        strv_addf(cells, "%s%s%s", box_view_colour(box_sight(b), colours), status, box_view_plain(colours)) < 0 ||
        strv_add(cells, b->state.mode[0] ? b->state.mode : "-") < 0 || strv_add(cells, memory) < 0 || strv_add(cells, cpu) < 0 ||
        strv_add(cells, pids) < 0 || strv_add(cells, buf_str(&path)) < 0)
        return -ENOMEM;
    return 0;
}

static int add_table(const struct ps_request *q, const struct box_list *l, const struct box_usage *usage, struct buf *out,
                     struct err *err) {
    static const char *const titles[COLUMNS] = {"NAME", "STATUS", "MODE", "MEMORY", "CPU", "PIDS", "WORKSPACE"};
    CLEANUP(strv_done) struct strv cells = {0};
    bool colours = manual_colours();
    size_t hidden = 0;
    int r = 0;

    for (size_t i = 0; i < COLUMNS && r == 0; i++)
        r = strv_add(&cells, titles[i]);
    for (size_t i = 0; i < l->n && r == 0; i++) {
        if (!is_shown(q, &l->v[i]))
            hidden++;
        else
            r = add_cells(q, &l->v[i], &usage[i], colours, &cells);
    }
    if (r < 0)
        return err_oom(err);
    if (cells.len > COLUMNS)
        box_view_table(&cells, COLUMNS, out);
    else
        log_line(l->n ? "no sandbox is running" : "there are no sandboxes yet: 'bawn start' makes one");
    if (hidden)
        log_line("%zu more %s not running: bawn ps -a", hidden, hidden == 1 ? "is" : "are");
    return 0;
}

static void add_json(const struct ps_request *q, const struct box_list *l, const struct box_usage *usage, struct buf *out) {
    bool any = false;

    buf_addc(out, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (!is_shown(q, &l->v[i]))
            continue;
        buf_adds(out, any ? ",\n  {" : "\n  {");
        box_view_json(&l->v[i], &usage[i], out);
        buf_addc(out, '}');
        any = true;
    }
    buf_adds(out, any ? "\n]\n" : "]\n");
}

static void add_names(const struct ps_request *q, const struct box_list *l, struct buf *out) {
    for (size_t i = 0; i < l->n; i++)
        if (is_shown(q, &l->v[i]))
            buf_addf(out, "%s\n", l->v[i].name);
}

static int list_all(const struct ps_request *q, struct buf *out, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    CLEANUP(freep) struct box_usage *usage = NULL;
    int r = registry_list(q->boxes, &l, err);

    if (r < 0)
        return r;
    if (q->quiet && !q->json) {
        add_names(q, &l, out);
        return 0;
    }
    usage = calloc(l.n + 1, sizeof *usage);
    if (!usage)
        return err_oom(err);
    box_usage_all(l.v, l.n, usage);
    if (!q->json)
        return add_table(q, &l, usage, out, err);
    add_json(q, &l, usage, out);
    return 0;
}

/* -- one ---------------------------------------------------------------------------------------------------------------- */

static int show_one(const struct ps_request *q, const char *name, struct buf *out, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(json_decrefp) json_t *jobs = NULL, *processes = NULL;
    struct box_usage u;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = name, .need = SANDBOX_RUNNING}, &p, err);

    r = r < 0 ? r : box_live_ask(&p.box, "jobs", &jobs, err);
    r = r < 0 ? r : box_live_ask(&p.box, "processes", &processes, err);
    if (r < 0)
        return r;
    if (q->json) {
        box_usage_all(&p.box, 1, &u);
        buf_adds(out, "{");
        box_view_json(&p.box, &u, out);
        buf_adds(out, ",\n \"jobs\": ");
        box_live_add_json(jobs, "jobs", out);
        buf_adds(out, ",\n \"processes\": ");
        box_live_add_json(processes, "processes", out);
        buf_adds(out, "}\n");
        return 0;
    }
    box_live_jobs(jobs, out);
    buf_addc(out, '\n');
    box_live_processes(processes, out);
    return 0;
}

static int run_ps(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    CLEANUP(request_done) struct ps_request q = {0};
    struct policy_words words = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    r = r < 0 ? r : paths_home(environ, &q.home, &err);
    r = r < 0 ? r : sandbox_boxes(&q.boxes, &err);
    if (r == 0)
        r = words.n ? show_one(&q, words.v[0], &out, &err) : list_all(&q, &out, &err);
    r = r < 0 ? r : run_print_out(&out, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Lists the kept sandboxes that run, with -a all of them: what each uses against its limits (CPU: time used so far), the mode of "
    "its workspace, and where that is. A sandbox whose supervisor was killed, or that was running when the machine went down, is "
    "'crashed': 'bawn start NAME' starts it again with all it had.\n\n"
    "With NAME: its commands (jobs), and the processes inside.\n\n"
    "    bawn ps -a\n"
    "    bawn ps dev\n"
    "    bawn ps -aq | xargs bawn rm";

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list kept sandboxes, or what runs in one",
    .synopsis = "[options] [NAME]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_ps,
};
