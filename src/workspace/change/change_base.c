/* SPDX-License-Identifier: Apache-2.0 */
/* Stores what changes are based on, and renews it for a run that goes on. */
#include "workspace/change/change_base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/change/change.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/run/journal.h"
#include "workspace/run/rundir.h"

/* -- at the end of a run -------------------------------------------------------------------------------------------------- */

/* Merging is for text that people write; what is larger or more than this comes from programs. */
static const struct journal_opts base_opts = {.budget = 256 * 1024 * 1024, .file_max = 8 * 1024 * 1024};

static bool is_wanted(const struct change *c) {
    return c->kind != CHANGE_ADDED && !c->host_changed && !c->hidden && !c->old_unknown &&
           (!S_ISREG(c->old_.mode) || c->old_.size <= base_opts.file_max);
}

/* Whether the host changed it between the making of the set and now: then it is no base. */
static bool is_still_base(const struct change_set *s, const struct change *c, const struct journal_entry *e, int content) {
    struct manifest_stamp now;

    if (e->kind == JOURNAL_LINK)
        return c->old_.link && e->link && str_eq(e->link, c->old_.link);
    if (e->kind == JOURNAL_DIR)
        return S_ISDIR(c->old_.mode);
    if (e->kind != JOURNAL_FILE || !S_ISREG(c->old_.mode) || content < 0 || manifest_stamp_fd(content, &now) < 0)
        return false;
    return now.size == c->old_.size && now.ctime_ns < s->made_ns;
}

static int store_base(struct journal *j, const struct change_set *s, const struct change *c, int workspace, struct err *err) {
    const char *path = c->from ? c->from : c->path;
    CLEANUP(closep) int content = -1;
    struct journal_entry e = {0};
    int r;

    if (journal_find(j, path))
        return 0;
    r = journal_look(j, workspace, path, &e, &content, err);
    if (r < 0)
        return r == -ENOENT || r == -EACCES || r == -ELOOP || r == -ENOTDIR || r == -ESTALE ? 0 : r;
    if (!is_still_base(s, c, &e, content))
        return 0;
    r = journal_add(j, &e, content, false, -1, err);
    return r < 0 ? r : 0;
}

int change_keep_base(const struct rundir *rd, const struct change_set *s, int workspace, struct err *err) {
    CLEANUP(journal_closep) struct journal *j = NULL;
    int r = 0;

    if (rd->info.mode == WORKSPACE_DIRECT || rd->info.mode == WORKSPACE_RO)
        return 0;
    for (size_t i = 0; i < s->n && r == 0; i++) {
        if (!is_wanted(&s->v[i]))
            continue;
        if (!j)
            r = journal_open(rd->fd, true, &base_opts, &j, err);
        if (r == 0)
            r = store_base(j, s, &s->v[i], workspace, err);
    }
    return r;
}

/* -- what left the run ---------------------------------------------------------------------------------------------------- */

#define JOURNAL "journal"
#define CONTENT "base"
#define RENEWED "journal.new" /* a folder with both */
#define RETURNS "run"         /* in undo/: the same */

/* The first record of a path counts, so that this can be done again after a crash. */
static int copy_record(const struct journal *from, const struct journal_entry *e, struct journal *to, struct err *err) {
    CLEANUP(closep) int fd = e->kind == JOURNAL_FILE && !e->named ? journal_blob(from, e) : -1;
    CLEANUP(freep) char *content = fd < 0 ? NULL : malloc(e->size + 1);
    ssize_t n = content ? fd_pread_full(fd, content, e->size, 0) : 0;
    int r;

    if (fd >= 0 && !content)
        return err_oom(err);
    if (content && n != (ssize_t)e->size)
        return err_sys(err, n < 0 ? (int)n : -EBADMSG, "read the journal of the run");
    r = journal_add_bytes(to, e, content, err);
    return MIN_OF(r, 0);
}

static int open_folder(int at, const char *name, struct err *err) {
    int fd;

    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder '%s'", name);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, -errno, "open the folder '%s'", name) : fd;
}

int change_base_left(const struct rundir *rd, const char *const *paths, size_t n, int undo, struct err *err) {
    CLEANUP(journal_closep) struct journal *j = NULL, *back = NULL;
    CLEANUP(closep) int at = undo < 0 ? -1 : open_folder(undo, RETURNS, err);
    int r = undo >= 0 && at < 0 ? at : journal_open(rd->fd, true, &base_opts, &j, err);

    if (r == 0 && undo >= 0)
        r = journal_open(at, true, &base_opts, &back, err);
    for (size_t i = 0; r >= 0 && i < n; i++) {
        r = journal_add(j, &(struct journal_entry){.kind = JOURNAL_ABSENT, .path = paths[i]}, -1, false, -1, err);
        if (r >= 0 && back)
            r = copy_record(j, journal_find(j, paths[i]), back, err);
    }
    return MIN_OF(r, 0);
}

bool change_is_covered(int upper, const char *path) {
    CLEANUP(freep) char *copy = strdup(path);
    struct stat st;
    char opaque;

    for (char *p = copy ? strchr(copy, '/') : NULL; p; p = strchr(p + 1, '/')) {
        CLEANUP(closep) int fd = -1;

        *p = 0;
        if (place_stat(upper, copy, &st) < 0)
            return false;
        if (!S_ISDIR(st.st_mode))
            return true;
        fd = safepath_open(upper, copy, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || (fgetxattr(fd, "user.overlay.opaque", &opaque, 1) == 1 && opaque == 'y'))
            return true;
        *p = '/';
    }
    return !copy;
}

static bool has_left(int upper, const char *path) {
    struct stat st;

    return place_stat(upper, path, &st) == -ENOENT && !change_is_covered(upper, path);
}

static bool has_any_left(const struct journal *j, int upper) {
    for (size_t i = 0; i < journal_count(j); i++)
        if (has_left(upper, journal_at(j, i)->path))
            return true;
    return false;
}

/* What cannot be read gets no record, and is judged by its times alone. */
static int renew_record(struct journal *to, int workspace, const char *path, struct err *err) {
    CLEANUP(closep) int content = -1;
    struct journal_entry e = {0};
    struct err why = {0};
    int r = journal_look(to, workspace, path, &e, &content, &why);

    if (r < 0)
        return r == -ENOMEM ? err_oom(err) : 0;
    e.path = path;
    r = journal_add(to, &e, content, false, -1, err);
    return MIN_OF(r, 0);
}

/* The content goes first: a record without it is no base, so that a crash in here makes conflicts at most. */
static int put_renewed(const struct rundir *rd, struct err *err) {
    int r = remove_tree(rd->fd, CONTENT);

    if (r < 0 && r != -ENOENT)
        return err_sys(err, r, "remove '%s/" CONTENT "'", rd->path);
    if (renameat(rd->fd, RENEWED "/" JOURNAL, rd->fd, JOURNAL) < 0 ||
        (renameat(rd->fd, RENEWED "/" CONTENT, rd->fd, CONTENT) < 0 && errno != ENOENT))
        return err_sys(err, -errno, "replace '%s/" JOURNAL "'", rd->path);
    remove_tree(rd->fd, RENEWED);
    return 0;
}

/* A new journal that put_renewed() takes. */
static int begin_renewed(const struct rundir *rd, struct journal **ret, struct err *err) {
    CLEANUP(closep) int at = -1;

    remove_tree(rd->fd, RENEWED); /* of a crash */
    at = open_folder(rd->fd, RENEWED, err);
    return at < 0 ? at : journal_open(at, true, &base_opts, ret, err);
}

/* -ENOENT without a message: there is none. */
static int open_journal(int dir, struct journal **ret, struct err *err) {
    struct err why = {0};
    int r = journal_open(dir, false, NULL, ret, &why);

    return r < 0 && r != -ENOENT ? err_set(err, r, "%.900s", why.msg) : r;
}

int change_base_renew(const struct rundir *rd, int workspace, struct err *err) {
    CLEANUP(closep) int upper = safepath_open(rd->fd, "upper", O_RDONLY | O_DIRECTORY);
    CLEANUP(journal_closep) struct journal *old = NULL, *to = NULL;
    int r = upper < 0 ? -ENOENT : open_journal(rd->fd, &old, err);

    if (r == -ENOENT || (r == 0 && !has_any_left(old, upper)))
        return 0;
    r = r < 0 ? r : begin_renewed(rd, &to, err);
    for (size_t i = 0; r == 0 && i < journal_count(old); i++) {
        const struct journal_entry *e = journal_at(old, i);

        r = has_left(upper, e->path) ? renew_record(to, workspace, e->path, err) : copy_record(old, e, to, err);
    }
    return r < 0 ? r : put_renewed(rd, err);
}

int change_base_return(const struct rundir *rd, int undo, struct err *err) {
    CLEANUP(closep) int upper = safepath_open(rd->fd, "upper", O_RDONLY | O_DIRECTORY);
    CLEANUP(closep) int at = safepath_open(undo, RETURNS, O_RDONLY | O_DIRECTORY);
    CLEANUP(journal_closep) struct journal *back = NULL, *now = NULL, *to = NULL;
    int r = upper < 0 || at < 0 ? -ENOENT : open_journal(at, &back, err);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    r = open_journal(rd->fd, &now, err);
    r = r < 0 && r != -ENOENT ? r : begin_renewed(rd, &to, err);
    for (size_t i = 0; r == 0 && i < journal_count(back); i++)
        if (has_left(upper, journal_at(back, i)->path))
            r = copy_record(back, journal_at(back, i), to, err);
    for (size_t i = 0; r == 0 && now && i < journal_count(now); i++)
        r = copy_record(now, journal_at(now, i), to, err);
    return r < 0 ? r : put_renewed(rd, err);
}
