/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to what an agent asks at its first start, where the answer follows from the sandbox: in the files of its home, never about licences
 * or telemetry. Files of the preset are made where there is none; afterwards they are the agent's.
 *
 * One question can come later as well: "Detected a custom API key, use it?" comes with every new key. What the agent sees is a placeholder, which the
 * user has already given to it by `bawn secret set`. So the end of the placeholder is added to the keys that it may use, unless the user said no.
 * The file is the agent's, so hostile by then: it is not parsed here, only searched for the place, and on any doubt left as it is. The agent asks then.
 */
#pragma once

#include "config/load/agent.h"

struct err;
struct host_facts;
struct settings;

/* The files of the preset in `home`, one of its folders, which is `folder` on the host. replace: also where the agent has one of its own. */
int agent_answer_files(const struct agent *a, const char *home, const char *folder, bool replace, struct err *err);
/* The question about the key, if its file is in this folder. */
int agent_answer_key(const struct agent *a, const char *home, const char *folder, const struct settings *s,
                     const struct host_facts *facts, struct err *err);
