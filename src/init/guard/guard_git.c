/* SPDX-License-Identifier: Apache-2.0 */
/* Which of git's own files may be made and removed inside. */
#include "init/guard/guard_git.h"

#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "init/guard/guard_git_judge.h"
#include "init/guard/guard_judge.h"
#include "os/fd.h"

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool guard_git_is_modules(const char *rel) {
    const char *name = last_name(rel);

    return (name[0] == '.' || name[0] == 'g' || name[0] == 'G') &&
           (strcasecmp(name, ".gitmodules") == 0 || strncasecmp(name, "gitmod~", 7) == 0);
}

/* The folder in which `rel` lies: with or without a subfolder of .git that is a repository of its own. */
static bool lies_in_git(const char *rel) {
    char folder[PATH_MAX];
    const char *slash = strrchr(rel, '/');

    if (!slash)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - rel), rel);
    return str_eq(last_name(folder), ".git") || guard_git_is_home(folder);
}

bool guard_git_is_in_worktree(const char *rel) {
    const char *part = guard_rules_behind_git(rel), *file = strrchr(rel, '/'), *name = file;

    if (!part || !file || file < part)
        return false;
    while (name > part && name[-1] != '/')
        name--;
    if (name == part || name == file)
        return false;
    return name - part == (long)strlen("worktrees/")
               ? str_starts(part, "worktrees/")
               : str_starts(part, "modules/") && name - part > (long)strlen("modules/x/worktrees") &&
                     memcmp(name - strlen("/worktrees/"), "/worktrees/", strlen("/worktrees/")) == 0;
}

enum git_role guard_git_role(const struct guard *g, const char *rel) {
    const char *name = last_name(rel);

    if (guard_git_is_modules(rel))
        return str_eq(name, ".gitmodules") && !guard_rules_below_git(rel) && !judge_is_protected(g, rel, RULES_FILE) ? GIT_MODULES
                                                                                                                     : GIT_NONE;
    if (str_eq(name, ".git"))
        return name != rel && !guard_rules_below_git(rel) && guard_rules_is_ours(&g->rules, rel, RULES_FILE) ? GIT_POINTER
                                                                                                             : GIT_NONE;
    if (str_eq(name, "commondir") || str_eq(name, "gitdir"))
        return !guard_git_is_in_worktree(rel) || !guard_rules_is_ours(&g->rules, rel, RULES_FILE) ? GIT_NONE
               : name[0] == 'c'                                                                   ? GIT_COMMONDIR
                                                                                                  : GIT_GITDIR;
    if (!str_eq(name, "config") && !str_eq(name, "config.worktree"))
        return GIT_NONE;
    if (!guard_rules_is_ours(&g->rules, rel, RULES_FILE) || !judge_is_protected(g, rel, RULES_FILE))
        return GIT_NONE;
    return lies_in_git(rel) || !guard_rules_protect(&g->rules, rel, RULES_FILE) ? GIT_CONFIG : GIT_NONE;
}

/* Below `modules/`, at any depth: names of submodules have slashes. */
static bool is_module(const char *part) {
    return str_starts(part, "modules/") && part[strlen("modules/")];
}

bool guard_git_is_home(const char *rel) {
    const char *part = guard_rules_behind_git(rel), *rest;

    if (!part || is_module(part))
        return part != NULL;
    if (!str_starts(part, "worktrees/") || !part[strlen("worktrees/")])
        return false;
    rest = strchr(part + strlen("worktrees/"), '/');
    return !rest || is_module(rest + 1);
}

static bool is_folder_of_git(const char *rel) {
    const char *name = last_name(rel);

    return (str_eq(name, "hooks") || str_eq(name, "branches")) && lies_in_git(rel);
}

bool guard_git_may_make(const struct guard *g, const char *rel, enum rules_kind kind) {
    if (kind != RULES_FOLDER || !guard_rules_is_ours(&g->rules, rel, kind))
        return false;
    return (str_eq(last_name(rel), ".git") && !guard_rules_below_git(rel)) || is_folder_of_git(rel);
}

/* Of the repository that the workspace itself is, hooks and configuration stay. */
static bool is_workspaces(const char *rel) {
    return str_eq(rel, ".git") || (str_starts(rel, ".git/") && !strchr(rel + strlen(".git/"), '/'));
}

bool guard_git_may_remove(const struct guard *g, const struct place *p) {
    if (is_workspaces(p->rel))
        return false;
    if (S_ISDIR(p->st.st_mode))
        return guard_git_may_make(g, p->rel, RULES_FOLDER);
    return S_ISREG(p->st.st_mode) && guard_git_is_harmless(g, p, guard_git_role(g, p->rel));
}

bool guard_git_may_chmod(const struct guard *g, const struct place *p, mode_t mode) {
    if (p->exists && p->rel && guard_git_is_modules(p->rel) && guard_git_role(g, p->rel) == GIT_MODULES)
        return p->trace == PLACE_NAMED;
    return p->exists && p->rel && S_ISREG(p->st.st_mode) && p->st.st_nlink == 1 &&
           ((p->st.st_mode ^ mode) & 07777 & ~(mode_t)S_IXUSR) == 0 && guard_git_role(g, p->rel) == GIT_CONFIG;
}

bool guard_git_is_probe(const char *rel, const char *target) {
    const char *name = last_name(rel);

    return str_eq(target, "testing") && name[0] == 't' && strlen(name) == 7 && lies_in_git(rel);
}
