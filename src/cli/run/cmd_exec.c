/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/sandbox/exec_run.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"

enum { OPT_TOOL = 1, OPT_DIRECTORY, OPT_DETACH, OPT_ENV, OPT_CWD, OPT_TIMEOUT, OPT_START, OPT_TTY, OPT_NO_TTY, OPT_JSON };

static const struct opt opts[] = {
    {OPT_DETACH, 'd', "detach", NULL, "run it in the background and print the number of its job", NULL},
    {OPT_ENV, 'e', "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on (may be repeated)", NULL},
    {OPT_CWD, 'w', "workdir", "DIR", "where it runs, a path inside (default: the workspace)", NULL},
    {OPT_TIMEOUT, 't', "timeout", "TIME", "end it after this time, e.g. 90s or 5m (exit status 124)", NULL},
    {OPT_START, 0, "start", NULL, "start the sandbox first if it is stopped", NULL},
    {OPT_TTY, 0, "tty", NULL, "give the command a terminal even if there is none", NULL},
    {OPT_NO_TTY, 0, "no-tty", NULL, "give the command pipes even if there is a terminal", NULL},
    {OPT_JSON, 0, "json", NULL, "the result as one JSON line on stderr; with --detach the job as JSON on stdout", NULL},
    {OPT_TOOL, 0, "tool", "NAME", "a tool that the user's configuration lists in bypass_tools: runs on the host", NULL},
    {OPT_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
};

/* Only the user's word counts: neither the project's, trusted or not, nor a variable's or a flag's of the moment. */
static int check_tool(const char *tool, const struct host_facts *facts, struct err *err) {
    const struct settings_flags none = {0};
    const struct settings_sources src = {
        .flags = &none, .workspace = facts->workspace, .home = facts->home, .environ_ = facts->environ_};
    CLEANUP(settings_done) struct settings s = {0};
    int r = settings_load(&src, &s, err);
    const char *origin = r < 0 ? NULL : s.origin[SETTING_BYPASS_TOOLS];

    if (r < 0)
        return r;
    if (strchr(tool, '/') || !strv_has(&s.bypass_tools, tool))
        return err_set(err, -EPERM, "'%s' is not in bypass_tools of your configuration, so it does not run on the host", tool);
    if (!origin || !str_starts(origin, "user"))
        return err_set(err, -EPERM, "bypass_tools counts in your own configuration only, not from %s",
                       origin ? origin : "elsewhere");
    return 0;
}

/* Before the effect; what cannot be recorded does not happen. */
static int record(const char *tool, const char *path, char **argv, size_t argc, const struct host_facts *facts, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);
    CLEANUP(freep) char *folder = NULL;
    int r = paths_state_if_home(facts->environ_, facts->home, "audit", &folder, err);

    if (r < 0)
        return r;
    if (!folder)
        return err_set(err, -ENOENT, "there is no place for the record; set HOME or XDG_STATE_HOME");
    audit_add(&b, "tool", tool);
    audit_add(&b, "program", path);
    audit_add(&b, "workspace", facts->workspace);
    audit_add_argv(&b, argv, argc);
    return buf_ok(&b) ? audit_note(facts->environ_, facts->home, AUDIT_TOOL, buf_str(&b), err) : err_oom(err);
}

/* Returns only on failure. */
static int run_tool(const char *tool, const char *dir, char **argv, size_t argc, struct err *err) {
    CLEANUP(strv_done) struct strv owned = {0}, call = {0};
    CLEANUP(freep) char *path = NULL;
    struct host_facts facts;
    int r = dir && chdir(dir) < 0 ? err_sys(err, -errno, "workspace '%s'", dir) : host_facts(&facts, &owned, err);

    r = r < 0 ? r : check_tool(tool, &facts, err);
    if (r < 0)
        return r;
    path = agent_find_in_path(tool, &facts);
    if (!path) {
        err_set(err, -ENOENT, "%s: not found in PATH (the workspace and relative folders do not count)", tool);
        err->status = EXIT_NOTFOUND;
        return -ENOENT;
    }
    r = strv_add(&call, tool);
    for (size_t i = 0; r == 0 && i < argc; i++)
        r = strv_add(&call, argv[i]);
    r = r < 0 ? err_oom(err) : record(tool, path, argv, argc, &facts, err);
    if (r < 0)
        return r;
    execve(path, call.v, environ);
    r = err_sys(err, -errno, "start '%s'", path);
    err->status = EXIT_NOEXEC;
    return r;
}

static int take(struct exec_args *a, const struct opt_iter *it, struct err *err) {
    switch (it->id) {
    case OPT_DETACH:
        a->background = true;
        return 0;
    case OPT_ENV:
        return exec_args_env(a, it->value, err);
    case OPT_CWD:
        a->cwd = it->value;
        return it->value[0] == '/' ? 0 : err_usage(err, "--workdir takes an absolute path inside, not '%.60s'", it->value);
    case OPT_TIMEOUT:
        return parse_duration(it->value, &a->timeout_ms, err);
    case OPT_START:
        a->start = true;
        return 0;
    case OPT_TTY:
        a->tty = true;
        return 0;
    case OPT_NO_TTY:
        a->no_tty = true;
        return 0;
    case OPT_JSON:
        a->json = true;
        return 0;
    }
    BUG("an option that nobody takes");
}

/* SANDBOX [--] COMMAND... */
static int run_inside(struct exec_args *a, int argc, char **argv, struct err *err) {
    int at = 1;

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
    return exec_run(a, err);
}

static int run_exec(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    CLEANUP(exec_args_done) struct exec_args a = {0};
    const char *tool = NULL, *dir = NULL;
    struct err err = {0};
    int r = stdio_reserve(a.closed);

    if (r < 0)
        err_sys(&err, r, "standard streams");
    while (r >= 0 && (r = opt_next(&it, &err)) > 0)
        if (it.id == OPT_TOOL || it.id == OPT_DIRECTORY)
            *(it.id == OPT_TOOL ? &tool : &dir) = it.value;
        else
            r = take(&a, &it, &err);
    if (r == 0 && tool)
        r = run_tool(tool, dir, argv + it.pos, (size_t)(argc - it.pos), &err); /* returns only on failure */
    else if (r == 0)
        r = dir ? err_usage(&err, "--directory goes with --tool only") : run_inside(&a, argc - it.pos, argv + it.pos, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_exec = {
    .name = "exec",
    .summary = "run a command in a sandbox that is kept",
    .synopsis = "[options] SANDBOX [--] COMMAND [ARG...]",
    .description =
        "Runs COMMAND in a sandbox that 'bawn start' has started, beside whatever runs there. Standard streams, signals, terminal and exit "
        "status are as if it ran directly; it ends when this command is ended. With --detach it goes on alone: see 'bawn logs', 'bawn "
        "attach'.\n\n"
        "With --tool NAME nothing runs in a sandbox. It is for agents that run outside and put their commands into sandboxes: some of "
        "their tools belong on the host. Only those that \"bypass_tools\" in your own configuration lists run, found in PATH but never in "
        "the workspace; each call is recorded in the audit log first ('bawn log').\n\n"
        "    bawn exec --tool todoread -- ARG",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_exec,
};
