/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the .git of a submodule or a linked worktree leads. It may lead only to .git/modules/... or .git/worktrees/NAME of a repository that it lies in itself, and
 * is written in the form "../../.git/...": from a folder to those above it. Then no link can come between, whatever is renamed or made inside later: the folders
 * above a file are its own, .git is a folder that cannot be moved, and below it there are no links. And wherever the file is moved, it leads to a name below
 * some .git, where configuration and hooks are protected.
 */
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "init/guard/guard_git_judge.h"
#include "proto/initmsg.h"

/* One line without control characters; NULL: it is not. The text ends at its line end. */
static const char *one_line(const struct buf *text, char out[static PATH_MAX]) {
    size_t len = text->len;

    if (len > 0 && text->data[len - 1] == '\n')
        len--;
    if (len == 0 || len >= PATH_MAX)
        return NULL;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text->data[i] < ' ' || text->data[i] == 0x7f)
            return NULL;
    memcpy(out, text->data, len);
    out[len] = 0;
    return out;
}

/* The path from the folder of `rel` on, relative to the workspace and without dots; false: it leaves it. */
static bool resolve_text(const struct guard *g, const char *rel, const char *path, char out[static PATH_MAX]) {
    const char *slash = strrchr(rel, '/'), *inside = path[0] == '/' ? path_below(path, g->root_path) : path;
    size_t n = 0;

    if (!inside || (path[0] != '/' && slash && (size_t)(slash - rel) >= PATH_MAX))
        return false;
    if (path[0] != '/' && slash) {
        n = (size_t)(slash - rel);
        memcpy(out, rel, n);
    }
    while (*inside) {
        size_t part = strcspn(inside, "/");

        if (part == 2 && memcmp(inside, "..", 2) == 0) {
            if (n == 0)
                return false;
            while (n > 0 && out[n - 1] != '/')
                n--;
            n = n > 0 ? n - 1 : 0;
        } else if (part > 0 && !(part == 1 && inside[0] == '.')) {
            if (n + part + 2 >= PATH_MAX)
                return false;
            if (n > 0)
                out[n++] = '/';
            memcpy(out + n, inside, part);
            n += part;
        }
        inside += part;
        inside += strspn(inside, "/");
    }
    out[n] = 0;
    return true;
}

/* .git of the first `len` bytes of the path is a folder. */
static bool has_git_folder(const struct guard *g, const char *path, size_t len) {
    char git[PATH_MAX];
    struct stat st;
    int n = snprintf(git, sizeof git, "%.*s%s.git", (int)len, path, len ? "/" : "");

    return n > 0 && n < (int)sizeof git && fstatat(g->root, git, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* A submodule of such a name would lie among the refs or objects of another, where names are not protected. */
static bool has_inner_name(const char *part) {
    static const char *const inner[] = {"refs", "logs", "objects", "info", "hooks", "branches", "remotes"};

    for (const char *at = part; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        for (size_t i = 0; i < ARRAY_LEN(inner); i++)
            if (strcspn(at, "/") == strlen(inner[i]) && str_starts(at, inner[i]))
                return true;
    return false;
}

static int judge_pointer(const struct guard *g, const char *rel, const char *line, struct buf *ret) {
    char path[PATH_MAX];
    const char *part, *folder = strrchr(rel, '/');
    size_t above, up = 0;

    if (!str_starts(line, "gitdir: ") || !folder || !resolve_text(g, rel, line + strlen("gitdir: "), path))
        return -EACCES;
    part = guard_rules_behind_git(path);
    if (!part || !guard_git_is_home(path) || has_inner_name(part) || guard_rules_below_git(part) || guard_rules_is_git(part) ||
        part - path < (long)strlen(".git/") || strncmp(part - strlen(".git/"), ".git/", strlen(".git/")) != 0)
        return -EACCES;
    above = (size_t)(part - path) - strlen(".git/"); /* with its '/' */
    if (strncmp(path, rel, above) != 0 || !has_git_folder(g, path, above ? above - 1 : 0))
        return -EACCES;
    for (const char *at = rel + above; at < folder; up++)
        at += strcspn(at, "/") + 1;
    buf_adds(ret, "gitdir: ");
    for (; up > 0; up--)
        buf_adds(ret, "../");
    buf_addf(ret, ".git/%s\n", part);
    return above < (size_t)(folder - rel) + 1 ? 0 : -EACCES;
}

/* Where the linked worktree is: in the workspace, or in a folder that the sandbox alone has. git worktree repair writes there. */
static bool is_place_of_worktree(const struct guard *g, const char *rel, const char *line) {
    char path[PATH_MAX];

    if (!str_ends(line, "/.git"))
        return false;
    if (resolve_text(g, rel, line, path))
        return true;
    return (str_starts(line, "/tmp/") || str_starts(line, "/var/tmp/")) && !strstr(line, "/../") &&
           !(g->start->flags & INIT_FLAG_NO_PIDNS);
}

int guard_git_link(const struct guard *g, const char *rel, enum git_role role, const struct buf *text, struct buf *ret) {
    char room[PATH_MAX];
    const char *line = one_line(text, room);
    int r = -EACCES;

    if (line && role == GIT_POINTER)
        r = judge_pointer(g, rel, line, ret);
    else if (line &&
             ((role == GIT_COMMONDIR && str_eq(line, "../..")) || (role == GIT_GITDIR && is_place_of_worktree(g, rel, line)))) {
        buf_addf(ret, "%s\n", line);
        r = 0;
    }
    return r < 0 || buf_ok(ret) ? r : -ENOMEM;
}
