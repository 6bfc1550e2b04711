/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn review` and `bawn diff` have in common: how a run is chosen, and how its report comes to the user. */
#pragma once

#include "base/strv.h"
#include "cli/verb.h"
#include "ops/changes/run_pick.h"

struct review_args {
    const char *directory, *fail_on;
    struct review_format {
        const char *option, *name; /* the option that chose it, for the error if there are two; NULL: none did */
    } format;
    bool interactive, diff, list, no_pager;
    const char *colour; /* "always", "never"; NULL, "auto": on a terminal */
    struct strv only;   /* patterns */
};
void review_args_done(struct review_args *a);

/* Rows that both have, and callbacks for those that choose a format by their name. */
#define REVIEW_TO(kind, member) OPT_TO_##kind(struct review_args, member)
#define REVIEW_FORMAT OPT_TO_CALL(struct review_args, format, review_take_format)
#define REVIEW_DIRECTORY \
    { 0, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir", REVIEW_TO(TEXT, directory) }
#define REVIEW_ONLY \
    { 0, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL, REVIEW_TO(LIST, only) }
#define REVIEW_OUTPUT                                                                    \
    {0, 0, "no-pager", NULL, "do not start $PAGER", NULL, REVIEW_TO(FLAG, no_pager)}, {  \
        0, 0, "color", "[=WHEN]", "colours: auto, always or never", "auto|always|never", \
            OPT_TO_CALL(struct review_args, colour, review_take_colour)                  \
    }
opt_call review_take_format, review_take_colour;

bool review_colours(const struct review_args *a);
/* Runs bawn-review and shows what it says, in a->format. Returns its exit status, or negative. */
int review_show(const struct review_args *a, const char *task, const struct run_pick *p, bool must_match, struct err *err);
