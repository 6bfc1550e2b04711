/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn start`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/verb.h"
#include "ops/run/run_shape.h"
#include "ops/sandbox/sandbox_start.h"
#include "supervisor/terminal/stdio.h"

struct start_line {
    struct run_request request; /* first: RUN_SHAPE_OPTS fill it */
    struct sandbox_start start;
    bool json;
};

static const struct opt opts[] = {
    RUN_SHAPE_OPTS,
    RUN_IDLE_OPT,
    VERB_QUIET_OPT,
    {0, 0, "json", NULL, "the result as JSON", NULL, OPT_TO_FLAG(struct start_line, json)},
};

/* [options] [SANDBOX] [options] [-- COMMAND...] */
static int read_start_line(const struct verb_call *c, struct start_line *l, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), c->argc, c->argv);
    int r = opt_fill(&it, l, err);

    if (r == 0 && !it.dashes && it.pos < c->argc) {
        l->start.name = c->argv[it.pos++];
        r = opt_fill(&it, l, err);
    }
    if (r < 0)
        return r;
    if (!it.dashes && it.pos < c->argc)
        return err_usage(err, "unexpected argument '%.60s'; put the command after --: bawn start [SANDBOX] -- COMMAND",
                         c->argv[it.pos]);
    if (it.dashes && it.pos == c->argc)
        return err_usage(err, "which command? e.g. bawn start web -- npm run dev");
    l->start.argv = it.dashes ? c->argv + it.pos : NULL;
    l->start.dir = l->request.dir;
    l->start.request = &l->request;
    l->start.notice = &verb_notice;
    return 0;
}

static void add_started(const struct sandbox_started *s, bool json, struct buf *out) {
    struct jsonout j = {.to = out};

    if (s->running)
        log_note("sandbox '%s' is already running", s->name);
    if (!json) {
        buf_addf(out, "%s\n", s->name);
        if (s->job)
            log_note("job %d; 'bawn logs -f %s %d' shows its output", s->job, s->name, s->job);
        return;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "sandbox", s->name);
    jsonout_bool(&j, "new", s->made);
    if (s->running)
        jsonout_bool(&j, "running", true);
    jsonout_u64_if(&j, "job", s->job, (uint64_t)s->job);
    buf_adds(out, "}\n");
}

static int run_start(struct verb_call *c, struct err *err) {
    struct start_line l = {0};
    struct sandbox_started s;
    bool closed[3];
    int r = stdio_reserve(closed);

    r = r < 0 ? err_sys(err, r, "standard streams") : read_start_line(c, &l, err);
    r = r < 0 ? r : sandbox_start(&l.start, &s, err);
    if (r >= 0)
        add_started(&s, l.json, &c->out);
    run_request_done(&l.request);
    return r < 0 ? r : 0;
}

const struct verb verb_start = {
    .name = "start",
    .summary = "start a persistent sandbox",
    .synopsis = "[options] [SANDBOX] [-- COMMAND [ARG...]]",
    .description =
        "Starts a sandbox that stays: 'bawn exec' runs commands in it, 'bawn shell' opens a shell there, 'bawn stop' ends it. Its home, its "
        "installed programs there and what overlay, sync and worktree mode keep of the workspace are still there when it is started again, "
        "also after a reboot.\n\n"
        "Without SANDBOX it is the project's own, named after the workspace. The options are those of 'bawn run' and are stored: the next 'bawn "
        "start' of a sandbox that was stopped needs none. Options that are given then replace all the old ones. Starting one that runs already is "
        "success, unless other options are given.\n\n"
        "With a COMMAND that is run in the background: see 'bawn logs', 'bawn attach' and 'bawn ps SANDBOX'.\n\n"
        "    bawn start web -p dev -- npm run dev",
    VERB_OPTS(opts),
    .run = run_start,
};
