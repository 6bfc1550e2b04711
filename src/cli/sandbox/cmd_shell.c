/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn shell`. */
#include "base/err.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "supervisor/terminal/stdio.h"

struct shell_line {
    struct attach_args attach;
    struct exec_args exec;
    struct exec_keys keys;
    bool json;
};

static const struct opt opts[] = {
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct shell_line, attach.dir)},
    {0, 'e', "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on (may be repeated)", NULL,
     OPT_TO_CALL(struct shell_line, exec, exec_option_env)},
    {0, 'w', "workdir", "DIR", "where it begins, a path inside (default: the workspace)", NULL,
     OPT_TO_CALL(struct shell_line, exec.cwd, exec_option_cwd)},
    {0, 0, "detach-keys", "KEYS", "leave the shell running with these keys, \"\": with none (default: ctrl-p,ctrl-q)", NULL,
     OPT_TO_CALL(struct shell_line, keys, exec_option_keys)},
    {0, 0, "json", NULL, "the result as one JSON line on stderr", NULL, OPT_TO_FLAG(struct shell_line, json)},
};

static void line_done(struct shell_line *l) {
    exec_args_done(&l->exec);
}

static int run_shell(struct shell_line *l, int argc, char **argv, struct err *err) {
    struct attach_result result = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, l, argc, err);

    if (r > 1)
        return err_usage(err, "a shell takes no command: bawn exec %.60s -- %.60s", argv[1], argv[2]);
    if (r == 1)
        l->attach.name = argv[1];
    l->attach.notice = &verb_notice;
    l->attach.detach_keys = l->keys.given ? l->keys.keys : NULL;
    r = r < 0 ? r : exec_shell(&l->attach, &l->exec, &result, err);
    return r < 0 ? r : exec_print_attached(&result, l->json);
}

static int run_shell_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(line_done) struct shell_line l = {0};
    struct err err = {0};
    int r = stdio_reserve(l.exec.closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : run_shell(&l, argc, argv, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_shell = {
    .name = "shell",
    .summary = "open a shell in a persistent sandbox",
    .synopsis = "[options] [SANDBOX]",
    .description =
        "Your shell ($SHELL if it is there inside, else bash, else sh) in the sandbox, which is started if it is stopped. Without "
        "SANDBOX it is the project's own, which is made if there is none.\n\n"
        "The shell runs in the background of the sandbox, so that closing the terminal does not end it: ctrl-p ctrl-q leaves it "
        "running, and 'bawn attach' comes back, also from several terminals at once.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_shell_verb,
};
