/* SPDX-License-Identifier: Apache-2.0 */
/* Finds hidden files in git's index. */
#include "workspace/git/gittracked.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/strv.h"
#include "base/vec.h"
#include "os/lookalike.h"
#include "workspace/git/gitindex.h"

enum { NS_PER_S = 1000000000 };

struct tracked_search {
    struct strv hidden; /* sorted; the strings are the caller's */
    struct lookalikes *to;
};

/* The path or a folder above it is hidden. */
static bool is_hidden(const struct tracked_search *s, const char *path) {
    char part[GITINDEX_PATH_MAX + 1], *key = part;
    size_t len = strlen(path);

    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] && path[i] != '/')
            continue;
        part[i] = 0;
        if (bsearch(&key, s->hidden.v, s->hidden.len, sizeof key, str_compare))
            return true;
        part[i] = path[i];
    }
    return false;
}

/* The index may be the inside's work: no name in it leads out of the hidden folder. */
static bool is_plain(const char *path) {
    for (const char *end;; path = end + 1) {
        end = strchrnul(path, '/');
        if (end == path || strncmp(path, ".", (size_t)(end - path)) == 0 || strncmp(path, "..", (size_t)(end - path)) == 0)
            return false;
        if (*end == 0)
            return true;
    }
}

static int add_tracked(const struct gitindex_entry *e, void *arg, struct err *err) {
    struct tracked_search *s = arg;
    struct lookalike p = {
        .size = e->size, .mtime = {.tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns % NS_PER_S}, .executable = e->mode & S_IXUSR};

    if (!S_ISREG(e->mode) || s->to->n == GITTRACKED_MAX || !is_plain(e->path) || !is_hidden(s, e->path))
        return 0;
    p.path = strdup(e->path);
    if (p.path && VEC_ADD(s->to->v, s->to->n, p) == 0)
        return 0;
    free(p.path);
    return err_oom(err);
}

int gittracked_find(int workspace, const struct strv *hidden, struct lookalikes *ret, struct err *err) {
    CLEANUP(freep) char **sorted = hidden->len ? calloc(hidden->len, sizeof *sorted) : NULL;
    struct tracked_search s = {.hidden = {.v = sorted, .len = hidden->len}, .to = ret};
    int r;

    if (!hidden->len)
        return 0;
    if (!sorted)
        return err_oom(err);
    memcpy(sorted, hidden->v, hidden->len * sizeof *sorted);
    qsort(sorted, hidden->len, sizeof *sorted, str_compare);
    r = gitindex_read(workspace, add_tracked, &s, err);
    return r == -ENOMEM ? r : 0;
}
