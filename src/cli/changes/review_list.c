/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn review --list`. */
#include <errno.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/changes/review_options.h"
#include "cli/changes/run_print.h"
#include "review/report/escape.h"

enum { LIST_MAX = 64 * 1024 * 1024, COMMAND_SHOWN = 60 };

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

int review_list(const struct review_args *a, struct err *err) {
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
