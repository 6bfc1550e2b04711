/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn status`. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/help/manual.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"

enum { EXIT_NOT_RUNNING = 3, EXIT_NONE = 4, PATH_MAX_SHOWN = 16 * 1024 };

struct status_line {
    const char *directory, *color;
    bool line, json;
};

static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "the workspace whose own sandbox is meant (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct status_line, directory)},
    {0, 0, "line", NULL, "one line, for prompts and footers", NULL, OPT_TO_FLAG(struct status_line, line)},
    {0, 0, "color", "WHEN", "colours: auto, always, never (default: auto)", "auto|always|never",
     OPT_TO_WORD(struct status_line, color)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct status_line, json)},
};

static bool wants_colours(const struct status_line *q) {
    if (q->color && !str_eq(q->color, "auto"))
        return str_eq(q->color, "always");
    return manual_colours();
}

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

static int print_status(const struct status_line *q, const struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    CLEANUP(freep) char *home = NULL;
    struct jsonout j = {.to = &out};
    struct box_usage u;
    int r = paths_home(environ, &home, err);

    if (r < 0)
        return r;
    if (q->json) {
        box_usage_all(b, 1, &u);
        jsonout_open(&j, NULL, '{');
        box_view_json(b, &u, &j);
        buf_adds(&out, "}\n");
    } else if (q->line) {
        add_prompt_line(b, wants_colours(q), &out);
    } else {
        add_details(b, home, wants_colours(q), &out);
    }
    r = run_print_out(&out, err);
    return r < 0 ? r : box_sight_active(box_sight(b)) ? 0 : EXIT_NOT_RUNNING;
}

static int run_status_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    struct status_line q = {0};
    struct err err = {0};
    int words = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 1, &err), r;
    const struct sandbox_pick_opts o = {.name = words > 0 ? argv[1] : NULL, .directory = q.directory, .need = SANDBOX_ANY};

    r = words < 0 ? words : sandbox_pick(&o, &p, &err);
    if (r == -ENOENT) { /* a prompt in a folder without a sandbox stays as it is */
        if (q.json)
            puts("null");
        if (!q.line)
            verb_fail(self, &err);
        return EXIT_NONE;
    }
    r = r < 0 ? r : print_status(&q, &p.box, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Says how a persistent sandbox is: without NAME, the one of the project in the current folder. No configuration is read and no process "
    "is asked, so it is fast enough for every prompt.\n\n"
    "--line prints one line, for prompts and for footers of agents: engine, profile and name. It is green while the sandbox runs, "
    "yellow while it starts or stops, red otherwise; colours only on a terminal, or with --color=always. Where there is no sandbox "
    "it prints nothing.\n\n"
    "The exit status is 0 if it runs, 3 if it does not, 4 if there is none.\n\n"
    "    bawn status\n"
    "    PS1='$(bawn status --line)\\n\\$ '";

const struct verb verb_status = {
    .name = "status",
    .summary = "how a persistent sandbox is",
    .synopsis = "[options] [NAME]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_status_verb,
};
