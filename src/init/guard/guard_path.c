/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a path of the caller leads. First the folder is opened by the kernel in one go and asked for its path; if that is what
 * the caller wrote, no link was on the way. Otherwise the path is walked name by name (guard_follow.c), because "self" in
 * /proc, and with it /dev/fd and /dev/stdout, would mean bawn-init. Either way it is the opened folder whose path is judged and
 * in which is worked.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

void place_done(struct place *p) {
    closep(&p->dir);
    closep(&p->object);
}

int place_path_of(int fd, char path[static PATH_MAX]) {
    char link[GUARD_PROC_PATH];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX);
    if (n < 0)
        return -errno;
    if (n == PATH_MAX)
        return -ENAMETOOLONG;
    path[n] = 0;
    return (int)n;
}

const char *path_below(const char *path, const char *folder) {
    size_t len = strlen(folder);

    if (strncmp(path, folder, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

/* What is reached through another mount of the workspace becomes the same path as through the workspace. */
static int unalias(const struct guard *g, struct place *p) {
    for (size_t i = 0; i < g->mounts.n; i++) {
        const struct guard_alias *a = &g->mounts.v[i];
        const char *rest = path_below(p->path, a->path);
        char path[sizeof p->path];
        int n;

        if (!rest)
            continue;
        n = snprintf(path, sizeof path, "%s%s%s%s%s", g->root_path, *a->rel ? "/" : "", a->rel, *rest ? "/" : "", rest);
        if (n < 0 || (size_t)n >= sizeof path)
            return -ENAMETOOLONG;
        memcpy(p->path, path, (size_t)n + 1);
        return 0;
    }
    return 0;
}

/* Without a mount namespace the host may have renamed a folder above the workspace; what it is called now counts. *ret: NULL if it
 * is outside. Where the workspace is must be known: nothing counts as outside of what could not be found. */
static int in_workspace(struct guard *g, const char *path, const char **ret) {
    char now[PATH_MAX];
    int len;

    *ret = path_below(path, g->root_path);
    if (*ret || path[0] != '/')
        return 0;
    len = place_path_of(g->root, now);
    if (len < 0 || str_eq(now, g->root_path))
        return len < 0 ? len : 0;
    memcpy(g->root_path, now, (size_t)len + 1);
    *ret = path_below(path, g->root_path);
    return 0;
}

bool place_holds_root(const struct guard *g, const struct place *p) {
    return path_below(g->root_path, p->path) != NULL;
}

/* The caller may not read bawn-init, but bawn-init may. */
bool place_is_own(const struct guard *g, const char *path) {
    char own[GUARD_PROC_PATH];

    if (!str_starts(path, "/proc/"))
        return false;
    snprintf(own, sizeof own, "/proc/%d", (int)g->self);
    return path_below(path, own) != NULL;
}

/* The name by which an object was opened may be gone while others lead to it, and one of those may be protected: only what is there now has the path
 * that the kernel says. Elsewhere than on the workspace's file system nothing is protected. */
static bool leads_back(const struct guard *g, const struct place *p) {
    struct stat st;

    if (!S_ISREG(p->st.st_mode) || p->st.st_dev != g->root_dev)
        return true;
    return fstatat(p->rel ? g->root : AT_FDCWD, p->rel ? p->rel : p->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == p->st.st_dev && st.st_ino == p->st.st_ino;
}

/* Fills in the path once dir and name, or object, are known; the folder's may be there already. */
static int settle_place(const struct call *c, struct place *p) {
    int r, len = p->path[0] ? (int)strlen(p->path) : place_path_of(p->object >= 0 ? p->object : p->dir, p->path);

    if (len < 0)
        return len;
    if (p->object < 0 && !str_eq(p->name, ".")) {
        size_t name_len = strcspn(p->name, "/");

        len = len == 1 ? 0 : len; /* "/" */
        p->path[len] = '/';
        memcpy(p->path + len + 1, p->name, name_len);
        p->path[(size_t)len + 1 + name_len] = 0;
    }
    if (place_is_own(c->g, p->path))
        return -EACCES;
    if (p->object >= 0 && p->st.st_nlink == 0) { /* open, but without a name any more */
        p->trace = PLACE_GONE;
        return 0;
    }
    r = unalias(c->g, p);
    r = r < 0 ? r : in_workspace(c->g, p->path, &p->rel);
    if (r < 0)
        return r;
    if (p->object >= 0 && !leads_back(c->g, p))
        p->trace = PLACE_ASTRAY;
    return p->rel && strlen(p->rel) >= GUARD_PATH_MAX ? -ENAMETOOLONG : 0;
}

int place_set_object(struct place *p, int fd) {
    p->object = fd;
    p->exists = true;
    return stat_born(fd, "", AT_EMPTY_PATH, &p->st, &p->birth_ns);
}

int place_set_name(struct place *p, int dir, const char *name, size_t len, bool slash) {
    int r;

    p->dir = dir;
    memcpy(p->name, name, len);
    p->name[len] = 0;
    r = stat_born(dir, p->name, AT_SYMLINK_NOFOLLOW, &p->st, &p->birth_ns);
    p->exists = r == 0;
    if (r < 0 && r != -ENOENT)
        return r;
    if (slash) {
        p->name[len] = '/';
        p->name[len + 1] = 0;
    }
    return 0;
}

/* In the caller's folder of /proc: where a path begins, and `behind` from there on. */
static int base_text(int dirfd, const char *behind, char *to, size_t size) {
    const char *slash = *behind ? "/" : "";
    int n =
        dirfd == AT_FDCWD ? snprintf(to, size, "cwd%s%s", slash, behind) : snprintf(to, size, "fd/%d%s%s", dirfd, slash, behind);

    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int place_open_base(const struct call *c, int dirfd, const char *path) {
    char proc[GUARD_PROC_PATH], text[GUARD_PROC_PATH / 2] = "";
    int fd, r = path[0] == '/' ? 0 : base_text(dirfd, "", text, sizeof text);

    if (r < 0)
        return r;
    if (path[0] == '/')
        snprintf(proc, sizeof proc, "/");
    else
        snprintf(proc, sizeof proc, "/proc/%d/%s", (int)c->tid, text);
    fd = openat(AT_FDCWD, proc, GUARD_OPEN_FOLDER); /* musl's open() makes a second call for O_CLOEXEC */
    if (fd < 0)
        return errno == ENOENT ? -EBADF : -errno;
    return fd;
}

/* The caller's folder of /proc, if it is the one of the call before; else -1, and next time it is. */
static int caller_folder(const struct call *c) {
    struct guard_proc *p = &c->g->proc;
    char proc[GUARD_PROC_PATH];

    if (p->tid != c->tid) {
        closep(&p->caller);
        p->tid = c->tid;
        return -1;
    }
    if (p->caller < 0) {
        snprintf(proc, sizeof proc, "/proc/%d", (int)c->tid);
        p->caller = openat(AT_FDCWD, proc, GUARD_OPEN_FOLDER);
    }
    return p->caller;
}

/* The folder that a path names, by one call. Whatever makes it fail is found out by the walk that follows. */
static int open_folder(const struct call *c, int dirfd, const char *path, const char *folder) {
    char at[PATH_MAX], whole[PATH_MAX + GUARD_PROC_PATH];
    int caller, fd;

    if (path[0] == '/')
        return openat(AT_FDCWD, folder, GUARD_OPEN_FOLDER);
    if (base_text(dirfd, folder, at, sizeof at) < 0)
        return -1;
    caller = caller_folder(c);
    if (caller < 0) {
        snprintf(whole, sizeof whole, "/proc/%d/%s", (int)c->tid, at);
        return openat(AT_FDCWD, whole, GUARD_OPEN_FOLDER);
    }
    fd = openat(caller, at, GUARD_OPEN_FOLDER);
    if (fd < 0) /* it may be another process by now */
        closep(&c->g->proc.caller);
    return fd;
}

static int path_of_folder(const struct guard *g, int fd, char path[static PATH_MAX]) {
    char name[GUARD_PROC_PATH];
    ssize_t n;

    if (g->proc.own_fds < 0)
        return place_path_of(fd, path);
    snprintf(name, sizeof name, "%d", fd);
    n = readlinkat(g->proc.own_fds, name, path, PATH_MAX);
    if (n < 0 || n == PATH_MAX)
        return -1;
    path[n] = 0;
    return 0;
}

/* `folder` as the caller wrote it, and nothing else, is where the kernel went. */
static bool is_as_written(const char *real, const char *folder, size_t len) {
    size_t real_len = strlen(real);

    if (len == 0)
        return true;
    if (folder[0] == '/')
        return real_len == len && memcmp(real, folder, len) == 0;
    return real_len > len && real[real_len - len - 1] == '/' && memcmp(real + real_len - len, folder, len) == 0;
}

/* 1: found; 0: has to be walked. */
static int find_fast(const struct call *c, int dirfd, const char *path, bool follow, struct place *p) {
    size_t len = strlen(path), end = len, start, folder_len;
    char folder[PATH_MAX];
    CLEANUP(closep) int dir = -1;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (start == end || end - start > NAME_MAX || (path[start] == '.' && end - start <= 2))
        return 0;
    folder_len = start > 1 ? start - 1 : start; /* "/x": the folder is "/" */
    memcpy(folder, path, folder_len);
    folder[folder_len] = 0;
    dir = open_folder(c, dirfd, path, folder);
    if (dir < 0 || path_of_folder(c->g, dir, p->path) < 0 || !is_as_written(p->path, folder, folder_len) ||
        place_set_name(p, dir, path + start, end - start, path[end] == '/') < 0 ||
        (follow && p->exists && S_ISLNK(p->st.st_mode))) {
        *p = (struct place)PLACE_INIT;
        return 0;
    }
    TAKE_FD(dir);
    return 1;
}

int place_find(const struct call *c, int dirfd, const char *path, bool follow, struct place *ret) {
    int r = find_fast(c, dirfd, path, follow, ret);

    if (r == 0)
        r = follow_from(c, dirfd, path, follow, ret);
    return r < 0 ? r : settle_place(c, ret);
}

int place_of_fd(const struct call *c, int fd, struct place *ret) {
    char proc[GUARD_PROC_PATH];
    struct stat st;
    int r;

    snprintf(proc, sizeof proc, "/proc/%d/fd/%d", (int)c->tid, fd);
    if (lstat(proc, &st) < 0 || (st.st_mode & 0600) == 0) /* neither read nor write: O_PATH */
        return -EBADF;
    r = open(proc, O_PATH | O_CLOEXEC);
    r = r < 0 ? -errno : place_set_object(ret, r);
    return r < 0 ? r : settle_place(c, ret);
}

int place_open(const struct place *p, int flags, mode_t mode) {
    char proc[GUARD_PROC_PATH];
    int fd;

    flags |= O_CLOEXEC | O_NOCTTY; /* bawn-init must not get a terminal by accident */
    if (p->object >= 0) {
        snprintf(proc, sizeof proc, "/proc/self/fd/%d", p->object);
        fd = open(proc, flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW));
    } else {
        fd = openat(p->dir, p->name, flags | O_NOFOLLOW, mode);
    }
    return fd < 0 ? -errno : fd;
}

enum rules_kind place_kind(const struct place *p) {
    if (!p->exists || (!S_ISDIR(p->st.st_mode) && !S_ISLNK(p->st.st_mode)))
        return RULES_FILE;
    return S_ISDIR(p->st.st_mode) ? RULES_FOLDER : RULES_LINK;
}
