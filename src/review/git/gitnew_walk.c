/* SPDX-License-Identifier: Apache-2.0 */
/* New commits, and what each of them brings that its parents do not have. */
#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "review/git/gitnew_priv.h"

enum { TAGS_MAX = 16 };

int gitnew_read(struct repo *g, const struct id *id, struct object *ret) {
    int r = objects_read(g->objects, id->b, ret);

    if (r == -ENOENT)
        g->missing++;
    else if (r == -EBADMSG)
        g->damaged++;
    else if (r == -EFBIG)
        g->left++;
    return r == 0 || r == -ENOMEM ? r : 1;
}

static bool next_header(const char **s, const char *end, const char *key, size_t id_len, struct id *ret) {
    size_t len = strlen(key), all = len + 2 * id_len + 1;

    if ((size_t)(end - *s) < all || memcmp(*s, key, len) != 0 || (*s)[all - 1] != '\n' || !id_read(*s + len, id_len, ret))
        return false;
    *s += all;
    return true;
}

/* "tree HEX\nparent HEX\n..." */
static bool commit_parse(const struct repo *g, const struct object *o, struct commit *ret) {
    const char *s = (const char *)o->data, *end = s + o->len;
    struct id more;

    *ret = (struct commit){.n = 0};
    if (!next_header(&s, end, "tree ", g->id_len, &ret->tree))
        return false;
    while (ret->n < GITNEW_PARENTS_MAX && next_header(&s, end, "parent ", g->id_len, &ret->parents[ret->n]))
        ret->n++;
    ret->cut = ret->n == GITNEW_PARENTS_MAX && next_header(&s, end, "parent ", g->id_len, &more);
    return true;
}

/* Quietly: an old commit that is not here (a shallow or borrowed history) ends the old history. */
int walk_commit(struct repo *g, const struct id *id, struct commit *ret) {
    struct object o = {0};
    int r = objects_read(g->objects, id->b, &o);

    if (r == 0 && (o.type != OBJECT_COMMIT || !commit_parse(g, &o, ret)))
        r = -ENOENT;
    object_done(&o);
    return r == 0 || r == -ENOMEM ? r : -ENOENT;
}

int walk_tree_of(struct repo *g, const struct id *commit, struct id *ret) {
    struct commit c;
    int r = walk_commit(g, commit, &c);

    if (r == 0)
        *ret = c.tree;
    return r;
}

/* All of the old history, up to a ceiling: past it, old commits count as new. */
static int expand_old(struct repo *g) {
    while (g->frontier.n > 0 && g->old.n < GITNEW_OLD_MAX) {
        struct id id = g->frontier.v[--g->frontier.n];
        struct commit c;
        int r = walk_commit(g, &id, &c);

        for (size_t i = 0; r == 0 && i < c.n; i++)
            r = tips_add_old(g, &c.parents[i]);
        if (r == -ENOMEM)
            return r;
    }
    return 0;
}

/* Its file was made in the run: no need to look for it in the old history. */
static bool is_fresh(const struct repo *g, const struct id *id) {
    char hex[ID_HEX_SIZE];
    CLEANUP(freep) char *path = NULL;
    const struct change *ch;

    id_write(id, g->id_len, hex);
    path = str_dupf("%s/objects/%.2s/%s", g->dir, hex, hex + 2);
    ch = path ? change_find(g->ctx.set, path) : NULL;
    return ch && ch->kind == CHANGE_ADDED;
}

static int is_old(struct repo *g, const struct id *id) {
    int r;

    if (idmap_find(&g->old, id->b))
        return 1;
    if (g->frontier.n == 0 || is_fresh(g, id))
        return 0;
    r = expand_old(g);
    return r < 0 ? r : idmap_find(&g->old, id->b) != NULL;
}

static int judge_commit(struct repo *g, const struct id *id, const struct commit *c, enum risk_level *level) {
    CLEANUP(freep) struct id *bases = calloc(GITNEW_PARENTS_MAX, sizeof *bases);
    size_t n = 0;
    int r = bases ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < c->n; i++) {
        r = walk_tree_of(g, &c->parents[i], &bases[n]);
        n += r == 0;
        r = r == -ENOENT ? 0 : r;
    }
    g->left += c->cut;
    g->commit = id;
    r = r < 0 ? r : tree_judge(g, &c->tree, bases, n, level);
    g->commit = NULL;
    return r;
}

/* A commit on the way down: its level is known once those of its parents are. */
struct frame {
    struct frame *above;
    struct id id;
    struct commit c;
    size_t next;
    enum risk_level level;
};

static int push(struct repo *g, struct frame **top, const struct id *id) {
    CLEANUP(freep) struct frame *f = calloc(1, sizeof *f);
    struct object o = {0};
    int r = f ? gitnew_read(g, id, &o) : -ENOMEM;

    if (r == 0 && (o.type != OBJECT_COMMIT || !commit_parse(g, &o, &f->c))) {
        g->damaged++;
        r = 1;
    }
    object_done(&o);
    if (r != 0)
        return r;
    f->id = *id;
    f->above = *top;
    *top = TAKE_PTR(f);
    r = idmap_add(&g->commits, id->b, RISK_NONE);
    return r < 0 ? r : judge_commit(g, &(*top)->id, &(*top)->c, &(*top)->level);
}

static int enter(struct repo *g, struct frame **top, const struct id *id, enum risk_level *level) {
    const uint32_t *known = idmap_find(&g->commits, id->b);
    int r;

    if (known) {
        *level = MAX_OF(*level, (enum risk_level) * known);
        return 0;
    }
    r = is_old(g, id);
    if (r != 0)
        return r < 0 ? r : 0;
    if (g->commits.n == GITNEW_COMMITS_MAX) {
        g->left++;
        *level = RISK_HIGH;
        return 0;
    }
    r = push(g, top, id);
    if (r > 0) /* a parent that is not there: how the history goes on is not known */
        *level = RISK_HIGH;
    return r < 0 ? r : 0;
}

static int walk_commits(struct repo *g, const struct id *tip, enum risk_level *ret) {
    struct frame *top = NULL;
    int r = enter(g, &top, tip, ret);

    while (top) {
        struct frame *f = top;

        if (r == 0 && f->next < f->c.n) {
            r = enter(g, &top, &f->c.parents[f->next++], &f->level);
            continue;
        }
        if (r == 0)
            *idmap_find(&g->commits, f->id.b) = f->level;
        top = f->above;
        if (top)
            top->level = MAX_OF(top->level, f->level);
        *ret = MAX_OF(*ret, f->level);
        free(f);
    }
    return r;
}

/* "object HEX\ntype commit\n..." */
static bool tag_target(const struct repo *g, const struct object *o, struct id *ret) {
    const char *s = (const char *)o->data;

    return o->type == OBJECT_TAG && next_header(&s, s + o->len, "object ", g->id_len, ret);
}

int walk_tip(struct repo *g, const struct id *tip, enum risk_level *ret_level) {
    struct id id = *tip;

    for (unsigned i = 0; i < TAGS_MAX; i++) {
        struct object o = {0};
        struct id next;
        bool tag, commit, tree;
        int r = is_old(g, &id);

        if (r != 0)
            return r < 0 ? r : 0;
        r = objects_read(g->objects, id.b, &o);
        if (r == -EFBIG && !objects_exhausted(g->objects))
            return 0; /* only a blob is that large: it has no name, so no place to come out at */
        tag = r == 0 && tag_target(g, &o, &next);
        commit = r == 0 && o.type == OBJECT_COMMIT;
        tree = r == 0 && o.type == OBJECT_TREE;
        object_done(&o);
        if (r < 0)
            return r == -ENOMEM ? r : 1;
        if (commit)
            return walk_commits(g, &id, ret_level);
        if (!tag) {
            g->commit = &id;
            r = tree ? tree_judge(g, &id, NULL, 0, ret_level) : 0;
            g->commit = NULL;
            return r;
        }
        id = next;
    }
    g->left++;
    return 0;
}
