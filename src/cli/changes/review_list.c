/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/changes/review_options.h"
#include "config/load/paths.h"
#include "review/report/escape.h"

enum { LIST_MAX = 64 * 1024 * 1024, COMMAND_SHOWN = 60 };

static void add_status(const struct rundir_entry *e, struct buf *b) {
    if (e->info.ended_ns)
        buf_addf(b, "exit %d", e->info.status);
    else
        buf_adds(b, e->busy ? "running" : "killed");
}

static void add_time(uint64_t ns, const char *format, struct buf *b) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm = {0};
    char text[40];

    if (localtime_r(&seconds, &tm) && strftime(text, sizeof text, format, &tm))
        buf_adds(b, text);
}

static void add_command(const struct strv *command, struct buf *b) {
    for (size_t i = 0; i < command->len; i++) {
        buf_adds(b, i ? " " : "");
        buf_add_shell(b, command->v[i]);
    }
}

static void add_line(const struct rundir_entry *e, struct buf *b) {
    CLEANUP(buf_done) struct buf status = BUF_INIT(64), command = BUF_INIT(1024 * 1024);

    add_status(e, &status);
    add_command(&e->info.command, &command);
    buf_addf(b, "%-24s  %-8s  ", e->name, workspace_mode_names[e->info.mode]);
    add_time(e->info.begun_ns, "%Y-%m-%d %H:%M", b);
    buf_addf(b, "  %-8s  ", buf_str(&status));
    escape_content(b, buf_str(&command), MIN_OF(command.len, (size_t)COMMAND_SHOWN), false);
    buf_adds(b, command.len > COMMAND_SHOWN ? "...\n" : "\n");
}

static void add_json(const struct rundir_entry *e, struct buf *b) {
    buf_adds(b, "{\"name\": ");
    escape_json(b, e->name, strlen(e->name));
    buf_addf(b, ", \"mode\": \"%s\", \"begun\": \"", workspace_mode_names[e->info.mode]);
    add_time(e->info.begun_ns, "%Y-%m-%dT%H:%M:%S%z", b);
    buf_addf(b, "\", \"state\": \"%s\"", e->info.ended_ns ? "ended" : e->busy ? "running" : "killed");
    if (e->info.ended_ns)
        buf_addf(b, ", \"status\": %d", e->info.status);
    buf_adds(b, ", \"command\": [");
    for (size_t i = 0; i < e->info.command.len; i++) {
        buf_adds(b, i ? ", " : "");
        escape_json(b, e->info.command.v[i], strlen(e->info.command.v[i]));
    }
    buf_adds(b, "]}");
}

static void add_list(const struct rundir_list *l, bool json, struct buf *b) {
    buf_adds(b, json ? "[" : "");
    for (size_t i = 0; i < l->n; i++) {
        if (json) {
            buf_adds(b, i ? ",\n " : "");
            add_json(&l->v[i], b);
        } else
            add_line(&l->v[i], b);
    }
    buf_adds(b, json ? "]\n" : l->n ? "" : "no runs of this workspace\n");
}

int review_list(const struct review_args *a, struct err *err) {
    CLEANUP(freep) char *home = NULL, *runs = NULL, *workspace = NULL;
    CLEANUP(rundir_list_done) struct rundir_list list = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(LIST_MAX);
    bool json = a->format && str_eq(a->format, "json");
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : rundir_folder(environ, home, &runs, err);
    r = r < 0 ? r : paths_workspace(a->directory, &workspace, err);
    if (r == 0 && runs)
        r = rundir_list(runs, workspace, &list, err);
    if (r < 0)
        return r;
    add_list(&list, json, &b);
    if (!buf_ok(&b))
        return err_oom(err);
    return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) < 0 ? err_sys(err, -errno, "write the list") : 0;
}
