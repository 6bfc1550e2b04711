/* SPDX-License-Identifier: Apache-2.0 */
/* Takes an apply back, after a crash or when asked. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/apply/apply.h"
#include "workspace/apply/apply_leave.h"
#include "workspace/apply/apply_txn.h"
#include "workspace/copy/place.h"
#include "workspace/copy/same.h"
#include "workspace/copy/xattrs.h"

struct taker {
    int workspace;
    struct journal *before, *after;
    enum take_back how;
    struct strv *left;
};

int apply_set_mode(int root, const char *path, mode_t mode, const struct manifest_stamp *expect, struct err *err) {
    CLEANUP(closep) int fd = place_open(root, path, O_PATH | O_NOFOLLOW);
    char self[40];
    struct manifest_stamp now;
    int r = fd < 0 ? fd : manifest_stamp_fd(fd, &now);

    if (r < 0)
        return err_sys(err, r, "open what the mode is for");
    if (S_ISLNK(now.mode) || now.ino != expect->ino || now.mode != expect->mode)
        return err_set(err, -ESTALE, "a file changed while its mode was set; try again");
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd); /* fchmod(2) wants no O_PATH; chmod(2) by name would race */
    return chmod(self, mode & 07777) < 0 ? err_sys(err, -errno, "set the mode of a file") : 0;
}

bool apply_is_as_stored(const struct journal *j, const struct journal_entry *e, int workspace) {
    CLEANUP(closep) int blob = journal_blob(j, e), host = place_read(workspace, e->path);

    return blob >= 0 && host >= 0 && same_content(blob, host, INT64_MAX) == 1 && xattrs_are(host, e->xattrs, e->xattrs_len);
}

/* -- taking back -------------------------------------------------------------------------------------------------------- */

static bool is_kind(const struct journal_entry *e, mode_t mode) {
    static const mode_t types[] = {
        [JOURNAL_FILE] = S_IFREG, [JOURNAL_LINK] = S_IFLNK, [JOURNAL_DIR] = S_IFDIR, [JOURNAL_OTHER] = ~0u /* none is known */};

    return (mode & S_IFMT) == types[e->kind];
}

static bool is_what_was_put(const struct taker *t, const struct journal_entry *a, const struct stat *st) {
    struct manifest_stamp now = manifest_stamp_of(st);

    if (!is_kind(a, st->st_mode))
        return false;
    if (a->kind == JOURNAL_LINK)
        return place_links_to(t->workspace, a->path, a->link);
    if (a->kind != JOURNAL_FILE)
        return true;
    return a->dev == st->st_dev && a->ino == now.ino && a->size == now.size && a->mtime_ns == now.mtime_ns &&
           (a->mode & 07777) == (st->st_mode & 07777);
}

static bool is_what_was_there(const struct taker *t, const struct journal_entry *b, const struct stat *st) {
    if (!is_kind(b, st->st_mode))
        return false;
    if (b->kind == JOURNAL_LINK)
        return place_links_to(t->workspace, b->path, b->link);
    if (b->kind != JOURNAL_FILE)
        return true; /* a folder's mode: close_old_folders() */
    if ((b->mode & 07777) != (st->st_mode & 07777))
        return false;
    return (b->dev == st->st_dev && b->ino == st->st_ino) || apply_is_as_stored(t->before, b, t->workspace);
}

static int put_file(const struct taker *t, const struct journal_entry *b, const struct stat *st, struct err *err) {
    CLEANUP(closep) int blob = -1;
    const struct place_meta meta = {.mode = b->mode, .mtime_ns = b->mtime_ns, .xattrs = b->xattrs, .xattrs_len = b->xattrs_len};
    struct manifest_stamp now = st->st_mode ? manifest_stamp_of(st) : (struct manifest_stamp){0};
    int r;

    if (S_ISREG(st->st_mode) && b->dev == st->st_dev && b->ino == st->st_ino)
        return apply_set_mode(t->workspace, b->path, b->mode, &now, err);
    blob = journal_blob(t->before, b);
    if (blob < 0)
        return err_sys(err, blob, "open the stored version");
    r = place_file(t->workspace, b->path, blob, &meta, &now, err);
    if (r < 0 || (b->mode & 07000) == 0)
        return r;
    r = place_stamp(t->workspace, b->path, &now); /* the host's own setuid bit, which place.h leaves out */
    return r < 0 ? err_sys(err, r, "look at a restored file") : apply_set_mode(t->workspace, b->path, b->mode, &now, err);
}

/* What is there now is what we put there, or the caller said that it does not matter. */
static int put_back(const struct taker *t, const struct journal_entry *b, struct stat *st, struct err *err) {
    struct manifest_stamp now = st->st_mode ? manifest_stamp_of(st) : (struct manifest_stamp){0};
    int r = 0;

    /* A folder makes way for anything, and anything for a folder; files and links are replaced in one move. */
    if (st->st_mode && (b->kind == JOURNAL_ABSENT || S_ISDIR(st->st_mode) != (b->kind == JOURNAL_DIR))) {
        r = place_remove(t->workspace, b->path, S_ISDIR(st->st_mode) ? NULL : &now, err);
        if (r < 0)
            return r;
        *st = now.mode ? (struct stat){0} : *st;
        now = (struct manifest_stamp){0};
    }
    switch (b->kind) {
    case JOURNAL_ABSENT:
        return 0;
    case JOURNAL_FILE:
        return put_file(t, b, st, err);
    case JOURNAL_LINK:
        return place_link(t->workspace, b->path, b->link, &now, err);
    case JOURNAL_DIR:
        return place_dir(t->workspace, b->path, (b->mode & 0777) | 0700, err); /* its own mode when all is in it again */
    case JOURNAL_OTHER:
        return err_set(err, -ENODATA, "a device or socket cannot be restored");
    }
    BUG("a journal entry of no kind");
}

static int leave_entry(const struct taker *t, const struct journal_entry *b, struct err *err) {
    return strv_add(t->left, b->path) < 0 ? err_oom(err) : 0;
}

static int take_one(const struct taker *t, const struct journal_entry *b, struct err *err) {
    const struct journal_entry *a = journal_find(t->after, b->path);
    struct stat st = {0};
    struct err why = {0};
    int r = place_stat(t->workspace, b->path, &st);

    if (r == -ELOOP || r == -ENOTDIR) /* something else is where a folder was */
        return b->kind == JOURNAL_ABSENT ? 0 : leave_entry(t, b, err);
    if (r < 0 && r != -ENOENT)
        return err_sys(err, r, "look at the workspace");
    if (r == -ENOENT)
        st = (struct stat){0};
    if (is_what_was_there(t, b, &st))
        return 0;
    /* Where nothing is, nothing can be lost; and a crash may have come between removing and restoring. */
    if (t->how != TAKE_BACK_FORCED && st.st_mode && !(a && is_what_was_put(t, a, &st)))
        return leave_entry(t, b, err);
    r = put_back(t, b, &st, &why);
    /* In use, not empty any more, or not stored: the rest is restored all the same. */
    if (r == -ESTALE || r == -ENOTEMPTY || r == -EEXIST || r == -ELOOP || r == -ENOTDIR || r == -ENODATA)
        return leave_entry(t, b, err);
    return r < 0 ? err_set(err, r, "%.900s", why.msg) : 0;
}

/* A crash, of taking back too, may have left files that were staged, or just replaced; the journal has what they were. */
static void sweep_folder(int workspace, const char *path, size_t len) {
    CLEANUP(freep) char *folder = strndup(path, len);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_take(folder ? place_open(workspace, len ? folder : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) : -ENOMEM, &d);
    while ((e = dir_next(&d)))
        if (place_is_temp(e->d_name))
            unlinkat(d.fd, e->d_name, 0);
}

static size_t folder_len(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) : 0;
}

static void sweep_staged(int workspace, const struct journal *before) {
    const char *last = NULL;

    for (size_t i = 0; i < journal_count(before); i++) {
        const char *path = journal_at(before, i)->path;
        size_t len = folder_len(path);

        if (last && folder_len(last) == len && memcmp(last, path, len) == 0)
            continue;
        sweep_folder(workspace, path, len);
        last = path;
    }
}

static void set_folder_mode(const struct taker *t, const char *path, mode_t mode) {
    struct manifest_stamp now;

    if (place_stamp(t->workspace, path, &now) == 0 && S_ISDIR(now.mode) && (now.mode & 07777) != mode)
        apply_set_mode(t->workspace, path, mode, &now, NULL); /* failing, it shows in what is done next, or in a mode alone */
}

/* What is in a new read-only folder has to be removed. */
static void open_new_folders(const struct taker *t) {
    for (size_t i = 0; i < journal_count(t->before); i++) {
        const struct journal_entry *b = journal_at(t->before, i), *a = journal_find(t->after, b->path);

        if (b->kind == JOURNAL_ABSENT && a && a->kind == JOURNAL_DIR && (a->mode & 0700) != 0700)
            set_folder_mode(t, b->path, (a->mode & 07777) | 0700);
    }
}

static void close_old_folders(const struct taker *t) {
    for (size_t i = journal_count(t->before); i-- > 0;) {
        const struct journal_entry *b = journal_at(t->before, i);

        if (b->kind == JOURNAL_DIR && !strv_has(t->left, b->path))
            set_folder_mode(t, b->path, b->mode & 07777);
    }
}

/* Backwards: what was made in a new folder goes before the folder, a removed folder comes before what was in it. */
int apply_take_back(int workspace, int dir, enum take_back how, struct strv *left, struct err *err) {
    CLEANUP(journal_closep) struct journal *before = NULL, *after = NULL;
    CLEANUP(closep) int after_dir = openat(dir, APPLY_AFTER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct taker t = {.workspace = workspace, .how = how, .left = left};
    int r;

    if (after_dir < 0 && errno == ENOENT)
        return 0; /* cut off before anything was done */
    if (after_dir < 0)
        return err_sys(err, -errno, "open the folder '" APPLY_AFTER "' of the last apply");
    r = journal_open(dir, false, NULL, &before, err);
    r = r < 0 ? r : journal_open(after_dir, false, NULL, &after, err);
    if (r < 0)
        return r == -ENOENT && how == TAKE_BACK_CRASH ? 0 : r;
    t.before = before;
    t.after = after;
    open_new_folders(&t);
    sweep_staged(workspace, before);
    for (size_t i = journal_count(before); i-- > 0 && r >= 0;)
        r = take_one(&t, journal_at(before, i), err);
    close_old_folders(&t);
    return r < 0 ? r : 0;
}

/* -- the folder undo/ --------------------------------------------------------------------------------------------------- */

static int rename_undo(struct rundir *rd, const char *from, const char *to, struct err *err) {
    if (renameat(rd->fd, from, rd->fd, to) == 0)
        return 1;
    return errno == ENOENT ? 0 : err_sys(err, -errno, "rename '%s/%s' to '%s'", rd->path, from, to);
}

/* Renamed first: half of a journal would restore half of the files. */
int apply_undo_drop(struct rundir *rd, const char *name, struct err *err) {
    int r;

    remove_tree(rd->fd, APPLY_UNDO_GONE); /* of a crash */
    r = rename_undo(rd, name, APPLY_UNDO_GONE, err);
    if (r > 0)
        r = remove_tree(rd->fd, APPLY_UNDO_GONE) < 0 ? err_set(err, -EIO, "cannot remove '%s/" APPLY_UNDO_GONE "'", rd->path) : 0;
    return r;
}

int apply_undo_publish(struct rundir *rd, struct err *err) {
    int r = rename_undo(rd, APPLY_UNDO, APPLY_UNDO_OLD, err);

    r = r < 0 ? r : rename_undo(rd, APPLY_UNDO_NEW, APPLY_UNDO, err);
    if (r < 0)
        return r;
    remove_tree(rd->fd, APPLY_UNDO_OLD); /* what stays is swept by apply_recover() */
    return 0;
}

/* Which of two an interrupted apply_undo_publish() left. */
static int settle_undo(struct rundir *rd, struct err *err) {
    remove_tree(rd->fd, APPLY_UNDO_GONE);
    if (faccessat(rd->fd, APPLY_UNDO_OLD, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (faccessat(rd->fd, APPLY_UNDO, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return rename_undo(rd, APPLY_UNDO_OLD, APPLY_UNDO, err);
    remove_tree(rd->fd, APPLY_UNDO_OLD);
    return 0;
}

int apply_recover(struct rundir *rd, int workspace, struct err *err) {
    CLEANUP(closep) int dir = openat(rd->fd, APPLY_UNDO_NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(strv_done) struct strv left = {0};
    int r;

    if (dir < 0 && errno != ENOENT)
        return err_sys(err, -errno, "open '%s/" APPLY_UNDO_NEW "'", rd->path);
    if (dir < 0) {
        r = settle_undo(rd, err);
        return r < 0 ? r : 0;
    }
    r = apply_take_back(workspace, dir, TAKE_BACK_CRASH, &left, err);
    if (r < 0)
        return err_ctx(err, r, "an earlier apply did not end and could not be taken back");
    for (size_t i = 0; i < left.len; i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(8 * JOURNAL_PATH_MAX);

        buf_add_printable(&b, left.v[i]);
        log_line("'%s' was changed after an apply that did not end; it is left as it is", buf_str(&b));
    }
    r = apply_undo_drop(rd, APPLY_UNDO_NEW, err);
    r = r < 0 ? r : settle_undo(rd, err);
    return r < 0 ? r : 1;
}

int apply_undo(struct rundir *rd, int workspace, bool force, struct strv *ret_left, struct err *err) {
    CLEANUP(closep) int dir = -1;
    CLEANUP(strv_done) struct strv left = {0};
    CLEANUP(journal_closep) struct journal *before = NULL;
    int r = apply_recover(rd, workspace, err);

    if (r < 0)
        return r;
    dir = openat(rd->fd, APPLY_UNDO, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT ? err_set(err, -ENOENT, "nothing of run '%s' can be taken back", rd->name)
                               : err_sys(err, -errno, "open '%s/" APPLY_UNDO "'", rd->path);
    r = apply_take_back(workspace, dir, force ? TAKE_BACK_FORCED : TAKE_BACK_ASKED, &left, err);
    r = r < 0 ? r : apply_return(rd, dir, err);
    r = r < 0 ? r : journal_open(dir, false, NULL, &before, err);
    r = r < 0 ? r : apply_know_restored(rd, workspace, before, &left, err);
    if (r < 0)
        return r;
    if (left.len == 0) /* else it stays, for a second try with force */
        r = apply_undo_drop(rd, APPLY_UNDO, err);
    if (r >= 0 && rd->info.mode == WORKSPACE_DIRECT && rd->info.ended_ns) { /* the files are the run's again, with new times */
        rd->info.ended_ns = clock_mark();
        r = rundir_save(rd, err);
        clock_pass(rd->info.ended_ns);
    }
    if (r < 0)
        return r;
    *ret_left = TAKE(left, (struct strv){0});
    return 0;
}
