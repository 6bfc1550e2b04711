/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/audit_verb.h"
#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/session/sweep.h"

enum { OPT_FORCE = 1, OPT_ALL_STOPPED, OPT_DISCARD, OPT_KEEP, OPT_JSON };
enum { STOP_SECONDS = 5, STOP_WAIT_MS = 60 * 1000 };

static const struct opt opts[] = {
    {OPT_FORCE, 'f', "force", NULL, "stop it first if it runs; also one whose files are damaged", NULL},
    {OPT_ALL_STOPPED, 0, "all-stopped", NULL, "every sandbox that is not running", NULL},
    {OPT_DISCARD, 0, "discard-changes", NULL, "throw away changes that were not applied, for good", NULL},
    {OPT_KEEP, 0, "keep-changes", NULL, "leave changes that were not applied as a run of the same name", NULL},
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct rm_request {
    struct strv names;
    bool force, all_stopped, discard, keep, json;
    char *home, *boxes;
};

static void request_done(struct rm_request *q) {
    strv_done(&q->names);
    free(q->home);
    free(q->boxes);
}

static int check(const struct rm_request *q, struct err *err) {
    if (q->all_stopped && q->names.len)
        return err_usage(err, "--all-stopped and names exclude each other");
    if (q->discard && q->keep)
        return err_usage(err, "--discard-changes and --keep-changes exclude each other");
    if (!q->all_stopped && q->names.len == 0)
        return err_usage(err, "which sandbox? see 'bawn ps -a'");
    return 0;
}

/* Options may stand behind names, too. */
static int read_options(int argc, char **argv, struct rm_request *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    bool *const flags[] = {[OPT_FORCE] = &ret->force,
                           [OPT_ALL_STOPPED] = &ret->all_stopped,
                           [OPT_DISCARD] = &ret->discard,
                           [OPT_KEEP] = &ret->keep,
                           [OPT_JSON] = &ret->json};
    int r;

    while ((r = opt_next(&it, err)) >= 0) {
        if (r == 0 && it.pos >= argc)
            return check(ret, err);
        if (r == 0) {
            if (strv_add(&ret->names, argv[it.pos++]) < 0)
                return err_oom(err);
        } else {
            *flags[it.id] = true;
        }
    }
    return r;
}

static int add_stopped(struct rm_request *q, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = registry_list(q->boxes, &l, err);

    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (!box_sight_active(box_sight(&l.v[i])) && strv_add(&q->names, l.v[i].name) < 0)
            return err_oom(err);
    return r;
}

/* -- one ---------------------------------------------------------------------------------------------------------------- */

static int stop(const char *name, struct err *err) {
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

static int open_stopped(const struct rm_request *q, const char *name, struct sandbox_pick *ret, struct err *err) {
    const struct sandbox_pick_opts o = {.name = name, .need = SANDBOX_STOPPED};
    int r = sandbox_pick(&o, ret, err);

    if (r != -EBUSY)
        return r;
    if (!q->force)
        return err_set(err, r, "sandbox '%s' is running: 'bawn stop %s' first, or 'bawn rm --force %s'", name, name, name);
    r = stop(name, err);
    return r < 0 ? r : sandbox_pick(&o, ret, err);
}

/* It is a discard like any other, and told like one. */
static int note_discard(const struct box *b, const struct box_changes *c, struct err *err) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&members, "what", "rm --discard-changes");
    if (c->kind == BOX_CHANGES_WAIT)
        audit_add_number(&members, "changes", (int64_t)c->n);
    return audit_verb(AUDIT_DISCARD, b->name, &members, err);
}

/* What its run has goes first: a crash in between leaves a sandbox without changes, never changes without their sandbox. */
static int remove_changes(const struct rm_request *q, const struct box *b, struct err *err) {
    struct box_changes c;
    char words[400];
    int r;

    box_changes_look(q->home, b, &c);
    box_changes_words(&c, words);
    if (c.kind == BOX_CHANGES_NO_RUN || q->keep)
        return 0;
    if (c.kind != BOX_CHANGES_NONE && !q->discard)
        return err_set(err, -EEXIST,
                       "sandbox '%s' stays: %s; 'bawn review %s', then 'bawn apply %s' or 'bawn discard %s', or 'bawn rm "
                       "--discard-changes %s'",
                       b->name, words, b->name, b->name, b->name, b->name);
    r = c.kind == BOX_CHANGES_NONE ? 0 : note_discard(b, &c, err);
    return r < 0 ? r : box_changes_remove(b->name, q->discard, err);
}

static int remove_one(const struct rm_request *q, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    int r = open_stopped(q, name, &p, err);

    if (r == -EBADMSG && q->force) /* what waits in its run stays: nobody knows whether it is its own */
        return registry_remove_damaged(q->boxes, name, err);
    r = r < 0 ? r : remove_changes(q, &p.box, err);
    if (r < 0)
        return r;
    sweep_groups(&p.box); /* of a keeper that was killed: nobody will know their names any more */
    return registry_remove(q->boxes, &p.box, err);
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static void report(const struct rm_request *q, const char *name, const struct err *why, struct buf *out) {
    if (!q->json) {
        if (why)
            log_err(why);
        else
            buf_addf(out, "%s\n", name);
        return;
    }
    buf_adds(out, out->len ? ",\n  {" : "[\n  {");
    box_view_json_text(out, "name", name);
    buf_adds(out, why ? ", \"removed\": false" : ", \"removed\": true");
    if (why)
        box_view_json_text(out, "error", why->msg);
    buf_addc(out, '}');
}

/* Goes on with the others after one that stays; the exit status is the first failure's. */
static int remove_all(const struct rm_request *q, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(BOX_VIEW_MAX);
    int status = 0, r;

    for (size_t i = 0; i < q->names.len; i++) {
        struct err why = {0};

        r = remove_one(q, q->names.v[i], &why);
        report(q, q->names.v[i], r < 0 ? &why : NULL, &out);
        if (r < 0 && status == 0)
            status = err_exit_status(&why);
    }
    if (q->json)
        buf_adds(&out, out.len ? "\n]\n" : "[]\n");
    r = run_print_out(&out, err);
    return r < 0 ? r : status;
}

static int run_rm_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct rm_request q = {0};
    struct err err = {0};
    int r = read_options(argc, argv, &q, &err);

    r = r < 0 ? r : paths_home(environ, &q.home, &err);
    r = r < 0 ? r : sandbox_boxes(&q.boxes, &err);
    if (r == 0)
        sweep_stale(environ, q.home, false, NULL);
    if (r == 0 && q.all_stopped)
        r = add_stopped(&q, &err);
    r = r < 0 ? r : remove_all(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Removes kept sandboxes with their home, logs and checkpoints, for good. One that runs is refused, unless --force stops it "
    "first. NAME is a name or an id.\n\n"
    "Changes in overlay, sync or worktree mode that were not applied yet are never deleted silently: the sandbox stays, and the "
    "message names them. --discard-changes throws them away, --keep-changes leaves them as a run of the same name, for 'bawn "
    "review' and 'bawn apply'. The workspace itself and the audit log are not touched.\n\n"
    "    bawn rm dev\n"
    "    bawn rm --all-stopped";

const struct verb verb_rm = {
    .name = "rm",
    .summary = "remove kept sandboxes",
    .synopsis = "[options] NAME...",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rm_verb,
};
