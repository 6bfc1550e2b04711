/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn review` and `diff`. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/review_options.h"
#include "cli/changes/run_print.h"
#include "cli/help/manual.h"
#include "cli/help/pager.h"
#include "ops/audit_verb.h"
#include "ops/changes/changes_review.h"
#include "review/report/escape.h"

#define TO(kind, member) OPT_TO_##kind(struct review_args, member)
#define FORMAT OPT_TO_CALL(struct review_args, format, take_format)
#define DIRECTORY \
    { 0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", TO(TEXT, directory) }
#define ONLY \
    { 0, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL, TO(LIST, only) }
#define EXCEPT \
    { 0, 0, "except", "GLOB", "all but these paths; may be repeated", NULL, TO(LIST, except) }
#define OUTPUT                                                                           \
    {0, 0, "no-pager", NULL, "do not start $PAGER", NULL, TO(FLAG, no_pager)}, {         \
        0, 0, "color", "[=WHEN]", "colours: auto, always or never", "auto|always|never", \
            OPT_TO_CALL(struct review_args, colour, take_colour)                         \
    }

static int take_format(const struct opt *o, const char *value UNUSED, void *to, struct err *err) {
    struct review_format *f = to;

    if (f->option && !str_eq(f->option, o->name))
        return err_usage(err, "--%s and --%s exclude each other", f->option, o->name);
    *f = (struct review_format){o->name, str_eq(o->name, "name-only") ? "names" : o->name};
    return 0;
}

static int take_colour(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    static const char *const known[] = {"auto", "always", "never"};
    int i = str_index(value ? value : "always", known, ARRAY_LEN(known));

    if (i < 0)
        return err_usage(err, "--color is auto, always or never, not '%s'", value);
    *(const char **)to = known[i];
    return 0;
}

int review_report(const struct run_pick *p, const struct changes_report *q, bool pager, struct err *err) {
    struct pager out;
    int r, written;

    pager_begin(&out, pager);
    r = changes_report(p, q, pager_write, &out, err);
    written = pager_end(&out, r < 0 ? NULL : err);
    return r < 0 ? r : written < 0 ? written : r;
}

static int review_show(const struct review_args *a, const char *task, const struct run_pick *p, bool must_match,
                       struct err *err) {
    const char *f = a->format.name;
    bool people = !str_eq(f, "json") && !str_eq(f, "sarif") && !str_eq(f, "names"); /* what machines read has no colours */
    const struct changes_report q = {.task = task,
                                     .format = f,
                                     .fail_on = a->fail_on,
                                     .only = &a->only,
                                     .except = &a->except,
                                     .all = a->all,
                                     .diff = a->diff,
                                     .must_match = must_match,
                                     .colour = people && manual_colours(a->colour),
                                     .terminal = people && isatty(STDOUT_FILENO)};

    return review_report(p, &q, people && !a->no_pager, err);
}

enum { COMMAND_SHOWN = 60 };

static const struct opt review_opts[] = {
    DIRECTORY,
    {0, 'i', "interactive", NULL, "step through the changes: apply, skip, discard, view", NULL, TO(FLAG, interactive)},
    {0, 0, "diff", NULL, "show the diff of each file, too", NULL, TO(FLAG, diff)},
    ONLY,
    EXCEPT,
    {0, 0, "all", NULL, "list every file of dependency folders and of git's objects, too", NULL, TO(FLAG, all)},
    {0, 0, "fail-on", "LEVEL", "the lowest level that makes the exit status 1 (default: medium)", "high|medium|low|none",
     TO(TEXT, fail_on)},
    {0, 0, "json", NULL, "print JSON", NULL, FORMAT},
    {0, 0, "sarif", NULL, "print SARIF 2.1.0, for code scanners", NULL, FORMAT},
    {0, 0, "list", NULL, "list the runs of this workspace", NULL, TO(FLAG, list)},
    OUTPUT,
};

/* -- --list -------------------------------------------------------------------------------------------------------------- */

static void add_state(const void *row, struct buf *cell) {
    const struct rundir_entry *e = row;

    if (e->info.ended_ns)
        buf_addf(cell, "exit %d", e->info.status);
    else
        buf_adds(cell, e->busy ? "running" : "killed");
}

static void add_json_state(const void *row, const char *key, struct jsonout *j) {
    const struct rundir_entry *e = row;

    jsonout_text(j, key, e->info.ended_ns ? "ended" : e->busy ? "running" : "killed");
    if (e->info.ended_ns)
        jsonout_int(j, "status", e->info.status);
}

/* Local time. */
static void add_time(uint64_t ns, const char *format, struct buf *b) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm = {0};
    char text[40];

    if (localtime_r(&seconds, &tm) && strftime(text, sizeof text, format, &tm))
        buf_adds(b, text);
}

static void add_begun(const void *row, struct buf *cell) {
    add_time(((const struct rundir_entry *)row)->info.begun_ns, "%Y-%m-%d %H:%M", cell);
}

static void add_json_begun(const void *row, const char *key, struct jsonout *j) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(64);

    add_time(((const struct rundir_entry *)row)->info.begun_ns, "%Y-%m-%dT%H:%M:%S%z", &text);
    jsonout_text(j, key, buf_str(&text));
}

static void add_command(const void *row, struct buf *cell) {
    const struct strv *words = &((const struct rundir_entry *)row)->info.command;
    CLEANUP(buf_done) struct buf command = BUF_INIT(1024 * 1024);

    for (size_t i = 0; i < words->len; i++) {
        buf_adds(&command, i ? " " : "");
        buf_add_shell(&command, words->v[i]);
    }
    escape_content(cell, buf_str(&command), MIN_OF(command.len, (size_t)COMMAND_SHOWN), false);
    buf_adds(cell, command.len > COMMAND_SHOWN ? "..." : "");
}

static void add_json_command(const void *row, const char *key, struct jsonout *j) {
    run_print_json_list(j, key, &((const struct rundir_entry *)row)->info.command);
}

static const struct column columns[] = {
    {"NAME", "name", COLUMN(TEXT, struct rundir_entry, name), .width = 24},
    {"MODE", "mode", COLUMN(ENUM, struct rundir_entry, info.mode), .names = workspace_mode_names, .width = 8},
    {"BEGUN", "begun", .text = add_begun, .json = add_json_begun},
    {"STATE", "state", .text = add_state, .json = add_json_state, .width = 8},
    {"COMMAND", "command", .text = add_command, .json = add_json_command},
};
static const struct record_kind runs = {columns, ARRAY_LEN(columns), sizeof(struct rundir_entry), .no_heading = true};

static int list_runs(const struct review_args *a, struct buf *out, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    struct jsonout j = {.to = out};
    int r = run_pick_list(a->directory, &list, err);

    if (r < 0)
        return r;
    if (a->format.name) {
        record_array(&runs, list.v, list.n, NULL, RECORD_BETWEEN, &j);
        buf_addc(out, '\n');
    } else if (list.n) {
        record_table(&runs, list.v, list.n, false, out);
    } else {
        buf_adds(out, "no runs of this workspace\n");
    }
    return 0;
}

/* -- the report ---------------------------------------------------------------------------------------------------------- */

static int check_request(const struct review_args *a, struct err *err) {
    if (a->interactive && (a->format.option || a->list))
        return err_usage(err, "--interactive and --%s exclude each other", a->format.option ? a->format.option : "list");
    if (a->list && a->format.name && !str_eq(a->format.name, "json"))
        return err_usage(err, "--list and --%s exclude each other", a->format.option);
    return 0;
}

static int review(struct review_args *a, const char *run, struct buf *out, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    const struct run_pick_opts o = {.directory = a->directory, .name = run, .what = RUN_PICK_CHANGES, .lock = a->interactive};
    int r = check_request(a, err);

    if (r < 0 || a->list)
        return r < 0 ? r : list_runs(a, out, err);
    r = run_pick(&o, &p, err);
    if (r < 0)
        return r;
    if (audit_verb_word(AUDIT_REVIEW, p.rd.name, a->interactive ? "review --interactive" : "review", NULL, err) < 0)
        log_err(err); /* looking does no harm, and is all the more needed */
    if (a->interactive)
        return review_ask(&p, a, err);
    a->format.name = a->format.name ? a->format.name : "text";
    return review_show(a, "review", &p, false, err);
}

static int run_review(struct verb_call *c, struct err *err) {
    struct review_args a = {0};
    int r = verb_parse(c, &a, 1, err);

    r = r < 0 ? r : review(&a, r ? c->argv[1] : NULL, &c->out, err);
    strv_done(&a.only);
    strv_done(&a.except);
    return r;
}

const struct verb verb_review = {
    .name = "review",
    .summary = "show what a run changed, the riskiest first",
    .synopsis = "[options] [RUN]",
    .description =
        "Shows what a run changed, the riskiest first: whatever the host might later execute, obey or be fooled by, each with the "
        "reason. RUN is the name of a run; without it, the latest of this workspace. It works for every workspace mode, with "
        "or without git, and runs no program of the repository.\n\n"
        "Folders of dependencies (node_modules, .venv, vendor, target, ...) and git's objects are one entry each: packages, whether the "
        "lockfile agrees, install scripts, and by name whatever in there no honest install brings. --all lists every file.\n\n"
        "Files are read by a process of its own that can read the run and the workspace and do nothing else. Names and "
        "content are shown with control characters, bidirectional and invisible characters made visible (\\x1b, \\u{202e}).\n\n"
        "The exit status is 0 if nothing risky was changed, 1 if something was (--fail-on says from which level on), 125 if the "
        "review failed or no run here has left changes. With --interactive, what was decided is done at the end, all at once.\n\n"
        "    bawn review\n"
        "    bawn review --diff --only 'src/**'\n"
        "    bawn review --all --only node_modules/.bin\n"
        "    bawn review my-run --json --fail-on high",
    VERB_OPTS(review_opts),
    .run = run_review,
};

/* -- diff ------------------------------------------------------------------------------------------------------------------- */

static const struct opt diff_opts[] = {
    DIRECTORY,
    {0, 0, "stat", NULL, "only how many lines changed in each file", NULL, FORMAT},
    {0, 0, "name-only", NULL, "only the names of what changed", NULL, FORMAT},
    {0, 0, "json", NULL, "print JSON, as 'bawn review --json --diff' does", NULL, FORMAT},
    ONLY,
    EXCEPT,
    OUTPUT,
};

/* The first operand is a run if there is one of this name, else a path like the others. Returns how many were used. */
static int pick_run(const char *directory, const char *word, struct run_pick *ret, struct err *err) {
    struct run_pick_opts o = {.directory = directory, .name = word, .what = RUN_PICK_CHANGES};
    int r = word && rundir_check_name(word, err) == 0 ? run_pick(&o, ret, err) : -ENOENT;

    if (r != -ENOENT)
        return r < 0 ? r : 1;
    o.name = NULL;
    return run_pick(&o, ret, err);
}

static int diff(struct review_args *a, char **words, int n, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    int r = pick_run(a->directory, n ? words[0] : NULL, &p, err);

    if (r < 0)
        return r;
    for (int i = r; i < n; i++)
        if (strv_add(&a->only, words[i]) < 0)
            return err_oom(err);
    a->format.name = a->format.name ? a->format.name : "patch";
    a->diff = a->all = true;
    r = review_show(a, "diff", &p, true, err);
    return r < 0 ? r : 0;
}

static int run_diff(struct verb_call *c, struct err *err) {
    struct review_args a = {0};
    int r = verb_parse(c, &a, c->argc, err);

    r = r < 0 ? r : diff(&a, c->argv + 1, r, err);
    strv_done(&a.only);
    strv_done(&a.except);
    return r;
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "print what a run changed as a patch",
    .synopsis = "[options] [RUN] [PATH...]",
    .description =
        "Prints what a run changed as a patch that 'git apply' and 'patch -p1' take. RUN is the name of a run; without it, the "
        "latest of this workspace. A PATH may be a pattern of .gitignore's syntax; it counts from the top of the workspace.\n\n"
        "Control, bidirectional and invisible characters in the content are made visible, so a patch of a file that has them "
        "cannot be applied: use 'bawn apply'. Binary files, and files over 4 MiB, are named only.\n\n"
        "    bawn diff --stat\n"
        "    bawn diff my-run src/main.c",
    VERB_OPTS(diff_opts),
    .run = run_diff,
};
