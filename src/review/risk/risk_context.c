/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds the changes: git's ignore rules, and the places that its configuration names. */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/risk/risk_rule.h"
#include "workspace/git/gitconfig.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

enum { PLACES_MAX = 1024 }; /* of each list */

/* Names of one configuration file that lead elsewhere. */
struct risk_gather {
    struct risk_context *ctx;
    const char *folder; /* of the file: includes are relative to it */
    const char *top;    /* of the working tree: core.hooksPath is relative to it */
};

static int gather_key(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    struct risk_gather *g = arg;
    bool hooks = str_eq(key, "core.hookspath");
    CLEANUP(freep) char *path = NULL;
    struct strv *list = hooks ? &g->ctx->hooks : &g->ctx->includes;
    int r;

    if (!value || !*value || list->len >= PLACES_MAX ||
        !(hooks || gitconfig_is(key, "include", "path") || gitconfig_is(key, "includeif", "path")))
        return 0;
    r = risk_resolve(g->ctx, hooks ? g->top : g->folder, value, &path);
    if (r < 0)
        return err_oom(err);
    if (r == 0 && !hooks)
        return 0;
    if (r == 0)
        path = strdup(value);
    if (path && strv_has(list, path))
        return 0;
    return strv_add_take(list, TAKE_PTR(path)) < 0 ? err_oom(err) : 0;
}

static int gather_fd(struct risk_context *ctx, const char *path, const char *top, int fd, struct err *err) {
    CLEANUP(risk_text_done) struct risk_text text = {0};
    CLEANUP(freep) char *folder = risk_folder(path);
    struct risk_gather g = {ctx, folder, top};
    int r;

    if (fd < 0)
        return 0;
    if (risk_text_read(fd, &text) < 0 || !folder)
        return err_oom(err);
    r = gitconfig_parse(text.data, text.len, gather_key, &g, err);
    return r == -ENOMEM ? r : 0; /* what comes before a mistake counts; the rules report the mistake */
}

static int open_regular(int workspace, const char *path) {
    CLEANUP(closep) int fd = workspace < 0 ? -1 : safepath_open(workspace, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TAKE_FD(fd) : -1;
}

/* The file as it was and as it will be: either may be what the host has once the user has chosen. As it was comes first, so that
 * what the run wrote cannot use up PLACES_MAX. */
static int gather_file(struct risk_context *ctx, const char *path, const char *top, struct err *err) {
    const struct change *ch = change_find(ctx->set, path);
    int r = ch && S_ISREG(ch->old_.mode) ? gather_fd(ctx, path, top, change_open_old(ctx->set, ch), err) : 0;

    if (r == 0)
        r = gather_fd(ctx, path, top, open_regular(ctx->workspace, path), err);
    if (r == 0 && ch && S_ISREG(ch->new_.mode))
        r = gather_fd(ctx, path, top, change_open_new(ctx->set, ch), err);
    return r;
}

/* The configuration of the repository whose working tree this folder is, if it is one. */
static int gather_repository(struct risk_context *ctx, const char *top, struct err *err) {
    static const char *const names[] = {"config", "config.worktree"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++) {
        CLEANUP(freep) char *path = str_dupf("%s%s.git/%s", top, *top ? "/" : "", names[i]);

        r = path ? gather_file(ctx, path, top, err) : err_oom(err);
    }
    return r;
}

/* A file that is too large or has too many rules is left out: that makes files look unignored, and the change of such a file is
 * reported by itself. */
static int add_ignore(struct risk_context *ctx, const char *dir, const char *path) {
    const struct change *ch = change_find(ctx->set, path);
    CLEANUP(risk_text_done) struct risk_text text = {0};
    int fd = ch ? (S_ISREG(ch->new_.mode) ? change_open_new(ctx->set, ch) : -1) : open_regular(ctx->workspace, path);

    if (fd < 0)
        return 0;
    if (risk_text_read(fd, &text) < 0)
        return -ENOMEM;
    return ignore_add_file(ctx->ignored, dir, path, text.data, text.len, NULL) == -ENOMEM ? -ENOMEM : 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The folders that were looked at. */
struct risk_seen {
    struct strv names;
    void *tree;
};

static void keep_name(void *name) {}

static void seen_done(struct risk_seen *s) {
    tdestroy(s->tree, keep_name);
    strv_done(&s->names);
}

/* Only folders that changes are in, and those above them, can matter; the highest first. */
static int add_folder(struct risk_context *ctx, const char *dir, struct risk_seen *seen, struct err *err) {
    CLEANUP(freep) char *file = NULL;
    CLEANUP(freep) char *above = NULL;
    int r = 0;

    if (tfind(dir, &seen->tree, compare))
        return 0;
    file = str_dupf("%s%s.gitignore", dir, *dir ? "/" : "");
    above = risk_folder(dir);
    if (!file || !above)
        return err_oom(err);
    if (*dir)
        r = add_folder(ctx, above, seen, err);
    if (r < 0)
        return r;
    if (strv_add(&seen->names, dir) < 0 || !tsearch(seen->names.v[seen->names.len - 1], &seen->tree, compare) ||
        (ctx->ignored && add_ignore(ctx, dir, file) < 0))
        return err_oom(err);
    return gather_repository(ctx, dir, err);
}

static int add_folders(struct risk_context *ctx, struct err *err) {
    CLEANUP(seen_done) struct risk_seen seen = {0};
    int r = add_folder(ctx, "", &seen, err);

    for (size_t i = 0; r == 0 && i < ctx->set->n; i++) {
        CLEANUP(freep) char *dir = risk_folder(ctx->set->v[i].path);

        r = dir ? add_folder(ctx, dir, &seen, err) : err_oom(err);
    }
    return r;
}

int risk_context_init(struct risk_context *c, const struct change_set *set, int workspace, const struct ignore *protect,
                      struct err *err) {
    struct risk_context ctx = {.set = set, .workspace = workspace, .protect = protect};
    int r = protect ? 0 : protect_rules(NULL, NULL, &ctx.built_in, err);

    ctx.protect = protect ? protect : ctx.built_in;

    if (r == 0 && risk_after_exists(&ctx, ".git")) {
        ctx.ignored = ignore_new();
        if (!ctx.ignored || add_ignore(&ctx, "", ".git/info/exclude") < 0)
            r = err_oom(err);
    }
    r = r < 0 ? r : add_folders(&ctx, err);
    for (size_t i = 0; r == 0 && i < ctx.includes.len; i++) /* grows by what these include */
        r = gather_file(&ctx, ctx.includes.v[i], "", err);
    if (r < 0) {
        risk_context_done(&ctx);
        return r;
    }
    *c = ctx;
    return 0;
}

void risk_context_done(struct risk_context *c) {
    ignore_free(c->built_in);
    ignore_free(c->ignored);
    strv_done(&c->hooks);
    strv_done(&c->includes);
    *c = (struct risk_context){.workspace = -1};
}

bool risk_git_ignored(const struct risk_context *c, const struct change *change) {
    mode_t mode = change->new_.mode ? change->new_.mode : change->old_.mode;

    return c->ignored && !str_eq(change->path, ".git") && !str_starts(change->path, ".git/") &&
           ignore_match(c->ignored, change->path, S_ISDIR(mode)) == IGNORE_EXCLUDED;
}
