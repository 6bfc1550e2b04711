/* SPDX-License-Identifier: Apache-2.0 */
/* The folder checkpoints/ of a sandbox: names, locks, leftovers, and the description of each. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/user/idspace.h"
#include "supervisor/clone/clone_priv.h"

#define PLACE "checkpoints"
#define DESCRIPTION "checkpoint.json"

enum { DESCRIPTION_MAX = 4096, VERSION = 1 };

int clone_open_place(const struct box *box, bool make, struct err *err) {
    int fd;

    if (make && mkdirat(box->fd, PLACE, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder '%s/" PLACE "'", box->path);
    fd = openat(box->fd, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    return fd < 0 ? err_sys(err, -errno, "open the folder '%s/" PLACE "'", box->path) : fd;
}

int clone_check_tag(const char *tag, struct err *err) {
    int r = box_check_name(tag, err);

    return r < 0 ? err_ctx(err, r, "a checkpoint is named like a sandbox") : 0;
}

static int open_locked(int place, const char *name, int how) {
    CLEANUP(closep) int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return flock(fd, how | LOCK_NB) < 0 ? (errno == EWOULDBLOCK ? -EBUSY : -errno) : TAKE_FD(fd);
}

int clone_make_hidden(int place, char ret_name[static HIDDEN_NAME_SIZE], struct err *err) {
    int fd = hidden_lock(place);

    fd = fd < 0 ? fd : hidden_make(place, ret_name);
    hidden_unlock(place);
    hidden_sweep_gone(place);
    return fd < 0 ? err_sys(err, fd, "make the folder of a checkpoint") : fd;
}

int checkpoints_sweep(int boxes, const char *name) {
    CLEANUP(closep) int box = openat(boxes, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), place = -1;

    place = box < 0 ? -1 : openat(box, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return place < 0 ? 0 : hidden_sweep(place);
}

/* -- by name ------------------------------------------------------------------------------------------------------------ */

static int no_such_checkpoint(int place, const struct box *box, const char *tag, struct err *err) {
    struct checkpoint_list all = {0};
    const char *near = NULL, *names[CHECKPOINTS_MAX];
    struct err ignored = {0};
    int r;

    if (place >= 0 && checkpoint_list(box, &all, &ignored) == 0) {
        for (size_t i = 0; i < all.n; i++)
            names[i] = all.v[i].tag;
        near = str_nearest(tag, names, all.n);
    }
    r = near ? err_set(err, -ENOENT, "the sandbox '%s' has no checkpoint '%s'; did you mean '%s'?", box->name, tag, near)
             : err_set(err, -ENOENT, "the sandbox '%s' has no checkpoint '%s'; see 'bawn checkpoint ls %s'", box->name, tag,
                       box->name);
    checkpoint_list_done(&all);
    return r;
}

int clone_open_tag(const struct box *box, int place, const char *tag, bool exclusive, struct err *err) {
    int r = clone_check_tag(tag, err);

    if (r < 0)
        return r;
    r = place < 0 ? -ENOENT : open_locked(place, tag, exclusive ? LOCK_EX : LOCK_SH);
    if (r == -ENOENT)
        return no_such_checkpoint(place, box, tag, err);
    if (r == -EBUSY)
        return err_set(err, r, "checkpoint '%s' of the sandbox '%s' is in use just now", tag, box->name);
    return r < 0 ? err_sys(err, r, "open checkpoint '%s'", tag) : r;
}

int checkpoint_remove(const struct box *box, const char *tag, struct err *err) {
    CLEANUP(closep) int place = clone_open_place(box, false, err), dir = -1;
    char gone[HIDDEN_NAME_SIZE];
    int r;

    if (place < 0 && place != -ENOENT)
        return place;
    dir = clone_open_tag(box, place, tag, true, err);
    if (dir < 0)
        return dir;
    r = hidden_retire(place, dir, tag, gone);
    r = r < 0 ? r : idspace_remove_tree(place, gone);
    return r < 0 ? err_sys(err, r, "remove checkpoint '%s'", tag) : 0;
}

/* -- the description ---------------------------------------------------------------------------------------------------- */

static const struct json_field fields[] = {
    JSON_VERSION("version", VERSION),
    JSON_U64("created_ns", struct checkpoint, created_ns),
    JSON_ENUM("mode", struct checkpoint, mode, workspace_mode_names),
    JSON_U64("begun_ns", struct checkpoint, begun_ns),
    JSON_U64("ended_ns", struct checkpoint, ended_ns),
    JSON_BOOL("running", struct checkpoint, running),
    JSON_U64("files", struct checkpoint, files),
    JSON_U64("bytes", struct checkpoint, bytes),
    JSON_U64("left_out", struct checkpoint, left_out),
};
static const struct json_table description = {fields, ARRAY_LEN(fields)};

int checkpoint_save(int dir, const struct checkpoint *c, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(DESCRIPTION_MAX);
    int r = json_table_write(&description, c, 0, &text, err);

    return r < 0 ? r : paths_publish_at(dir, DESCRIPTION, DESCRIPTION, 0600, text.data, text.len, PUBLISH_NEW, err);
}

int checkpoint_load(int dir, struct checkpoint *ret) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(DESCRIPTION_MAX);
    struct checkpoint c = {0};
    int r = file_read_at(dir, DESCRIPTION, 0, &text);

    r = r < 0 ? r : json_table_parse(&description, text.data, text.len, DESCRIPTION_MAX, &c, NULL);
    if (r == 0)
        *ret = c;
    return r;
}

static int by_age(const void *a, const void *b) {
    const struct checkpoint *x = a, *y = b;

    return x->created_ns < y->created_ns ? -1 : x->created_ns > y->created_ns;
}

static void add_checkpoint(int place, const char *tag, struct checkpoint_list *l) {
    CLEANUP(closep) int dir = openat(place, tag, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct checkpoint *c = &l->v[l->n];

    if (dir < 0 || checkpoint_load(dir, c) < 0)
        return;
    snprintf(c->tag, sizeof c->tag, "%.*s", BOX_NAME_MAX, tag);
    l->n++;
}

void checkpoint_list_done(struct checkpoint_list *l) {
    free(l->v);
    *l = (struct checkpoint_list){0};
}

int checkpoint_list(const struct box *box, struct checkpoint_list *ret, struct err *err) {
    CLEANUP(closep) int place = clone_open_place(box, false, err);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    struct checkpoint_list l = {0};
    const struct dirent *e;

    if (place < 0 && place != -ENOENT)
        return place;
    l.v = calloc(CHECKPOINTS_MAX, sizeof *l.v);
    if (!l.v)
        return err_oom(err);
    if (place >= 0)
        dir_open_at(place, ".", &d);
    while (l.n < CHECKPOINTS_MAX && (e = dir_next(&d)))
        if (e->d_name[0] != '.' && strlen(e->d_name) <= BOX_NAME_MAX)
            add_checkpoint(place, e->d_name, &l);
    qsort(l.v, l.n, sizeof *l.v, by_age);
    *ret = l;
    return 0;
}
