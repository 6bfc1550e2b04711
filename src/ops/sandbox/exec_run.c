/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a persistent sandbox and runs commands there. */
#include "ops/sandbox/exec_run.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/notice.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "proto/execmsg.h"

enum { HISTORY = 64 * 1024 /* bytes of old output that are shown first */ };

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

static struct exec_request make_request(const struct exec_args *a) {
    return (struct exec_request){.timeout_ms = a->timeout_ms,
                                 .cwd = a->cwd ? a->cwd : "",
                                 .argv = a->argv,
                                 .argc = a->argc,
                                 .envp = a->env.v,
                                 .envc = a->env.len};
}

static int start_and_connect(const struct sandbox_start *start, struct sandbox_started *ret_started, int *ret, struct err *err) {
    int r;

    *err = (struct err){0};
    r = sandbox_start(start, ret_started, err);
    return r < 0 ? r : exec_connect(environ, NULL, ret_started->name, ret, err);
}

void exec_say_stopped(const struct notice *n, const char *name, unsigned end) {
    if (end & EXEC_END_LANDED)
        notice_say(
            n,
            "sandbox '%s' was stopped: a protected file was put in place on the host while something inside had it open for "
            "writing; 'bawn status %s' says which: check it",
            name, name);
    else if (end & EXEC_END_STOP)
        notice_say(n, "sandbox '%s' was stopped", name);
}

int exec_args_run(const struct exec_args *a, int sock, struct exec_result *ret, struct err *err) {
    const struct exec_options opt = {.request = make_request(a),
                                     .sandbox = a->name,
                                     .force_tty = a->tty,
                                     .no_tty = a->no_tty,
                                     .closed = {a->closed[0], a->closed[1], a->closed[2]}};

    return exec_foreground(sock, &opt, ret, err);
}

int exec_run(struct exec_args *a, struct exec_result *ret, struct err *err) {
    const struct sandbox_start start = {.name = a->name, .notice = a->notice};
    struct sandbox_started started;
    CLEANUP(closep) int sock = -1;
    char name[BOX_ID_MAX + 1];
    int r = sandbox_name(a->name, NULL, name, err);

    r = r < 0 ? r : exec_args_terminal(a, err);
    r = r < 0 ? r : exec_connect(environ, NULL, name, &sock, err);
    if (r == -ENOTCONN && a->start)
        r = start_and_connect(&start, &started, &sock, err);
    if (r < 0)
        return r;
    if (a->background) {
        struct exec_request request = make_request(a);

        request.flags = a->tty ? EXEC_FLAGS_TTY : 0;
        return exec_background(sock, &request, &ret->job, err);
    }
    return exec_args_run(a, sock, ret, err);
}

/* -- a job in the background --------------------------------------------------------------------------------------------- */

static int attach_to(int sock, const struct attach_args *a, struct attach_options *o, struct attach_result *ret,
                     struct err *err) {
    int r;

    o->sandbox = ret->sandbox;
    o->detach_keys = a->detach_keys;
    r = exec_attach(sock, o, &ret->exec, &ret->detached, err);
    if (r == 0 && !(ret->detached && ret->exec.job))
        exec_say_stopped(a->alert, ret->sandbox, ret->exec.end);
    return r;
}

static int find_job(const struct box *b, struct attach_options *o, struct err *err) {
    CLEANUP(json_decrefp) json_t *jobs = NULL;
    const json_t *job;
    int r = sandbox_jobs(b, &jobs, err);

    if (r < 0)
        return r;
    job = sandbox_job_find(jobs, o->job);
    if (!job && o->job)
        return err_set(err, -ENOENT, "sandbox '%s' has no job %d; see 'bawn ps %s'", b->name, o->job, b->name);
    if (!job)
        return err_set(err, -ENOENT, "nothing runs in the background of sandbox '%s'; 'bawn shell %s' opens a shell", b->name,
                       b->name);
    if (!json_is_true(json_object_get(job, "background")))
        return err_set(err, -EINVAL, "job %d of sandbox '%s' runs in the foreground of another 'bawn exec'", o->job, b->name);
    o->job = (int)json_integer_value(json_object_get(job, "job"));
    o->tty = json_is_true(json_object_get(job, "tty"));
    return 0;
}

int exec_attach_job(const struct attach_args *a, struct attach_result *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(closep) int sock = -1;
    const struct sandbox_pick_opts pick = {.name = a->name, .directory = a->dir, .need = SANDBOX_RUNNING};
    struct attach_options o = {.job = (int)a->job, .history = HISTORY, .read_only = a->read_only};
    int r = sandbox_pick(&pick, &p, err);

    r = r < 0 ? r : find_job(&p.box, &o, err);
    r = r < 0 ? r : exec_connect(environ, NULL, p.box.name, &sock, err);
    if (r < 0)
        return r;
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", p.box.name);
    return attach_to(sock, a, &o, ret, err);
}

/* -- a shell ------------------------------------------------------------------------------------------------------------- */

/* One that is not there is made; a bad name is no name of a new one. */
static int connect_shell(const struct attach_args *a, const char *name, int *ret, struct err *err) {
    const struct sandbox_start start = {.name = a->name, .dir = a->dir, .notice = a->notice};
    struct sandbox_started started;
    int r = exec_connect(environ, NULL, name, ret, err);

    if (r != -ENOTCONN && r != -ENOENT)
        return r;
    r = start_and_connect(&start, &started, ret, err);
    if (r == 0)
        notice_say(a->notice, "sandbox '%s' %s", started.name, started.made ? "is new" : "was started");
    return r;
}

/* The first that is there: only the inside knows. */
int exec_shell(const struct attach_args *a, struct exec_args *e, struct attach_result *ret, struct err *err) {
    static char script[] = "for s do command -v \"$s\" >/dev/null 2>&1 && exec \"$s\"; done";
    const char *mine = paths_getenv(environ, "SHELL");
    char *argv[] = {"/bin/sh", "-c", script, "shell", (char *)(mine ? mine : "bash"), "bash", "sh", NULL};
    CLEANUP(closep) int sock = -1;
    struct exec_args shell = *e;
    struct exec_request request;
    struct attach_options attach = {.start = &request};
    int r = sandbox_name(a->name, a->dir, ret->sandbox, err);

    r = r < 0 ? r : exec_args_terminal(e, err);
    r = r < 0 ? r : connect_shell(a, ret->sandbox, &sock, err);
    if (r < 0)
        return r;
    shell.env = e->env;
    shell.argv = argv;
    shell.argc = ARRAY_LEN(argv) - 1;
    request = make_request(&shell);
    request.flags = a->no_tty ? 0 : EXEC_FLAGS_TTY; /* a script on stdin: the shell ends with it */
    return attach_to(sock, a, &attach, ret, err);
}
