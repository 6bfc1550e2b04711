/* SPDX-License-Identifier: Apache-2.0 */
/* Direct mode: the journal has every path that the run touched; each is compared with what is there now. */
#include <errno.h>

#include "workspace/change/change_priv.h"

static bool is_same_inode(const struct change_view *a, const struct change_view *b) {
    return a->st.st_ino && a->st.st_ino == b->st.st_ino && a->st.st_dev == b->st.st_dev;
}

/* 1: they differ. The journal does not say which kind of special file it saw. */
static int differ(struct change_maker *m, const struct change_view *old, const struct change_view *now, unsigned *ret_what) {
    int r;

    if (old->entry->kind == JOURNAL_OTHER && is_same_inode(old, now)) {
        *ret_what = ((old->st.st_mode ^ now->st.st_mode) & 07777) ? CHANGE_MODE : 0;
        return *ret_what != 0;
    }
    r = maker_compare(m, old, now, ret_what);
    return r < 0 ? r : *ret_what != 0;
}

static int compare_entry(struct change_maker *m, const struct journal_entry *e) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT, now = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_MODIFIED, .old = &old, .now = &now};
    int r = view_look(m->set->new_root, e->path, &now);

    if (r < 0)
        return maker_note(m, e->path, "could not be looked at", r);
    if (view_of_entry(m->set->journal, e, &old) < 0)
        return err_oom(m->err);
    f.hidden = maker_hides(m, S_ISDIR(now.st.st_mode ? now.st.st_mode : old.st.st_mode));
    if (old.st.st_mode && now.st.st_mode) {
        r = differ(m, &old, &now, &f.what);
        return r <= 0 ? r : maker_add(m, &f);
    }
    if (now.st.st_mode) {
        f.kind = CHANGE_ADDED;
        f.old = NULL;
        f.id = (struct change_id){.dev = now.st.st_dev, .ino = now.st.st_ino};
        return maker_add(m, &f);
    }
    if (!old.st.st_mode)
        return 0;
    f.kind = CHANGE_DELETED;
    f.now = NULL;
    f.id = (struct change_id){.dev = e->dev, .ino = e->ino, .known_ns = m->rd->info.begun_ns};
    return maker_add(m, &f);
}

int change_make_direct(struct change_maker *m) {
    size_t n = m->set->journal ? journal_count(m->set->journal) : 0;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const struct journal_entry *e = journal_at(m->set->journal, i);

        if (maker_set_path(m, e->path))
            r = compare_entry(m, e);
        else
            r = maker_note(m, e->path, "is too long a path to be looked at", 0);
    }
    return r;
}
