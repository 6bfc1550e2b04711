/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn ps` and `status`. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"

enum { COLUMNS = 8, PATH_MAX_SHOWN = 16 * 1024 };

struct ps_line {
    bool all, json, quiet;
    char *home;
};

static const struct opt ps_opts[] = {
    {0, 'a', "all", NULL, "those that are not running, too", NULL, OPT_TO_FLAG(struct ps_line, all)},
    {0, 'q', "quiet", NULL, "names of persistent ones only", NULL, OPT_TO_FLAG(struct ps_line, quiet)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct ps_line, json)},
};

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
    if (strv_add(cells, b->name) < 0 || strv_add(cells, box_kind_names[b->kind]) < 0 ||
        strv_addf(cells, "%s%s%s", box_view_colour(box_sight(b), colours), status, box_view_plain(colours)) < 0 ||
        strv_add(cells, b->state.mode[0] ? b->state.mode : "-") < 0 || strv_add(cells, memory) < 0 || strv_add(cells, cpu) < 0 ||
        strv_add(cells, pids) < 0 || strv_add(cells, buf_str(&path)) < 0)
        return -ENOMEM;
    return 0;
}

static int add_boxes_table(const struct ps_line *q, const struct sandbox_list *l, struct buf *out, struct err *err) {
    static const char *const titles[COLUMNS] = {"NAME", "KIND", "STATUS", "MODE", "MEMORY", "CPU", "PIDS", "WORKSPACE"};
    CLEANUP(strv_done) struct strv cells = {0};
    bool colours = manual_colours(NULL);
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
        if (l.boxes.v[i].kind == BOX_KIND_PERSISTENT && is_shown(q, &l.boxes.v[i]))
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

static int run_ps(struct verb_call *c, struct err *err) {
    struct ps_line q = {0};
    int words = verb_parse(c, &q, 1, err), r;

    r = words < 0 ? words : paths_home(environ, &q.home, err);
    if (r == 0)
        r = words ? show_one(&q, c->argv[1], &c->out, err) : list_all(&q, &c->out, err);
    free(q.home);
    return r < 0 ? r : 0;
}

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list sandboxes, or what runs in one",
    .synopsis = "[options] [NAME]",
    .description =
        "Lists the sandboxes that run, of 'bawn run' and persistent ones, with -a all of these: what each uses against its limits (CPU: time used so "
        "far), the mode of its workspace, and where that is. A 'bawn run' has its pid as its name, or what --name said; the other verbs are about "
        "persistent ones only. A sandbox whose supervisor was killed, or that was running when the machine went down, is "
        "'crashed': 'bawn start NAME' starts it again with all it had.\n\n"
        "With NAME: its commands (jobs), and the processes inside.\n\n"
        "    bawn ps -a\n"
        "    bawn ps dev\n"
        "    bawn ps -aq | xargs bawn rm",
    VERB_OPTS(ps_opts),
    .run = run_ps,
};

/* -- status ----------------------------------------------------------------------------------------------------------------- */

enum { EXIT_NOT_RUNNING = 3, EXIT_NONE = 4 };

struct status_line {
    const char *directory, *color;
    bool line, json;
};

static const struct opt status_opts[] = {
    {0, 'C', "directory", "DIR", "the workspace whose own sandbox is meant (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct status_line, directory)},
    {0, 0, "line", NULL, "one line, for prompts and footers", NULL, OPT_TO_FLAG(struct status_line, line)},
    {0, 0, "color", "WHEN", "colours: auto, always, never (default: auto)", "auto|always|never",
     OPT_TO_WORD(struct status_line, color)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct status_line, json)},
};

/* "⬡ Sandbox (native) │ dev │ name"; without colours, what is not running says so. */
static void add_prompt_line(const struct box *b, bool colours, struct buf *out) {
    enum box_sight s = box_sight(b);
    const struct box_state *st = &b->state;

    buf_addf(out, "%s⬡ Sandbox (", box_view_colour(s, colours));
    buf_add_printable(out, st->engine[0] ? st->engine : "native");
    buf_adds(out, ")");
    if (st->profile[0]) {
        buf_adds(out, " │ ");
        buf_add_printable(out, st->profile);
    }
    buf_addf(out, " │ %s", b->name);
    if (s != BOX_SIGHT_RUNNING)
        buf_addf(out, " (%s)", box_sight_names[s]);
    buf_addf(out, "%s\n", box_view_plain(colours));
}

static void add_detail(struct buf *out, const char *key, const char *value) {
    buf_addf(out, "%-10s ", key);
    buf_add_printable(out, value);
    buf_addc(out, '\n');
}

static void add_details(const struct box *b, const char *home, bool colours, struct buf *out) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(PATH_MAX_SHOWN);
    char status[BOX_WORD_MAX], memory[64], cpu[64], pids[64];
    struct box_usage u;

    box_view_status(b, status);
    box_view_path(b->info.workspace, home, &path);
    buf_addf(out, "%-10s %s\n%-10s %s%s%s\n", "name", b->name, "status", box_view_colour(box_sight(b), colours), status,
             box_view_plain(colours));
    add_detail(out, "id", b->info.id);
    buf_addf(out, "%-10s %s\n", "workspace", buf_str(&path));
    if (b->state.engine[0]) {
        add_detail(out, "mode", b->state.mode);
        buf_addf(out, "%-10s ", "engine");
        buf_add_printable(out, b->state.engine);
        buf_addf(out, " (%s)\n", b->state.rung[0] ? b->state.rung : "-");
    }
    if (b->state.profile[0])
        add_detail(out, "profile", b->state.profile);
    box_usage_all(b, 1, &u);
    box_usage_words(b, &u, memory, cpu, pids);
    if (u.has_memory || u.has_cpu || u.has_pids)
        buf_addf(out, "%-10s %s\n%-10s %s\n%-10s %s\n", "memory", memory, "cpu", cpu, "processes", pids);
}

static int print_status(const struct status_line *q, const struct box *b, struct buf *out, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    struct jsonout j = {.to = out};
    struct box_usage u;
    int r = paths_home(environ, &home, err);

    if (r < 0)
        return r;
    if (q->json) {
        box_usage_all(b, 1, &u);
        jsonout_open(&j, NULL, '{');
        box_view_json(b, &u, &j);
        buf_adds(out, "}\n");
    } else if (q->line) {
        add_prompt_line(b, manual_colours(q->color), out);
    } else {
        add_details(b, home, manual_colours(q->color), out);
    }
    return box_sight_active(box_sight(b)) ? 0 : EXIT_NOT_RUNNING;
}

static int run_status_verb(struct verb_call *c, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    struct status_line q = {0};
    int words = verb_parse(c, &q, 1, err), r;
    const struct sandbox_pick_opts o = {.name = words > 0 ? c->argv[1] : NULL, .directory = q.directory, .need = SANDBOX_ANY};

    r = words < 0 ? words : sandbox_pick(&o, &p, err);
    if (r == -ENOENT) { /* a prompt in a folder without a sandbox stays as it is */
        if (q.json)
            buf_adds(&c->out, "null\n");
        if (!q.line)
            verb_fail(c->verb, err);
        return EXIT_NONE;
    }
    return r < 0 ? r : print_status(&q, &p.box, &c->out, err);
}

const struct verb verb_status = {
    .name = "status",
    .summary = "how a persistent sandbox is",
    .synopsis = "[options] [NAME]",
    .description =
        "Says how a persistent sandbox is: without NAME, the one of the project in the current folder. No configuration is read and no process "
        "is asked, so it is fast enough for every prompt.\n\n"
        "--line prints one line, for prompts and for footers of agents: engine, profile and name. It is green while the sandbox runs, "
        "yellow while it starts or stops, red otherwise; colours only on a terminal, or with --color=always. Where there is no sandbox "
        "it prints nothing.\n\n"
        "The exit status is 0 if it runs, 3 if it does not, 4 if there is none.\n\n"
        "    bawn status\n"
        "    PS1='$(bawn status --line)\\n\\$ '",
    VERB_OPTS(status_opts),
    .run = run_status_verb,
};
