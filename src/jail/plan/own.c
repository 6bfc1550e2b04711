/* SPDX-License-Identifier: Apache-2.0 */
/* Finds Bawn's own folders in, above or linked into a workspace. */
#include "jail/plan/own.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "jail/plan/facts.h"
#include "os/dir.h"

enum { LINKS_MAX = 8 };

static const struct own {
    const char *variable, *below_home;
    const char *open;                                    /* whatever is below this folder may be a workspace all the same */
} own[] = {{"XDG_STATE_HOME", ".local/state", "agents"}, /* agents are installed there, in a sandbox */
           {"XDG_CONFIG_HOME", ".config", NULL},
           {"XDG_RUNTIME_DIR", NULL, NULL}};

bool path_holds(const char *dir, const char *path) {
    return path && (str_eq(path, dir) || str_below(path, dir));
}

/* NULL: there is none, or no memory for its name. */
static char *own_folder(const struct host_facts *f, const struct own *o) {
    const char *base = paths_getenv(f->environ_, o->variable);

    if (base && base[0] == '/')
        return str_dupf("%s/bawn", base);
    return f->home && o->below_home ? str_dupf("%s/%s/bawn", f->home, o->below_home) : NULL;
}

static bool is_open(const struct own *o, const char *below) {
    size_t n = o->open ? strlen(o->open) : 0;

    return n && below[0] == '/' && strncmp(below + 1, o->open, n) == 0 && below[n + 1] == '/' && below[n + 2];
}

static bool touches(const struct host_facts *f, const struct own *o, const char *path) {
    return path_holds(f->workspace, path) || (path_holds(path, f->workspace) && !is_open(o, f->workspace + strlen(path)));
}

/* -- links -------------------------------------------------------------------------------------------------------------- */

static char *resolved(const char *path, int links);

/* The link at the first `len` bytes of the path leads to a path that does not exist: the process that makes it has our file. */
static char *follow_dangling(const char *path, size_t len, const char *target, int links) {
    CLEANUP(freep) char *next = NULL;
    size_t dir = len;

    while (dir > 0 && path[dir - 1] != '/')
        dir--;
    next = target[0] == '/' ? str_dupf("%s%s", target, path + len) : str_dupf("%.*s%s%s", (int)dir, path, target, path + len);
    return next ? resolved(next, links - 1) : NULL;
}

/* Where the path leads; what of it is not there yet will be made where the rest leads. NULL: no memory. */
static char *resolved(const char *path, int links) {
    CLEANUP(freep) char *copy = strdup(path);
    char real[PATH_MAX];

    while (copy && !realpath(copy, real)) {
        char *slash = strrchr(copy, '/');
        ssize_t n = errno == ENOENT ? readlink(copy, real, sizeof real - 1) : -1;

        if (n > 0 && links > 0) {
            real[n] = 0;
            return follow_dangling(path, strlen(copy), real, links);
        }
        if (errno != ENOENT || !slash || slash == copy)
            return strdup(path);
        *slash = 0;
    }
    return copy ? str_dupf("%s%s", real, path + strlen(copy)) : NULL;
}

static bool is_plain_text(const char *path) {
    return !strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../");
}

/* Whether nothing on the way from the home, which is canonical if it is there, is a link: then the path leads where it says. */
static bool is_straight(const char *home, const char *path) {
    char part[PATH_MAX] UNINITIALIZED, target[1];
    size_t n = home ? strlen(home) : 0;

    if (!n || !str_below(path, home) || strlen(path) >= sizeof part || !is_plain_text(path))
        return false;
    for (const char *end = path + n; *end;) {
        bool first = end == path + n;

        end = strchrnul(end + 1, '/');
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = 0;
        if (readlink(part, target, sizeof target) >= 0)
            return false;
        if (errno != EINVAL)
            return errno == ENOENT && (!first || access(home, F_OK) == 0);
    }
    return true;
}

static int look_at_path(struct host_facts *f, struct strv *owned, const struct own *o, const char *path) {
    CLEANUP(freep) char *real = is_straight(f->home, path) ? strdup(path) : resolved(path, LINKS_MAX);

    if (!real)
        return -ENOMEM;
    if (!touches(f, o, real))
        return 0;
    if (strv_add(owned, path) < 0)
        return -ENOMEM;
    f->own_inside = owned->v[owned->len - 1];
    return 0;
}

/* The links in a folder of rules, and in its folders: there is one level of these. */
static int look_at_rules(struct host_facts *f, struct strv *owned, const struct own *o, const char *folder, bool top) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = 0;

    dir_open_linked(folder, &d);
    while (r == 0 && !f->own_inside && (e = dir_next(&d))) {
        CLEANUP(freep) char *path = str_dupf("%s/%s", folder, e->d_name);

        if (!path)
            r = -ENOMEM;
        else if (e->d_type == DT_DIR && top)
            r = look_at_rules(f, owned, o, path, false);
        else if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN)
            r = look_at_path(f, owned, o, path);
    }
    return r;
}

int own_look(struct host_facts *f, struct strv *owned) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(own) && !f->own_inside; i++) {
        CLEANUP(freep) char *folder = own_folder(f, &own[i]);

        if (!folder)
            continue;
        r = look_at_path(f, owned, &own[i], folder);
        if (r == 0 && !f->own_inside && str_eq(own[i].variable, "XDG_CONFIG_HOME"))
            r = look_at_rules(f, owned, &own[i], folder, true);
    }
    return r;
}

/* -- the verdict -------------------------------------------------------------------------------------------------------- */

int own_check(const struct host_facts *f, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        CLEANUP(freep) char *path = own_folder(f, &own[i]);

        if (path && touches(f, &own[i], path))
            return err_set(err, -EPERM,
                           "'%s' cannot be the workspace: Bawn's own files in '%s' would be inside; use -C DIR, or set %s to "
                           "another place",
                           f->workspace, path, own[i].variable);
    }
    if (f->own_inside)
        return err_set(
            err, -EPERM,
            "'%s' cannot be the workspace: Bawn's own files would be inside, '%s' is a link that leads there; use -C DIR, "
            "or replace the link by a copy",
            f->workspace, f->own_inside);
    return 0;
}
