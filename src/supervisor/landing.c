#include "supervisor/landing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "proto/guardmsg.h"
#include "supervisor/guard.h"
#include "workspace/ignore.h"
#include "workspace/place.h"
#include "workspace/protect.h"

enum { AGAIN_MS = 2 };

static const uint64_t SECOND_NS = 1000000000;

void landing_init(struct landing *l, const struct guard *g, const struct ignore *protect, int workspace, const char *path) {
    *l = (struct landing){.guard = g, .protect = protect, .workspace = workspace, .path = path, .begun_ns = clock_mark()};
}

void landing_done(struct landing *l) {
    strv_done(&l->waiting);
    strv_done(&l->told);
    strv_done(&l->links);
    strv_done(&l->aliases);
    strv_done(&l->behind);
    free(l->stopped);
    *l = (struct landing)LANDING_INIT;
}

/* -- what is protected ---------------------------------------------------------------------------------------------------- */

/* As the guard sees it: .git in every spelling. */
static void fold(const char *path, char out[static GUARD_PATH_MAX]) {
    snprintf(out, GUARD_PATH_MAX, "%s", path);
    for (char *p = out; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (strncasecmp(p, ".git", 4) == 0 && (p[4] == '/' || p[4] == 0))
            memcpy(p, ".git", 4);
}

/* What git obeys in any folder that has a HEAD: the guard looks more closely, and so protects no more. */
static bool in_repository(const struct landing *l, const char *path) {
    static const char *const obeyed[] = {"config", "config.worktree", "hooks", "commondir", "gitdir"};
    char head[GUARD_PATH_MAX + sizeof "HEAD"];
    struct stat st;

    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        for (size_t i = 0; i < ARRAY_LEN(obeyed); i++)
            if (strlen(obeyed[i]) == strcspn(at, "/") && str_starts(at, obeyed[i])) {
                snprintf(head, sizeof head, "%.*sHEAD", (int)(at - path), path);
                if (place_stat(l->workspace, head, &st) == 0)
                    return true;
            }
    return false;
}

static bool matches(const struct landing *l, const char *path) {
    char folded[GUARD_PATH_MAX];

    fold(path, folded);
    return ignore_match(l->protect, folded, false) == IGNORE_EXCLUDED;
}

static bool is_behind_link(const struct landing *l, const char *path) {
    char at[2 * GUARD_PATH_MAX];

    for (size_t i = 0; i + 1 < l->behind.len; i += 2) {
        size_t len = strlen(l->behind.v[i]);

        if (strncmp(path, l->behind.v[i], len) != 0 || (path[len] && path[len] != '/'))
            continue;
        snprintf(at, sizeof at, "%s%s", l->behind.v[i + 1], path + len);
        if (matches(l, at))
            return true;
    }
    return false;
}

static bool is_protected(const struct landing *l, const char *path) {
    return matches(l, path) || is_behind_link(l, path) || in_repository(l, path);
}

/* -- links and other names ------------------------------------------------------------------------------------------------ */

/* Hands the guard what it does not have yet. Before its first call there is nowhere to put it. */
static int share_links(struct landing *l) {
    struct guard_share *s = l->guard->share;

    for (; s && l->n_shared < l->behind.len; l->n_shared += 2) {
        const char *place = l->behind.v[l->n_shared], *link = l->behind.v[l->n_shared + 1];
        size_t len = strlen(place) + 1, link_len = strlen(link) + 1;
        uint32_t at = s->links_len;

        if (at >= GUARD_LINKS_BYTES || len + link_len > GUARD_LINKS_BYTES - at)
            return -E2BIG;
        memcpy(s->links + at, place, len);
        memcpy(s->links + at + len, link, link_len);
        s->links_len = at + (uint32_t)(len + link_len);
    }
    return 0;
}

void landing_share(void *arg) {
    share_links(arg); /* what does not fit ends the sandbox in landing_settle() */
}

struct seeing {
    struct landing *l;
    const char *path;
    int r;
};

static void see_place(void *arg, const char *place, bool is_link UNUSED) {
    struct seeing *s = arg;

    if (s->r == 0 && !str_eq(place, s->path))
        s->r = strv_add(&s->l->behind, place) < 0 || strv_add(&s->l->behind, s->path) < 0 ? -ENOMEM : 0;
}

/* A link in a protected place: the links that follow it, and where they lead, are protected as it is, whether there is something or not. */
static int see_link(struct landing *l, const char *path) {
    struct seeing s = {.l = l, .path = path};
    int r;

    if (strv_has(&l->links, path))
        return 0;
    if (l->links.len == LANDING_LINKS_MAX)
        return -E2BIG;
    r = strv_add(&l->links, path);
    r = r < 0 ? r : protect_follow(l->workspace, l->path, path, see_place, &s);
    r = r < 0 ? r : s.r;
    return r < 0 ? r : share_links(l);
}

/* Another name of the file may be anywhere: the guard looks for it before it next lets a file with several names be written. */
static int see_alias(struct landing *l, const char *path, const struct stat *st) {
    CLEANUP(freep) char *line = str_dupf("%ju %s", (uintmax_t)st->st_ino, path);

    if (!line)
        return -ENOMEM;
    if (strv_has(&l->aliases, line))
        return 0;
    if (l->aliases.len < LANDING_LINKS_MAX && strv_add(&l->aliases, line) < 0)
        return -ENOMEM;
    if (l->guard->share)
        l->guard->share->aliases++;
    return 0;
}

int landing_see(struct landing *l, const char *path, bool appeared) {
    struct stat st;

    if (!l->guard || !is_protected(l, path) || place_stat(l->workspace, path, &st) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return see_link(l, path);
    if (!S_ISREG(st.st_mode))
        return 0;
    if (st.st_nlink > 1 && see_alias(l, path, &st) < 0)
        return -ENOMEM;
    /* A rename or a new link sets the ctime. */
    if (!appeared && (uint64_t)st.st_ctim.tv_sec * SECOND_NS + (uint64_t)st.st_ctim.tv_nsec < l->begun_ns - SECOND_NS)
        return 0;
    if (l->waiting.len == LANDING_WAITING_MAX)
        return -E2BIG;
    if (l->waiting.len == 0 && l->guard->share)
        l->turn = l->guard->share->turn;
    return strv_add(&l->waiting, path);
}

/* -- verdicts ------------------------------------------------------------------------------------------------------------- */

enum touch { UNTOUCHED, TOUCHED, TOUCHED_SAVE };

static enum touch was_touched(const struct landing *l, int fd) {
    const struct guard_share *s = l->guard->share;
    uint64_t n, key;
    struct statx x;

    if (!s)
        return UNTOUCHED;
    if (s->full || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) < 0)
        return TOUCHED;
    key = guardmsg_key(makedev(x.stx_dev_major, x.stx_dev_minor), x.stx_ino,
                       x.stx_mask & STATX_BTIME ? (uint64_t)x.stx_btime.tv_sec * SECOND_NS + x.stx_btime.tv_nsec : 0);
    n = MIN_OF(s->n_written, (uint64_t)guard_written_room(l->guard));
    for (uint64_t i = 0; i < n; i++)
        if ((s->written[i] & ~GUARD_KEY_HOSTS) == key)
            return s->written[i] & GUARD_KEY_HOSTS ? TOUCHED_SAVE : TOUCHED;
    return UNTOUCHED;
}

static int stop(struct landing *l, const char *path, struct err *err) {
    free(l->stopped);
    l->stopped = strdup(path);
    return err_set(
        err, -EPERM,
        "stopped: '%s', which is protected, was put in place on the host while the sandbox had that file open for writing; everything "
        "inside was ended. Something inside may have written to it: check it before a program on the host uses it",
        path);
}

static int decide(struct landing *l, const char *path, struct err *err) {
    CLEANUP(closep) int fd = place_open(l->workspace, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    CLEANUP(closep) int any = fd >= 0 ? -1 : place_open(l->workspace, path, O_PATH | O_NOFOLLOW);
    enum touch touch;

    if (fd < 0 && any < 0) /* it is gone again */
        return 0;
    touch = was_touched(l, fd >= 0 ? fd : any);
    if (touch == UNTOUCHED)
        return 0;
    if (touch == TOUCHED_SAVE || fd < 0 || place_writers(fd) != 0)
        return stop(l, path, err);
    if (l->told.len < LANDING_TOLD_MAX && !strv_has(&l->told, path) && strv_add(&l->told, path) < 0)
        return err_oom(err);
    return 0;
}

/* What the guard is about to open it has not said yet: another call, or none, means that it has. */
static bool is_at_work(const struct landing *l) {
    const struct guard_share *s = l->guard->share;

    return s && l->guard->sock >= 0 && (s->turn & 1) && s->turn == l->turn;
}

int landing_timeout(const struct landing *l) {
    return l->waiting.len == 0 ? -1 : is_at_work(l) ? AGAIN_MS : 0;
}

int landing_settle(struct landing *l, struct err *err) {
    int r = l->guard ? share_links(l) : 0;

    if (r < 0)
        return err_set(err, r, "stopped: there are more links in protected places than can be followed");
    if (l->waiting.len == 0 || is_at_work(l))
        return 0;
    for (size_t i = 0; r == 0 && i < l->waiting.len; i++)
        r = decide(l, l->waiting.v[i], err);
    strv_done(&l->waiting);
    return r;
}

/* -- the end -------------------------------------------------------------------------------------------------------------- */

/* Who still has it open is a program of the host, or has a descriptor that left the sandbox. */
static void seal(struct landing *l) {
    CLEANUP(closep)
    int fd = l->stopped ? place_open(l->workspace, l->stopped, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW) : -1;
    struct place_meta meta = {0};
    struct err err = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || place_writers(fd) == 0)
        return;
    meta.mode = st.st_mode & 0777;
    if (place_file(l->workspace, l->stopped, fd, &meta, NULL, &err) < 0)
        log_err(&err);
    else
        log_line("'%s' was still open for writing and was replaced by a copy of itself", l->stopped);
}

void landing_last(struct landing *l) {
    struct err err = {0};

    if (landing_settle(l, &err) < 0)
        log_err(&err);
    seal(l);
}

void landing_report(const struct landing *l) {
    for (size_t i = 0; i < l->told.len; i++)
        log_line("'%s', which is protected, was put in place on the host from a file that was written inside: check it",
                 l->told.v[i]);
}
