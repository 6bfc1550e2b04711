/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths of a workspace the guard protects: pure, paths in and verdicts out. */
#pragma once

#include "base/macros.h"

struct err;
struct ignore;
struct ignore_memo;
struct init_text;

enum rules_kind { RULES_FILE, RULES_FOLDER, RULES_LINK /* symbolic */ };

/* A link of the host in a protected place: what is at or below `place` is judged as if it were at or below `link`. */
struct guard_rules_link {
    char *place, *link;
};

struct guard_rules {
    struct ignore *hide, *protect; /* hide: what may not be made; less than what is hidden */
    struct ignore *hidden;         /* all of it */
    struct ignore *own;            /* of protect, what is not in the built-in list */
    struct ignore *leads;          /* what a protected path leads through: "/.vscode" for ".vscode/tasks.json" */
    struct ignore_memo *near;      /* of hide, protect and hidden: the folder of the call before */
    struct guard_rules_link *links;
    size_t n_links;
};

int guard_rules_init(struct guard_rules *r, const struct init_text *hide, size_t n_hide, const struct init_text *protect,
                     size_t n_protect, struct err *err);
int guard_rules_add_protect(struct guard_rules *r, const struct init_text *t, struct err *err);
int guard_rules_add_link(struct guard_rules *r, const char *place, const char *link);
void guard_rules_done(struct guard_rules *r);

/* Paths are relative to the workspace and not empty; NULL stands for one outside, of which no rule says anything. `.git` counts
 * in every spelling that the host's file system may take for it: case, dots and spaces at the end, git~1. A symbolic link counts as a folder too. */
bool guard_rules_protect(const struct guard_rules *r, const char *path, enum rules_kind kind);
bool guard_rules_hide(const struct guard_rules *r, const char *path, enum rules_kind kind);
/* Whatever protects it is a row of the built-in list, and the path is written as git writes it: guard_git.h may judge it by what is in it. */
bool guard_rules_is_ours(const struct guard_rules *r, const char *path, enum rules_kind kind);
/* Its name is hidden, but may be made here: a certificate that comes with a package. */
bool guard_rules_own(const struct guard_rules *r, const char *path, enum rules_kind kind);
/* A link or another folder in this place would stand for what is protected. */
bool guard_rules_lead(const struct guard_rules *r, const char *path);

bool guard_rules_is_git(const char *path);            /* its last name is .git */
bool guard_rules_below_git(const char *path);         /* one before is */
const char *guard_rules_behind_git(const char *path); /* what follows the first .git; NULL: nothing */
bool guard_rules_is_top_of_git(const char *path);     /* the one right before the last is */
/* Below .git, and not one of the parts (objects, refs, logs...) in which git itself moves folders and makes links. */
bool guard_rules_in_git_core(const char *path);
