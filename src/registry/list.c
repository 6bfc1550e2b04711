/* SPDX-License-Identifier: Apache-2.0 */
/* All sandboxes, and one by its name or id. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "registry/registry_priv.h"

void box_list_done(struct box_list *l) {
    for (size_t i = 0; i < l->n; i++)
        box_done(&l->v[i]);
    free(l->v);
    *l = (struct box_list){0};
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct box *)a)->name, ((const struct box *)b)->name);
}

/* Hidden names are of creations and removals; others are no sandbox's. */
static int list_folder(struct dir *d, const char *boxes, struct box_list *ret) {
    char boot[BOX_BOOT_SIZE];
    const struct dirent *e;
    int r = 0;

    box_boot_id(boot);
    while (r == 0 && (e = dir_next(d))) {
        CLEANUP(box_done) struct box b = BOX_INIT;

        if (box_check_name(e->d_name, NULL) < 0 || registry_load(d->fd, boxes, e->d_name, boot, false, &b, NULL) < 0)
            continue;
        closep(&b.fd);
        r = VEC_ADD(ret->v, ret->n, TAKE(b, (struct box)BOX_INIT));
    }
    return r;
}

int registry_list(const char *boxes, struct box_list *ret, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r = registry_open_boxes(boxes, false, err);

    if (r == -ENOENT) {
        *ret = (struct box_list){0};
        return 0;
    }
    if (r < 0)
        return r;
    r = dir_take(r, &d);
    if (r < 0)
        return err_sys(err, r, "read '%s'", boxes);
    if (list_folder(&d, boxes, &l) < 0)
        return err_oom(err);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, compare_names);
    *ret = TAKE(l, (struct box_list){0});
    return 0;
}

/* -- one by its name or id ---------------------------------------------------------------------------------------------- */

/* Longer than a name may be, but made of the same. */
static bool may_be_id(const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

    return str_starts(name, "bawn-") && name[n] == 0 && n <= BOX_ID_MAX;
}

static int no_such_box(const struct box_list *l, const char *name, struct err *err) {
    CLEANUP(freep) const char **names = calloc(l->n + 1, sizeof *names);
    const char *nearest;

    if (!names)
        return err_oom(err);
    for (size_t i = 0; i < l->n; i++)
        names[i] = l->v[i].name;
    nearest = str_nearest(name, names, l->n);
    if (nearest)
        return err_set(err, -ENOENT, "no sandbox '%s'; did you mean '%s'?", name, nearest);
    return err_set(err, -ENOENT, "no sandbox '%s'; see 'bawn ps -a'", name);
}

/* By its id; or the error that there is none. */
static int open_other(int dir, const char *boxes, const char *name, const char *boot, bool lock, struct box *ret,
                      struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = registry_list(boxes, &l, err);

    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (str_eq(l.v[i].info.id, name))
            return registry_load(dir, boxes, l.v[i].name, boot, lock, ret, err);
    return r < 0 ? r : no_such_box(&l, name, err);
}

int registry_open(const char *boxes, const char *name, bool lock, struct box *ret, struct err *err) {
    CLEANUP(closep) int dir = -1;
    char boot[BOX_BOOT_SIZE];
    bool is_name = box_check_name(name, may_be_id(name) ? NULL : err) == 0;
    int r;

    if (!is_name && !may_be_id(name))
        return -EINVAL;
    dir = registry_open_boxes(boxes, false, err);
    if (dir < 0)
        return dir == -ENOENT ? no_such_box(&(struct box_list){0}, name, err) : dir;
    box_boot_id(boot);
    r = is_name ? registry_load(dir, boxes, name, boot, lock, ret, err) : -ENOENT;
    return r == -ENOENT ? open_other(dir, boxes, name, boot, lock, ret, err) : r;
}
