/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders of this machine a guest gets, and by which names. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/guest/guest.h"
#include "jail/plan/own.h"
#include "os/fd.h"
#include "os/file.h"

enum { FILE_COPY_MAX = 16 * 1024 * 1024 };

void guest_shares_done(struct guest_shares *s) {
    for (size_t i = 0; i < s->n; i++) {
        free(s->v[i].from);
        free(s->v[i].at);
    }
    free(s->v);
    *s = (struct guest_shares){.v = NULL};
}

/* The innermost share that has it. */
static const struct guest_share *find_share(const struct guest_shares *s, const char *path) {
    const struct guest_share *best = NULL;

    for (size_t i = 0; i < s->n; i++)
        if (path_holds(s->v[i].from, path) && (!best || strlen(s->v[i].from) > strlen(best->from)))
            best = &s->v[i];
    return best;
}

char *guest_path(const struct guest_shares *s, const char *path) {
    const struct guest_share *best = find_share(s, path);

    return best ? str_dupf("%s%s", best->at, path + strlen(best->from)) : NULL;
}

static int add_share(struct guest_shares *s, const char *from, const char *at, bool writable, struct err *err) {
    struct guest_share one = {.from = strdup(from), .writable = writable};

    if (s->n >= GUEST_SHARES_MAX)
        return err_set(err, -E2BIG, "more than %d folders cannot be shared with a virtual machine", GUEST_SHARES_MAX);
    one.at = at ? str_dupf("%s/%zu", at, s->n) : strdup(from);
    if (one.from && one.at && VEC_ADD(s->v, s->n, one) == 0)
        return 0;
    free(one.from);
    free(one.at);
    return err_oom(err);
}

/* A folder that is read-only in one place and writable in another is shared writable: the mounts in the guest make the difference. */
static int share_mount(struct guest_shares *s, const struct container_mount *m, const char *at, struct err *err) {
    struct guest_share *there = (struct guest_share *)(uintptr_t)find_share(s, m->from);
    struct stat st;

    if (there && (there->writable || !m->writable))
        return 0;
    if (there && str_eq(there->from, m->from)) {
        there->writable = true;
        return 0;
    }
    if (stat(m->from, &st) < 0)
        return err_sys(err, -errno, "'%s', which is to be mounted", m->from);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -EOPNOTSUPP,
                       "'%s' cannot be shared with a virtual machine: only folders and files to read can; mount its folder",
                       m->from);
    return add_share(s, m->from, at, m->writable, err);
}

int guest_shares_make(const struct container_plan *c, const char *folder, const char *at, struct guest_shares *ret,
                      struct err *err) {
    CLEANUP(guest_shares_done) struct guest_shares s = {0};
    int r = add_share(&s, folder, at, false, err);

    for (size_t i = 0; r == 0 && i < c->n_mounts; i++)
        r = share_mount(&s, &c->mounts[i], at, err);
    if (r < 0)
        return r;
    *ret = TAKE(s, (struct guest_shares){0});
    return 0;
}

/* -- single files ------------------------------------------------------------------------------------------------------- */

static bool is_in_folder(const struct container_plan *c, const char *folder, const char *path) {
    struct stat st;

    if (path_holds(folder, path))
        return true;
    for (size_t i = 0; i < c->n_mounts; i++)
        if (path_holds(c->mounts[i].from, path) && stat(c->mounts[i].from, &st) == 0 && S_ISDIR(st.st_mode))
            return true;
    return false;
}

static int copy_file(const char *from, const struct container_folder *f, const char *name) {
    CLEANUP(buf_done) struct buf content = BUF_INIT(FILE_COPY_MAX);
    char path[160];
    struct stat st;
    int r = file_read(from, FILE_FOLLOW, &content);

    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%s/files", f->name);
    CLEANUP(closep) int dir = openat(f->parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (dir < 0 || stat(from, &st) < 0)
        return -errno;
    return file_replace_at(dir, name, st.st_mode & 0111 ? 0755 : 0644, 0, buf_str(&content), content.len);
}

int guest_files_copy(struct container_plan *c, const struct container_folder *f, struct err *err) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        struct container_mount *m = &c->mounts[i];
        struct stat st;
        char name[32], *to;
        int r;

        if (m->writable || is_in_folder(c, f->path, m->from) || stat(m->from, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        snprintf(name, sizeof name, "copy-%zu", i);
        r = copy_file(m->from, f, name);
        if (r < 0)
            return file_err(err, r, m->from, FILE_COPY_MAX);
        to = str_dupf("%s/files/%s", f->path, name);
        if (!to)
            return err_oom(err);
        free(m->from);
        m->from = to;
    }
    return 0;
}
