/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a wanted run to everything that starting it needs: settings, facts about the host, what is hidden, and the command.
 * What follows is run_perform() (ops/sandbox/run_perform.h), or run_plan() if nothing is to be started.
 */
#pragma once

#include "config/settings.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_tools.h"
#include "ops/agent/agent_run.h"
#include "ops/run/run_hide.h"
#include "ops/run/run_image.h"
#include "ops/run/run_request.h"

struct run_prepared {
    const struct run_request *request;
    struct settings settings; /* its notes are for the user */
    struct host_facts facts;
    struct strv owned; /* strings of the facts */
    struct run_hidden hidden;
    struct agent_run agent;
    struct plan_tools tools;
    struct run_image image;
    struct plan_input input; /* points into the rest; no command: an agent was named that has no preset */
};
void run_prepared_done(struct run_prepared *p);

/* Goes to the workspace. ret begins as all zero and must stay where it is, as must q. */
int run_prepare(const struct run_request *q, struct run_prepared *ret, struct err *err);

/* For `bawn explain`: the plan, if the network rules are right. Without a command it is that of a shell. */
int run_plan(const struct run_prepared *p, struct plan *ret, struct err *err);

/* Settings with mode off: replaces this program by the command. Returns only on failure. */
int run_unprotected(const struct run_prepared *p, struct err *err);
