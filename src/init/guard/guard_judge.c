/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, together with what the file system says about other names of a file and about the neighbours of a new one. */
#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "init/guard/guard_git.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "workspace/hide/protect.h"

/* What makes git take a folder for a repository, with a configuration that it obeys (ATTACKS 37). */
static const char *const repository_names[] = {"HEAD", "objects", "refs", "commondir"};
enum { HIDDEN_WALK_MAX = 1000 };
enum { REPOSITORY_PLAIN = 7, REPOSITORY_COMMON = 9 /* HEAD and commondir */ };

/* By name alone: git asks access(2), so that a socket or a FIFO is as good as a folder (is_git_directory() in its setup.c). In every
 * spelling, for file systems that fold case. */
bool judge_completes_repository(int dir, const char *new_name) {
    unsigned names = 0;
    struct stat st;
    bool matters = false;

    for (unsigned i = 0; i < ARRAY_LEN(repository_names); i++)
        matters |= strcasecmp(new_name, repository_names[i]) == 0;
    for (unsigned i = 0; matters && i < ARRAY_LEN(repository_names); i++)
        if (strcasecmp(new_name, repository_names[i]) == 0 || fstatat(dir, repository_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 ||
            !guard_is_absence(errno))
            names |= 1u << i;
    return (names & REPOSITORY_PLAIN) == REPOSITORY_PLAIN || (names & REPOSITORY_COMMON) == REPOSITORY_COMMON;
}

/* .git itself is one; a folder further below it must not be: a link leads there as well as anywhere. */
int judge_repository(struct guard *g, const struct place *p) {
    char name[NAME_MAX + 1], folder[PATH_MAX];
    const char *slash = strrchr(p->rel, '/');

    snprintf(name, sizeof name, "%.*s", (int)strcspn(p->name, "/"), p->name);
    if (guard_rules_is_top_of_git(p->rel) || !judge_completes_repository(p->dir, name))
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - p->rel) : 0, p->rel);
    if (guard_git_is_home(folder)) /* its configuration and hooks are protected by name, wherever they are */
        return 0;
    return guard_refuse(g, p->rel, GUARD_WHY_BARE_REPO, -EACCES);
}

/* What cannot be looked for counts as there: the folder may have been closed to us (chmod), or there is no memory. */
static bool has(int root, const char *dir, size_t len, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%.*s%s%s", (int)len, dir, len ? "/" : "", name);

    if (n < 0 || (size_t)n >= sizeof path)
        return true;
    return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 || !guard_is_absence(errno);
}

/* A bare repository in the tree, or the git directory that a .git file leads to: by what is in it, whatever its name is. */
static bool in_repository(const struct guard *g, const char *path) {
    static const char *const obeyed[] = {"config", "config.worktree", "hooks", "commondir", "gitdir"};

    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
        size_t len = strcspn(at, "/"), dir = at == path ? 0 : (size_t)(at - path) - 1;

        for (size_t i = 0; i < ARRAY_LEN(obeyed); i++)
            if (strlen(obeyed[i]) == len && memcmp(at, obeyed[i], len) == 0 && has(g->root, path, dir, "HEAD") &&
                (has(g->root, path, dir, "commondir") || (has(g->root, path, dir, "objects") && has(g->root, path, dir, "refs"))))
                return true;
    }
    return false;
}

bool judge_is_protected(const struct guard *g, const char *path, enum rules_kind kind) {
    if (guard_rules_protect(&g->rules, path, kind))
        return true;
    return in_repository(g, path) &&
           !(kind == RULES_FILE && protect_is_sample(path) && guard_rules_is_ours(&g->rules, path, kind));
}

int judge_create(struct guard *g, const struct place *p, enum rules_kind kind) {
    const struct guard_rules *r = &g->rules;

    if (!p->rel)
        return 0;
    if (kind != RULES_FOLDER &&
        guard_git_is_modules(p->rel)) /* written in place (guard_stage.h) or renamed (guard_git.h) it is judged */
        return guard_refuse(g, p->rel, GUARD_WHY_GIT, -EACCES);
    if ((guard_rules_is_git(p->rel) || judge_is_protected(g, p->rel, kind) ||
         (kind == RULES_LINK && (guard_rules_lead(r, p->rel) || guard_rules_below_git(p->rel)))) &&
        !guard_git_may_make(g, p->rel, kind))
        return guard_refuse(g, p->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (guard_rules_hide(r, p->rel, kind))
        return guard_refuse(g, p->rel, GUARD_WHY_HIDDEN, -EACCES);
    if (kind != RULES_FOLDER && judge_is_save(g, p->rel, true))
        return guard_refuse(g, p->rel, GUARD_WHY_SAVE, -EACCES);
    return judge_repository(g, p);
}

/* What the host saves a protected file by, or is just saving. What was made inside is neither. */
static int check_save(struct guard *g, const struct place *p, bool writing, int refusal) {
    if (place_kind(p) == RULES_FILE && !known_has(g, &p->st, p->birth_ns) && judge_is_save(g, p->rel, false))
        return guard_refuse(g, p->rel, GUARD_WHY_SAVE, refusal);
    return judge_rest(g, p->rel, &p->st, p->birth_ns, writing);
}

static int note_alias(void *arg, const struct guard_walk_entry *e) {
    struct guard *g = arg;
    struct guard_aliases *a = &g->aliases;
    struct stat st;

    if (e->kind != RULES_FILE || !judge_is_protected(g, e->suffix + 1, e->kind))
        return 0;
    if (fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return guard_is_absence(errno) ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    return VEC_ADD(a->v, a->n, (struct guard_inode){st.st_dev, st.st_ino});
}

static int find_aliases(struct guard *g) {
    struct guard_aliases *a = &g->aliases;
    uint32_t now = g->share->aliases;
    unsigned left = GUARD_SCAN_MAX;

    if (a->scanned && a->scanned_at == now)
        return 0;
    a->n = 0;
    a->scanned = guard_walk(g->root, ".", &left, note_alias, g) == 0;
    a->scanned_at = now;
    return a->scanned ? 0 : -E2BIG;
}

/* Another name of a protected file? One look at which files these are is enough until the supervisor sees that there are new ones: who makes another name
 * makes no new file. That name may also lie outside of the workspace, in a folder that was mounted. */
static int check_alias(struct guard *g, const struct place *p) {
    const struct guard_aliases *a = &g->aliases;

    if (!S_ISREG(p->st.st_mode) || p->st.st_nlink < 2 || p->st.st_dev != g->root_dev)
        return 0;
    if (find_aliases(g) < 0)
        return guard_refuse(g, p->rel ? p->rel : "", GUARD_WHY_PROTECTED, -EACCES);
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].dev == p->st.st_dev && a->v[i].ino == p->st.st_ino)
            return guard_refuse(g, p->rel ? p->rel : "", GUARD_WHY_PROTECTED, -EACCES);
    return 0;
}

int judge_write(struct guard *g, const struct place *p) {
    int r;

    if (p->trace == PLACE_ASTRAY)
        return guard_refuse(g, p->rel ? p->rel : "", GUARD_WHY_PROTECTED, -EACCES);
    if (!p->rel)
        return p->trace == PLACE_GONE ? 0 : check_alias(g, p);
    if (judge_is_protected(g, p->rel, place_kind(p)) || (place_kind(p) == RULES_FILE && guard_git_is_modules(p->rel)))
        return guard_refuse(g, p->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (guard_rules_hide(&g->rules, p->rel, place_kind(p))) /* made on the host after the start, or what covers it */
        return guard_refuse(g, p->rel, GUARD_WHY_HIDDEN, -EACCES);
    r = check_save(g, p, true, -EACCES);
    return r < 0 ? r : check_alias(g, p);
}

/* git tries to remove its folder when it tidies up; that it is not empty is all it has to hear. */
static bool is_full_folder(const struct place *p) {
    unsigned left = 0;

    return S_ISDIR(p->st.st_mode) && guard_walk(p->dir, p->name, &left, NULL, NULL) == -E2BIG;
}

int judge_end_of_move(struct guard *g, const struct place *p) {
    if (!p->rel)
        return 0;
    return p->exists                        ? check_save(g, p, false, -EACCES)
           : judge_is_save(g, p->rel, true) ? guard_refuse(g, p->rel, GUARD_WHY_SAVE, -EACCES)
                                            : 0;
}

struct hidden_walk {
    const struct guard *g;
    const struct place *p;
    bool any;
};

static int visit_hidden(void *arg, const struct guard_walk_entry *e) {
    struct hidden_walk *w = arg;
    char path[PATH_MAX];

    if (e->kind == RULES_FOLDER)
        return 0;
    w->any = true;
    return (size_t)snprintf(path, sizeof path, "%s%s", w->p->rel, e->suffix) < sizeof path &&
                   guard_rules_hide(&w->g->rules, path, e->kind)
               ? 0
               : -ENOTEMPTY;
}

bool judge_holds_only_hidden(const struct guard *g, const struct place *p) {
    struct hidden_walk w = {.g = g, .p = p};
    unsigned left = HIDDEN_WALK_MAX;

    return p->rel && *p->rel && guard_walk(p->dir, p->name, &left, visit_hidden, &w) == 0 && w.any;
}

int judge_remove(struct guard *g, const struct place *p) {
    if (p->rel && guard_rules_hide(&g->rules, p->rel, place_kind(p)))
        return guard_refuse(g, p->rel, GUARD_WHY_HIDDEN, -EPERM);
    return judge_remove_shown(g, p);
}

int judge_remove_shown(struct guard *g, const struct place *p) {
    if (!p->rel)
        return 0;
    if (!guard_rules_is_git(p->rel) && !judge_is_protected(g, p->rel, place_kind(p)))
        return check_save(g, p, false, -EPERM);
    if (is_full_folder(p))
        return -ENOTEMPTY;
    return guard_git_may_remove(g, p) ? 0 : guard_refuse(g, p->rel, GUARD_WHY_PROTECTED, -EPERM);
}
