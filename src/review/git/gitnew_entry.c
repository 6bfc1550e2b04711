/* SPDX-License-Identifier: Apache-2.0 */
/* One path in a commit or in the index: judged like a file. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "review/git/gitnew_priv.h"
#include "workspace/apply/apply.h"
#include "workspace/git/gitindex.h"
#include "workspace/hide/ignore.h"

static mode_t mode_of(uint32_t mode) {
    switch (mode & 0170000) {
    case MODE_LINK:
        return S_IFLNK | 0777;
    case MODE_GITLINK:
    case MODE_FOLDER:
        return S_IFDIR | 0755;
    default:
        return mode ? S_IFREG | (mode & 0111 ? 0755 : 0644) : 0;
    }
}

/* The content of one side. What is missing is counted, and judged as a file that could not be read. */
static int load_side(struct repo *g, const struct entry_side *s, bool count, struct change_side *side, struct risk_text *text) {
    struct object o = {0};
    int r = S_ISREG(mode_of(s->mode)) || S_ISLNK(mode_of(s->mode)) ? objects_read(g->objects, s->id.b, &o) : -ENOENT;

    side->mode = mode_of(s->mode);
    text->there = S_ISREG(side->mode);
    if (r == -ENOMEM)
        return r;
    if (r < 0 && count && !S_ISDIR(side->mode) && side->mode) {
        g->missing += r == -ENOENT;
        g->damaged += r == -EBADMSG;
        g->left += r == -EFBIG && objects_exhausted(g->objects);
    }
    side->size = o.len;
    text->whole = r == 0;
    if (r == 0 && S_ISLNK(side->mode) && !(side->link = strndup((char *)o.data, o.len)))
        r = -ENOMEM;
    else if (r == 0 && S_ISREG(side->mode)) {
        text->data = (char *)TAKE_PTR(o.data);
        text->len = o.len;
    }
    object_done(&o);
    if (!text->data && !(text->data = calloc(1, 1)))
        return -ENOMEM;
    return r == -ENOMEM ? r : 0;
}

static unsigned what_differs(const struct change *c, const struct entry_side *was, const struct entry_side *now) {
    unsigned what = (c->old_.mode & 07777) != (c->new_.mode & 07777) ? CHANGE_MODE : 0;

    if ((c->old_.mode & S_IFMT) != (c->new_.mode & S_IFMT))
        what |= CHANGE_TYPE;
    if (memcmp(&was->id, &now->id, sizeof was->id) != 0)
        what |= S_ISLNK(c->new_.mode) ? CHANGE_LINK : CHANGE_CONTENT;
    return what;
}

/* The file in the workspace is the same, so that its own risks say it already. */
static bool is_file_too(struct repo *g, const char *path, const struct risk_text *now) {
    const struct change *ch = change_find(g->ctx.set, path);
    CLEANUP(risk_text_done) struct risk_text file = {0};

    if (!ch || ch->hidden || !S_ISREG(ch->new_.mode) || !now->whole || ch->new_.size != now->len)
        return false;
    return risk_text_read(change_open_new(g->ctx.set, ch), &file) == 0 && file.whole && file.len == now->len &&
           memcmp(file.data, now->data, now->len) == 0;
}

/* Sync mode holds such a file back (supervisor/session/stage_end.c): so it does with the commit. */
static bool is_held(const struct repo *g, const struct change *c) {
    const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;

    return ignore_match(g->ctx.protect, c->path, S_ISDIR(c->new_.mode)) == IGNORE_EXCLUDED ||
           (c->new_.link && apply_link_leads_out(c->path, c->new_.link)) ||
           (c->new_.mode && (str_eq(name, "HEAD") || str_eq(name, "commondir")));
}

static int add_risks(struct repo *g, const struct change *c, const struct risk_text *now, const struct risk_list *l,
                     enum risk_level *level) {
    int said = -1, r = 0;

    for (size_t i = 0; r == 0 && i < l->n; i++) {
        const struct risk *k = &l->v[i];

        if (k->level < RISK_HIGH) {
            said = said < 0 ? is_file_too(g, c->path, now) : said;
            if (said)
                continue;
        }
        *level = MAX_OF(*level, k->level);
        r = gitnew_add(g, k->class, k->level, k->line, c->path, "%s", k->reason);
    }
    return r;
}

/* Of most files there is nothing to say, whatever they were: the old version is read only if there may be. */
static int judge_sides(struct repo *g, struct change *c, const struct entry_side *was, const struct risk_text *after,
                       struct risk_list *ret) {
    const struct risk_text none = {.data = (char[1]){0}, .there = S_ISREG(c->old_.mode), .whole = true};
    CLEANUP(risk_text_done) struct risk_text before = {0};
    bool asks_old = true;
    int r = S_ISLNK(c->old_.mode) ? 0 : risk_judge_versions(&g->ctx, c, &none, after, ret, &asks_old, NULL);

    if (r < 0 || !asks_old)
        return r;
    risk_list_done(ret);
    r = load_side(g, was, false, &c->old_, &before);
    return r < 0 ? r : risk_judge_versions(&g->ctx, c, &before, after, ret, NULL, NULL);
}

static int judge_change(struct repo *g, struct change *c, const struct entry_side *was, const struct entry_side *now,
                        enum risk_level *level) {
    CLEANUP(risk_text_done) struct risk_text after = {0};
    CLEANUP(risk_list_done) struct risk_list list = {0};
    int r = load_side(g, now, true, &c->new_, &after);

    if (r < 0)
        return r;
    c->old_.mode = mode_of(was->mode);
    c->kind = !was->mode ? CHANGE_ADDED : !now->mode ? CHANGE_DELETED : CHANGE_MODIFIED;
    c->what = what_differs(c, was, now);
    r = judge_sides(g, c, was, &after, &list);
    if (r < 0)
        return r;
    g->hold |= is_held(g, c);
    if ((now->mode & 0170000) == MODE_GITLINK) {
        *level = MAX_OF(*level, RISK_MEDIUM);
        r = gitnew_add(g, RISK_GIT_DIR, RISK_MEDIUM, 0, c->path,
                       "it is a submodule: git fetches it from the address in .gitmodules, and it brings its own files");
    }
    return r < 0 ? r : add_risks(g, c, &after, &list, level);
}

/* The same entry in another commit needs no second look. */
static void key_of(const struct repo *g, const char *path, const struct entry_side *was, const struct entry_side *now,
                   unsigned char ret[static IDMAP_KEY]) {
    struct sha256 h;
    bool index = !g->commit;

    sha256_init(&h);
    sha256_add(&h, path, strlen(path) + 1);
    sha256_add(&h, &was->mode, sizeof was->mode);
    sha256_add(&h, &was->id, sizeof was->id);
    sha256_add(&h, &now->mode, sizeof now->mode);
    sha256_add(&h, &now->id, sizeof now->id);
    sha256_add(&h, &index, sizeof index);
    sha256_end(&h, ret);
}

int entry_judge(struct repo *g, const char *path, const struct entry_side *was, const struct entry_side *now,
                enum risk_level *ret_level) {
    unsigned char key[IDMAP_KEY];
    enum risk_level level = RISK_NONE;
    const uint32_t *known;
    struct change c = {0};
    int r;

    key_of(g, path, was, now, key);
    known = idmap_find(&g->seen, key);
    if (known) {
        *ret_level = MAX_OF(*ret_level, (enum risk_level) * known);
        return 0;
    }
    c.path = strdup(path);
    r = c.path ? judge_change(g, &c, was, now, &level) : -ENOMEM;
    free(c.path);
    free(c.old_.link);
    free(c.new_.link);
    *ret_level = MAX_OF(*ret_level, level);
    r = r < 0 ? r : idmap_add(&g->seen, key, level);
    return r < 0 ? r : 0;
}

/* The index as a sorted list. */
struct index_entry {
    char *path;
    struct entry_side side;
};
struct index_list {
    struct index_entry *v;
    size_t n;
};

static void index_list_done(struct index_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].path);
    free(l->v);
}

static int note_entry(const struct gitindex_entry *e, void *arg, struct err *err) {
    struct index_list *l = arg;
    struct index_entry *to = VEC_NEW(l->v, l->n);

    if (!to || !(to->path = strdup(e->path))) {
        l->n -= to != NULL;
        return err_oom(err);
    }
    to->side.mode = e->mode;
    memcpy(to->side.id.b, e->id, e->id_len);
    return 0;
}

static int by_path(const void *a, const void *b) {
    const struct index_entry *x = a, *y = b;

    return strcmp(x->path, y->path);
}

/* 0, 1: not understood, -ENOMEM. */
static int index_read(const struct risk_text *t, struct index_list *ret) {
    int r =
        !t->whole || t->len == 0 ? -EBADMSG : gitindex_parse_all((const unsigned char *)t->data, t->len, note_entry, ret, NULL);

    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_path);
    return r == 0 || r == -ENOMEM ? r : 1;
}

static const struct index_entry *index_find(const struct index_list *l, const char *path) {
    const struct index_entry key = {.path = (char *)path};

    return l->n ? bsearch(&key, l->v, l->n, sizeof key, by_path) : NULL;
}

struct index_look {
    struct repo *g;
    const struct index_list *list;
};

/* A risk_context.look. */
static int look_index(void *arg, const char *path, mode_t *ret_mode, char **ret_link) {
    struct index_look *x = arg;
    const struct index_entry *e = index_find(x->list, path);
    size_t lo = 0, hi = x->list->n, len = strlen(path);
    struct object o = {0};
    int r = 1;

    if (e) {
        *ret_mode = mode_of(e->side.mode);
        if (S_ISLNK(*ret_mode) && objects_read(x->g->objects, e->side.id.b, &o) == 0)
            r = (*ret_link = strndup((char *)o.data, o.len)) ? 1 : -ENOMEM;
        object_done(&o);
        return r;
    }
    while (lo < hi) { /* a folder: the first path that is not before "PATH/" */
        size_t mid = lo + (hi - lo) / 2;
        const char *p = x->list->v[mid].path;
        int order = strncmp(p, path, len);

        order = order ? order : (unsigned char)p[len] - '/';
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *ret_mode = S_IFDIR | 0755;
    return lo < x->list->n && str_starts(x->list->v[lo].path, path) && x->list->v[lo].path[len] == '/';
}

/* What was there before: the old index, else the old HEAD. */
static int old_entry(struct repo *g, const struct index_list *old, const char *path, struct entry_side *ret) {
    const struct index_entry *e = index_find(old, path);

    if (e)
        *ret = e->side;
    return e || !g->has_head ? 0 : tree_path(g, &g->head, path, &ret->mode, &ret->id);
}

static int judge_entries(struct repo *g, const struct index_list *old, const struct index_list *now) {
    enum risk_level level = RISK_NONE;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < now->n; i++) {
        const struct index_entry *e = &now->v[i];
        struct entry_side was = {0};

        if (g->steps++ >= GITNEW_STEPS_MAX || (e->side.mode & 0170000) == MODE_FOLDER) {
            g->left++;
            continue;
        }
        r = old_entry(g, old, e->path, &was);
        if (r < 0 || (was.mode == e->side.mode && memcmp(&was.id, &e->side.id, sizeof was.id) == 0))
            continue;
        r = entry_judge(g, e->path, &was, &e->side, &level);
    }
    return r < 0 ? r : 0;
}

int entry_judge_index(struct repo *g, const struct risk_text *was, const struct risk_text *now) {
    CLEANUP(index_list_done) struct index_list old = {0}, list = {0};
    struct index_look look = {g, &list};
    struct risk_context outer = g->ctx;
    int r = index_read(was, &old);

    r = r < 0 ? r : index_read(now, &list);
    if (r > 0)
        g->left++;
    g->ctx.look = look_index;
    g->ctx.look_arg = &look;
    r = r < 0 ? r : judge_entries(g, &old, &list);
    g->ctx = outer;
    return r;
}
