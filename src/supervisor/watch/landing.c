/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about files that the host puts into protected places. */
#include "supervisor/watch/landing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "proto/guardmsg.h"
#include "supervisor/watch/guard_link.h"
#include "workspace/copy/place.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

enum { AGAIN_MS = 2, ORIGIN_MAX = 2 * GUARD_PATH_MAX };

void landing_init(struct landing *l, const struct guard_link *g, const struct ignore *protect, int workspace, const char *path) {
    *l = (struct landing){.guard = g, .protect = protect, .workspace = workspace, .path = path};
}

void landing_done(struct landing *l) {
    landing_keys_done(&l->keys);
    strv_done(&l->waiting);
    strv_done(&l->reported);
    strv_done(&l->links);
    strv_done(&l->behind);
    for (size_t i = 0; i < LANDING_ARRIVALS; i++)
        free(l->arrivals[i].path);
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

/* What git obeys in any folder that it takes for a repository, and what makes it one (as init/guard/guard_judge.c has it). */
static const char *const obeyed[] = {"config", "config.worktree", "hooks", "commondir", "gitdir"};
static const char *const parts[] = {"HEAD", "commondir", "objects", "refs"};

/* What cannot be looked for counts as there. */
static bool has_name(const struct landing *l, const char *path, size_t dir, const char *name) {
    char each[GUARD_PATH_MAX + NAME_MAX];
    struct stat st;
    int r;

    snprintf(each, sizeof each, "%.*s%s", (int)dir, path, name);
    r = place_stat(l->workspace, each, &st);
    return r != -ENOENT && r != -ENOTDIR;
}

/* The first dir bytes of the path are a folder, with a '/' at the end, or nothing: the workspace. */
static bool is_repository(const struct landing *l, const char *path, size_t dir) {
    return has_name(l, path, dir, "HEAD") &&
           (has_name(l, path, dir, "commondir") || (has_name(l, path, dir, "objects") && has_name(l, path, dir, "refs")));
}

static bool in_repository(const struct landing *l, const char *path) {
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        for (size_t i = 0; i < ARRAY_LEN(obeyed); i++)
            if (strlen(obeyed[i]) == strcspn(at, "/") && str_starts(at, obeyed[i]) && is_repository(l, path, (size_t)(at - path)))
                return true;
    return false;
}

static bool matches(const struct landing *l, const char *path) {
    char folded[GUARD_PATH_MAX];

    fold(path, folded);
    return ignore_match(l->protect, folded, false) == IGNORE_EXCLUDED;
}

/* The protected path that leads to this one, which may be itself; NULL: none does. */
static const char *origin_of(const struct landing *l, const char *path, char room[static ORIGIN_MAX]) {
    if (matches(l, path))
        return path;
    for (size_t i = 0; i + 1 < l->behind.len; i += 2) {
        size_t len = strlen(l->behind.v[i]);

        if (strncmp(path, l->behind.v[i], len) != 0 || (path[len] && path[len] != '/'))
            continue;
        snprintf(room, ORIGIN_MAX, "%s%s", l->behind.v[i + 1], path + len);
        if (matches(l, room))
            return room;
    }
    return NULL;
}

static bool is_protected(const struct landing *l, const char *path) {
    char room[ORIGIN_MAX];

    return !protect_is_sample(path) && (origin_of(l, path, room) || in_repository(l, path));
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

/* -- what rests ------------------------------------------------------------------------------------------------------------ */

void landing_arrive(struct landing *l, const char *path) {
    struct landing_arrival *a = &l->arrivals[l->next_arrival++ % LANDING_ARRIVALS];

    free(a->path);
    *a = (struct landing_arrival){strdup(path), clock_mark()};
}

/* The ctime is that of the rename, or older. */
bool landing_has_arrived(void *arg, const char *path, const struct stat *st) {
    const struct landing *l = arg;
    uint64_t changed = (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;

    for (size_t i = 0; i < LANDING_ARRIVALS; i++)
        if (l->arrivals[i].path && str_eq(l->arrivals[i].path, path) && changed <= l->arrivals[i].at_ns)
            return true;
    return false;
}

void landing_share(void *arg) {
    share_links(arg); /* what does not fit ends the sandbox in landing_settle() */
}

struct seeing {
    struct landing *l;
    const char *path, *origin;
    int r;
};

static bool is_behind(const struct landing *l, const char *place, const char *origin) {
    for (size_t i = 0; i + 1 < l->behind.len; i += 2)
        if (str_eq(l->behind.v[i], place) && str_eq(l->behind.v[i + 1], origin))
            return true;
    return false;
}

static void see_place(void *arg, const char *place, bool is_link UNUSED) {
    struct seeing *s = arg;

    if (s->r == 0 && !str_eq(place, s->path) && !is_behind(s->l, place, s->origin))
        s->r = strv_add(&s->l->behind, place) < 0 || strv_add(&s->l->behind, s->origin) < 0 ? -ENOMEM : 0;
}

/* The host may turn a link elsewhere: only the same one with the same text is known. 1: it is; 0: it is from now on. */
static int know_link(struct landing *l, const char *path) {
    CLEANUP(closep) int fd = place_open(l->workspace, path, O_PATH | O_NOFOLLOW);
    char text[PATH_MAX];
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof text - 1);
    CLEANUP(freep) char *line = NULL;

    if (n < 0)
        return 1; /* it is gone */
    text[n] = 0;
    line = str_dupf("%s -> %s", path, text);
    if (!line)
        return -ENOMEM;
    if (strv_has(&l->links, line))
        return 1;
    return l->links.len == LANDING_LINKS_MAX ? -E2BIG : strv_add_take(&l->links, TAKE_PTR(line));
}

/* -- verdicts ------------------------------------------------------------------------------------------------------------- */

/* What the guard is about to open it has not said yet: another call, or none, means that it has. */
static bool is_at_work(const struct landing *l, uint32_t turn) {
    const struct guard_share *s = l->guard->share;

    return s && l->guard->sock >= 0 && (s->turn & 1) && s->turn == turn;
}

static int wait_for(struct landing *l, const char *path, uint32_t turn) {
    if (l->waiting.len == LANDING_WAITING_MAX) { /* all is looked at once more, instead */
        l->again = true;
        return 0;
    }
    l->turns[l->waiting.len] = turn;
    return strv_add(&l->waiting, path);
}

/* A file in a protected place; most of them were never touched inside. */
static int see_file(struct landing *l, const char *path) {
    uint32_t turn = l->guard->share ? l->guard->share->turn : 0; /* first, and then what the guard has said */
    CLEANUP(closep) int fd = place_open(l->workspace, path, O_PATH | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (l->guard->share)
        l->guard->share->aliases++;
    return (turn & 1) || landing_keys_find(&l->keys, l->guard, fd) != LANDING_UNTOUCHED ? wait_for(l, path, turn) : 0;
}

/* Everything in a folder that became protected as a whole. */
static int see_below(struct landing *l, const char *path, int depth) { /* NOLINT(misc-no-recursion): LANDING_DEPTH_MAX */
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r = dir_take(place_open(l->workspace, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK), &d);
    const struct dirent *e;

    if (r < 0)
        return see_file(l, path);
    while (r == 0 && (e = dir_next(&d))) {
        CLEANUP(freep) char *each = str_dupf("%s/%s", path, e->d_name);

        if (!each || depth == LANDING_DEPTH_MAX)
            r = each ? -E2BIG : -ENOMEM;
        else
            r = is_protected(l, each) ? see_below(l, each, depth + 1) : 0;
    }
    return r;
}

/* The links that follow a protected one, and where they lead, are protected as it is, whether there is something or not. */
static int follow_link(struct landing *l, const char *path, const char *origin) {
    struct seeing s = {.l = l, .path = path, .origin = origin};
    size_t first = l->behind.len;
    int r = protect_follow(l->workspace, l->path, path, see_place, &s);

    r = r < 0 ? r : s.r;
    r = r < 0 ? r : share_links(l);
    for (size_t i = first; r == 0 && i < l->behind.len; i += 2)
        r = see_below(l, l->behind.v[i], 0);
    return r;
}

/* The path is a folder, or could be a link, on the way to where a protected link leads. */
static bool is_on_the_way(const char *path, const char *place) {
    size_t len = strlen(path);

    return strncmp(place, path, len) == 0 && place[len] == '/';
}

static bool leads_on(const struct landing *l, const char *path) {
    for (size_t i = 0; i + 1 < l->behind.len; i += 2)
        if (is_on_the_way(path, l->behind.v[i]))
            return true;
    return false;
}

/* A link in a protected place, or one that the host made on the way to one: then what leads there leads elsewhere from now on. */
static int see_link(struct landing *l, const char *path) {
    char room[ORIGIN_MAX];
    const char *origin = origin_of(l, path, room);
    size_t n = l->behind.len;
    int r = know_link(l, path);

    if (r != 0)
        return r < 0 ? r : 0;
    if (origin)
        r = follow_link(l, path, origin);
    for (size_t i = 0; r == 0 && i + 1 < n; i += 2)
        if (is_on_the_way(path, l->behind.v[i]))
            r = follow_link(l, l->behind.v[i + 1], l->behind.v[i + 1]);
    return r;
}

/* The last part makes a repository of its folder, and git obeys what was there before. Inside it cannot be made, so it is
 * the host's. */
static int see_part(struct landing *l, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t dir = slash ? (size_t)(slash + 1 - path) : 0;
    int r = 0;

    if (str_index(path + dir, parts, ARRAY_LEN(parts)) < 0 || !is_repository(l, path, dir))
        return 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(obeyed); i++) {
        CLEANUP(freep) char *each = str_dupf("%.*s%s", (int)dir, path, obeyed[i]);

        r = each ? see_below(l, each, 0) : -ENOMEM;
    }
    return r;
}

int landing_see(struct landing *l, const char *path, bool is_dir) {
    bool obeyed_here = !is_dir && is_protected(l, path);
    struct stat st;
    int r = see_part(l, path);

    if (r < 0 || is_dir || !(obeyed_here || leads_on(l, path)) || place_stat(l->workspace, path, &st) < 0)
        return r;
    if (S_ISLNK(st.st_mode))
        return see_link(l, path);
    return obeyed_here ? see_file(l, path) : 0;
}

static int stop_sandbox(struct landing *l, const char *path, struct err *err) {
    free(l->stopped);
    l->stopped = strdup(path);
    return err_set(
        err, -EPERM,
        "stopped: '%s', which is protected, was put in place on the host while the sandbox had that file open for writing; everything "
        "inside was ended. Something inside may have written to it: check it before a program on the host uses it",
        path);
}

/* 1: it was not touched inside, as far as the guard has said. */
static int decide_name(struct landing *l, const char *path, struct err *err) {
    CLEANUP(closep) int fd = place_open(l->workspace, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    CLEANUP(closep) int any = fd >= 0 ? -1 : place_open(l->workspace, path, O_PATH | O_NOFOLLOW);
    enum landing_touch touch;

    if (fd < 0 && any < 0) /* it is gone again */
        return 0;
    touch = landing_keys_find(&l->keys, l->guard, fd >= 0 ? fd : any);
    if (touch == LANDING_UNTOUCHED)
        return 1;
    if (touch == LANDING_TOUCHED_SAVE || fd < 0 || place_writers(fd) != 0)
        return stop_sandbox(l, path, err);
    if (l->reported.len < LANDING_REPORTED_MAX && !strv_has(&l->reported, path) && strv_add(&l->reported, path) < 0)
        return err_oom(err);
    return 0;
}

int landing_timeout(const struct landing *l) {
    return l->waiting.len == 0 ? -1 : is_at_work(l, l->turns[0]) ? AGAIN_MS : 0;
}

/* What is known to be touched is decided at once, whatever the guard is at: the inside can make a call last long. */
int landing_settle(struct landing *l, struct err *err) {
    int r = l->guard ? share_links(l) : 0;
    size_t left = 0;

    if (r < 0)
        return err_set(err, r, "stopped: there are more links in protected places than can be followed");
    for (size_t i = 0; i < l->waiting.len; i++) {
        uint32_t turn = l->turns[i];
        bool working = is_at_work(l, turn);
        int verdict = r < 0 ? 0 : decide_name(l, l->waiting.v[i], err);

        r = verdict < 0 ? verdict : r;
        if (verdict == 1 && working) {
            l->waiting.v[left] = l->waiting.v[i];
            l->turns[left++] = turn;
        } else {
            free(l->waiting.v[i]);
        }
    }
    l->waiting.len = left;
    if (l->waiting.v)
        l->waiting.v[left] = NULL;
    return r;
}

/* -- the end -------------------------------------------------------------------------------------------------------------- */

/* Who still has it open is a program of the host, or has a descriptor that left the sandbox. */
static void seal_file(struct landing *l) {
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
    seal_file(l);
}

void landing_report(const struct landing *l) {
    for (size_t i = 0; i < l->reported.len; i++)
        log_line("'%s', which is protected, was put in place on the host from a file that was written inside: check it",
                 l->reported.v[i]);
}
