/* SPDX-License-Identifier: Apache-2.0 */
/* Takes changes out of a run for good. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/apply/apply.h"
#include "workspace/apply/apply_filter.h"
#include "workspace/apply/apply_leave.h"
#include "workspace/change/change_base.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/copy/xattrs.h"
#include "workspace/run/journal.h"

static int add_left(struct strv *left, const char *path, struct err *err) {
    return strv_add(left, path) < 0 ? err_oom(err) : 0;
}

static int choose_changes(const struct change_set *s, const struct strv *only, bool *goes, struct err *err) {
    CLEANUP(apply_filter_done) struct apply_filter f = {0};
    int r = apply_filter_init(&f, only, NULL, err);

    for (size_t i = 0; r == 0 && i < s->n; i++)
        goes[i] = apply_filter_wants_change(&f, &s->v[i]);
    return r;
}

/* -- overlay ------------------------------------------------------------------------------------------------------------ */

static int discard_overlay(struct rundir *rd, const struct apply_leavers *l, struct strv *left, struct err *err) {
    CLEANUP(closep) int upper = safepath_open(rd->fd, "upper", O_RDONLY | O_DIRECTORY);
    int r = apply_leave(rd, l, -1, -1, err);

    for (size_t i = 0; i < l->set->n && r >= 0; i++) {
        const struct change *c = &l->set->v[i];

        if (l->goes[i] && c->kind == CHANGE_DELETED && change_is_covered(upper, c->path))
            r = add_left(left, c->path, err);
        if (r >= 0 && l->goes[i] && c->from && change_is_covered(upper, c->from))
            r = add_left(left, c->from, err);
    }
    return r;
}

/* -- sync and worktree -------------------------------------------------------------------------------------------------- */

/* old: as change_open_old() gives it, the host's file or what the journal has of it. */
static int read_old_xattrs(const struct change_set *s, const char *path, int old, struct buf *ret) {
    const struct journal_entry *e = s->journal ? journal_find(s->journal, path) : NULL;
    int r = xattrs_read_plain(old, ret);

    if (r == 0 && ret->len == 0 && e && e->xattrs)
        xattrs_add_plain(ret, e->xattrs, e->xattrs_len);
    return r < 0 ? r : buf_ok(ret) ? 0 : -ENOMEM;
}

/* The copy gets its old version again. */
static int restore_copy(const struct change_set *s, const struct change *c, int tree, const char *path) {
    CLEANUP(closep) int old = -1;
    CLEANUP(buf_done) struct buf xattrs = BUF_INIT(XATTRS_MAX);
    struct place_meta meta = {.mode = c->old_.mode & 0777};
    struct stat st;
    int r;

    if (place_stat(tree, path, &st) == 0 && S_ISDIR(st.st_mode) != S_ISDIR(c->old_.mode)) {
        r = place_remove(tree, path, NULL, NULL);
        if (r < 0)
            return r;
    }
    if (S_ISDIR(c->old_.mode))
        return place_dir(tree, path, c->old_.mode & 0777, NULL);
    if (S_ISLNK(c->old_.mode))
        return c->old_.link ? place_link(tree, path, c->old_.link, NULL, NULL) : -ENODATA;
    old = S_ISREG(c->old_.mode) ? change_open_old(s, c) : -ENODATA;
    r = old < 0 ? old : read_old_xattrs(s, path, old, &xattrs);
    meta.xattrs = xattrs.len ? xattrs.data : NULL;
    meta.xattrs_len = xattrs.len;
    return r < 0 ? r : place_file(tree, path, old, &meta, NULL, NULL);
}

static int restamp_copy(struct manifest *m, int tree, const char *path, struct err *err) {
    const struct manifest_entry *e = manifest_find(m, path);
    struct manifest_stamp host, copy;

    if (!e || place_stamp(tree, path, &copy) < 0)
        return 0;
    host = e->host;
    return manifest_set(m, path, &host, &copy, err);
}

static int discard_tree(struct rundir *rd, const struct apply_leavers *l, struct strv *left, struct err *err) {
    CLEANUP(closep) int tree = safepath_open(rd->fd, "tree", O_RDONLY | O_DIRECTORY);
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    const struct change_set *s = l->set;
    int r = tree < 0 ? err_sys(err, tree, "open '%s/tree'", rd->path) : manifest_load(rd->fd, "manifest", &m, err);

    for (size_t i = s->n; i-- > 0 && r >= 0;) /* what is new goes first, from the leaves up */
        if (l->goes[i] && (s->v[i].kind == CHANGE_ADDED || s->v[i].kind == CHANGE_RENAMED)) {
            int gone = place_remove(tree, s->v[i].path, NULL, NULL);

            if (gone < 0 && gone != -ENOENT)
                r = add_left(left, s->v[i].path, err);
        }
    for (size_t i = 0; i < s->n && r >= 0; i++) {
        const struct change *c = &s->v[i];
        const char *path = c->from ? c->from : c->path;

        if (!l->goes[i] || c->kind == CHANGE_ADDED)
            continue;
        r = restore_copy(s, c, tree, path) < 0 ? add_left(left, path, err) : restamp_copy(m, tree, path, err);
    }
    return r < 0 ? r : manifest_save(m, rd->fd, "manifest", err);
}

int discard_changes(struct rundir *rd, const struct change_set *s, const struct strv *only, struct strv *ret_left,
                    struct err *err) {
    CLEANUP(strv_done) struct strv left = {0};
    CLEANUP(freep) bool *goes = calloc(s->n + 1, sizeof *goes);
    const struct apply_leavers l = {s, goes};
    int r = goes ? choose_changes(s, only, goes, err) : err_oom(err);

    if (r < 0)
        return r;
    if (rd->info.mode == WORKSPACE_OVERLAY)
        r = discard_overlay(rd, &l, &left, err);
    else if (rd->info.mode == WORKSPACE_SYNC || rd->info.mode == WORKSPACE_WORKTREE)
        r = discard_tree(rd, &l, &left, err);
    else
        r = err_set(err, -EINVAL, "the changes of a run in %s mode are in the workspace already; see 'bawn rollback'",
                    workspace_mode_names[rd->info.mode]);
    if (r < 0)
        return r;
    *ret_left = TAKE(left, (struct strv){0});
    return 0;
}
