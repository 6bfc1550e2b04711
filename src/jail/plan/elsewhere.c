/* SPDX-License-Identifier: Apache-2.0 */
/* Finds mounts that show parts of the workspace a second time. */
#include "jail/plan/elsewhere.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/fd.h"
#include "os/mountinfo.h"

enum { MOUNTINFO_MAX = 4 * 1024 * 1024 };

struct seen_mount {
    char device[32], root[PATH_MAX], point[PATH_MAX]; /* root: within its file system */
};

/* What a path is within its file system, which every mount of that has in common. */
struct within {
    char device[32], path[PATH_MAX];
};

void elsewheres_done(struct elsewheres *e) {
    while (e->n)
        elsewheres_drop(e, e->n - 1);
}

void elsewheres_drop(struct elsewheres *e, size_t i) {
    free(e->v[i].path);
    free(e->v[i].rel);
    e->v[i] = e->v[--e->n];
}

static bool parse_mount(const char *line, struct seen_mount *m) {
    static_assert(PATH_MAX == 4096, "the widths below");
    if (sscanf(line, "%*d %*d %31s %4095s %4095s", m->device, m->root, m->point) != 3)
        return false;
    mountinfo_unescape(m->root);
    mountinfo_unescape(m->point);
    return true;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');

    return end && end[1] ? end + 1 : NULL;
}

/* "/" and "/a" are "/a". */
static bool join(const char *a, const char *b, char out[static PATH_MAX]) {
    int n = snprintf(out, PATH_MAX, "%s%s", str_eq(a, "/") && *b ? "" : a, b);

    return n >= 0 && n < PATH_MAX;
}

/* By the mount that it is on: of those above it the longest, of equal ones the last, which covers the others. */
static bool find_within(const char *text, const char *path, struct within *ret) {
    struct seen_mount m;
    size_t best = 0;
    bool found = false;

    for (const char *line = text; line; line = next_line(line)) {
        const char *rest = parse_mount(line, &m) ? mountinfo_tail(path, m.point) : NULL;

        if (!rest || (found && strlen(m.point) < best))
            continue;
        best = strlen(m.point);
        snprintf(ret->device, sizeof ret->device, "%s", m.device);
        found = join(m.root, rest, ret->path);
    }
    return found;
}

static int add_elsewhere(struct elsewheres *e, const char *to, const char *more, const char *rel, struct err *err) {
    char path[PATH_MAX];

    if (!join(to, more, path) || e->n == ELSEWHERE_MAX)
        return err_set(err, -E2BIG, "mounts show the workspace in more than %d places, or at paths that are too long",
                       ELSEWHERE_MAX);
    e->v[e->n++] = (struct elsewhere){strdup(path), strdup(rel)};
    return e->v[e->n - 1].path && e->v[e->n - 1].rel ? 0 : err_oom(err); /* elsewheres_find() frees all of them */
}

/* What is at `root` of the device is seen at `to` inside: is the workspace in it, or is it in the workspace? */
static int compare_elsewheres(struct elsewheres *e, const struct within *w, const char *device, const char *root, const char *to,
                              struct err *err) {
    const char *whole = mountinfo_tail(w->path, root), *part = mountinfo_tail(root, w->path);

    if (!str_eq(device, w->device) || (!whole && !part))
        return 0;
    return whole ? add_elsewhere(e, to, whole, "", err) : add_elsewhere(e, to, "", part + 1, err);
}

/* The mount itself, and whatever is mounted below it on the host, which comes with it. */
static int look_at(struct elsewheres *e, const char *text, const struct within *w, const struct mount_spec *spec,
                   struct err *err) {
    CLEANUP(freep) char *from = realpath(spec->from, NULL);
    struct within here;
    struct seen_mount m;
    int r = 0;

    if (!from || !find_within(text, from, &here)) /* what is not there cannot be mounted, which the mount itself says */
        return 0;
    r = compare_elsewheres(e, w, here.device, here.path, spec->to, err);
    for (const char *line = text; r == 0 && line; line = next_line(line)) {
        const char *below = parse_mount(line, &m) ? mountinfo_tail(m.point, from) : NULL;
        char to[PATH_MAX];

        if (!below || !*below)
            continue;
        if (!join(spec->to, below, to))
            return err_set(err, -ENAMETOOLONG, "mount '%s': a path in it is too long", spec->from);
        r = compare_elsewheres(e, w, m.device, m.root, to, err);
    }
    return r;
}

int elsewheres_find(const struct settings *s, const char *workspace, struct elsewheres *ret, struct err *err) {
    CLEANUP(freep) char *text = s->n_mounts ? malloc(MOUNTINFO_MAX) : NULL;
    struct within w;
    int r = 0;

    ret->n = 0;
    if (!s->n_mounts)
        return 0;
    if (!text)
        return err_oom(err);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_MAX) <= 0 || !find_within(text, workspace, &w))
        return err_set(err, -EIO,
                       "the workspace is not among the mounts of /proc/self/mountinfo, so a --mount cannot be checked for "
                       "hidden files");
    for (size_t i = 0; r == 0 && i < s->n_mounts; i++)
        r = look_at(ret, text, &w, &s->mounts[i], err);
    if (r < 0)
        elsewheres_done(ret);
    return r;
}

const char *elsewhere_rest(const struct elsewhere *e, const char *path) {
    size_t len = strlen(e->rel);

    if (len == 0)
        return path;
    return strncmp(path, e->rel, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}
