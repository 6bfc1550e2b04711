/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn review`. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/review_ask.h"
#include "cli/changes/review_options.h"
#include "cli/changes/run_print.h"
#include "ops/audit_verb.h"
#include "review/report/escape.h"

enum { NOTHING_MAX = 16 * 1024, LIST_MAX = 64 * 1024 * 1024, COMMAND_SHOWN = 60 };

static const struct opt opts[] = {
    REVIEW_DIRECTORY,
    {0, 'i', "interactive", NULL, "step through the changes: apply, skip, discard, view", NULL, REVIEW_TO(FLAG, interactive)},
    {0, 0, "diff", NULL, "show the diff of each file, too", NULL, REVIEW_TO(FLAG, diff)},
    REVIEW_ONLY,
    {0, 0, "fail-on", "LEVEL", "the lowest level that makes the exit status 1 (default: medium)", "high|medium|low|none",
     REVIEW_TO(TEXT, fail_on)},
    {0, 0, "json", NULL, "print JSON", NULL, REVIEW_FORMAT},
    {0, 0, "sarif", NULL, "print SARIF 2.1.0, for code scanners", NULL, REVIEW_FORMAT},
    {0, 0, "list", NULL, "list the runs of this workspace", NULL, REVIEW_TO(FLAG, list)},
    REVIEW_OUTPUT,
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

static int list_runs(const struct review_args *a, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(LIST_MAX);
    struct jsonout j = {.to = &b};
    int r = run_pick_list(a->directory, &list, err);

    if (r < 0)
        return r;
    if (a->format.name) {
        record_array(&runs, list.v, list.n, NULL, RECORD_BETWEEN, &j);
        buf_addc(&b, '\n');
    } else if (list.n) {
        record_table(&runs, list.v, list.n, false, &b);
    } else {
        buf_adds(&b, "no runs of this workspace\n");
    }
    return run_print_out(&b, err);
}

/* -- the report ---------------------------------------------------------------------------------------------------------- */

static int check_request(const struct review_args *a, struct err *err) {
    if (a->interactive && (a->format.option || a->list))
        return err_usage(err, "--interactive and --%s exclude each other", a->format.option ? a->format.option : "list");
    if (a->list && a->format.name && !str_eq(a->format.name, "json"))
        return err_usage(err, "--list and --%s exclude each other", a->format.option);
    return 0;
}

/* No run has left anything: nothing risky, which is no failure (`bawn run -w overlay ... && bawn review` in CI). */
static int print_nothing(const struct review_args *a, struct err *err) {
    static const char sarif[] =
        "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{\"tool\":"
        "{\"driver\":{\"name\":\"bawn\"}},\"results\":[]}]}";
    CLEANUP(buf_done) struct buf out = BUF_INIT(NOTHING_MAX);

    if (!a->format.name) {
        log_err(err);
        return 0;
    }
    if (str_eq(a->format.name, "sarif")) {
        puts(sarif);
        return 0;
    }
    buf_adds(&out, "{\"version\":1,\"run\":\"\",\"mode\":\"direct\",\"workspace\":\"\",\"summary\":{\"changes\":0,\"high\":0,"
                   "\"medium\":0,\"low\":0,\"none\":0},\"notes\":[");
    buf_add_json(&out, err->msg);
    buf_adds(&out, "],\"changes\":[]}");
    puts(buf_str(&out));
    return 0;
}

static int review(struct review_args *a, const char *run, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    const struct run_pick_opts o = {.directory = a->directory, .name = run, .what = RUN_PICK_CHANGES, .lock = a->interactive};
    int r = check_request(a, err);

    if (r < 0 || a->list)
        return r < 0 ? r : list_runs(a, err);
    r = run_pick(&o, &p, err);
    if (r == -ENOENT && !o.name)
        return print_nothing(a, err);
    if (r < 0)
        return r;
    if (audit_verb_word(AUDIT_REVIEW, p.rd.name, a->interactive ? "review --interactive" : "review", NULL, err) < 0)
        log_err(err); /* looking does no harm, and is all the more needed */
    if (a->interactive)
        return review_ask(&p, a, err);
    a->format.name = a->format.name ? a->format.name : "text";
    return review_show(a, "review", &p, false, err);
}

static int run_review(const struct verb *self, int argc, char **argv) {
    CLEANUP(review_args_done) struct review_args a = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &a, 1, &err);

    r = r < 0 ? r : review(&a, r ? argv[1] : NULL, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Shows what a run changed, the riskiest first: whatever the host might later execute, obey or be fooled by, each with the "
    "reason. RUN is the name of a run; without it, the latest of this workspace. It works for every workspace mode, with "
    "or without git, and runs no program of the repository.\n\n"
    "Files are read by a process of its own that can read the run and the workspace and do nothing else. Names and "
    "content are shown with control characters, bidirectional and invisible characters made visible (\\x1b, \\u{202e}).\n\n"
    "The exit status is 0 if nothing risky was changed, 1 if something was (--fail-on says from which level on), 125 if the "
    "review failed. With --interactive, what was decided is done at the end, all at once.\n\n"
    "    bawn review\n"
    "    bawn review --diff --only 'src/**'\n"
    "    bawn review my-run --json --fail-on high";

const struct verb verb_review = {
    .name = "review",
    .summary = "show what a run changed, the riskiest first",
    .synopsis = "[options] [RUN]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_review,
};
