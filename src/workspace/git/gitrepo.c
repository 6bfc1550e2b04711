/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a repository and refuses what worktree mode cannot serve. */
#include "workspace/git/gitrepo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/safepath.h"
#include "workspace/git/gitconfig.h"

int gitrepo_read(int dir, const char *name, struct buf *ret) {
    CLEANUP(closep) int fd = safepath_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);

    return fd < 0 ? fd : file_read_fd(fd, 0, ret);
}

int gitrepo_read_line(int dir, const char *name, struct buf *ret) {
    int r = gitrepo_read(dir, name, ret);

    if (r < 0 || !ret->data)
        return r < 0 ? r : -EBADMSG;
    ret->len = strcspn(ret->data, "\r\n");
    ret->data[ret->len] = 0;
    return ret->len ? 0 : -EBADMSG;
}

void git_object_name(const unsigned char *id, size_t len, char ret[static GIT_OBJECT_NAME_SIZE]) {
    hex_encode(id, 1, ret);
    ret[2] = '/';
    hex_encode(id + 1, len - 1, ret + 3);
}

/* Root leaves nothing in another user's folder that they cannot remove. */
static int give_to_owner(int fd, int folder) {
    struct stat st;

    if (geteuid() != 0)
        return 0;
    return fstat(folder, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0 ? -errno : 0;
}

int gitrepo_create(int dir, const char *name, mode_t mode, struct err *err) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    int r = fd < 0 ? -errno : give_to_owner(fd, dir);

    if (r == -EEXIST)
        return err_set(err, -EBUSY, "'%s' exists: another git process is at work, or left it behind (then remove it)", name);
    if (r < 0 && fd >= 0)
        unlinkat(dir, name, 0);
    return r < 0 ? err_sys(err, r, "write '%s'", name) : TAKE_FD(fd);
}

static int write_whole(int dir, const char *name, const void *data, size_t len, mode_t mode, bool wait, struct err *err) {
    CLEANUP(freep) char *lock = str_dupf("%s.lock", name);
    CLEANUP(closep) int fd = -1;
    int r;

    if (!lock)
        return err_oom(err);
    fd = gitrepo_create(dir, lock, mode, err);
    if (fd < 0)
        return fd;
    r = fd_write_all(fd, data, len);
    if (r == 0 && ((wait && fsync(fd) < 0) || renameat(dir, lock, dir, name) < 0))
        r = -errno;
    if (r < 0)
        unlinkat(dir, lock, 0);
    return r < 0 ? err_sys(err, r, "write '%s'", name) : 0;
}

int gitrepo_write(int dir, const char *name, const void *data, size_t len, mode_t mode, struct err *err) {
    return write_whole(dir, name, data, len, mode, true, err);
}

int gitrepo_write_soon(int dir, const char *name, const void *data, size_t len, mode_t mode, struct err *err) {
    return write_whole(dir, name, data, len, mode, false, err);
}

int gitrepo_make_dir(int parent, const char *name, mode_t mode, struct err *err) {
    bool made = mkdirat(parent, name, mode) == 0;
    CLEANUP(closep) int fd = -1;
    int r;

    if (!made && errno != EEXIST)
        return err_sys(err, -errno, "make the folder '%s'", name);
    fd = safepath_open(parent, name, O_RDONLY | O_DIRECTORY);
    r = fd < 0 ? fd : made ? give_to_owner(fd, parent) : 0;
    return r < 0 ? err_sys(err, r, "open the folder '%s'", name) : TAKE_FD(fd);
}

/* The same, and no NUL may be in it: where git and this reader might differ, worktree mode refuses. */
static int read_strict(int dir, const char *name, struct buf *ret) {
    int r = gitrepo_read(dir, name, ret);

    if (r < 0)
        return r;
    if (!ret->data || strlen(ret->data) != ret->len)
        return -EBADMSG;
    ret->len = strcspn(ret->data, "\r\n");
    ret->data[ret->len] = 0;
    return ret->len ? 0 : -EBADMSG;
}

static bool same_folder(int a, int b) {
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The repository must know this worktree, at this place: else a .git file made by an agent could show a sandbox the objects of
 * any repository of the user's (ATTACKS 37). */
static bool is_registered(int workspace, const struct gitrepo *r, const char *dir_path) {
    CLEANUP(buf_done) struct buf back = BUF_INIT(GITREPO_FILE_MAX), id = BUF_INIT(GITREPO_FILE_MAX);
    CLEANUP(closep) int known = -1, top = -1;

    buf_addf(&id, "worktrees/%s", strrchr(dir_path, '/') + 1);
    known = safepath_open(r->common, buf_str(&id), O_PATH | O_DIRECTORY);
    if (known < 0 || !same_folder(known, r->dir) || read_strict(r->dir, "gitdir", &back) < 0 || !str_ends(back.data, "/.git"))
        return false;
    back.data[back.len - strlen("/.git")] = 0;
    top = openat(r->dir, back.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return top >= 0 && same_folder(top, workspace);
}

/* .git is a file: "gitdir: PATH". */
static int open_linked(int workspace, struct gitrepo *r, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX), common = BUF_INIT(GITREPO_FILE_MAX);
    CLEANUP(freep) char *dir_path = NULL;
    int n = read_strict(workspace, ".git", &line);

    if (n == -ELOOP)
        return err_set(err, -ENOTSUP, "the workspace's .git is a symbolic link, which worktree mode does not follow");
    if (n < 0 || !str_starts(line.data, "gitdir: "))
        return err_set(err, -ENOTSUP, "the workspace's .git is neither a folder nor the file of a linked worktree");
    r->dir = openat(workspace, line.data + strlen("gitdir: "), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->dir < 0)
        return err_sys(err, -errno, "open the git directory that the workspace's .git names");
    n = paths_of_fd(r->dir, &dir_path, err);
    if (n < 0)
        return n;
    if (read_strict(r->dir, "commondir", &common) < 0)
        return err_set(err, -ENOTSUP, "worktree mode does not serve a submodule or a repository with a separate git directory");
    r->common = openat(r->dir, common.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->common < 0)
        return err_sys(err, -errno, "open the repository of the workspace's worktree");
    if (!is_registered(workspace, r, dir_path))
        return err_set(err, -ENOTSUP, "the workspace's .git names a repository that does not know it; run 'git worktree repair'");
    r->linked = true;
    return 0;
}

static int open_dirs(int workspace, struct gitrepo *r, struct err *err) {
    int n;

    r->dir = safepath_open(workspace, ".git", O_RDONLY | O_DIRECTORY);
    if (r->dir == -ENOENT)
        return err_set(err, -ENOENT, "the workspace is not the top of a git working tree (it has no .git)");
    if (r->dir == -ENOTDIR || r->dir == -ELOOP)
        n = open_linked(workspace, r, err);
    else if (r->dir < 0)
        return err_sys(err, r->dir, "open the workspace's .git");
    else
        n = (r->common = fcntl(r->dir, F_DUPFD_CLOEXEC, 0)) < 0 ? err_sys(err, -errno, "open the workspace's .git") : 0;
    if (n < 0)
        return n;
    r->objects = safepath_open(r->common, "objects", O_RDONLY | O_DIRECTORY);
    if (r->objects < 0)
        return err_sys(err, r->objects, "open the repository's objects (a folder, no link)");
    n = paths_of_fd(r->common, &r->common_path, err);
    return n < 0 ? n : paths_of_fd(r->objects, &r->objects_path, err);
}

static bool is_true(const char *value) {
    static const char *const no[] = {"false", "no", "off", "0", ""};

    for (size_t i = 0; value && i < ARRAY_LEN(no); i++)
        if (strcasecmp(value, no[i]) == 0)
            return false;
    return true;
}

static const char *const known_extensions[] = {"extensions.objectformat", "extensions.worktreeconfig", "extensions.noop",
                                               "extensions.preciousobjects", "extensions.relativeworktrees"};

/* What worktree mode could only get wrong. */
static int judge_key(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    struct gitrepo *r = arg;

    if (str_eq(key, "extensions.objectformat"))
        r->sha256 = value && str_eq(value, "sha256");
    if (str_eq(key, "core.bare") && !r->linked && is_true(value))
        return err_set(err, -ENOTSUP, "the repository is bare: there is no working tree to make a second one of");
    if (str_eq(key, "core.worktree") && !r->linked)
        return err_set(err, -ENOTSUP, "the repository has its working tree elsewhere (core.worktree)");
    if (str_eq(key, "core.sparsecheckout") && is_true(value))
        return err_set(err, -ENOTSUP, "worktree mode does not serve a sparse checkout ('git sparse-checkout disable' ends it)");
    if (str_eq(key, "extensions.partialclone") || (gitconfig_is(key, "remote", "promisor") && is_true(value)))
        return err_set(err, -ENOTSUP, "worktree mode does not serve a partial clone: objects may be missing");
    if (str_starts(key, "extensions.") && str_index(key, known_extensions, ARRAY_LEN(known_extensions)) < 0 &&
        !(str_eq(key, "extensions.refstorage") && value && str_eq(value, "files")))
        return err_set(err, -ENOTSUP, "the repository uses '%s', which is not known here", key);
    return 0;
}

static int judge_config(struct gitrepo *r, struct err *err) {
    CLEANUP(buf_done) struct buf own = BUF_INIT(GITCONFIG_SIZE_MAX), alternates = BUF_INIT(GITREPO_FILE_MAX);
    int n = gitrepo_read(r->common, "config", &r->config);

    if (n < 0)
        return err_sys(err, n, "read the repository's configuration");
    n = gitconfig_parse(buf_str(&r->config), r->config.len, judge_key, r, err);
    if (n >= 0 && gitrepo_read(r->dir, "config.worktree", &own) >= 0)
        n = gitconfig_parse(buf_str(&own), own.len, judge_key, r, err);
    if (n < 0)
        return n;
    if (gitrepo_read(r->objects, "info/alternates", &alternates) != -ENOENT)
        return err_set(err, -ENOTSUP,
                       "worktree mode does not serve a repository that borrows objects of another "
                       "('git repack -a -d' copies them; then remove objects/info/alternates)");
    n = gitrepo_read(r->common, "shallow", &r->shallow);
    return n < 0 && n != -ENOENT ? err_sys(err, n, "read the repository's list of shallow commits") : 0;
}

int gitrepo_open(int workspace, struct gitrepo *ret, struct err *err) {
    CLEANUP(gitrepo_done) struct gitrepo r = GITREPO_INIT;
    int n = open_dirs(workspace, &r, err);

    n = n < 0 ? n : judge_config(&r, err);
    if (n < 0)
        return n;
    *ret = TAKE(r, (struct gitrepo)GITREPO_INIT);
    return 0;
}

void gitrepo_done(struct gitrepo *r) {
    closep(&r->dir);
    closep(&r->common);
    closep(&r->objects);
    freep(&r->common_path);
    freep(&r->objects_path);
    buf_done(&r->shallow);
    buf_done(&r->config);
}
