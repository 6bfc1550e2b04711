/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/gitblobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/copy/place.h"
#include "workspace/copy/walk.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitindex.h"
#include "workspace/git/gitrepo.h"

struct gitblobs_store {
    int workspace; /* the caller's */
    int dir;       /* git directory of this working tree: the index */
    int objects;
    char *top; /* path of the workspace, without a slash at its end */
    bool sha256;
};
#define GITBLOBS_STORE_INIT(fd) \
    { .workspace = (fd), .dir = -1, .objects = -1 }

/* -- the object store ----------------------------------------------------------------------------------------------------- */

/*
 * Git follows symbolic links to its folders, and so does every reader of an object. A link that the inside leaves for
 * .git/objects/ab must not hide what is written through it later. So names are looked up as git does, but with O_PATH: nothing is
 * read or waited for, and only where the kernel says it is counts. From there it is opened again, without any link.
 */

/* The errors of what is gone, another thing by now, or closed to us. Any other (too many open files, say) must not pass for
 * "there is none". */
static bool is_absent(int r) {
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -EPERM || r == -ENXIO;
}

static int look_up(int dir, const char *name) {
    int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* A linked worktree, a submodule and `git init --separate-git-dir` have a file instead of the folder: "gitdir: PATH". */
static int open_dir(int workspace) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);
    int fd = look_up(workspace, ".git");

    if (fd != -ENOTDIR)
        return fd;
    if (gitrepo_read_line(workspace, ".git", &line) < 0 || !str_starts(line.data, "gitdir: "))
        return -ENOENT;
    return look_up(workspace, line.data + strlen("gitdir: "));
}

static int open_common(int dir) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);

    return look_up(dir, gitrepo_read_line(dir, "commondir", &line) == 0 ? line.data : ".");
}

static bool is_sha256(int common) {
    CLEANUP(buf_done) struct buf config = BUF_INIT(GITCONFIG_SIZE_MAX);

    return gitrepo_read(common, "config", &config) == 0 && gitconfig_is_sha256(buf_str(&config), config.len);
}

/* Packed objects only, as after `git gc`: nothing can be found. If the folder cannot be listed, a name may still be there. */
static bool has_loose(int objects) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(objects, ".", &d);

    while ((e = dir_next(&d)))
        if (strlen(e->d_name) == 2 && hex_digit(e->d_name[0]) >= 0 && hex_digit(e->d_name[1]) >= 0)
            return true;
    return r < 0 || d.error < 0;
}

/* Where fd lies, relative to the workspace; returns 0 if it is elsewhere. */
static int find_place(const struct gitblobs_store *s, int fd, char **ret, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    size_t len = strlen(s->top);
    int r = paths_of_fd(fd, &path, err);

    if (r < 0)
        return r;
    if (!str_starts(path, s->top) || path[len] != '/' || path[len + 1] == 0)
        return 0;
    *ret = strdup(path + len + 1);
    return *ret ? 1 : err_oom(err);
}

static int open_objects(struct gitblobs_store *s, int common, struct err *err) {
    CLEANUP(closep) int fd = look_up(common, "objects");
    CLEANUP(freep) char *place = NULL;
    int r;

    if (fd < 0)
        return is_absent(fd) ? 0 : err_sys(err, fd, "open the repository's objects");
    r = paths_of_fd(s->workspace, &s->top, err);
    if (r < 0)
        return r;
    if (str_eq(s->top, "/"))
        s->top[0] = 0;
    r = find_place(s, fd, &place, err);
    if (r <= 0)
        return r;
    s->objects = safepath_open(s->workspace, place, O_PATH | O_DIRECTORY);
    if (s->objects < 0)
        return is_absent(s->objects) ? 0 : err_sys(err, s->objects, "open the repository's objects");
    return has_loose(s->objects);
}

/* Returns 1, or 0 if no store in the workspace has a loose object. */
static int store_open(struct gitblobs_store *s, struct err *err) {
    CLEANUP(closep) int common = -1;
    int r;

    s->dir = open_dir(s->workspace);
    common = s->dir < 0 ? s->dir : open_common(s->dir);
    if (common < 0)
        return is_absent(common) ? 0 : err_sys(err, common, "open the workspace's .git");
    r = open_objects(s, common, err);
    if (r > 0)
        s->sha256 = is_sha256(common);
    return r;
}

static void store_done(struct gitblobs_store *s) {
    closep(&s->dir);
    closep(&s->objects);
    freep(&s->top);
}

static size_t id_len_of(const struct gitblobs_store *s) {
    return s->sha256 ? SHA256_LEN : SHA1_LEN;
}

/* The path of a loose object relative to the workspace, malloc'ed; returns 1, or 0 if there is no such object in it. */
static int store_find(const struct gitblobs_store *s, const unsigned char *id, char **ret, struct err *err) {
    CLEANUP(freep) char *place = NULL;
    CLEANUP(closep) int found = -1;
    CLEANUP(closep) int again = -1;
    char name[GIT_OBJECT_NAME_SIZE];
    struct stat st;
    int r;

    git_object_name(id, id_len_of(s), name);
    found = openat(s->objects, name, O_PATH | O_CLOEXEC);
    if (found < 0)
        return is_absent(-errno) ? 0 : err_sys(err, -errno, "look for git's object '%s'", name);
    r = find_place(s, found, &place, err);
    if (r <= 0)
        return r;
    again = safepath_open(s->workspace, place, O_PATH);
    if (again < 0)
        return is_absent(again) ? 0 : err_sys(err, again, "open git's object '%s'", name);
    if (fstat(again, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    *ret = TAKE_PTR(place);
    return 1;
}

struct blob {
    unsigned char id[SHA256_LEN]; /* of SHA-1 the first 20, then zeros */
    char *path;
    bool tracked;
};

struct gitblobs_search {
    struct gitblobs_store store;
    struct strv folders;
    struct blob *found;
    size_t n;
    unsigned char *data; /* of one file */
    size_t files, bytes, entries;
    bool full; /* a ceiling was met */
};

static void search_done(struct gitblobs_search *s) {
    for (size_t i = 0; i < s->n; i++)
        freep(&s->found[i].path);
    freep(&s->found);
    freep(&s->data);
    strv_done(&s->folders);
    store_done(&s->store);
}

static int reach_ceiling(struct gitblobs_search *s) {
    s->full = true;
    return -ECANCELED;
}

static void name_blob(bool sha256, const void *data, size_t len, unsigned char ret[static SHA256_LEN]) {
    char head[32];
    size_t n = (size_t)snprintf(head, sizeof head, "blob %zu", len) + 1; /* the NUL is part of it */
    struct sha256 wide;
    struct sha1 narrow;

    if (sha256) {
        sha256_init(&wide);
        sha256_add(&wide, head, n);
        sha256_add(&wide, data, len);
        sha256_end(&wide, ret);
        return;
    }
    sha1_init(&narrow);
    sha1_add(&narrow, head, n);
    sha1_add(&narrow, data, len);
    sha1_end(&narrow, ret);
}

static int look_for(struct gitblobs_search *s, size_t len, struct err *err) {
    struct blob b = {0};
    int r;

    name_blob(s->store.sha256, s->data, len, b.id);
    r = store_find(&s->store, b.id, &b.path, err);
    if (r <= 0)
        return r;
    r = VEC_ADD(s->found, s->n, b);
    if (r < 0)
        freep(&b.path);
    return r < 0 ? err_oom(err) : 0;
}

/* What git does on the way in with core.autocrlf or the attribute `text`. To git, a NUL makes a file binary. */
static size_t strip_crlf(unsigned char *data, size_t len) {
    size_t n = 0;

    if (memchr(data, 0, len) || !memmem(data, len, "\r\n", 2))
        return len;
    for (size_t i = 0; i < len; i++)
        if (data[i] != '\r' || i + 1 == len || data[i + 1] != '\n')
            data[n++] = data[i];
    return n;
}

static int read_file(struct gitblobs_search *s, int fd, struct err *err) {
    struct stat st;
    size_t size, lean;
    int r;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > GITBLOBS_FILE_MAX)
        return 0;
    size = (size_t)st.st_size;
    if (s->files == GITBLOBS_FILES_MAX || size > GITBLOBS_BYTES_MAX - s->bytes)
        return reach_ceiling(s);
    s->files++;
    s->bytes += size;
    if (fd_read_full(fd, s->data, size) != (ssize_t)size)
        return 0; /* shorter by now: it is being written */
    r = look_for(s, size, err);
    lean = r < 0 ? size : strip_crlf(s->data, size);
    return lean < size ? look_for(s, lean, err) : r;
}

/* Only for a name that was a regular file a moment ago: to open a pipe or a device, even without waiting, already does
 * something (a pipe as .env is how 1Password asks for a fingerprint). */
static int read_hidden(struct gitblobs_search *s, int dir, const char *path, struct err *err) {
    CLEANUP(closep) int fd = place_open(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return is_absent(fd) ? 0 : place_err(err, fd, "read", path);
    return read_file(s, fd, err);
}

static int visit(const struct walk_entry *e, void *arg, struct err *err) {
    struct gitblobs_search *s = arg;

    if (s->entries++ == GITBLOBS_ENTRIES_MAX)
        return reach_ceiling(s);
    return S_ISREG(e->st.st_mode) ? read_hidden(s, e->dir, e->name, err) : WALK_ON;
}

static int skip_closed(const struct walk_entry *e, void *arg, struct err *err) {
    return WALK_ON;
}

static int search_folder(struct gitblobs_search *s, const char *path, struct err *err) {
    const struct walk_ops ops = {.found = visit, .closed = skip_closed, .arg = s};
    CLEANUP(closep) int fd = place_open(s->store.workspace, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return is_absent(fd) ? 0 : place_err(err, fd, "read the folder", path);
    return walk_tree(fd, NULL, &ops, err);
}

/* Folders come later. */
static int search_path(struct gitblobs_search *s, const char *path, struct err *err) {
    struct stat st;
    int r = place_stat(s->store.workspace, path, &st);

    if (r < 0)
        return is_absent(r) ? 0 : place_err(err, r, "look at", path);
    if (S_ISDIR(st.st_mode))
        return strv_add(&s->folders, path) < 0 ? err_oom(err) : 0;
    return S_ISREG(st.st_mode) ? read_hidden(s, s->store.workspace, path, err) : 0;
}

static int search_all(struct gitblobs_search *s, const struct strv *hidden, struct err *err) {
    int r = 0;

    s->data = malloc(GITBLOBS_FILE_MAX);
    if (!s->data)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < hidden->len; i++)
        r = search_path(s, hidden->v[i], err);
    for (size_t i = 0; r == 0 && i < s->folders.len; i++)
        r = search_folder(s, s->folders.v[i], err);
    return s->full && r == -ECANCELED ? 0 : r;
}

static int by_id(const void *a, const void *b) {
    const struct blob *x = a, *y = b;

    return memcmp(x->id, y->id, sizeof x->id);
}

static int note_tracked(const struct gitindex_entry *e, void *arg, struct err *err) {
    struct gitblobs_search *s = arg;
    struct blob key = {0}, *b;

    if (e->id_len != id_len_of(&s->store))
        return 0;
    memcpy(key.id, e->id, e->id_len);
    b = bsearch(&key, s->found, s->n, sizeof key, by_id);
    if (b)
        b->tracked = true;
    return 0;
}

static void drop_doubles(struct gitblobs_search *s) {
    size_t n = 0;

    qsort(s->found, s->n, sizeof *s->found, by_id);
    for (size_t i = 0; i < s->n; i++)
        if (n && by_id(&s->found[n - 1], &s->found[i]) == 0)
            freep(&s->found[i].path);
        else
            s->found[n++] = s->found[i];
    s->n = n;
}

static int add_untracked(struct gitblobs_search *s, struct strv *ret, struct err *err) {
    if (s->n == 0)
        return 0;
    drop_doubles(s);
    if (gitindex_read_in(s->store.dir, note_tracked, s, NULL) == -ENOMEM)
        return err_oom(err);
    for (size_t i = 0; i < s->n; i++)
        if (!s->found[i].tracked && strv_add_take(ret, TAKE_PTR(s->found[i].path)) < 0)
            return err_oom(err);
    return 0;
}

int gitblobs_of_hidden(int workspace, const struct strv *hidden, struct strv *ret, struct err *err) {
    CLEANUP(search_done) struct gitblobs_search s = {.store = GITBLOBS_STORE_INIT(workspace)};
    int r;

    if (!hidden || hidden->len == 0)
        return 0;
    r = store_open(&s.store, err);
    if (r <= 0)
        return r;
    r = search_all(&s, hidden, err);
    r = r < 0 ? r : add_untracked(&s, ret, err);
    return r < 0 ? r : s.full;
}
