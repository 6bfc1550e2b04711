/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of bawnd: lines of JSON, each in one write. To stderr, or to the file of the configuration: past its size it becomes FILE.1, and that
 * FILE.2 and so on, of which so many are stored. SIGHUP opens it anew, for programs that rotate by themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "os/clock.h"
#include "os/fd.h"
#include "service/core/core.h"
#include "service/task/taskreq.h"

enum { LOG_LINE_MAX = 16 * 1024, LOG_TEXT_MAX = 2048, COMMAND_SHOWN = 1024 };

static int open_file(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int core_log_open(struct core *c, struct err *err) {
    c->log = STDERR_FILENO;
    c->trace = -1;
    if (c->conf.log && (c->log = open_file(c->conf.log)) < 0)
        return err_sys(err, -errno, "open '%s'", c->conf.log);
    if (c->conf.trace && (c->trace = open_file(c->conf.trace)) < 0)
        return err_sys(err, -errno, "open '%s'", c->conf.trace);
    return 0;
}

/* What is open goes on if the new one cannot be opened. */
static void reopen(const char *path, int *to) {
    int fd = open_file(path);

    if (fd < 0)
        return;
    close(*to);
    *to = fd;
}

static void rotate_file(const struct core *c, const char *path, int *to) {
    char from[4200], next[4200];

    for (uint64_t i = c->conf.log_files; i > 0; i--) {
        if (i == 1)
            snprintf(from, sizeof from, "%s", path);
        else
            snprintf(from, sizeof from, "%s.%llu", path, (unsigned long long)i - 1);
        snprintf(next, sizeof next, "%s.%llu", path, (unsigned long long)i);
        rename(from, next);
    }
    if (c->conf.log_files == 0)
        unlink(path);
    reopen(path, to);
}

void core_write_line(const struct core *c, const char *path, int *to, struct buf *b) {
    struct stat st;

    buf_addc(b, '\n');
    if (!buf_ok(b))
        return;
    if (path && fstat(*to, &st) == 0 && (uint64_t)st.st_size + b->len > c->conf.log_size && st.st_size > 0)
        rotate_file(c, path, to);
    fd_write_all(*to, b->data, b->len);
}

static void log_write(struct core *c, struct buf *b) {
    core_write_line(c, c->conf.log, &c->log, b);
}

void core_log_reopen(struct core *c) {
    if (c->conf.log)
        reopen(c->conf.log, &c->log);
    if (c->conf.trace)
        reopen(c->conf.trace, &c->trace);
}

static void log_begin(struct jsonout *j, const char *level, const char *what, const char *id) {
    char now[CLOCK_TEXT_SIZE];

    jsonout_open(j, NULL, '{');
    jsonout_text(j, "time", clock_text(clock_mark(), CLOCK_ISO_MS, now));
    jsonout_text(j, "level", level);
    jsonout_text(j, "event", what);
    if (id && id[0])
        jsonout_text(j, "id", id);
}

void core_log(const struct core *core, const char *level, const char *what, const char *id, const char *fmt, ...) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(LOG_LINE_MAX);
    struct jsonout j = {.to = &b, .compact = true};
    char text[LOG_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_begin(&j, level, what, id);
    jsonout_text(&j, "message", text);
    jsonout_close(&j, '}');
    log_write((struct core *)core, &b);
}

static void add_command(const struct buf *request, struct jsonout *j) {
    CLEANUP(buf_done) struct buf words = BUF_INIT(COMMAND_SHOWN + 1);
    struct taskreq_field f;

    for (size_t at = 0; taskreq_next(request, &at, &f) > 0;)
        if (strcmp(f.name, "command") == 0 && words.len < COMMAND_SHOWN) {
            if (words.len)
                buf_addc(&words, ' ');
            buf_add(&words, f.data, MIN_OF(f.len, COMMAND_SHOWN - words.len));
        }
    jsonout_text(j, "command", buf_str(&words));
}

void core_log_run(struct core *c, const struct run_row *row) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(LOG_LINE_MAX);
    struct jsonout j = {.to = &b, .compact = true};
    uint64_t from = row->started_ns ? row->started_ns : row->created_ns;

    log_begin(&j, "info", "run", row->id);
    jsonout_text(&j, "tenant", row->tenant);
    add_command(&row->request, &j);
    jsonout_text(&j, "state", run_state_names[row->state]);
    if (row->status >= 0)
        jsonout_u64(&j, "status", (uint64_t)row->status);
    else
        jsonout_null(&j, "status");
    jsonout_u64(&j, "duration_ms", row->ended_ns > from ? (row->ended_ns - from + 999999) / 1000000 : 0);
    jsonout_u64(&j, "cpu_us", row->cpu_us);
    jsonout_u64(&j, "sent", row->sent);
    if (row->reason[0])
        jsonout_text(&j, "reason", row->reason);
    jsonout_close(&j, '}');
    log_write(c, &b);
}
