/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy test`. */
#include "base/buf.h"
#include "base/err.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "ops/policy/policy_test.h"

static const struct opt opts[] = {
    {0, 0, "rules", "FILE", "ask this file with rules alone, not the policy in force here", "@file",
     OPT_TO_TEXT(struct policy_cases, rules)},
    POLICY_VIEW_OPTS(struct policy_cases, here),
};

static void add_failure(const struct policy_test_failure *f, void *arg) {
    struct buf *out = arg;

    buf_addf(out, "line %zu: wanted %s, got %s (%s) for ", f->line, rule_action_names[f->wanted],
             rule_action_names[f->got->action], policy_codes[f->got->code].name);
    for (size_t i = 0; f->words[i]; i++) {
        buf_adds(out, i ? " " : "");
        buf_add_printable(out, f->words[i]);
    }
    buf_addf(out, ": %s\n", f->got->reason);
}

static int run_policy_test(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_tally tally = {0};
    struct policy_cases t = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &t, 1, &err);

    if (r == 0)
        r = err_usage(&err, "name a file with cases");
    t.cases = argv[1];
    r = r < 0 ? r : policy_test_run(&t, add_failure, &out, &tally, &err);
    policy_here_opts_done(&t.here);
    if (r < 0)
        return verb_fail(self, &err);
    buf_addf(&out, "%zu of %zu cases hold\n", tally.cases - tally.failed, tally.cases);
    return run_print_result(self, &out, tally.failed > 0);
}

static const char description[] =
    "Checks the policy against a list of cases, for CI: one on each line, '#' starts a comment. The exit status is 1 if a case "
    "does not hold.\n\n"
    "    allow registry.npmjs.org:443\n"
    "    allow api.github.com:443 GET /repos/o/r\n"
    "    deny  api.github.com:443 POST /gists\n"
    "    deny  pypi.org:443 address=10.0.0.1\n"
    "    ask   example.com:443";

const struct verb verb_policy_test = {
    .name = "policy test",
    .summary = "check the policy against a file of cases",
    .synopsis = "[options] FILE",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_policy_test,
};
