/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of a workspace that a command in direct mode may read but not write, because the host would run or obey what is written
 * there: git hooks and configuration, IDE tasks, agent configurations, .sandboxignore. The list is profiles/protect.txt, in the
 * syntax of .gitignore; what the user adds follows it, and "!pattern" takes one out.
 *
 * Two things that patterns cannot say are left to the guard: a folder must not be renamed to, or made a link at,
 * something that leads to a protected path (init/guard/guard_rules.h), and nothing below a folder named
 * .git may become a symbolic link, which git itself never makes.
 */
#pragma once

#include <string.h>

#include "base/macros.h"
#include "base/strv.h"

struct err;
struct ignore;

/* One row of the list; `bawn config show --protected` prints them. */
struct protect_row {
    const char *pattern;
    const char *class;  /* of `bawn review`: risk_class_info.name */
    const char *reason; /* what reads it, and when */
    const char *source; /* where that is documented */
};
extern const struct protect_row protect_rows[];
extern const size_t n_protect_rows;
extern const char protect_defaults[]; /* the patterns alone; line N is protect_rows[N - 1] */

#define PROTECT_ORIGIN "(built-in)" /* ignore_why.origin of the list's own patterns */

/* extra: lines of the user's settings; hooks_path: core.hooksPath of the repository if it lies in the workspace, else NULL. */
int protect_rules(const struct strv *extra, const char *hooks_path, struct ignore **ret, struct err *err);
/* A line that protects exactly this path and what is below it, whatever bytes it has; for the paths of gitconfig_places(). */
int protect_add_path(struct strv *lines, const char *path, struct err *err);
/* The row of the built-in list that protects the path; NULL: it is not protected, or by a line of the user's. */
const struct protect_row *protect_row_for(const struct ignore *ig, const char *path, bool is_dir);

/* .git/hooks/NAME.sample, also of a submodule: git does not run these, and git init makes them. */
static inline bool protect_is_sample(const char *path) {
    static const char end[] = ".sample";
    const char *name = strrchr(path, '/'), *git = strstr(path, ".git/");
    size_t len = name ? strlen(name) : 0;

    return name && git && git < name && (git == path || git[-1] == '/') && len > sizeof end &&
           memcmp(name + len + 1 - sizeof end, end, sizeof end) == 0 && name - path >= 6 && memcmp(name - 6, "/hooks", 6) == 0;
}

/*
 * Where `path` leads from the workspace's top, which is root and called root_path: each link on the way (is_link) and at last the end, relative to the
 * workspace, as far as they are in it. Also if nothing is there: what is made there later is what the host would obey. Called for the path itself, too, if it
 * leads nowhere else. -ENAMETOOLONG, -ENOMEM, -EIO: where it leads cannot be found out.
 */
typedef void protect_place_fn(void *arg, const char *place, bool is_link);
int protect_follow(int root, const char *root_path, const char *path, protect_place_fn *each, void *arg);
