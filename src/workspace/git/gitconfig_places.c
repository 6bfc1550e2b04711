/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the workspace git obeys. Includes are followed, conditions taken for true: a file that might be read is a file that
 * an agent must not write. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitrepo.h"

extern char **environ;

enum { INCLUDE_DEPTH = 10 /* git's own */, INCLUDES_MAX = 100 };

struct places {
    const char *workspace; /* absolute */
    char *home;
    struct strv *found;
    char *hooks; /* the last core.hooksPath, absolute */
    unsigned files;
};

struct gitconfig_file {
    struct places *p;
    const char *path;
    unsigned depth;
};

/* Without ".", "..", "//"; links are not looked at, for the answer is about names. */
static char *clean_path(const char *path) {
    char *out = malloc(strlen(path) + 2);
    size_t n = 0;

    for (const char *s = path; out && *s;) {
        size_t len = strcspn(s, "/");

        if (len == 2 && s[0] == '.' && s[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
        } else if (len > 0 && !(len == 1 && s[0] == '.')) {
            out[n++] = '/';
            memcpy(out + n, s, len);
            n += len;
        }
        s += len + (s[len] == '/');
    }
    if (out && n == 0)
        out[n++] = '/';
    if (out)
        out[n] = 0;
    return out;
}

/* What a value means: "~/x", "/x", or relative to a folder (the first `len` bytes of dir). NULL: no memory. */
static char *full_path(const struct places *p, const char *value, const char *dir, size_t len) {
    CLEANUP(freep) char *joined = NULL;

    if (value[0] == '~' && value[1] == '/')
        joined = str_dupf("%s/%s", p->home ? p->home : "", value + 2);
    else
        joined = value[0] == '/' ? strdup(value) : str_dupf("%.*s/%s", (int)len, dir, value);
    return joined ? clean_path(joined) : NULL;
}

/* The part below the workspace, "." for the folder itself, NULL if it lies elsewhere. */
static const char *in_workspace(const struct places *p, const char *path) {
    size_t len = strlen(p->workspace);

    if (str_eq(path, p->workspace))
        return ".";
    return str_starts(path, p->workspace) && path[len] == '/' ? path + len + 1 : NULL;
}

static int add_place(struct places *p, const char *path, struct err *err) {
    const char *below = in_workspace(p, path);

    if (!below || strv_has(p->found, below))
        return 0;
    return strv_add(p->found, below) < 0 ? err_oom(err) : 0;
}

static int read_file(struct places *p, const char *path, unsigned depth, struct err *err);

static int each(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    struct gitconfig_file *f = arg;
    struct places *p = f->p;
    CLEANUP(freep) char *path = NULL;
    int r;

    if (!value || !value[0])
        return 0;
    if (str_eq(key, "core.hookspath")) {
        freep(&p->hooks);
        p->hooks = full_path(p, value, p->workspace, strlen(p->workspace));
        return p->hooks ? 0 : err_oom(err);
    }
    if (!str_eq(key, "include.path") && !gitconfig_is(key, "includeif", "path"))
        return 0;
    path = full_path(p, value, f->path, (size_t)(strrchr(f->path, '/') - f->path));
    if (!path)
        return err_oom(err);
    r = add_place(p, path, err);
    return r < 0 ? r : read_file(p, path, f->depth + 1, err);
}

/* A file that is missing, closed or broken is one that git does not obey either. */
static int read_file(struct places *p, const char *path, unsigned depth, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(GITCONFIG_SIZE_MAX);
    struct gitconfig_file f = {p, path, depth};
    int r = file_read(path, FILE_FOLLOW, &data);

    if (r < 0 && r != -EFBIG)
        return r == -ENOMEM ? err_oom(err) : 0;
    if (depth > INCLUDE_DEPTH || ++p->files > INCLUDES_MAX || r == -EFBIG)
        return err_set(err, -E2BIG, "git's configuration includes too many or too large files; see '%s'", path);
    r = gitconfig_parse(buf_str(&data), data.len, each, &f, err);
    return r == -EBADMSG ? 0 : r;
}

/* The folder that a one-line file leads to, or -errno. */
static int follow(int dir, const char *name, const char *prefix) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);
    int fd, r = gitrepo_read_line(dir, name, &line);

    if (r < 0 || !str_starts(line.data, prefix))
        return r < 0 ? r : -EINVAL;
    fd = openat(dir, line.data + strlen(prefix), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int read_in(struct places *p, int dir, const char *name, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    CLEANUP(freep) char *path = NULL;
    int r = paths_of_fd(dir, &folder, err);

    if (r < 0)
        return r;
    path = str_dupf("%s/%s", folder, name);
    return path ? read_file(p, path, 0, err) : err_oom(err);
}

static int read_repository(struct places *p, int workspace, struct err *err) {
    CLEANUP(closep) int dir = openat(workspace, ".git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int common = -1;
    int r;

    if (dir < 0)
        dir = follow(workspace, ".git", "gitdir: ");
    if (dir < 0)
        return 0;
    common = follow(dir, "commondir", "");
    r = read_in(p, common >= 0 ? common : dir, "config", err);
    return r < 0 ? r : read_in(p, dir, "config.worktree", err);
}

int gitconfig_places(int workspace, const char *path, const char *const *more, struct strv *ret, char **ret_hooks,
                     struct err *err) {
    struct places p = {.workspace = path, .found = ret};
    const char *below = NULL;
    int r = paths_home(environ, &p.home, err);

    for (size_t i = 0; r >= 0 && more && more[i]; i++)
        if (more[i][0] == '/')
            r = read_file(&p, more[i], 0, err);
    r = r < 0 ? r : read_repository(&p, workspace, err);
    if (r >= 0 && p.hooks) {
        below = in_workspace(&p, p.hooks);
        r = add_place(&p, p.hooks, err);
    }
    if (r >= 0 && ret_hooks) {
        *ret_hooks = below ? strdup(below) : NULL;
        r = below && !*ret_hooks ? err_oom(err) : 0;
    }
    freep(&p.hooks);
    freep(&p.home);
    return r < 0 ? r : 0;
}
