/* SPDX-License-Identifier: Apache-2.0 */
/* What each task's sandbox is like: its settings are checked before anything starts, and its workspace is one that no other task meets. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/batch/batch.h"
#include "ops/run/run_request.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/git/git.h"
#include "workspace/git/gitindex.h"
#include "workspace/git/gitrepo.h"

/* As git does it: what has the size, time and bits of the last look was not changed. */
static int compare_entry(const struct gitindex_entry *e, void *arg, struct err *err) {
    int workspace = *(const int *)arg;
    struct stat st;
    bool same = place_stat(workspace, e->path, &st) == 0 && (uint32_t)st.st_size == e->size &&
                (uint32_t)st.st_mtim.tv_sec == e->mtime_s && (!e->mtime_ns || (uint32_t)st.st_mtim.tv_nsec == e->mtime_ns) &&
                (st.st_mode & S_IFMT) == (e->mode & S_IFMT) && (!S_ISREG(st.st_mode) || !((st.st_mode ^ e->mode) & S_IXUSR));

    return same ? 0 : err_set(err, -ESTALE, "'%s' was changed", e->path);
}

/* 0: the index is what HEAD is. Git runs with a directory of our own (workspace/git/git.h), and our copy of the index. */
static int compare_index(const struct gitrepo *repo, int workspace, const char *head, struct err *err) {
    CLEANUP(git_done) struct git g = GIT_INIT;
    CLEANUP(buf_done) struct buf index = BUF_INIT(GITINDEX_SIZE_MAX);
    const struct git_opts opts = {.folder = "/var/tmp",
                                  .owner = workspace,
                                  .sha256 = repo->sha256,
                                  .shallow = repo->shallow.len ? repo->shallow.data : NULL};
    struct git_call call = git_call(GIT_ARGS("diff-index", "--cached", "--quiet", head), repo->objects);
    int r = gitrepo_read(repo->dir, "index", &index);

    call.may_fail = true;
    r = r < 0 ? err_sys(err, r, "read git's index") : git_init(&g, &opts, err);
    r = r < 0 ? r : gitrepo_write(g.fd, "index", buf_str(&index), index.len, 0644, err);
    return r < 0 ? r : git_run(&g, &call, NULL, err);
}

/* Everything that git tracks is committed. Files that it does not know are not asked about: docs/parallel.md says so. */
static bool is_clean(const char *path) {
    CLEANUP(gitrepo_done) struct gitrepo repo = GITREPO_INIT;
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char head[GIT_HEX_SIZE] = {0};
    struct err ignored = {0};

    return fd >= 0 && gitrepo_open(fd, &repo, &ignored) >= 0 && gitrefs_head(&repo, head, &ignored) >= 0 &&
           gitindex_read_in(repo.dir, compare_entry, &fd, &ignored) > 0 && compare_index(&repo, fd, head, &ignored) == 0;
}

/* The answer about the last workspace: nearly always all tasks have the same. */
struct last {
    char *path, *home;
    bool clean;
};

static void last_done(struct last *l) {
    free(l->path);
    free(l->home);
}

static enum workspace_mode own_mode(const char *workspace, struct last *last) {
    if (!last->path || !str_eq(last->path, workspace)) {
        last->clean = is_clean(workspace);
        free(last->path);
        last->path = strdup(workspace);
    }
    return last->clean ? WORKSPACE_WORKTREE : WORKSPACE_OVERLAY;
}

static int choose_mode(const struct batch *b, struct batch_task *t, struct last *last, struct err *err) {
    CLEANUP(settings_done) struct settings s = {0};
    CLEANUP(freep) char *workspace = NULL;
    struct settings_flags flags = b->request->flags;
    const struct settings_sources src = {
        .flags = &flags, .agent = t->agent ? t->agent : b->request->agent, .home = last->home, .environ_ = environ};
    struct settings_sources with = src;
    int r = paths_workspace(t->directory ? t->directory : b->request->dir, &workspace, err);

    if (r < 0)
        return r;
    with.workspace = workspace;
    flags.profile = t->profile ? t->profile : flags.profile;
    flags.timeout = t->timeout ? t->timeout : flags.timeout;
    flags.workspace_mode = t->workspace ? t->workspace : flags.workspace_mode;
    if (t->env.len)
        flags.env = t->env;
    r = settings_load(&with, &s, err);
    if (r < 0)
        return r;
    if (s.mode == MODE_OFF)
        return err_usage(err, "tasks run in sandboxes only, and the settings say that there is none (%s)",
                         s.origin[SETTING_ENABLED] ? s.origin[SETTING_ENABLED] : "built-in");
    t->mode = settings_workspace_mode(&s);
    if (t->mode == WORKSPACE_DIRECT && !flags.workspace_mode)
        t->mode = own_mode(workspace, last);
    return 0;
}

/* Nothing that differs from the task before. */
static bool has_no_own_settings(const struct batch_task *t) {
    return !t->profile && !t->directory && !t->timeout && !t->agent && !t->workspace && !t->env.len;
}

int batch_modes(struct batch *b, struct err *err) {
    CLEANUP(last_done) struct last last = {0};
    const struct batch_task *plain = NULL;
    int r = paths_home(environ, &last.home, err);

    for (size_t i = 0; r >= 0 && i < b->n; i++) {
        struct batch_task *t = &b->v[i];

        if (plain && has_no_own_settings(t)) {
            t->mode = plain->mode;
            continue;
        }
        r = choose_mode(b, t, &last, err);
        if (r >= 0 && has_no_own_settings(t))
            plain = t;
        if (r < 0 && b->path)
            err_ctx(err, r, "%s:%u", b->path, t->line);
    }
    return r < 0 ? r : 0;
}
