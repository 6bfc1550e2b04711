/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn doctor`. */
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/changes/run_print.h"
#include "cli/help/manual.h"
#include "cli/setup/doctor_print.h"
#include "cli/verb.h"

enum { OUTPUT_MAX = 1024 * 1024 };

struct doctor_request {
    bool fix, json, quiet;
};

#define TO(kind, member) OPT_TO_##kind(struct doctor_request, member)
static const struct opt opts[] = {
    {0, 0, "fix", NULL, "print the profiles, settings and commands that would help; changes nothing itself", NULL, TO(FLAG, fix)},
    {0, 0, "json", NULL, "everything, remedies included, as JSON", NULL, TO(FLAG, json)},
    {0, 'q', "quiet", NULL, "print nothing; only the exit status", NULL, TO(FLAG, quiet)},
};

static const char description[] =
    "Tries on this machine, for this user and in this folder, what a sandbox is made of, and says what each engine would "
    "guarantee and what 'bawn run' would do. It starts nothing, changes nothing and leaves nothing behind.\n\n"
    "The exit status is 0 if 'bawn run' has the full sandbox, 1 if only a weaker one (which a run announces), and 125 if "
    "it would refuse.\n\n"
    "    bawn doctor --fix\n"
    "    bawn doctor --json | jq -r .run.rung";

static int print_facts(const struct doctor_request *q, const struct doctor_facts *f, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

    if (q->json)
        doctor_json(f, &out);
    else if (q->fix)
        doctor_fix_text(f, manual_colours(), &out);
    else
        doctor_text(f, manual_colours(), &out);
    return run_print_out(&out, err);
}

static int run_doctor(const struct verb *self, int argc, char **argv) {
    struct doctor_facts facts;
    struct doctor_run outcome;
    struct doctor_request q = {0};
    struct err err = {0};

    if (opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 0, &err) < 0)
        return verb_fail(self, &err);
    doctor_look(&facts);
    for (int i = 0; i < 3; i++)
        facts.tty[i] = isatty(i);
    if (!q.quiet && print_facts(&q, &facts, &err) < 0)
        return verb_fail(self, &err);
    doctor_verdict(&facts, &outcome);
    return outcome.status;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "say what this machine can guarantee, and what would help",
    .synopsis = "[--fix] [--json] [--quiet]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_doctor,
};
