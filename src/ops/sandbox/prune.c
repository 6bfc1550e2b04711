/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/prune.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/sandbox/box_view.h"
#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/space.h"
#include "os/fd.h"
#include "os/remove.h"
#include "supervisor/session/box_run.h"

struct prune {
    const struct prune_opts *o;
    char *boxes, *runs;
    uint64_t now, total; /* total: bytes that are left, known if there is a budget */
    struct prune_items removed, kept;
};

void prune_items_done(struct prune_items *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct prune_items){0};
}

/* Room doubles at powers of two. */
static int note(struct prune_items *l, const char *kind, const char *name, uint64_t bytes, const char *why) {
    struct prune_item *grown = l->v, item = {.kind = kind, .name = strdup(name), .bytes = bytes};

    snprintf(item.why, sizeof item.why, "%.400s", why);
    if (item.name && (l->n & (l->n - 1)) == 0)
        grown = realloc(l->v, (l->n ? 2 * l->n : 1) * sizeof *grown);
    if (!item.name || !grown) {
        free(item.name);
        return -ENOMEM;
    }
    l->v = grown;
    l->v[l->n++] = item;
    return 0;
}

static int gone(struct prune *p, const char *kind, const char *name, uint64_t bytes) {
    p->total -= MIN_OF(p->total, bytes);
    return note(&p->removed, kind, name, bytes, "");
}

static int keep_changes(struct prune *p, const char *kind, const char *name, const struct box_changes *c) {
    char words[400], why[500];

    box_changes_words(c, words);
    snprintf(why, sizeof why, "%.330s: bawn review %s", words, name);
    return note(&p->kept, kind, name, 0, why);
}

static bool is_old(const struct prune *p, uint64_t used_ns) {
    return p->now > used_ns && p->now - used_ns > p->o->older_ns;
}

static bool is_over(const struct prune *p) {
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

/* Under its lock: nobody starts it meanwhile. */
static int remove_box(struct prune *p, const char *name, bool has_run, struct err *err) {
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
    DIR *dir = path ? opendir(path) : NULL;
    struct dirent *e;
    bool any = !path;

    while (dir && !any && (e = readdir(dir)))
        any = e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return any;
}

static int prune_box(struct prune *p, const struct box *b) {
    CLEANUP(freep) char *run = str_dupf("%s/%s", p->runs, b->name);
    struct box_changes c;
    struct err err = {0};
    uint64_t bytes;
    int r;

    if (!run)
        return -ENOMEM;
    box_changes_look(p->o->home, b, &c);
    if (c.kind == BOX_CHANGES_WAIT || c.kind == BOX_CHANGES_UNKNOWN)
        return keep_changes(p, "sandbox", b->name, &c);
    if (has_checkpoints(b))
        return note(&p->kept, "sandbox", b->name, 0, "it has checkpoints (see 'bawn checkpoint ls')");
    bytes = space_of_path(b->path) + (c.kind == BOX_CHANGES_NONE ? space_of_path(run) : 0);
    r = p->o->dry_run ? 0 : remove_box(p, b->name, c.kind == BOX_CHANGES_NONE, &err);
    return r < 0 ? note(&p->kept, "sandbox", b->name, 0, err.msg) : gone(p, "sandbox", b->name, bytes);
}

static int prune_boxes(struct prune *p, struct err *err) {
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

static bool has_box(const struct prune *p, const char *name) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", p->boxes, name);

    return !path || access(path, F_OK) == 0;
}

/* Runs in direct mode have what `bawn rollback` needs, and are few (rundir_prune()). */
static int prune_run(struct prune *p, const struct rundir_entry *e) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", p->runs, e->name);
    struct box_changes c;
    struct err err = {0};
    uint64_t bytes;
    int r;

    if (!path)
        return -ENOMEM;
    box_changes_of_run(e->name, &c);
    if (c.kind != BOX_CHANGES_NONE)
        return keep_changes(p, "run", e->name, &c);
    bytes = space_of_path(path);
    r = p->o->dry_run ? 0 : box_changes_remove(e->name, false, &err);
    return r < 0 ? note(&p->kept, "run", e->name, 0, err.msg) : gone(p, "run", e->name, bytes);
}

/* The list has the newest first. */
static int prune_runs(struct prune *p, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int r = access(p->runs, F_OK) < 0 ? 0 : rundir_list(p->runs, NULL, &l, err);

    for (size_t i = l.n; r >= 0 && i-- > 0;) {
        const struct rundir_entry *e = &l.v[i];

        if (e->busy || e->info.mode == WORKSPACE_DIRECT || has_box(p, e->name) ||
            (!is_old(p, MAX_OF(e->info.ended_ns, e->info.begun_ns)) && !is_over(p)))
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

static int prune_log(struct prune *p, int dir, const char *name) {
    struct stat st;

    if (!is_rotated(name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        !is_old(p, (uint64_t)st.st_mtim.tv_sec * 1000000000))
        return 0;
    if (!p->o->dry_run && unlinkat(dir, name, 0) < 0)
        return 0;
    return gone(p, "log", name, (uint64_t)st.st_blocks * 512);
}

static int prune_logs(struct prune *p, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/log", p->o->state);
    int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1, r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d)
        closep(&fd);
    while (d && r == 0 && (e = readdir(d)))
        r = prune_log(p, dirfd(d), e->d_name);
    if (d)
        closedir(d);
    return r < 0 ? err_oom(err) : 0;
}

/* -- what tasks of batches printed --------------------------------------------------------------------------------------- */

/* Under the lock of a batch that runs (ops/batch/batch.h) nothing is removed. */
static int prune_batch(struct prune *p, int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct err err = {0};
    struct stat st;
    uint64_t bytes;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0 || (!is_old(p, (uint64_t)st.st_mtim.tv_sec * 1000000000) && !is_over(p)) ||
        flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    bytes = space_of(dir, name);
    r = p->o->dry_run ? 0 : remove_tree(dir, name);
    if (r < 0)
        err_sys(&err, r, "remove it");
    return r < 0 ? note(&p->kept, "batch", name, 0, err.msg) : gone(p, "batch", name, bytes);
}

/* Names are moments: the oldest first. */
static int prune_batches(struct prune *p, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/batch", p->o->state);
    CLEANUP(closep) int dir = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct dirent **names = NULL;
    int n = dir < 0 ? 0 : scandirat(dir, ".", &names, NULL, alphasort), r = path ? 0 : -ENOMEM;

    for (int i = 0; i < n; i++) {
        if (r == 0 && names[i]->d_name[0] != '.')
            r = prune_batch(p, dir, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return r < 0 ? err_oom(err) : 0;
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static int measure(struct prune *p, struct err *err) {
    CLEANUP(space_list_done) struct space_list l = {0};
    int r = p->o->budget ? space_list(p->o->state, &l, err) : 0;

    p->total = l.total;
    return r;
}

int prune_all(const struct prune_opts *o, struct prune_items *ret_removed, struct prune_items *ret_kept, struct err *err) {
    struct prune p = {
        .o = o, .now = box_view_now(), .boxes = str_dupf("%s/sandboxes", o->state), .runs = str_dupf("%s/runs", o->state)};
    int r = p.boxes && p.runs ? measure(&p, err) : err_oom(err);

    r = r < 0 ? r : prune_logs(&p, err);
    r = r < 0 ? r : prune_batches(&p, err);
    r = r < 0 ? r : prune_runs(&p, err);
    r = r < 0 ? r : prune_boxes(&p, err);
    free(p.boxes);
    free(p.runs);
    if (r < 0) {
        prune_items_done(&p.removed);
        prune_items_done(&p.kept);
        return r;
    }
    *ret_removed = p.removed;
    *ret_kept = p.kept;
    return 0;
}
