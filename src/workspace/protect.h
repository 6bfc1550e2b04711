/*
 * Paths of a workspace that a command in direct mode may read but not write, because the host would run or obey what is written
 * there: git hooks and configuration, IDE tasks, agent configurations, .sandboxignore. A list in the syntax of .gitignore;
 * what the user adds follows it, and "!pattern" takes one out.
 *
 * Two things that patterns cannot say are left to whoever enforces them: a folder must not be renamed to, or made a link at,
 * something that leads to a protected path (init/guard_rules.h), and nothing below a folder named
 * .git may become a symbolic link, which git itself never makes.
 */
#pragma once

#include "base/strv.h"

struct err;
struct ignore;

extern const char protect_defaults[]; /* commented; `bawn config` shows it */

/* extra: lines of the user's settings; hooks_path: core.hooksPath of the repository if it lies in the workspace, else NULL. */
int protect_rules(const struct strv *extra, const char *hooks_path, struct ignore **ret, struct err *err);
/* A line that protects exactly this path and what is below it, whatever bytes it has; for the paths of gitconfig_places(). */
int protect_add_path(struct strv *lines, const char *path, struct err *err);
