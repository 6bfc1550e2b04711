/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at persistent sandboxes. */
#include "ops/sandbox/sandbox_look.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/plan_system.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/space.h"
#include "os/dir.h"
#include "registry/running.h"
#include "supervisor/control/control_client.h"

enum { VOLUME_DIGITS = 16 };

const char *const box_sight_names[BOX_SIGHTS] = {
    [BOX_SIGHT_STARTING] = "starting", [BOX_SIGHT_RUNNING] = "running", [BOX_SIGHT_STOPPING] = "stopping",
    [BOX_SIGHT_STOPPED] = "stopped",   [BOX_SIGHT_FAILED] = "failed",   [BOX_SIGHT_CRASHED] = "crashed",
    [BOX_SIGHT_CREATED] = "created",
};

static_assert((int)BOX_SIGHT_STARTING == BOX_STARTING && (int)BOX_SIGHT_RUNNING == BOX_RUNNING &&
                  (int)BOX_SIGHT_STOPPING == BOX_STOPPING && (int)BOX_SIGHT_STOPPED == BOX_STOPPED &&
                  (int)BOX_SIGHT_FAILED == BOX_FAILED && (int)BOX_SIGHT_CRASHED == BOX_PHASES,
              "the phases come first");

enum box_sight box_sight(const struct box *b) {
    bool crashed;
    enum box_phase p = box_look(b, &crashed);

    if (crashed)
        return BOX_SIGHT_CRASHED;
    return p == BOX_STOPPED && b->state.pid == 0 ? BOX_SIGHT_CREATED : (enum box_sight)p;
}

bool box_sight_active(enum box_sight s) {
    return s == BOX_SIGHT_STARTING || s == BOX_SIGHT_RUNNING || s == BOX_SIGHT_STOPPING;
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

void sandbox_list_done(struct sandbox_list *l) {
    box_list_done(&l->boxes);
    free(l->usage);
}

int sandbox_list(bool usage, struct sandbox_list *ret, struct err *err) {
    CLEANUP(freep) char *boxes = NULL;
    int r = sandbox_boxes(&boxes, err);

    r = r < 0 ? r : registry_list(boxes, &ret->boxes, err);
    r = r < 0 ? r : running_list(environ, &ret->boxes, err);
    if (r < 0 || !usage)
        return r;
    ret->usage = calloc(ret->boxes.n + 1, sizeof *ret->usage);
    if (!ret->usage)
        return err_oom(err);
    box_usage_all(ret->boxes.v, ret->boxes.n, ret->usage);
    return 0;
}

/* -- one ---------------------------------------------------------------------------------------------------------------- */

void sandbox_activity_done(struct sandbox_activity *a) {
    sandbox_pick_done(&a->pick);
    json_decref(a->jobs);
    json_decref(a->processes);
}

int sandbox_activity(const char *name, struct sandbox_activity *ret, struct err *err) {
    int r = sandbox_pick(&(struct sandbox_pick_opts){.name = name, .need = SANDBOX_RUNNING}, &ret->pick, err);

    r = r < 0 ? r : sandbox_ask(&ret->pick.box, "jobs", &ret->jobs, err);
    return r < 0 ? r : sandbox_ask(&ret->pick.box, "processes", &ret->processes, err);
}

void sandbox_details_done(struct sandbox_details *d) {
    char *const strings[] = {d->control, d->exec, d->run, d->volumes, d->audit};

    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        free(strings[i]);
    sandbox_pick_done(&d->pick);
    strv_done(&d->checkpoints);
    json_decref(d->jobs);
    json_decref(d->status);
}

static char *path_if_there(const char *folder, const char *name) {
    CLEANUP(freep) char *path = folder ? str_dupf("%s/%s", folder, name) : NULL;

    return path && access(path, F_OK) == 0 ? TAKE_PTR(path) : NULL;
}

static int find_paths(struct sandbox_details *d, const char *home, struct err *err) {
    CLEANUP(freep) char *runtime = NULL, *volumes = NULL, *runs = NULL, *audit = NULL;
    const struct box *b = &d->pick.box;
    char hash[SHA256_HEX_SIZE], log[BOX_ID_MAX + sizeof ".jsonl"];
    int r = paths_runtime(environ, &runtime, err);

    r = r < 0 ? r : paths_state_if_home(environ, home, "volumes", &volumes, err);
    r = r < 0 ? r : paths_state_if_home(environ, home, "runs", &runs, err);
    r = r < 0 ? r : paths_state_if_home(environ, home, "audit", &audit, err);
    if (r < 0)
        return r;
    if (b->alive && runtime) {
        d->exec = str_dupf("%s/box/%s.sock", runtime, b->name);
        d->control = str_dupf("%s/%d.sock", runtime, (int)b->state.pid);
    }
    sha256_hex(b->info.workspace, strlen(b->info.workspace), hash);
    hash[VOLUME_DIGITS] = 0;
    snprintf(log, sizeof log, "%s.jsonl", b->info.id);
    d->run = d->changes.kind == BOX_CHANGES_NO_RUN ? NULL : path_if_there(runs, b->name);
    d->volumes = path_if_there(volumes, hash);
    d->audit = path_if_there(audit, log);
    return 0;
}

static void find_checkpoints(struct sandbox_details *d) {
    CLEANUP(dir_done) struct dir dir = DIR_INIT;
    const struct dirent *e;

    dir_open_at(d->pick.box.fd, "checkpoints", &dir);
    while ((e = dir_next(&dir)))
        if (e->d_name[0] != '.')
            strv_add(&d->checkpoints, e->d_name);
}

int sandbox_inspect(const struct sandbox_pick_opts *o, struct sandbox_details *d, struct err *err) {
    const struct box *b = &d->pick.box;
    CLEANUP(freep) char *home = NULL;
    struct err ignored = {0};
    int r = sandbox_pick(o, &d->pick, err);

    r = r < 0 ? r : paths_home(environ, &home, err);
    if (r < 0)
        return r;
    box_changes_look(home, b, &d->changes);
    r = find_paths(d, home, err);
    if (r < 0)
        return r;
    find_checkpoints(d);
    box_usage_all(b, 1, &d->usage);
    d->sizes.home = space_of(b->fd, "home");
    d->sizes.packages = space_of(b->fd, PLAN_SYSTEM);
    d->sizes.tmp = b->alive && b->state.tmp ? space_of(AT_FDCWD, b->state.tmp) : 0;
    d->sizes.log = space_of(b->fd, "log");
    d->sizes.checkpoints = space_of(b->fd, "checkpoints");
    d->sizes.run = d->run ? space_of(AT_FDCWD, d->run) : 0;
    d->sizes.volumes = d->volumes ? space_of(AT_FDCWD, d->volumes) : 0;
    if (b->alive && sandbox_ask(b, "jobs", &d->jobs, &ignored) == 0)
        sandbox_ask(b, "status", &d->status, &ignored);
    return 0;
}
