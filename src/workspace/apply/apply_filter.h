/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths an apply may touch, and which the user named with --only and --except. */
#pragma once

#include "base/strv.h"

struct change;
struct err;
struct ignore;

/* Relative, no part of it empty, "." or "..", or too long. */
bool apply_path_ok(const char *path);

struct apply_filter {
    const struct strv *only, *except;
    struct ignore *only_rules, *except_rules;
};

/* Patterns as in .gitignore, read from the top of the workspace; each also names the path that is spelled like it and all
 * below it, whatever characters it has. The lists (may be NULL) must live as long as the filter. apply_filter_done() also
 * after a failure. */
int apply_filter_init(struct apply_filter *f, const struct strv *only, const struct strv *except, struct err *err);
void apply_filter_done(struct apply_filter *f);
/* Half of a rename cannot be done: --only names one by either of its paths, and so does --except. */
bool apply_filter_wants_change(const struct apply_filter *f, const struct change *c);
