/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts away what is about to change, without waiting for the supervisor (workspace/run/spool.h): names that are new, names in folders that git ignores, folders, and small files
 * with their content, in folders of which the supervisor has said that content is stored there. All else goes to the supervisor.
 *
 * The file is read here, with the rights of the command, and the supervisor takes its content by our word. So it takes already that a name was new. It costs no promise: who
 * had taken us over could change all that the sandbox shows and say nothing. About what it does not show, the hidden files, the supervisor believes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "workspace/run/spool.h"

enum { XATTR_NAMES_MAX = 1024 };

static void close_spool(struct guard_spool *s) {
    if (s->state == SPOOL_OPEN)
        closep(&s->fd);
    free(TAKE_PTR(s->room));
    s->state = SPOOL_OFF; /* `at` stays: so much of it counts */
}

/* Old contents of files lie behind the newest entry. A command that knew the next number could write such entries into a file. */
static int choose_seq(uint64_t *ret) {
    uint64_t n;

    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        return -EIO;
    *ret = n >> 1; /* it is never counted back to 0 */
    return 0;
}

/* A user's limit on the size of files holds for the spool, too, and past it a signal would end us. */
static bool may_grow(void) {
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SPOOL_SIZE;
}

static int open_spool(struct guard *g) {
    struct guard_spool *s = &g->spool;
    int r;

    s->state = SPOOL_OFF;
    s->room = may_grow() && choose_seq(&s->seq) == 0 ? malloc(SPOOL_CONTENT_MAX + 1) : NULL;
    if (!s->room)
        return 0;
    r = guard_ask_spool(g, &s->fd);
    if (r == 0 && s->fd >= 0)
        s->state = SPOOL_OPEN;
    else
        close_spool(s);
    return r;
}

/* All that is in it goes into the journal; then there is room. */
static int empty_spool(struct guard *g) {
    CLEANUP(closep) int none = -1;
    int r = guard_ask_spool(g, &none);

    if (r == 0)
        g->spool.at = 0;
    return r;
}

/* With one call, and the number behind it last. If it fails the supervisor is asked from now on, and says why if it fails as well. */
static int put(struct guard *g, const char *rel, struct spool_head h, const char *content) {
    struct guard_spool *s = &g->spool;
    size_t len = spool_len(h.path_len, h.content_len);
    int r = s->at + len > SPOOL_SIZE ? empty_spool(g) : 0;

    if (r < 0)
        return r;
    h.seq = ++s->seq;
    struct iovec parts[] = {{&h, sizeof h},
                            {(void *)(uintptr_t)rel, h.path_len + 1},
                            {(void *)(uintptr_t)content, h.content_len},
                            {&h.seq, sizeof h.seq}};
    if (pwritev(s->fd, parts, ARRAY_LEN(parts), (off_t)s->at) != (ssize_t)len) {
        close_spool(s);
        return 0;
    }
    s->at += len;
    return 1;
}

static bool has_user_xattrs(int fd) {
    char names[XATTR_NAMES_MAX];
    ssize_t n = flistxattr(fd, names, sizeof names - 1);

    if (n <= 0)
        return n < 0 && errno != ENOTSUP && errno != ENOSYS;
    names[n] = 0;
    for (const char *at = names; at < names + n; at += strlen(at) + 1)
        if (str_starts(at, "user."))
            return true;
    return false;
}

/* What is at the path must be what was judged. The length of its content; -1: the supervisor shall look. */
static ssize_t read_old(struct guard *g, const char *rel, struct stat *st) {
    bool folder = S_ISDIR(st->st_mode);
    CLEANUP(closep)
    int fd = openat(g->root, rel, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
    struct stat now;
    ssize_t n;

    if (fd < 0 || fstat(fd, &now) < 0 || now.st_ino != st->st_ino || now.st_dev != st->st_dev || has_user_xattrs(fd))
        return -1;
    *st = now;
    if (folder)
        return 0;
    n = read(fd, g->spool.room, SPOOL_CONTENT_MAX + 1);
    return n > SPOOL_CONTENT_MAX ? -1 : n;
}

static struct spool_head head_of(const char *rel, const struct stat *st, bool named, size_t content) {
    return (struct spool_head){.mode = st->st_mode,
                               .named = named,
                               .path_len = (uint32_t)strlen(rel),
                               .content_len = (uint32_t)content,
                               .size = named ? (uint64_t)st->st_size : content,
                               .mtime_ns = time_ns(&st->st_mtim),
                               .dev = st->st_dev,
                               .ino = st->st_ino};
}

int spool_touch(struct guard *g, const char *rel, const struct stat *st, bool named) {
    int r = g->spool.state == SPOOL_WANTED ? open_spool(g) : 0;
    struct stat now;
    ssize_t n;

    if (r < 0 || g->spool.state != SPOOL_OPEN)
        return r;
    if (!st)
        return put(g, rel, (struct spool_head){.path_len = (uint32_t)strlen(rel)}, NULL);
    if (named)
        return put(g, rel, head_of(rel, st, true, 0), NULL);
    if (!(S_ISREG(st->st_mode) && st->st_size <= SPOOL_CONTENT_MAX) && !S_ISDIR(st->st_mode))
        return 0;
    now = *st;
    n = guard_is_plain(g, rel) ? read_old(g, rel, &now) : -1;
    return n < 0 ? 0 : put(g, rel, head_of(rel, &now, false, (size_t)n), g->spool.room);
}
