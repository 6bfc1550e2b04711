/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/git/gitrepo.h"

enum { SYMREF_DEPTH = 5 };

static size_t hex_len(bool sha256) {
    return sha256 ? 64 : 40;
}

bool git_is_hex(const char *s, size_t len, bool sha256) {
    return len == hex_len(sha256) && hex_is_lower(s, len);
}

/* Each line of packed-refs: "HEX NAME". Comments and the peeled values of tags are left out. Negative ends it, 1 too. */
typedef int packed_fn(const char *hex, const char *name, size_t name_len, void *arg);

static int each_packed(const struct buf *text, bool sha256, packed_fn *each, void *arg) {
    size_t hex = hex_len(sha256);
    int r = 0;

    for (const char *p = buf_str(text), *end = p + text->len; r == 0 && p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t len = stop ? (size_t)(stop - p) : (size_t)(end - p);

        if (len > hex + 1 && p[hex] == ' ' && git_is_hex(p, hex, sha256))
            r = each(p, p + hex + 1, len - hex - 1, arg);
        p += len + 1;
    }
    return r;
}

static int read_packed(int dir, struct buf *ret, struct err *err) {
    int r = gitrepo_read(dir, "packed-refs", ret);

    return r < 0 && r != -ENOENT ? err_sys(err, r, "read packed-refs") : 0;
}

struct wanted {
    const char *name;
    char hex[GIT_HEX_SIZE];
    size_t hex_len;
};

static int is_wanted(const char *hex, const char *name, size_t name_len, void *arg) {
    struct wanted *w = arg;

    if (strlen(w->name) != name_len || memcmp(name, w->name, name_len) != 0)
        return 0;
    memcpy(w->hex, hex, w->hex_len);
    return 1;
}

static int find_packed(int dir, bool sha256, const char *ref, char ret[static GIT_HEX_SIZE], struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_PACKED_MAX);
    struct wanted w = {.name = ref, .hex_len = hex_len(sha256)};
    int r = read_packed(dir, &text, err);

    if (r < 0)
        return r;
    if (each_packed(&text, sha256, is_wanted, &w) == 0)
        return err_set(err, -ENOENT, "there is no ref '%s'", ref);
    memcpy(ret, w.hex, sizeof w.hex);
    return 0;
}

/* The name after "ref: " stays below refs/: safepath_open() sees to the rest. */
static bool is_ref_name(const char *s) {
    return str_starts(s, "refs/") && strlen(s) < GITREPO_REF_MAX;
}

/* One step. Returns 1 with the name of another ref in ret_next, 0 with the value. */
static int read_loose(int dir, bool sha256, const char *ref, char ret[static GIT_HEX_SIZE],
                      char ret_next[static GITREPO_REF_MAX]) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_FILE_MAX);
    int r = gitrepo_read_line(dir, ref, &text);

    if (r < 0)
        return r == -EINVAL || r == -EISDIR || r == -ENOTDIR ? -ENOENT : r; /* a folder of that name: it is packed, if at all */
    if (str_starts(text.data, "ref: ") && is_ref_name(text.data + strlen("ref: "))) {
        snprintf(ret_next, GITREPO_REF_MAX, "%s", text.data + strlen("ref: "));
        return 1;
    }
    if (!git_is_hex(text.data, text.len, sha256))
        return -EBADMSG;
    memcpy(ret, text.data, text.len + 1);
    return 0;
}

/* common: where refs/ is; for HEAD of a linked worktree that is another folder than dir. */
static int resolve(int dir, int common, bool sha256, const char *ref, char ret[static GIT_HEX_SIZE], struct err *err) {
    char now[GITREPO_REF_MAX], next[GITREPO_REF_MAX];

    snprintf(now, sizeof now, "%s", ref);
    for (int i = 0; i < SYMREF_DEPTH; i++) {
        int r = read_loose(str_eq(now, "HEAD") ? dir : common, sha256, now, ret, next);

        if (r == -ENOENT)
            return find_packed(common, sha256, now, ret, err);
        if (r == -EBADMSG)
            return err_set(err, r, "the ref '%s' is damaged", now);
        if (r <= 0)
            return r < 0 ? err_sys(err, r, "read the ref '%s'", now) : 0;
        memcpy(now, next, sizeof now);
    }
    return err_set(err, -ELOOP, "the ref '%s' leads nowhere", ref);
}

int gitrefs_read(int dir, bool sha256, const char *ref, char ret[static GIT_HEX_SIZE], struct err *err) {
    return resolve(dir, dir, sha256, ref, ret, err);
}

int gitrefs_head(const struct gitrepo *r, char ret[static GIT_HEX_SIZE], struct err *err) {
    return resolve(r->dir, r->common, r->sha256, "HEAD", ret, err);
}

void gitref_list_done(struct gitref_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct gitref_list){0};
}

struct refs_listing {
    struct gitref_list list;
    int dir;
    bool sha256;
    size_t hex_len;
    struct err *err;
};

static int add_ref(struct refs_listing *l, const char *hex, const char *name, size_t name_len) {
    struct gitref *ref;

    if (l->list.n == GITREPO_REFS_MAX)
        return err_set(l->err, -EFBIG, "the repository has more than %d refs", GITREPO_REFS_MAX);
    ref = VEC_NEW(l->list.v, l->list.n);
    if (!ref || !(ref->name = strndup(name, name_len))) {
        l->list.n -= ref != NULL;
        return err_oom(l->err);
    }
    memcpy(ref->hex, hex, l->hex_len);
    return 0;
}

static const char *const listed[] = {"refs/heads", "refs/tags", "refs/remotes"};

static int add_packed(const char *hex, const char *name, size_t name_len, void *arg) {
    for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
        size_t len = strlen(listed[i]);

        if (name_len > len && memcmp(name, listed[i], len) == 0 && name[len] == '/')
            return add_ref(arg, hex, name, name_len);
    }
    return 0;
}

static int add_loose(struct refs_listing *l, const char *path, unsigned depth);

static int add_entry(struct refs_listing *l, const char *path, const char *name, unsigned depth) {
    CLEANUP(freep) char *ref = str_dupf("%s/%s", path, name);
    char hex[GIT_HEX_SIZE] = {0};
    struct err ignored;
    int r;

    if (!ref)
        return err_oom(l->err);
    if (name[0] == '.' || str_ends(name, ".lock") || strlen(ref) >= GITREPO_REF_MAX)
        return 0;
    r = add_loose(l, ref, depth + 1);
    if (r != -ENOTDIR)
        return r == -ENOENT || r == -ELOOP ? 0 : r;
    /* A ref that is damaged or leads nowhere (origin/HEAD after a rename) is not the sandbox's business. */
    r = gitrefs_read(l->dir, l->sha256, ref, hex, &ignored);
    return r < 0 ? 0 : add_ref(l, hex, ref, strlen(ref));
}

static int add_loose(struct refs_listing *l, const char *path, unsigned depth) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_take(safepath_open(l->dir, path, O_RDONLY | O_DIRECTORY), &d);

    if (r >= 0 && depth > GITREPO_DEPTH_MAX)
        return err_set(l->err, -ELOOP, "the repository's refs are too deep");
    while (r >= 0 && (e = dir_next(&d)))
        r = add_entry(l, path, e->d_name, depth);
    return r;
}

static int by_name(const void *a, const void *b) {
    const struct gitref *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Stable would be better than qsort(): of two with one name the loose one counts, and it is asked for again. */
static void unite(struct refs_listing *l) {
    struct gitref_list *list = &l->list;
    size_t n = 0;

    if (list->n)
        qsort(list->v, list->n, sizeof *list->v, by_name);
    for (size_t i = 0; i < list->n; i++) {
        if (n > 0 && str_eq(list->v[n - 1].name, list->v[i].name)) {
            struct err ignored;

            gitrefs_read(l->dir, l->sha256, list->v[i].name, list->v[n - 1].hex, &ignored);
            free(list->v[i].name);
        } else {
            list->v[n++] = list->v[i];
        }
    }
    list->n = n;
}

int gitrefs_list(int dir, bool sha256, struct gitref_list *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_PACKED_MAX);
    struct refs_listing l = {.dir = dir, .sha256 = sha256, .hex_len = hex_len(sha256), .err = err};
    int r = read_packed(dir, &text, err);

    r = r < 0 ? r : each_packed(&text, sha256, add_packed, &l);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(listed); i++) {
        r = add_loose(&l, listed[i], 0);
        r = r == -ENOENT ? 0 : r;
    }
    if (r < 0) {
        gitref_list_done(&l.list);
        return r;
    }
    unite(&l);
    *ret = l.list;
    return 0;
}

/* -- moving a branch ------------------------------------------------------------------------------------------------------ */

/* refs/heads/GROUP, made if it is missing. */
static int open_group(const struct gitrepo *r, const char *group, struct err *err) {
    CLEANUP(closep) int heads = safepath_open(r->common, "refs/heads", O_RDONLY | O_DIRECTORY);
    CLEANUP(freep) char *branch = str_dupf("refs/heads/%s", group);
    char hex[GIT_HEX_SIZE];
    int fd;

    if (heads < 0)
        return err_sys(err, heads, "open the repository's branches");
    if (!branch)
        return err_oom(err);
    fd = gitrefs_read(r->common, r->sha256, branch, hex, NULL) == 0 ? -ENOTDIR : gitrepo_make_dir(heads, group, 0777, NULL);
    if (fd == -ENOTDIR)
        return err_set(err, -EEXIST, "the branch '%s' is in the way of branches '%s/...'; rename it", group, group);
    return fd < 0 ? err_sys(err, fd, "make the folder for branches '%s/...'", group) : fd;
}

/* packed-refs without one ref; whether it was in there. Its peeled value, if any, is in the next line. */
static bool without(const struct buf *text, const char *ref, struct buf *ret) {
    size_t name = strlen(ref);
    bool found = false, drop = false;

    for (const char *p = buf_str(text), *end = p + text->len; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t line = stop ? (size_t)(stop - p) : (size_t)(end - p), len = stop ? line + 1 : line;

        if (p[0] != '^')
            drop = line > name && p[line - name - 1] == ' ' && memcmp(p + line - name, ref, name) == 0;
        found |= drop;
        if (!drop)
            buf_add(ret, p, len);
        p += len;
    }
    return found;
}

static const char packed_lock[] = "packed-refs.lock";

static int rewrite_packed(const struct gitrepo *r, const char *ref, int lock, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITREPO_PACKED_MAX);
    CLEANUP(buf_done) struct buf rest = BUF_INIT(GITREPO_PACKED_MAX);
    int n = gitrepo_read(r->common, "packed-refs", &text);

    if (n == -ENOENT || (n == 0 && !without(&text, ref, &rest)))
        return 0;
    if (n == 0 && !buf_ok(&rest))
        return err_oom(err);
    n = n < 0 ? n : fd_write_all(lock, buf_str(&rest), rest.len);
    if (n == 0 && (fsync(lock) < 0 || renameat(r->common, packed_lock, r->common, "packed-refs") < 0))
        n = -errno;
    return n < 0 ? err_sys(err, n, "take '%s' out of packed-refs", ref) : 1;
}

/* Read under the lock: what git packs meanwhile must not get lost. */
static int remove_packed(const struct gitrepo *r, const char *ref, struct err *err) {
    CLEANUP(closep) int lock = gitrepo_create(r->common, packed_lock, 0666, err);
    int n = lock < 0 ? lock : rewrite_packed(r, ref, lock, err);

    if (lock >= 0 && n != 1)
        unlinkat(r->common, packed_lock, 0);
    return n < 0 ? n : 0;
}

/* -EEXIST or -ESTALE unless the ref is where it is expected. */
static int check_old(const struct gitrepo *r, const char *ref, const char *old, struct err *err) {
    char now[GIT_HEX_SIZE] = {0};
    int n = gitrefs_read(r->common, r->sha256, ref, now, err);

    if (n == -ENOENT)
        return old ? err_set(err, -ESTALE, "'%s' is gone from the repository", ref) : 0;
    if (n < 0)
        return n;
    if (!old)
        return err_set(err, -EEXIST, "'%s' exists already in the repository", ref);
    return str_eq(now, old) ? 0 : err_set(err, -ESTALE, "'%s' was moved by another process, to %.12s", ref, now);
}

/* dir/name.lock is ours. */
static int move_locked(const struct gitrepo *r, int dir, const char *name, const char *ref, const char *old, const char *to,
                       int lock, struct err *err) {
    CLEANUP(freep) char *lock_name = str_dupf("%s.lock", name);
    int n = check_old(r, ref, old, err);

    if (n < 0)
        return n;
    if (!to) {
        n = remove_packed(r, ref, err);
        if (n == 0 && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
            return err_sys(err, -errno, "delete '%s'", ref);
        return n;
    }
    n = fd_write_all(lock, to, strlen(to));
    n = n < 0 ? n : fd_write_all(lock, "\n", 1);
    if (n == 0 && (!lock_name || fsync(lock) < 0 || renameat(dir, lock_name, dir, name) < 0))
        n = lock_name ? -errno : -ENOMEM;
    return n < 0 ? err_sys(err, n, "write '%s'", ref) : 1;
}

/* As git does when a branch goes: a later one of that name has nothing to do with it. An empty folder would be in the way of a
 * branch GROUP; it stays if it is not empty. */
static void clear_up(const struct gitrepo *r, const char *group, const char *name, bool deleted) {
    static const char *const places[] = {"logs/refs/heads", "refs/heads"};

    for (size_t i = deleted ? 0 : 1; i < ARRAY_LEN(places); i++) {
        CLEANUP(closep) int heads = safepath_open(r->common, places[i], O_RDONLY | O_DIRECTORY);
        CLEANUP(closep) int dir = heads < 0 || i > 0 ? -1 : safepath_open(heads, group, O_RDONLY | O_DIRECTORY);

        if (dir >= 0)
            unlinkat(dir, name, 0);
        if (heads >= 0)
            unlinkat(heads, group, AT_REMOVEDIR);
    }
}

int gitrefs_move(const struct gitrepo *r, const char *group, const char *name, const char *old, const char *to, struct err *err) {
    CLEANUP(freep) char *ref = str_dupf("refs/heads/%s/%s", group, name);
    CLEANUP(freep) char *lock_name = str_dupf("%s.lock", name);
    CLEANUP(closep) int dir = -1;
    CLEANUP(closep) int lock = -1;
    int n;

    if (!ref || !lock_name)
        return err_oom(err);
    dir = open_group(r, group, err);
    if (dir < 0)
        return dir;
    lock = gitrepo_create(dir, lock_name, 0666, err);
    if (lock < 0)
        return lock;
    n = move_locked(r, dir, name, ref, old, to, lock, err);
    if (n != 1) { /* failed, or deleted */
        unlinkat(dir, lock_name, 0);
        clear_up(r, group, name, n == 0);
    }
    return n < 0 ? n : 0;
}
