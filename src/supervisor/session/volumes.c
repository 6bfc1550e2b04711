/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and caches of a workspace. */
#include "supervisor/session/volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/copy/place.h"

enum { HASH_DIGITS = 16 };

#define FRESH "cache.new-" /* and the pid of the process that makes it */

/* Belongs to the owner of the workspace. */
static int make_owned(const char *path, const struct host_facts *f, struct err *err) {
    if (mkdir(path, 0755) < 0)
        return errno == EEXIST ? 0 : err_sys(err, -errno, "volume '%s'", path);
    if (f->uid == 0 && lchown(path, f->workspace_uid, f->workspace_gid) < 0)
        return err_sys(err, -errno, "volume '%s'", path);
    return 0;
}

/* A folder that is named after a path. */
static char *folder_of(const char *above, const char *path) {
    char hash[SHA256_HEX_SIZE];

    sha256_hex(path, strlen(path), hash);
    return str_dupf("%s/%.*s", above, HASH_DIGITS, hash);
}

int volumes_path(char *const *environ_, const char *home, const char *workspace, char **ret, struct err *err) {
    CLEANUP(freep) char *all = NULL;
    int r = paths_state_if_home(environ_, home, "volumes", &all, err);

    *ret = r < 0 || !all ? NULL : folder_of(all, workspace);
    return r < 0 ? r : all && !*ret ? err_oom(err) : 0;
}

/* The folder of all projects' volumes, and in it the one of this. */
static int make_below(const char *base, struct err *err) {
    CLEANUP(closep) int all = -1;
    CLEANUP(freep) char *above = strndup(base, (size_t)(strrchr(base, '/') - base));
    int r = above ? paths_make_dirs(above, err) : err_oom(err);

    if (r == 0 && (all = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
        dir_spread(all);
    return r < 0 ? r : paths_make_dirs(base, err);
}

/* *ret is NULL where there is no place for it. */
static int make_base(const struct host_facts *f, char **ret, struct err *err) {
    CLEANUP(freep) char *base = NULL;
    struct err why = {0};
    int r = volumes_path(f->environ_, f->home, f->workspace, &base, err);

    if (r < 0 || !base)
        return r;
    if (access(base, F_OK) == 0 || make_below(base, &why) == 0) /* a home that cannot be written: as if there were none */
        *ret = TAKE_PTR(base);
    return 0;
}

int volumes_folder(const struct host_facts *facts, const char *sub, char **ret, struct err *err) {
    CLEANUP(freep) char *base = NULL, *path = NULL;
    int r = make_base(facts, &base, err);

    if (r == 0 && !base)
        r = err_set(err, -ENOENT, "there is no place for what an agent keeps; set HOME or XDG_STATE_HOME");
    path = r < 0 ? NULL : str_dupf("%s/%s/", base, sub);
    if (r == 0 && !path)
        r = err_oom(err);
    for (char *p = path ? path + strlen(base) + 1 : NULL; r == 0 && (p = strchr(p, '/')); p++) {
        *p = 0;
        r = make_owned(path, facts, err);
        if (p[1])
            *p = '/';
    }
    if (r == 0)
        *ret = TAKE_PTR(path);
    return r;
}

/* Under another name first, so that a volume that is there has all its folders. */
static int fill_caches(const char *fresh, const struct host_facts *f, struct err *err) {
    int r = make_owned(fresh, f, err);

    for (size_t i = 0; r >= 0 && i < n_plan_caches; i++) {
        CLEANUP(freep) char *sub = plan_caches[i].sub ? str_dupf("%s/%s", fresh, plan_caches[i].sub) : NULL;

        if (plan_caches[i].sub)
            r = sub ? make_owned(sub, f, err) : err_oom(err);
    }
    return r;
}

/* What others left that were killed meanwhile. */
static void sweep_fresh(const char *base) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int pid;

    dir_open_linked(base, &d);
    while ((e = dir_next(&d)))
        if (sscanf(e->d_name, FRESH "%d", &pid) == 1 && pid > 0 && process_is_dead(pid, 0))
            remove_tree(d.fd, e->d_name);
}

static int make_caches(struct volumes *v, const struct host_facts *f, struct plan_input *in, struct err *err) {
    CLEANUP(freep) char *fresh = str_dupf("%s/" FRESH "%d", v->base, (int)in->pid);
    int r;

    v->caches = str_dupf("%s/cache", v->base);
    if (!v->caches || !fresh)
        return err_oom(err);
    in->home.caches = v->caches;
    if (access(v->caches, F_OK) == 0)
        return 0;
    sweep_fresh(v->base);
    r = fill_caches(fresh, f, err);
    if (r < 0 || rename(fresh, v->caches) == 0)
        return r;
    remove_tree(AT_FDCWD, fresh); /* another run was faster */
    return access(v->caches, F_OK) == 0 ? 0 : err_sys(err, -errno, "volume '%s'", v->caches);
}

static int make_volume(struct volumes *v, const char *path, const struct host_facts *f, struct err *err) {
    CLEANUP(freep) char *from = folder_of(v->base, path);

    return !from || strv_add(&v->from, from) < 0 ? err_oom(err) : make_owned(from, f, err);
}

/* Direct mode mounts on what is there: the user asked for it by name, so empty folders are made, and taken away again. */
static int make_point(struct volumes *v, const char *path, struct err *err) {
    size_t len = strlen(path);

    for (size_t i = 1; i <= len; i++) {
        CLEANUP(freep) char *part = path[i] == '/' || path[i] == 0 ? strndup(path, i) : NULL;
        CLEANUP(closep) int there = -1;
        int r;

        if (path[i] != '/' && path[i] != 0)
            continue;
        if (!part)
            return err_oom(err);
        there = safepath_open(v->workspace, part, O_PATH | O_DIRECTORY);
        if (there >= 0)
            continue;
        r = there == -ENOENT ? place_dir(v->workspace, part, 0755, err) : err_sys(err, there, "volume '%s'", path);
        if (r < 0)
            return r;
        if (strv_add(&v->made, part) < 0)
            return err_oom(err);
    }
    return 0;
}

int volumes_prepare(struct volumes *v, const struct settings *s, int workspace, const struct host_facts *facts,
                    struct plan_input *in, struct err *err) {
    enum workspace_mode mode = settings_workspace_mode(s);
    int r;

    v->workspace = workspace;
    if (!s->persist_caches && s->workspace.volumes.len == 0)
        return 0;
    r = make_base(facts, &v->base, err);
    if (r < 0)
        return r;
    if (!v->base)
        return s->workspace.volumes.len ? err_set(err, -ENOENT, "workspace.volumes need a place; set HOME or XDG_STATE_HOME") : 0;
    if (s->persist_caches)
        r = make_caches(v, facts, in, err);
    for (size_t i = 0; r >= 0 && i < s->workspace.volumes.len; i++) {
        r = make_volume(v, s->workspace.volumes.v[i], facts, err);
        if (r >= 0 && (mode == WORKSPACE_DIRECT || mode == WORKSPACE_RO))
            r = make_point(v, s->workspace.volumes.v[i], err);
    }
    in->workspace.volumes = &v->from;
    return r < 0 ? r : 0;
}

int volumes_points(const struct settings *s, int tree, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < s->workspace.volumes.len; i++)
        r = place_dir(tree, s->workspace.volumes.v[i], 0755, err);
    return MIN_OF(r, 0);
}

void volumes_done(struct volumes *v) {
    struct err ignored = {0};

    for (size_t i = v->made.len; i-- > 0;)
        place_remove(v->workspace, v->made.v[i], NULL, &ignored);
    strv_done(&v->made);
    strv_done(&v->from);
    free(v->base);
    free(v->caches);
    *v = (struct volumes){0};
}
