/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn ps`. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/help/manual.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"

enum { COLUMNS = 7, PATH_MAX_SHOWN = 16 * 1024 };

struct ps_line {
    bool all, json, quiet;
    char *home;
};

static const struct opt opts[] = {
    {0, 'a', "all", NULL, "those that are not running, too", NULL, OPT_TO_FLAG(struct ps_line, all)},
    {0, 'q', "quiet", NULL, "names only", NULL, OPT_TO_FLAG(struct ps_line, quiet)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct ps_line, json)},
};

static void line_done(struct ps_line *q) {
    free(q->home);
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static bool is_shown(const struct ps_line *q, const struct box *b) {
    return q->all || box_sight_active(box_sight(b));
}

static int add_cells(const struct ps_line *q, const struct box *b, const struct box_usage *u, bool colours, struct strv *cells) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(PATH_MAX_SHOWN);
    char status[BOX_WORD_MAX], memory[64], cpu[64], pids[64];

    box_view_status(b, status);
    box_view_path(b->info.workspace, q->home, &path);
    box_usage_words(b, u, memory, cpu, pids);
    if (strv_add(cells, b->name) < 0 ||
        strv_addf(cells, "%s%s%s", box_view_colour(box_sight(b), colours), status, box_view_plain(colours)) < 0 ||
        strv_add(cells, b->state.mode[0] ? b->state.mode : "-") < 0 || strv_add(cells, memory) < 0 || strv_add(cells, cpu) < 0 ||
        strv_add(cells, pids) < 0 || strv_add(cells, buf_str(&path)) < 0)
        return -ENOMEM;
    return 0;
}

static int add_boxes_table(const struct ps_line *q, const struct sandbox_list *l, struct buf *out, struct err *err) {
    static const char *const titles[COLUMNS] = {"NAME", "STATUS", "MODE", "MEMORY", "CPU", "PIDS", "WORKSPACE"};
    CLEANUP(strv_done) struct strv cells = {0};
    bool colours = manual_colours();
    size_t hidden = 0;
    int r = 0;

    for (size_t i = 0; i < COLUMNS && r == 0; i++)
        r = strv_add(&cells, titles[i]);
    for (size_t i = 0; i < l->boxes.n && r == 0; i++) {
        if (!is_shown(q, &l->boxes.v[i]))
            hidden++;
        else
            r = add_cells(q, &l->boxes.v[i], &l->usage[i], colours, &cells);
    }
    if (r < 0)
        return err_oom(err);
    if (cells.len > COLUMNS)
        record_cells(&cells, COLUMNS, out);
    else
        log_line(l->boxes.n ? "no sandbox is running" : "there are no sandboxes yet: 'bawn start' makes one");
    if (hidden)
        log_line("%zu more %s not running: bawn ps -a", hidden, hidden == 1 ? "is" : "are");
    return 0;
}

static void add_boxes_json(const struct ps_line *q, const struct sandbox_list *l, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < l->boxes.n; i++) {
        if (!is_shown(q, &l->boxes.v[i]))
            continue;
        jsonout_break(&j, "\n  ");
        jsonout_open(&j, NULL, '{');
        box_view_json(&l->boxes.v[i], &l->usage[i], &j);
        jsonout_close(&j, '}');
    }
    buf_adds(out, out->len > 1 ? "\n]\n" : "]\n");
}

static int list_all(const struct ps_line *q, struct buf *out, struct err *err) {
    CLEANUP(sandbox_list_done) struct sandbox_list l = {0};
    bool names = q->quiet && !q->json;
    int r = sandbox_list(!names, &l, err);

    for (size_t i = 0; r == 0 && names && i < l.boxes.n; i++)
        if (is_shown(q, &l.boxes.v[i]))
            buf_addf(out, "%s\n", l.boxes.v[i].name);
    if (r < 0 || names)
        return r;
    if (!q->json)
        return add_boxes_table(q, &l, out, err);
    add_boxes_json(q, &l, out);
    return 0;
}

/* -- one ---------------------------------------------------------------------------------------------------------------- */

static int show_one(const struct ps_line *q, const char *name, struct buf *out, struct err *err) {
    CLEANUP(sandbox_activity_done) struct sandbox_activity a = SANDBOX_ACTIVITY_INIT;
    struct jsonout j = {.to = out};
    struct box_usage u;
    int r = sandbox_activity(name, &a, err);

    if (r < 0)
        return r;
    if (q->json) {
        box_usage_all(&a.pick.box, 1, &u);
        jsonout_open(&j, NULL, '{');
        box_view_json(&a.pick.box, &u, &j);
        jsonout_break(&j, "\n ");
        box_view_answer(a.jobs, "jobs", "jobs", &j);
        jsonout_break(&j, "\n ");
        box_view_answer(a.processes, "processes", "processes", &j);
        buf_adds(out, "}\n");
        return 0;
    }
    box_view_jobs(a.jobs, out);
    buf_addc(out, '\n');
    box_view_processes(a.processes, out);
    return 0;
}

static int run_ps(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    CLEANUP(line_done) struct ps_line q = {0};
    struct err err = {0};
    int words = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 1, &err), r;

    r = words < 0 ? words : paths_home(environ, &q.home, &err);
    if (r == 0)
        r = words ? show_one(&q, argv[1], &out, &err) : list_all(&q, &out, &err);
    r = r < 0 ? r : run_print_out(&out, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Lists the persistent sandboxes that run, with -a all of them: what each uses against its limits (CPU: time used so far), the mode of "
    "its workspace, and where that is. A sandbox whose supervisor was killed, or that was running when the machine went down, is "
    "'crashed': 'bawn start NAME' starts it again with all it had.\n\n"
    "With NAME: its commands (jobs), and the processes inside.\n\n"
    "    bawn ps -a\n"
    "    bawn ps dev\n"
    "    bawn ps -aq | xargs bawn rm";

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list persistent sandboxes, or what runs in one",
    .synopsis = "[options] [NAME]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_ps,
};
