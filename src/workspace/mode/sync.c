/* SPDX-License-Identifier: Apache-2.0 */
/* Sync mode: the first copy, and the rounds of carrying changes. */
#include "workspace/mode/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "workspace/copy/copytree.h"
#include "workspace/copy/same.h"
#include "workspace/copy/walk.h"
#include "workspace/mode/sync_inner.h"

/* -- what differs --------------------------------------------------------------------------------------------------------- */

int sync_open_seen(int root, const char *path, const struct manifest_stamp *seen) {
    CLEANUP(closep) int fd = place_read(root, path);
    struct manifest_stamp now;
    int r = fd < 0 ? fd : manifest_stamp_fd(fd, &now);

    if (fd < 0)
        return r == -EACCES || r == -EPERM ? r : -ESTALE;
    return r < 0 ? r : manifest_same(&now, seen) ? TAKE_FD(fd) : -ESTALE;
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

/* -- the plan ------------------------------------------------------------------------------------------------------------- */

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

static int block(struct syncer *s, const char *path, const char *why, struct err *err) {
    int r = place_note(&s->left, path, why, err);

    return r < 0 ? r : manifest_set(s->blocked, path, &absent, &absent, err);
}

/* Nothing is known about what is in it: least of all that it was deleted. */
static int closed_on_host(const struct walk_entry *e, void *arg, struct err *err) {
    int r = block(arg, e->path, "cannot be read; what is in it stays as it is on both sides", err);

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

static bool is_held(const struct syncer *s, const struct manifest_entry *e, bool host_changed, unsigned what) {
    const struct manifest_stamp *h = &e->host, *n = &e->copy;
    struct change c = {.kind = !h->mode   ? CHANGE_ADDED
                               : !n->mode ? CHANGE_DELETED
                                          : CHANGE_MODIFIED,
                       .what = what,
                       .path = (char *)e->path,
                       .old_ = {.mode = (mode_t)h->mode, .size = h->size},
                       .new_ = {.mode = (mode_t)n->mode, .size = n->size},
                       .host_changed = host_changed};
    bool held;

    if (!s->hooks.hold)
        return false;
    c.old_.link = S_ISLNK(h->mode) ? place_link_target(s->root[SYNC_HOST], e->path) : NULL;
    c.new_.link = S_ISLNK(n->mode) ? place_link_target(s->root[SYNC_COPY], e->path) : NULL;
    held = s->hooks.hold(&c, s->hooks.arg);
    free(c.old_.link);
    free(c.new_.link);
    return held;
}

/* The copy differs: it goes out, or waits. */
static int decide_out(struct syncer *s, const struct manifest_entry *e, bool host_changed, unsigned what, struct err *err) {
    const struct manifest_stamp *h = &e->host, *c = &e->copy;

    if (s->in_only)
        return SYNC_NOTHING;
    if (is_held(s, e, host_changed, what))
        return strv_add(&s->held, e->path) < 0 ? err_oom(err) : SYNC_NOTHING;
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

static int make_plan(struct syncer *s, struct err *err) {
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

/* -- rounds ---------------------------------------------------------------------------------------------------------------- */

#define MANIFEST "manifest"
#define TREE "tree"

enum { ROUNDS = 3 }; /* what changes while it is carried is tried again; what was put beside the host's goes to the copy, too */

void sync_result_done(struct sync_result *r) {
    strv_done(&r->conflicts);
    strv_done(&r->held);
}

static void round_done(struct syncer *s) {
    manifest_free(TAKE_PTR(s->now));
    manifest_free(TAKE_PTR(s->blocked));
    free(TAKE_PTR(s->actions));
    strv_done(&s->held);
    strv_done(&s->left);
    strv_done(&s->stale);
    s->beside = false;
}

static void syncer_done(struct syncer *s) {
    round_done(s);
    manifest_free(s->base);
    strv_done(&s->conflicts);
}

/* The manifest is written also if the round failed: it says no more than what was done. */
static int sync_round(struct syncer *s, int dir, struct err *err) {
    int r, saved;

    round_done(s);
    r = make_plan(s, err);
    if (r < 0)
        return r;
    r = sync_do(s, err);
    clock_pass(clock_coarse());
    saved = manifest_save(s->base, dir, MANIFEST, r < 0 ? NULL : err);
    return r < 0 ? r : saved;
}

static int sync_rounds(struct syncer *s, int dir, struct err *err) {
    int r = 0;

    for (int i = 0; i < ROUNDS; i++) {
        r = sync_round(s, dir, err);
        if (r < 0 || (s->stale.len == 0 && !s->beside))
            return r;
    }
    for (size_t i = 0; r == 0 && i < s->stale.len; i++)
        r = place_note(&s->left, s->stale.v[i], "is being written; both sides stay as they are until the next sync", err);
    return r;
}

static int open_tree(const struct rundir *rd, struct err *err) {
    int fd = openat(rd->fd, TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? err_sys(err, -errno, "open the sandbox's copy of the workspace") : fd;
}

/* *ret_fresh: nothing is in it. */
static int make_tree(const struct rundir *rd, bool *ret_fresh, struct err *err) {
    bool fresh = mkdirat(rd->fd, TREE, 0700) == 0;
    CLEANUP(closep) int fd = -1;

    fresh = fresh || unlinkat(rd->fd, TREE, AT_REMOVEDIR) == 0; /* only an empty one goes */
    if (fresh && mkdirat(rd->fd, TREE, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder for the sandbox's copy of the workspace");
    if (!fresh && errno != EEXIST && errno != ENOTEMPTY)
        return err_sys(err, -errno, "make the folder for the sandbox's copy of the workspace");
    fd = open_tree(rd, err);
    if (fd >= 0)
        *ret_fresh = fresh;
    return TAKE_FD(fd);
}

static int finish_tree(int tree, int workspace, struct err *err) {
    struct stat st;

    if (fstat(workspace, &st) < 0 || (geteuid() == 0 && fchown(tree, st.st_uid, st.st_gid) < 0) ||
        fchmod(tree, st.st_mode & 0777) < 0)
        return err_sys(err, -errno, "set the mode of the sandbox's copy of the workspace");
    return 0;
}

static int first_copy(struct rundir *rd, int workspace, const struct ignore *hidden, const struct progress *p, struct strv *notes,
                      struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    bool fresh = false;
    CLEANUP(closep) int tree = make_tree(rd, &fresh, err);
    const struct copytree c = {.from = workspace, .to = tree, .hidden = hidden, .progress = p, .notes = notes, .fresh = fresh};
    int r;

    if (tree < 0)
        return tree;
    if (!m)
        return err_oom(err);
    r = copytree_make(&c, m, err);
    if (r == 0 && !fresh)
        r = copytree_trim(tree, m, err);
    if (r == 0)
        r = finish_tree(tree, workspace, err);
    return r < 0 ? r : manifest_save(m, rd->fd, MANIFEST, err);
}

int sync_copy_in(struct rundir *rd, int workspace, const struct ignore *hidden, const struct progress *p, struct strv *notes,
                 struct err *err) {
    CLEANUP(syncer_done)
    struct syncer s = {.root = {[SYNC_HOST] = workspace}, .run = rd->name, .hidden = hidden, .in_only = true};
    CLEANUP(closep) int tree = -1;
    struct err why = {0};
    int r = manifest_load(rd->fd, MANIFEST, &s.base, &why);

    if (r == -ENOENT)
        return first_copy(rd, workspace, hidden, p, notes, err);
    if (r < 0)
        return err_set(err, r, "%.900s", why.msg);
    tree = open_tree(rd, err);
    if (tree < 0)
        return tree;
    s.root[SYNC_COPY] = tree;
    r = sync_rounds(&s, rd->fd, err);
    return r < 0 || !notes ? r : strv_add_all(notes, &s.left) < 0 ? err_oom(err) : 0;
}

int sync_both(struct rundir *rd, int workspace, const struct ignore *hidden, const struct sync_hooks *hooks,
              struct sync_result *ret, struct err *err) {
    CLEANUP(syncer_done)
    struct syncer s = {.root = {[SYNC_HOST] = workspace}, .run = rd->name, .hidden = hidden, .hooks = *hooks};
    CLEANUP(closep) int tree = open_tree(rd, err);
    int r = tree < 0 ? tree : manifest_load(rd->fd, MANIFEST, &s.base, err);

    if (r < 0)
        return r;
    s.root[SYNC_COPY] = tree;
    r = sync_rounds(&s, rd->fd, err);
    if (r < 0)
        return r;
    if (strv_add_all(&s.conflicts, &s.left) < 0)
        return err_oom(err);
    *ret = (struct sync_result){.out = s.out, .in = s.in, .left = s.left.len, .conflicts = s.conflicts, .held = s.held};
    s.conflicts = s.held = (struct strv){0};
    return 0;
}
