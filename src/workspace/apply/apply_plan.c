/* SPDX-License-Identifier: Apache-2.0 */
/* The plan for all changes: conflicts, renames, folders. */
#include "workspace/apply/apply_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/dir.h"
#include "workspace/apply/apply.h"
#include "workspace/copy/place.h"

enum { BESIDE_TRIES = 99 };

void apply_plan_say(struct plan_item *it, enum apply_outcome outcome, const char *why) {
    it->outcome = outcome;
    snprintf(it->why, sizeof it->why, "%s", why);
}

/* -- folders that go ------------------------------------------------------------------------------------------------------ */

struct look_inside {
    bool empty;  /* all in it goes, too */
    bool unsure; /* something in it is a change that does not go now, or it cannot be read */
};

static void judge_entry(const struct apply_plan *p, const char *folder, const char *name, struct look_inside *ret) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", folder, name);
    const struct change *c = path ? change_find(p->set, path) : NULL;

    /* In the way only if it stays; one that is put there in place of another stays, too. */
    if (path && apply_plan_goes(p, path) && (!c || c->kind == CHANGE_DELETED))
        return;
    ret->empty = false;
    ret->unsure |= !path || c;
}

static struct look_inside look_inside(const struct apply_plan *p, const char *path) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    struct look_inside ret = {.empty = true};
    const struct dirent *e;
    int r = dir_take(place_open(p->workspace, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), &d);

    while ((e = dir_next(&d)))
        judge_entry(p, path, e->d_name, &ret);
    return r < 0 || d.error < 0 ? (struct look_inside){.unsure = true} : ret;
}

/* Backwards, so that a folder is looked at after the folders in it. */
static void judge_folders(struct apply_plan *p) {
    for (size_t i = p->set->n; i-- > 0;) {
        const struct change *c = &p->set->v[i];
        struct plan_item *it = &p->v[i];
        struct look_inside inside;

        if (it->outcome != APPLY_DONE || it->beside || !S_ISDIR(it->host.mode) || S_ISDIR(c->new_.mode))
            continue;
        inside = look_inside(p, c->path);
        if (inside.empty)
            continue;
        if (c->kind != CHANGE_DELETED) {
            apply_plan_say(it, APPLY_CONFLICT, "the folder has something in it on the host");
        } else {
            apply_plan_say(it, APPLY_LEFT, "not empty on the host");
            it->leaves = !inside.unsure;
        }
    }
}

/* -- what the user wants done with a conflict --------------------------------------------------------------------------- */

static void keep_both(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    struct stat st;

    if (!S_ISREG(c->new_.mode) && !S_ISLNK(c->new_.mode))
        return;
    for (unsigned n = 1; n <= BESIDE_TRIES; n++) {
        char *beside = n == 1 ? str_dupf("%s.bawn-%s", c->path, p->rd->name) : str_dupf("%s.bawn-%s-%u", c->path, p->rd->name, n);

        if (beside && apply_path_ok(beside) && !change_find(p->set, beside) && place_stat(p->workspace, beside, &st) == -ENOENT) {
            it->beside = beside;
            it->mode = c->new_.mode & 0777;
            apply_plan_say(it, APPLY_DONE, "both sides changed it: the run's version is beside it");
            return;
        }
        free(beside);
    }
}

/* A folder in use cannot make way for a file; what is in it stays. */
static void overwrite(const struct change *c, struct plan_item *it) {
    if (c->kind == CHANGE_RENAMED)
        return;
    it->content = c->kind != CHANGE_DELETED;
    it->mode = apply_plan_mode(c, it->host.mode);
    apply_plan_say(it, APPLY_DONE, "the host's version is replaced; --undo brings it back");
}

static void resolve(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    struct manifest_stamp host;

    if (it->outcome != APPLY_CONFLICT || apply_plan_look(p, c->path, &host) < 0)
        return;
    if (p->opts->conflict == APPLY_KEEP_BOTH)
        keep_both(p, c, it);
    else if (p->opts->conflict == APPLY_OVERWRITE)
        overwrite(c, it);
}

static int by_from(const void *a, const void *b) {
    const struct change *const *x = a, *const *y = b;

    return strcmp((*x)->from, (*y)->from);
}

bool apply_plan_goes(const struct apply_plan *p, const char *path) {
    const struct change *c = change_find(p->set, path), key = {.from = (char *)path}, *k = &key;
    const struct change *const *from;

    if (!c && p->n_froms) {
        from = bsearch(&k, p->froms, p->n_froms, sizeof(struct change *), by_from);
        c = from ? *from : NULL;
    }
    return c && !p->v[c - p->set->v].beside && p->v[c - p->set->v].outcome <= APPLY_MERGED;
}

int apply_plan_make(struct apply_plan *p, struct err *err) {
    int r = apply_filter_init(&p->filter, p->opts->only, p->opts->except, err);

    if (r < 0)
        return r;
    p->v = calloc(p->set->n + 1, sizeof *p->v);
    p->froms = calloc(p->set->n + 1, sizeof(struct change *));
    if (!p->v || !p->froms)
        return err_oom(err);
    for (size_t i = 0; i < p->set->n; i++) {
        apply_plan_judge(p, i, &p->v[i]);
        resolve(p, &p->set->v[i], &p->v[i]);
        if (p->set->v[i].from)
            p->froms[p->n_froms++] = &p->set->v[i];
    }
    if (p->n_froms)
        qsort(p->froms, p->n_froms, sizeof(struct change *), by_from);
    judge_folders(p);
    for (size_t i = 0; i < p->set->n; i++) {
        struct plan_item *it = &p->v[i];

        it->leaves |= it->outcome <= APPLY_SAME;
        if (it->outcome == APPLY_DONE && !it->why[0] && (p->set->v[i].new_.mode & 06000))
            apply_plan_say(it, APPLY_DONE, "without its setuid or setgid bit");
    }
    return 0;
}

void apply_plan_done(struct apply_plan *p) {
    for (size_t i = 0; p->v && i < p->set->n; i++)
        free(p->v[i].beside);
    free(p->v);
    free(p->froms);
    apply_filter_done(&p->filter);
    p->v = NULL;
    p->froms = NULL;
}
