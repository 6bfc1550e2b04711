/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: in the order of paths a folder comes before what is in it. New things are made first, from the top; then
 * deletions, from the bottom, so that folders are empty when their turn comes and something that was renamed exists twice
 * for a moment rather than not at all; then what had to wait for a deletion (a file where a folder was); at last the modes of
 * folders that cannot be written in.
 */
#include <errno.h>

#include "base/str.h"
#include "workspace/mode/sync_inner.h"

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

static int settle(struct syncer *s, const char *path, int r, const struct err *why, struct err *err) {
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

static void count(struct syncer *s, const struct manifest_entry *e, uint8_t action) {
    if (S_ISDIR(e->host.mode | e->copy.mode) && !is_switch(e))
        return;
    if (action == SYNC_OUT)
        s->out++;
    else
        s->in++;
}

static int carry(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    uint8_t action = s->actions[i];
    struct err why = {0};
    int r = sync_carry(s, source_of(action), e, &why);

    if (r == 0)
        count(s, e, action);
    return settle(s, e->path, r, &why, err);
}

/* The host's version stays where it is and goes to the copy, when the copy's is safe beside it. */
static int put_beside(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    CLEANUP(buf_done) struct buf line = BUF_INIT(8 * MANIFEST_PATH_MAX);
    CLEANUP(freep) char *name = NULL;
    struct err why = {0};
    int r = sync_put_beside(s, e, &name, &why);

    if (r < 0)
        return settle(s, e->path, r, &why, err);
    buf_adds(&line, "the host's version stays, the sandbox's is ");
    buf_add_printable(&line, name);
    if (!buf_ok(&line))
        return err_oom(err);
    r = sync_say(&s->conflicts, e->path, buf_str(&line), err);
    if (r < 0)
        return r;
    r = sync_carry(s, SYNC_HOST, e, &why);
    return settle(s, e->path, r, &why, err);
}

static int note_same(struct syncer *s, const struct manifest_entry *e, bool settled, struct err *err) {
    struct manifest_stamp host = e->host, copy = e->copy;

    if (!settled || host.ctime_ns >= s->before)
        host.ctime_ns = 0;
    if (!settled)
        copy.ctime_ns = 0;
    return manifest_set(s->base, e->path, &host, &copy, err);
}

static int carry_now(struct syncer *s, size_t i, struct err *err) {
    int r = carry(s, i, err);

    s->actions[i] |= DONE;
    return r;
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

static int make_new(struct syncer *s, struct err *err) {
    CLEANUP(manifest_freep) struct manifest *waiting = manifest_new();
    int r = waiting ? 0 : err_oom(err);

    for (size_t i = 0; r == 0 && i < manifest_count(s->now); i++)
        r = make_one(s, i, waiting, err);
    return r;
}

/* A folder that something was put into meanwhile, or that has a hidden name in it, stays. If the other side has it again, that
 * is noted; if not, the next sync tries again. */
static int keep_folder(struct syncer *s, const struct manifest_entry *e, struct err *err) {
    struct manifest_stamp host, copy;
    struct stat st[2];

    if (place_stat(s->root[SYNC_HOST], e->path, &st[SYNC_HOST]) < 0 ||
        place_stat(s->root[SYNC_COPY], e->path, &st[SYNC_COPY]) < 0)
        return 0;
    host = manifest_stamp_of(&st[SYNC_HOST]);
    copy = manifest_stamp_of(&st[SYNC_COPY]);
    return manifest_set(s->base, e->path, &host, &copy, err);
}

static int remove_one(struct syncer *s, size_t i, struct err *err) {
    const struct manifest_entry *e = manifest_at(s->now, i);
    struct err why = {0};
    int r;

    if (!is_deletion(e, s->actions[i]))
        return 0;
    r = sync_carry(s, source_of(s->actions[i]), e, &why);
    if (r == 0)
        count(s, e, s->actions[i]);
    s->actions[i] |= DONE;
    if (S_ISDIR(e->host.mode | e->copy.mode) && (r == -ENOTEMPTY || r == -ESTALE))
        return keep_folder(s, e, err);
    return settle(s, e->path, r, &why, err);
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
    return r < 0 ? settle(s, e->path, r, &why, err) : keep_folder(s, e, err);
}

int sync_do(struct syncer *s, struct err *err) {
    size_t n = manifest_count(s->now);
    int r = make_new(s, err);

    for (size_t i = n; r == 0 && i-- > 0;)
        r = remove_one(s, i, err);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (is_carry(s->actions[i]))
            r = carry_now(s, i, err);
    for (size_t i = n; r == 0 && i-- > 0;)
        r = close_folder(s, i, err);
    return r;
}
