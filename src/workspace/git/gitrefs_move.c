/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/git/gitrepo.h"

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

/* packed-refs without one ref; whether it was in there. Its peeled value, if any, stands in the line behind. */
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
    CLEANUP(buf_done) struct buf kept = BUF_INIT(GITREPO_PACKED_MAX);
    int n = gitrepo_read(r->common, "packed-refs", &text);

    if (n == -ENOENT || (n == 0 && !without(&text, ref, &kept)))
        return 0;
    if (n == 0 && !buf_ok(&kept))
        return err_oom(err);
    n = n < 0 ? n : fd_write_all(lock, buf_str(&kept), kept.len);
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
    return str_eq(now, old) ? 0 : err_set(err, -ESTALE, "'%s' was moved by somebody else, to %.12s", ref, now);
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
