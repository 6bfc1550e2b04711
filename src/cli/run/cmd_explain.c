/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn explain`. */
#include "base/err.h"
#include "cli/run/run_options.h"
#include "cli/verb.h"
#include "ops/run/run_prepare.h"

static const struct opt opts[] = {RUN_COMMON_OPTS};

static const char description[] =
    "Prints what 'bawn run' with the same options would do: the effective policy, each value with its origin, the "
    "environment and every file and folder of the sandbox's root. Starts nothing.";

static int explain(struct run_args *a, struct err *err) {
    CLEANUP(run_prepared_done) struct run_prepared p = {0};
    int r;

    a->request.dry_run = true;
    r = run_prepare(&a->request, &p, err);
    if (r < 0)
        return r;
    run_print_notes(&p);
    return run_print_plan(&p, a->json, err);
}

static int run_explain(const struct verb *self, int argc, char **argv) {
    CLEANUP(run_args_done) struct run_args a = {0};
    struct err err = {0};
    int r = run_args_parse(opts, ARRAY_LEN(opts), argc, argv, &a, &err);

    if (r >= 0 && a.help) {
        verb_help(self);
        return 0;
    }
    r = r < 0 ? r : explain(&a, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "show the plan and the effective policy, each line with its origin",
    .synopsis = "[options] [--] [COMMAND [ARG...]]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_explain,
};
