/* SPDX-License-Identifier: Apache-2.0 */
/* What is where once the changes are applied, and where links lead. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/risk/risk_rule.h"

enum { LINK_MAX = 4096, LINKS_FOLLOWED_MAX = 40, RESOLVE_PARTS_MAX = 4096 };

char *risk_folder(const char *path) {
    const char *slash = strrchr(path, '/');

    return strndup(path, slash ? (size_t)(slash - path) : 0);
}

/* The first change whose path is not before this one. */
static size_t lower_bound(const struct change_set *set, const char *path) {
    size_t lo = 0, hi = set->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (strcmp(set->v[mid].path, path) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool holds_something_new(const struct change_set *set, const char *folder) {
    CLEANUP(freep) char *prefix = str_dupf("%s/", folder);

    for (size_t i = prefix ? lower_bound(set, prefix) : set->n; i < set->n && str_starts(set->v[i].path, prefix); i++)
        if (set->v[i].new_.mode && !set->v[i].hidden)
            return true;
    return false;
}

static bool moved_away(const struct change_set *set, const char *path) {
    for (size_t i = 0; i < set->n; i++)
        if (set->v[i].from && str_eq(set->v[i].from, path))
            return true;
    return false;
}

bool risk_after_exists(const struct risk_context *ctx, const char *path) {
    const struct change *ch = change_find(ctx->set, path);
    CLEANUP(closep) int fd = -1;
    CLEANUP(freep) char *link = NULL;
    mode_t mode;

    if (ctx->look && ctx->look(ctx->look_arg, path, &mode, &link) != 0)
        return true;
    if (ch && !ch->hidden)
        return ch->new_.mode != 0;
    if (holds_something_new(ctx->set, path))
        return true;
    fd = ctx->workspace < 0 ? -1 : safepath_open(ctx->workspace, path, O_PATH | O_NOFOLLOW);
    return fd >= 0 && !moved_away(ctx->set, path);
}

/* Where the link at path leads; NULL: no link. *failed: no memory. */
static char *link_at(const struct risk_context *ctx, const char *path, bool *failed) {
    const struct change *ch = change_find(ctx->set, path);
    CLEANUP(closep) int fd = -1;
    char target[LINK_MAX + 1], *copy = NULL;
    mode_t mode;
    ssize_t n;
    int r = ctx->look ? ctx->look(ctx->look_arg, path, &mode, &copy) : 0;

    *failed = r < 0;
    if (r != 0)
        return copy;

    if (ch && !ch->new_.link)
        return NULL;
    if (ch) {
        copy = strdup(ch->new_.link);
    } else {
        fd = ctx->workspace < 0 ? -1 : safepath_open(ctx->workspace, path, O_PATH | O_NOFOLLOW);
        n = fd < 0 ? -1 : readlinkat(fd, "", target, LINK_MAX);
        if (n <= 0)
            return NULL;
        copy = strndup(target, (size_t)n);
    }
    *failed = !copy;
    return copy;
}

/* One step of a path: appends a name to where, or goes up. False: up from the top. */
static bool step(struct buf *where, const char *part, size_t len) {
    if (len == 0 || (len == 1 && part[0] == '.'))
        return true;
    if (len == 2 && memcmp(part, "..", 2) == 0) {
        const char *slash = strrchr(buf_str(where), '/');

        if (where->len == 0)
            return false;
        where->len = slash ? (size_t)(slash - where->data) : 0;
        where->data[where->len] = 0;
        return true;
    }
    if (where->len)
        buf_addc(where, '/');
    buf_add(where, part, len);
    return true;
}

int risk_resolve(const struct risk_context *ctx, const char *dir, const char *path, char **ret) {
    CLEANUP(buf_done) struct buf where = BUF_INIT(2 * LINK_MAX);
    CLEANUP(freep) char *rest = strdup(path);
    unsigned links = 0, parts = 0;
    bool failed = !rest;

    buf_adds(&where, dir);
    for (char *p = rest; !failed && *p && parts++ < RESOLVE_PARTS_MAX;) {
        size_t len = strcspn(p, "/");
        CLEANUP(freep) char *target = NULL;

        if ((*p == '/' && p == rest) || !step(&where, p, len) || !buf_ok(&where))
            return 0;
        p += len + (p[len] == '/');
        target = len && where.len ? link_at(ctx, buf_str(&where), &failed) : NULL;
        if (target) {
            char *joined = str_dupf("%s/%s", target, p);

            if (*target == '/' || ++links > LINKS_FOLLOWED_MAX) {
                free(joined);
                return 0;
            }
            step(&where, "..", 2);
            free(rest);
            p = rest = joined;
            failed = !joined;
        }
    }
    if (failed || parts > RESOLVE_PARTS_MAX || !buf_ok(&where))
        return failed ? -ENOMEM : 0;
    *ret = buf_take(&where);
    return *ret ? 1 : -ENOMEM;
}

/* -- links ---------------------------------------------------------------------------------------------------------------- */

/* Symbolic links: where they lead, by text. */

/* What a link is most dangerous to lead to. */
static const char secrets[] =
    "*/.ssh|*/.ssh/*|*/.gnupg*|*/.aws*|*/.kube*|*/.docker*|*/.config*|*/.netrc|*/.git-credentials|*/.npmrc|*/.pypirc|"
    "*/.bash*|*/.zsh*|*/.profile|/etc*|/proc*|/sys*|/dev/*|/root*|/run*|/var/run*|/boot*|/|/home|/home/*|~*|*.sock|"
    "*/.local*|*/.cargo*|*/.mozilla*";
/* What links usually lead to. */
static const char usual[] = "/usr/bin/*|/usr/lib/*|/usr/local/bin/*|/bin/*|/lib/*|/usr/share/*|/nix/store/*|/opt/*";

static bool in_git(const char *path) {
    return str_eq(path, ".git") || str_starts(path, ".git/") || strstr(path, "/.git/") || str_ends(path, "/.git");
}

void risk_judge_link(struct risk_case *c) {
    const char *link = c->change->new_.link;
    CLEANUP(freep) char *folder = risk_folder(c->path);
    CLEANUP(freep) char *where = NULL;
    char shown[RISK_SHOWN_MAX + 4];
    int r;

    if (!S_ISLNK(c->change->new_.mode) || !link)
        return;
    r = folder ? risk_resolve(c->ctx, folder, link, &where) : -1;
    risk_shown(link, shown);
    if (in_git(c->path)) /* git itself makes none; its reflog, say, is appended to whatever the link leads to */
        risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0, "it is a link in git's own directory, to '%s': what git writes goes there",
                 shown);
    if (r < 0)
        c->failed = true;
    else if (r == 0 && risk_glob(secrets, link, strlen(link)) && !risk_glob(usual, link, strlen(link)))
        risk_add(c, RISK_SYMLINK_OUT, RISK_HIGH, 0,
                 "it leads out of the workspace, to '%s', where the system or your secrets are", shown);
    else if (r == 0)
        risk_add(c, RISK_SYMLINK_OUT, risk_glob(usual, link, strlen(link)) && !strstr(link, "..") ? RISK_LOW : RISK_MEDIUM, 0,
                 "it leads out of the workspace, to '%s'", shown);
    else if (in_git(where) && !in_git(c->path))
        risk_add(c, RISK_GIT_DIR, RISK_HIGH, 0, "it leads to '%s', into git's own directory: what is written there, git may run",
                 shown);
}

/* -- ignored files -------------------------------------------------------------------------------------------------------- */

/* Files that git does not show: a change there is not noticed later. */

/* Ignored, and yet run by a usual action. */
static const char runs[] =
    "node_modules/**|venv/**|.venv/**|env/**|site-packages/**|vendor/**|dist/**|build/**|target/**|out/**|.tox/**|.nox/**|"
    "bin/**|_build/**|__pycache__/**|.next/**|.nuxt/**|.yarn/**|.pnp.*|.gradle/**|deps/**|bower_components/**|.direnv/**|"
    "Pods/**|obj/**|.terraform/**|*.js|*.py|*.sh|*.mjs|*.cjs|*.pl|*.rb";

void risk_judge_ignored(struct risk_case *c) {
    const struct change *ch = c->change;
    struct risk_path path;

    if (ch->new_.mode == 0 || S_ISDIR(ch->new_.mode) || !risk_git_ignored(c->ctx, ch))
        return;
    risk_path_split(c->path, &path);
    if ((S_ISREG(ch->new_.mode) && ch->new_.mode & 0111) || risk_path_match(runs, &path))
        risk_add(c, RISK_IGNORED, RISK_MEDIUM, 0, "git ignores it, and it is something that builds, tests or tools run");
    else
        risk_add(c, RISK_IGNORED, RISK_LOW, 0, "git ignores it, so git status and git diff do not show it");
}
