/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other places where the workspace, or a part of it, is mounted: a mount of the user's that holds it too. What is reached there
 * is judged as if it had been reached through the workspace. No process inside can mount, so that one look at the start is enough.
 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "init/guard/guard_place.h"
#include "os/fd.h"
#include "os/mountinfo.h"

enum { MOUNTINFO_MAX = 4 * 1024 * 1024 };

struct mount {
    char device[32], root[PATH_MAX], point[PATH_MAX], options[256]; /* root: within its file system */
};

static bool parse_mount(const char *line, struct mount *m) {
    static_assert(PATH_MAX == 4096, "the widths below");
    if (sscanf(line, "%*d %*d %31s %4095s %4095s %255s", m->device, m->root, m->point, m->options) != 4)
        return false;
    mountinfo_unescape(m->root);
    mountinfo_unescape(m->point);
    return true;
}

/* The mount that the workspace is on: of those above it the longest, of equal ones the last, which covers the others. Its path
 * within the file system is the mount's root and what follows. */
static bool find_workspace(const char *text, const char *root_path, struct mount *ret, char within[static PATH_MAX]) {
    struct mount m;
    bool found = false;

    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *rest = parse_mount(line, &m) ? mountinfo_tail(root_path, m.point) : NULL;

        if (!rest || (found && strlen(m.point) < strlen(ret->point)))
            continue;
        *ret = m;
        found = snprintf(within, PATH_MAX, "%s%s", str_eq(m.root, "/") && *rest ? "" : m.root, rest) < PATH_MAX;
    }
    return found;
}

/* Remembers where m shows the workspace, or the part of it that m shows. */
static int add_alias(struct guard *g, const struct mount *m, const char *within, struct err *err) {
    const char *whole = mountinfo_tail(within, m->root), *part = mountinfo_tail(m->root, within);
    struct guard_alias alias = {.rel = ""};
    int n, k = 0;

    if (!whole && !part)
        return 0;
    n = snprintf(alias.path, sizeof alias.path, "%s%s", str_eq(m->point, "/") ? "" : m->point, whole ? whole : "");
    if (!whole)
        k = snprintf(alias.rel, sizeof alias.rel, "%s", part + 1);
    if (n >= (int)sizeof alias.path || k >= (int)sizeof alias.rel || g->mounts.n == GUARD_ALIASES_MAX)
        return err_set(err, -E2BIG, "the workspace is mounted in more places than direct mode can watch");
    if (path_below(alias.path, g->root_path) && str_eq(path_below(alias.path, g->root_path), alias.rel))
        return 0; /* it is the workspace itself, or lies where it should */
    g->mounts.v[g->mounts.n++] = alias;
    return 0;
}

int guard_find_mounts(struct guard *g, struct err *err) {
    char within[PATH_MAX];
    struct mount workspace, m;
    CLEANUP(freep) char *text = malloc(MOUNTINFO_MAX);
    int r = 0;

    if (!text)
        return err_oom(err);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_MAX) <= 0 ||
        !find_workspace(text, g->root_path, &workspace, within))
        return err_set(err, -EIO, "the guard cannot find the workspace among the mounts");
    for (const char *line = text; r == 0 && line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (parse_mount(line, &m) && str_eq(m.device, workspace.device) && str_starts(m.options, "rw"))
            r = add_alias(g, &m, within, err);
    return r;
}
