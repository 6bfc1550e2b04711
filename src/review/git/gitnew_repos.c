/* SPDX-License-Identifier: Apache-2.0 */
/* Which git directories the changes of a run lie in. */
#include <errno.h>

#include "base/str.h"
#include "review/git/gitnew_priv.h"

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
