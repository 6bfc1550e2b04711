/* SPDX-License-Identifier: Apache-2.0 */
/* What a tree has that others, those of the parents, have not. */
#include <errno.h>

#include "base/str.h"
#include "review/git/gitnew_priv.h"

/* An entry of a tree; name points into the object. */
struct tree_entry {
    uint32_t mode;
    const char *name;
    size_t len;
    struct id id;
};

/* "MODE NAME" NUL ID. False: the end, or nonsense (then *at is not the end). */
static bool tree_next(const struct repo *g, const struct object *o, size_t *at, struct tree_entry *ret) {
    const char *s, *end, *stop, *space;

    if (*at >= o->len)
        return false;
    s = (const char *)o->data + *at;
    end = (const char *)o->data + o->len;
    stop = memchr(s, 0, (size_t)(end - s));
    if (!stop || (size_t)(end - stop - 1) < g->id_len)
        return false;
    ret->mode = 0;
    for (space = s; *space >= '0' && *space <= '7' && space - s < 7; space++)
        ret->mode = ret->mode << 3 | (uint32_t)(*space - '0');
    if (space == s || *space != ' ' || stop == space + 1)
        return false;
    ret->name = space + 1;
    ret->len = (size_t)(stop - ret->name);
    ret->id = (struct id){{0}};
    memcpy(ret->id.b, stop + 1, g->id_len);
    *at = (size_t)(stop + 1 - (const char *)o->data) + g->id_len;
    return true;
}

/* Trees are sorted, so that the search goes on where the last one ended; in one that is not it starts again. */
static bool tree_find(struct repo *g, const struct object *o, size_t *from, const char *name, size_t len,
                      struct tree_entry *ret) {
    for (int turn = 0; turn < 2; turn++, *from = 0) {
        size_t at = *from, stop = turn ? o->len : SIZE_MAX;

        while (at < stop && tree_next(g, o, &at, ret)) {
            g->steps++;
            if (ret->len == len && memcmp(ret->name, name, len) == 0) {
                *from = at;
                return true;
            }
        }
        if (*from == 0)
            break;
    }
    return false;
}

static bool same_folder(uint32_t mode) {
    return (mode & 0170000) == MODE_FOLDER;
}

/* A tree and those it is compared with. */
struct gitnew_level {
    struct object tree, base[GITNEW_PARENTS_MAX];
    size_t from[GITNEW_PARENTS_MAX];
    size_t n;
};

static void level_done(struct gitnew_level *l) {
    object_done(&l->tree);
    for (size_t i = 0; i < l->n; i++)
        object_done(&l->base[i]);
}

/* Bases that cannot be read are none: more counts as new then. */
static int level_read(struct repo *g, const struct id *tree, const struct id *bases, size_t n, struct gitnew_level *l) {
    int r = tree ? gitnew_read(g, tree, &l->tree) : 0;

    if (r == 0 && tree && l->tree.type != OBJECT_TREE) {
        g->damaged++;
        r = 1;
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        int e = objects_read(g->objects, bases[i].b, &l->base[l->n]);

        if (e == -ENOMEM)
            return e;
        if (e == 0 && l->base[l->n].type == OBJECT_TREE)
            l->n++;
        else
            object_done(&l->base[l->n]);
    }
    return r;
}

static int compare_trees(struct repo *g, struct buf *path, const struct id *tree, const struct id *bases, size_t n,
                         unsigned depth, enum risk_level *level);

static bool is_name(const struct tree_entry *e) {
    return !memchr(e->name, '/', e->len) && !(e->len == 1 && e->name[0] == '.') &&
           !(e->len == 2 && memcmp(e->name, "..", 2) == 0);
}

/* What the bases have under the name of an entry. True: one of them has the very same. */
static bool find_in_bases(struct repo *g, struct gitnew_level *l, const struct tree_entry *e, struct entry_side *was,
                          struct id *folders, size_t *n_folders) {
    for (size_t i = 0; i < l->n; i++) {
        struct tree_entry b;

        if (!tree_find(g, &l->base[i], &l->from[i], e->name, e->len, &b))
            continue;
        if (b.mode == e->mode && memcmp(&b.id, &e->id, sizeof b.id) == 0)
            return true;
        if (same_folder(b.mode))
            folders[(*n_folders)++] = b.id;
        else if (!was->mode)
            *was = (struct entry_side){b.mode, b.id};
    }
    return false;
}

static int push_entry(struct buf *path, const struct tree_entry *e) {
    if (path->len)
        buf_addc(path, '/');
    buf_add(path, e->name, e->len);
    return buf_ok(path) ? 0 : -ENOMEM;
}

static int compare_entry(struct repo *g, struct gitnew_level *l, struct buf *path, const struct tree_entry *e, unsigned depth,
                         enum risk_level *level) {
    CLEANUP(freep) struct id *folders = calloc(GITNEW_PARENTS_MAX, sizeof *folders);
    struct entry_side was = {0}, now = {e->mode, e->id};
    size_t len = path->len, n = 0;
    int r = 0;

    if (!folders)
        return -ENOMEM;
    if (find_in_bases(g, l, e, &was, folders, &n))
        return 0;
    if (push_entry(path, e) < 0)
        return -ENOMEM;
    if (!is_name(e))
        r = gitnew_add(g, RISK_GIT_DIR, *level = RISK_HIGH, 0, buf_str(path), "a tree has a name in it that leads elsewhere");
    else if (same_folder(e->mode))
        r = compare_trees(g, path, &e->id, folders, n, depth + 1, level);
    else
        r = entry_judge(g, buf_str(path), &was, &now, level);
    path->data[path->len = len] = 0;
    return r;
}

/* What the one parent had and the commit has not. */
static int compare_gone(struct repo *g, struct gitnew_level *l, struct buf *path, unsigned depth, enum risk_level *level) {
    static const struct entry_side nothing;
    struct tree_entry b, now;
    size_t at = 0, from = 0, len = path->len;
    int r = 0;

    while (r == 0 && l->n == 1 && tree_next(g, &l->base[0], &at, &b) && g->steps < GITNEW_STEPS_MAX) {
        if (l->tree.data && tree_find(g, &l->tree, &from, b.name, b.len, &now))
            continue;
        if (push_entry(path, &b) < 0)
            return -ENOMEM;
        if (same_folder(b.mode))
            r = compare_trees(g, path, NULL, &b.id, 1, depth + 1, level);
        else
            r = entry_judge(g, buf_str(path), &(struct entry_side){b.mode, b.id}, &nothing, level);
        path->data[path->len = len] = 0;
        g->steps++;
    }
    return r;
}

static int compare_level(struct repo *g, struct gitnew_level *l, struct buf *path, unsigned depth, enum risk_level *level) {
    struct tree_entry e;
    size_t at = 0;
    int r = 0;

    while (r == 0 && g->steps++ < GITNEW_STEPS_MAX && tree_next(g, &l->tree, &at, &e))
        r = compare_entry(g, l, path, &e, depth, level);
    if (r == 0 && at != l->tree.len) {
        if (g->steps < GITNEW_STEPS_MAX)
            g->damaged++;
        else
            g->left++;
    }
    return r < 0 ? r : compare_gone(g, l, path, depth, level);
}

/* tree NULL: it is gone. */
static int compare_trees(struct repo *g, struct buf *path, const struct id *tree, const struct id *bases, size_t n,
                         unsigned depth, enum risk_level *level) {
    struct gitnew_level *l = NULL;
    int r;

    if (depth > GITNEW_DEPTH_MAX || g->steps >= GITNEW_STEPS_MAX || path->len > path->ceiling / 2) {
        g->left++;
        return 0;
    }
    l = calloc(1, sizeof *l);
    r = l ? level_read(g, tree, bases, n, l) : -ENOMEM;
    if (r == 0)
        r = compare_level(g, l, path, depth, level);
    if (l)
        level_done(l);
    free(l);
    return r < 0 ? r : 0;
}

int tree_judge(struct repo *g, const struct id *tree, const struct id *bases, size_t n, enum risk_level *level) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(2 * 4096);

    g->root = *tree;
    if (n == 0 && g->has_head) /* a history of its own: only what the user's HEAD does not have is new */
        return compare_trees(g, &path, tree, &g->head, 1, 0, level);
    return compare_trees(g, &path, tree, bases, n, 0, level);
}

int tree_path(struct repo *g, const struct id *root, const char *path, uint32_t *ret_mode, struct id *ret) {
    struct id tree = *root;

    for (unsigned depth = 0; depth <= GITNEW_DEPTH_MAX && g->steps < GITNEW_STEPS_MAX; depth++) {
        size_t len = strcspn(path, "/"), from = 0;
        struct object o = {0};
        struct tree_entry e;
        int r = objects_read(g->objects, tree.b, &o);
        bool found = r == 0 && o.type == OBJECT_TREE && tree_find(g, &o, &from, path, len, &e);

        if (found) {
            *ret_mode = e.mode;
            *ret = tree = e.id;
        }
        object_done(&o);
        if (r == -ENOMEM || !found)
            return r == -ENOMEM ? r : 0;
        if (path[len] == 0)
            return 1;
        if (!same_folder(*ret_mode))
            return 0;
        path += len + 1;
    }
    return 0;
}
