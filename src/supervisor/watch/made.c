/* SPDX-License-Identifier: Apache-2.0 */
/* Hidden names that the command itself made, known by inode and birth. */
#include "supervisor/watch/made.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/macros.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/safepath.h"

void made_done(struct made *m) {
    free(m->v);
    strv_done(&m->pending);
    *m = (struct made){0};
}

static bool identify(int fd, struct made_id *ret) {
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx) < 0)
        return false;
    *ret = (struct made_id){.dev = makedev(stx.stx_dev_major, stx.stx_dev_minor), .ino = stx.stx_ino};
    if (stx.stx_mask & STATX_BTIME) {
        ret->born_s = (uint64_t)stx.stx_btime.tv_sec;
        ret->born_ns = stx.stx_btime.tv_nsec;
    }
    return true;
}

static bool is_known(const struct made *m, const struct made_id *id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].ino == id->ino && m->v[i].dev == id->dev && m->v[i].born_s == id->born_s && m->v[i].born_ns == id->born_ns)
            return true;
    return false;
}

int made_begin(struct made *m, const char *path) {
    if (m->pending.len >= MADE_PENDING_MAX)
        return -EAGAIN;
    return strv_add(&m->pending, path);
}

void made_end(struct made *m, const char *path, int fd) {
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    struct made_id id;

    for (size_t i = 0; i < m->pending.len; i++)
        if (str_eq(m->pending.v[i], path)) {
            free(m->pending.v[i]);
            m->pending.v[i] = m->pending.v[--m->pending.len];
            m->pending.v[m->pending.len] = NULL;
            break;
        }
    if (flags >= 0 && !(flags & O_PATH) && identify(fd, &id) && !is_known(m, &id) && m->n < MADE_MAX)
        (void)VEC_ADD(m->v, m->n, id);
}

bool made_has(const struct made *m, int root, const char *path) {
    CLEANUP(closep) int fd = -1;
    struct made_id id;

    if (strv_has(&m->pending, path))
        return true;
    if (m->n == 0)
        return false;
    fd = safepath_open(root, path, O_PATH);
    return fd >= 0 && identify(fd, &id) && is_known(m, &id);
}
