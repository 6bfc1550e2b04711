/* SPDX-License-Identifier: Apache-2.0 */
/* A shell of the sandbox in place of the host's. */
#include "ops/sandbox/exec_shell.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"

enum { LOOK_AGAIN_NS = 10 * 1000 * 1000 };

/* Variables that a shell takes from its caller, and that say nothing about the host. */
static const char *const shell_variables[] = {"PS1",    "PS2",    "PS4",   "COLUMNS",   "LINES",
                                              "EDITOR", "VISUAL", "PAGER", "GIT_PAGER", "CI"};

static bool shell_is_workspace(const char *boxes, const char *dir) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    char name[BOX_ID_MAX + 1];
    struct err ignored = {0};

    box_name_for(dir, name);
    return registry_open(boxes, name, false, &b, &ignored) == 0 && str_eq(b.info.workspace, dir);
}

/* The caller chooses the folder, and the caller is an agent: it must not choose what a sandbox is made of. */
static int shell_find(const char *here, char ret[static BOX_ID_MAX + 1], struct err *err) {
    CLEANUP(freep) char *boxes = NULL, *dir = strdup(here);
    int r = dir ? sandbox_boxes(&boxes, err) : err_oom(err);

    while (r == 0 && dir[0] == '/' && dir[1]) {
        if (shell_is_workspace(boxes, dir)) {
            box_name_for(dir, ret);
            return 0;
        }
        *strrchr(dir, '/') = 0;
    }
    return r < 0
               ? r
               : err_set(
                     err, -ENOENT,
                     "no sandbox belongs to '%.300s' or a folder above it; make one with 'bawn start' in the project's folder, or name "
                     "one in BAWN_SH_SANDBOX",
                     here);
}

static int shell_connect(const struct sandbox_start *start, const char *name, int *ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    struct sandbox_started started;
    int r;

    for (;;) {
        *err = (struct err){0};
        r = exec_connect(environ, NULL, name, ret, err);
        if (r == -ENOTCONN) {
            *err = (struct err){0};
            r = sandbox_start(start, &started, err);
            if (r == 0)
                continue;
            r = r == -EBUSY ? -EAGAIN : r; /* another process starts it */
        }
        if (r != -EAGAIN)
            return r;
        nanosleep(&pause, NULL);
    }
}

static int shell_environment(struct exec_args *a, struct err *err) {
    int r = exec_args_terminal(a, err);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(shell_variables); i++)
        r = exec_args_env(a, shell_variables[i], err);
    return r;
}

int exec_sh(struct shell_call *q, struct exec_result *ret, struct err *err) {
    CLEANUP(freep) char **argv = calloc(q->argc + 3, sizeof *argv);
    CLEANUP(exec_args_done) struct exec_args args = {.name = q->name, .argv = argv};
    CLEANUP(closep) int sock = -1;
    const struct sandbox_start start = {.name = q->name, .notice = q->notice};
    char here[PATH_MAX];
    int r = argv ? 0 : err_oom(err);

    if (r == 0 && !getcwd(here, sizeof here))
        r = err_sys(err, -errno, "the current folder");
    if (r == 0)
        r = q->sandbox ? sandbox_name(q->sandbox, NULL, q->name, err) : shell_find(here, q->name, err);
    r = r < 0 ? r : shell_environment(&args, err);
    if (r < 0)
        return r;
    argv[args.argc++] = "/bin/sh";
    if (q->argc && q->argv[0][0] == '-')
        argv[args.argc++] = "-l";
    for (size_t i = 1; i < q->argc; i++)
        argv[args.argc++] = q->argv[i];
    args.cwd = here;
    for (int i = 0; i < 3; i++)
        args.closed[i] = q->closed[i];
    r = shell_connect(&start, q->name, &sock, err);
    return r < 0 ? r : exec_args_run(&args, sock, ret, err);
}
