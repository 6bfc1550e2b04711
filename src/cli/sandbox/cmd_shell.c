/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/sandbox/attach_run.h"
#include "ops/sandbox/exec_run.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"

enum { OPT_KEYS = 1, OPT_DIRECTORY, OPT_ENV, OPT_CWD, OPT_JSON };

static const struct opt opts[] = {
    {OPT_DIRECTORY, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir"},
    {OPT_ENV, 'e', "env", "NAME[=VALUE]", "set a variable, or pass the one of this name on (may be repeated)", NULL},
    {OPT_CWD, 'w', "workdir", "DIR", "where it begins, a path inside (default: the workspace)", NULL},
    {OPT_KEYS, 0, "detach-keys", "KEYS", "leave the shell running with these keys, \"\": with none (default: ctrl-p,ctrl-q)",
     NULL},
    {OPT_JSON, 0, "json", NULL, "the result as one JSON line on stderr", NULL},
};

struct shell_args {
    struct exec_args exec;
    const char *dir;
    char keys[EXEC_KEYS_MAX + 1];
    bool have_keys;
};

static void args_done(struct shell_args *a) {
    exec_args_done(&a->exec);
}

static int take(struct shell_args *a, const struct opt_iter *it, struct err *err) {
    switch (it->id) {
    case OPT_KEYS:
        a->have_keys = true;
        return exec_detach_keys(it->value, a->keys, err);
    case OPT_DIRECTORY:
        a->dir = it->value;
        return 0;
    case OPT_ENV:
        return exec_args_env(&a->exec, it->value, err);
    case OPT_CWD:
        a->exec.cwd = it->value;
        return it->value[0] == '/' ? 0 : err_usage(err, "--workdir takes an absolute path inside, not '%.60s'", it->value);
    case OPT_JSON:
        a->exec.json = true;
        return 0;
    }
    BUG("an option that nobody takes");
}

static int parse(int argc, char **argv, struct shell_args *a, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int n = 0, r;

    while ((r = sandbox_opt_next(&it, &n, err)) > 0)
        if ((r = take(a, &it, err)) < 0)
            return r;
    if (r == 0 && n > 1)
        return err_usage(err, "a shell takes no command: bawn exec %.60s -- %.60s", argv[1], argv[2]);
    a->exec.name = n ? argv[1] : NULL;
    return r;
}

/* Starts what is stopped; without a name the project's own is made if there is none. A name that is not known is a slip. */
static int connect_or_start(const struct shell_args *a, const char *name, int *ret, struct err *err) {
    CLEANUP(sandbox_started_done) struct sandbox_started started = {0};
    const struct sandbox_start start = {.name = a->exec.name, .dir = a->dir};
    int r = exec_connect(environ, NULL, name, ret, err);

    if (r != -ENOTCONN && (r != -ENOENT || a->exec.name))
        return r;
    *err = (struct err){0};
    r = sandbox_start(&start, NULL, &started, err);
    if (r < 0)
        return r;
    log_line("sandbox '%s' %s", started.name, started.made ? "is new" : "was started");
    return exec_connect(environ, NULL, started.name, ret, err);
}

/* The first that is there: only the inside knows. */
static int run_shell(struct shell_args *a, struct err *err) {
    static char script[] = "for s do command -v \"$s\" >/dev/null 2>&1 && exec \"$s\"; done";
    const char *mine = paths_getenv(environ, "SHELL");
    char *argv[] = {"/bin/sh", "-c", script, "shell", (char *)(mine ? mine : "bash"), "bash", "sh", NULL};
    CLEANUP(closep) int sock = -1;
    struct exec_request request;
    struct attach_options attach = {.start = &request, .detach_keys = a->have_keys ? a->keys : NULL};
    char name[BOX_ID_MAX + 1];
    int r = sandbox_name(a->exec.name, a->dir, name, err);

    r = r < 0 ? r : exec_args_terminal(&a->exec, err);
    r = r < 0 ? r : connect_or_start(a, name, &sock, err);
    if (r < 0)
        return r;
    a->exec.argv = argv;
    a->exec.argc = ARRAY_LEN(argv) - 1;
    request = exec_args_request(&a->exec);
    request.flags = EXEC_FLAGS_TTY;
    attach.sandbox = name;
    return attach_run(sock, &attach, a->exec.json, err);
}

static int run_shell_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(args_done) struct shell_args a = {0};
    struct err err = {0};
    int r = stdio_reserve(a.exec.closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : parse(argc, argv, &a, &err);
    r = r < 0 ? r : run_shell(&a, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_shell = {
    .name = "shell",
    .summary = "open a shell in a sandbox that is kept",
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
