/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/change/change_priv.h"

/* Merging is for text that people write; what is larger or more than this comes from programs. */
static const struct journal_opts base_opts = {.budget = 256 * 1024 * 1024, .file_max = 8 * 1024 * 1024};

static bool is_wanted(const struct change *c) {
    return c->kind != CHANGE_ADDED && !c->host_changed && !c->hidden && !c->old_unknown &&
           (!S_ISREG(c->old_.mode) || c->old_.size <= base_opts.file_max);
}

/* Whether the host changed it between the making of the set and now: then it is no base. */
static bool is_still_base(const struct change_set *s, const struct change *c, const struct journal_entry *e, int content) {
    struct stat st;

    if (e->kind == JOURNAL_LINK)
        return c->old_.link && e->link && str_eq(e->link, c->old_.link);
    if (e->kind == JOURNAL_DIR)
        return S_ISDIR(c->old_.mode);
    if (e->kind != JOURNAL_FILE || !S_ISREG(c->old_.mode) || content < 0 || fstat(content, &st) < 0)
        return false;
    return (uint64_t)st.st_size == c->old_.size &&
           (uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec < s->made_ns;
}

static int keep(struct journal *j, const struct change_set *s, const struct change *c, int workspace, struct err *err) {
    const char *path = c->from ? c->from : c->path;
    CLEANUP(closep) int content = -1;
    struct journal_entry e = {0};
    int r;

    if (journal_find(j, path))
        return 0;
    r = journal_look(j, workspace, path, &e, &content, err);
    if (r < 0)
        return r == -ENOENT || r == -EACCES || r == -ELOOP || r == -ENOTDIR || r == -ESTALE ? 0 : r;
    if (!is_still_base(s, c, &e, content))
        return 0;
    r = journal_add(j, &e, content, false, -1, err);
    return r < 0 ? r : 0;
}

int change_keep_base(const struct rundir *rd, const struct change_set *s, int workspace, struct err *err) {
    CLEANUP(journal_closep) struct journal *j = NULL;
    int r = 0;

    if (rd->info.mode == WORKSPACE_DIRECT || rd->info.mode == WORKSPACE_RO)
        return 0;
    for (size_t i = 0; i < s->n && r == 0; i++) {
        if (!is_wanted(&s->v[i]))
            continue;
        if (!j)
            r = journal_open(rd->fd, true, &base_opts, &j, err);
        if (r == 0)
            r = keep(j, s, &s->v[i], workspace, err);
    }
    return r;
}
