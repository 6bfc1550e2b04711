/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn engines`. */
#include "base/buf.h"
#include "base/err.h"
#include "cli/setup/doctor_print.h"
#include "cli/verb.h"

struct engines_request {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "everything, remedies included, as JSON", NULL, OPT_TO_FLAG(struct engines_request, json)},
};

static int run_engines(struct verb_call *c, struct err *err) {
    struct doctor_facts facts;
    struct engines_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    if (r < 0)
        return r;
    doctor_look(&facts);
    (q.json ? doctor_engines_json : doctor_engines_text)(&facts, &c->out);
    return 0;
}

const struct verb verb_engines = {
    .name = "engines",
    .summary = "say what each engine really enforces on this machine",
    .synopsis = "[--json]",
    .description =
        "Asks every engine what it has here and now, for this user: which promises it keeps, why it is not available, and what "
        "would help. A run that needs more than its engine enforces is refused.\n\n"
        "'bawn run --engine NAME', BAWN_SANDBOX=NAME, \"engine\" in a profile or \"runtime\" in the configuration choose one; "
        "auto takes native.\n\n"
        "    bawn engines\n"
        "    bawn engines --json | jq -r '.engines[] | select(.rungs[].available) | .name'",
    VERB_OPTS(opts),
    .run = run_engines,
};
