/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "workspace/apply/apply_plan.h"
#include "workspace/copy/place.h"

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
    struct look_inside ret = {.empty = true};
    int fd = place_open(p->workspace, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return (struct look_inside){.unsure = true};
    }
    while ((e = readdir(d)))
        if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
            judge_entry(p, path, e->d_name, &ret);
    closedir(d);
    return ret;
}

/* Backwards, so that a folder is looked at after the folders in it. */
void apply_plan_folders(struct apply_plan *p) {
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
