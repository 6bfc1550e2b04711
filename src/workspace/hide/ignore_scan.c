/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a workspace and judges each name. */
#include "workspace/hide/ignore_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/safepath.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/walk_memo.h"

enum { READ_AT_ONCE = 32 * 1024 };

struct ignore_walk {
    struct ignore *ig;
    ignore_found_fn *found;
    void *arg;
    struct err *err;
    char *entries; /* struct dirent64 of the folders that are being walked, the deepest last */
    size_t len, cap;
    char path[PATH_MAX];
    size_t path_len;
    unsigned depth;
    bool fixed; /* the rules are those that ig came with */
    struct walk_memo *memo;
    int root;
    size_t n_sources; /* files of rules in ig */
};

/* A folder that is about to be walked. */
struct ignore_dir {
    const struct ignore_list *rules;
    uint32_t at; /* what the memo has of it, if the rules above it are the same; MEMO_NONE */
};

static void walk_done(struct ignore_walk *w) {
    free(w->entries);
}

/* Names come from the tree and messages go to a terminal. */
static int scan_failed(struct err *err, int r, const char *what, const char *path) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(4 * PATH_MAX);

    buf_add_printable(&shown, path[0] ? path : ".");
    if (r == -ELOOP || r == -ENOTDIR)
        return err_set(err, r, "'%.800s' changed while it was read; try again", buf_str(&shown));
    if (r == -E2BIG)
        return err_set(err, r, "'%.800s' has too many entries to %s", buf_str(&shown), what);
    return err_sys(err, r, "%s '%.800s'", what, buf_str(&shown));
}

static int no_regular_file(const char *path, struct err *err) {
    return err_set(err, -EINVAL, "'%s' is not a regular file; its rules would not count", path);
}

/* Looked at before it is opened, because opening a device can do something. file_read_fd() looks again. */
static int open_regular(int fd, const char *name, const char *path, struct err *err) {
    struct stat st;
    int file;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -ENOENT : scan_failed(err, -errno, "read", path);
    if (!S_ISREG(st.st_mode))
        return no_regular_file(path, err);
    file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return file < 0 ? scan_failed(err, errno == ENOENT ? -ELOOP : -errno, "read", path) : file;
}

/* Adds DIR/.sandboxignore (dir: path of the folder open as fd, "" for the workspace). Returns 1, or 0 if there is none. */
static int load_ignore_file(struct ignore *ig, int fd, const char *dir, struct err *err) {
    CLEANUP(buf_done) struct buf origin = BUF_INIT(4 * PATH_MAX + sizeof IGNORE_FILE), text = BUF_INIT(IGNORE_FILE_MAX);
    CLEANUP(closep) int file = -1;
    int r;

    buf_add_printable(&origin, dir);
    buf_adds(&origin, dir[0] ? "/" IGNORE_FILE : IGNORE_FILE);
    if (!buf_ok(&origin))
        return err_oom(err);
    file = open_regular(fd, IGNORE_FILE, buf_str(&origin), err);
    if (file < 0)
        return file == -ENOENT ? 0 : file;
    r = file_read_fd(file, 0, &text);
    if (r == -EINVAL)
        return no_regular_file(buf_str(&origin), err);
    if (r < 0 && r != -EFBIG)
        return scan_failed(err, r, "read", buf_str(&origin));
    /* One that is too large is refused there, before a byte of it is read. */
    r = ignore_add_file(ig, dir, buf_str(&origin), buf_str(&text), r < 0 ? IGNORE_FILE_MAX + 1 : text.len, err);
    return r < 0 ? r : 1;
}

static int make_entry_room(struct ignore_walk *w) {
    size_t cap = w->cap ? 2 * w->cap : 4 * READ_AT_ONCE;
    char *more;

    if (w->cap - w->len >= READ_AT_ONCE)
        return 0;
    if (cap > SCAN_ENTRIES_MAX)
        return scan_failed(w->err, -E2BIG, "search", w->path);
    more = realloc(w->entries, cap);
    if (!more)
        return err_oom(w->err);
    w->entries = more;
    w->cap = cap;
    return 0;
}

/* All of a folder at once: its .sandboxignore must be known before its first name is judged. */
static int read_entries(struct ignore_walk *w, int fd) {
    for (;;) {
        ssize_t n;
        int r = make_entry_room(w);

        if (r < 0)
            return r;
        n = getdents64(fd, w->entries + w->len, w->cap - w->len);
        if (n < 0)
            return scan_failed(w->err, -errno, "list", w->path);
        if (n == 0)
            return 0;
        w->len += (size_t)n;
    }
}

static const struct dirent64 *entry_at(const struct ignore_walk *w, size_t at) {
    return (const struct dirent64 *)(const void *)(w->entries + at);
}

static bool has_ignore_file(const struct ignore_walk *w, size_t from) {
    for (; from < w->len; from += entry_at(w, from)->d_reclen)
        if (str_eq(entry_at(w, from)->d_name, IGNORE_FILE))
            return true;
    return false;
}

/* Returns 1 for a folder, 0 for anything else, -ENOENT if it is gone. */
static int is_folder(struct ignore_walk *w, int fd, unsigned char type, const char *name) {
    struct stat st;

    if (type != DT_UNKNOWN)
        return type == DT_DIR;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -ENOENT : scan_failed(w->err, -errno, "look at", w->path);
    return S_ISDIR(st.st_mode);
}

static bool is_linked(int fd, const char *name) {
    struct stat st;

    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

static int hand_over(struct ignore_walk *w, bool is_dir, bool linked, bool unreadable, const struct ignore_why *why) {
    struct ignore_found f = {.path = w->path, .is_dir = is_dir, .linked = linked, .unreadable = unreadable, .why = *why};

    return w->found ? w->found(&f, w->arg, w->err) : 0;
}

static int walk_folder(struct ignore_walk *w, int fd, const struct ignore_dir *dir);
static int replay_below(struct ignore_walk *w, const struct ignore_dir *dir);

/* A name in the folder that is open as fd, or a path of several below the workspace, which the memo has. */
static int open_folder(int fd, const char *path) {
    int folder;

    if (strchr(path, '/'))
        return safepath_open(fd, path, O_RDONLY | O_DIRECTORY);
    folder = openat(fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return folder < 0 ? -errno : folder;
}

static const char *last_name(const struct ignore_walk *w) {
    const char *slash = strrchr(w->path, '/');

    return slash ? slash + 1 : w->path;
}

static int read_folder(struct ignore_walk *w, int fd, const char *name, const struct ignore_dir *dir) {
    CLEANUP(closep) int folder = open_folder(fd, name);

    if (folder == -ENOENT)
        return 0;
    if (folder == -EACCES || folder == -EPERM) { /* another user's, or closed by its owner, who could open it inside */
        if (w->memo)
            memo_add(w->memo, MEMO_FOLDER, w->depth, last_name(w), &(struct memo_stamp){0}, NULL);
        return hand_over(w, true, false, true, &(struct ignore_why){0});
    }
    return folder < 0 ? scan_failed(w->err, folder, "open", w->path) : walk_folder(w, folder, dir);
}

/* Nothing changed in it: what the memo has of it holds. A folder with rules of its own is opened, to read them. */
static bool is_remembered(const struct ignore_walk *w, int fd, const char *name, uint32_t at, struct memo_stamp *ret) {
    return at != MEMO_NONE && !w->memo->v[at].rules && memo_look(w->memo, fd, name, ret) == 0 && memo_same(w->memo, at, ret);
}

static int descend(struct ignore_walk *w, int fd, const char *name, const struct ignore_dir *dir) {
    struct memo_stamp stamp;
    int r;

    if (w->depth == IGNORE_DEPTH_MAX)
        return err_set(w->err, -ELOOP, "the workspace is deeper than %d folders", IGNORE_DEPTH_MAX);
    w->depth++;
    if (is_remembered(w, fd, name, dir->at, &stamp)) {
        memo_add(w->memo, MEMO_FOLDER, w->depth, last_name(w), &stamp, NULL);
        r = replay_below(w, dir);
    } else
        r = read_folder(w, fd, name, dir);
    w->depth--;
    return r;
}

static int found_hidden(struct ignore_walk *w, int fd, const char *name, bool folder, const struct ignore_why *why) {
    if (w->memo)
        memo_add(w->memo, folder ? MEMO_HIDDEN_FOLDER : MEMO_HIDDEN_FILE, w->depth + 1, last_name(w), NULL, NULL);
    return hand_over(w, folder, !folder && w->found && is_linked(fd, name), false, why);
}

/* w->path is the entry's path, w->path + name its name. */
static int visit_path(struct ignore_walk *w, int fd, unsigned char type, size_t name, const struct ignore_dir *in,
                      uint32_t *hint) {
    int folder = is_folder(w, fd, type, w->path + name);
    struct ignore_dir dir = {in->rules, MEMO_NONE};
    struct ignore_why why;

    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    if (ignore_judge(in->rules, w->path, w->path_len, folder, &why) == IGNORE_EXCLUDED)
        return found_hidden(w, fd, w->path + name, folder, &why);
    if (!folder)
        return 0;
    if (w->memo)
        dir.at = memo_child(w->memo, in->at, w->path + name, hint);
    return descend(w, fd, w->path + name, &dir);
}

/* Puts a name behind w->path; returns where it begins, and what w->path_len was before in *ret. */
static int push_name(struct ignore_walk *w, const char *name, size_t len, size_t *ret) {
    size_t before = w->path_len, start = before ? before + 1 : 0;

    if (start + len >= sizeof w->path)
        return err_set(w->err, -ENAMETOOLONG, "the workspace has a path of more than %d bytes", PATH_MAX - 1);
    if (before)
        w->path[before] = '/';
    memcpy(w->path + start, name, len);
    w->path[start + len] = 0;
    w->path_len = start + len;
    *ret = before;
    return (int)start;
}

static void pop_name(struct ignore_walk *w, size_t before) {
    w->path_len = before;
    w->path[before] = 0;
}

static int visit_entry(struct ignore_walk *w, int fd, size_t at, const struct ignore_dir *in, uint32_t *hint) {
    const char *name = entry_at(w, at)->d_name;
    size_t before;
    int r;

    if (str_eq(name, ".") || str_eq(name, ".."))
        return 0;
    r = push_name(w, name, strlen(name), &before);
    if (r < 0)
        return r;
    r = visit_path(w, fd, entry_at(w, at)->d_type, (size_t)r, in, hint); /* may move the entries */
    pop_name(w, before);
    return r;
}

static int replay_item(struct ignore_walk *w, uint32_t at, const struct ignore_list *rules) {
    const struct memo_item *i = &w->memo->v[at];
    bool folder = i->kind == MEMO_HIDDEN_FOLDER;
    struct ignore_why why;

    if (i->kind == MEMO_FOLDER)
        return descend(w, w->root, w->path, &(struct ignore_dir){rules, at});
    ignore_judge(rules, w->path, w->path_len, folder, &why); /* for the reason; the verdict was the same */
    return found_hidden(w, w->root, w->path, folder, &why);
}

static int replay_below(struct ignore_walk *w, const struct ignore_dir *dir) {
    const struct walk_memo *m = w->memo;
    int r = 0;

    for (uint32_t at = dir->at + 1; r >= 0 && at < m->v[dir->at].next; at = m->v[at].next) {
        size_t before;

        r = push_name(w, m->v[at].name, m->v[at].name_len, &before);
        if (r < 0)
            break;
        r = replay_item(w, at, dir->rules);
        pop_name(w, before);
    }
    return r < 0 ? r : 0;
}

static void rules_hash(const struct ignore_walk *w, unsigned char ret[static MEMO_RULES_LEN]) {
    const struct ignore_source *s = ignore_source(w->ig, w->n_sources - 1);
    unsigned char hash[SHA256_LEN];

    sha256_of(s->data, s->len, hash);
    memcpy(ret, hash, MEMO_RULES_LEN);
}

/* The folder's own rules, if it has any; those of the workspace itself are there already. Returns 1 if it has. */
static int load_own_rules(struct ignore_walk *w, int fd, struct ignore_dir *dir, unsigned char *ret_hash) {
    int r = w->path_len > 0 ? load_ignore_file(w->ig, fd, w->path, w->err) : 1;

    if (r <= 0)
        return r;
    w->n_sources += w->path_len > 0;
    if (w->path_len > 0)
        dir->rules = ignore_rules_in(w->ig, w->path, w->path_len);
    if (w->memo)
        rules_hash(w, ret_hash);
    return 1;
}

static bool same_rules(const struct ignore_walk *w, uint32_t at, const unsigned char *hash) {
    const unsigned char *then = w->memo->v[at].rules;

    return hash && then ? memcmp(hash, then, MEMO_RULES_LEN) == 0 : hash == then;
}

static int visit_entries(struct ignore_walk *w, int fd, size_t start, const struct ignore_dir *dir) {
    size_t end = w->len;
    uint32_t hint = 0;
    int r = 0;

    for (size_t at = start; r >= 0 && at < end; at += entry_at(w, at)->d_reclen) {
        r = visit_entry(w, fd, at, dir, &hint);
        if (w->memo)
            w->memo->read++;
    }
    return r;
}

/* The walk with a memo. The stamp is taken before anything is read: what changes meanwhile has another one. */
static int walk_remembering(struct ignore_walk *w, int fd, struct ignore_dir dir) {
    unsigned char hash[MEMO_RULES_LEN];
    struct memo_stamp stamp = {0};
    size_t start = w->len;
    bool same, own;
    int r = memo_look(w->memo, fd, "", &stamp);

    if (r < 0)
        return scan_failed(w->err, r, "look at", w->path);
    same = memo_same(w->memo, dir.at, &stamp);
    r = same ? 0 : read_entries(w, fd);
    if (r < 0)
        return r;
    own = same ? w->memo->v[dir.at].rules != NULL : w->path_len == 0 || has_ignore_file(w, start);
    r = own ? load_own_rules(w, fd, &dir, hash) : 0;
    if (r < 0)
        return r;
    if (own && r == 0) { /* it was there, and is gone */
        stamp.trusted = false;
        own = false;
    }
    memo_add(w->memo, MEMO_FOLDER, w->depth, last_name(w), &stamp, own ? hash : NULL);
    if (dir.at != MEMO_NONE && !same_rules(w, dir.at, own ? hash : NULL)) {
        dir.at = MEMO_NONE;
        r = same ? read_entries(w, fd) : 0;
        same = false;
    }
    r = r < 0 ? r : same ? replay_below(w, &dir) : visit_entries(w, fd, start, &dir);
    w->len = start;
    return r < 0 ? r : 0;
}

static int walk_folder(struct ignore_walk *w, int fd, const struct ignore_dir *in) {
    struct ignore_dir dir = *in;
    size_t start = w->len;
    int r;

    if (w->memo)
        return walk_remembering(w, fd, dir);
    r = read_entries(w, fd);
    if (r == 0 && w->fixed)
        dir.rules = ignore_rules_in(w->ig, w->path, w->path_len);
    else if (r == 0 && w->path_len > 0 && has_ignore_file(w, start))
        r = load_own_rules(w, fd, &dir, NULL);
    r = r < 0 ? r : visit_entries(w, fd, start, &dir);
    w->len = start;
    return r < 0 ? r : 0;
}

static int open_top(int root, struct err *err) {
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? err_sys(err, -errno, "open the workspace") : fd;
}

int ignore_scan_by(struct ignore *ig, int root, ignore_found_fn *found, void *arg, struct err *err) {
    CLEANUP(walk_done) struct ignore_walk w = {.ig = ig, .found = found, .arg = arg, .err = err, .fixed = true};
    CLEANUP(closep) int fd = open_top(root, err);

    return fd < 0 ? fd : walk_folder(&w, fd, &(struct ignore_dir){NULL, MEMO_NONE});
}

int ignore_scan_memo(struct ignore *ig, int root, struct walk_memo *memo, ignore_found_fn *found, void *arg, struct err *err) {
    CLEANUP(walk_done) struct ignore_walk w = {.ig = ig, .found = found, .arg = arg, .err = err};
    CLEANUP(closep) int fd = open_top(root, err);
    struct ignore_dir dir;
    int r;

    if (fd < 0)
        return fd;
    r = load_ignore_file(ig, fd, "", err);
    if (r == 0)
        r = defaults_add(ig, err);
    if (r < 0)
        return r;
    if (memo)
        memo_begin(memo, fd);
    w.root = fd;
    w.memo = memo && memo->usable ? memo : NULL;
    while (ignore_source(ig, w.n_sources))
        w.n_sources++;
    dir = (struct ignore_dir){ignore_rules_in(ig, "", 0), w.memo && memo->n ? 0 : MEMO_NONE};
    return walk_folder(&w, fd, &dir);
}

int ignore_scan(struct ignore *ig, int root, ignore_found_fn *found, void *arg, struct err *err) {
    return ignore_scan_memo(ig, root, NULL, found, arg, err);
}
