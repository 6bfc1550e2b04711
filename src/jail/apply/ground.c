/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ground of a root, or makes it. */
#include "jail/apply/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "jail/apply/apply_priv.h"
#include "jail/apply/template.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/hidden.h"
#include "os/mountapi.h"
#include "os/remove.h"

enum { BOOT_SIZE = 64 };

struct ground_place {
    char kind; /* as in struct ground */
    mode_t mode;
    const char *to, *text; /* content of a file, target of a link; NULL: empty */
};

struct ground_making {
    struct ground_place *places;
    size_t n;
    struct strv links; /* targets that were read */
    struct sha256 hash;
};

static void making_done(struct ground_making *m) {
    free(TAKE_PTR(m->places));
    strv_done(&m->links);
}

/* Covers of hidden files, where /proc will be (apply_root.c). */
static const struct ground_place covers[] = {{'d', 0, "/proc/dir", NULL}, {'f', 0, "/proc/file", NULL}};

static bool can_have(const struct plan *p) {
    if (!rung_has_root(p->rung) || p->image || p->writable_system || p->nested || p->tmp_size || p->home_persistent ||
        plan_ids_many(&p->ids))
        return false;
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].tracked.n || p->steps[i].at_home)
            return false;
    return true;
}

/* A run of a service (spec/gate-protocol.md) has a workspace of its own, and so a root that no other has: a ground would be made for it alone. */
static bool is_of_service(char *const *environ_) {
    return paths_getenv(environ_, "BAWN_METER");
}

static void place_add(struct ground_making *m, struct ground_place place) {
    sha256_add(&m->hash, &place.kind, sizeof place.kind);
    sha256_add(&m->hash, &place.mode, sizeof place.mode);
    sha256_add(&m->hash, place.to, strlen(place.to) + 1);
    if (place.text)
        sha256_add(&m->hash, place.text, strlen(place.text) + 1);
    m->places[m->n++] = place;
}

/* A link of the host's stays one. */
static int read_link(struct ground_making *m, const struct step *s) {
    char target[PATH_MAX];
    ssize_t n = readlink(s->from, target, sizeof target - 1);
    int r;

    if (n < 0)
        return -errno;
    target[n] = 0;
    r = strv_add(&m->links, target);
    if (r == 0)
        place_add(m, (struct ground_place){'l', 0, s->to, m->links.v[m->links.len - 1]});
    return r;
}

/* Where something of the host's is mounted. */
static int point_add(struct ground_making *m, const struct step *s) {
    bool follow = s->kind == STEP_EXTRA || s->ours;
    struct stat st;

    if ((follow ? stat(s->from, &st) : lstat(s->from, &st)) < 0)
        return s->optional && (errno == ENOENT || errno == ENOTDIR) ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return read_link(m, s);
    place_add(m, S_ISDIR(st.st_mode) ? (struct ground_place){'d', 0755, s->to, NULL}
                                     : (struct ground_place){'f', 0444, s->to, NULL});
    return 0;
}

static int step_add(struct ground_making *m, const struct step *s) {
    if (s->kind == STEP_RO || s->kind == STEP_EXTRA)
        return point_add(m, s);
    if (s->kind == STEP_DIR)
        place_add(m, (struct ground_place){'d', s->mode ? s->mode : 0755, s->to, NULL});
    else if (s->kind == STEP_SYMLINK)
        place_add(m, (struct ground_place){'l', 0, s->to, s->from});
    else if (s->kind == STEP_FILE)
        place_add(m, (struct ground_place){'f', s->mode, s->to, s->from});
    else if (s->kind == STEP_DEVICE)
        place_add(m, (struct ground_place){'f', 0444, s->to, NULL});
    else if (s->kind == STEP_PRIVATE || s->kind == STEP_WORKSPACE || s->kind == STEP_OVERLAY)
        place_add(m, (struct ground_place){'d', 0755, s->to, NULL});
    return 0;
}

static int describe(struct ground_making *m, const struct plan *p, char *kinds, char name[static SHA256_HEX_SIZE]) {
    char boot[BOOT_SIZE];
    int r = (int)fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);

    m->places = calloc(p->n_steps + ARRAY_LEN(covers), sizeof *m->places);
    if (r < 0 || !m->places)
        return r < 0 ? r : -ENOMEM;
    sha256_init(&m->hash);
    sha256_add(&m->hash, boot, strlen(boot) + 1);
    for (size_t i = 0; i < ARRAY_LEN(covers); i++)
        place_add(m, covers[i]);
    for (size_t i = 0; i < p->n_steps; i++) {
        size_t before = m->n;

        r = template_leaves(p, p->steps[i].to) ? 0 : step_add(m, &p->steps[i]);
        if (r < 0)
            return r;
        kinds[i] = m->n > before ? m->places[before].kind : 0;
    }
    sha256_end_hex(&m->hash, name);
    return 0;
}

static int make_place(int root, const struct ground_place *at) {
    const char *to = at->to + 1;

    if (at->kind == 'd')
        return dir_make(root, to, at->mode, 0755);
    if (at->kind == 'f')
        return root_make_file(root, to, at->text, at->mode);
    return symlinkat(at->text, root, to) < 0 ? -errno : 0;
}

static int make_places(const struct ground_making *m, int root) {
    mode_t before = umask(0);
    int r = fchmod(root, 0755) < 0 ? -errno : 0;

    for (size_t i = 0; r == 0 && i < m->n; i++) {
        r = make_place(root, &m->places[i]);
        if (r == -ENOENT && (r = root_make_parent(root, m->places[i].to + 1)) == 0)
            r = make_place(root, &m->places[i]);
    }
    umask(before);
    return r;
}

static void remove_unused(int parent, const char *name) {
    struct err ignored;
    CLEANUP(closep) int fd = hidden_open(parent, "root", name, &ignored);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && hidden_is_in_place(parent, name, fd))
        hidden_remove(parent, fd, "root", name, &ignored);
}

static void sweep(int parent) {
    CLEANUP(strv_done) struct strv names = {0};

    hidden_sweep(parent);
    if (dir_names(parent, ".", &names) < 0 || names.len <= GROUNDS_MAX)
        return;
    for (size_t i = 0; i < names.len; i++)
        remove_unused(parent, names.v[i]);
}

/* -EEXIST: another start was faster. */
static int make(const struct ground_making *m, int parent, const char *name) {
    char hidden[HIDDEN_NAME_SIZE];
    CLEANUP(closep) int fd = -1;
    int r = hidden_lock(parent);

    if (r < 0)
        return r;
    r = fd = hidden_make(parent, hidden);
    hidden_unlock(parent);
    if (r < 0)
        return r;
    r = make_places(m, fd);
    r = r < 0 ? r : hidden_publish(parent, hidden, name);
    if (r < 0) {
        remove_tree(parent, hidden);
        return r;
    }
    return 0;
}

/* Locked before it is looked at: what is in place then stays. */
static int open_locked(int parent, const char *name) {
    CLEANUP(closep) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -errno;
    return hidden_is_in_place(parent, name, fd) ? TAKE_FD(fd) : -ENOENT;
}

static int find(const struct ground_making *m, const char *folder, const char *name) {
    struct err ignored;
    CLEANUP(closep) int parent = paths_open_own(folder, true, "they could change the root of your sandboxes", &ignored);
    int fd = parent < 0 ? parent : open_locked(parent, name), r;

    if (fd != -ENOENT)
        return fd;
    sweep(parent);
    r = make(m, parent, name);
    return r < 0 && r != -EEXIST ? r : open_locked(parent, name);
}

/* $XDG_RUNTIME_DIR is made by the system at login, never here. */
static int runtime_folder(char *const *environ_, char **ret) {
    const char *given = paths_getenv(environ_, "XDG_RUNTIME_DIR");
    struct err ignored;

    if (given && access(given, F_OK) < 0)
        return -errno;
    return paths_runtime(environ_, ret, &ignored);
}

int ground_take(const struct plan *p, char *const *environ_, struct ground *ret) {
    CLEANUP(ground_done) struct ground g = GROUND_INIT;
    CLEANUP(making_done) struct ground_making m = {0};
    CLEANUP(freep) char *runtime = NULL, *folder = NULL;
    char name[SHA256_HEX_SIZE];
    int r = can_have(p) && !is_of_service(environ_) ? runtime_folder(environ_, &runtime) : -EOPNOTSUPP;

    if (r < 0 || !runtime)
        return r < 0 ? r : -ENOENT;
    g.kinds = calloc(p->n_steps + 1, 1);
    r = g.kinds ? describe(&m, p, g.kinds, name) : -ENOMEM;
    if (r < 0)
        return r;
    folder = str_dupf("%s/roots", runtime);
    g.path = folder ? str_dupf("%s/%s", folder, name) : NULL;
    r = g.path ? g.lock = find(&m, folder, name) : -ENOMEM;
    if (r < 0)
        return r;
    *ret = TAKE(g, (struct ground)GROUND_INIT);
    return 0;
}

void ground_done(struct ground *g) {
    free(TAKE_PTR(g->path));
    free(TAKE_PTR(g->kinds));
    closep(&g->lock);
}

int ground_mount(const struct ground *g) {
    CLEANUP(closep) int tree = mount_clone(AT_FDCWD, g->path, false);
    struct stat found, mounted;

    if (tree < 0)
        return tree;
    if (fstat(g->lock, &found) < 0 || fstat(tree, &mounted) < 0)
        return -errno;
    return found.st_dev == mounted.st_dev && found.st_ino == mounted.st_ino ? TAKE_FD(tree) : -ESTALE;
}

bool ground_holds(const struct ground *g, const struct plan *p, const struct step *s) {
    char kind = g->kinds[s - p->steps];

    if (s->kind == STEP_RO)
        return !template_leaves(p, s->to) && (kind == 0 || kind == 'l');
    return kind && (s->kind == STEP_DIR || s->kind == STEP_SYMLINK || s->kind == STEP_FILE);
}
