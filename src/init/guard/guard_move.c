/* SPDX-License-Identifier: Apache-2.0 */
/* rename(2), in all its forms, of files and of whole trees. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_git.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

struct move {
    struct guard *g;
    const struct place *from, *to;
    bool exchange;
};

static int refuse(const struct move *m, enum guard_why why) {
    const struct place *p = m->to->rel && *m->to->rel ? m->to : m->from;

    return guard_refuse(m->g, p->rel ? p->rel : "", why, -EACCES);
}

/* rel + suffix; "" for a path outside, NULL if it is too long. */
static const char *join(const char *rel, const char *suffix, char out[static PATH_MAX]) {
    int n = rel ? snprintf(out, PATH_MAX, "%s%s", rel, suffix) : 0;

    if (!rel)
        out[0] = 0;
    return n >= 0 && n < PATH_MAX ? out : NULL;
}

/* A repository that was none where it was: it comes from outside, or from below .git. */
static bool plants_repository(const struct guard_walk_entry *e, const char *old, const char *new) {
    if (!*new || (*old && (!guard_rules_below_git(old) || guard_rules_below_git(new))))
        return false;
    return judge_completes_repository(e->dir, e->name);
}

/* A folder in which the host is just saving stays where it is: what would be made in its place could be what the host then renames. */
static int rest_below(const struct move *m, const struct guard_walk_entry *e, const char *old) {
    uint64_t birth_ns;
    struct stat st;
    int r;

    if (e->kind != RULES_FILE || !*old)
        return 0;
    r = stat_born(e->dir, e->name, AT_SYMLINK_NOFOLLOW, &st, &birth_ns);
    if (r < 0)
        return guard_is_absence(-r) ? 0 : r;
    return judge_rest(m->g, old, &st, birth_ns, false);
}

/* Whatever is below must be judged the same in both places. */
static int judge_below(void *arg, const struct guard_walk_entry *e) {
    struct move *m = arg;
    const struct guard_rules *r = &m->g->rules;
    char old_path[PATH_MAX], new_path[PATH_MAX];
    const char *old = join(m->from->rel, e->suffix, old_path), *new = join(m->to->rel, e->suffix, new_path);

    if (!old || !new)
        return -E2BIG;
    if (guard_rules_protect(r, old, e->kind) != guard_rules_protect(r, new, e->kind) ||
        (guard_rules_is_git(e->name) && (!*old || !*new)))
        return refuse(m, GUARD_WHY_PROTECTED);
    if (e->kind != RULES_FILE && guard_rules_lead(r, old) != guard_rules_lead(r, new))
        return refuse(m, GUARD_WHY_PROTECTED);
    if (e->kind == RULES_LINK && guard_rules_below_git(new)) /* git makes none, and would write through it (logs) */
        return refuse(m, GUARD_WHY_PROTECTED);
    if (guard_rules_hide(r, old, e->kind) != guard_rules_hide(r, new, e->kind))
        return refuse(m, GUARD_WHY_HIDDEN);
    return plants_repository(e, old, new) ? refuse(m, GUARD_WHY_BARE_REPO) : rest_below(m, e, old);
}

/* What is named by one end of the move itself. */
static bool end_is_protected(const struct move *m, const struct place *p, enum rules_kind kind) {
    const struct guard_rules *r = &m->g->rules;

    if (!p->rel)
        return false;
    return guard_rules_is_git(p->rel) || judge_is_protected(m->g, p->rel, kind) ||
           (kind != RULES_FILE && guard_rules_lead(r, p->rel));
}

static int judge_move(struct move *m) {
    enum rules_kind kind = place_kind(m->from);
    unsigned left = GUARD_MOVE_MAX;
    int r;

    if (place_holds_root(m->g, m->from) || place_holds_root(m->g, m->to))
        return -EACCES;
    if (!m->from->rel && !m->to->rel)
        return 0;
    if (end_is_protected(m, m->from, kind))
        return guard_refuse(m->g, m->from->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (end_is_protected(m, m->to, kind) || end_is_protected(m, m->to, place_kind(m->to)) ||
        (kind != RULES_FOLDER && m->to->rel && guard_git_is_modules(m->to->rel)) ||
        (kind != RULES_FILE && m->to->rel && guard_rules_in_git_core(m->to->rel)) ||
        (kind == RULES_LINK && m->to->rel && guard_rules_below_git(m->to->rel)))
        return guard_refuse(m->g, m->to->rel, GUARD_WHY_PROTECTED, -EACCES);
    if (guard_rules_hide(&m->g->rules, m->from->rel, kind))
        return guard_refuse(m->g, m->from->rel, GUARD_WHY_HIDDEN, -EACCES);
    if (guard_rules_hide(&m->g->rules, m->to->rel, kind))
        return guard_refuse(m->g, m->to->rel, GUARD_WHY_HIDDEN, -EACCES);
    r = m->to->rel && !m->to->exists ? judge_repository(m->g, m->to) : 0;
    r = r < 0 ? r : judge_end_of_move(m->g, m->from);
    r = r < 0 || kind == RULES_FOLDER ? r : judge_end_of_move(m->g, m->to);
    if (r < 0 || kind != RULES_FOLDER)
        return r;
    r = guard_walk(m->from->dir, m->from->name, &left, judge_below, m);
    return r == -E2BIG ? -EXDEV : r;
}

static int touch_below(void *arg, const struct guard_walk_entry *e) {
    const struct move *m = arg;
    char path[PATH_MAX];
    struct stat st;
    int r = 0;

    if (m->from->rel) {
        if (!join(m->from->rel, e->suffix, path) || fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -EXDEV;
        r = guard_touch_at(m->g, path, &st, true);
    }
    if (r == 0 && m->to->rel && !m->exchange) /* what is exchanged is reported as the other's old path */
        r = join(m->to->rel, e->suffix, path) ? guard_touch_new(m->g, path) : -EXDEV;
    return r;
}

static int touch_move(struct move *m) {
    unsigned left = GUARD_MOVE_MAX;
    int r = 0;

    if (place_kind(m->from) == RULES_FOLDER && (m->from->rel || m->to->rel))
        r = guard_walk(m->from->dir, m->from->name, &left, touch_below, m);
    if (r < 0)
        return r == -E2BIG ? -EXDEV : r;
    r = guard_touch(m->g, m->from, true);
    return r < 0 ? r : guard_touch(m->g, m->to, true);
}

static int judge_and_touch(struct guard *g, const struct place *from, const struct place *to, bool exchange) {
    struct move there = {.g = g, .from = from, .to = to, .exchange = exchange};
    struct move back = {.g = g, .from = to, .to = from, .exchange = exchange};
    int r = judge_move(&there);

    if (exchange && r == 0)
        r = judge_move(&back);
    if (r == 0 && to->rel)
        guard_note_renamed(g, to->rel);
    if (r == 0 && exchange && from->rel)
        guard_note_renamed(g, from->rel);
    r = r < 0 ? r : touch_move(&there);
    return r < 0 || !exchange ? r : touch_move(&back);
}

static int find_both(const struct call *c, struct place *from, struct place *to) {
    char path[PATH_MAX];
    int r = caller_path(c, 1, path);

    r = r < 0 ? r : place_find(c, (int)c->arg[0], path, false, from);
    r = r < 0 ? r : caller_path(c, 3, path);
    return r < 0 ? r : place_find(c, (int)c->arg[2], path, false, to);
}

/* What the kernel refuses anyway need not be judged; its answer is the right one. */
static bool can_happen(const struct place *from, const struct place *to, unsigned flags) {
    if (!from->exists || str_eq(from->name, ".") || str_eq(to->name, "."))
        return false;
    return to->exists ? !(flags & RENAME_NOREPLACE) : !(flags & RENAME_EXCHANGE);
}

/* What is hidden in a folder that moved is covered before the command goes on: it cannot outrun the covers. A failure ends the run. */
static void look_again(struct guard *g, const struct place *from, const struct place *to, bool exchange) {
    if (S_ISDIR(from->st.st_mode))
        guard_look(g, to->rel, false);
    if (exchange && S_ISDIR(to->st.st_mode))
        guard_look(g, from->rel, false);
}

/* What the host makes at either name in this moment was not judged: it is neither moved nor replaced. */
static int rename_as_judged(const struct guard *g, const struct place *from, const struct place *to, unsigned flags) {
    bool is_new = to->rel && !to->exists && flags == 0 && !str_eq(to->name, ".");

    if (from->rel && !from->exists && !str_eq(from->name, "."))
        return -ENOENT;
    if (syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, is_new ? RENAME_NOREPLACE : flags) == 0)
        return 0;
    if (is_new && errno == EEXIST)
        return g->waited_ms < GUARD_PATIENCE_MS && g->n_later < GUARD_LATER_MAX ? GUARD_LATER : -EBUSY;
    if (!is_new || errno != EINVAL) /* EINVAL: also a file system that knows no such rename */
        return -errno;
    return syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, 0) < 0 ? -errno : 0;
}

long guard_run_rename(struct call *c) {
    CLEANUP(place_done) struct place from = PLACE_INIT;
    CLEANUP(place_done) struct place to = PLACE_INIT;
    enum git_role role;
    unsigned flags = (unsigned)c->arg[4];
    bool exchange = flags & RENAME_EXCHANGE;
    int making, r = find_both(c, &from, &to);

    if (r < 0)
        return r;
    if (!caller_waits(c))
        return GUARD_ANSWERED;
    role = can_happen(&from, &to, flags) && to.rel && !exchange && S_ISREG(from.st.st_mode) ? guard_git_role(c->g, to.rel)
                                                                                            : GIT_NONE;
    if (role == GIT_CONFIG || role == GIT_MODULES)
        return guard_git_put(c->g, &from, &to, role);
    if (can_happen(&from, &to, flags))
        r = judge_and_touch(c->g, &from, &to, exchange);
    making = r < 0 ? r : guard_making(c->g, &to, place_kind(&from));
    if (making < 0)
        return making;
    r = rename_as_judged(c->g, &from, &to, flags);
    if (making)
        guard_made_there(c->g, &to, r == 0);
    if (r == 0)
        look_again(c->g, &from, &to, exchange);
    return r;
}
