/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through PATH, and follows it to the toolchains of the user's home. */
#include "ops/tools/home_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/seldom.h"
#include "config/settings.h"
#include "jail/plan/facts.h"
#include "jail/plan/own.h"
#include "ops/tools/toolchain.h"
#include "os/dir.h"

enum { NOTE_MAX = 4096, NAMED_MAX = 3 };

struct tool_search {
    const struct host_facts *facts;
    struct settings *settings;
    struct plan_tools *to;
    struct strv unknown; /* folders of PATH below the home that no row has */
    struct strv refused; /* notes */
    struct strv taken;   /* rows that came in, and where from: several folders of PATH lead to one */
    struct strv looked;  /* folders of PATH: a shell's start files often add one twice */
    bool dry_run;
};

/* A row, where it is on this machine. */
struct placed {
    const struct toolchain *row;
    const char *base; /* the home, or "" for a row with an absolute root */
    char root[PATH_MAX];
    char name[TOOLCHAIN_NAME_SIZE]; /* for "$" */
};

/* -- may it come in? ------------------------------------------------------------------------------------------------------ */

/* A group of the same number as its user is that user's alone, by the custom of all distributions. */
static const char *why_not(const struct host_facts *f, const struct stat *st) {
    bool own_group = st->st_gid == f->gid && f->gid == f->uid;

    if (S_ISLNK(st->st_mode))
        return "is a symbolic link";
    if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
        return "is neither a file nor a folder";
    if (st->st_uid != f->uid && st->st_uid != 0)
        return "belongs to another user";
    if ((st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && !own_group))
        return "can be written by other users";
    return NULL;
}

/* Each folder below `base`, down to the path itself. 1: it may; 0: a note says why not, or it is not there. */
static int check_way(struct tool_search *x, const char *base, const char *path, struct err *err) {
    char part[PATH_MAX];

    for (const char *end = path + strlen(base); *end;) {
        const char *reason;
        struct stat st;

        end = strchrnul(end + 1, '/');
        snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        if (lstat(part, &st) < 0)
            return 0;
        reason = why_not(x->facts, &st);
        if (!reason)
            continue;
        return strv_addf(&x->refused, "'%s' is in PATH, but the sandbox does not see it: '%s' %s", path, part, reason) < 0
                   ? err_oom(err)
                   : 0;
    }
    return 1;
}

static bool is_covered(const struct strv *mounts, const char *path) {
    for (size_t i = 0; i < mounts->len; i++)
        if (path_holds(mounts->v[i], path))
            return true;
    return false;
}

/* The workspace is inside already, as the run wants it. */
static bool is_of_workspace(const struct tool_search *x, const char *path) {
    return path_holds(x->facts->workspace, path) || path_holds(path, x->facts->workspace);
}

static int add_mount(struct tool_search *x, const char *path, struct err *err) {
    if (is_covered(&x->to->mounts, path) || is_of_workspace(x, path))
        return 0;
    if (x->to->mounts.len == HOME_TOOLS_MAX)
        return strv_addf(&x->refused, "'%s' is not inside: the toolchains of your home have more than %d parts", path,
                         HOME_TOOLS_MAX) < 0
                   ? err_oom(err)
                   : 0;
    return strv_add(&x->to->mounts, path) < 0 ? err_oom(err) : 0;
}

static int add_link(struct tool_search *x, const char *path, struct err *err) {
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);

    if (n <= 0 || is_of_workspace(x, path) || is_covered(&x->to->mounts, path) || strv_has(&x->to->links, path))
        return 0;
    target[n] = 0;
    return strv_add(&x->to->links, path) < 0 || strv_add(&x->to->links, target) < 0 ? err_oom(err) : 0;
}

/* -- the parts of a row --------------------------------------------------------------------------------------------------- */

static bool has_below(const struct strv *paths, const char *path) {
    for (size_t i = 0; i < paths->len; i++)
        if (path_holds(path, paths->v[i]))
            return true;
    return false;
}

/* A folder with something in it that stays out comes in name by name; so what appears under that name later stays out, too. */
static int take_tree(struct tool_search *x, const char *path, const struct strv *without, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    struct stat st;
    int r = 0;

    if (strv_has(without, path) || lstat(path, &st) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return add_link(x, path, err);
    if (why_not(x->facts, &st))
        return 0;
    if (!has_below(without, path))
        return add_mount(x, path, err);
    if (dir_names(AT_FDCWD, path, &names) < 0)
        return 0;
    for (size_t i = 0; r == 0 && i < names.len; i++) {
        CLEANUP(freep) char *child = str_dupf("%s/%s", path, names.v[i]);

        r = child ? take_tree(x, child, without, err) : err_oom(err);
    }
    return r;
}

/* Paths that stay out: patterns only as far as something is there. */
static int find_without(const struct placed *p, struct strv *ret) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < TOOLCHAIN_WORDS && p->row->without[i]; i++) {
        CLEANUP(freep) char *filled = toolchain_fill(p->row->without[i], p->name, false);

        if (!filled)
            return -ENOMEM;
        r = toolchain_is_pattern(filled) ? toolchain_expand(p->root, filled, ret) : strv_addf(ret, "%s/%s", p->root, filled);
    }
    return r;
}

static int take_part(struct tool_search *x, const struct placed *p, const char *pattern, const struct strv *without,
                     struct err *err) {
    CLEANUP(freep) char *filled = toolchain_fill(pattern, p->name, false);
    CLEANUP(strv_done) struct strv found = {0};
    int r = filled && toolchain_expand(p->root, filled, &found) == 0 ? 0 : err_oom(err);

    for (size_t i = 0; r >= 0 && i < found.len; i++) {
        struct stat st;

        if (toolchain_is_pattern(pattern) && lstat(found.v[i], &st) == 0 && S_ISLNK(st.st_mode)) {
            r = add_link(x, found.v[i], err);
            continue;
        }
        r = check_way(x, *p->base ? p->base : "/home", found.v[i], err);
        r = r <= 0 ? r : take_tree(x, found.v[i], without, err);
    }
    return MIN_OF(r, 0);
}

static int add_variables(struct tool_search *x, const struct placed *p, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(p->row->sets) && p->row->sets[i]; i++)
        r = strv_addf(&x->to->env, "%s=%s", p->row->sets[i], p->root);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(p->row->passes) && p->row->passes[i]; i++) {
        const char *value = paths_getenv(x->facts->environ_, p->row->passes[i]);

        if (path_holds(p->root, value))
            r = strv_addf(&x->to->env, "%s=%s", p->row->passes[i], value);
    }
    return r < 0 ? err_oom(err) : 0;
}

static bool has_name_parts(const struct toolchain *row) {
    for (size_t i = 0; i < TOOLCHAIN_WORDS && row->parts[i]; i++)
        if (strchr(row->parts[i], '$'))
            return true;
    return false;
}

/* Each row once: a second look would only find the same, also where another folder of PATH led to it. */
static int take_row(struct tool_search *x, const struct placed *p, struct err *err) {
    CLEANUP(strv_done) struct strv without = {0};
    CLEANUP(freep) char *mark = str_dupf("%s %s %s", p->row->name, has_name_parts(p->row) ? p->name : "", p->root);
    size_t before = x->to->mounts.len;
    int r = 0;

    if (mark && strv_has(&x->taken, mark))
        return 0;
    if (!mark || strv_add(&x->taken, mark) < 0 || find_without(p, &without) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < TOOLCHAIN_WORDS && p->row->parts[i]; i++)
        r = take_part(x, p, p->row->parts[i], &without, err);
    return r < 0 || x->to->mounts.len == before ? r : add_variables(x, p, err);
}

/* -- rows by path --------------------------------------------------------------------------------------------------------- */

/* The variable of a row, if it leads to another folder below the home. */
static const char *root_by_variable(const struct tool_search *x, const struct toolchain *row) {
    const char *v = row->variable ? paths_getenv(x->facts->environ_, row->variable) : NULL;
    size_t n = strlen(x->facts->home);

    return v && path_holds(x->facts->home, v) && v[n] == '/' && v[n + 1] && !strstr(v, "/..") ? v + n + 1 : NULL;
}

static bool needs_are_there(const struct placed *p) {
    char path[PATH_MAX];

    return !p->row->needs ||
           ((size_t)snprintf(path, sizeof path, "%s/%s", p->root, p->row->needs) < sizeof path && access(path, F_OK) == 0);
}

static bool place_row(struct placed *p, const char *root_pattern) {
    CLEANUP(freep) char *root = toolchain_fill(root_pattern, p->name, true);

    return root && (size_t)snprintf(p->root, sizeof p->root, "%s/%s", p->base, root) < sizeof p->root && needs_are_there(p);
}

/* Is `path` what one of the patterns means, with this root? */
static bool match_words(struct placed *p, const char *root, const char *const *words, const char *path, bool prefix) {
    size_t base = strlen(p->base);

    if (strncmp(path, p->base, base) != 0 || path[base] != '/')
        return false;
    for (size_t i = 0; i < TOOLCHAIN_WORDS && words[i]; i++)
        if (toolchain_match(root, words[i], path + base + 1, prefix, p->name) && place_row(p, root))
            return true;
    return false;
}

static bool match_row(const struct tool_search *x, const struct toolchain *row, const char *path, bool by_link,
                      struct placed *ret) {
    const char *const *words = by_link ? row->parts : row->path;
    const char *variable = root_by_variable(x, row);
    bool absolute = row->root[0] == '/';

    ret->row = row;
    ret->base = absolute ? "" : x->facts->home;
    return (variable && match_words(ret, variable, words, path, by_link)) ||
           match_words(ret, row->root + absolute, words, path, by_link);
}

/* Returns 1 if a row knows this path. */
static int take_path(struct tool_search *x, const char *path, bool by_link, struct err *err) {
    struct placed p UNINITIALIZED; /* large, and for each row anew */
    bool known = false;

    for (size_t i = 0; i < n_toolchains; i++)
        if (match_row(x, &toolchains[i], path, by_link, &p)) {
            int r = take_row(x, &p, err);

            if (r < 0)
                return r;
            known = true;
        }
    return known;
}

/* -- a folder of PATH ----------------------------------------------------------------------------------------------------- */

/* Programs that bring a row of their own. */
static int take_companions(struct tool_search *x, const char *folder, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n_toolchains; i++) {
        const struct toolchain *row = &toolchains[i];
        struct placed p = {.row = row, .base = x->facts->home};
        const char *variable = root_by_variable(x, row);
        char path[PATH_MAX];

        if (row->program && (size_t)snprintf(path, sizeof path, "%s/%s", folder, row->program) < sizeof path &&
            access(path, X_OK) == 0 && place_row(&p, variable ? variable : row->root))
            r = take_row(x, &p, err);
    }
    return MIN_OF(r, 0);
}

static bool is_inside(const struct tool_search *x, const char *path) {
    return plan_shows(path) || path_holds(x->facts->workspace, path) || is_covered(&x->to->mounts, path);
}

/* To another name of the same folder, which is looked at as well: cargo has dozens of links to one program. */
static bool is_link_beside(const struct dir *d, const char *name) {
    char target[NAME_MAX + 2] UNINITIALIZED;
    ssize_t n = readlinkat(d->fd, name, target, sizeof target);

    return n > 0 && n < (ssize_t)sizeof target && !memchr(target, '/', (size_t)n) && target[0] != '.';
}

/* Links lead to other rows, or nowhere: a link does not bring in what the table does not know. */
static int take_links(struct tool_search *x, const char *folder, struct err *err) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    CLEANUP(buf_done) struct buf left = BUF_INIT(NOTE_MAX);
    const struct dirent *e;
    bool inside = is_inside(x, folder);
    size_t n = 0, looked = 0;
    int r = 0;

    dir_open_at(AT_FDCWD, folder, &d);
    while (r >= 0 && looked++ < HOME_TOOLS_LINKS_MAX && (e = dir_next(&d))) {
        char path[PATH_MAX] UNINITIALIZED, real[PATH_MAX] UNINITIALIZED;

        if (dir_type(&d, e) != DT_LNK || (inside && is_link_beside(&d, e->d_name)) ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= sizeof path || !realpath(path, real) ||
            is_inside(x, real))
            continue;
        r = take_path(x, real, true, err);
        if (r >= 0 && !is_inside(x, real) && n++ < NAMED_MAX)
            buf_addf(&left, "%s'%s'", n > 1 ? ", " : "", e->d_name);
    }
    if (r >= 0 && n &&
        strv_addf(&x->refused, "'%s': %s%s lead%s to what the sandbox does not see", folder, buf_str(&left),
                  n > NAMED_MAX ? ", ..." : "", n == 1 ? "s" : "") < 0)
        return err_oom(err);
    return MIN_OF(r, 0);
}

static bool is_linked(const struct strv *links, const char *path) {
    for (size_t i = 0; i < links->len; i += 2)
        if (path_holds(links->v[i], path))
            return true;
    return false;
}

static int add_entry(struct tool_search *x, const char *entry, const char *real, struct err *err) {
    /* ".../current/bin" stays so where its link is inside. */
    return strv_add(&x->to->path, entry) < 0 ||
                   strv_add(&x->to->path, is_covered(&x->to->mounts, entry) || is_linked(&x->to->links, entry) ? entry : real) < 0
               ? err_oom(err)
               : 0;
}

/* The home is canonical; /home/ann may be a link on the way to it, and so may a folder of PATH. */
static int look_at_entry(struct tool_search *x, const char *entry, struct err *err) {
    char real[PATH_MAX];
    int r;

    if (plan_shows(entry) || strv_has(&x->looked, entry))
        return 0;
    if (strv_add(&x->looked, entry) < 0)
        return err_oom(err);
    if (!realpath(entry, real) || is_of_workspace(x, real))
        return 0;
    if (plan_shows(real)) /* ~/.nix-profile/bin */
        return add_entry(x, entry, real, err);
    r = take_path(x, real, false, err);
    if (r < 0)
        return r;
    if (is_covered(&x->to->mounts, real) || strv_has(&x->to->links, real)) {
        r = take_companions(x, real, err);
        r = r < 0 ? r : take_links(x, real, err);
        return r < 0 ? r : add_entry(x, entry, real, err);
    }
    if (r == 0 && path_holds(x->facts->home, real) && !strv_has(&x->unknown, entry) && strv_add(&x->unknown, entry) < 0)
        return err_oom(err);
    return 0;
}

/* -- what is said --------------------------------------------------------------------------------------------------------- */

static bool is_mounted(const struct settings *s, const char *path) {
    for (size_t i = 0; i < s->n_mounts; i++)
        if (path_holds(s->mounts[i].to, path) || path_holds(path, s->mounts[i].to))
            return true;
    return false;
}

/* By its hash: what is remembered is no list of the user's folders. */
static bool is_new(const struct host_facts *f, const char *note) {
    char hash[SHA256_HEX_SIZE], key[24];

    sha256_hex(note, strlen(note), hash);
    snprintf(key, sizeof key, "path-%.16s", hash);
    return seldom_first(f->environ_, f->home, key);
}

static int add_notes(struct tool_search *x, struct err *err) {
    struct strv *notes = &x->settings->notes;

    for (size_t i = 0; i < x->unknown.len; i++) {
        const char *path = x->unknown.v[i];

        if (!is_mounted(x->settings, path) &&
            strv_addf(&x->refused,
                      "'%s' is in PATH, but the sandbox does not see it; to bring it in: --mount %s, "
                      "or mounts.extra in the configuration",
                      path, path) < 0)
            return err_oom(err);
    }
    for (size_t i = 0; i < x->refused.len; i++)
        if ((x->dry_run || is_new(x->facts, x->refused.v[i])) && strv_add(notes, x->refused.v[i]) < 0)
            return err_oom(err);
    return 0;
}

int home_tools_find(const struct host_facts *facts, struct settings *s, bool dry_run, struct plan_tools *ret, struct err *err) {
    struct tool_search x = {.facts = facts, .settings = s, .to = ret, .dry_run = dry_run};
    const char *rest = paths_getenv(facts->environ_, "PATH");
    int r = 0;

    while (r >= 0 && s->home_tools && facts->home && rest && *rest) {
        size_t len = strcspn(rest, ":");
        char entry[PATH_MAX];

        if (*rest == '/' && len < sizeof entry) {
            memcpy(entry, rest, len);
            entry[len] = 0;
            r = look_at_entry(&x, entry, err);
        }
        rest += len + (rest[len] == ':');
    }
    r = r < 0 ? r : add_notes(&x, err);
    strv_done(&x.unknown);
    strv_done(&x.refused);
    strv_done(&x.taken);
    strv_done(&x.looked);
    return r;
}
