/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a linked worktree: gitrepository-layout(5), worktrees/ID. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/mode/worktree_priv.h"

/* Whether worktrees/ID leads to our tree: a worktree of the user's can have that name too. */
static bool is_ours(const struct worktree *w, int dir) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_FILE_MAX);
    CLEANUP(freep) char *line = str_dupf("%s/.git\n", w->tree_path);

    return line && gitrepo_read(dir, "gitdir", &text) == 0 && str_eq(buf_str(&text), line);
}

int worktree_open_registered(const struct worktree *w, struct err *err) {
    CLEANUP(closep) int all = safepath_open(w->repo.common, "worktrees", O_RDONLY | O_DIRECTORY);
    CLEANUP(closep) int dir = all < 0 ? all : safepath_open(all, w->id, O_RDONLY | O_DIRECTORY);

    if (dir == -ENOENT || (dir >= 0 && !is_ours(w, dir)))
        return err_set(err, -ENOENT, "the repository does not know the run's worktree (any more)");
    return dir < 0 ? err_sys(err, dir, "open the repository's worktrees") : TAKE_FD(dir);
}

int worktree_unregister(const struct worktree *w, struct err *err) {
    CLEANUP(closep) int dir = worktree_open_registered(w, err);
    CLEANUP(closep) int all = -1;
    int r;

    if (dir < 0)
        return dir == -ENOENT ? 0 : dir;
    all = safepath_open(w->repo.common, "worktrees", O_RDONLY | O_DIRECTORY);
    r = all < 0 ? all : remove_tree(all, w->id);
    if (r < 0 && r != -ENOENT)
        return err_sys(err, r, "remove the run's worktree from the repository");
    unlinkat(w->repo.common, "worktrees", AT_REMOVEDIR); /* as git does, if it was the last one */
    return 0;
}

static int write_line(int dir, const char *name, const char *before, const char *text, struct err *err) {
    CLEANUP(freep) char *line = str_dupf("%s%s\n", before, text);

    return line ? gitrepo_write(dir, name, line, strlen(line), 0644, err) : err_oom(err);
}

static int fill(const struct worktree *w, int dir, struct err *err) {
    int r = write_line(dir, "gitdir", w->tree_path, "/.git", err);

    r = r < 0 ? r : write_line(dir, "HEAD", "ref: refs/heads/" WORKTREE_GROUP "/", w->rd->name, err);
    r = r < 0 ? r : write_line(dir, "commondir", "../..", "", err);
    r = r < 0 ? r : worktree_copy(w->git.fd, "index", dir, "index", WORKTREE_INDEX_MAX, err);
    return r;
}

int worktree_register(struct worktree *w, struct err *err) {
    CLEANUP(closep) int all = gitrepo_make_dir(w->repo.common, "worktrees", 0777, err);
    CLEANUP(freep) char *target = str_dupf("%s/worktrees/%s", w->repo.common_path, w->id);
    CLEANUP(closep) int dir = -1;
    struct stat st;
    int r;

    if (all < 0 || !target)
        return all < 0 ? all : err_oom(err);
    if (strchr(w->tree_path, '\n') || strchr(target, '\n'))
        return err_set(err, -ENOTSUP, "git cannot have a worktree in a path with a line end");
    if (fstatat(all, w->id, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, -EEXIST, "the repository has a worktree '%s' already; see 'git worktree list'", w->id);
    dir = gitrepo_make_dir(all, w->id, 0777, err);
    r = dir < 0 ? dir : fill(w, dir, err);
    r = r < 0 ? r : write_line(w->tree, ".git", "gitdir: ", target, err);
    return r;
}
