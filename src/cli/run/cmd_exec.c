/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn exec`. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "ops/run/host_tool.h"
#include "ops/tools/tool_where.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "supervisor/terminal/stdio.h"

struct exec_line {
    struct exec_args exec;
    const char *tool, *dir;
    bool json;
};

/* clang-format off */
static const struct opt opts[] = {
    {0, 'd', "detach", NULL, "run it in the background and print the number of its job", NULL, OPT_TO_FLAG(struct exec_line, exec.background)},
    {0, 'e', "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on (may be repeated)", NULL,
     OPT_TO_CALL(struct exec_line, exec, exec_option_env)},
    {0, 'w', "workdir", "DIR", "where it runs, a path inside (default: the workspace)", NULL,
     OPT_TO_CALL(struct exec_line, exec.cwd, exec_option_cwd)},
    {0, 't', "timeout", "TIME", "end it after this time, e.g. 90s or 5m (exit status 124)", NULL, OPT_TO_TIME(struct exec_line, exec.timeout_ms)},
    {0, 0, "start", NULL, "start the sandbox first if it is stopped", NULL, OPT_TO_FLAG(struct exec_line, exec.start)},
    {0, 0, "tty", NULL, "give the command a terminal even if there is none", NULL, OPT_TO_FLAG(struct exec_line, exec.tty)},
    {0, 0, "no-tty", NULL, "give the command pipes even if there is a terminal", NULL, OPT_TO_FLAG(struct exec_line, exec.no_tty)},
    {0, 0, "json", NULL, "the result as one JSON line on stderr; with --detach the job as JSON on stdout", NULL,
     OPT_TO_FLAG(struct exec_line, json)},
    VERB_QUIET_OPT,
    {0, 0, "tool", "NAME", "a tool that the user's configuration lists in bypass_tools: runs on the host", NULL,
     OPT_TO_TEXT(struct exec_line, tool)},
    {0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", OPT_TO_TEXT(struct exec_line, dir)},
};
/* clang-format on */

static void say_how_it_ended(const struct exec_args *a, const struct exec_result *r) {
    char time[24];

    if (r->exec_errno && r->status == EXIT_NOTFOUND && !strchr(a->argv[0], '/'))
        tool_say_missing(&verb_alert, a->argv[0], NULL, a->name);
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
    if (r->end & EXEC_END_PIDS)
        log_line("the process limit of sandbox '%s' was reached", a->name);
    if (r->end & EXEC_END_PRIVATE)
        log_line("/tmp in sandbox '%s' is full; empty it, or start the sandbox anew with a larger --tmp-size", a->name);
    exec_say_stopped(&verb_alert, a->name, r->end);
}

static void print_result(const struct exec_args *a, const struct exec_result *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    const char *sep = "";
    static const struct {
        unsigned end;
        const char *name;
    } limits[] = {{EXEC_END_MEMORY, "memory"},
                  {EXEC_END_PIDS, "pids"},
                  {EXEC_END_DISK, "disk"},
                  {EXEC_END_TIMEOUT, "time"},
                  {EXEC_END_PRIVATE, "private"}};

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

/* SANDBOX [--] COMMAND... */
static int run_inside(struct exec_line *l, int argc, char **argv, struct buf *out, struct err *err) {
    struct exec_args *a = &l->exec;
    struct exec_result result = {0};
    int r, at = 1;

    if (argc > at && str_eq(argv[at], "--"))
        at++;
    if (argc == 0)
        return err_usage(err, "in which sandbox? e.g. bawn exec web -- npm test (see 'bawn ps')");
    if (argc <= at)
        return err_usage(err, "which command? e.g. bawn exec %.60s -- npm test", argv[0]);
    if (a->tty && a->no_tty)
        return err_usage(err, "--tty and --no-tty exclude each other");
    a->name = argv[0];
    a->argv = argv + at;
    a->argc = (size_t)(argc - at);
    a->notice = &verb_notice;
    r = exec_run(a, &result, err);
    if (r >= 0 && a->background && l->json)
        buf_addf(out, "{\"sandbox\": \"%s\", \"job\": %d}\n", a->name, result.job);
    else if (r >= 0 && a->background)
        buf_addf(out, "%d\n", result.job);
    if (r < 0 || a->background)
        return r < 0 ? r : 0;
    say_how_it_ended(a, &result);
    if (l->json)
        print_result(a, &result);
    return result.status;
}

static int run_exec(struct verb_call *c, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), c->argc, c->argv);
    struct exec_line l = {0};
    int r = stdio_reserve(l.exec.closed);

    r = r < 0 ? err_sys(err, r, "standard streams") : opt_fill(&it, &l, err);
    if (r == 0 && l.tool)
        r = host_tool_exec(l.tool, l.dir, c->argv + it.pos, (size_t)(c->argc - it.pos), err);
    else if (r == 0)
        r = l.dir ? err_usage(err, "--directory goes with --tool only")
                  : run_inside(&l, c->argc - it.pos, c->argv + it.pos, &c->out, err);
    exec_args_done(&l.exec);
    return r;
}

const struct verb verb_exec = {
    .name = "exec",
    .summary = "run a command in a persistent sandbox",
    .synopsis = "[options] SANDBOX [--] COMMAND [ARG...]",
    .description =
        "Runs COMMAND in a sandbox that 'bawn start' has started, beside whatever runs there. Standard streams, signals, terminal and exit "
        "status are as if it ran directly; it ends when this command is ended. With --detach it goes on alone: see 'bawn logs', 'bawn "
        "attach'.\n\n"
        "With --tool NAME nothing runs in a sandbox. It is for agents that run outside and put their commands into sandboxes: some of "
        "their tools belong on the host. Only those that \"bypass_tools\" in your own configuration lists run, found in PATH but never in "
        "the workspace; each call is recorded in the audit log first ('bawn log').\n\n"
        "    bawn exec --tool todoread -- ARG",
    VERB_OPTS(opts),
    .run = run_exec,
};
