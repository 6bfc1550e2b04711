/* SPDX-License-Identifier: Apache-2.0 */
/* Files and index of a worktree. The index is always made in our own git directory and then copied. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/copy/same.h"
#include "workspace/copy/walk.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/worktree_priv.h"

static int run_git(const struct worktree *w, const char *const *argv, int cwd, const struct buf *input, struct buf *out,
                   struct err *err) {
    struct git_call call = git_call(argv, w->repo.objects);
    CLEANUP(closep) int in = input ? git_input(input, err) : -1;

    if (input && in < 0)
        return in;
    call.in = in;
    call.cwd = cwd;
    return git_run(&w->git, &call, out, err);
}

/* Lists for git's -z --stdin. */
struct lists {
    struct buf visible, hidden;
    size_t submodules;
};

/* Records of `ls-files -s -z`: "MODE NAME STAGE\tPATH". */
static int sort_paths(const struct buf *listing, const struct ignore *rules, struct lists *ret, struct err *err) {
    for (const char *p = buf_str(listing), *end = p + listing->len; p < end; p += strlen(p) + 1) {
        const char *tab = strchr(p, '\t');
        struct buf *to;

        if (!tab)
            return err_set(err, -EBADMSG, "git ls-files: an answer that is not understood");
        to = rules && ignore_match(rules, tab + 1, false) == IGNORE_EXCLUDED ? &ret->hidden : &ret->visible;
        buf_add(to, tab + 1, strlen(tab + 1) + 1);
        ret->submodules += str_starts(p, "160000 ");
    }
    return buf_ok(&ret->visible) && buf_ok(&ret->hidden) ? 0 : err_oom(err);
}

int worktree_checkout(struct worktree *w, const char *commit, const struct ignore *hidden, struct err *err) {
    CLEANUP(buf_done) struct buf listing = BUF_INIT(GIT_OUTPUT_MAX);
    struct lists l = {.visible = BUF_INIT(GIT_OUTPUT_MAX), .hidden = BUF_INIT(GIT_OUTPUT_MAX)};
    int r = run_git(w, GIT_ARGS("read-tree", commit), -1, NULL, NULL, err);

    r = r < 0 ? r : run_git(w, GIT_ARGS("ls-files", "-s", "-z"), w->tree, NULL, &listing, err);
    r = r < 0 ? r : sort_paths(&listing, hidden, &l, err);
    /* So that git does not take hidden files for deleted ones. */
    if (r >= 0 && l.hidden.len)
        r = run_git(w, GIT_ARGS("update-index", "--skip-worktree", "-z", "--stdin"), w->tree, &l.hidden, NULL, err);
    /* A list, not --all: git before 2.36 would check out the skipped ones, too. */
    r = r < 0 ? r : run_git(w, GIT_ARGS("checkout-index", "-q", "-u", "-z", "--stdin"), w->tree, &l.visible, NULL, err);
    if (r >= 0 && l.submodules)
        log_line("worktree: %zu submodule%s left empty", l.submodules, l.submodules == 1 ? " is" : "s are");
    buf_done(&l.visible);
    buf_done(&l.hidden);
    return r;
}

/* Of the NUL-ended records of `ls-files -t -z`, the paths of those that are skipped, sorted. */
static int skipped_paths(const struct buf *text, struct strv *ret) {
    for (const char *p = buf_str(text), *end = p + text->len; p < end; p += strlen(p) + 1)
        if (str_starts(p, "S ") && strv_add(ret, p + 2) < 0)
            return -ENOMEM;
    if (ret->len)
        qsort(ret->v, ret->len, sizeof(char *), str_compare);
    return 0;
}

static bool has(const struct strv *sorted, const char *s) {
    return sorted->len && bsearch(&s, sorted->v, sorted->len, sizeof(char *), str_compare);
}

static bool same_link(int a, int b) {
    char x[PATH_MAX], y[sizeof x];
    ssize_t n = readlinkat(a, "", x, sizeof x);

    return n >= 0 && readlinkat(b, "", y, sizeof y) == n && memcmp(x, y, (size_t)n) == 0;
}

/* Whether the workspace has at the path what the commit has. Git is not asked: it would open a FIFO named .gitattributes. */
static bool is_clean(const struct worktree *w, const struct walk_entry *e, const struct stat *host) {
    int flags = S_ISLNK(host->st_mode) ? O_PATH : O_RDONLY | O_NONBLOCK | O_NOCTTY;
    CLEANUP(closep) int a = -1;
    CLEANUP(closep) int b = -1;

    if ((host->st_mode & S_IFMT) != (e->st.st_mode & S_IFMT))
        return false;
    if (S_ISDIR(host->st_mode))
        return true;
    if (host->st_size != e->st.st_size || (S_ISREG(host->st_mode) && (host->st_mode ^ e->st.st_mode) & S_IXUSR))
        return false;
    a = place_open(w->workspace, e->path, flags);
    b = openat(e->dir, e->name, flags | O_NOFOLLOW | O_CLOEXEC);
    return a >= 0 && b >= 0 && (S_ISLNK(host->st_mode) ? same_link(a, b) : same_content(a, b, INT64_MAX) == 1);
}

struct checkout_listing {
    struct worktree *w;
    struct manifest *m;
};

/* A file of the workspace that differs from the commit is not what the copy was made from: its stamp is one that no file has,
 * so that apply sees a change on the host's side. */
static int note_entry(const struct walk_entry *e, void *arg, struct err *err) {
    struct checkout_listing *l = arg;
    struct manifest_stamp host = {0}, copy = manifest_stamp_of(&e->st);
    struct stat st;
    int r;

    if (str_eq(e->path, ".git"))
        return WALK_SKIP;
    r = place_stat(l->w->workspace, e->path, &st);
    if (r == 0 && is_clean(l->w, e, &st))
        host = manifest_stamp_of(&st);
    else
        host.mode = copy.mode; /* also if it was deleted, but not committed */
    r = manifest_set(l->m, e->path, &host, &copy, err);
    return r < 0 ? r : WALK_ON;
}

int worktree_write_manifest(struct worktree *w, struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    struct checkout_listing l = {.w = w, .m = m};
    struct walk_ops ops = {.found = note_entry, .arg = &l};
    int r = m ? walk_tree(w->tree, NULL, &ops, err) : err_oom(err);

    return r < 0 ? r : manifest_save(m, w->rd->fd, "manifest", err);
}

/* Of the paths that were left out, those that the index still has. */
static int mark_hidden(const struct worktree *w, const struct buf *before, struct err *err) {
    CLEANUP(buf_done) struct buf after = BUF_INIT(GIT_OUTPUT_MAX);
    CLEANUP(buf_done) struct buf marked = BUF_INIT(GIT_OUTPUT_MAX);
    CLEANUP(strv_done) struct strv hidden = {0};
    int r = skipped_paths(before, &hidden) < 0 ? err_oom(err) : 0;

    if (r < 0 || hidden.len == 0)
        return r;
    r = run_git(w, GIT_ARGS("ls-files", "-z"), w->tree, NULL, &after, err);
    for (const char *p = buf_str(&after), *end = p + after.len; r >= 0 && p < end; p += strlen(p) + 1)
        if (has(&hidden, p))
            buf_add(&marked, p, strlen(p) + 1);
    if (r >= 0 && !buf_ok(&marked))
        return err_oom(err);
    return r < 0 || !marked.len
               ? r
               : run_git(w, GIT_ARGS("update-index", "--skip-worktree", "-z", "--stdin"), w->tree, &marked, NULL, err);
}

/* Entries that the commit has changed come without times: the host's git compares those files itself when it is asked. Here, in
 * a tree that the sandbox has written, no file is opened. */
int worktree_renew_index(struct worktree *w, const char *commit, struct err *err) {
    CLEANUP(buf_done) struct buf before = BUF_INIT(GIT_OUTPUT_MAX);
    CLEANUP(closep) int dir = worktree_open_registered(w, err);
    int r = dir < 0 ? dir : worktree_copy(dir, "index", w->git.fd, "index", WORKTREE_INDEX_MAX, err);

    r = r < 0 ? r : run_git(w, GIT_ARGS("ls-files", "-t", "-z"), w->tree, NULL, &before, err);
    r = r < 0 ? r : run_git(w, GIT_ARGS("read-tree", "-i", "-m", commit), -1, NULL, NULL, err);
    r = r < 0 ? r : mark_hidden(w, &before, err);
    return r < 0 ? r : worktree_copy(w->git.fd, "index", dir, "index", WORKTREE_INDEX_MAX, err);
}
