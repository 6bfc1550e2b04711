/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/help/manual.h"
#include "cli/verb.h"
#include "ops/doctor/doctor.h"
#include "os/fd.h"

enum { OPT_FIX = 1, OPT_JSON, OPT_QUIET, OUTPUT_MAX = 1024 * 1024 };

static const struct opt opts[] = {
    {OPT_FIX, 0, "fix", NULL, "print the profiles, settings and commands that would help; changes nothing itself", NULL},
    {OPT_JSON, 0, "json", NULL, "everything, remedies included, as JSON", NULL},
    {OPT_QUIET, 'q', "quiet", NULL, "print nothing; only the exit status", NULL},
};

static const char description[] =
    "Tries on this machine, for this user and in this folder, what a sandbox is made of, and says what each engine would "
    "guarantee and what 'bawn run' would do. It starts nothing, changes nothing and leaves nothing behind.\n\n"
    "The exit status is 0 if 'bawn run' has the full sandbox, 1 if only a weaker one (which a run announces), and 125 if "
    "it would refuse.\n\n"
    "    bawn doctor --fix\n"
    "    bawn doctor --json | jq -r .run.rung";

struct doctor_request {
    bool fix, json, quiet;
};

static int read_options(int argc, char **argv, struct doctor_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0) {
        ret->fix |= it.id == OPT_FIX;
        ret->json |= it.id == OPT_JSON;
        ret->quiet |= it.id == OPT_QUIET;
    }
    if (r == 0 && it.pos < argc)
        return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
    return r;
}

static int print(const struct doctor_request *q, const struct doctor_facts *f, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    int r;

    if (q->json)
        doctor_json(f, &out);
    else if (q->fix)
        doctor_fix_text(f, manual_colours(), &out);
    else
        doctor_text(f, manual_colours(), &out);
    if (!buf_ok(&out))
        return err_oom(err);
    r = fd_write_all(STDOUT_FILENO, buf_str(&out), out.len);
    return r < 0 ? err_sys(err, r, "write the report") : 0;
}

static int run_doctor(const struct verb *self, int argc, char **argv) {
    struct doctor_facts facts;
    struct doctor_run outcome;
    struct doctor_request q = {0};
    struct err err = {0};

    if (read_options(argc, argv, &q, &err) < 0)
        return verb_fail(self, &err);
    doctor_look(&facts);
    if (!q.quiet && print(&q, &facts, &err) < 0)
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
