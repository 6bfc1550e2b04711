/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn run` and `explain`. */
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
#include "ops/run/run_prepare.h"
#include "ops/sandbox/run_perform.h"
#include "ops/tools/tool_where.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"

enum { RESULT_MAX = 2 * 1024 * 1024 };

/* clang-format off */
static const struct opt opts[] = {
    RUN_COMMON_OPTS,
    {0, 0, "agent-setup", "FILE", "with --agent: instructions, skills and MCP servers for this run, as JSON (see docs/agents.md)", "@file",
     OPT_TO_TEXT(struct run_args, request.agent_setup)},
    {0, 0, "each", "LIST", "once for each of A,B,C (or of the lines of @FILE, or - for stdin), which stands for {}", NULL,
     OPT_TO_TEXT(struct run_args, each)},
    RUN_BATCH_OPTS,
    VERB_QUIET_OPT,
    {0, 0, "result-fd", "N", "for bawn itself", NULL, OPT_TO_CALL(struct run_args, request.parent, run_args_result_fd)},
    {0, 0, "passing", NULL, "for bawn itself", NULL, OPT_TO_FLAG(struct run_args, request.passing)},
};
/* clang-format on */

/* Asks on the terminal; anything but yes is no. -ENXIO: there is none. */
static int ask_terminal(const char *question) {
    CLEANUP(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    char answer[16];
    ssize_t n;

    if (tty < 0 || !isatty(STDIN_FILENO))
        return -ENXIO;
    if (fd_write_all(tty, question, strlen(question)) < 0)
        return -EIO;
    n = fd_read_some(tty, answer, sizeof answer);
    return n > 0 && (answer[0] == 'y' || answer[0] == 'Y') ? 0 : -ECANCELED;
}

static int confirm(struct err *err) {
    int r;

    log_line(
        "WARNING: without a sandbox the command can read your keys and tokens, change any of your files and use the network");
    r = ask_terminal("bawn: run it unprotected? [y/N] ");
    if (r == -ENXIO)
        return err_usage(err, "--no-sandbox without a terminal needs --yes-unsandboxed");
    if (r == -EIO)
        return err_set(err, -EIO, "the terminal does not answer");
    return r < 0 ? err_set(err, -ECANCELED, "not run") : 0;
}

/* What settings of an agent run, before they come in. */
static bool confirm_config(const struct strv *runs, void *arg UNUSED) {
    log_line("your settings of the agent run commands, inside the sandbox:");
    for (size_t i = 0; i < runs->len; i++)
        log_line("  %s", runs->v[i]);
    return ask_terminal("bawn: bring them in? [y/N] ") == 0;
}

static void say_not_executed(const char *name, const struct run_prepared *p, const struct run_result *r) {
    if (r->status == EXIT_NOTFOUND && !strchr(name, '/'))
        tool_say_missing(&verb_alert, name, p->facts.workspace, NULL);
    else
        log_line("%s: %s", name, strerror(r->exec_errno));
}

/* The batch that waits for it may be gone. */
static void send_result(int fd, const struct buf *json) {
    for (size_t at = 0; at < json->len;) {
        ssize_t n = send(fd, json->data + at, json->len - at, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return;
        at += n < 0 ? 0 : (size_t)n;
    }
}

static void report_run(const struct run_args *a, const struct run_prepared *p, const struct run_result *r) {
    const struct settings *s = &p->settings;
    CLEANUP(buf_done) struct buf json = BUF_INIT(RESULT_MAX);

    if (r->exec_errno)
        say_not_executed(p->input.argv[0], p, r);
    run_report_limits(r, s);
    if (!a->json && !a->request.parent)
        return;
    run_report_json(r, s, &json);
    if (a->json)
        fd_write_all(STDERR_FILENO, buf_str(&json), json.len);
    if (a->request.parent)
        send_result(a->request.parent, &json);
}

static int run_unsandboxed(const struct run_args *a, const struct run_prepared *p, struct err *err) {
    int r = a->yes_unsandboxed ? 0 : confirm(err);

    if (r < 0)
        return r;
    if (a->yes_unsandboxed)
        log_line("running without a sandbox: nothing is enforced");
    return run_unprotected(p, err);
}

static int run_sandboxed(const struct run_args *a, const struct run_prepared *p, struct err *err) {
    CLEANUP(run_result_done) struct run_result result = {0};
    int r = run_perform(p, &result, err);

    if (r < 0)
        return r;
    report_run(a, p, &result);
    return result.status;
}

static int check_args(const struct run_args *a, struct err *err) {
    if (a->request.argc == 0 && !a->request.agent && !a->request.flags.image)
        return err_usage(err, "which command? e.g. bawn run -- npm test");
    if (a->batch.jobs || a->batch.retries || a->batch.log_dir || a->batch.stop_on_failure)
        return err_usage(err, "--jobs, --retries, --stop-on-failure and --log-dir are for --each, and for 'bawn batch'");
    return 0;
}

static int run_once(const struct run_args *a, struct buf *out, struct err *err) {
    CLEANUP(run_prepared_done) struct run_prepared p = {0};
    int r = check_args(a, err);

    r = r < 0 ? r : run_prepare(&a->request, &p, err);
    if (r < 0)
        return r;
    if (p.input.argc == 0 && !a->request.agent)
        return err_usage(err, "image '%s' has no command of its own, so which one?", a->request.flags.image);
    if (p.input.argc == 0)
        return err_usage(err,
                         p.settings.mode == MODE_OFF ? "without a sandbox the preset of '%s' is not used, so which command?"
                                                     : "'%s' is no agent with a preset (see 'bawn agents'), so which command?",
                         a->request.agent);
    verb_say(&p.settings.notes);
    if (a->request.dry_run)
        return run_print_plan(&p, a->json, out, err);
    return p.settings.mode == MODE_OFF ? run_unsandboxed(a, &p, err) : run_sandboxed(a, &p, err);
}

static int run_each(const struct run_args *a, struct buf *out, struct err *err) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    int r = batch_expand(&b, a->each, a->request.argv, a->request.argc, err);

    return r < 0 ? r : run_print_batch(a, &b, out, err);
}

static int run_run(struct verb_call *c, struct err *err) {
    CLEANUP(run_args_done) struct run_args a = {0};
    int r = stdio_reserve(a.request.closed);

    r = r < 0 ? err_sys(err, r, "standard streams") : run_args_parse(opts, ARRAY_LEN(opts), c->argc, c->argv, &a, err);
    if (r >= 0 && a.help) {
        verb_help(c->verb, &c->out);
        return 0;
    }
    if (isatty(STDIN_FILENO))
        a.request.confirm = confirm_config;
    if (r >= 0)
        r = a.each ? run_each(&a, &c->out, err) : run_once(&a, &c->out, err);
    return r;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "run a command in a sandbox",
    .synopsis = "[options] [--] COMMAND [ARG...]",
    .description =
        "Runs COMMAND in a sandbox: it sees the workspace, its own empty home and /tmp, and the host's programs read-only; it "
        "reaches the hosts that the network rules allow; CPU, memory, processes and disk are limited. Standard streams, signals, "
        "terminal and exit status are as if it ran directly.\n\n"
        "Without a profile the limits are those of 'dev', and package registries, model services and git hosts can be reached; other "
        "hosts are asked about on a terminal and denied without one (see 'bawn policy'). A limit that was reached is named at the "
        "end, also if the private home and /tmp are full.\n\n"
        "With --agent NAME of a preset ('bawn agents') the command is the agent, and what follows are its arguments: its program is found or "
        "installed, its model can be reached, its configuration persists for this project, and its key stays outside (see 'bawn secret').\n\n"
        "    bawn run --agent claude -- -p 'fix the tests'\n\n"
        "With \"keep_alive\" in the configuration the command runs in the project's own sandbox, which is started if need be and stays; see 'bawn "
        "help start'.\n\n"
        "With --each the command runs once for each of a list, several at once, each in a sandbox and with a workspace of its own; see 'bawn help "
        "batch'.\n\n"
        "    bawn run --each 42,43,44 --agent claude -- -p 'fix issue {}'",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts) - 2, /* the last two are not for people */
    .run = run_run,
};

/* -- explain ---------------------------------------------------------------------------------------------------------------- */

static const struct opt explain_opts[] = {RUN_COMMON_OPTS};

static int explain(struct run_args *a, struct buf *out, struct err *err) {
    CLEANUP(run_prepared_done) struct run_prepared p = {0};
    int r;

    a->request.dry_run = true;
    r = run_prepare(&a->request, &p, err);
    if (r < 0)
        return r;
    verb_say(&p.settings.notes);
    return run_print_plan(&p, a->json, out, err);
}

static int run_explain(struct verb_call *c, struct err *err) {
    CLEANUP(run_args_done) struct run_args a = {0};
    int r = run_args_parse(explain_opts, ARRAY_LEN(explain_opts), c->argc, c->argv, &a, err);

    if (r >= 0 && a.help) {
        verb_help(c->verb, &c->out);
        return 0;
    }
    return r < 0 ? r : explain(&a, &c->out, err);
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "show the plan and the effective policy, each line with its origin",
    .synopsis = "[options] [--] [COMMAND [ARG...]]",
    .description = "Prints what 'bawn run' with the same options would do: the effective policy, each value with its origin, the "
                   "environment and every file and folder of the sandbox's root. Starts nothing.",
    VERB_OPTS(explain_opts),
    .run = run_explain,
};
