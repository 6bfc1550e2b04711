/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/exec_run.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "config/load/paths.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "proto/execmsg.h"

static const char *const of_the_terminal[] = {
    "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
};

void exec_args_done(struct exec_args *a) {
    strv_done(&a->env);
}

int exec_args_env(struct exec_args *a, const char *text, struct err *err) {
    size_t n = strcspn(text, "=");
    const char *value;
    int r;

    if (n == 0)
        return err_usage(err, "--env takes NAME=VALUE or NAME, not '%.60s'", text);
    value = text[n] ? NULL : paths_getenv(environ, text);
    r = text[n] ? strv_add(&a->env, text) : value ? strv_addf(&a->env, "%s=%s", text, value) : 0;
    return r < 0 ? err_oom(err) : 0;
}

int exec_args_terminal(struct exec_args *a, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(of_the_terminal); i++) {
        const char *value = paths_getenv(environ, of_the_terminal[i]);

        if (value && strv_addf(&a->env, "%s=%s", of_the_terminal[i], value) < 0)
            return err_oom(err);
    }
    return 0;
}

struct exec_request exec_args_request(const struct exec_args *a) {
    return (struct exec_request){.timeout_ms = a->timeout_ms,
                                 .cwd = a->cwd ? a->cwd : "",
                                 .argv = a->argv,
                                 .argc = a->argc,
                                 .envp = a->env.v,
                                 .envc = a->env.len};
}

int exec_args_connect(const struct exec_args *a, int *ret, struct err *err) {
    CLEANUP(sandbox_started_done) struct sandbox_started started = {0};
    const struct sandbox_start start = {.name = a->name};
    int r = exec_connect(environ, NULL, a->name, ret, err);

    if (r != -ENOTCONN || !a->start)
        return r;
    *err = (struct err){0};
    r = sandbox_start(&start, NULL, &started, err);
    return r < 0 ? r : exec_connect(environ, NULL, started.name, ret, err);
}

void exec_say_stopped(const char *name, unsigned end) {
    if (end & EXEC_END_LANDED)
        log_line("sandbox '%s' was stopped: a protected file was put in place on the host while something inside had it open for "
                 "writing; 'bawn status %s' says which: check it",
                 name, name);
    else if (end & EXEC_END_STOP)
        log_line("sandbox '%s' was stopped", name);
}

static void say_how_it_ended(const struct exec_args *a, const struct exec_result *r) {
    char time[24];

    if (r->exec_errno && r->status == EXIT_NOTFOUND && !strchr(a->argv[0], '/'))
        log_line("%s: command not found inside the sandbox", a->argv[0]);
    else if (r->exec_errno)
        log_line("%s: %s", a->argv[0], strerror(r->exec_errno));
    format_duration(a->timeout_ms, time);
    if ((r->end & EXEC_END_TIMEOUT) && a->timeout_ms)
        log_line("time limit %s reached", time);
    else if (r->end & EXEC_END_TIMEOUT)
        log_line("the time limit of sandbox '%s' was reached", a->name);
    if (r->end & EXEC_END_MEMORY)
        log_line("the memory limit of sandbox '%s' was reached", a->name);
    if (r->end & EXEC_END_DISK)
        log_line("the disk limit of sandbox '%s' was reached", a->name);
    exec_say_stopped(a->name, r->end);
}

int exec_args_run(const struct exec_args *a, int sock, struct exec_result *ret, struct err *err) {
    const struct exec_options opt = {.request = exec_args_request(a),
                                     .sandbox = a->name,
                                     .force_tty = a->tty,
                                     .no_tty = a->no_tty,
                                     .closed = {a->closed[0], a->closed[1], a->closed[2]}};

    return exec_foreground(sock, &opt, ret, err);
}

static void print_result(const struct exec_args *a, const struct exec_result *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    const char *sep = "";
    static const struct {
        unsigned end;
        const char *name;
    } limits[] = {{EXEC_END_MEMORY, "memory"}, {EXEC_END_TIMEOUT, "time"}, {EXEC_END_DISK, "disk"}};

    buf_addf(&b, "{\"status\":%d,\"signal\":%d,\"started\":%s,\"sandbox\":\"%s\",\"job\":%d,\"limits_hit\":[", r->status,
             r->signal, r->started ? "true" : "false", a->name, r->job);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (r->end & limits[i].end) {
            buf_addf(&b, "%s\"%s\"", sep, limits[i].name);
            sep = ",";
        }
    buf_addf(&b, "],\"stopped\":%s,\"duration_ms\":%" PRIu64 ".%03" PRIu64 "}\n", r->end & EXEC_END_STOP ? "true" : "false",
             r->duration_us / 1000, r->duration_us % 1000);
    fd_write_all(STDERR_FILENO, buf_str(&b), b.len);
}

static int run_background(const struct exec_args *a, int sock, struct err *err) {
    struct exec_request request = exec_args_request(a);
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    int job, r;

    request.flags = a->tty ? EXEC_FLAGS_TTY : 0;
    r = exec_background(sock, &request, &job, err);
    if (r < 0)
        return r;
    if (a->json)
        buf_addf(&b, "{\"sandbox\": \"%s\", \"job\": %d}\n", a->name, job);
    else
        buf_addf(&b, "%d\n", job);
    return run_print_out(&b, err);
}

int exec_run(struct exec_args *a, struct err *err) {
    CLEANUP(closep) int sock = -1;
    struct exec_result result;
    char name[BOX_ID_MAX + 1];
    int r = sandbox_name(a->name, NULL, name, err);

    a->name = name;
    r = r < 0 ? r : exec_args_terminal(a, err);
    r = r < 0 ? r : exec_args_connect(a, &sock, err);
    if (r < 0 || a->background)
        return r < 0 ? r : run_background(a, sock, err);
    r = exec_args_run(a, sock, &result, err);
    if (r < 0)
        return r;
    say_how_it_ended(a, &result);
    if (a->json)
        print_result(a, &result);
    return result.status;
}
