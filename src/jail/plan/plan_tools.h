/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in the sandbox's home: those of the user's own home that it sees (ops/tools/home_tools.h finds them), and those that are
 * installed inside.
 *
 * What `npm install -g`, `pip install --user`, `cargo install`, `go install` and the like install is in ~/.local/inside, whose bin comes
 * first in PATH: the folders that they would use are the host's, and read-only.
 */
#pragma once

#include "base/strv.h"

struct plan;
struct plan_input;
struct settings;

#define PLAN_INSTALLED ".local/inside" /* below the home inside */

/* What of the user's home comes in: found before the plan is made. */
struct plan_tools {
    struct strv mounts; /* files and folders of the host, read-only in the same place; none is a link, and no part of one is */
    struct strv links;  /* pairs: a link of the host's that is made again, and where it leads */
    struct strv path;   /* pairs: a folder as it stands in PATH, and what it is inside */
    struct strv env;    /* NAME=value */
};
void plan_tools_done(struct plan_tools *t);

/* Folders of the system that are inside as they are: what is below them can be in PATH. */
bool plan_shows(const char *path);

/* Shared by the files that make the plan. Adding sets p->failed when memory runs out. */
void plan_make_tools(const struct plan_input *in, struct plan *p);
/* True if something is mounted at this place below the home, or below it. */
bool plan_tools_use(const struct plan_input *in, const struct plan *p, const char *below_home);
