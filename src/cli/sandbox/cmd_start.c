/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "ops/run/run_shape.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "supervisor/keep/exec_client.h"
#include "supervisor/terminal/stdio.h"

static const char description[] =
    "Starts a sandbox that stays: 'bawn exec' runs commands in it, 'bawn shell' opens a shell there, 'bawn stop' ends it. Its home, its "
    "installed programs there and what overlay, sync and worktree mode keep of the workspace are still there when it is started again, "
    "also after a reboot.\n\n"
    "Without SANDBOX it is the project's own, named after the workspace. The options are those of 'bawn run' and are kept: the next 'bawn "
    "start' of a sandbox that was stopped needs none. Options that are given then replace all the old ones.\n\n"
    "With a COMMAND that is run in the background: see 'bawn logs', 'bawn attach' and 'bawn ps SANDBOX'.\n\n"
    "    bawn start web -p dev -- npm run dev";

enum { OPT_JSON = 2000 };

static const struct opt opts[] = {
    RUN_SHAPE_OPTS,
    {RUN_OPT_IDLE, 0, "idle", "TIME", "stop it when nothing was executed for this time, e.g. 30m (default: never)", NULL},
    {OPT_JSON, 0, "json", NULL, "the result as JSON", NULL},
};

struct start_args {
    struct sandbox_start start;
    bool json;
    char **argv; /* NULL: no command */
};

static void args_done(struct start_args *a) {
    sandbox_start_done(&a->start);
}

static const struct opt *find_opt(int id) {
    for (size_t i = 0; i < ARRAY_LEN(opts); i++)
        if (opts[i].id == id)
            return &opts[i];
    BUG("an option that is in no table");
}

/* Options up to the first word that is none; *ret_dashes: "--" was passed. */
static int take_options(struct opt_iter *it, struct start_args *a, bool *ret_dashes, struct err *err) {
    int r, before = it->pos;

    while ((r = opt_next(it, err)) > 0) {
        if (it->id == OPT_JSON)
            a->json = true;
        else if (it->id == RUN_OPT_DIR)
            a->start.dir = it->value;
        else if ((r = sandbox_start_add(&a->start, find_opt(it->id), it->value, err)) < 0)
            return r;
        before = it->pos;
    }
    *ret_dashes = it->pos > before;
    return r;
}

/* [options] [SANDBOX] [options] [-- COMMAND...] */
static int parse(int argc, char **argv, struct start_args *a, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    bool dashes = false;
    int r = take_options(&it, a, &dashes, err);

    if (r == 0 && !dashes && it.pos < argc) {
        a->start.name = argv[it.pos++];
        r = take_options(&it, a, &dashes, err);
    }
    if (r < 0)
        return r;
    if (!dashes && it.pos < argc)
        return err_usage(err, "what is '%.60s'? A command stands behind --: bawn start [SANDBOX] -- COMMAND", argv[it.pos]);
    if (dashes && it.pos == argc)
        return err_usage(err, "which command? e.g. bawn start web -- npm run dev");
    a->argv = dashes ? argv + it.pos : NULL;
    return 0;
}

static int run_in_background(const struct sandbox_started *s, int *ret_job, struct err *err) {
    CLEANUP(closep) int sock = -1;
    const struct exec_request request = {.cwd = "", .argv = s->argv.v, .argc = s->argv.len};
    int r = exec_connect(environ, NULL, s->name, &sock, err);

    return r < 0 ? r : exec_background(sock, &request, ret_job, err);
}

static int print(const struct start_args *a, const struct sandbox_started *s, int job, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    if (!a->json) {
        buf_addf(&b, "%s\n", s->name);
        if (job)
            log_line("job %d; 'bawn logs -f %s %d' shows its output", job, s->name, job);
        return run_print_out(&b, err);
    }
    buf_addf(&b, "{\"sandbox\": \"%s\", \"new\": %s, \"job\": ", s->name, s->made ? "true" : "false");
    buf_addf(&b, job ? "%d}\n" : "null}\n", job);
    return run_print_out(&b, err);
}

static int run_start(const struct verb *self, int argc, char **argv) {
    CLEANUP(args_done) struct start_args a = {0};
    CLEANUP(sandbox_started_done) struct sandbox_started s = {0};
    struct err err = {0};
    bool closed[3];
    int job = 0, r = stdio_reserve(closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : parse(argc, argv, &a, &err);
    r = r < 0 ? r : sandbox_start(&a.start, a.argv, &s, &err);
    if (r == 0 && s.replaced)
        log_line("sandbox '%s' has new options now; the old ones do not count any more", s.name);
    if (r == 0 && a.argv)
        r = run_in_background(&s, &job, &err);
    r = r < 0 ? r : print(&a, &s, job, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_start = {
    .name = "start",
    .summary = "start a sandbox that stays",
    .synopsis = "[options] [SANDBOX] [-- COMMAND [ARG...]]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_start,
};
