/* SPDX-License-Identifier: Apache-2.0 */
/* From the steps of a plan to mounts, files, private folders, and what is made in them. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/container/container.h"
#include "jail/plan/own.h"
#include "os/file.h"
#include "proto/entermsg.h"

enum { COPY_MAX = 1024 * 1024 };

struct container_walk {
    const struct plan *plan;
    const char *folder;
    enum container_root root;
    struct container_plan *out;
    struct err *err;
};

void container_plan_done(struct container_plan *c) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        free(c->mounts[i].from);
        free(c->mounts[i].to);
    }
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i].name);
    for (size_t i = 0; i < c->n_privates; i++)
        free(c->privates[i].path);
    free(c->mounts);
    free(c->files);
    free(c->privates);
    strv_done(&c->root_links);
    strv_done(&c->root_parts);
    strv_done(&c->root_programs);
    strv_done(&c->layers);
    buf_done(&c->list);
    *c = (struct container_plan)CONTAINER_PLAN_INIT;
}

/* Both strings are taken. */
static void add_mount(struct container_plan *c, char *from, char *to, bool writable, bool ours) {
    struct container_mount m = {.from = from, .to = to, .writable = writable, .ours = ours};

    if (from && to && VEC_ADD(c->mounts, c->n_mounts, m) == 0)
        return;
    free(from);
    free(to);
    c->failed = true;
}

/* path is taken. */
static void add_private(struct container_plan *c, char *path, mode_t mode, bool tmpfs) {
    const struct container_private p = {.path = path, .mode = mode, .tmpfs = tmpfs};

    if (path && VEC_ADD(c->privates, c->n_privates, p) == 0)
        return;
    free(path);
    c->failed = true;
}

static bool has_private(const struct container_plan *c, const char *path) {
    for (size_t i = 0; i < c->n_privates; i++)
        if (str_eq(c->privates[i].path, path))
            return true;
    return false;
}

static bool is_private(const struct container_plan *c, const char *path) {
    for (size_t i = 0; i < c->n_privates; i++)
        if (path_holds(c->privates[i].path, path))
            return true;
    return false;
}

static bool is_mounted(const struct container_plan *c, const char *path) {
    for (size_t i = 0; i < c->n_mounts; i++)
        if (path_holds(c->mounts[i].to, path))
            return true;
    return false;
}

/* Made by bawn-enter, as the user of the sandbox. */
static bool is_made_inside(const struct container_plan *c, const struct step *s) {
    return s->at_home || is_private(c, s->to);
}

/* Users, groups and the like are the same in every run of a user. The engine makes files of its own for some names. */
static bool is_for_image(const struct container_walk *w, const char *path) {
    static const char *const by_engine[] = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"};
    bool covered = false;

    for (size_t i = 0; i < w->out->root_parts.len; i++)
        covered |= path_holds(w->out->root_parts.v[i], path);
    return w->root == ROOT_OF_HOST && path_holds("/etc", path) && !covered &&
           str_index(path, by_engine, ARRAY_LEN(by_engine)) < 0;
}

static void add_file(struct container_walk *w, const struct step *s, const char *content, bool link) {
    struct container_plan *c = w->out;
    bool ours = path_holds(CONTAINER_RUN, s->to), in_image = !link && is_for_image(w, s->to);
    char *name = ours       ? str_dupf("run%s", s->to + strlen(CONTAINER_RUN))
                 : in_image ? strdup(s->to + 1)
                            : str_dupf("files/%zu", c->n_files);
    const struct container_file f = {.name = name, .content = content, .link = link, .in_image = in_image, .mode = s->mode};

    if (!name || VEC_ADD(c->files, c->n_files, f) < 0) {
        free(name);
        c->failed = true;
    } else if (!ours && !in_image) {
        add_mount(c, str_dupf("%s/%s", w->folder, name), strdup(s->to), false, true);
    }
}

static void add_item(struct container_walk *w, enum enter_kind kind, const struct step *s, const char *content, size_t len) {
    const struct enter_item i = {
        .kind = kind, .mode = s->mode, .len = (uint32_t)len, .path = s->to, .content = content ? content : ""};

    enter_item_encode(&i, &w->out->list);
}

/* Folders of the root are in the image, or are made by the engine for what is mounted there. */
static int do_dir(struct container_walk *w, const struct step *s) {
    if (is_made_inside(w->out, s))
        add_item(w, ENTER_DIR, s, "", 0);
    return 0;
}

/* The image is the same for all workspaces: its /workspace leads to a link of this run. */
static void add_workspace_link(struct container_walk *w, const struct step *s) {
    const struct step here = {.to = CONTAINER_RUN "/workspace"};

    add_file(w, &here, s->from, true);
    if (strv_add(&w->out->root_links, s->to) < 0 || strv_add(&w->out->root_links, here.to) < 0)
        w->out->failed = true;
}

static int do_symlink(struct container_walk *w, const struct step *s) {
    if (w->root == ROOT_OF_HOST && str_eq(s->to, "/workspace"))
        add_workspace_link(w, s);
    else if (is_made_inside(w->out, s))
        add_item(w, ENTER_SYMLINK, s, s->from, strlen(s->from));
    else if (path_holds(CONTAINER_RUN, s->to))
        add_file(w, s, s->from, true);
    else if (w->root != ROOT_OF_IMAGE && !path_holds("/dev", s->to) && !str_eq(s->to, "/workspace") &&
             (strv_add(&w->out->root_links, s->to) < 0 || strv_add(&w->out->root_links, s->from) < 0))
        w->out->failed = true;
    return 0;
}

static int do_file(struct container_walk *w, const struct step *s) {
    if (is_made_inside(w->out, s))
        add_item(w, ENTER_FILE, s, s->from, strlen(s->from));
    else
        add_file(w, s, s->from, false);
    return 0;
}

/* Where an earlier mount has it on the host; NULL: nowhere. */
static char *find_source(const struct container_plan *c, const char *path) {
    for (size_t i = c->n_mounts; i-- > 0;)
        if (path_holds(c->mounts[i].to, path))
            return str_dupf("%s%s", c->mounts[i].from, path + strlen(c->mounts[i].to));
    for (size_t i = 0; i < c->root_parts.len; i++)
        if (path_holds(c->root_parts.v[i], path))
            return strdup(path);
    return NULL;
}

static int do_copy(struct container_walk *w, const struct step *s) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(COPY_MAX);
    CLEANUP(freep) char *from = find_source(w->out, s->from);
    int r = from ? file_read(from, 0, &text) : -ENOENT;

    if (r < 0)
        return err_sys(w->err, r, "copy '%s' for the container", s->from);
    if (!is_made_inside(w->out, s))
        return err_set(w->err, -EINVAL, "'%s' is no private file", s->to);
    add_item(w, ENTER_FILE, s, buf_str(&text), text.len);
    return 0;
}

/* Of the host's system only where the image has none; what is ours, always. */
static int do_ro(struct container_walk *w, const struct step *s) {
    bool there = !s->optional || access(s->from, F_OK) == 0;

    if (there && w->root == ROOT_OF_HOST && path_holds("/etc", s->from) && str_eq(s->from, s->to) &&
        container_root_take(w->out, s->from))
        return 0;
    if (there && (w->root != ROOT_OF_IMAGE || s->ours) && !path_holds("/sys", s->to))
        add_mount(w->out, strdup(s->from), strdup(s->to), false, s->ours);
    return 0;
}

static int do_private(struct container_walk *w, const struct step *s) {
    if (s->on_disk)
        return err_set(
            w->err, -EOPNOTSUPP,
            "home and /tmp of a container are in memory: --tmp-size is at most half of --memory there (or use --engine native)");
    add_private(w->out, strdup(s->to), s->mode, true);
    return 0;
}

/* The engine makes the folders above a mount in a private area as root; bawn-enter gives them to the user of the sandbox. */
static void add_parents(struct container_plan *c, const char *path) {
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        char *parent = str_dupf("%.*s", (int)(slash - path), path);

        if (parent && is_private(c, parent) && !has_private(c, parent) && !is_mounted(c, parent))
            add_private(c, TAKE_PTR(parent), 0755, false);
        free(parent);
    }
}

/* The copy of the workspace, its git folder, and a home that persists; not what the user mounts. */
static bool is_ours(const struct plan *p, const char *to) {
    return str_eq(to, p->workspace) || path_holds(CONTAINER_RUN, to) || (p->home_persistent && str_eq(to, p->home));
}

static int do_mount(struct container_walk *w, const struct step *s) {
    struct container_plan *c = w->out;
    size_t before = c->n_mounts;

    if (!s->optional || access(s->from, F_OK) == 0)
        add_mount(c, strdup(s->from), strdup(s->to), s->writable, s->ours || is_ours(w->plan, s->to));
    if (c->n_mounts > before)
        c->mounts[before].shared = s->ours;
    add_parents(c, s->to);
    return 0;
}

/* The engine makes these itself. */
static int do_nothing(struct container_walk *w UNUSED, const struct step *s UNUSED) {
    return 0;
}

static int do_layer(struct container_walk *w, const struct step *s) {
    if (strv_add(&w->out->layers, s->from) < 0)
        w->out->failed = true;
    return 0;
}

static int do_refuse(struct container_walk *w, const struct step *s) {
    return err_set(w->err, -EOPNOTSUPP, "a container cannot have '%s' (%s)", s->to, step_kind_names[s->kind]);
}

static int (*const translators[STEP_KIND_COUNT])(struct container_walk *w, const struct step *s) = {
    [STEP_DIR] = do_dir,      [STEP_SYMLINK] = do_symlink,   [STEP_FILE] = do_file,       [STEP_COPY] = do_copy,
    [STEP_RO] = do_ro,        [STEP_PRIVATE] = do_private,   [STEP_DEVICE] = do_nothing,  [STEP_PTS] = do_nothing,
    [STEP_PROC] = do_nothing, [STEP_PROC_RO] = do_nothing,   [STEP_MASK] = do_nothing,    [STEP_WORKSPACE] = do_refuse,
    [STEP_HIDE] = do_refuse,  [STEP_OVERLAY] = do_refuse,    [STEP_WHITEOUT] = do_refuse, [STEP_SUBSTITUTE] = do_refuse,
    [STEP_EXTRA] = do_mount,  [STEP_HIDE_AGAIN] = do_refuse, [STEP_LAYER] = do_layer,
};

/* The workspace has two names inside; an image that is not ours has no link for the second. */
static void add_workspace_again(struct container_plan *c, const struct plan *p, enum container_root root) {
    for (size_t i = 0; root != ROOT_OF_HOST && i < c->n_mounts; i++)
        if (str_eq(c->mounts[i].to, p->workspace)) {
            add_mount(c, strdup(c->mounts[i].from), strdup("/workspace"), c->mounts[i].writable, c->mounts[i].ours);
            return;
        }
}

int container_plan_make(const struct plan *p, const char *folder, enum container_root root, struct container_plan *ret,
                        struct err *err) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    struct container_walk w = {.plan = p, .folder = folder, .root = root, .out = &c, .err = err};
    int r = 0;

    for (size_t i = 0; r == 0 && i < p->n_steps; i++)
        r = translators[p->steps[i].kind](&w, &p->steps[i]);
    if (r < 0)
        return r;
    add_workspace_again(&c, p, root);
    if (c.failed || !buf_ok(&c.list))
        return err_oom(err);
    *ret = TAKE(c, (struct container_plan)CONTAINER_PLAN_INIT);
    return 0;
}
