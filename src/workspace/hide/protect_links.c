/* SPDX-License-Identifier: Apache-2.0 */
/* Where a path leads, name by name and by text: what is not there yet is protected, too, and so is every link on the way. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "workspace/hide/protect.h"

enum { LINKS_MAX = 40 /* as the kernel's MAXSYMLINKS */ };

struct protect_route {
    int root;
    const char *root_path;
    char at[PATH_MAX];       /* absolute, without links; "" for "/" */
    char rest[2 * PATH_MAX]; /* what is left to walk */
    bool ends;               /* nothing is at `at`, so nothing below it either */
    protect_place_fn *each;
    void *arg;
};

/* path from the workspace on, "" for itself; NULL: outside. */
static const char *below(const struct protect_route *w, const char *path) {
    size_t len = strlen(w->root_path);

    if (strncmp(path, w->root_path, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

/* Outside the path is walked as it is: the workspace's own part never leads there but by a link of the host. */
static ssize_t read_link(const struct protect_route *w, const char *path, char target[static PATH_MAX]) {
    const char *rel = below(w, path);
    ssize_t n = rel && *rel ? readlinkat(w->root, rel, target, PATH_MAX - 1) : readlink(path, target, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    target[n] = 0;
    return n;
}

static int enter_name(struct protect_route *w, const char *name, size_t len, const char *rest) {
    char next[PATH_MAX], target[PATH_MAX], joined[sizeof w->rest];
    int n = snprintf(next, sizeof next, "%s/%.*s", w->at, (int)len, name);
    ssize_t r = n >= (int)sizeof next ? -ENAMETOOLONG : w->ends ? -ENOENT : read_link(w, next, target);

    if (r < 0 && r != -EINVAL && r != -ENOENT && r != -ENOTDIR &&
        r != -EACCES) /* too long, or no memory: not known to be no link */
        return (int)r;
    if (r <= 0) {
        w->ends |= r == -ENOENT || r == -ENOTDIR;
        memcpy(w->at, next, (size_t)n + 1);
        memmove(w->rest, rest, strlen(rest) + 1);
        return 0;
    }
    if (below(w, next) && *below(w, next))
        w->each(w->arg, below(w, next), true);
    n = snprintf(joined, sizeof joined, "%s/%s", target, rest);
    if (n >= (int)sizeof joined)
        return -ENAMETOOLONG;
    memcpy(w->rest, joined, (size_t)n + 1);
    if (target[0] == '/')
        w->at[0] = 0;
    return 1;
}

static void leave_name(struct protect_route *w) {
    char *slash = strrchr(w->at, '/');

    if (slash)
        *slash = 0;
    w->ends = false;
}

int protect_follow(int root, const char *root_path, const char *path, protect_place_fn *each, void *arg) {
    struct protect_route w = {.root = root, .root_path = root_path, .each = each, .arg = arg};
    int links = 0, r;

    if (snprintf(w.at, sizeof w.at, "%s", root_path) >= (int)sizeof w.at ||
        snprintf(w.rest, sizeof w.rest, "%s", path) >= PATH_MAX)
        return -ENAMETOOLONG;
    for (;;) {
        const char *name = w.rest + strspn(w.rest, "/");
        size_t len = strcspn(name, "/");

        if (len == 0)
            break;
        if ((len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0)) {
            if (len == 2)
                leave_name(&w);
            memmove(w.rest, name + len, strlen(name + len) + 1);
            continue;
        }
        r = enter_name(&w, name, len, name + len);
        if (r < 0)
            return r;
        links += r;
        if (links > LINKS_MAX) /* the kernel follows it no further, either */
            return 0;
    }
    if (below(&w, w.at) && *below(&w, w.at))
        w.each(w.arg, below(&w, w.at), false);
    return 0;
}
