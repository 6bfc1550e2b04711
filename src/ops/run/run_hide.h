/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the workspace a run does not see: those that .sandboxignore hides, and every other way to reach them. */
#pragma once

#include "base/strv.h"
#include "jail/plan/elsewhere.h"
#include "os/lookalike.h"

struct err;
struct host_facts;
struct ignore;
struct settings;

struct run_hidden {
    struct strv paths;           /* below the workspace, as of now */
    struct lookalikes tracked;   /* of these and below, the files that git tracks */
    struct elsewheres elsewhere; /* where else they would be seen */
    struct ignore *rules;        /* for files that appear later */
    struct ignore *accepted;     /* the accepted rules, if they differ (workspace/hide/pin.h); else NULL */
};
void run_hidden_done(struct run_hidden *h);

/* The workspace is the current folder. record: rules of a workspace that was never used are accepted. Adds notes to s. */
int run_hide(const struct host_facts *facts, struct settings *s, bool record, struct run_hidden *ret, struct err *err);
