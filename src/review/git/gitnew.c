/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the repositories of a change set, one place after the other. */
#include "review/git/gitnew.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/git/gitnew_priv.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitrepo.h"

enum { HEX_SHOWN = 12, REASON_MAX = 4096 };

void gitnew_done(struct gitnew *n) {
    for (size_t i = 0; i < n->n; i++)
        risk_list_done(&n->v[i].risks);
    free(n->v);
    if (n->branch)
        free(n->branch->path);
    free(n->branch);
    strv_done(&n->hold);
    *n = (struct gitnew){0};
}

int gitnew_item(struct gitnew *n, const struct change *carrier, size_t *ret) {
    if ((n->n == 0 || n->v[n->n - 1].carrier != carrier) && VEC_ADD(n->v, n->n, (struct gitnew_item){.carrier = carrier}) < 0)
        return -ENOMEM;
    *ret = n->n - 1;
    return 0;
}

static size_t count_level(const struct risk_list *l, enum risk_level level) {
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->v[i].level == level;
    return n;
}

/* "'.envrc' in commit 0123456789ab: " */
static void add_risk_place(const struct repo *g, const char *path, struct buf *b) {
    char hex[ID_HEX_SIZE];

    if (!path)
        return;
    buf_addf(b, "'%s' in ", path);
    if (g->commit) {
        id_write(g->commit, g->id_len, hex);
        buf_addf(b, "commit %.*s: ", HEX_SHOWN, hex);
    } else {
        buf_adds(b, "the index: ");
    }
}

int gitnew_add(struct repo *g, enum risk_class class, enum risk_level level, unsigned line, const char *path, const char *fmt,
               ...) {
    struct gitnew_item *it = &g->out->v[g->item];
    struct risk r = {.class = class, .level = level, .line = line};
    struct buf b = BUF_INIT(16 * REASON_MAX);
    char hex[ID_HEX_SIZE], text[REASON_MAX];
    va_list ap;

    it->level = MAX_OF(it->level, level);
    if (count_level(&it->risks, level) >= GITNEW_SHOWN_MAX) {
        it->more[level]++;
        return 0;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_risk_place(g, path, &b);
    buf_adds(&b, text);
    r.reason = buf_take(&b);
    r.path = path ? strdup(path) : NULL;
    if (path && g->commit) {
        id_write(g->commit, g->id_len, hex);
        r.id = strdup(hex);
    }
    if (!r.reason || (path && !r.path) || (path && g->commit && !r.id)) {
        free(r.reason);
        free(r.path);
        free(r.id);
        return -ENOMEM;
    }
    return risk_append(&it->risks, r);
}

/* A risk_context.look for commits. */
static int look_commit(void *arg, const char *path, mode_t *ret_mode, char **ret_link) {
    struct repo *g = arg;
    struct object o = {0};
    uint32_t mode;
    struct id id;
    int r = g->commit ? tree_path(g, &g->root, path, &mode, &id) : 0;

    if (r <= 0)
        return r;
    *ret_mode = (mode & 0170000) == MODE_LINK ? S_IFLNK : (mode & 0170000) == 0100000 ? S_IFREG : S_IFDIR;
    if (S_ISLNK(*ret_mode) && objects_read(g->objects, id.b, &o) == 0)
        r = (*ret_link = strndup((char *)o.data, o.len)) ? 1 : -ENOMEM;
    object_done(&o);
    return r;
}

/* What could not be judged at this place. */
static int add_unexamined(struct repo *g) {
    int r = 0;

    if (g->missing || g->damaged || g->left)
        g->hold = true;
    if (g->missing)
        r = gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "%zu %s not in the repository, and cannot be examined", g->missing,
                       str_plural(g->missing, "object that it leads to is", "objects that it leads to are"));
    if (r == 0 && g->damaged)
        r = gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "%zu %s damaged or not what the name says", g->damaged,
                       str_plural(g->damaged, "object that it leads to is", "objects that it leads to are"));
    if (r == 0 && g->left)
        r = gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "%zu more %s not examined", g->left,
                       str_plural(g->left, "commit, tree or object was", "commits, trees or objects were"));
    g->missing = g->damaged = g->left = 0;
    return r;
}

/* A file of a git directory in one version, of any size that git's own files have. */
static int read_side(const struct repo *g, const struct change *ch, bool now, struct risk_text *ret) {
    mode_t mode = now ? ch->new_.mode : ch->old_.mode;

    /* A renamed file was elsewhere: nothing of it was here. */
    if (!S_ISREG(mode) || (!now && (ch->kind == CHANGE_ADDED || ch->kind == CHANGE_RENAMED)))
        return (ret->data = calloc(1, 1)) ? 0 : -ENOMEM;
    return risk_text_read_some(now ? change_open_new(g->ctx.set, ch) : change_open_old(g->ctx.set, ch), GITNEW_FILE_MAX, ret);
}

/* Replaced objects are what git shows instead of any other, wherever the ref is stored. */
static int judge_replaced(struct repo *g, const struct risk_text *was, const struct risk_text *now) {
    if (!memmem(now->data, now->len, " refs/replace/", 14) || memmem(was->data, was->len, " refs/replace/", 14))
        return 0;
    g->hold = true;
    return gitnew_add(g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "refs/replace makes git show other objects in the place of real ones");
}

/* kind ANY: any file with digits in it; what is no object there means nothing. */
static int judge_tips(struct repo *g, enum tips_kind kind, const struct id_list *tips) {
    enum risk_level level = RISK_NONE;
    size_t led = 0;
    char hex[ID_HEX_SIZE];
    int r = 0;

    for (size_t i = tips->n; r >= 0 && i > 0; i--) { /* of a reflog the latest first */
        enum risk_level one = RISK_NONE;

        r = walk_tip(g, &tips->v[i - 1], &one);
        g->missing += r > 0 && kind != TIPS_ANY;
        led = one > level ? i - 1 : led;
        level = MAX_OF(level, one);
    }
    r = r < 0 ? r : add_unexamined(g);
    if (r < 0 || level <= g->out->v[g->item].level)
        return r;
    id_write(&tips->v[led], g->id_len, hex);
    return gitnew_add(g, RISK_GIT_DIR, level, 0, NULL, "it leads to commit %.*s, whose risks are named at another ref or log",
                      HEX_SHOWN, hex);
}

static int judge_carrier(struct repo *g, const struct change *ch, enum tips_kind kind) {
    CLEANUP(risk_text_done) struct risk_text was = {0}, now = {0};
    struct id_list tips = {0};
    int r = read_side(g, ch, false, &was);

    r = r < 0 ? r : read_side(g, ch, true, &now);
    r = r < 0 ? r : gitnew_item(g->out, ch, &g->item);
    if (r < 0)
        return r;
    if (kind == TIPS_INDEX) {
        r = entry_judge_index(g, &was, &now);
        return r < 0 ? r : add_unexamined(g);
    }
    g->left += !now.whole;
    r = str_ends(ch->path, "/packed-refs") ? judge_replaced(g, &was, &now) : 0;
    r = r < 0 ? r : tips_new(kind, g->id_len, &was, &now, &tips);
    if (r == -EFBIG) {
        g->left++;
        r = 0;
    }
    r = r < 0 ? r : judge_tips(g, kind, &tips);
    free(tips.v);
    return r;
}

/* Branches first: that is where the user looks. Then the index, then what only leads to the same commits. */
static const char *const order[] = {"refs/*", "packed-refs|index|sharedindex.*", "*"};

static int judge_carriers(struct repo *g) {
    size_t len = strlen(g->dir);
    int r = 0;

    for (size_t turn = 0; turn < ARRAY_LEN(order); turn++)
        for (size_t i = 0; r == 0 && i < g->ctx.set->n; i++) {
            const struct change *ch = &g->ctx.set->v[i];
            const char *name = ch->path + len + 1;
            size_t first = 0;

            if (ch->hidden || !S_ISREG(ch->new_.mode) || !str_starts(ch->path, g->dir) || ch->path[len] != '/' ||
                tips_kind(name) == TIPS_NONE)
                continue;
            while (!risk_glob(order[first], name, strlen(name)))
                first++;
            if (first == turn)
                r = judge_carrier(g, ch, tips_kind(name));
        }
    return r;
}

/* Not examined, and obeyed or believed: a rule of risk_rules says so, and sync mode must not carry it. */
static const char never_carried[] =
    "rebase-merge|rebase-merge/*|rebase-apply|rebase-apply/*|sequencer|sequencer/*|reftable|reftable/*|"
    "worktrees/*/rebase-merge*|worktrees/*/rebase-apply*|worktrees/*/sequencer*|worktrees/*/reftable*|"
    "objects/info/commit-graphs|objects/info/commit-graphs/*|objects/pack/multi-pack-index*";

static int hold_the_rest(struct repo *g) {
    size_t len = strlen(g->dir);
    int r = 0;

    for (size_t i = 0; r == 0 && i < g->ctx.set->n; i++) {
        const char *path = g->ctx.set->v[i].path, *name = path + len + 1;
        mode_t mode = g->ctx.set->v[i].new_.mode;

        if (str_starts(path, g->dir) && path[len] == '/' && mode &&
            (S_ISLNK(mode) || risk_glob(never_carried, name, strlen(name)))) /* git makes no links, and follows them */
            r = strv_add(&g->out->hold, path);
    }
    return r;
}

static void repo_done(struct repo *g) {
    g->out->spent = g->objects ? objects_spent(g->objects) : g->out->spent;
    g->out->steps = g->steps;
    objects_free(g->objects);
    idmap_done(&g->old);
    idmap_done(&g->commits);
    idmap_done(&g->seen);
    free(g->frontier.v);
}

/* As the changes leave it. */
static int is_sha256(const struct risk_context *ctx, const char *dir, bool *ret) {
    CLEANUP(freep) char *path = str_dupf("%s/config", dir);
    const struct change *ch = path ? change_find(ctx->set, path) : NULL;
    CLEANUP(risk_text_done) struct risk_text text = {0};
    int root = ctx->set->host_root >= 0 ? ctx->set->host_root : ctx->set->new_root, fd = -1;

    if (!path)
        return -ENOMEM;
    if (ch)
        fd = change_open_new(ctx->set, ch);
    else if (root >= 0)
        fd = safepath_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    if (risk_text_read(fd, &text) < 0)
        return -ENOMEM;
    *ret = gitconfig_is_sha256(text.data, text.len);
    return 0;
}

static int repo_init(struct repo *g, const struct risk_context *ctx, const char *dir, struct gitnew *out) {
    bool sha256 = false;
    int r = is_sha256(ctx, dir, &sha256);

    *g = (struct repo){.ctx = *ctx, .dir = dir, .out = out, .id_len = sha256 ? 32 : 20, .steps = out->steps};
    g->ctx.look = look_commit;
    g->ctx.look_arg = g;
    if (r == 0)
        g->objects = objects_new(g->id_len, out->spent);
    return r < 0 ? r : g->objects ? 0 : -ENOMEM;
}

static int judge_parts(struct repo *g) {
    static int (*const parts[])(struct repo *) = {tips_gather_old, judge_carriers, objects_judge, hold_the_rest};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = parts[i](g);
    return r;
}

static int judge_repo(const struct risk_context *ctx, const char *dir, struct gitnew *out) {
    CLEANUP(freep) char *store = str_dupf("%s/objects", dir);
    struct repo g;
    int r = repo_init(&g, ctx, dir, out);

    r = r < 0 ? r : store ? objects_add_store(g.objects, ctx->set->new_root, store) : -ENOMEM;
    r = r < 0 ? r : objects_add_store(g.objects, ctx->set->host_root, store);
    r = r < 0 ? r : judge_parts(&g);
    if (r == 0 && g.hold)
        r = strv_addf(&out->hold, "%s/", dir);
    repo_done(&g);
    return r;
}

/* More repositories than people have: the first that is left out says so. */
static int too_many(const struct change *ch, const struct risk_context *ctx, struct gitnew *out) {
    struct repo g = {.ctx = *ctx, .out = out};
    int r = gitnew_item(out, ch, &g.item);

    r = r < 0 ? r : strv_addf(&out->hold, "%.*s/", (int)strcspn(ch->path, "/"), ch->path);
    return r < 0 ? r
                 : gitnew_add(&g, RISK_GIT_DIR, RISK_HIGH, 0, NULL, "there are more repositories than %d: not examined",
                              GITNEW_REPOS_MAX);
}

/* The branch of the run, as it was carried to the repository, against the commit that it began at. */
static int judge_branch(const struct gitnew_args *a, struct gitnew *out) {
    CLEANUP(risk_text_done) struct risk_text tip = {0};
    const struct change_set *set = a->ctx->set;
    int fd = safepath_open(a->run, "tip", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct id_list tips = {0};
    struct id base;
    struct repo g;
    int r;

    if (fd < 0 || !a->base)
        return closep(&fd), 0;
    r = risk_text_read(fd, &tip);
    r = r < 0 ? r : repo_init(&g, a->ctx, ".git", out);
    if (r < 0)
        return r;
    out->branch = calloc(1, sizeof *out->branch);
    if (out->branch) {
        out->branch->kind = CHANGE_MODIFIED;
        out->branch->what = CHANGE_CONTENT;
        out->branch->old_.mode = out->branch->new_.mode = S_IFREG | 0644;
        out->branch->path = str_dupf(".git/refs/heads/bawn/%s", a->name);
    }
    r = out->branch && out->branch->path ? gitnew_item(out, out->branch, &g.item) : -ENOMEM;
    r = r < 0 ? r : objects_add_store(g.objects, a->run, "git/objects");
    r = r < 0 ? r : objects_add_store(g.objects, set->host_root, ".git/objects");
    if (r == 0 && strlen(a->base) == 2 * g.id_len && id_read(a->base, g.id_len, &base)) {
        r = tips_add_old(&g, &base);
        if (r == 0)
            g.has_head = walk_tree_of(&g, &base, &g.head) == 0;
    }
    r = r < 0 ? r : tips_new(TIPS_LINES, g.id_len, &(struct risk_text){0}, &tip, &tips);
    r = r < 0 ? r : judge_tips(&g, TIPS_LINES, &tips);
    free(tips.v);
    repo_done(&g);
    return r;
}

static int add_more(struct gitnew *n) {
    for (size_t i = 0; i < n->n; i++)
        for (int level = RISK_HIGH; level > RISK_NONE; level--) {
            struct risk r = {.class = RISK_GIT_DIR, .level = (enum risk_level)level};

            if (!n->v[i].more[level])
                continue;
            r.reason = str_dupf("and %zu more in commits or the index", n->v[i].more[level]);
            if (!r.reason || risk_append(&n->v[i].risks, r) < 0)
                return -ENOMEM;
        }
    return 0;
}

int gitnew_judge(const struct gitnew_args *a, struct gitnew *ret, struct err *err) {
    CLEANUP(strv_done) struct strv dirs = {0};
    CLEANUP(gitnew_done) struct gitnew n = {0};
    int r = repos_find(a->ctx, &dirs);

    if (r > 0)
        r = too_many(&a->ctx->set->v[r], a->ctx, &n);
    for (size_t i = 0; r == 0 && i < dirs.len; i++)
        r = judge_repo(a->ctx, dirs.v[i], &n);
    if (r == 0 && a->mode == WORKSPACE_WORKTREE)
        r = judge_branch(a, &n);
    r = r < 0 ? r : add_more(&n);
    if (r < 0)
        return err_oom(err);
    *ret = TAKE(n, (struct gitnew){0});
    return 0;
}
