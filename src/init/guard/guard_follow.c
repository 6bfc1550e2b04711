/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a path name by name, as the kernel would for the caller; see guard_path.c. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_place.h"
#include "os/fd.h"

struct follow_route {
    const struct call *c;
    int cur;                     /* the folder reached so far */
    char rest[2 * PATH_MAX + 2]; /* what is left to walk, from `at` on */
    const char *at;
    unsigned links;
    bool follow;
};

/* Continues with the text of a link. */
static int continue_with(struct follow_route *w, const char *target, const char *rest) {
    char joined[sizeof w->rest];
    int n = snprintf(joined, sizeof joined, "%s%s", target, rest); /* rest is empty or begins with '/' */

    if (n < 0 || (size_t)n >= sizeof joined)
        return -ENAMETOOLONG;
    if (joined[0] == '/') {
        closep(&w->cur);
        w->cur = open("/", GUARD_OPEN_FOLDER);
        if (w->cur < 0)
            return -errno;
    }
    memcpy(w->rest, joined, (size_t)n + 1);
    w->at = w->rest;
    return 0;
}

static int self_text(const struct call *c, bool thread, char text[static GUARD_PROC_PATH]) {
    long tgid;
    int r = caller_status(c, "\nTgid:\t", 10, &tgid);

    if (r < 0)
        return r;
    if (thread)
        snprintf(text, GUARD_PROC_PATH, "%ld/task/%d", tgid, (int)c->tid);
    else
        snprintf(text, GUARD_PROC_PATH, "%ld", tgid);
    return 0;
}

/* A link in /proc. 1: continue with *text; 2: only the kernel can follow it, its text is no path; or -errno. */
static int proc_link(const struct follow_route *w, const char *name, char text[static GUARD_PROC_PATH]) {
    char folder[PATH_MAX];
    int r = place_path_of(w->cur, folder);

    if (r < 0)
        return r;
    if (str_eq(folder, "/proc") && (str_eq(name, "self") || str_eq(name, "thread-self"))) {
        r = self_text(w->c, name[0] == 't', text);
        return r < 0 ? r : 1;
    }
    if (place_is_own(w->c->g, folder))
        return -EACCES;
    return str_starts(folder, "/proc/") && folder[6] >= '0' && folder[6] <= '9' ? 2 : 0;
}

/* Follows the link `name` in w->cur; rest is what the path says behind it. Returns an object if the kernel had to follow and
 * the link was the last name, else -1 in *ret_object. */
static int follow_link(struct follow_route *w, const char *name, const char *rest, int *ret_object) {
    CLEANUP(closep) int link = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char target[PATH_MAX], text[GUARD_PROC_PATH];
    struct statfs fs;
    ssize_t n;
    int r = 0;

    if (link < 0 || fstatfs(link, &fs) < 0)
        return -errno;
    if (++w->links > GUARD_LINKS_MAX)
        return -ELOOP;
    if (fs.f_type == PROC_SUPER_MAGIC)
        r = proc_link(w, name, text);
    if (r < 0 || r == 1)
        return r < 0 ? r : continue_with(w, text, rest);
    if (r == 2) {
        bool last = rest[strspn(rest, "/")] == 0;
        int fd = openat(w->cur, name, rest[0] ? GUARD_OPEN_FOLDER : O_PATH | O_CLOEXEC);

        if (fd < 0)
            return -errno;
        *ret_object = last ? fd : -1;
        if (last)
            return 0;
        closep(&w->cur);
        w->cur = fd;
        w->at = rest;
        return 0;
    }
    n = readlinkat(link, "", target, sizeof target);
    if (n < 0)
        return -errno;
    if (n == 0 || (size_t)n == sizeof target)
        return n == 0 ? -ENOENT : -ENAMETOOLONG;
    target[n] = 0;
    return continue_with(w, target, rest);
}

static int enter(struct follow_route *w, const char *name, const char *rest) {
    int object = -1, fd = openat(w->cur, name, GUARD_OPEN_FOLDER | O_NOFOLLOW);
    struct stat st;

    if (fd >= 0) {
        closep(&w->cur);
        w->cur = fd;
        w->at = rest;
        return 0;
    }
    if (errno != ENOTDIR || fstatat(w->cur, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISLNK(st.st_mode) ? follow_link(w, name, rest, &object) : -ENOTDIR;
}

/* The last name. 0: the place is found; 1: it was a link, go on. */
static int arrive(struct follow_route *w, const char *name, const char *rest, struct place *p) {
    int r, object = -1;

    if (str_eq(name, ".") || str_eq(name, "..")) {
        r = enter(w, name, "");
        return r < 0 ? r : place_set_name(p, TAKE_FD(w->cur), ".", 1, false);
    }
    r = place_set_name(p, w->cur, name, strlen(name), rest[0] != 0);
    if (r < 0 || !w->follow || !p->exists || !S_ISLNK(p->st.st_mode)) {
        if (r < 0)
            p->dir = -1; /* still the walk's */
        else
            w->cur = -1;
        return r;
    }
    p->dir = -1;
    r = follow_link(w, name, rest, &object);
    if (r < 0)
        return r;
    return object >= 0 ? place_set_object(p, object) : 1;
}

static int go_on(struct follow_route *w, struct place *p) {
    for (;;) {
        char name[NAME_MAX + 1];
        size_t len;
        const char *rest;
        int r;

        w->at += strspn(w->at, "/");
        len = strcspn(w->at, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, w->at, len);
        name[len] = 0;
        rest = w->at + len;
        if (len == 0) /* "/" alone */
            return place_set_name(p, TAKE_FD(w->cur), ".", 1, false);
        if (rest[strspn(rest, "/")] == 0) {
            r = arrive(w, name, rest, p);
            if (r != 1)
                return r;
            continue;
        }
        r = str_eq(name, ".") ? 0 : enter(w, name, rest);
        if (r < 0)
            return r;
        if (str_eq(name, "."))
            w->at = rest;
    }
}

int follow_from(const struct call *c, int dirfd, const char *path, bool follow, struct place *p) {
    struct follow_route w = {.c = c, .cur = place_open_base(c, dirfd, path), .follow = follow};
    int r;

    if (w.cur < 0)
        return w.cur;
    memcpy(w.rest, path, strlen(path) + 1);
    w.at = w.rest;
    r = go_on(&w, p);
    closep(&w.cur);
    return r;
}
