/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "workspace/copy/same.h"
#include "workspace/copy/walk.h"
#include "workspace/mode/sync_inner.h"

/* -- what differs --------------------------------------------------------------------------------------------------------- */

int sync_open_seen(int root, const char *path, const struct manifest_stamp *seen) {
    CLEANUP(closep) int fd = place_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct manifest_stamp now;
    struct stat st;

    if (fd < 0)
        return fd == -EACCES || fd == -EPERM ? fd : -ESTALE;
    if (fstat(fd, &st) < 0)
        return -errno;
    now = manifest_stamp_of(&st);
    return manifest_same(&now, seen) ? TAKE_FD(fd) : -ESTALE;
}

static int files_differ(const struct syncer *s, const struct manifest_entry *e, unsigned *what, bool *settled) {
    CLEANUP(closep) int host = sync_open_seen(s->root[SYNC_HOST], e->path, &e->host);
    CLEANUP(closep) int copy = host < 0 ? -1 : sync_open_seen(s->root[SYNC_COPY], e->path, &e->copy);
    int r = host < 0 ? host : copy;

    if (r < 0)
        return r;
    *settled = !place_is_written(host) && !place_is_written(copy);
    r = e->host.size == e->copy.size ? same_content(host, copy, INT64_MAX) : 0;
    if (r == 0)
        *what |= CHANGE_CONTENT;
    if (r >= 0)
        r = same_xattrs(host, copy);
    if (r == 0)
        *what |= CHANGE_XATTR;
    return MIN_OF(r, 0);
}

static int links_differ(const struct syncer *s, const struct manifest_entry *e, unsigned *what) {
    CLEANUP(freep) char *host = place_link_target(s->root[SYNC_HOST], e->path);
    CLEANUP(freep) char *copy = place_link_target(s->root[SYNC_COPY], e->path);

    if (!host || !copy)
        return -ESTALE;
    if (!str_eq(host, copy))
        *what |= CHANGE_LINK;
    return 0;
}

static int sides_differ(const struct syncer *s, const struct manifest_entry *e, unsigned *ret, bool *ret_settled) {
    unsigned what = 0;
    bool settled = true;
    int r = 0;

    if ((e->host.mode & S_IFMT) != (e->copy.mode & S_IFMT))
        what = CHANGE_TYPE;
    else if (S_ISLNK(e->host.mode))
        r = links_differ(s, e, &what);
    else {
        if ((e->host.mode ^ e->copy.mode) & 0777)
            what = CHANGE_MODE;
        if (S_ISREG(e->host.mode))
            r = files_differ(s, e, &what, &settled);
    }
    if (r == 0) {
        *ret = what;
        *ret_settled = settled;
    }
    return r;
}

static const struct manifest_stamp absent;

static int found_on_host(const struct walk_entry *e, void *arg, struct err *err) {
    struct manifest_stamp st = manifest_stamp_of(&e->st);
    struct syncer *s = arg;

    if (place_is_temp(e->name))
        return place_note(&s->left, e->path, "was left behind when something was interrupted; look at it and remove it", err) < 0
                   ? -ENOMEM
                   : WALK_SKIP;
    return manifest_set(s->now, e->path, &st, &absent, err);
}

/* Whatever is in there, nothing can be said about it: least of all that it was deleted. */
static int closed_on_host(const struct walk_entry *e, void *arg, struct err *err) {
    struct syncer *s = arg;
    int r = place_note(&s->left, e->path, "cannot be read; what is in it stays as it is on both sides", err);

    if (r == 0)
        r = manifest_set(s->blocked, e->path, &absent, &absent, err);
    return r < 0 ? r : WALK_SKIP;
}

static int found_in_copy(const struct walk_entry *e, void *arg, struct err *err) {
    struct manifest_stamp st = manifest_stamp_of(&e->st);
    struct syncer *s = arg;
    const struct manifest_entry *known = manifest_find(s->now, e->path);

    if (place_is_temp(e->name))
        return WALK_SKIP;
    return manifest_set(s->now, e->path, known ? &known->host : &absent, &st, err);
}

static int look_at_both(struct syncer *s, struct err *err) {
    const struct walk_ops host = {.found = found_on_host, .closed = closed_on_host, .arg = s};
    const struct walk_ops copy = {.found = found_in_copy, .arg = s, .pry = true};
    int r = walk_tree(s->root[SYNC_HOST], s->hidden, &host, err);

    if (r == 0)
        r = walk_tree(s->root[SYNC_COPY], s->hidden, &copy, err);
    for (size_t i = 0; r == 0 && i < manifest_count(s->base); i++) {
        const char *path = manifest_at(s->base, i)->path;

        if (!manifest_find(s->now, path))
            r = manifest_set(s->now, path, &absent, &absent, err);
    }
    manifest_sort(s->now);
    return r;
}

int sync_is_below(const struct manifest *set, const char *path) {
    CLEANUP(freep) char *part = NULL;

    if (manifest_count(set) == 0)
        return 0;
    part = strdup(path);
    if (!part)
        return -ENOMEM;
    for (;;) {
        char *slash = strrchr(part, '/');

        if (manifest_find(set, part))
            return 1;
        if (!slash)
            return 0;
        *slash = 0;
    }
}

static bool is_special(const struct manifest_stamp *st) {
    return st->mode && !S_ISREG(st->mode) && !S_ISLNK(st->mode) && !S_ISDIR(st->mode);
}

static int block(struct syncer *s, const char *path, const char *why, struct err *err) {
    int r = place_note(&s->left, path, why, err);

    return r < 0 ? r : manifest_set(s->blocked, path, &absent, &absent, err);
}

static void fill_change(const struct syncer *s, const struct manifest_entry *e, bool host_changed, unsigned what,
                        struct change *c) {
    const struct manifest_stamp *h = &e->host, *n = &e->copy;

    *c = (struct change){.kind = !h->mode   ? CHANGE_ADDED
                                 : !n->mode ? CHANGE_DELETED
                                            : CHANGE_MODIFIED,
                         .what = what,
                         .path = (char *)e->path,
                         .old_ = {.mode = (mode_t)h->mode, .size = h->size},
                         .new_ = {.mode = (mode_t)n->mode, .size = n->size},
                         .host_changed = host_changed};
    if (S_ISLNK(h->mode))
        c->old_.link = place_link_target(s->root[SYNC_HOST], e->path);
    if (S_ISLNK(n->mode))
        c->new_.link = place_link_target(s->root[SYNC_COPY], e->path);
}

static bool is_held(const struct syncer *s, const struct manifest_entry *e, bool host_changed, unsigned what) {
    struct change c;
    bool held;

    if (!s->hooks.hold)
        return false;
    fill_change(s, e, host_changed, what, &c);
    held = s->hooks.hold(&c, s->hooks.arg);
    free(c.old_.link);
    free(c.new_.link);
    return held;
}

static int hold_back(struct syncer *s, const char *path, struct err *err) {
    return strv_add(&s->held, path) < 0 ? err_oom(err) : SYNC_NOTHING;
}

/* The copy differs: it goes out, or waits. */
static int decide_out(struct syncer *s, const struct manifest_entry *e, bool host_changed, unsigned what, struct err *err) {
    const struct manifest_stamp *h = &e->host, *c = &e->copy;

    if (s->in_only)
        return SYNC_NOTHING;
    if (is_held(s, e, host_changed, what))
        return hold_back(s, e->path, err);
    if (!host_changed || !h->mode)
        return SYNC_OUT;
    if (S_ISDIR(h->mode) && S_ISDIR(c->mode)) /* only their modes differ */
        return SYNC_IN;
    if (S_ISDIR(h->mode) || S_ISDIR(c->mode))
        return block(s, e->path, "is a folder on one side and none on the other; both stay as they are", err);
    return SYNC_BESIDE;
}

/* Deleting never wins over a change. */
static int decide(struct syncer *s, const struct manifest_entry *e, struct err *err) {
    const struct manifest_entry *b = manifest_find(s->base, e->path);
    const struct manifest_stamp *h = &e->host, *c = &e->copy;
    bool host_changed = !manifest_same(b ? &b->host : &absent, h), copy_changed = !manifest_same(b ? &b->copy : &absent, c);
    bool settled = true;
    unsigned what = 0;
    int r;

    if (!host_changed && !copy_changed && (h->mode || c->mode))
        return SYNC_NOTHING;
    r = sync_is_below(s->blocked, e->path);
    if (r != 0)
        return r < 0 ? err_oom(err) : SYNC_NOTHING;
    if (!h->mode && !c->mode)
        return SYNC_FORGET;
    if (is_special(h) || is_special(c))
        return h->mode && c->mode ? block(s, e->path, "is a device, FIFO or socket on one side; both stay as they are", err)
                                  : SYNC_NOTHING;
    if (h->mode && c->mode) {
        r = sides_differ(s, e, &what, &settled);
        if (r == -ESTALE)
            return strv_add(&s->stale, e->path) < 0 ? err_oom(err) : SYNC_NOTHING;
        if (r < 0)
            return block(s, e->path, "cannot be compared; both stay as they are", err);
        if (!what)
            return settled ? SYNC_SAME : SYNC_SAME_YET;
    }
    if (copy_changed && (c->mode || !host_changed))
        return decide_out(s, e, host_changed, what, err);
    return SYNC_IN;
}

int sync_plan(struct syncer *s, struct err *err) {
    int r;

    clock_pass(clock_coarse()); /* so that only what changes from now on is too new to be trusted */
    s->before = clock_coarse();
    s->now = manifest_new();
    s->blocked = manifest_new();
    if (!s->now || !s->blocked)
        return err_oom(err);
    r = look_at_both(s, err);
    if (r < 0)
        return r;
    s->actions = calloc(manifest_count(s->now) + 1, 1);
    if (!s->actions)
        return err_oom(err);
    for (size_t i = 0; i < manifest_count(s->now); i++) {
        r = decide(s, manifest_at(s->now, i), err);
        if (r < 0)
            return r;
        s->actions[i] = (uint8_t)r;
    }
    return 0;
}
