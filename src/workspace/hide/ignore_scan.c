/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/hide/ignore_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/hide/defaults.h"

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
};

static void walk_done(struct ignore_walk *w) {
    free(w->entries);
}

/* Names come from the tree and messages go to a terminal. */
static int fail(struct err *err, int r, const char *what, const char *path) {
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
        return errno == ENOENT ? -ENOENT : fail(err, -errno, "read", path);
    if (!S_ISREG(st.st_mode))
        return no_regular_file(path, err);
    file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return file < 0 ? fail(err, errno == ENOENT ? -ELOOP : -errno, "read", path) : file;
}

int ignore_load(struct ignore *ig, int fd, const char *dir, struct err *err) {
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
        return fail(err, r, "read", buf_str(&origin));
    /* One that is too large is refused there, before a byte of it is read. */
    r = ignore_add_file(ig, dir, buf_str(&origin), buf_str(&text), r < 0 ? IGNORE_FILE_MAX + 1 : text.len, err);
    return r < 0 ? r : 1;
}

static int make_room(struct ignore_walk *w) {
    size_t cap = w->cap ? 2 * w->cap : 4 * READ_AT_ONCE;
    char *more;

    if (w->cap - w->len >= READ_AT_ONCE)
        return 0;
    if (cap > SCAN_ENTRIES_MAX)
        return fail(w->err, -E2BIG, "search", w->path);
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
        int r = make_room(w);

        if (r < 0)
            return r;
        n = getdents64(fd, w->entries + w->len, w->cap - w->len);
        if (n < 0)
            return fail(w->err, -errno, "list", w->path);
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
        return errno == ENOENT ? -ENOENT : fail(w->err, -errno, "look at", w->path);
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

static int walk_folder(struct ignore_walk *w, int fd, const struct ignore_list *rules);

static int descend(struct ignore_walk *w, int fd, const char *name, const struct ignore_list *rules) {
    CLEANUP(closep) int folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (folder < 0 && errno == ENOENT)
        return 0;
    if (folder < 0 && (errno == EACCES || errno == EPERM)) /* another user's, or closed by its owner, who could open it inside */
        return hand_over(w, true, false, true, &(struct ignore_why){0});
    if (folder < 0)
        return fail(w->err, -errno, "open", w->path);
    if (w->depth == IGNORE_DEPTH_MAX)
        return err_set(w->err, -ELOOP, "the workspace is deeper than %d folders", IGNORE_DEPTH_MAX);
    w->depth++;
    r = walk_folder(w, folder, rules);
    w->depth--;
    return r;
}

/* w->path is the entry's path, w->path + name its name. */
static int visit(struct ignore_walk *w, int fd, unsigned char type, size_t name, const struct ignore_list *rules) {
    int folder = is_folder(w, fd, type, w->path + name);
    struct ignore_why why;

    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    if (ignore_judge(rules, w->path, w->path_len, folder, &why) == IGNORE_EXCLUDED)
        return hand_over(w, folder, !folder && w->found && is_linked(fd, w->path + name), false, &why);
    return folder ? descend(w, fd, w->path + name, rules) : 0;
}

static int visit_entry(struct ignore_walk *w, int fd, size_t at, const struct ignore_list *rules) {
    const char *name = entry_at(w, at)->d_name;
    size_t len = strlen(name), before = w->path_len, start = before ? before + 1 : 0;
    int r;

    if (str_eq(name, ".") || str_eq(name, ".."))
        return 0;
    if (start + len >= sizeof w->path)
        return err_set(w->err, -ENAMETOOLONG, "the workspace has a path of more than %d bytes", PATH_MAX - 1);
    if (before)
        w->path[before] = '/';
    memcpy(w->path + start, name, len + 1);
    w->path_len = start + len;
    r = visit(w, fd, entry_at(w, at)->d_type, start, rules); /* may move the entries */
    w->path_len = before;
    w->path[before] = 0;
    return r;
}

static int walk_folder(struct ignore_walk *w, int fd, const struct ignore_list *rules) {
    size_t start = w->len, end;
    int r = read_entries(w, fd);

    if (r == 0 && w->fixed)
        rules = ignore_rules_in(w->ig, w->path, w->path_len);
    else if (r == 0 && w->path_len > 0 && has_ignore_file(w, start)) {
        r = ignore_load(w->ig, fd, w->path, w->err);
        rules = ignore_rules_in(w->ig, w->path, w->path_len);
    }
    end = w->len;
    for (size_t at = start; r >= 0 && at < end; at += entry_at(w, at)->d_reclen)
        r = visit_entry(w, fd, at, rules);
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

    return fd < 0 ? fd : walk_folder(&w, fd, NULL);
}

int ignore_scan(struct ignore *ig, int root, ignore_found_fn *found, void *arg, struct err *err) {
    CLEANUP(walk_done) struct ignore_walk w = {.ig = ig, .found = found, .arg = arg, .err = err};
    CLEANUP(closep) int fd = open_top(root, err);
    int r;

    if (fd < 0)
        return fd;
    r = ignore_load(ig, fd, "", err);
    if (r == 0)
        r = defaults_add(ig, err);
    return r < 0 ? r : walk_folder(&w, fd, ignore_rules_in(ig, "", 0));
}
