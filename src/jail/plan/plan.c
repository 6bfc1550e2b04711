/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the plan: ids, limits, places. The steps are in plan_*.c. */
#include "jail/plan/plan.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "jail/plan/own.h"

const char *const rung_names[RUNG_COUNT] = {[RUNG_FULL] = "full", [RUNG_SHARED_NET] = "shared-net", [RUNG_LANDLOCK] = "landlock"};

const char *const step_kind_names[STEP_KIND_COUNT] = {
    [STEP_DIR] = "dir",         [STEP_SYMLINK] = "symlink",     [STEP_FILE] = "file",
    [STEP_RO] = "read-only",    [STEP_PRIVATE] = "private",     [STEP_DEVICE] = "device",
    [STEP_PTS] = "devpts",      [STEP_PROC] = "proc",           [STEP_PROC_RO] = "proc-ro",
    [STEP_MASK] = "masked",     [STEP_WORKSPACE] = "workspace", [STEP_HIDE] = "hidden",
    [STEP_OVERLAY] = "overlay", [STEP_WHITEOUT] = "absent",     [STEP_SUBSTITUTE] = "substitute",
    [STEP_EXTRA] = "mount",     [STEP_HIDE_AGAIN] = "hidden",   [STEP_COPY] = "copy",
    [STEP_LAYER] = "layer",     [STEP_UPPER] = "changes",       [STEP_COW] = "copy-on-write",
};

const char *const plan_root_names[6] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

const char *rung_lacks(enum rung rung) {
    static const char *const lacks[RUNG_COUNT] = {
        [RUNG_SHARED_NET] = "not enforced: addresses and connections of this machine can be seen; no UDP but for DNS and no "
                            "abstract unix sockets inside",
        [RUNG_LANDLOCK] = "not enforced: names, sizes and command lines of other files and processes can be seen, modes, times "
                          "and attributes of your other files can be changed, no private /tmp, no UDP but for DNS and no "
                          "abstract unix sockets inside",
    };

    return lacks[rung];
}

/* Host ids of sandboxes that root starts: one per running supervisor, in a range that no distribution hands out
 * (0x70000000 and up is unassigned in systemd's table of id ranges; pids stay below 2^22). */
enum { SANDBOX_ID_BASE = 0x70000000, INSIDE_ID_FOR_ROOT = 1000, NOGROUP = 65534 };

static void make_ids(const struct host_facts *h, const struct plan_input *in, enum rung rung, struct plan_ids *ids) {
    ids->workspace_uid = h->workspace_uid;
    ids->workspace_gid = h->workspace_gid;
    ids->by_root = h->uid == 0;
    ids->host_root = h->host_root && h->workspace_uid == 0;
    if (!ids->by_root) {
        ids->inside_uid = ids->host_uid = h->uid;
        ids->inside_gid = ids->host_gid = h->gid;
        ids->user = h->user ? h->user : "user";
        return;
    }
    if (rung == RUNG_LANDLOCK) { /* nothing can be mapped: the owner of the workspace (bare.c refuses the host's root) */
        ids->inside_uid = ids->host_uid = h->workspace_uid;
        ids->inside_gid = ids->host_gid = h->workspace_gid || !h->host_root ? h->workspace_gid : NOGROUP; /* never root's */
        ids->user = "bawn";
        return;
    }
    ids->user = "bawn";
    ids->host_uid = ids->host_gid = SANDBOX_ID_BASE + (unsigned)in->pid;
    if (in->unmapped) { /* a workspace of root's is given to an id of theirs, the copy of it, and so are caches, which they share */
        ids->inside_uid = ids->host_uid = h->workspace_uid ? h->workspace_uid : SANDBOX_ID_BASE;
        ids->inside_gid = ids->host_gid = h->workspace_gid ? h->workspace_gid : SANDBOX_ID_BASE;
        return;
    }
    ids->inside_uid = h->workspace_uid ? h->workspace_uid : INSIDE_ID_FOR_ROOT;
    ids->inside_gid = h->workspace_gid ? h->workspace_gid : INSIDE_ID_FOR_ROOT;
}

/* Inside, the user is the one that the image names; outside it is as ever. */
static int take_image(const struct plan_input *in, struct plan *p, struct err *err) {
    p->image = in->image;
    if (!p->image)
        return 0;
    if (!rung_has_root(p->rung))
        return err_set(err, -EOPNOTSUPP,
                       "an image needs user namespaces, which are not available here (see 'bawn doctor'); leave --image out");
    if (in->unmapped) /* another engine's: the command is who it is without an image */
        return 0;
    p->ids.inside_uid = p->image->uid;
    p->ids.inside_gid = p->image->gid;
    p->ids.user = plan_image_user(p, p->image);
    return p->failed ? err_oom(err) : 0;
}

/* Folders that hold other people's sockets, secrets or the system itself: never a workspace. */
static const char *const never_workspace[] = {"/",    "/bin", "/boot", "/dev",     "/etc",     "/home",    "/lib",      "/lib64",
                                              "/mnt", "/opt", "/proc", "/root",    "/run",     "/sbin",    "/srv",      "/sys",
                                              "/tmp", "/usr", "/var",  "/var/lib", "/var/tmp", "/var/run", "/workspace"};
/* Nor anything below these. */
static const char *const never_below[] = {"/dev/", "/proc/", "/sys/", "/run/", "/boot/", "/var/run/"};

int plan_check_workspace(const struct host_facts *h, struct err *err) {
    const char *ws = h->workspace;

    if (str_index(ws, never_workspace, ARRAY_LEN(never_workspace)) >= 0)
        return err_set(err, -EPERM,
                       "'%s' cannot be the workspace (it holds more than a project); go to a project folder or use -C DIR", ws);
    for (size_t i = 0; i < ARRAY_LEN(never_below); i++)
        if (str_starts(ws, never_below[i]))
            return err_set(err, -EPERM, "'%s' cannot be the workspace: nothing below %s can", ws, never_below[i]);
    if (path_holds(ws, h->home) || path_holds(ws, h->passwd_home))
        return err_set(
            err, -EPERM,
            "'%s' cannot be the workspace: your home, with its keys and tokens, would be inside; go to a project folder or use -C DIR",
            ws);
    return own_check(h, err);
}

void plan_add(struct plan *p, struct step step) {
    if (VEC_RESERVE(p->steps, p->n_steps, p->cap_steps, 128) < 0)
        p->failed = true;
    else
        p->steps[p->n_steps++] = step;
}

const char *plan_own(struct plan *p, char *s) {
    if (strv_add_take(&p->owned, s) == 0)
        return s;
    p->failed = true;
    return NULL;
}

void plan_add_own(struct plan *p, struct step step, char *to, char *from) {
    step.to = plan_own(p, to);
    step.from = from || step.kind != STEP_DIR ? plan_own(p, from) : NULL;
    if (!p->failed)
        plan_add(p, step);
}

uint64_t plan_tmp_on_disk(const struct settings *s, enum rung rung) {
    const struct limits *l = &s->limits;
    uint64_t size = l->disk && l->disk < l->tmp ? l->disk : l->tmp;

    /* Where nothing can be mounted they are in a folder anyway; it is watched if a size was asked for. */
    return rung == RUNG_LANDLOCK || size > limits_tmp_in_memory(l) ? size : 0;
}

static void make_limits(const struct settings *s, struct plan *p) {
    p->limits = s->limits;
    p->tmp_size = plan_tmp_on_disk(s, p->rung);
    p->private_size = s->limits.tmp && !p->tmp_size ? s->limits.tmp : limits_tmp_in_memory(&s->limits);
    if (s->limits.disk && s->limits.disk < p->private_size)
        p->private_size = s->limits.disk;
}

/* The user's own path, so that messages and caches agree on it, unless something else has to be there. */
static const char *home_inside(const struct host_facts *h) {
    static const char *const taken[] = {"/bin",    "/boot", "/dev", "/etc",  "/lib", "/lib32", "/lib64",
                                        "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr",   "/workspace"};

    if (h->uid == 0 || !h->home || h->home[1] == 0)
        return "/home/bawn";
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (path_holds(taken[i], h->home))
            return "/home/bawn";
    return h->home;
}

/* The folder that home and /tmp are in, if they are in one. A dry run makes none. */
static int make_private_dir(const struct host_facts *h, const struct plan_input *in, struct plan *p, struct err *err) {
    CLEANUP(freep) char *place = NULL;
    int r = p->tmp_size && !in->private_dir ? paths_state(h->environ_, h->home, PLAN_PRIVATE, &place, err) : 0;

    if (r < 0 || (rung_has_root(p->rung) && !p->tmp_size))
        return r;
    p->private_dir =
        plan_own(p, in->private_dir ? strdup(in->private_dir) : str_dupf("%s/bawn-run-XXXXXX", place ? place : "/tmp"));
    return p->failed ? err_oom(err) : 0;
}

/* Home and /tmp: mounts of the sandbox's own, or, where nothing can be mounted, a folder made for this run. */
static int make_places(const struct host_facts *h, const struct plan_input *in, struct plan *p, struct err *err) {
    /* Without mounts the copy is where it is. */
    bool at_copy = p->rung == RUNG_LANDLOCK && p->mode == WORKSPACE_SYNC && in->workspace.run_dir;
    int r = make_private_dir(h, in, p, err);

    if (r < 0)
        return r;
    p->hostname = plan_own(p, strdup(in->hostname ? in->hostname : "bawn"));
    p->workspace = plan_own(p, at_copy ? str_dupf("%s/tree", in->workspace.run_dir) : strdup(h->workspace));
    if (p->rung == RUNG_LANDLOCK) {
        p->home = plan_own(p, in->home.persistent ? strdup(in->home.persistent) : str_dupf("%s/home", p->private_dir));
        p->tmp = plan_own(p, str_dupf("%s/tmp", p->private_dir));
    } else {
        p->home = plan_own(p, strdup(home_inside(h)));
        p->tmp = "/tmp";
    }
    return p->failed ? err_oom(err) : 0;
}

/* What an earlier life of the sandbox left in its home is the inside's word: these steps go there on foot. Not those below a workspace
 * that is in there: it is mounted by then, and nothing is made or put aside in the user's own folder. */
static void mark_home(struct plan *p) {
    for (size_t i = 0; rung_has_root(p->rung) && i < p->n_steps; i++) {
        struct step *s = &p->steps[i];

        s->at_home = !str_below(s->to, p->workspace) && s->kind != STEP_HIDE_AGAIN && str_below(s->to, p->home);
    }
}

/* Files of other ids in a folder of the user's could be neither read nor removed by their user. In the run's own folder they are given back at its end
 * (workspace/run/settle.h). run_ids.c lets none of this come here. */
static int take_more_ids(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    bool shared = s->workspace.volumes.len || (in->home.agent && in->home.agent->len);

    if (!in->more.uids.n || !in->more.gids.n)
        return 0;
    for (size_t i = 0; i < s->n_mounts; i++)
        shared |= s->mounts[i].writable;
    if (shared || p->mode == WORKSPACE_DIRECT)
        return err_usage(err, "several ids inside do not go with a writable folder of the host's; use --system-ids one");
    p->ids.more_uids = in->more.uids;
    p->ids.more_gids = in->more.gids;
    return 0;
}

/* Root inside; outside it is who it was. */
static int take_system(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    if (s->system_view != SYSTEM_WRITABLE)
        return 0;
    if (!rung_has_root(p->rung))
        return err_set(err, -EOPNOTSUPP,
                       "--system writable needs user namespaces, which are not available here (see 'bawn doctor'); leave it out");
    p->writable_system = true;
    p->ids.inside_uid = p->ids.inside_gid = 0;
    p->ids.user = "root";
    return take_more_ids(s, in, p, err);
}

/* Direct mode's guard answers calls by path, and a container has another root; the host would see what layers have (set-id files). */
static int take_nested(const struct settings *s, const struct plan_input *in, struct plan *p, struct err *err) {
    if (!in->nested)
        return 0;
    if (p->rung != RUNG_FULL)
        return err_set(
            err, -EOPNOTSUPP,
            "--nested needs user and network namespaces, which are not both available here (see 'bawn doctor'); leave it out");
    if (p->mode == WORKSPACE_DIRECT)
        return err_usage(err, "--nested does not go with the workspace in direct mode; use -w overlay, sync, worktree or ro");
    if (p->writable_system)
        return err_usage(err, "--nested does not go with --system writable; use one of them");
    for (size_t i = 0; i < s->n_mounts; i++)
        if (s->mounts[i].writable)
            return err_usage(err, "--nested does not go with the writable mount '%s'; show it read-only", s->mounts[i].to);
    p->nested = true;
    plan_nested_ids(&p->ids);
    return 0;
}

static int make_parts(const struct settings *s, const struct host_facts *h, const struct plan_input *in, struct plan *p,
                      struct err *err) {
    int r = make_places(h, in, p, err);

    if (r < 0)
        return r;
    p->cwd = in->image && in->image->workdir ? in->image->workdir : p->workspace;
    r = plan_make_root(s, h, in, p, err);
    if (r < 0)
        return r;
    plan_make_trust(in, p);
    plan_make_credentials(in, p);
    plan_make_bare_home(in, p);
    if (p->home_persistent)
        mark_home(p);
    r = plan_make_env(s, h, in, p, err);
    return r < 0 ? r : p->failed ? err_oom(err) : 0;
}

int plan_make(const struct settings *s, const struct host_facts *h, const struct plan_input *in, enum rung rung, struct plan *ret,
              struct err *err) {
    struct plan p = {.rung = rung,
                     .mode = settings_workspace_mode(s),
                     .network = s->net.mode != NETWORK_NONE && !in->no_network,
                     .umask_ = h->umask_,
                     .landlock_abi = h->landlock_abi,
                     .home_persistent = in->home.persistent != NULL,
                     .argv = in->argv,
                     .argc = in->argc};
    int r = plan_check_workspace(h, err);

    if (r < 0)
        return r;
    make_ids(h, in, rung, &p.ids);
    make_limits(s, &p);
    r = take_image(in, &p, err);
    r = r < 0 ? r : take_system(s, in, &p, err);
    r = r < 0 ? r : take_nested(s, in, &p, err);
    r = r < 0 ? r : make_parts(s, h, in, &p, err);
    if (r < 0) {
        plan_done(&p);
        return r;
    }
    *ret = p;
    return 0;
}

void plan_done(struct plan *p) {
    free(p->steps);
    strv_done(&p->env);
    strv_done(&p->owned);
    *p = (struct plan){0};
}
