/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/log.h"
#include "cli/run/run_options.h"
#include "cli/verb.h"
#include "ops/agent/agent_run.h"

static const char description[] =
    "Prints what 'bawn run' with the same options would do: the effective policy, each value with its origin, the "
    "environment and every file and folder of the sandbox's root. Starts nothing.";

static int explain(const struct verb *self, struct run_args *a, struct err *err) {
    static char *shell[] = {"/bin/sh", NULL};
    CLEANUP(settings_done) struct settings s = {0};
    CLEANUP(strv_done) struct strv owned = {0};
    CLEANUP(agent_run_done) struct agent_run agent = {0};
    struct host_facts facts;
    int r;

    if (a->help) {
        verb_help(self);
        return 0;
    }
    a->dry_run = true;
    r = run_args_load(a, &facts, &owned, &s, err);
    r = r < 0 || !a->agent || s.mode == MODE_OFF ? r : agent_run_prepare(&agent, a, &facts, &s, err);
    if (r < 0)
        return r;
    if (a->argc == 0) {
        a->argv = shell;
        a->argc = 1;
    }
    for (size_t i = 0; i < s.notes.len; i++)
        log_line("%s", s.notes.v[i]);
    return run_args_explain(a, &facts, &s, err);
}

static int run_explain(const struct verb *self, int argc, char **argv) {
    CLEANUP(run_args_done) struct run_args a = {0};
    struct err err = {0};
    int r = run_args_parse(argc, argv, &a, &err);

    r = r < 0 ? r : explain(self, &a, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "show the plan and the effective policy, each line with its origin",
    .synopsis = "[options] [--] [COMMAND [ARG...]]",
    .description = description,
    .opts = run_opts,
    .n_opts = N_RUN_OPTS,
    .run = run_explain,
};
