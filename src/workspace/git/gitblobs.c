/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/gitblobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/walk.h"
#include "workspace/git/gitblobs_store.h"
#include "workspace/git/gitindex.h"

struct blob {
    unsigned char id[SHA256_LEN]; /* of SHA-1 the first 20, then zeros */
    char *path;
    bool tracked;
};

struct gitblobs_search {
    struct gitblobs_store store;
    struct strv folders;
    struct blob *found;
    size_t n, cap;
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
    gitblobs_store_done(&s->store);
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

static int add_blob(struct gitblobs_search *s, const struct blob *b) {
    size_t cap = s->cap ? 2 * s->cap : 16;
    struct blob *grown = s->n < s->cap ? s->found : reallocarray(s->found, cap, sizeof *grown);

    if (!grown)
        return -ENOMEM;
    s->cap = s->n < s->cap ? s->cap : cap;
    s->found = grown;
    s->found[s->n++] = *b;
    return 0;
}

static int look_for(struct gitblobs_search *s, size_t len, struct err *err) {
    struct blob b = {0};
    int r;

    name_blob(s->store.sha256, s->data, len, b.id);
    r = gitblobs_store_find(&s->store, b.id, &b.path, err);
    if (r <= 0)
        return r;
    r = add_blob(s, &b);
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

/* Negative also if it is shorter by now: then it is being written. */
static int read_whole(int fd, unsigned char *data, size_t size) {
    for (size_t len = 0; len < size;) {
        ssize_t n = fd_read_some(fd, data + len, size - len);

        if (n <= 0)
            return n < 0 ? (int)n : -ESTALE;
        len += (size_t)n;
    }
    return 0;
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
    if (read_whole(fd, s->data, size) < 0)
        return 0;
    r = look_for(s, size, err);
    lean = r < 0 ? size : strip_crlf(s->data, size);
    return lean < size ? look_for(s, lean, err) : r;
}

/* Only for a name that was a regular file a moment ago: to open a pipe or a device, even without waiting, already does
 * something (a pipe as .env is how 1Password asks for a fingerprint). */
static int look_into(struct gitblobs_search *s, int dir, const char *path, struct err *err) {
    CLEANUP(closep) int fd = place_open(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return gitblobs_is_absent(fd) ? 0 : place_err(err, fd, "read", path);
    return read_file(s, fd, err);
}

static int visit(const struct walk_entry *e, void *arg, struct err *err) {
    struct gitblobs_search *s = arg;

    if (s->entries++ == GITBLOBS_ENTRIES_MAX)
        return reach_ceiling(s);
    return S_ISREG(e->st.st_mode) ? look_into(s, e->dir, e->name, err) : WALK_ON;
}

static int skip_closed(const struct walk_entry *e, void *arg, struct err *err) {
    return WALK_ON;
}

static int search_folder(struct gitblobs_search *s, const char *path, struct err *err) {
    const struct walk_ops ops = {.found = visit, .closed = skip_closed, .arg = s};
    CLEANUP(closep) int fd = place_open(s->store.workspace, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return gitblobs_is_absent(fd) ? 0 : place_err(err, fd, "read the folder", path);
    return walk_tree(fd, NULL, &ops, err);
}

/* Folders are kept for later. */
static int search_path(struct gitblobs_search *s, const char *path, struct err *err) {
    struct stat st;
    int r = place_stat(s->store.workspace, path, &st);

    if (r < 0)
        return gitblobs_is_absent(r) ? 0 : place_err(err, r, "look at", path);
    if (S_ISDIR(st.st_mode))
        return strv_add(&s->folders, path) < 0 ? err_oom(err) : 0;
    return S_ISREG(st.st_mode) ? look_into(s, s->store.workspace, path, err) : 0;
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

    if (e->id_len != gitblobs_id_len(&s->store))
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

static int tell(struct gitblobs_search *s, struct strv *ret, struct err *err) {
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
    r = gitblobs_store_open(&s.store, err);
    if (r <= 0)
        return r;
    r = search_all(&s, hidden, err);
    r = r < 0 ? r : tell(&s, ret, err);
    return r < 0 ? r : s.full;
}
