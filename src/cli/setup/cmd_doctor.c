/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn doctor`. */
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/help/manual.h"
#include "cli/setup/doctor_print.h"
#include "cli/verb.h"

struct doctor_request {
    bool fix, json, quiet;
};

#define TO(kind, member) OPT_TO_##kind(struct doctor_request, member)
static const struct opt opts[] = {
    {0, 0, "fix", NULL, "print the profiles, settings and commands that would help; changes nothing itself", NULL, TO(FLAG, fix)},
    {0, 0, "json", NULL, "everything, remedies included, as JSON", NULL, TO(FLAG, json)},
    {0, 'q', "quiet", NULL, "print nothing; only the exit status", NULL, TO(FLAG, quiet)},
};

static int run_doctor(struct verb_call *c, struct err *err) {
    struct doctor_facts facts;
    struct doctor_run outcome;
    struct doctor_request q = {0};
    int r = verb_parse(c, &q, 0, err);

    if (r < 0)
        return r;
    doctor_look(&facts);
    for (int i = 0; i < 3; i++)
        facts.tty[i] = isatty(i);
    if (!q.quiet && q.json)
        doctor_json(&facts, &c->out);
    else if (!q.quiet)
        (q.fix ? doctor_fix_text : doctor_text)(&facts, manual_colours(NULL), &c->out);
    doctor_verdict(&facts, &outcome);
    return outcome.status;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "say what this machine can guarantee, and what would help",
    .synopsis = "[--fix] [--json] [--quiet]",
    .description =
        "Tries on this machine, for this user and in this folder, what a sandbox is made of, and says what each engine would "
        "guarantee and what 'bawn run' would do. It starts nothing, changes nothing and leaves nothing behind.\n\n"
        "The exit status is 0 if 'bawn run' has the full sandbox, 1 if only a weaker one (which a run announces), and 125 if "
        "it would refuse.\n\n"
        "    bawn doctor --fix\n"
        "    bawn doctor --json | jq -r .run.rung",
    VERB_OPTS(opts),
    .run = run_doctor,
};
