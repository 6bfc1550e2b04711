/* SPDX-License-Identifier: Apache-2.0 */
/* What an apply does with one change. */
#include "workspace/apply/apply_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/same.h"
#include "workspace/copy/transfer.h"

enum { TEXT_LOOK = 8 * 1024 };

static void conflict(struct plan_item *it, const char *why) {
    apply_plan_say(it, APPLY_CONFLICT, why);
}

/* -- the versions ------------------------------------------------------------------------------------------------------- */

static int same_files(int a, int b) {
    int r = a < 0 ? a : b < 0 ? b : same_content(a, b, INT64_MAX);

    closep(&a);
    closep(&b);
    return r;
}

/* 1: what the host has at `path` is the old side, but for the mode. */
static int host_is_old(const struct apply_plan *p, const struct change *c, const char *path, mode_t host) {
    if ((host & S_IFMT) != (c->old_.mode & S_IFMT))
        return 0;
    if (c->old_unknown) /* all that is known is whether it was touched */
        return !c->host_changed;
    if (S_ISLNK(host))
        return place_links_to(p->workspace, path, c->old_.link);
    if (!S_ISREG(host))
        return S_ISDIR(host);
    return same_files(place_read(p->workspace, path), change_open_old(p->set, c));
}

static int host_is_new(const struct apply_plan *p, const struct change *c, mode_t host) {
    if ((host & S_IFMT) != (c->new_.mode & S_IFMT))
        return 0;
    if (S_ISLNK(host))
        return place_links_to(p->workspace, c->path, c->new_.link);
    return S_ISREG(host) ? same_files(place_read(p->workspace, c->path), change_open_new(p->set, c)) : S_ISDIR(host);
}

int apply_plan_open_new(const struct apply_plan *p, size_t item, struct err *err) {
    CLEANUP(closep) int fd = change_open_new(p->set, &p->set->v[item]);
    struct manifest_stamp now;
    int r = fd < 0 ? fd : manifest_stamp_fd(fd, &now);

    if (r < 0)
        return err_sys(err, r, "open the run's version of a file");
    if (p->v[item].new_.mode && !manifest_same(&now, &p->v[item].new_))
        return err_set(err, -ESTALE, "the run's version of a file changed while it was applied; look at it and try again");
    return TAKE_FD(fd);
}

/* No NUL in its first bytes, and not larger than what is merged. */
static bool is_text(int fd) {
    char block[TEXT_LOOK];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > APPLY_MERGE_MAX)
        return false;
    n = fd_pread_full(fd, block, sizeof block, 0);
    return n >= 0 && !memchr(block, 0, (size_t)n);
}

int apply_plan_merge(const struct apply_plan *p, size_t item, int *ret_fd, struct err *err) {
    const struct change *c = &p->set->v[item];
    CLEANUP(closep) int base = change_open_old(p->set, c), ours = place_read(p->workspace, c->path), theirs = -1;

    theirs = apply_plan_open_new(p, item, err);
    if (theirs < 0)
        return theirs;
    if (base < 0 || ours < 0 || !is_text(base) || !is_text(ours) || !is_text(theirs))
        return 1;
    return p->opts->merge(base, ours, theirs, ret_fd, p->opts->merge_arg, err);
}

/* A merge that fails is a conflict: the user decides, nothing is lost. */
static void try_merge(const struct apply_plan *p, size_t i, struct plan_item *it) {
    const struct change *c = &p->set->v[i];
    CLEANUP(closep) int result = -1;
    struct err err = {0};
    int r = 1;

    if (p->opts->merge && S_ISREG(it->host.mode) && S_ISREG(c->old_.mode) && S_ISREG(c->new_.mode) && !c->old_unknown)
        r = apply_plan_merge(p, i, &result, &err);
    it->merge = r == 0;
    it->outcome = APPLY_MERGED;
    if (r > 0)
        conflict(it, "both sides changed it");
    else if (r < 0) {
        char why[sizeof it->why];

        snprintf(why, sizeof why, "both sides changed it, and merging failed: %.100s", err.msg);
        conflict(it, why);
    }
}

/* -- one change --------------------------------------------------------------------------------------------------------- */

/* What is in the way of the path is going to be replaced by a folder. */
static bool way_is_cleared(const struct apply_plan *p, const char *path) {
    CLEANUP(freep) char *copy = strdup(path);

    for (char *slash = copy ? strrchr(copy, '/') : NULL; slash; slash = strrchr(copy, '/')) {
        const struct change *c;

        *slash = 0;
        c = change_find(p->set, copy);
        if (c && S_ISDIR(c->new_.mode) && !S_ISDIR(c->old_.mode))
            return apply_plan_goes(p, copy);
    }
    return false;
}

int apply_plan_look(const struct apply_plan *p, const char *path, struct manifest_stamp *ret) {
    int r = place_stamp(p->workspace, path, ret);

    return r == -ENOENT || ((r == -ELOOP || r == -ENOTDIR) && way_is_cleared(p, path)) ? 0 : r;
}

/* A link of the host's would lead the run's file elsewhere (ATTACKS 18): no --conflict overrides this. */
static void blocked(struct plan_item *it, int r) {
    conflict(it, r == -ELOOP || r == -ENOTDIR ? "something else is where a folder is expected" : strerror(-r));
}

mode_t apply_plan_mode(const struct change *c, mode_t host) {
    if (S_ISDIR(c->new_.mode))
        return (c->new_.mode & 01777) | (S_ISDIR(host) ? host & 02000 : 0); /* setgid of the host's folders is its own */
    return c->new_.mode & 0777;
}

/* The mode has three versions of its own. Returns false if both sides changed it. */
static bool settle_mode(const struct change *c, struct plan_item *it) {
    mode_t host = it->host.mode, wanted = apply_plan_mode(c, host);
    bool same_type = (host & S_IFMT) == (c->new_.mode & S_IFMT);

    if (!same_type || c->kind != CHANGE_MODIFIED || S_ISLNK(host)) {
        it->mode = wanted;
        return true;
    }
    it->mode = host & 07777;
    if (!(c->what & CHANGE_MODE) || it->mode == wanted)
        return true;
    if (it->mode != (c->old_.mode & 07777))
        return false;
    it->mode = wanted;
    return true;
}

static void put_over(const struct apply_plan *p, size_t i, struct plan_item *it) {
    const struct change *c = &p->set->v[i];
    const unsigned parts = CHANGE_CONTENT | CHANGE_LINK | CHANGE_TYPE | CHANGE_XATTR;
    int old, new_;

    if (it->host.mode == 0) {
        conflict(it, "the host has deleted it");
        return;
    }
    if (!settle_mode(c, it)) {
        conflict(it, "both sides changed its mode");
        return;
    }
    if (!(c->what & parts)) {
        if ((it->host.mode & S_IFMT) != (c->new_.mode & S_IFMT))
            conflict(it, "the host has made something else of it");
        else
            it->outcome = it->mode == (it->host.mode & 07777) && !(c->new_.mode & 06000) ? APPLY_SAME : APPLY_DONE;
        return;
    }
    old = host_is_old(p, c, c->path, it->host.mode);
    new_ = old == 1 ? 0 : host_is_new(p, c, it->host.mode);
    it->content = old == 1 || new_ != 1;
    it->outcome = it->content || it->mode != (it->host.mode & 07777) ? APPLY_DONE : APPLY_SAME;
    if (!it->content || old == 1)
        return;
    if (old < 0)
        conflict(it, "one of its versions cannot be read");
    else
        try_merge(p, i, it);
}

static void put_new(const struct apply_plan *p, size_t i, struct plan_item *it) {
    const struct change *c = &p->set->v[i];

    it->content = true;
    it->mode = apply_plan_mode(c, it->host.mode);
    it->outcome = APPLY_DONE;
    if (it->host.mode == 0)
        return;
    if (host_is_new(p, c, it->host.mode) != 1) {
        conflict(it, "the host has made one, too");
        return;
    }
    it->content = false;
    if (!S_ISREG(it->host.mode) || (it->host.mode & 07777) == it->mode)
        it->outcome = APPLY_SAME;
}

static void take_away(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    if (it->host.mode == 0)
        it->outcome = APPLY_SAME;
    else if (S_ISDIR(c->old_.mode) && S_ISDIR(it->host.mode))
        it->outcome = APPLY_DONE; /* if it is empty: apply_plan_folders() */
    else if (host_is_old(p, c, c->path, it->host.mode) != 1 || (it->host.mode & 07777) != (c->old_.mode & 07777))
        conflict(it, "the host changed what the run deleted");
    else
        it->outcome = APPLY_DONE;
}

/* A rename takes one path away and puts another: both, or neither. */
static void leave_from(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    int r;

    if (it->outcome != APPLY_DONE && it->outcome != APPLY_SAME)
        return;
    r = apply_plan_look(p, c->from, &it->from);
    if (r < 0)
        blocked(it, r);
    else if (it->from.mode && host_is_old(p, c, c->from, it->from.mode) != 1)
        conflict(it, "the host changed what the run renamed");
    else if (it->from.mode && it->outcome == APPLY_SAME)
        it->outcome = APPLY_DONE;
}

static int stamp_new(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    CLEANUP(closep) int fd = S_ISREG(c->new_.mode) ? change_open_new(p->set, c) : -1;

    return !S_ISREG(c->new_.mode) ? 0 : fd < 0 ? fd : manifest_stamp_fd(fd, &it->new_);
}

bool apply_link_leads_out(const char *path, const char *target) {
    unsigned depth = 0;

    for (const char *p = path; *p; p++)
        depth += *p == '/';
    return !transfer_link_stays(target, depth);
}

/* What is refused or left whatever the host has. */
static bool is_out(const struct apply_plan *p, const struct change *c, struct plan_item *it) {
    mode_t type = c->new_.mode & S_IFMT;

    if (!apply_path_ok(c->path) || (c->from && !apply_path_ok(c->from)))
        apply_plan_say(it, APPLY_REFUSED, "not a path below the workspace");
    else if (c->hidden)
        apply_plan_say(it, APPLY_LEFT, "a hidden name");
    else if (!apply_filter_wants_change(&p->filter, c))
        apply_plan_say(it, APPLY_LEFT, "not asked for");
    else if (p->opts->leave && p->opts->leave[c - p->set->v])
        apply_plan_say(it, APPLY_LEFT, "for its risk");
    else if (type && type != S_IFREG && type != S_IFDIR && type != S_IFLNK)
        apply_plan_say(it, APPLY_REFUSED, "a device, FIFO or socket");
    else if (type == S_IFLNK && (!c->new_.link || (!p->opts->allow_links_out && apply_link_leads_out(c->path, c->new_.link))))
        apply_plan_say(it, APPLY_REFUSED, "a link that may lead out of the workspace");
    else
        return false;
    return true;
}

void apply_plan_judge(const struct apply_plan *p, size_t i, struct plan_item *it) {
    const struct change *c = &p->set->v[i];
    int r;

    if (is_out(p, c, it))
        return;
    r = apply_plan_look(p, c->path, &it->host);
    if (r < 0 && c->kind == CHANGE_DELETED && (r == -ELOOP || r == -ENOTDIR)) {
        it->outcome = APPLY_SAME;
        return;
    }
    if (r < 0) {
        blocked(it, r);
        return;
    }
    if (stamp_new(p, c, it) < 0)
        apply_plan_say(it, APPLY_REFUSED, "the run's version cannot be read");
    else if (c->kind == CHANGE_DELETED)
        take_away(p, c, it);
    else if (c->kind == CHANGE_MODIFIED)
        put_over(p, i, it);
    else
        put_new(p, i, it);
    if (c->kind == CHANGE_RENAMED)
        leave_from(p, c, it);
}
