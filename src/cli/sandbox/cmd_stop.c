/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn stop`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_manage.h"

enum { SECONDS_DEFAULT = 5, SECONDS_MAX = 24 * 3600 };

struct stop_line {
    struct sandbox_stop stop;
    bool json;
};

static const struct opt opts[] = {
    {0, 't', "time", "SECONDS", "how long its programs have to end by themselves (default: 5)", NULL,
     OPT_TO_NUMBER(struct stop_line, stop.seconds, 0, SECONDS_MAX)},
    {0, 'a', "all", NULL, "every sandbox that runs", NULL, OPT_TO_FLAG(struct stop_line, stop.all)},
    {0, 0, "force", NULL, "kill a supervisor that does not answer, or not end", NULL, OPT_TO_FLAG(struct stop_line, stop.force)},
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct stop_line, stop.dir)},
    {0, 0, "json", NULL, "the result as JSON", NULL, OPT_TO_FLAG(struct stop_line, json)},
};

static const char *const end_names[] = {
    [SANDBOX_END_STOPPED] = "stopped",
    [SANDBOX_END_KILLED] = "killed",
    [SANDBOX_END_NOT_RUNNING] = "not running",
};

static void add_outcome(const struct sandbox_outcome *o, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "sandbox", o->name);
    jsonout_text(j, "outcome", end_names[o->end]);
    jsonout_close(j, '}');
}

/* The exit status is the last failure's. */
static int print_outcomes(const struct sandbox_outcomes *l, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    struct jsonout j = {.to = &out};
    int status = 0, r;

    if (json)
        jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < l->n; i++) {
        const struct sandbox_outcome *o = &l->v[i];

        if (o->end == SANDBOX_END_FAILED) {
            log_err(&o->err);
            status = err_exit_status(&o->err);
            continue;
        }
        if (o->end == SANDBOX_END_NOT_RUNNING)
            log_line("sandbox '%s' is not running", o->name);
        if (json)
            add_outcome(o, &j);
        else
            buf_addf(&out, "%s\n", o->name);
    }
    buf_adds(&out, json ? "]\n" : "");
    r = run_print_out(&out, err);
    return r < 0 ? r : status;
}

static int run_stop(const struct verb *self, int argc, char **argv) {
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    struct stop_line q = {.stop = {.seconds = SECONDS_DEFAULT, .names = argv + 1}};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    if (r > 0 && q.stop.all)
        r = err_usage(&err, "--all, or names, not both");
    q.stop.n = (size_t)MAX_OF(r, 0);
    r = r < 0 ? r : sandbox_stop(&q.stop, &l, &err);
    r = r < 0 ? r : print_outcomes(&l, q.json, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_stop = {
    .name = "stop",
    .summary = "stop persistent sandboxes",
    .synopsis = "[options] [SANDBOX...]",
    .description =
        "Asks the programs in it to end (SIGTERM), kills what is left after some seconds, and ends the sandbox as after a run: its home "
        "stays, and what waits for review stays too. Without SANDBOX it is the project's own.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_stop,
};
