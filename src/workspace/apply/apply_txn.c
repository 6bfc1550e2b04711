/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the steps of an apply or a rollback. */
#include "workspace/apply/apply_txn.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "workspace/apply/apply.h"
#include "workspace/copy/place.h"
#include "workspace/copy/xattrs.h"

void apply_txn_done(struct apply_txn *t) {
    for (size_t i = 0; i < t->n; i++) {
        free(t->v[i].path);
        free(t->v[i].temp);
    }
    free(t->v);
    journal_close(TAKE_PTR(t->before));
    journal_close(TAKE_PTR(t->after));
    closep(&t->dir);
    t->v = NULL;
    t->n = 0;
}

int apply_txn_add(struct apply_txn *t, const struct apply_step *step, struct err *err) {
    struct apply_step copy = *step;

    copy.path = strdup(step->path);
    if (copy.path && VEC_ADD(t->v, t->n, copy) == 0)
        return 0;
    free(copy.path);
    return err_oom(err);
}

int apply_txn_remove(struct apply_txn *t, const char *path, const struct manifest_stamp *host, bool replaced, struct err *err) {
    const struct apply_step step = {
        .kind = S_ISDIR(host->mode) ? STEP_RMDIR : STEP_REMOVE, .path = (char *)path, .expect = *host, .replaced = replaced};

    return host->mode ? apply_txn_add(t, &step, err) : 0;
}

static bool makes_something(enum apply_step_kind kind) {
    return kind == STEP_MKDIR || kind == STEP_FILE || kind == STEP_LINK;
}

static int by_order(const void *a, const void *b) {
    const struct apply_step *x = a, *y = b;

    if (x->kind != y->kind && !(x->kind == STEP_FILE && y->kind == STEP_LINK) && !(x->kind == STEP_LINK && y->kind == STEP_FILE))
        return x->kind < y->kind ? -1 : 1;
    return makes_something(x->kind) ? strcmp(x->path, y->path) : strcmp(y->path, x->path);
}

static void sort_steps(struct apply_txn *t) {
    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, by_order);
}

static bool is_blocked(int r) {
    return r == -ELOOP || r == -ENOTDIR;
}

/* -- before ------------------------------------------------------------------------------------------------------------- */

static int begin_undo(struct apply_txn *t, struct err *err) {
    static const struct journal_opts all = {.budget = UINT64_MAX, .file_max = UINT64_MAX}, none = {0};
    CLEANUP(closep) int after = -1;
    int r;

    if (mkdirat(t->rd->fd, APPLY_UNDO_NEW, 0700) < 0)
        return err_sys(err, -errno, "make '%s/" APPLY_UNDO_NEW "'", t->rd->path);
    t->dir = openat(t->rd->fd, APPLY_UNDO_NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->dir < 0 || mkdirat(t->dir, APPLY_AFTER, 0700) < 0)
        return err_sys(err, -errno, "make '%s/" APPLY_UNDO_NEW "/" APPLY_AFTER "'", t->rd->path);
    after = openat(t->dir, APPLY_AFTER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (after < 0)
        return err_sys(err, -errno, "open '%s/" APPLY_UNDO_NEW "/" APPLY_AFTER "'", t->rd->path);
    r = journal_open(t->dir, true, &all, &t->before, err);
    return r < 0 ? r : journal_open(after, true, &none, &t->after, err);
}

/* Everything but the ctime, which a hard link into the journal moves. */
static bool still_the_same(const struct manifest_stamp *seen, const struct manifest_stamp *now) {
    if (S_ISDIR(seen->mode) && S_ISDIR(now->mode)) /* a folder's times and size move with what is in it */
        return seen->ino == now->ino && seen->mode == now->mode;
    return seen->mode == now->mode &&
           (seen->mode == 0 || (seen->ino == now->ino && seen->size == now->size && seen->mtime_ns == now->mtime_ns));
}

static int stamp_at(int root, const char *path, struct manifest_stamp *ret) {
    int r = place_stamp(root, path, ret);

    return r == -ENOENT || is_blocked(r) ? 0 : r;
}

static int changed_meanwhile(const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 * JOURNAL_PATH_MAX);

    buf_add_printable(&b, path);
    return err_set(err, -ESTALE, "'%s' changed while it was looked at; try again", buf_str(&b));
}

/* What is there is what the plan saw. */
static int look_again(struct apply_txn *t, const struct apply_step *s, struct manifest_stamp *ret, struct err *err) {
    int r = stamp_at(t->workspace, s->path, ret);

    if (r < 0)
        return err_sys(err, r, "look at the workspace");
    return still_the_same(&s->expect, ret) ? 0 : changed_meanwhile(s->path, err);
}

static int note_absent(struct journal *j, const char *path, struct err *err) {
    const struct journal_entry none = {.kind = JOURNAL_ABSENT, .path = path};

    return journal_add(j, &none, -1, false, -1, err);
}

/* A file that is only renamed away or unlinked is stored by a second name. One with more names could still be written to through
 * another of them. */
static int note_before(struct apply_txn *t, struct apply_step *s, struct err *err) {
    CLEANUP(closep) int content = -1;
    struct journal_entry e = {0};
    struct manifest_stamp now;
    struct stat st;
    int r;

    if (s->replaces)
        return 0; /* the removing step has noted it */
    r = look_again(t, s, &now, err);
    if (r < 0)
        return r;
    if (now.mode == 0)
        return note_absent(t->before, s->path, err);
    r = journal_look(t->before, t->workspace, s->path, &e, &content, err);
    if (r < 0)
        return r;
    if (s->kind == STEP_MODE)
        closep(&content);
    s->shared = content < 0 || fstat(content, &st) < 0 || st.st_nlink != 1;
    r = journal_add(t->before, &e, content, !s->shared, t->workspace, err);
    r = r < 0 ? r : look_again(t, s, &now, err);
    if (r == 0)
        s->expect = now;
    return r;
}

/* A folder that something new needs: steps of their own, so that taking back removes them, too. */
static int add_folders(struct apply_txn *t, const char *path, struct err *err) {
    CLEANUP(freep) char *copy = strdup(path);
    struct stat st;

    if (!copy)
        return err_oom(err);
    for (char *p = strchr(copy, '/'); p; p = strchr(p + 1, '/')) {
        struct apply_step step = {.kind = STEP_MKDIR, .path = copy};
        int r;

        *p = 0;
        if (place_stat(t->workspace, copy, &st) == -ENOENT && !journal_find(t->before, copy)) {
            step.mode = t->folder(copy, t->arg);
            r = note_absent(t->before, copy, err);
            r = r < 0 ? r : apply_txn_add(t, &step, err);
            if (r < 0)
                return r;
        }
        *p = '/';
    }
    return 0;
}

static int note_all(struct apply_txn *t, struct err *err) {
    size_t n = t->n;
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        if (makes_something(t->v[i].kind)) {
            r = add_folders(t, t->v[i].path, err);
            if (r < 0)
                return r;
        }
        r = note_before(t, &t->v[i], err);
    }
    sort_steps(t);
    return r < 0 ? r : 0;
}

/* -- staging ------------------------------------------------------------------------------------------------------------ */

static int note_after(struct apply_txn *t, const struct apply_step *s, struct err *err) {
    struct journal_entry e = {.kind = JOURNAL_ABSENT, .path = s->path, .mode = s->mode, .link = s->link};
    struct stat st = {0};
    const char *look_at = s->temp ? s->temp : s->path;
    int r;

    if (s->kind == STEP_MKDIR)
        e.kind = JOURNAL_DIR;
    if (s->temp || s->kind == STEP_MODE) {
        r = place_stat(t->workspace, look_at, &st);
        if (r < 0)
            return err_sys(err, r, "look at what was written");
        e.kind = S_ISDIR(st.st_mode) ? JOURNAL_DIR : S_ISLNK(st.st_mode) ? JOURNAL_LINK : JOURNAL_FILE;
        e.size = (uint64_t)st.st_size;
        e.mtime_ns = manifest_stamp_of(&st).mtime_ns;
        e.dev = st.st_dev;
        e.ino = st.st_ino;
    }
    return journal_add(t->after, &e, -1, false, -1, err);
}

static void content_done(struct apply_content *c) {
    closep(&c->fd);
    buf_done(&c->xattrs);
}

static int stage_file(struct apply_txn *t, struct apply_step *s, struct err *err) {
    CLEANUP(content_done) struct apply_content c = {.fd = -1, .xattrs = BUF_INIT(2 * XATTRS_MAX)};
    struct place_meta meta = {.mode = s->mode};
    struct manifest_stamp first, last;
    int r = t->open(s, &c, t->arg, err);

    if (r < 0)
        return r;
    meta.mtime_ns = c.mtime_ns;
    meta.xattrs = c.xattrs.len ? c.xattrs.data : NULL;
    meta.xattrs_len = c.xattrs.len;
    r = manifest_stamp_fd(c.fd, &first);
    if (r < 0)
        return err_sys(err, r, "look at the new version");
    r = place_stage_file(t->workspace, s->path, c.fd, &meta, &s->temp, err);
    if (r < 0)
        return r;
    return manifest_stamp_fd(c.fd, &last) < 0 || !manifest_same(&first, &last) ? changed_meanwhile(s->path, err) : 0;
}

/* -ELOOP and -ENOTDIR if what is in the way is only removed later. */
static int stage_step(struct apply_txn *t, struct apply_step *s, struct err *err) {
    int r;

    if (s->kind == STEP_FILE)
        r = stage_file(t, s, err);
    else
        r = place_stage_link(t->workspace, s->path, s->link, &s->temp, err);
    return r < 0 ? r : note_after(t, s, err);
}

static bool is_staged_kind(const struct apply_step *s) {
    return s->kind == STEP_FILE || s->kind == STEP_LINK;
}

static int stage_all(struct apply_txn *t, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < t->n && r >= 0; i++)
        if (!is_staged_kind(&t->v[i]) && !t->v[i].replaced)
            r = note_after(t, &t->v[i], err);
    for (size_t i = 0; i < t->n && r >= 0; i++)
        if (is_staged_kind(&t->v[i])) {
            r = stage_step(t, &t->v[i], err);
            if (is_blocked(r) && !t->v[i].temp)
                r = 0;
        }
    return r < 0 ? r : 0;
}

/* -- doing -------------------------------------------------------------------------------------------------------------- */

static int remove_folder(struct apply_txn *t, const struct apply_step *s, struct err *err) {
    struct stat st;
    int r = place_stat(t->workspace, s->path, &st);

    if (r == 0 && !S_ISDIR(st.st_mode))
        return changed_meanwhile(s->path, err);
    return r == -ENOENT ? 0 : place_remove(t->workspace, s->path, NULL, err);
}

static int move_in(struct apply_txn *t, struct apply_step *s, struct err *err) {
    int r = s->temp ? 0 : stage_step(t, s, err);

    if (r < 0)
        return r;
    if (s->expect.mode == 0 || s->replaces)
        r = place_commit_new(t->workspace, s->temp, s->path, err);
    else
        r = place_commit(t->workspace, s->temp, s->path, &s->expect, err);
    if (r == 0) {
        free(s->temp);
        s->temp = NULL;
    }
    return r;
}

static int do_step(struct apply_txn *t, struct apply_step *s, struct err *err) {
    int r;

    switch (s->kind) {
    case STEP_REMOVE:
        r = place_remove(t->workspace, s->path, &s->expect, err);
        return r == -ENOENT ? 0 : r;
    case STEP_RMDIR:
        return remove_folder(t, s, err);
    case STEP_MKDIR:
        return place_dir(t->workspace, s->path, s->mode | 0700, err); /* its final mode, when all is in it */
    case STEP_FILE:
    case STEP_LINK:
        return move_in(t, s, err);
    case STEP_MODE:
        return apply_set_mode(t->workspace, s->path, s->mode, &s->expect, err);
    }
    BUG("a step of no kind");
}

/* From the leaves up: a folder becomes read-only when all is in it. */
static int finish_folders(struct apply_txn *t, struct err *err) {
    int r = 0;

    for (size_t i = t->n; i-- > 0 && r == 0;) {
        const struct apply_step *s = &t->v[i];
        struct manifest_stamp now;

        if (s->kind != STEP_MKDIR || (s->mode | 0700) == s->mode)
            continue;
        r = stamp_at(t->workspace, s->path, &now);
        r = r < 0 ? err_sys(err, r, "look at a new folder") : apply_set_mode(t->workspace, s->path, s->mode, &now, err);
    }
    return r;
}

/* One name of a file went away: that is a new ctime under its other names, and not a change by another process. */
static void renew_stamps(struct apply_txn *t, size_t done) {
    const struct manifest_stamp *was = &t->v[done].expect;

    for (size_t i = done + 1; i < t->n; i++) {
        struct apply_step *s = &t->v[i];
        struct manifest_stamp now;

        if (s->expect.mode == 0 || s->expect.ino != was->ino || stamp_at(t->workspace, s->path, &now) < 0)
            continue;
        s->expect.ctime_ns = now.ctime_ns; /* all the rest is still compared */
    }
}

static int do_all(struct apply_txn *t, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < t->n && r >= 0; i++) {
        r = do_step(t, &t->v[i], err);
        if (t->v[i].shared && t->v[i].expect.mode)
            renew_stamps(t, i);
    }
    return r < 0 ? r : finish_folders(t, err);
}

/* The first error is the one that is reported. */
static int give_up(struct apply_txn *t, int r, struct err *err) {
    CLEANUP(strv_done) struct strv left = {0};
    struct err second = {0};
    int back;

    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].temp)
            place_discard(t->workspace, t->v[i].temp);
    journal_close(TAKE_PTR(t->before));
    journal_close(TAKE_PTR(t->after));
    back = t->dir < 0 ? 0 : apply_take_back(t->workspace, t->dir, TAKE_BACK_CRASH, &left, &second);
    if (back < 0)
        return err_ctx(err, r, "taking back failed, too (%.200s); the old versions are in '%s/" APPLY_UNDO_NEW "'", second.msg,
                       t->rd->path);
    apply_undo_drop(t->rd, APPLY_UNDO_NEW, NULL);
    return r;
}

int apply_txn_run(struct apply_txn *t, struct err *err) {
    static int (*const parts[])(struct apply_txn *, struct err *) = {begin_undo, note_all, stage_all, do_all};
    int r = 0;

    sort_steps(t);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(parts); i++)
        r = parts[i](t, err);
    r = r < 0 ? r : apply_undo_publish(t->rd, err);
    return r < 0 ? give_up(t, r, err) : 0;
}
