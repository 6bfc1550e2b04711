/* SPDX-License-Identifier: Apache-2.0 */
/* Which commits the files of a git directory name, and which of them were there before the run. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/git/gitnew_priv.h"
#include "workspace/git/gitrepo.h"

bool id_read(const char *hex, size_t id_len, struct id *ret) {
    *ret = (struct id){{0}};
    return hex_decode(hex, id_len, ret->b);
}

void id_write(const struct id *id, size_t id_len, char ret[static ID_HEX_SIZE]) {
    hex_encode(id->b, id_len, ret);
}

/* Patterns as in risk_glob(); the first that matches counts. Names below worktrees/NAME/ count as if they stood at the top. */
static const struct {
    const char *pattern;
    enum tips_kind kind;
} kinds[] = {
    {"objects/*|modules/*|hooks/*|info/*|lfs/*|config|config.worktree|description|commondir|gitdir|*_EDITMSG|*_MSG|"
     "annex/*|locked|gc.log|gc.pid|branches/*|remotes/*|rr-cache/*|fsmonitor--daemon*",
     TIPS_NONE},
    {"refs/*|packed-refs|HEAD|*_HEAD|AUTO_MERGE", TIPS_LINES},
    {"logs/*", TIPS_LOG},
    {"index|sharedindex.*", TIPS_INDEX},
    {"*", TIPS_ANY},
};

enum tips_kind tips_kind(const char *name) {
    const char *slash = str_starts(name, "worktrees/") ? strchr(name + strlen("worktrees/"), '/') : NULL;

    name = slash ? slash + 1 : name;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (risk_glob(kinds[i].pattern, name, strlen(name)))
            return kinds[i].kind;
    return TIPS_ANY;
}

typedef int token_fn(const struct id *id, void *arg);

static size_t hex_run(const char *s, const char *end) {
    size_t n = 0;

    while (s + n < end && hex_digit(s[n]) >= 0)
        n++;
    return n;
}

static int hand_token(const char *s, size_t id_len, token_fn *each, void *arg) {
    static const struct id none;
    struct id id;

    if (!id_read(s, id_len, &id) || memcmp(&id, &none, sizeof id) == 0)
        return 0;
    return each(&id, arg);
}

static int each_in_line(enum tips_kind kind, const char *s, const char *end, size_t id_len, token_fn *each, void *arg) {
    int r = 0;

    s += s < end && *s == '^';
    for (unsigned found = 0; r == 0 && s < end;) {
        size_t n = hex_run(s, end);

        if (n == 2 * id_len) {
            r = hand_token(s, id_len, each, arg);
            found++;
        }
        if (kind == TIPS_LINES || (kind == TIPS_LOG && (found == 2 || n != 2 * id_len)))
            break;
        s += n ? n : 1;
        while (kind == TIPS_ANY && s < end && hex_digit(*s) < 0)
            s++;
        s += kind == TIPS_LOG && s < end && *s == ' ';
    }
    return r;
}

static int each_token(enum tips_kind kind, const struct risk_text *t, size_t id_len, token_fn *each, void *arg) {
    size_t pos = 0;
    struct text_line l = {0};
    int r = 0;

    while (r == 0 && t->data && text_line_next(t->data, t->len, &pos, &l))
        r = each_in_line(kind, l.s, l.s + l.len, id_len, each, arg);
    return r;
}

struct collector {
    struct idmap known;
    struct id_list *list;
};

static int note_known(const struct id *id, void *arg) {
    struct collector *c = arg;
    int r = idmap_add(&c->known, id->b, 0);

    return r < 0 ? r : 0;
}

static int collect_new(const struct id *id, void *arg) {
    struct collector *c = arg;
    int r = idmap_add(&c->known, id->b, 0);

    if (r > 0 && c->list->n == GITNEW_TIPS_MAX)
        return -EFBIG;
    return r <= 0 ? r : VEC_ADD(c->list->v, c->list->n, *id);
}

int tips_new(enum tips_kind kind, size_t id_len, const struct risk_text *was, const struct risk_text *now, struct id_list *ret) {
    struct collector c = {.list = ret};
    int r = each_token(kind, was, id_len, note_known, &c);

    r = r < 0 ? r : each_token(kind, now, id_len, collect_new, &c);
    idmap_done(&c.known);
    return r;
}

int tips_add_old(struct repo *g, const struct id *id) {
    int r = idmap_add(&g->old, id->b, 0);

    return r <= 0 ? r : VEC_ADD(g->frontier.v, g->frontier.n, *id);
}

static int note_old(const struct id *id, void *arg) {
    return tips_add_old(arg, id);
}

/* The file as it was before the run. -ENOMEM; what cannot be read is empty. */
static int read_old(const struct repo *g, const char *path, struct risk_text *ret) {
    const struct change_set *set = g->ctx.set;
    const struct change *ch = change_find(set, path);
    int root = set->host_root >= 0 ? set->host_root : set->new_root, fd = -1;

    if (ch && ch->kind != CHANGE_ADDED && ch->kind != CHANGE_RENAMED)
        fd = change_open_old(set, ch);
    else if (!ch && root >= 0)
        fd = safepath_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return (ret->data = calloc(1, 1)) ? 0 : -ENOMEM;
    return risk_text_read_some(fd, GITNEW_FILE_MAX, ret);
}

/* The refs that stand in the git directory now, unless the run touched them. */
static int gather_refs(struct repo *g) {
    const struct change_set *set = g->ctx.set;
    int root = set->host_root >= 0 ? set->host_root : set->new_root;
    CLEANUP(closep) int dir = root < 0 ? -1 : safepath_open(root, g->dir, O_RDONLY | O_DIRECTORY);
    CLEANUP(freep) char *packed = str_dupf("%s/packed-refs", g->dir);
    CLEANUP(gitref_list_done) struct gitref_list refs = {0};
    bool host = set->host_root >= 0, repacked = packed && change_find(set, packed);
    int r = packed ? 0 : -ENOMEM;

    if (r < 0 || dir < 0 || gitrefs_list(dir, g->id_len > 20, &refs, NULL) < 0)
        return r;
    for (size_t i = 0; r == 0 && i < refs.n; i++) {
        CLEANUP(freep) char *path = str_dupf("%s/%s", g->dir, refs.v[i].name);
        CLEANUP(closep) int loose = repacked && !host ? safepath_open(dir, refs.v[i].name, O_PATH) : -1;
        struct id id;

        if (!path)
            return -ENOMEM;
        if (!host && (change_find(set, path) || (repacked && loose < 0)))
            continue; /* in direct mode the old version of that file counts */
        if (id_read(refs.v[i].hex, g->id_len, &id))
            r = tips_add_old(g, &id);
    }
    return r;
}

/* The kind of the file that the old version of a change was, if it was one of this git directory's. */
static enum tips_kind old_kind(const struct repo *g, const struct change *ch) {
    const char *path = ch->from ? ch->from : ch->path;
    size_t len = strlen(g->dir);

    if (!S_ISREG(ch->old_.mode) || ch->kind == CHANGE_ADDED || !str_starts(path, g->dir) || path[len] != '/')
        return TIPS_NONE;
    return tips_kind(path + len + 1);
}

static int gather_changed(struct repo *g) {
    const struct change_set *set = g->ctx.set;
    int r = 0;

    for (size_t i = 0; r == 0 && i < set->n; i++) {
        enum tips_kind kind = old_kind(g, &set->v[i]);
        CLEANUP(risk_text_done) struct risk_text text = {0};
        int fd;

        if (kind != TIPS_LINES && kind != TIPS_LOG)
            continue;
        fd = change_open_old(set, &set->v[i]);
        if (fd < 0)
            continue;
        r = risk_text_read_some(fd, GITNEW_FILE_MAX, &text);
        r = r < 0 ? r : each_token(kind, &text, g->id_len, note_old, g);
    }
    return r;
}

/* The value of "refs/heads/x" in the old packed-refs. */
static int find_packed(struct repo *g, const char *ref, struct id *ret) {
    CLEANUP(freep) char *path = str_dupf("%s/packed-refs", g->dir);
    CLEANUP(risk_text_done) struct risk_text text = {0};
    struct text_line l = {0};
    size_t pos = 0, hex = 2 * g->id_len;
    int r = path ? read_old(g, path, &text) : -ENOMEM;

    while (r == 0 && text_line_next(text.data, text.len, &pos, &l))
        if (l.len == hex + 1 + strlen(ref) && memcmp(l.s + hex + 1, ref, strlen(ref)) == 0 && id_read(l.s, g->id_len, ret))
            return 1;
    return r;
}

/* What a ref was before the run; follows one symbolic step. 1, 0, -ENOMEM. */
static int old_ref(struct repo *g, const char *ref, bool follow, struct id *ret) {
    CLEANUP(freep) char *path = str_dupf("%s/%s", g->dir, ref);
    CLEANUP(risk_text_done) struct risk_text text = {0};
    int r = path ? read_old(g, path, &text) : -ENOMEM;

    if (r < 0)
        return r;
    text.data[strcspn(text.data, "\r\n")] = 0;
    if (follow && str_starts(text.data, "ref: refs/") && strlen(text.data) < GITREPO_REF_MAX)
        return old_ref(g, text.data + strlen("ref: "), false, ret);
    if (strlen(text.data) == 2 * g->id_len && id_read(text.data, g->id_len, ret))
        return 1;
    return find_packed(g, ref, ret);
}

int tips_gather_old(struct repo *g) {
    struct id head;
    int r = gather_refs(g);

    r = r < 0 ? r : gather_changed(g);
    r = r < 0 ? r : old_ref(g, "HEAD", true, &head);
    if (r > 0) {
        r = tips_add_old(g, &head);
        if (r == 0) {
            r = walk_tree_of(g, &head, &g->head);
            g->has_head = r == 0;
            r = r == -ENOENT ? 0 : r;
        }
    }
    return r;
}

/* -- which git directories ------------------------------------------------------------------------------------------------ */

/* Which git directories the changes of a run lie in. */

/* Length of the git directory that a path lies in; 0: in none. A submodule's has its name, which may have slashes, before one
 * of the parts of a git directory. */
static size_t git_dir_len(const char *path) {
    static const char parts[] = "HEAD|*_HEAD|index|refs|logs|objects|packed-refs|modules|worktrees|config|hooks|info|shallow";
    const char *s = path;
    size_t len, found = 0;

    for (; *s; s += len + (s[len] == '/')) {
        len = strcspn(s, "/");
        if (len == 4 && memcmp(s, ".git", 4) == 0 && s[len])
            break;
    }
    if (!*s)
        return 0;
    found = (size_t)(s - path) + 4;
    for (s = path + found + 1; str_starts(s, "modules/");) {
        s += strlen("modules/");
        for (len = strcspn(s, "/"); s[len]; len += 1 + strcspn(s + len + 1, "/"))
            if (risk_glob(parts, s + len + 1, strcspn(s + len + 1, "/")))
                break;
        if (!s[len])
            break;
        found = (size_t)(s - path) + len;
        s += len + 1;
    }
    return found;
}

/* A folder of another name that git takes for a repository: one that `git init --separate-git-dir` made, or a bare one with
 * worktrees beside it. Returns the length of the folder's path, 0: none. */
static size_t other_dir_len(const struct risk_context *ctx, const char *path, struct strv *checked) {
    static const char parts[] = "HEAD|*_HEAD|index|refs|logs|packed-refs|objects";

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        CLEANUP(freep) char *dir = NULL, *head = NULL, *objects = NULL;

        if (!risk_glob(parts, slash + 1, strcspn(slash + 1, "/")))
            continue;
        dir = strndup(path, (size_t)(slash - path));
        if (!dir || strv_has(checked, dir) || checked->len >= GITNEW_CHECKED_MAX)
            continue;
        head = str_dupf("%s/HEAD", dir);
        objects = str_dupf("%s/objects", dir);
        if (head && objects && risk_after_exists(ctx, head) && risk_after_exists(ctx, objects))
            return (size_t)(slash - path);
        strv_add(checked, dir);
    }
    return 0;
}

static size_t repo_len(const struct risk_context *ctx, const char *path, const struct strv *known, struct strv *checked) {
    size_t len = git_dir_len(path);

    for (size_t i = 0; !len && i < known->len; i++)
        if (str_starts(path, known->v[i]) && path[strlen(known->v[i])] == '/')
            return strlen(known->v[i]);
    return len ? len : other_dir_len(ctx, path, checked);
}

int repos_find(const struct risk_context *ctx, struct strv *ret) {
    CLEANUP(strv_done) struct strv checked = {0};
    const struct change_set *set = ctx->set;

    for (size_t i = 0; i < set->n; i++) {
        size_t len = set->v[i].hidden ? 0 : repo_len(ctx, set->v[i].path, ret, &checked);
        CLEANUP(freep) char *dir = len ? strndup(set->v[i].path, len) : NULL;

        if (!len || (dir && strv_has(ret, dir)))
            continue;
        if (ret->len == GITNEW_REPOS_MAX)
            return (int)i;
        if (!dir || strv_add(ret, dir) < 0)
            return -ENOMEM;
    }
    return 0;
}
