/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, opens and drops the worktree of a run. */
#include "workspace/mode/worktree.h"

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

/* -- the host's side of a linked worktree: gitrepository-layout(5), worktrees/ID ------------------------------------------ */

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

static int unregister_tree(const struct worktree *w, struct err *err) {
    CLEANUP(closep) int dir = worktree_open_registered(w, err), all = -1;
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

    return line ? gitrepo_write_soon(dir, name, line, strlen(line), 0644, err) : err_oom(err);
}

/* As git does it, without waiting for the disk. Files that a power cut empties make no worktree: `git worktree prune` removes them. */
static int register_tree(struct worktree *w, struct err *err) {
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
    r = dir < 0 ? dir : write_line(dir, "gitdir", w->tree_path, "/.git", err);
    r = r < 0 ? r : write_line(dir, "HEAD", "ref: refs/heads/" WORKTREE_GROUP "/", w->rd->name, err);
    r = r < 0 ? r : write_line(dir, "commondir", "../..", "", err);
    r = r < 0 ? r : worktree_copy(w->git.fd, "index", dir, "index", gitrepo_write_soon, err);
    return r < 0 ? r : write_line(w->tree, ".git", "gitdir: ", target, err);
}

static const char known_file[] = "tip";

void worktree_view_done(struct worktree_view *v) {
    freep(&v->objects);
}

void worktree_end(struct worktree *w) {
    git_done(&w->git);
    gitrepo_done(&w->repo);
    freep(&w->id);
    freep(&w->tree_path);
    closep(&w->tree);
}

static int read_known(struct worktree *w, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_FILE_MAX);
    int r = gitrepo_read_line(w->rd->fd, known_file, &text);

    if (r == -ENOENT)
        return 0;
    if (r < 0 || !git_is_hex(text.data, text.len, w->repo.sha256))
        return err_set(err, -EBADMSG, "the run's file '%s' is damaged", known_file);
    memcpy(w->known, text.data, text.len);
    return 0;
}

int worktree_set_known(struct worktree *w, const char *hex, struct err *err) {
    int r = gitrepo_write(w->rd->fd, known_file, hex, strlen(hex), 0600, err);

    if (r == 0)
        snprintf(w->known, sizeof w->known, "%s", hex);
    return r;
}

int worktree_read_branch(const struct worktree *w, int git_dir, char ret[static GIT_HEX_SIZE], struct err *err) {
    CLEANUP(freep) char *ref = str_dupf("refs/heads/" WORKTREE_GROUP "/%s", w->rd->name);

    return ref ? gitrefs_read(git_dir, w->repo.sha256, ref, ret, err) : err_oom(err);
}

int worktree_begin(struct worktree *ret, struct rundir *rd, int workspace, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    struct git_opts opts = {.folder = rd->path, .owner = workspace};
    int r = gitrepo_open(workspace, &w.repo, err);

    if (r < 0)
        return r;
    w.rd = rd;
    w.workspace = workspace;
    w.id = str_dupf("bawn-%s", rd->name);
    w.tree_path = str_dupf("%s/tree", rd->path);
    if (!w.id || !w.tree_path)
        return err_oom(err);
    opts.sha256 = w.repo.sha256;
    opts.shallow = w.repo.shallow.len ? w.repo.shallow.data : NULL;
    r = git_init(&w.git, &opts, err);
    r = r < 0 ? r : read_known(&w, err);
    if (r < 0)
        return r;
    if (rd->lock >= 0) /* what a killed process left: no other is at work in here */
        unlinkat(rd->fd, "tip.lock", 0);
    w.tree = safepath_open(rd->fd, "tree", O_RDONLY | O_DIRECTORY);
    *ret = TAKE(w, (struct worktree)WORKTREE_INIT);
    return 0;
}

int worktree_make_dir(const struct worktree *w, const char *name, struct err *err) {
    CLEANUP(closep) int fd = gitrepo_make_dir(w->rd->fd, name, 0755, err);

    if (fd < 0)
        return fd;
    if (geteuid() == 0 && fchown(fd, w->git.uid, w->git.gid) < 0)
        return err_sys(err, -errno, "give '%s' to the owner of the workspace", name);
    return TAKE_FD(fd);
}

int worktree_copy(int from, const char *from_name, int to, const char *to_name, worktree_writer *put, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(WORKTREE_INDEX_MAX);
    int r = gitrepo_read(from, from_name, &data);

    if (r < 0)
        return err_sys(err, r, "read '%s'", from_name);
    return put(to, to_name, buf_str(&data), data.len, 0644, err);
}

/* Everything in the run's folder first, then what the repository knows of. */
static int make_tree(struct worktree *w, const char *commit, const struct ignore *hidden, struct err *err) {
    CLEANUP(freep) char *branch = str_dupf(WORKTREE_GROUP "/%s", w->rd->name);
    struct run_info *info = &w->rd->info;
    int r;

    w->tree = worktree_make_dir(w, "tree", err);
    r = w->tree < 0 ? w->tree : worktree_checkout(w, commit, hidden, err);
    r = r < 0 ? r : worktree_make_private(w, commit, err);
    r = r < 0 ? r : worktree_set_known(w, commit, err);
    if (r < 0)
        return r;
    if (!branch || str_set(&info->branch, branch) < 0 || str_set(&info->base_commit, commit) < 0)
        return err_oom(err);
    r = rundir_save(w->rd, err);
    r = r < 0 ? r : gitrefs_move(&w->repo, WORKTREE_GROUP, w->rd->name, NULL, commit, err);
    if (r < 0)
        return r;
    r = register_tree(w, err);
    r = r < 0 ? r : worktree_write_manifest(w, err);
    if (r < 0) { /* err says why; the rest goes with the run's folder */
        unregister_tree(w, NULL);
        gitrefs_move(&w->repo, WORKTREE_GROUP, w->rd->name, commit, NULL, NULL);
        return r;
    }
    return 0;
}

int worktree_make(struct rundir *rd, int workspace, const struct ignore *hidden, struct worktree_view *ret, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    char commit[GIT_HEX_SIZE] = {0};
    int r;

    /* git-check-ref-format(1), for what rundir_check_name() lets through. */
    if (strstr(rd->name, "..") || str_ends(rd->name, ".") || str_ends(rd->name, ".lock"))
        return err_usage(err, "'%s' cannot name a branch: no '..', and neither '.' nor '.lock' at the end", rd->name);
    r = worktree_begin(&w, rd, workspace, err);
    if (r < 0)
        return r;
    r = gitrefs_head(&w.repo, commit, err);
    if (r == -ENOENT)
        return err_set(err, r, "the repository has no commit yet; worktree mode needs one to begin from");
    if (r < 0)
        return r;
    if (w.tree >= 0)
        return err_set(err, -EEXIST, "the run '%s' has a working tree already", rd->name);
    r = make_tree(&w, commit, hidden, err);
    if (r < 0)
        return r;
    ret->objects = TAKE_PTR(w.repo.objects_path);
    return 0;
}

/* The user may have committed to the branch in tree/ meanwhile: then the sandbox continues from there, unless it has commits of
 * its own. */
static int follow_host(struct worktree *w, struct err *err) {
    CLEANUP(closep) int git = safepath_open(w->rd->fd, "git", O_RDONLY | O_DIRECTORY);
    char host[GIT_HEX_SIZE] = {0}, own[GIT_HEX_SIZE] = {0};
    int r = worktree_read_branch(w, w->repo.common, host, err);

    if (r == -ENOENT)
        return err_set(err, -ENOENT, "the branch '" WORKTREE_GROUP "/%s' of this run is gone from the repository", w->rd->name);
    if (r < 0 || str_eq(host, w->known))
        return r;
    if (git < 0)
        return err_sys(err, git, "open the run's git directory");
    r = worktree_read_branch(w, git, own, NULL);
    if (r < 0 || !str_eq(own, w->known))
        return err_set(err, -ESTALE, "both the sandbox and the host committed to '" WORKTREE_GROUP "/%s'; merge them on the host",
                       w->rd->name);
    r = worktree_set_private(w, host, err);
    return r < 0 ? r : worktree_set_known(w, host, err);
}

int worktree_open(struct rundir *rd, int workspace, struct worktree_view *ret, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    int r = worktree_begin(&w, rd, workspace, err);

    if (r < 0)
        return r;
    if (w.tree < 0 || !w.known[0])
        return err_set(err, -ENOENT, "the run '%s' has no working tree", rd->name);
    r = follow_host(&w, err);
    if (r < 0)
        return r;
    ret->objects = TAKE_PTR(w.repo.objects_path);
    return 0;
}

static int is_merged(const struct worktree *w, const char *tip, bool *ret, struct err *err) {
    char head[GIT_HEX_SIZE] = {0};
    struct git_call call = git_call(GIT_ARGS("merge-base", "--is-ancestor", tip, head), w->repo.objects);
    int r = gitrefs_head(&w->repo, head, err);

    call.may_fail = true;
    r = r < 0 ? r : git_run(&w->git, &call, NULL, err);
    if (r >= 0)
        *ret = r == 0;
    return r < 0 ? r : 0;
}

int worktree_merged(const struct rundir *rd, int workspace, bool *ret, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    char tip[GIT_HEX_SIZE] = {0};
    int r = worktree_begin(&w, (struct rundir *)rd, workspace, err);

    r = r < 0 ? r : worktree_read_branch(&w, w.repo.common, tip, err);
    return r < 0 ? r : is_merged(&w, tip, ret, err);
}

/* Another working tree with this branch would be left without a commit. */
static bool is_checked_out(const struct worktree *w) {
    CLEANUP(buf_done) struct buf here = BUF_INIT(GITREPO_FILE_MAX), main_ = BUF_INIT(GITREPO_FILE_MAX);
    CLEANUP(freep) char *line = str_dupf("ref: refs/heads/" WORKTREE_GROUP "/%s\n", w->rd->name);

    gitrepo_read(w->repo.dir, "HEAD", &here);
    gitrepo_read(w->repo.common, "HEAD", &main_);
    return !line || str_eq(buf_str(&here), line) || str_eq(buf_str(&main_), line);
}

int worktree_drop(struct rundir *rd, int workspace, bool discard, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    char tip[GIT_HEX_SIZE] = {0};
    bool gone = discard;
    int r = worktree_begin(&w, rd, workspace, err);

    if (r == -ENOENT) /* no repository (any more), or no git: nothing knows the worktree */
        return 0;
    r = r < 0 ? r : unregister_tree(&w, err);
    if (r < 0)
        return r;
    r = worktree_read_branch(&w, w.repo.common, tip, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (is_checked_out(&w))
        return 0;
    r = discard ? 0 : is_merged(&w, tip, &gone, err);
    return r < 0 || !gone ? r : gitrefs_move(&w.repo, WORKTREE_GROUP, rd->name, tip, NULL, err);
}
