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
#include "os/file.h"
#include "os/safepath.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/place.h"
#include "workspace/copy/same.h"
#include "workspace/copy/walk.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitindex.h"
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

enum { TYPE_MASK = 0170000, TYPE_SUBMODULE = 0160000 };

/* Lists for git's -z --stdin. */
struct lists {
    const struct ignore *rules; /* NULL: nothing is hidden */
    struct buf visible, hidden;
    size_t submodules;
};

static int sort_entry(const struct gitindex_entry *e, void *arg, struct err *err UNUSED) {
    struct lists *l = arg;
    bool hidden = l->rules && ignore_match(l->rules, e->path, false) == IGNORE_EXCLUDED;

    buf_add(hidden ? &l->hidden : &l->visible, e->path, strlen(e->path) + 1);
    l->submodules += (e->mode & TYPE_MASK) == TYPE_SUBMODULE;
    return 0;
}

/* From the index that git has just made of the commit: to ask it again would take another process. */
static int sort_paths(const struct worktree *w, struct lists *l, struct err *err) {
    CLEANUP(buf_done) struct buf index = BUF_INIT(GITINDEX_SIZE_MAX);
    int r = file_read_at(w->git.fd, "index", 0, &index);

    if (r < 0)
        return err_sys(err, r, "read the worktree's index");
    r = gitindex_parse_all((const unsigned char *)buf_str(&index), index.len, sort_entry, l, err);
    return r < 0 ? r : buf_ok(&l->visible) && buf_ok(&l->hidden) ? 0 : err_oom(err);
}

int worktree_checkout(struct worktree *w, const char *commit, const struct ignore *hidden, struct err *err) {
    struct lists l = {.rules = hidden, .visible = BUF_INIT(GIT_OUTPUT_MAX), .hidden = BUF_INIT(GIT_OUTPUT_MAX)};
    int r = run_git(w, GIT_ARGS("read-tree", commit), -1, NULL, NULL, err);

    r = r < 0 ? r : sort_paths(w, &l, err);
    /* So that git does not take hidden files for deleted ones. */
    if (r >= 0 && l.hidden.len)
        r = run_git(w, GIT_ARGS("update-index", "--skip-worktree", "-z", "--stdin"), w->tree, &l.hidden, NULL, err);
    /* A list, not --all: git before 2.36 would check out the skipped ones, too. */
    r = r < 0 ? r : run_git(w, GIT_ARGS("checkout-index", "-q", "-u", "-z", "--stdin"), w->tree, &l.visible, NULL, err);
    if (r >= 0 && l.submodules)
        log_note("worktree: %zu submodule%s left empty", l.submodules, l.submodules == 1 ? " is" : "s are");
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

/* Whether the workspace has at the path what the commit has. Git is not asked: it would open a FIFO named .gitattributes. */
static bool is_clean(const struct worktree *w, const struct walk_entry *e, const struct stat *host) {
    CLEANUP(closep) int a = -1, b = -1;
    CLEANUP(freep) char *target = NULL;

    if ((host->st_mode & S_IFMT) != (e->st.st_mode & S_IFMT))
        return false;
    if (S_ISDIR(host->st_mode))
        return true;
    if (host->st_size != e->st.st_size || (S_ISREG(host->st_mode) && (host->st_mode ^ e->st.st_mode) & S_IXUSR))
        return false;
    if (S_ISLNK(host->st_mode)) {
        target = place_link_target(w->tree, e->path);
        return place_links_to(w->workspace, e->path, target);
    }
    a = place_read(w->workspace, e->path);
    b = place_read(w->tree, e->path);
    return a >= 0 && b >= 0 && same_content(a, b, INT64_MAX) == 1;
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
    CLEANUP(buf_done) struct buf after = BUF_INIT(GIT_OUTPUT_MAX), marked = BUF_INIT(GIT_OUTPUT_MAX);
    CLEANUP(strv_done) struct strv hidden = {0};
    int r = skipped_paths(before, &hidden) < 0 ? err_oom(err) : 0;

    if (r < 0 || hidden.len == 0)
        return r;
    r = run_git(w, GIT_ARGS("ls-files", "-z"), w->tree, NULL, &after, err);
    for (const char *p = buf_str(&after), *end = p + after.len; r >= 0 && p < end; p += strlen(p) + 1)
        if (bsearch(&p, hidden.v, hidden.len, sizeof(char *), str_compare))
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
    int r = dir < 0 ? dir : worktree_copy(dir, "index", w->git.fd, "index", gitrepo_write_soon, err);

    r = r < 0 ? r : run_git(w, GIT_ARGS("ls-files", "-t", "-z"), w->tree, NULL, &before, err);
    r = r < 0 ? r : run_git(w, GIT_ARGS("read-tree", "-i", "-m", commit), -1, NULL, NULL, err);
    r = r < 0 ? r : mark_hidden(w, &before, err);
    return r < 0 ? r : worktree_copy(w->git.fd, "index", dir, "index", gitrepo_write, err);
}

/* -- the sandbox's side: git/ --------------------------------------------------------------------------------------------- */

/*
 * The git directory that the sandbox sees: a repository of its own that borrows the objects. It belongs to the sandbox from
 * then on; nothing on the host ever uses it as a git directory.
 */

enum { CONFIG_MAX = 4 * 1024 * 1024 };

/* How text is stored: no program, no path, no address in them. */
static const char *const copied_keys[] = {"core.autocrlf", "core.eol",        "core.filemode",
                                          "core.symlinks", "core.ignorecase", "i18n.commitencoding"};
static const char *const remote_keys[] = {"url", "pushurl", "fetch"};

/* https://user:token@host/path?key -> https://host/path; ssh://git:secret@host -> ssh://git@host; git@host:path stays. */
static int clean_url(const char *url, char **ret) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CONFIG_MAX);
    const char *host = strstr(url, "://"), *at = NULL, *end;

    if (!host)
        return (*ret = strdup(url)) ? 0 : -ENOMEM;
    host += strlen("://");
    end = host + strcspn(host, "/");
    for (const char *p = host; p < end; p++)
        if (*p == '@')
            at = p;
    buf_add(&b, url, (size_t)(host - url));
    if (at && strncasecmp(url, "http", 4) != 0) {
        buf_add(&b, host, MIN_OF(strcspn(host, ":"), (size_t)(at - host)));
        buf_addc(&b, '@');
    }
    host = at ? at + 1 : host;
    buf_add(&b, host, strncasecmp(url, "http", 4) == 0 ? strcspn(host, "?") : strlen(host));
    *ret = buf_take(&b);
    return *ret ? 0 : -ENOMEM;
}

static int add_remote(const char *key, const char *value, struct buf *out, struct err *err) {
    const char *name = strchr(key, '.') + 1, *end = strrchr(key, '.');
    CLEANUP(freep) char *clean = NULL;

    if (clean_url(value, &clean) < 0)
        return err_oom(err);
    buf_adds(out, "[remote ");
    gitconfig_add_quoted(out, name, (size_t)(end - name));
    buf_addf(out, "]\n\t%s = ", end + 1);
    gitconfig_add_quoted(out, clean, strlen(clean));
    buf_addc(out, '\n');
    return 0;
}

static int add_key(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    const char *dot = strchr(key, '.');
    struct buf *out = arg;

    if (!dot || !value)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(remote_keys); i++)
        if (gitconfig_is(key, "remote", remote_keys[i]) && strrchr(key, '.') != dot)
            return add_remote(key, value, out, err);
    for (size_t i = 0; i < ARRAY_LEN(copied_keys); i++)
        if (str_eq(key, copied_keys[i])) {
            buf_addf(out, "[%.*s]\n\t%s = ", (int)(dot - key), key, dot + 1);
            gitconfig_add_quoted(out, value, strlen(value));
            buf_addc(out, '\n');
        }
    return 0;
}

static int write_config(const struct worktree *w, int git, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CONFIG_MAX);
    int r;

    buf_addf(&text, "[core]\n\trepositoryFormatVersion = %d\n\tbare = false\n\tlogAllRefUpdates = true\n", w->repo.sha256);
    if (w->repo.sha256)
        buf_adds(&text, "[extensions]\n\tobjectFormat = sha256\n");
    r = gitconfig_parse(buf_str(&w->repo.config), w->repo.config.len, add_key, &text, err);
    if (r < 0)
        return r;
    return buf_ok(&text) ? gitrepo_write_soon(git, "config", text.data, text.len, 0644, err) : err_oom(err);
}

/* Branches, tags and what is known of remotes, so that `git log main..` works inside. */
static int write_refs(const struct worktree *w, int git, struct err *err) {
    CLEANUP(gitref_list_done) struct gitref_list refs = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_PACKED_MAX);
    int r = gitrefs_list(w->repo.common, w->repo.sha256, &refs, err);

    if (r < 0)
        return r;
    buf_adds(&text, "# pack-refs with: sorted \n");
    for (size_t i = 0; i < refs.n; i++)
        buf_addf(&text, "%s %s\n", refs.v[i].hex, refs.v[i].name);
    if (!buf_ok(&text))
        return err_set(err, -EFBIG, "the repository has too many refs");
    return gitrepo_write_soon(git, "packed-refs", text.data, text.len, 0644, err);
}

static int make_dirs(int git, const char *path, struct err *err) {
    CLEANUP(closep) int dir = fcntl(git, F_DUPFD_CLOEXEC, 0);
    char name[256];

    for (const char *p = path; *p;) {
        size_t len = strcspn(p, "/");
        int next;

        snprintf(name, sizeof name, "%.*s", (int)len, p);
        next = gitrepo_make_dir(dir, name, 0755, err);
        if (next < 0)
            return next;
        close(dir);
        dir = next;
        p += len + (p[len] == '/');
    }
    return TAKE_FD(dir);
}

static int write_in(int git, const char *folder, const char *name, const char *text, worktree_writer *put, struct err *err) {
    CLEANUP(closep) int dir = make_dirs(git, folder, err);

    return dir < 0 ? dir : put(dir, name, text, strlen(text), 0644, err);
}

/* What the repository leaves out of git status for this user alone; no harm if it cannot be read. */
static int copy_exclude(const struct worktree *w, int git, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(WORKTREE_EXCLUDE_MAX);

    if (gitrepo_read(w->repo.common, "info/exclude", &text) < 0 || !text.data)
        return 0;
    return write_in(git, "info", "exclude", text.data, gitrepo_write_soon, err);
}

static int write_branch(const struct worktree *w, int git, const char *commit, worktree_writer *put, struct err *err) {
    CLEANUP(freep) char *head = str_dupf("ref: refs/heads/" WORKTREE_GROUP "/%s\n", w->rd->name);
    CLEANUP(freep) char *line = str_dupf("%s\n", commit);
    int r = head && line ? put(git, "HEAD", head, strlen(head), 0644, err) : err_oom(err);

    return r < 0 ? r : write_in(git, "refs/heads/" WORKTREE_GROUP, w->rd->name, line, put, err);
}

/* git obeys a .git file only if it belongs to the user (safe.directory). */
static int write_dotgit(const struct worktree *w, struct err *err) {
    static const char text[] = "gitdir: " WORKTREE_GIT "\n";
    int r = gitrepo_write_soon(w->rd->fd, "dotgit", text, strlen(text), 0644, err);

    if (r == 0 && geteuid() == 0 && fchownat(w->rd->fd, "dotgit", w->git.uid, w->git.gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, -errno, "give 'dotgit' to the owner of the workspace");
    return r;
}

/* No waiting for the disk: what a power cut empties in the seconds after the start has no work in it yet. `bawn discard` removes such a run: what it
 * needs (tip, run.json, the branch in the repository) is on the disk. */
int worktree_make_private(struct worktree *w, const char *commit, struct err *err) {
    CLEANUP(closep) int git = worktree_make_dir(w, "git", err);
    CLEANUP(closep) int pack = git < 0 ? git : make_dirs(git, "objects/pack", err);
    int r = pack < 0 ? pack : write_config(w, git, err);

    r = r < 0 ? r : write_refs(w, git, err);
    r = r < 0 ? r : write_branch(w, git, commit, gitrepo_write_soon, err);
    if (r < 0)
        return r;
    r = write_in(git, "objects/info", "alternates", WORKTREE_OBJECTS "\n", gitrepo_write_soon, err);
    r = r < 0 ? r : copy_exclude(w, git, err);
    if (r >= 0 && w->repo.shallow.len)
        r = gitrepo_write_soon(git, "shallow", w->repo.shallow.data, w->repo.shallow.len, 0644, err);
    r = r < 0 ? r : worktree_copy(w->git.fd, "index", git, "index", gitrepo_write_soon, err);
    return r < 0 ? r : write_dotgit(w, err);
}

int worktree_set_private(struct worktree *w, const char *commit, struct err *err) {
    CLEANUP(closep) int git = safepath_open(w->rd->fd, "git", O_RDONLY | O_DIRECTORY);
    CLEANUP(closep) int host = worktree_open_registered(w, err);
    int r;

    if (git < 0 || host < 0)
        return host < 0 ? host : err_sys(err, git, "open the run's git directory");
    r = write_branch(w, git, commit, gitrepo_write, err);
    return r < 0 ? r : worktree_copy(host, "index", git, "index", gitrepo_write, err);
}
