/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn stop`, `rm` and `rename`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_manage.h"

/* -- stop ------------------------------------------------------------------------------------------------------------------- */

enum { SECONDS_DEFAULT = 5, SECONDS_MAX = 24 * 3600 };

struct stop_line {
    struct sandbox_stop stop;
    bool json;
};

static const struct opt stop_opts[] = {
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

/* The exit status is the last failure's. */
static int print_stopped(const struct sandbox_outcomes *l, bool json, struct buf *out) {
    struct jsonout j = {.to = out};
    int status = 0;

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
        if (!json) {
            buf_addf(out, "%s\n", o->name);
            continue;
        }
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "sandbox", o->name);
        jsonout_text(&j, "outcome", end_names[o->end]);
        jsonout_close(&j, '}');
    }
    buf_adds(out, json ? "]\n" : "");
    return status;
}

static int run_stop(struct verb_call *c, struct err *err) {
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    struct stop_line q = {.stop = {.seconds = SECONDS_DEFAULT, .names = c->argv + 1}};
    int r = verb_parse(c, &q, c->argc, err);

    if (r > 0 && q.stop.all)
        r = err_usage(err, "--all, or names, not both");
    q.stop.n = (size_t)MAX_OF(r, 0);
    r = r < 0 ? r : sandbox_stop(&q.stop, &l, err);
    return r < 0 ? r : print_stopped(&l, q.json, &c->out);
}

const struct verb verb_stop = {
    .name = "stop",
    .summary = "stop persistent sandboxes",
    .synopsis = "[options] [SANDBOX...]",
    .description =
        "Asks the programs in it to end (SIGTERM), kills what is left after some seconds, and ends the sandbox as after a run: its home "
        "stays, and what waits for review stays too. Without SANDBOX it is the project's own.",
    VERB_OPTS(stop_opts),
    .run = run_stop,
};

/* -- rm --------------------------------------------------------------------------------------------------------------------- */

struct rm_line {
    struct sandbox_remove remove;
    bool json;
};

static const struct opt rm_opts[] = {
    {0, 'f', "force", NULL, "stop it first if it runs; also one whose files are damaged", NULL,
     OPT_TO_FLAG(struct rm_line, remove.force)},
    {0, 0, "all-stopped", NULL, "every sandbox that is not running", NULL, OPT_TO_FLAG(struct rm_line, remove.all_stopped)},
    {0, 0, "discard-changes", NULL, "throw away changes that were not applied, for good", NULL,
     OPT_TO_FLAG(struct rm_line, remove.discard)},
    {0, 0, "keep-changes", NULL, "leave changes that were not applied as a run of the same name", NULL,
     OPT_TO_FLAG(struct rm_line, remove.keep)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct rm_line, json)},
};

static int check_line(const struct sandbox_remove *q, struct err *err) {
    if (q->all_stopped && q->n)
        return err_usage(err, "--all-stopped and names exclude each other");
    if (q->discard && q->keep)
        return err_usage(err, "--discard-changes and --keep-changes exclude each other");
    if (!q->all_stopped && q->n == 0)
        return err_usage(err, "which sandbox? see 'bawn ps -a'");
    return 0;
}

static void add_outcomes_json(const struct sandbox_outcomes *l, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < l->n; i++) {
        jsonout_break(&j, "\n  ");
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "name", l->v[i].name);
        jsonout_bool(&j, "removed", l->v[i].end == SANDBOX_END_REMOVED);
        if (l->v[i].end == SANDBOX_END_FAILED)
            jsonout_text(&j, "error", l->v[i].err.msg);
        jsonout_close(&j, '}');
    }
    buf_adds(out, l->n ? "\n]\n" : "]\n");
}

/* The exit status is the first failure's. */
static int print_removed(const struct sandbox_outcomes *l, bool json, struct buf *out) {
    int status = 0;

    if (json)
        add_outcomes_json(l, out);
    for (size_t i = 0; i < l->n; i++) {
        const struct sandbox_outcome *o = &l->v[i];

        if (o->end == SANDBOX_END_FAILED && status == 0)
            status = err_exit_status(&o->err);
        if (o->end == SANDBOX_END_FAILED && !json)
            log_err(&o->err);
        else if (!json)
            buf_addf(out, "%s\n", o->name);
    }
    return status;
}

static int run_rm_verb(struct verb_call *c, struct err *err) {
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    struct rm_line q = {.remove.names = c->argv + 1};
    int r = verb_parse(c, &q, c->argc, err);

    q.remove.n = (size_t)MAX_OF(r, 0);
    r = r < 0 ? r : check_line(&q.remove, err);
    r = r < 0 ? r : sandbox_remove(&q.remove, &l, err);
    return r < 0 ? r : print_removed(&l, q.json, &c->out);
}

const struct verb verb_rm = {
    .name = "rm",
    .summary = "remove persistent sandboxes",
    .synopsis = "[options] NAME...",
    .description =
        "Removes persistent sandboxes with their home, logs and checkpoints, for good. One that runs is refused, unless --force stops it "
        "first. NAME is a name or an id.\n\n"
        "Changes in overlay, sync or worktree mode that were not applied yet are never deleted silently: the sandbox stays, and the "
        "message names them. --discard-changes throws them away, --keep-changes leaves them as a run of the same name, for 'bawn "
        "review' and 'bawn apply'. The workspace itself and the audit log are not touched.\n\n"
        "    bawn rm dev\n"
        "    bawn rm --all-stopped",
    VERB_OPTS(rm_opts),
    .run = run_rm_verb,
};

/* -- rename ----------------------------------------------------------------------------------------------------------------- */

static int run_rename(struct verb_call *c, struct err *err) {
    struct jsonout j = {.to = &c->out};
    bool json = false;
    int r = verb_parse(c, &json, 2, err);

    if (r >= 0 && r != 2)
        r = err_usage(err, "usage: bawn rename OLD NEW");
    r = r < 0 ? r : sandbox_rename(c->argv[1], c->argv[2], err);
    if (r < 0 || !json)
        return r < 0 ? r : 0;
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "old", c->argv[1]);
    jsonout_text(&j, "name", c->argv[2]);
    buf_adds(&c->out, "}\n");
    return 0;
}

const struct verb verb_rename = {
    .name = "rename",
    .summary = "give a persistent sandbox another name",
    .synopsis = "[options] OLD NEW",
    .description =
        "Gives a persistent sandbox another name, whether it runs or not; with it goes what overlay or sync mode keeps of its changes. Its id, "
        "as audit logs have it, stays. One in worktree mode cannot be renamed while it has a branch.\n\n"
        "    bawn rename dev dev-old",
    VERB_OPTS(verb_json_opts),
    .run = run_rename,
};
