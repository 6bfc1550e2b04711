/* SPDX-License-Identifier: Apache-2.0 */
/* Takes applied changes out of a run, and puts them back. */
#include "workspace/apply/apply_leave.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/apply/apply_txn.h"
#include "workspace/change/change_base.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/copy/same.h"
#include "workspace/run/journal.h"

/* -- overlay: what leaves upper/ ------------------------------------------------------------------------------------------ */

enum { PARKED_PATH_MAX = 2 * JOURNAL_PATH_MAX };

struct park_names {
    const char **v; /* sorted; not owned */
    size_t n;
};

struct parker {
    struct park_names go, stay;
    bool whole; /* nothing in upper/ is unknown to the change set, so a folder may go at once */
    int to;
    char path[PARKED_PATH_MAX];
};

static bool has_name(const struct park_names *n, const char *path) {
    return n->n && bsearch(&path, n->v, n->n, sizeof *n->v, str_compare);
}

/* The paths of the changes that go (NULL: all), without those that are in `but`. */
static int collect_names(struct park_names *n, const struct change_set *s, const bool *goes, const struct park_names *but,
                         struct err *err) {
    n->v = calloc(2 * s->n + 1, sizeof *n->v);
    if (!n->v)
        return err_oom(err);
    for (size_t i = 0; i < s->n; i++) {
        const char *const both[] = {s->v[i].path, s->v[i].from};

        for (size_t k = 0; k < ARRAY_LEN(both); k++)
            if ((!goes || goes[i]) && both[k] && !(but && has_name(but, both[k])))
                n->v[n->n++] = both[k];
    }
    if (n->n)
        qsort(n->v, n->n, sizeof *n->v, str_compare);
    return 0;
}

static void parker_done(struct parker **p) {
    if (*p) {
        free((*p)->go.v);
        free((*p)->stay.v);
    }
    free(*p);
}

/* The path itself, or something below it: all that begins with "path/" is together in the sorted list. */
static bool has_at_or_below(const struct park_names *n, const char *path) {
    size_t low = 0, high = n->n, len = strlen(path);
    CLEANUP(freep) char *below = str_dupf("%s/", path);

    if (has_name(n, path) || !below)
        return true;
    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(n->v[middle], below) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->n && strncmp(n->v[low], below, len + 1) == 0;
}

/* The same folders below `root`, as far as they are missing; returns the last one. */
static int make_folders(int root, const char *path) {
    CLEANUP(freep) char *copy = strdup(path);
    CLEANUP(closep) int dir = fcntl(root, F_DUPFD_CLOEXEC, 0);
    char *rest = copy;

    while (dir >= 0 && rest && *rest) {
        char *name = strsep(&rest, "/");
        int next;

        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(dir);
        dir = next;
    }
    return copy && dir >= 0 ? TAKE_FD(dir) : -ENOMEM;
}

/* A folder whose mode keeps its owner from writing to it cannot be moved: its ".." would change. */
static int move_entry(int from, const char *name, int to) {
    struct stat st;

    if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EACCES || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return -errno;
    if (fchmodat(from, name, (st.st_mode & 0777) | 0700, 0) < 0 || renameat2(from, name, to, name, RENAME_NOREPLACE) < 0)
        return -errno;
    return fchmodat(to, name, st.st_mode & 07777, 0) < 0 ? -errno : 0;
}

static int park_one(struct parker *p, int dir, const char *name, size_t parent_len, struct err *err) {
    CLEANUP(closep) int to = -1;
    CLEANUP(freep) char *parent = strndup(p->path, parent_len);
    int r;

    to = parent ? make_folders(p->to, parent) : -ENOMEM;
    r = to < 0 ? to : move_entry(dir, name, to);
    return r < 0 ? err_sys(err, r, "move an applied change out of the run's folder") : 0;
}

static int park_folder(struct parker *p, int dir, unsigned depth, struct err *err);

static int park_entry(struct parker *p, int dir, const char *name, unsigned depth, struct err *err) {
    size_t len = strlen(p->path), parent = len;
    CLEANUP(closep) int sub = -1;
    struct stat st;
    int r = 0;

    if (len + strlen(name) + 2 > sizeof p->path)
        return err_set(err, -ENAMETOOLONG, "a path in the run's folder is too long");
    snprintf(p->path + len, sizeof p->path - len, "%s%s", len ? "/" : "", name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, -errno, "look at the run's folder");
    if (!S_ISDIR(st.st_mode))
        r = has_name(&p->go, p->path) ? park_one(p, dir, name, parent, err) : 0;
    else if (p->whole && !has_at_or_below(&p->stay, p->path) && has_at_or_below(&p->go, p->path))
        r = park_one(p, dir, name, parent, err);
    else if (has_at_or_below(&p->go, p->path)) {
        sub = safepath_open(dir, name, O_RDONLY | O_DIRECTORY);
        r = sub >= 0 ? park_folder(p, sub, depth + 1, err) : sub == -EACCES ? 0 : err_sys(err, sub, "open a folder of the run");
    }
    p->path[len] = 0;
    return r;
}

/* What its owner may not read or enter stays: the change set has nothing of what is in it. */
static int park_folder(struct parker *p, int dir, unsigned depth, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0}; /* moving while reading could skip one */
    int r;

    if (depth > CHANGE_DEPTH_MAX)
        return err_set(err, -ELOOP, "the run's folder is too deep");
    r = dir_names(dir, ".", &names);
    if (r < 0)
        return r == -EACCES ? 0 : err_sys(err, r, "read a folder of the run");
    for (size_t i = 0; i < names.len && r == 0; i++)
        r = park_entry(p, dir, names.v[i], depth, err);
    return r;
}

static int park_changes(struct rundir *rd, const struct apply_leavers *l, int to, int undo, struct err *err) {
    CLEANUP(closep) int upper = safepath_open(rd->fd, "upper", O_RDONLY | O_DIRECTORY);
    CLEANUP(change_set_done) struct change_set now = CHANGE_SET_INIT;
    CLEANUP(parker_done) struct parker *p = calloc(1, sizeof *p);
    int r;

    if (upper == -ENOENT)
        return 0;
    if (upper < 0)
        return err_sys(err, upper, "open '%s/upper'", rd->path);
    if (!p)
        return err_oom(err);
    p->to = to;
    /* The host has the applied changes now, so the set is made again: l may have a part of it. Hidden names are in it: they stay. */
    r = change_set_make(rd, l->set->host_root, NULL, &now, err);
    p->whole = now.notes.len == 0;
    r = r < 0 ? r : collect_names(&p->go, l->set, l->goes, NULL, err);
    r = r < 0 ? r : collect_names(&p->stay, &now, NULL, &p->go, err);
    r = r < 0 ? r : change_base_left(rd, p->go.v, p->go.n, undo, err);
    r = r < 0 ? r : park_folder(p, upper, 0, err);
    return r;
}

/* Moves everything below `from` to the same place below `to`; where something is already, it stays. */
static int merge_back(int from, int to, unsigned depth, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = depth > CHANGE_DEPTH_MAX ? -ELOOP : dir_names(from, ".", &names);

    if (r < 0)
        return err_sys(err, r, "read what left the run");
    for (size_t i = 0; i < names.len && r >= 0; i++) {
        CLEANUP(closep) int sub_from = -1, sub_to = -1;

        r = move_entry(from, names.v[i], to);
        if (r != -EEXIST)
            continue;
        sub_from = safepath_open(from, names.v[i], O_RDONLY | O_DIRECTORY);
        sub_to = safepath_open(to, names.v[i], O_RDONLY | O_DIRECTORY);
        r = sub_from < 0 || sub_to < 0 ? 0 : merge_back(sub_from, sub_to, depth + 1, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? err_sys(err, r, "move a change back into the run's folder") : 0;
}

static int return_parked(struct rundir *rd, int undo, struct err *err) {
    CLEANUP(closep) int parked = safepath_open(undo, APPLY_PARKED, O_RDONLY | O_DIRECTORY), upper = -1;

    if (parked == -ENOENT)
        return 0;
    upper = safepath_open(rd->fd, "upper", O_RDONLY | O_DIRECTORY);
    if (parked < 0 || upper < 0)
        return err_sys(err, parked < 0 ? parked : upper, "open what left the run");
    return merge_back(parked, upper, 0, err);
}

int apply_return(struct rundir *rd, int undo, struct err *err) {
    static const char *const files[] = {"manifest", "journal", "base"}; /* the last two: as an earlier version put them there */
    int r = rd->info.mode == WORKSPACE_OVERLAY ? change_base_return(rd, undo, err) : 0;

    r = r < 0 ? r : return_parked(rd, undo, err);
    for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++) {
        char stored[32];

        snprintf(stored, sizeof stored, "run.%s", files[i]);
        if (renameat(undo, stored, rd->fd, files[i]) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
            r = err_sys(err, -errno, "move '%s' back into the run's folder", files[i]);
    }
    return r;
}

#define GONE "gone" /* a folder for what is removed next */

static int leave_overlay(struct rundir *rd, const struct apply_leavers *l, int undo, struct err *err) {
    CLEANUP(closep) int to = -1;
    int at = undo < 0 ? rd->fd : undo, r;
    const char *name = undo < 0 ? GONE : APPLY_PARKED;

    if (undo < 0)
        remove_tree(rd->fd, GONE); /* of a crash */
    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder '%s'", name);
    to = safepath_open(at, name, O_RDONLY | O_DIRECTORY);
    if (to < 0)
        return err_sys(err, to, "open the folder '%s'", name);
    r = park_changes(rd, l, to, undo, err);
    if (undo < 0) {
        int gone = remove_tree(rd->fd, GONE);

        if (r >= 0 && gone < 0)
            r = err_sys(err, gone, "remove '%s/" GONE "'", rd->path);
    }
    return r < 0 ? r : 0;
}

/* Merged: the copy gets the merged version, or the next run would start from one side alone. */
static int level_copy(int workspace, int tree, const char *path, struct err *err) {
    CLEANUP(closep) int host = place_read(workspace, path), copy = -1;
    struct manifest_stamp now, expect;
    struct place_meta meta = {0};

    if (host < 0 || manifest_stamp_fd(host, &now) < 0 || !S_ISREG(now.mode))
        return 0;
    copy = place_read(tree, path);
    if (copy < 0 || manifest_stamp_fd(copy, &expect) < 0 || !S_ISREG(expect.mode) || same_content(host, copy, INT64_MAX) == 1)
        return 0;
    meta.mode = now.mode & 0777;
    meta.mtime_ns = now.mtime_ns;
    return place_file(tree, path, host, &meta, &expect, err);
}

static int restamp_both(struct manifest *m, int workspace, int tree, const char *path, struct err *err) {
    struct manifest_stamp host, copy;

    if (place_stamp(workspace, path, &host) == 0 && place_stamp(tree, path, &copy) == 0)
        return manifest_set(m, path, &host, &copy, err);
    manifest_drop(m, path);
    return 0;
}

static int leave_tree(struct rundir *rd, const struct apply_leavers *l, int workspace, int undo, struct err *err) {
    CLEANUP(closep) int tree = safepath_open(rd->fd, "tree", O_RDONLY | O_DIRECTORY);
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    int r;

    if (tree < 0)
        return err_sys(err, tree, "open '%s/tree'", rd->path);
    r = manifest_load(rd->fd, "manifest", &m, err);
    if (r < 0)
        return r;
    if (undo >= 0 && linkat(rd->fd, "manifest", undo, "run.manifest", 0) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "keep '%s/manifest'", rd->path);
    for (size_t i = 0; i < l->set->n && r >= 0; i++) {
        const struct change *c = &l->set->v[i];

        if (!l->goes[i])
            continue;
        r = level_copy(workspace, tree, c->path, err);
        r = r < 0 ? r : restamp_both(m, workspace, tree, c->path, err);
        if (r >= 0 && c->from)
            r = restamp_both(m, workspace, tree, c->from, err);
    }
    return r < 0 ? r : manifest_save(m, rd->fd, "manifest", err);
}

/* The host's files are what they were, but not the same inodes: the manifest has to know them, or they would look changed. */
int apply_know_restored(struct rundir *rd, int workspace, const struct journal *before, const struct strv *left,
                        struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    int r;

    if (rd->info.mode != WORKSPACE_SYNC && rd->info.mode != WORKSPACE_WORKTREE)
        return 0;
    r = manifest_load(rd->fd, "manifest", &m, err);
    for (size_t i = 0; r >= 0 && i < journal_count(before); i++) {
        const char *path = journal_at(before, i)->path;
        const struct manifest_entry *e = manifest_find(m, path);
        struct manifest_stamp host, copy;

        if (!e || place_stamp(workspace, path, &host) < 0 || strv_has(left, path))
            continue;
        copy = e->copy;
        r = manifest_set(m, path, &host, &copy, err);
    }
    return r < 0 ? r : manifest_save(m, rd->fd, "manifest", err);
}

int apply_leave(struct rundir *rd, const struct apply_leavers *l, int workspace, int undo, struct err *err) {
    if (rd->info.mode == WORKSPACE_OVERLAY)
        return leave_overlay(rd, l, undo, err);
    if (rd->info.mode == WORKSPACE_SYNC || rd->info.mode == WORKSPACE_WORKTREE)
        return leave_tree(rd, l, workspace, undo, err);
    return err_set(err, -EINVAL, "a run in this mode has no changes of its own");
}
