/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/run/run_options.h"
#include "cli/verb.h"
#include "ops/agent/agent_run.h"
#include "ops/batch/batch.h"
#include "ops/sandbox/keep_alive.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "supervisor/session/run.h"
#include "supervisor/terminal/stdio.h"

enum { RESULT_MAX = 2 * 1024 * 1024 };

static const char description[] =
    "Runs COMMAND in a sandbox: it sees the workspace, its own empty home and /tmp, and the host's programs read-only; it "
    "reaches the hosts that the network rules allow; CPU, memory, processes and disk are limited. Standard streams, signals, "
    "terminal and exit status are as if it ran directly.\n\n"
    "Without a profile the limits are those of 'dev', and package registries, model services and git hosts can be reached; other "
    "hosts are asked about on a terminal and denied without one (see 'bawn policy'). A limit that was reached is named at the "
    "end.\n\n"
    "With --agent NAME of a preset ('bawn agents') the command is the agent, and what follows are its arguments: its program is found or "
    "installed, its model can be reached, its configuration is kept for this project, and its key stays outside (see 'bawn secret').\n\n"
    "    bawn run --agent claude -- -p 'fix the tests'\n\n"
    "With \"keep_alive\" in the configuration the command runs in the project's own sandbox, which is started if need be and stays; see 'bawn "
    "help start'.\n\n"
    "With --each the command runs once for each of a list, several at once, each in a sandbox and with a workspace of its own; see 'bawn help "
    "batch'.\n\n"
    "    bawn run --each 42,43,44 --agent claude -- -p 'fix issue {}'";

/* Asks on the terminal; anything but yes is no. */
static int confirm(struct err *err) {
    CLEANUP(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    char answer[16];
    ssize_t n;

    log_line(
        "WARNING: without a sandbox the command can read your keys and tokens, change any of your files and use the network");
    if (tty < 0 || !isatty(STDIN_FILENO))
        return err_usage(err, "--no-sandbox without a terminal needs --yes-unsandboxed");
    if (fd_write_all(tty, "bawn: run it unprotected? [y/N] ", 32) < 0)
        return err_set(err, -EIO, "the terminal does not answer");
    n = fd_read_some(tty, answer, sizeof answer);
    if (n < 1 || (answer[0] != 'y' && answer[0] != 'Y'))
        return err_set(err, -ECANCELED, "not run");
    return 0;
}

/* Replaces this program by the command; returns only on failure. */
static int run_unsandboxed(const struct run_args *a, struct err *err) {
    struct plan plan = {.argv = a->argv, .argc = a->argc};
    struct engine_request req = {.plan = &plan, .guard = -1};
    struct sandbox sb = SANDBOX_INIT;
    bool weaker;
    int r = a->yes_unsandboxed ? 0 : confirm(err);

    if (r < 0)
        return r;
    if (a->yes_unsandboxed)
        log_line("no sandbox: nothing is kept");
    sigprocmask(SIG_SETMASK, NULL, &req.old_mask);
    return engine_none.start(&req, &sb, &weaker, err);
}

/* How `bawn run` was called. */
struct typed {
    int argc;
    char **argv;
    bool closed[3];
};

static void say_not_executed(const char *name, const struct run_result *r) {
    if (r->status == EXIT_NOTFOUND && !strchr(name, '/'))
        log_line("%s: command not found inside the sandbox", name);
    else
        log_line("%s: %s", name, strerror(r->exec_errno));
}

/* Whoever waits for it may be gone. */
static void send_result(int fd, const struct buf *json) {
    for (size_t at = 0; at < json->len;) {
        ssize_t n = send(fd, json->data + at, json->len - at, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return;
        at += n < 0 ? 0 : (size_t)n;
    }
}

static void report(const struct run_args *a, const struct settings *s, const struct run_result *r) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(RESULT_MAX);

    if (r->exec_errno)
        say_not_executed(a->argv[0], r);
    run_report_limits(r, s);
    if (!a->json && !a->result_fd)
        return;
    run_report_json(r, s, &json);
    if (a->json)
        fd_write_all(STDERR_FILENO, buf_str(&json), json.len);
    if (a->result_fd)
        send_result(a->result_fd, &json);
}

static int run_sandboxed(const struct run_args *a, const struct host_facts *facts, const struct settings *s, const bool closed[3],
                         struct err *err) {
    struct run_options opt = {.settings = s,
                              .facts = facts,
                              .input = &a->input,
                              .rules = a->rules,
                              .accepted = a->accepted,
                              .name = a->name,
                              .fresh = a->result_fd != 0,
                              .parent = a->result_fd,
                              .argv = a->argv,
                              .argc = a->argc,
                              .force_tty = a->tty,
                              .no_tty = a->no_tty,
                              .want_usage = a->json || a->result_fd,
                              .closed = {closed[0], closed[1], closed[2]}};
    CLEANUP(run_result_done) struct run_result result = {0};
    int r;

    if (s->image && s->origin[SETTING_IMAGE] && str_starts(s->origin[SETTING_IMAGE], "flag"))
        return err_usage(err, "--image is for container engines; the native engine uses the host's own programs");
    r = run_command(&opt, &result, err);
    if (r < 0)
        return r;
    report(a, s, &result);
    return result.status;
}

/* keep_alive: in the project's own sandbox, which stays. */
static int run_kept(const struct run_args *a, const struct host_facts *facts, const struct settings *s, const struct typed *t,
                    struct err *err) {
    CLEANUP(sandbox_start_done) struct sandbox_start start = {0};
    CLEANUP(run_result_done) struct run_result result = {0};
    int r = sandbox_start_collect(&start, run_opts, N_RUN_OPTS_ALL, t->argc, t->argv, err);

    r = r < 0 ? r : keep_alive_run(a, facts, s, &start, t->closed, &result, err);
    if (r < 0)
        return r;
    report(a, s, &result);
    return result.status;
}

static int run_parsed(const struct verb *self, struct run_args *a, const struct typed *t, struct err *err) {
    CLEANUP(settings_done) struct settings s = {0};
    CLEANUP(strv_done) struct strv owned = {0};
    CLEANUP(agent_run_done) struct agent_run agent = {0};
    struct host_facts facts;
    int r;

    if (a->help) {
        verb_help(self);
        return 0;
    }
    if (a->argc == 0 && !a->agent)
        return err_usage(err, "which command? e.g. bawn run -- npm test");
    if (a->jobs || a->retries || a->log_dir || a->stop_on_failure)
        return err_usage(err, "--jobs, --retries, --stop-on-failure and --log-dir are for --each, and for 'bawn batch'");
    a->record = !a->dry_run;
    r = run_args_load(a, &facts, &owned, &s, err);
    r = r < 0 || !a->agent || s.mode == MODE_OFF ? r : agent_run_prepare(&agent, a, &facts, &s, err);
    if (r < 0)
        return r;
    if (a->argc == 0)
        return err_usage(err,
                         s.mode == MODE_OFF ? "without a sandbox the preset of '%s' is not used, so which command?"
                                            : "'%s' is no agent with a preset (see 'bawn agents'), so which command?",
                         a->agent);
    for (size_t i = 0; i < s.notes.len; i++)
        log_line("%s", s.notes.v[i]);
    if (a->dry_run)
        return run_args_explain(a, &facts, &s, err);
    if (s.mode == MODE_OFF)
        return run_unsandboxed(a, err);
    return keep_alive_wanted(a, &s) ? run_kept(a, &facts, &s, t, err) : run_sandboxed(a, &facts, &s, t->closed, err);
}

static int run_run(const struct verb *self, int argc, char **argv) {
    CLEANUP(run_args_done) struct run_args a = {0};
    struct err err = {0};
    struct typed t = {.argc = argc, .argv = argv};
    int r = stdio_reserve(t.closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : run_args_parse_run(argc, argv, &a, &err);
    if (r >= 0 && a.each && !a.help)
        r = batch_each(&a, argc, argv, &err);
    else
        r = r < 0 ? r : run_parsed(self, &a, &t, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "run a command in a sandbox",
    .synopsis = "[options] [--] COMMAND [ARG...]",
    .description = description,
    .opts = run_opts,
    .n_opts = N_RUN_OPTS_RUN,
    .run = run_run,
};
