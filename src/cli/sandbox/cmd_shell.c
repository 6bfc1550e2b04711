/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn shell` and `attach`. */
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"

struct detach_keys {
    bool given;
    char keys[EXEC_KEYS_MAX + 1];
};

static int take_keys(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    struct detach_keys *k = to;

    k->given = true;
    return exec_detach_keys(value, k->keys, err);
}

/* Returns the exit status: the job's, or 0 if the user detached. */
static int print_attached(const struct attach_result *r, bool json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    struct jsonout j = {.to = &b, .compact = true};

    if (r->detached && r->exec.job)
        log_note("detached; 'bawn attach %s %d' comes back", r->sandbox, r->exec.job);
    if (!json)
        return r->detached ? 0 : r->exec.status;
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "sandbox", r->sandbox);
    jsonout_int(&j, "job", r->exec.job);
    jsonout_bool(&j, "detached", r->detached);
    jsonout_u64_if(&j, "status", !r->detached, (uint64_t)r->exec.status);
    if (!r->detached)
        jsonout_int(&j, "signal", r->exec.signal);
    buf_adds(&b, "}\n");
    fd_write_all(STDERR_FILENO, buf_str(&b), b.len);
    return r->detached ? 0 : r->exec.status;
}

struct shell_line {
    struct attach_args attach;
    struct exec_args exec;
    struct detach_keys keys;
    bool json;
};

static const struct opt shell_opts[] = {
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct shell_line, attach.dir)},
    {0, 'e', "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on (may be repeated)", NULL,
     OPT_TO_CALL(struct shell_line, exec, exec_option_env)},
    {0, 'w', "workdir", "DIR", "where it begins, a path inside (default: the workspace)", NULL,
     OPT_TO_CALL(struct shell_line, exec.cwd, exec_option_cwd)},
    {0, 0, "detach-keys", "KEYS", "leave the shell running with these keys, \"\": with none (default: ctrl-p,ctrl-q)", NULL,
     OPT_TO_CALL(struct shell_line, keys, take_keys)},
    {0, 0, "json", NULL, "the result as one JSON line on stderr", NULL, OPT_TO_FLAG(struct shell_line, json)},
    VERB_QUIET_OPT,
};

static int open_shell(const struct verb_call *c, struct shell_line *l, struct err *err) {
    struct attach_result result = {0};
    int r = verb_parse(c, l, c->argc, err);

    if (r > 1)
        return err_usage(err, "a shell takes no command: bawn exec %.60s -- %.60s", c->argv[1], c->argv[2]);
    if (r == 1)
        l->attach.name = c->argv[1];
    l->attach.no_tty = !isatty(STDIN_FILENO);
    l->attach.notice = &verb_notice;
    l->attach.alert = &verb_alert;
    l->attach.detach_keys = l->keys.given ? l->keys.keys : NULL;
    r = r < 0 ? r : exec_shell(&l->attach, &l->exec, &result, err);
    return r < 0 ? r : print_attached(&result, l->json);
}

static int run_shell(struct verb_call *c, struct err *err) {
    struct shell_line l = {0};
    int r = stdio_reserve(l.exec.closed);

    r = r < 0 ? err_sys(err, r, "standard streams") : open_shell(c, &l, err);
    exec_args_done(&l.exec);
    return r;
}

const struct verb verb_shell = {
    .name = "shell",
    .summary = "open a shell in a persistent sandbox",
    .synopsis = "[options] [SANDBOX]",
    .description =
        "Your shell ($SHELL if it is there inside, else bash, else sh) in the sandbox, which is started if it is stopped, and made if there "
        "is none. Without SANDBOX it is the project's own.\n\n"
        "The shell runs in the background of the sandbox, so that closing the terminal does not end it: ctrl-p ctrl-q leaves it "
        "running, and 'bawn attach' comes back, also from several terminals at once. If "
        "the standard input is no terminal the shell reads its commands from there, without a terminal, and ends with them.",
    VERB_OPTS(shell_opts),
    .run = run_shell,
};

/* -- attach ----------------------------------------------------------------------------------------------------------------- */

struct attach_line {
    struct attach_args attach;
    struct detach_keys keys;
    bool json;
};

static const struct opt attach_opts[] = {
    {0, 0, "read-only", NULL, "look only: nothing that is typed goes inside; ctrl-c leaves", NULL,
     OPT_TO_FLAG(struct attach_line, attach.read_only)},
    {0, 0, "detach-keys", "KEYS", "leave with these keys, \"\": with none (default: ctrl-p,ctrl-q)", NULL,
     OPT_TO_CALL(struct attach_line, keys, take_keys)},
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct attach_line, attach.dir)},
    {0, 0, "json", NULL, "the result as one JSON line on stderr", NULL, OPT_TO_FLAG(struct attach_line, json)},
};

static int attach(const struct verb_call *c, struct attach_line *l, struct err *err) {
    struct attach_result result = {0};
    int r = verb_parse(c, l, 2, err);

    r = r < 0 ? r : exec_operands(r, c->argv + 1, &l->attach.name, &l->attach.job, err);
    l->attach.notice = &verb_notice;
    l->attach.alert = &verb_alert;
    l->attach.detach_keys = l->keys.given ? l->keys.keys : NULL;
    r = r < 0 ? r : exec_attach_job(&l->attach, &result, err);
    return r < 0 ? r : print_attached(&result, l->json);
}

static int run_attach(struct verb_call *c, struct err *err) {
    struct attach_line l = {0};
    bool closed[3];
    int r = stdio_reserve(closed);

    return r < 0 ? err_sys(err, r, "standard streams") : attach(c, &l, err);
}

const struct verb verb_attach = {
    .name = "attach",
    .summary = "come back to a shell or command in the background",
    .synopsis = "[options] [SANDBOX] [JOB]",
    .description =
        "Shows what a job in the background of a sandbox prints, beginning with the last of it, and types into it, until it ends or "
        "ctrl-p ctrl-q is pressed. Several can be attached at once: all see the same, and all may type. Without JOB it is the "
        "latest one, without SANDBOX the project's own. If the standard input is no terminal its end leaves a job that has one, and is "
        "the end of the input of any other.\n\n"
        "The exit status is the job's, or 0 after the keys.",
    VERB_OPTS(attach_opts),
    .run = run_attach,
};
