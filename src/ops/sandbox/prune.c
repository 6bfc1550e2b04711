/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what is stale or unused. */
#include "ops/sandbox/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "ops/sandbox/box_changes.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/user/idspace.h"
#include "registry/registry.h"
#include "supervisor/session/box_run.h"

struct pruning {
    const struct prune_opts *o;
    char *home, *state, *boxes, *runs; /* state: $XDG_STATE_HOME/bawn */
    uint64_t now, total;               /* total: bytes that are left, known if there is a budget */
    struct prune_result result;
};

static void items_done(struct prune_items *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
}

void prune_result_done(struct prune_result *r) {
    items_done(&r->removed);
    items_done(&r->left);
    space_list_done(&r->space);
    *r = (struct prune_result){0};
}

static void pruning_done(struct pruning *p) {
    char *const paths[] = {p->home, p->state, p->boxes, p->runs};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        free(paths[i]);
    prune_result_done(&p->result);
}

static int add_prune_item(struct prune_items *l, const char *kind, const char *name, uint64_t bytes, const char *why) {
    struct prune_item item = {.kind = kind, .name = strdup(name), .bytes = bytes};

    snprintf(item.why, sizeof item.why, "%.400s", why);
    if (!item.name || VEC_ADD(l->v, l->n, item) < 0) {
        free(item.name);
        return -ENOMEM;
    }
    return 0;
}

static int leave_item(struct pruning *p, const char *kind, const char *name, const char *why) {
    return add_prune_item(&p->result.left, kind, name, 0, why);
}

static int count_removed(struct pruning *p, const char *kind, const char *name, uint64_t bytes) {
    p->total -= MIN_OF(p->total, bytes);
    return add_prune_item(&p->result.removed, kind, name, bytes, "");
}

static int leave_changes(struct pruning *p, const char *kind, const char *name, const struct box_changes *c) {
    char words[400], why[500];

    box_changes_words(c, words);
    snprintf(why, sizeof why, "%.330s: bawn review %s", words, name);
    return leave_item(p, kind, name, why);
}

static bool is_old(const struct pruning *p, uint64_t used_ns) {
    return p->now > used_ns && p->now - used_ns > p->o->older_ms * 1000000;
}

static bool is_over(const struct pruning *p) {
    return p->o->budget && p->total > p->o->budget;
}

/* -- sandboxes ---------------------------------------------------------------------------------------------------------- */

static uint64_t last_used(const struct box *b) {
    return MAX_OF(MAX_OF(b->state.used_ns, b->state.since_ns), b->info.created_ns);
}

static int least_used_first(const void *a, const void *b) {
    uint64_t x = last_used(a), y = last_used(b);

    return (x > y) - (x < y);
}

/* Under its lock: it is not started meanwhile. */
static int remove_box(struct pruning *p, const char *name, bool has_run, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    int r = registry_open(p->boxes, name, true, &b, err);

    if (r == 0 && !is_old(p, last_used(&b)) && !is_over(p))
        return err_set(err, -EBUSY, "it was used just now");
    if (r == 0 && has_run)
        r = box_changes_remove(name, false, err);
    return r < 0 ? r : registry_remove(p->boxes, &b, err);
}

/* The user made them, and they may hold changes that were never applied. */
static bool has_checkpoints(const struct box *b) {
    CLEANUP(freep) char *path = str_dupf("%s/checkpoints", b->path);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    if (!path || dir_open_at(AT_FDCWD, path, &d) < 0)
        return !path || d.error != -ENOENT;
    while ((e = dir_next(&d)))
        if (e->d_name[0] != '.')
            return true;
    return d.error < 0;
}

static int prune_box(struct pruning *p, const struct box *b) {
    CLEANUP(freep) char *run = str_dupf("%s/%s", p->runs, b->name);
    struct box_changes c;
    struct err err = {0};
    uint64_t bytes;
    int r;

    if (!run)
        return -ENOMEM;
    box_changes_look(p->home, b, &c);
    if (c.kind == BOX_CHANGES_WAIT || c.kind == BOX_CHANGES_UNKNOWN)
        return leave_changes(p, "sandbox", b->name, &c);
    if (has_checkpoints(b))
        return leave_item(p, "sandbox", b->name, "it has checkpoints (see 'bawn checkpoint ls')");
    bytes = space_of(AT_FDCWD, b->path) + (c.kind == BOX_CHANGES_NONE ? space_of(AT_FDCWD, run) : 0);
    r = p->o->dry_run ? 0 : remove_box(p, b->name, c.kind == BOX_CHANGES_NONE, &err);
    return r < 0 ? leave_item(p, "sandbox", b->name, err.msg) : count_removed(p, "sandbox", b->name, bytes);
}

static int prune_boxes(struct pruning *p, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = registry_list(p->boxes, &l, err);

    if (r < 0)
        return r;
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, least_used_first);
    for (size_t i = 0; i < l.n; i++) {
        const struct box *b = &l.v[i];

        if (b->alive || (!is_old(p, last_used(b)) && !is_over(p)))
            continue;
        if (prune_box(p, b) < 0)
            return err_oom(err);
    }
    return 0;
}

/* -- runs --------------------------------------------------------------------------------------------------------------- */

static bool has_box(const struct pruning *p, const char *name) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", p->boxes, name);

    return !path || access(path, F_OK) == 0;
}

/* Runs in direct mode have what `bawn rollback` needs, and are few (rundir_prune()). */
static int prune_run(struct pruning *p, const struct rundir_entry *e) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", p->runs, e->name);
    struct box_changes c;
    struct err err = {0};
    uint64_t bytes;
    int r;

    if (!path)
        return -ENOMEM;
    box_changes_of_run(e->name, &c);
    if (c.kind != BOX_CHANGES_NONE)
        return leave_changes(p, "run", e->name, &c);
    bytes = space_of(AT_FDCWD, path);
    r = p->o->dry_run ? 0 : box_changes_remove(e->name, false, &err);
    return r < 0 ? leave_item(p, "run", e->name, err.msg) : count_removed(p, "run", e->name, bytes);
}

/* Nothing will come of it any more; a named one goes on. */
static bool was_killed(const struct rundir_entry *e) {
    return !e->busy && !e->info.ended_ns && !e->info.named;
}

/* The list has the newest first. */
static int prune_runs(struct pruning *p, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int r = access(p->runs, F_OK) < 0 ? 0 : rundir_list(p->runs, NULL, &l, err);

    for (size_t i = l.n; r >= 0 && i-- > 0;) {
        const struct rundir_entry *e = &l.v[i];

        if (e->busy || e->info.mode == WORKSPACE_DIRECT || has_box(p, e->name) ||
            (!was_killed(e) && !is_old(p, MAX_OF(e->info.ended_ns, e->info.begun_ns)) && !is_over(p)))
            continue;
        if (prune_run(p, e) < 0)
            return err_oom(err);
    }
    return r;
}

/* -- logs --------------------------------------------------------------------------------------------------------------- */

/* "network.jsonl.1": a number behind the name of a log that goes on without it. */
static bool is_rotated(const char *name) {
    const char *dot = strrchr(name, '.');

    return dot && dot != name && dot[1] && dot[1 + strspn(dot + 1, "0123456789")] == 0;
}

static int prune_log(struct pruning *p, int dir, const char *name) {
    struct stat st;

    if (!is_rotated(name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        !is_old(p, (uint64_t)st.st_mtim.tv_sec * 1000000000))
        return 0;
    if (!p->o->dry_run && unlinkat(dir, name, 0) < 0)
        return 0;
    return count_removed(p, "log", name, (uint64_t)st.st_blocks * 512);
}

static int prune_logs(struct pruning *p, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/log", p->state);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = path ? 0 : -ENOMEM;

    if (path)
        dir_open_at(AT_FDCWD, path, &d);
    while (r == 0 && (e = dir_next(&d)))
        r = prune_log(p, d.fd, e->d_name);
    return r < 0 ? err_oom(err) : 0;
}

/* -- what tasks of batches printed --------------------------------------------------------------------------------------- */

/* Under the lock of a batch that runs (ops/batch/batch.h) nothing is removed. */
static int prune_batch(struct pruning *p, int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct err err = {0};
    struct stat st;
    uint64_t bytes;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0 || (!is_old(p, (uint64_t)st.st_mtim.tv_sec * 1000000000) && !is_over(p)) ||
        flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    bytes = space_of(dir, name);
    r = p->o->dry_run ? 0 : idspace_remove_tree(dir, name);
    if (r < 0)
        err_sys(&err, r, "remove it");
    return r < 0 ? leave_item(p, "batch", name, err.msg) : count_removed(p, "batch", name, bytes);
}

/* Names are moments: the oldest first. */
static int prune_batches(struct pruning *p, struct err *err) {
    CLEANUP(closep) int state = open(p->state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int dir = state < 0 ? -1 : openat(state, "batch", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir < 0 ? 0 : dir_names(dir, ".", &names);

    for (size_t i = 0; r == 0 && i < names.len; i++)
        if (names.v[i][0] != '.')
            r = prune_batch(p, dir, names.v[i]);
    return r == -ENOMEM ? err_oom(err) : 0;
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static int find_state(struct pruning *p, struct err *err) {
    int r = paths_home(environ, &p->home, err);

    r = r < 0 ? r : paths_state_if_home(environ, p->home, "", &p->state, err);
    if (r < 0)
        return r;
    if (!p->state)
        return err_set(err, -ENOENT, "there is no home folder, and so nothing to prune; set HOME or XDG_STATE_HOME");
    p->boxes = str_dupf("%s/sandboxes", p->state);
    p->runs = str_dupf("%s/runs", p->state);
    return p->boxes && p->runs ? 0 : err_oom(err);
}

static int measure_before(struct pruning *p, struct err *err) {
    CLEANUP(space_list_done) struct space_list l = {0};
    int r = p->o->budget ? space_list(p->state, &l, err) : 0;

    p->total = l.total;
    return r;
}

int prune(const struct prune_opts *o, struct prune_result *ret, struct err *err) {
    CLEANUP(pruning_done) struct pruning p = {.o = o, .now = clock_mark()};
    int r = find_state(&p, err);

    if (r < 0)
        return r;
    sweep_stale(environ, p.home, o->dry_run, &p.result.swept);
    if ((r = measure_before(&p, err)) < 0 || (r = prune_logs(&p, err)) < 0 || (r = prune_batches(&p, err)) < 0 ||
        (r = prune_runs(&p, err)) < 0 || (r = prune_boxes(&p, err)) < 0)
        return r;
    r = space_list(p.state, &p.result.space, err);
    if (r < 0)
        return r;
    *ret = TAKE(p.result, (struct prune_result){0});
    return 0;
}
