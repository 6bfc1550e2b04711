/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders git ignored when the run began: .gitignore files, read as they are needed, and the index. */
#include "supervisor/watch/ignored_folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/safepath.h"
#include "workspace/git/gitindex.h"
#include "workspace/hide/ignore.h"
#include "workspace/run/journal.h"

enum {
    FOLDERS_MAX = 100000, /* whose .gitignore was looked for; past it nothing new is found */
    REPO_DEPTH = 3,       /* how deep in an ignored folder a repository is looked for: in all worktrees, not in all packages */
    REPO_FOLDERS = 256
};

struct ignored_folders {
    int workspace;
    bool off; /* there is no repository, or something cannot be read */
    struct ignore *rules;
    struct strv known;   /* folders whose .gitignore was read; sorted */
    struct strv tracked; /* paths of the index; sorted, as git has them */
    bool have_index;
    struct strv found; /* few */
    struct strv repos; /* ignored ones that hold a repository; few */
    char *last;        /* folder of the path that was asked for last, if it is in none */
};

struct ignored_folders *ignored_folders_new(int workspace) {
    struct ignored_folders *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->workspace = workspace;
    f->rules = ignore_new();
    f->off = !f->rules;
    return f;
}

void ignored_folders_free(struct ignored_folders *f) {
    if (!f)
        return;
    ignore_free(f->rules);
    strv_done(&f->known);
    strv_done(&f->tracked);
    strv_done(&f->found);
    strv_done(&f->repos);
    free(f->last);
    free(f);
}

/* The first of the sorted strings that is not before `s`. */
static size_t find_place(const struct strv *v, const char *s) {
    size_t low = 0, high = v->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(v->v[middle], s) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert_sorted(struct strv *v, const char *s) {
    size_t at = find_place(v, s);
    char *last;

    if (v->len >= FOLDERS_MAX || strv_add(v, s) < 0)
        return false;
    last = v->v[v->len - 1];
    memmove(&v->v[at + 1], &v->v[at], (v->len - 1 - at) * sizeof *v->v);
    v->v[at] = last;
    return true;
}

/* A file as it was when the run began. -ENOENT: there was none. */
static int open_old(const struct ignored_folders *f, const struct journal *j, const char *path) {
    const struct journal_entry *e = journal_find(j, path);
    int fd;

    if (e && e->kind == JOURNAL_FILE) {
        fd = journal_blob(j, e);
        return fd == -ENOENT ? -ENODATA : fd;
    }
    if (e)
        return -ENOENT; /* git follows no link to one, either */
    fd = safepath_open(f->workspace, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    return fd == -ELOOP || fd == -ENOTDIR ? -ENOENT : fd;
}

static int read_rules(struct ignored_folders *f, const struct journal *j, const char *folder) {
    CLEANUP(freep) char *path = str_dupf("%s%s.gitignore", folder, *folder ? "/" : "");
    CLEANUP(buf_done) struct buf text = BUF_INIT(IGNORE_FILE_MAX);
    CLEANUP(closep) int fd = path ? open_old(f, j, path) : -ENOMEM;
    struct err why = {0};
    int r = fd < 0 ? fd : file_read_fd(fd, 0, &text);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return ignore_add_file(f->rules, folder, path, buf_str(&text), text.len, &why);
}

/* The rules that hold in the folder of this length of path. */
static bool learn(struct ignored_folders *f, const struct journal *j, const char *path, size_t len) {
    CLEANUP(freep) char *folder = strndup(path, len);
    size_t at = folder ? find_place(&f->known, folder) : 0;

    if (folder && at < f->known.len && str_eq(f->known.v[at], folder))
        return true;
    f->off = !folder || read_rules(f, j, folder) < 0 || !insert_sorted(&f->known, folder);
    return !f->off;
}

static int add_tracked(const struct gitindex_entry *e, void *arg, struct err *err) {
    struct strv *v = arg;

    if (v->len && strcmp(v->v[v->len - 1], e->path) > 0)
        return err_set(err, -EBADMSG, "an index that is not sorted");
    return strv_add(v, e->path) < 0 ? err_oom(err) : 0;
}

/* Without a repository, and before anything was ever added, git ignores nothing. */
static bool read_index(struct ignored_folders *f, const struct journal *j) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(GITINDEX_SIZE_MAX);
    CLEANUP(closep) int fd = -1;
    struct err why = {0};

    if (journal_find(j, ".git"))
        return false; /* made, or touched, by the run */
    fd = open_old(f, j, ".git/index");
    return fd >= 0 && file_read_fd(fd, 0, &data) >= 0 &&
           gitindex_parse_all((const unsigned char *)data.data, data.len, add_tracked, &f->tracked, &why) >= 0;
}

static bool holds_tracked(const struct ignored_folders *f, const char *folder) {
    CLEANUP(freep) char *inside = str_dupf("%s/", folder);
    size_t at = inside ? find_place(&f->tracked, inside) : 0, same = find_place(&f->tracked, folder);

    if (!inside || (same < f->tracked.len && str_eq(f->tracked.v[same], folder))) /* a submodule */
        return true;
    return at < f->tracked.len && str_starts(f->tracked.v[at], inside);
}

/* One that the run has made is none. */
static bool is_repository(const struct ignored_folders *f, const struct journal *j, const char *folder) {
    CLEANUP(freep) char *git = str_dupf("%s/.git", folder);
    const struct journal_entry *e = git ? journal_find(j, git) : NULL;
    CLEANUP(closep) int fd = git && !e ? safepath_open(f->workspace, git, O_PATH) : -1;

    return !git || (e ? e->kind != JOURNAL_ABSENT : fd >= 0);
}

static int add_subfolders(const struct ignored_folders *f, const char *folder, struct strv *to) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = 0;

    (void)dir_take(safepath_open(f->workspace, folder, O_RDONLY | O_DIRECTORY), &d);
    while (r == 0 && to->len < REPO_FOLDERS && (e = dir_next(&d)))
        if (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
            r = strv_addf(to, "%s/%s", folder, e->d_name);
    return r;
}

/* A worktree or a clone in an ignored folder is work of the user's: git tracks what is in it by another index. */
static bool holds_repository(struct ignored_folders *f, const struct journal *j, const char *folder) {
    CLEANUP(strv_done) struct strv look = {0};
    size_t level_end = 1;
    int r = strv_has(&f->repos, folder) ? 1 : strv_add(&look, folder);

    for (size_t i = 0, depth = 0; r == 0 && i < look.len; i++) {
        if (i == level_end) {
            level_end = look.len;
            depth++;
        }
        r = is_repository(f, j, look.v[i]) ? strv_add(&f->repos, folder) < 0 ? -ENOMEM : 1
            : depth < REPO_DEPTH           ? add_subfolders(f, look.v[i], &look)
                                           : 0;
    }
    return r != 0;
}

/* 1: all in the folder is of no weight; 0: go on below it; -1: it is no such folder, and none below it is. */
static int judge_folder(struct ignored_folders *f, const struct journal *j, const char *folder) {
    if (ignore_match(f->rules, folder, true) != IGNORE_EXCLUDED)
        return 0;
    if (!f->have_index) {
        f->have_index = true;
        f->off = !read_index(f, j);
    }
    if (f->off || holds_tracked(f, folder) || holds_repository(f, j, folder))
        return -1;
    return strv_add(&f->found, folder) < 0 ? -1 : 1;
}

static size_t length_of_found(const struct ignored_folders *f, const char *path) {
    for (size_t i = 0; i < f->found.len; i++) {
        size_t len = strlen(f->found.v[i]);

        if (strncmp(path, f->found.v[i], len) == 0 && path[len] == '/')
            return len;
    }
    return 0;
}

bool ignored_folders_found(const struct ignored_folders *f, const char *path) {
    return length_of_found(f, path) > 0;
}

/* From the top: the first folder that is ignored decides. */
static size_t search(struct ignored_folders *f, const struct journal *j, const char *path) {
    const char *slash = strchr(path, '/');
    size_t parent = 0;

    for (; slash; parent = (size_t)(slash - path), slash = strchr(slash + 1, '/')) {
        CLEANUP(freep) char *folder = strndup(path, (size_t)(slash - path));
        int r = folder && learn(f, j, path, parent) ? judge_folder(f, j, folder) : -1;

        if (r != 0)
            return r > 0 ? strlen(folder) : 0;
    }
    return 0;
}

size_t ignored_folders_find(struct ignored_folders *f, const struct journal *j, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t len;

    if (f->off || !slash)
        return 0;
    len = length_of_found(f, path);
    if (len > 0)
        return len;
    if (f->last && strlen(f->last) == (size_t)(slash - path) && memcmp(f->last, path, (size_t)(slash - path)) == 0)
        return 0;
    len = search(f, j, path);
    if (len == 0) {
        free(f->last);
        f->last = strndup(path, (size_t)(slash - path));
    }
    return len;
}
