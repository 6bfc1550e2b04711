/* SPDX-License-Identifier: Apache-2.0 */
/* From the journal of a run in direct mode to steps. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "workspace/apply/apply.h"
#include "workspace/apply/apply_filter.h"
#include "workspace/apply/apply_txn.h"
#include "workspace/copy/place.h"

struct rollback {
    struct rundir *rd;
    int workspace;
    bool force;
    struct journal *journal;
    const char **paths; /* of the change set, sorted; not owned */
    size_t n_paths;
    struct strv left;
    const struct journal_entry **lost; /* files without a stored content, by inode */
    size_t n_lost;
    struct apply_txn txn;
};

static void rollback_done(struct rollback *rb) {
    free(rb->lost);
    apply_txn_done(&rb->txn);
    journal_close(rb->journal);
    strv_done(&rb->left);
    free(rb->paths);
}

static int leave_path(struct rollback *rb, const char *path, struct err *err) {
    return strv_add(&rb->left, path) < 0 ? err_oom(err) : 0;
}

/* What is said to have been under a hidden name, and no supervisor has judged: who had taken over bawn-init could have the user overwrite or remove by this what it
 * could not reach itself. */
static bool is_doubtful(const struct rollback *rb, const struct change *c) {
    const struct journal_entry *e = c->hidden ? journal_find(rb->journal, c->path) : NULL;

    return e && e->unjudged;
}

static int collect_paths(struct rollback *rb, const struct change_set *s, const struct strv *only, struct err *err) {
    CLEANUP(apply_filter_done) struct apply_filter f = {0};
    int r = apply_filter_init(&f, only, NULL, err);

    if (r < 0)
        return r;
    rb->paths = calloc(2 * s->n + 1, sizeof *rb->paths);
    if (!rb->paths)
        return err_oom(err);
    for (size_t i = 0; i < s->n; i++) {
        const struct change *c = &s->v[i];

        if (!apply_filter_wants_change(&f, c))
            continue;
        if (is_doubtful(rb, c)) { /* hidden files are never taken for renamed ones */
            r = leave_path(rb, c->path, err);
            if (r < 0)
                return r;
            continue;
        }
        rb->paths[rb->n_paths++] = c->path;
        if (c->from)
            rb->paths[rb->n_paths++] = c->from;
    }
    if (rb->n_paths)
        qsort(rb->paths, rb->n_paths, sizeof *rb->paths, str_compare);
    return 0;
}

/* -- files that were only moved ----------------------------------------------------------------------------------------- */

static bool is_lost(const struct journal_entry *e) {
    return e->kind == JOURNAL_FILE && e->blob == 0;
}

static int by_ino(const void *a, const void *b) {
    const struct journal_entry *x = *(const struct journal_entry *const *)a, *y = *(const struct journal_entry *const *)b;

    return (x->ino > y->ino) - (x->ino < y->ino);
}

static int find_lost(struct rollback *rb, struct err *err) {
    for (size_t i = 0; i < journal_count(rb->journal); i++)
        if (is_lost(journal_at(rb->journal, i)) && VEC_ADD(rb->lost, rb->n_lost, journal_at(rb->journal, i)) < 0)
            return err_oom(err);
    if (rb->n_lost)
        qsort(rb->lost, rb->n_lost, sizeof(void *), by_ino);
    return 0;
}

/* A number is used again for the next file; what is older than the run is not new. */
static bool was_there_before(const struct rollback *rb, const char *path) {
    CLEANUP(closep) int fd = place_open(rb->workspace, path, O_PATH | O_NOFOLLOW);
    struct statx x;

    return fd >= 0 && statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) == 0 && x.stx_mask & STATX_BTIME &&
           (uint64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec < rb->rd->info.begun_ns;
}

/* The name is new, but the file is one whose content is nowhere else: it stays under this name. */
static bool is_only_copy(const struct rollback *rb, const char *path, const struct manifest_stamp *host) {
    const struct journal_entry key = {.ino = host->ino}, *k = &key;
    const struct journal_entry *const *e =
        S_ISREG(host->mode) && rb->n_lost ? bsearch(&k, rb->lost, rb->n_lost, sizeof(void *), by_ino) : NULL;

    return e && (((*e)->size == host->size && (*e)->mtime_ns == host->mtime_ns) || was_there_before(rb, path));
}

static bool is_planned(const struct rollback *rb, const char *path) {
    return rb->n_paths && bsearch(&path, rb->paths, rb->n_paths, sizeof *rb->paths, str_compare) && !strv_has(&rb->left, path);
}

/* -- one path ----------------------------------------------------------------------------------------------------------- */

/* A folder above the path is something else now, and rolling back makes it a folder again. */
static bool way_is_cleared(const struct rollback *rb, const char *path) {
    CLEANUP(freep) char *copy = strdup(path);

    for (char *slash = copy ? strrchr(copy, '/') : NULL; slash; slash = strrchr(copy, '/')) {
        const struct journal_entry *e;

        *slash = 0;
        e = journal_find(rb->journal, copy);
        if (e && e->kind == JOURNAL_DIR && is_planned(rb, copy))
            return true;
    }
    return false;
}

/* setuid and setgid stay away: the journal's modes came through the sandbox's own init. */
static int add_restore(struct rollback *rb, const struct journal_entry *b, const struct manifest_stamp *host, struct err *err) {
    static const enum apply_step_kind kinds[] = {
        [JOURNAL_FILE] = STEP_FILE, [JOURNAL_LINK] = STEP_LINK, [JOURNAL_DIR] = STEP_MKDIR};
    struct apply_step step = {.kind = kinds[b->kind],
                              .path = (char *)b->path,
                              .mode = b->mode & (b->kind == JOURNAL_DIR ? 01777 : 0777),
                              .link = b->link,
                              .expect = *host};
    bool same_content_there =
        (b->kind == JOURNAL_DIR && S_ISDIR(host->mode)) ||
        (b->kind == JOURNAL_FILE && S_ISREG(host->mode) && apply_is_as_stored(rb->journal, b, rb->workspace));
    int r = 0;

    if (b->kind == JOURNAL_LINK && S_ISLNK(host->mode) && place_links_to(rb->workspace, b->path, b->link))
        return 0;
    if (same_content_there && (host->mode & 01777) == step.mode)
        return 0;
    if (same_content_there)
        step.kind = STEP_MODE;
    else if (host->mode && S_ISDIR(host->mode) != (b->kind == JOURNAL_DIR)) {
        r = apply_txn_remove(&rb->txn, b->path, host, true, err);
        step.expect = (struct manifest_stamp){0};
        step.replaces = true;
    }
    return r < 0 ? r : apply_txn_add(&rb->txn, &step, err);
}

static int consider_path(struct rollback *rb, const char *path, struct err *err) {
    const struct journal_entry *b = journal_find(rb->journal, path);
    struct manifest_stamp host;
    int r = place_stamp(rb->workspace, path, &host);

    if (r < 0 && r != -ENOENT && !((r == -ELOOP || r == -ENOTDIR) && way_is_cleared(rb, path)))
        return leave_path(rb, path, err);
    if (!b || !apply_path_ok(path) || b->named || b->kind == JOURNAL_OTHER || (b->kind == JOURNAL_FILE && b->blob == 0))
        return leave_path(rb, path, err); /* there is no way back */
    if (!rb->force && rb->rd->info.ended_ns && host.mode && !S_ISDIR(host.mode) && host.ctime_ns > rb->rd->info.ended_ns)
        return leave_path(rb, path, err);
    if (b->kind != JOURNAL_ABSENT)
        return add_restore(rb, b, &host, err);
    if (is_only_copy(rb, path, &host))
        return leave_path(rb, path, err);
    return apply_txn_remove(&rb->txn, path, &host, false, err);
}

/* -- folders ------------------------------------------------------------------------------------------------------------ */

static bool all_in_it_goes(const struct rollback *rb, const char *path) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    bool all = dir_take(place_open(rb->workspace, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), &d) == 0;

    while (all && (e = dir_next(&d))) {
        CLEANUP(freep) char *child = str_dupf("%s/%s", path, e->d_name);
        const struct journal_entry *b = child ? journal_find(rb->journal, child) : NULL;

        all = b && b->kind == JOURNAL_ABSENT && is_planned(rb, child);
    }
    return all && d.error == 0;
}

static void drop_steps_at(struct apply_txn *t, const char *path) {
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        if (str_eq(t->v[i].path, path))
            free(t->v[i].path);
        else
            t->v[n++] = t->v[i];
    t->n = n;
}

/* A folder that the run made stays if the user, or something that is left, is in it. From the leaves up: steps are in the order
 * of the paths still. */
static int judge_folders(struct rollback *rb, struct err *err) {
    for (size_t i = rb->txn.n; i-- > 0;) {
        CLEANUP(freep) char *path = NULL;

        if (rb->txn.v[i].kind != STEP_RMDIR || all_in_it_goes(rb, rb->txn.v[i].path))
            continue;
        path = strdup(rb->txn.v[i].path);
        if (!path)
            return err_oom(err);
        drop_steps_at(&rb->txn, path);
        if (leave_path(rb, path, err) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* -- the whole ---------------------------------------------------------------------------------------------------------- */

static int open_stored(const struct apply_step *s, struct apply_content *ret, void *arg, struct err *err) {
    const struct rollback *rb = arg;
    const struct journal_entry *b = journal_find(rb->journal, s->path);

    if (!b)
        return err_set(err, -ENOENT, "the journal of the run has changed");
    buf_add(&ret->xattrs, b->xattrs, b->xattrs_len);
    ret->mtime_ns = b->mtime_ns;
    ret->fd = journal_blob(rb->journal, b);
    return ret->fd < 0 ? err_sys(err, ret->fd, "open the stored version of a file") : 0;
}

static mode_t folder_mode(const char *path, void *arg) {
    const struct rollback *rb = arg;
    const struct journal_entry *b = journal_find(rb->journal, path);

    return b && b->kind == JOURNAL_DIR ? b->mode & 0777 : 0755;
}

static int plan_rollback(struct rollback *rb, const struct change_set *s, const struct strv *only, struct err *err) {
    int r;

    if (rb->rd->info.mode != WORKSPACE_DIRECT)
        return err_set(err, -EINVAL, "only a run in direct mode is rolled back; this one was in %s mode",
                       workspace_mode_names[rb->rd->info.mode]);
    r = journal_open(rb->rd->fd, false, NULL, &rb->journal, err);
    r = r < 0 ? r : find_lost(rb, err);
    r = r < 0 ? r : collect_paths(rb, s, only, err);
    for (size_t i = 0; i < rb->n_paths && r >= 0; i++)
        r = consider_path(rb, rb->paths[i], err);
    return r < 0 ? r : judge_folders(rb, err);
}

static int roll(struct rollback *rb, const struct change_set *s, const struct strv *only, bool dry, struct strv *ret_left,
                struct err *err) {
    int r = dry ? 0 : apply_recover(rb->rd, rb->workspace, err);

    rb->txn = (struct apply_txn){
        .rd = rb->rd, .workspace = rb->workspace, .open = open_stored, .folder = folder_mode, .arg = rb, .dir = -1};
    r = r < 0 ? r : plan_rollback(rb, s, only, err);
    if (r >= 0 && !dry && rb->txn.n)
        r = apply_txn_run(&rb->txn, err);
    if (r >= 0)
        *ret_left = TAKE(rb->left, (struct strv){0});
    rollback_done(rb);
    return r < 0 ? r : 0;
}

int rollback_run(struct rundir *rd, const struct change_set *s, int workspace, const struct strv *only, bool force,
                 struct strv *ret_left, struct err *err) {
    return roll(&(struct rollback){.rd = rd, .workspace = workspace, .force = force}, s, only, false, ret_left, err);
}

int rollback_check(struct rundir *rd, const struct change_set *s, int workspace, const struct strv *only, bool force,
                   struct strv *ret_left, struct err *err) {
    return roll(&(struct rollback){.rd = rd, .workspace = workspace, .force = force}, s, only, true, ret_left, err);
}
