/* SPDX-License-Identifier: Apache-2.0 */
/* Removes persistent sandboxes. */
#include <errno.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/sandbox_look.h"
#include "ops/sandbox/sandbox_manage.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/session/sweep.h"

enum { STOP_SECONDS = 5, STOP_WAIT_MS = 60 * 1000 };

struct removing {
    const struct sandbox_remove *q;
    char *home, *boxes;
};

static void removing_done(struct removing *x) {
    free(x->home);
    free(x->boxes);
}

static int stop_first(const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = name, .need = SANDBOX_ANY}, &p, err);

    if (r < 0 || !p.box.alive)
        return r;
    r = sandbox_ask_stop(&p.box, STOP_SECONDS, err);
    if (r < 0)
        return r == -ESRCH ? 0 : r;
    r = sandbox_wait_end(&p.box, STOP_WAIT_MS);
    return r == -ETIMEDOUT ? err_set(err, r, "sandbox '%s' does not end: 'bawn stop --force %s'", name, name) : 0;
}

static int open_stopped(const struct removing *x, const char *name, struct sandbox_pick *ret, struct err *err) {
    const struct sandbox_pick_opts o = {.name = name, .need = SANDBOX_STOPPED};
    int r = sandbox_pick(&o, ret, err);

    if (r != -EBUSY)
        return r;
    if (!x->q->force)
        return err_set(err, r, "sandbox '%s' is running: 'bawn stop %s' first, or 'bawn rm --force %s'", name, name, name);
    r = stop_first(name, err);
    return r < 0 ? r : sandbox_pick(&o, ret, err);
}

/* It is a discard like any other. */
static int note_discard(const struct box *b, const struct box_changes *c, struct err *err) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&members, "what", "rm --discard-changes");
    if (c->kind == BOX_CHANGES_WAIT)
        audit_add_number(&members, "changes", (int64_t)c->n);
    return audit_verb(AUDIT_DISCARD, b->name, &members, err);
}

/* What its run has goes first: a crash in between leaves a sandbox without changes, never changes without their sandbox. */
static int remove_changes(const struct removing *x, const struct box *b, struct err *err) {
    struct box_changes c;
    char words[400];
    int r;

    box_changes_look(x->home, b, &c);
    box_changes_words(&c, words);
    if (c.kind == BOX_CHANGES_NO_RUN || x->q->keep)
        return 0;
    if (c.kind != BOX_CHANGES_NONE && !x->q->discard)
        return err_set(err, -EEXIST,
                       "sandbox '%s' stays: %s; 'bawn review %s', then 'bawn apply %s' or 'bawn discard %s', or 'bawn rm "
                       "--discard-changes %s'",
                       b->name, words, b->name, b->name, b->name, b->name);
    r = c.kind == BOX_CHANGES_NONE ? 0 : note_discard(b, &c, err);
    return r < 0 ? r : box_changes_remove(b->name, x->q->discard, err);
}

static int remove_one(const struct removing *x, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = open_stopped(x, name, &p, err);

    if (r == -EBADMSG && x->q->force) /* its run stays: it may not be its own */
        return registry_remove_damaged(x->boxes, name, err);
    r = r < 0 ? r : remove_changes(x, &p.box, err);
    if (r < 0)
        return r;
    sweep_groups(&p.box); /* of a keeper that was killed: only the sandbox has their names */
    return registry_remove(x->boxes, &p.box, err);
}

static int add_stopped(const struct removing *x, struct strv *names, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = registry_list(x->boxes, &l, err);

    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (!box_sight_active(box_sight(&l.v[i])) && strv_add(names, l.v[i].name) < 0)
            return err_oom(err);
    return r;
}

static int remove_each(const struct removing *x, char *const *names, size_t n, struct sandbox_outcomes *l, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        struct err why = {0};
        int r = remove_one(x, names[i], &why);

        if (sandbox_outcomes_add(l, names[i], r < 0 ? SANDBOX_END_FAILED : SANDBOX_END_REMOVED, r < 0 ? &why : NULL) < 0)
            return err_oom(err);
    }
    return 0;
}

int sandbox_remove(const struct sandbox_remove *q, struct sandbox_outcomes *ret, struct err *err) {
    CLEANUP(removing_done) struct removing x = {.q = q};
    CLEANUP(strv_done) struct strv stopped = {0};
    CLEANUP(sandbox_outcomes_done) struct sandbox_outcomes l = {0};
    int r = paths_home(environ, &x.home, err);

    r = r < 0 ? r : sandbox_boxes(&x.boxes, err);
    if (r < 0)
        return r;
    sweep_stale(environ, x.home, false, NULL);
    r = q->all_stopped ? add_stopped(&x, &stopped, err) : 0;
    if (r == 0)
        r = q->all_stopped ? remove_each(&x, stopped.v, stopped.len, &l, err) : remove_each(&x, q->names, q->n, &l, err);
    if (r < 0)
        return r;
    *ret = TAKE(l, (struct sandbox_outcomes){0});
    return 0;
}
