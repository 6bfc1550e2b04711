/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn start`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/run/run_shape.h"
#include "ops/sandbox/sandbox_start.h"
#include "supervisor/terminal/stdio.h"

static const char description[] =
    "Starts a sandbox that stays: 'bawn exec' runs commands in it, 'bawn shell' opens a shell there, 'bawn stop' ends it. Its home, its "
    "installed programs there and what overlay, sync and worktree mode keep of the workspace are still there when it is started again, "
    "also after a reboot.\n\n"
    "Without SANDBOX it is the project's own, named after the workspace. The options are those of 'bawn run' and are stored: the next 'bawn "
    "start' of a sandbox that was stopped needs none. Options that are given then replace all the old ones.\n\n"
    "With a COMMAND that is run in the background: see 'bawn logs', 'bawn attach' and 'bawn ps SANDBOX'.\n\n"
    "    bawn start web -p dev -- npm run dev";

struct start_line {
    struct run_request request; /* first: RUN_SHAPE_OPTS fill it */
    struct sandbox_start start;
    bool json;
};

static const struct opt opts[] = {
    RUN_SHAPE_OPTS,
    RUN_IDLE_OPT,
    {0, 0, "json", NULL, "the result as JSON", NULL, OPT_TO_FLAG(struct start_line, json)},
};

static void line_done(struct start_line *l) {
    run_request_done(&l->request);
}

/* [options] [SANDBOX] [options] [-- COMMAND...] */
static int read_start_line(int argc, char **argv, struct start_line *l, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r = opt_fill(&it, l, err);

    if (r == 0 && !it.dashes && it.pos < argc) {
        l->start.name = argv[it.pos++];
        r = opt_fill(&it, l, err);
    }
    if (r < 0)
        return r;
    if (!it.dashes && it.pos < argc)
        return err_usage(err, "unexpected argument '%.60s'; put the command after --: bawn start [SANDBOX] -- COMMAND",
                         argv[it.pos]);
    if (it.dashes && it.pos == argc)
        return err_usage(err, "which command? e.g. bawn start web -- npm run dev");
    l->start.argv = it.dashes ? argv + it.pos : NULL;
    l->start.dir = l->request.dir;
    l->start.request = &l->request;
    l->start.notice = &verb_notice;
    return 0;
}

static int print_started(const struct sandbox_started *s, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    if (!json) {
        buf_addf(&b, "%s\n", s->name);
        if (s->job)
            log_line("job %d; 'bawn logs -f %s %d' shows its output", s->job, s->name, s->job);
        return run_print_out(&b, err);
    }
    buf_addf(&b, "{\"sandbox\": \"%s\", \"new\": %s, \"job\": ", s->name, s->made ? "true" : "false");
    buf_addf(&b, s->job ? "%d}\n" : "null}\n", s->job);
    return run_print_out(&b, err);
}

static int run_start(const struct verb *self, int argc, char **argv) {
    CLEANUP(line_done) struct start_line l = {0};
    struct sandbox_started s;
    struct err err = {0};
    bool closed[3];
    int r = stdio_reserve(closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : read_start_line(argc, argv, &l, &err);
    r = r < 0 ? r : sandbox_start(&l.start, &s, &err);
    r = r < 0 ? r : print_started(&s, l.json, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_start = {
    .name = "start",
    .summary = "start a persistent sandbox",
    .synopsis = "[options] [SANDBOX] [-- COMMAND [ARG...]]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_start,
};
