/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: in the order of paths a folder comes before what is in it. New things are made first, from the top; then
 * deletions, from the bottom, so that folders are empty when their turn comes and something that was renamed exists twice
 * for a moment rather than not at all; then what had to wait for a deletion (a file where a folder was); at last the modes of
 * folders that cannot be written in.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/same.h"
#include "workspace/copy/xattrs.h"
#include "workspace/mode/sync_inner.h"

/* -- one path ------------------------------------------------------------------------------------------------------------- */

/* One path: how it gets to the other side. Every write is guarded by what the plan saw (place.h). */

enum { BESIDE_MAX = 1000, SUFFIX_MAX = RUNDIR_NAME_MAX + 32 };

/* A thing on its way. */
struct load {
    char *temp;   /* where it is staged */
    bool settled; /* no process had it open for writing: the stamp that was seen is of just these bytes */
};

static void load_done(struct load *l) {
    free(l->temp);
}

static int stage_file(int from, int to, const char *path, const struct manifest_stamp *seen, struct load *ret, struct err *err) {
    CLEANUP(closep) int fd = sync_open_seen(from, path, seen);
    bool settled = fd >= 0 && !place_is_written(fd);
    CLEANUP(buf_done) struct buf xattrs = BUF_INIT(XATTRS_MAX);
    struct place_meta meta = {.mode = (mode_t)seen->mode, .mtime_ns = seen->mtime_ns};
    CLEANUP(freep) char *temp = NULL;
    struct manifest_stamp now;
    int r = fd < 0 ? fd : xattrs_read(fd, &xattrs);

    if (r < 0)
        return place_err(err, r, "read", path);
    meta.xattrs = xattrs.len ? xattrs.data : NULL;
    meta.xattrs_len = xattrs.len;
    r = place_stage_file(to, path, fd, &meta, &temp, err);
    if (r < 0)
        return r;
    r = manifest_stamp_fd(fd, &now);
    if (r == 0 && !manifest_same(&now, seen)) /* written while it was read: what was read may be half of it */
        r = -ESTALE;
    if (r < 0) {
        place_discard(to, temp);
        return place_err(err, r, "read", path);
    }
    *ret = (struct load){.temp = TAKE_PTR(temp), .settled = settled};
    return 0;
}

static int stage_thing(int from, int to, const char *path, const struct manifest_stamp *seen, struct load *ret, struct err *err) {
    CLEANUP(freep) char *target = NULL;
    int r;

    if (S_ISREG(seen->mode))
        return stage_file(from, to, path, seen, ret, err);
    target = place_link_target(from, path);
    if (!target)
        return place_err(err, -ESTALE, "read", path);
    r = place_stage_link(to, path, target, &ret->temp, err);
    ret->settled = r == 0;
    return r;
}

/*
 * The stamp for the manifest of what was just put in place. A rename sets the ctime, so it can only be read afterwards, when
 * another process may have written to the file already. That shows in the mtime, which is not "now" but the source's; unless
 * the source is that new itself.
 */
static struct manifest_stamp stamp_placed(struct syncer *s, enum sync_side side, const char *path,
                                          const struct manifest_stamp *was) {
    struct manifest_stamp now;

    if (place_stamp(s->root[side], path, &now) < 0)
        now.mode = was->mode; /* removed already: a ctime of 0 lets the next sync see that */
    if (now.ino != was->ino || now.mtime_ns != was->mtime_ns || now.size != was->size || now.mode != was->mode ||
        (side == SYNC_HOST && S_ISREG(now.mode) && now.mtime_ns >= s->before))
        now.ctime_ns = 0;
    return now;
}

/* The host's stamps are taken while its owner may be writing. */
static int note_carried(struct syncer *s, enum sync_side from, const struct manifest_entry *e, bool settled,
                        struct manifest_stamp placed, struct err *err) {
    struct manifest_stamp source = *sync_stamp(e, from);

    if (!settled || (from == SYNC_HOST && source.ctime_ns >= s->before))
        source.ctime_ns = 0;
    return from == SYNC_HOST ? manifest_set(s->base, e->path, &source, &placed, err)
                             : manifest_set(s->base, e->path, &placed, &source, err);
}

static int carry_content(struct syncer *s, enum sync_side from, const struct manifest_entry *e, struct err *err) {
    enum sync_side to = from == SYNC_HOST ? SYNC_COPY : SYNC_HOST;
    const struct manifest_stamp nothing = {0}, *there = sync_stamp(e, to);
    CLEANUP(load_done) struct load l = {0};
    struct manifest_stamp staged;
    int r = stage_thing(s->root[from], s->root[to], e->path, sync_stamp(e, from), &l, err);

    if (r < 0)
        return r;
    r = place_stamp(s->root[to], l.temp, &staged);
    if (r < 0)
        return place_err(err, r, "write", e->path);
    if (S_ISDIR(there->mode)) {
        r = place_remove(s->root[to], e->path, there, err);
        there = &nothing;
    }
    if (r < 0) {
        place_discard(s->root[to], l.temp);
        return r == -ENOENT ? place_err(err, -ESTALE, "write", e->path) : r;
    }
    r = place_commit(s->root[to], l.temp, e->path, there, err);
    return r < 0 ? r : note_carried(s, from, e, l.settled, stamp_placed(s, to, e->path, &staged), err);
}

/* Open for us until all is in it; sync_do() gives it its mode in the end. */
static int carry_folder(struct syncer *s, enum sync_side from, const struct manifest_entry *e, struct err *err) {
    enum sync_side to = from == SYNC_HOST ? SYNC_COPY : SYNC_HOST;
    const struct manifest_stamp *there = sync_stamp(e, to);
    struct manifest_stamp made;
    int r = 0;

    if (there->mode && !S_ISDIR(there->mode))
        r = place_remove(s->root[to], e->path, there, err);
    if (r < 0 && r != -ENOENT)
        return r;
    r = place_dir(s->root[to], e->path, (mode_t)sync_stamp(e, from)->mode | 0700, err);
    if (r < 0)
        return r;
    r = place_stamp(s->root[to], e->path, &made);
    return r < 0 ? place_err(err, r, "look at", e->path) : note_carried(s, from, e, true, made, err);
}

/* One walk may miss a name that is being renamed: what was not seen is looked for before the other side's goes. */
static int carry_deletion(struct syncer *s, enum sync_side from, const struct manifest_entry *e, struct err *err) {
    enum sync_side to = from == SYNC_HOST ? SYNC_COPY : SYNC_HOST;
    struct stat st;
    int r = place_stat(s->root[from], e->path, &st);

    if (r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
        return place_err(err, r == 0 ? -ESTALE : r, "look at", e->path);
    r = place_remove(s->root[to], e->path, sync_stamp(e, to), err);
    if (r < 0 && r != -ENOENT)
        return r;
    manifest_drop(s->base, e->path);
    return 0;
}

static int carry_path(struct syncer *s, enum sync_side from, const struct manifest_entry *e, struct err *err) {
    const struct manifest_stamp *st = sync_stamp(e, from);
    int r = from == SYNC_COPY && s->hooks.before ? s->hooks.before(e->path, s->hooks.arg, err) : 0;

    if (r < 0)
        return r;
    if (!st->mode)
        return carry_deletion(s, from, e, err);
    return S_ISDIR(st->mode) ? carry_folder(s, from, e, err) : carry_content(s, from, e, err);
}

/* NAME.bawn-RUN, NAME.bawn-RUN-2, ...; NAME is cut if the whole would be too long for a name. */
static char *beside_name(const char *path, const char *run, unsigned k) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char suffix[SUFFIX_MAX];
    size_t keep;

    snprintf(suffix, sizeof suffix, k > 1 ? ".bawn-%.*s-%u" : ".bawn-%.*s", RUNDIR_NAME_MAX, run, k);
    keep = MIN_OF(strlen(name), NAME_MAX - strlen(suffix));
    return str_dupf("%.*s%s", (int)((size_t)(name - path) + keep), path, suffix);
}

/* A sync that was killed has put it there already. */
static bool is_same_version(int root, const char *a, const char *b) {
    CLEANUP(closep) int x = place_read(root, a), y = place_read(root, b);
    CLEANUP(freep) char *to = place_link_target(root, a);

    return to ? place_links_to(root, b, to) : x >= 0 && y >= 0 && same_content(x, y, INT64_MAX) == 1;
}

static int stage_beside(struct syncer *s, const struct manifest_entry *e, char **ret_name, struct err *err) {
    int host = s->root[SYNC_HOST];
    CLEANUP(load_done) struct load l = {0};
    int r = stage_thing(s->root[SYNC_COPY], host, e->path, &e->copy, &l, err);

    if (r == 0 && !l.settled) /* the version in the copy goes when this one is in place: it has to be whole */
        r = place_err(err, -ESTALE, "read", e->path);
    for (unsigned k = 1; r == 0 && k <= BESIDE_MAX; k++) {
        CLEANUP(freep) char *name = beside_name(e->path, s->run, k);

        r = name ? place_commit_new(host, l.temp, name, err) : err_oom(err);
        if (r == -EEXIST && is_same_version(host, l.temp, name)) {
            place_discard(host, l.temp);
            r = 0;
        }
        if (r == 0) {
            *ret_name = TAKE_PTR(name);
            return 0;
        }
        r = r == -EEXIST && k < BESIDE_MAX ? 0 : r;
    }
    if (l.temp)
        place_discard(host, l.temp);
    return r;
}

enum { DONE = 0x80 }; /* a flag beside the action */

static bool is_carry(uint8_t action) {
    return action == SYNC_OUT || action == SYNC_IN;
}

static enum sync_side source_of(uint8_t action) {
    return action == SYNC_OUT ? SYNC_COPY : SYNC_HOST;
}

static bool is_deletion(const struct manifest_entry *e, uint8_t action) {
    return is_carry(action) && !sync_stamp(e, source_of(action))->mode;
}

/* A folder takes the place of something else, or the other way round. */
static bool is_switch(const struct manifest_entry *e) {
    return e->host.mode && e->copy.mode && !S_ISDIR(e->host.mode) != !S_ISDIR(e->copy.mode);
}

/* Failures that concern one path; all others (no space, broken disk) end the sync. */
static bool is_local(int r) {
    static const int local[] = {ELOOP, ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, EACCES, EPERM, ENAMETOOLONG, E2BIG};

    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if (r == -local[i])
            return true;
    return false;
}

static int settle_failure(struct syncer *s, const char *path, int r, const struct err *why, struct err *err) {
    if (r >= 0)
        return 0;
    if (r == -ESTALE)
        return strv_add(&s->stale, path) < 0 ? err_oom(err) : 0;
    if (is_local(r))
        return strv_addf(&s->left, "%s; both sides stay as they are", why->msg) < 0 ? err_oom(err) : 0;
    if (err)
        *err = *why;
    return r;
}

/* The host's version stays where it is and goes to the copy, when the copy's is safe beside it. */
static int put_beside(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    CLEANUP(buf_done) struct buf line = BUF_INIT(8 * MANIFEST_PATH_MAX);
    CLEANUP(freep) char *name = NULL;
    struct err why = {0};
    int r = stage_beside(s, e, &name, &why);

    if (r < 0)
        return settle_failure(s, e->path, r, &why, err);
    s->beside = true;
    buf_adds(&line, "the host's version stays, the sandbox's is ");
    buf_add_printable(&line, name);
    if (!buf_ok(&line))
        return err_oom(err);
    r = place_note(&s->conflicts, e->path, buf_str(&line), err);
    if (r < 0)
        return r;
    r = carry_path(s, SYNC_HOST, e, &why);
    return settle_failure(s, e->path, r, &why, err);
}

static int note_same(struct syncer *s, const struct manifest_entry *e, bool settled, struct err *err) {
    struct manifest_stamp host = e->host, copy = e->copy;

    if (!settled || host.ctime_ns >= s->before)
        host.ctime_ns = 0;
    if (!settled)
        copy.ctime_ns = 0;
    return manifest_set(s->base, e->path, &host, &copy, err);
}

/* A folder that something was put into meanwhile, or that has a hidden name in it, stays. If the other side has it again, that
 * is noted; if not, the next sync tries again. */
static int keep_folder(struct syncer *s, const struct manifest_entry *e, struct err *err) {
    struct manifest_stamp host, copy;

    if (place_stamp(s->root[SYNC_HOST], e->path, &host) < 0 || place_stamp(s->root[SYNC_COPY], e->path, &copy) < 0)
        return 0;
    return manifest_set(s->base, e->path, &host, &copy, err);
}

static int carry_now(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    bool is_out = s->actions[i] == SYNC_OUT, is_folder = S_ISDIR(e->host.mode | e->copy.mode);
    bool stays = is_folder && is_deletion(e, s->actions[i]);
    struct err why = {0};
    int r = carry_path(s, source_of(s->actions[i]), e, &why);

    s->actions[i] |= DONE;
    if (r == 0 && (!is_folder || is_switch(e))) {
        s->out += is_out;
        s->in += !is_out;
    }
    if (stays && (r == -ENOTEMPTY || r == -ESTALE))
        return keep_folder(s, e, err);
    return settle_failure(s, e->path, r, &why, err);
}

/* What can be done without anything going away; the rest is not marked as done. */
static int make_one(struct syncer *s, size_t i, struct manifest *waiting, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    const struct manifest_stamp none = {0};
    int r;

    switch ((enum sync_action)s->actions[i]) {
    case SYNC_SAME:
    case SYNC_SAME_YET:
        return note_same(s, e, s->actions[i] == SYNC_SAME, err);
    case SYNC_FORGET:
        manifest_drop(s->base, e->path);
        return 0;
    case SYNC_BESIDE:
        return put_beside(s, i, err);
    case SYNC_OUT:
    case SYNC_IN:
        if (is_switch(e))
            return manifest_set(waiting, e->path, &none, &none, err);
        r = sync_is_below(waiting, e->path);
        if (r != 0 || is_deletion(e, s->actions[i]))
            return r < 0 ? err_oom(err) : 0;
        return carry_now(s, i, err);
    case SYNC_NOTHING:
    case SYNC_ACTIONS:
        return 0;
    }
    return 0;
}

static int close_folder(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    uint8_t action = s->actions[i] & (uint8_t)~DONE;
    enum sync_side from = source_of(action), to = from == SYNC_HOST ? SYNC_COPY : SYNC_HOST;
    mode_t mode = (mode_t)sync_stamp(e, from)->mode;
    struct err why = {0};
    int r;

    if (!is_carry(action) || !S_ISDIR(mode) || (mode & 0700) == 0700 || !manifest_find(s->base, e->path))
        return 0;
    r = place_dir(s->root[to], e->path, mode, &why);
    return r < 0 ? settle_failure(s, e->path, r, &why, err) : keep_folder(s, e, err);
}

int sync_do(struct syncer *s, struct err *err) {
    CLEANUP(manifest_freep) struct manifest *waiting = manifest_new();
    size_t n = manifest_count(s->now);
    int r = waiting ? 0 : err_oom(err);

    for (size_t i = 0; r == 0 && i < n; i++)
        r = make_one(s, i, waiting, err);
    for (size_t i = n; r == 0 && i-- > 0;)
        if (is_deletion(manifest_at(s->now, i), s->actions[i]))
            r = carry_now(s, i, err);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (is_carry(s->actions[i]))
            r = carry_now(s, i, err);
    for (size_t i = n; r == 0 && i-- > 0;)
        r = close_folder(s, i, err);
    return r;
}
