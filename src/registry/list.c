/* SPDX-License-Identifier: Apache-2.0 */
/* Names and ids of sandboxes; all of them, and one by its name or id. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "registry/registry.h"
#include "registry/registry_priv.h"

/* Names and ids --------------------------------------------------------------------------------------------------- */

enum { SHOWN_MAX = 60, HASH_DIGITS = 6, STEM_MAX = BOX_NAME_MAX - 1 - HASH_DIGITS };

static const char alphanumeric[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

int box_check_name(const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(8 * SHOWN_MAX);
    size_t len = strlen(name);
    char cut[SHOWN_MAX + 1];

    /* The dots: as in the name of a branch, which a sandbox in worktree mode has (git-check-ref-format(1)). */
    if (len > 0 && len <= BOX_NAME_MAX && strspn(name, inner) == len && strchr(alphanumeric, name[0]) && !strstr(name, "..") &&
        !str_ends(name, ".") && !str_ends(name, ".lock"))
        return 0;
    snprintf(cut, sizeof cut, "%s", name);
    buf_add_printable(&shown, cut);
    return err_usage(
        err,
        "'%s%s' is no name for a sandbox: letters, digits, '-', '_' and '.', the first a letter or digit, at most %d "
        "characters; no '..', and neither '.' nor '.lock' at the end",
        buf_str(&shown), len > SHOWN_MAX ? "..." : "", BOX_NAME_MAX);
}

void box_name_for(const char *workspace, char ret[static BOX_NAME_MAX + 1]) {
    const char *slash = strrchr(workspace, '/'), *from = slash ? slash + 1 : workspace;
    char hash[SHA256_HEX_SIZE], stem[STEM_MAX + 1] = "";
    size_t n = 0;

    sha256_hex(workspace, strlen(workspace), hash);
    from += strcspn(from, alphanumeric);
    for (; *from && n < STEM_MAX; from++, n++)
        stem[n] = strchr(inner, *from) && !(*from == '.' && n && stem[n - 1] == '.') ? *from : '-';
    stem[n] = 0;
    snprintf(ret, BOX_NAME_MAX + 1, "%s-%.*s", n ? stem : "sandbox", HASH_DIGITS, hash);
}

void box_make_id(const char *name, char ret[static BOX_ID_MAX + 1]) {
    char stamp[CLOCK_TEXT_SIZE];

    snprintf(ret, BOX_ID_MAX + 1, "bawn-%.*s-%.20s", BOX_NAME_MAX, name, clock_text(clock_mark(), CLOCK_STAMP, stamp));
}

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
int registry_list(const char *boxes, struct box_list *ret, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    char boot[BOX_BOOT_SIZE];
    const struct dirent *e;
    int r = registry_open_boxes(boxes, false, err);

    if (r < 0 && r != -ENOENT)
        return r;
    r = r < 0 ? 0 : dir_take(r, &d);
    if (r < 0)
        return err_sys(err, r, "read '%s'", boxes);
    box_boot_id(boot);
    while ((e = dir_next(&d))) {
        CLEANUP(box_done) struct box b = BOX_INIT;

        if (box_check_name(e->d_name, NULL) < 0 || registry_load(d.fd, boxes, e->d_name, boot, false, &b, NULL) < 0)
            continue;
        closep(&b.fd);
        if (VEC_ADD(l.v, l.n, TAKE(b, (struct box)BOX_INIT)) < 0)
            return err_oom(err);
    }
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, compare_names);
    *ret = TAKE(l, (struct box_list){0});
    return 0;
}

/* -- one by its name or id ---------------------------------------------------------------------------------------------- */

/* Longer than a name may be, but made of the same. */
static bool may_be_id(const char *name) {
    size_t n = strspn(name, inner);

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
