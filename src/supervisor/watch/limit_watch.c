/* SPDX-License-Identifier: Apache-2.0 */
/* Time and disk space, which no control group limits. */
#include "supervisor/watch/limit_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"

enum { DISK_TICK_MS = 500, LOOK_ANYWAY = 20, WALK_DEPTH_MAX = 512 /* a descriptor each */, BLOCK = 512, SLACK = 1024 * 1024 };

static const uint64_t SECOND_NS = 1000000000;

static uint64_t free_bytes(int root) {
    struct statvfs v;

    return fstatvfs(root, &v) < 0 ? UINT64_MAX : (uint64_t)v.f_bfree * v.f_frsize;
}

void watch_init(struct limit_watch *w, const struct limits *l, int root, bool workspace_writable, pid_t init) {
    uint64_t now = clock_ms();

    *w = (struct limit_watch){.deadline_ms = l->timeout_ms ? now + l->timeout_ms : 0,
                              .limit = l->disk,
                              .next_disk_ms = now + DISK_TICK_MS,
                              .started_s = (uint64_t)time(NULL),
                              .started_ns = clock_mark(),
                              .init = init};
    if (workspace_writable)
        watch_also(w, root, false);
}

void watch_also(struct limit_watch *w, int root, bool whole) {
    uint64_t now = w->limit ? free_bytes(root) : 0;

    if (root == -1 || !w->limit || w->n_places == WATCH_PLACES)
        return;
    w->places[w->n_places++] = (struct watch_place){.root = root, .whole = whole, .free_at_start = now, .free_at_tick = now};
    w->has_home |= whole;
    w->disk = w->room = w->limit;
}

void watch_own(struct limit_watch *w, uint64_t limit, int root, pid_t init, const char *const mounts[static WATCH_MOUNTS]) {
    const struct limits l = {.disk = limit};

    watch_init(w, &l, root, true, init);
    memcpy(w->mounts, mounts, sizeof w->mounts);
}

int watch_timeout(const struct limit_watch *w) {
    return clock_sooner(clock_left_ms(w->deadline_ms), clock_left_ms(w->disk && !w->paused ? w->next_disk_ms : 0));
}

struct limit_tree {
    uint64_t since_ns; /* what changed earlier does not count */
    bool *blind;       /* set where something may be that could not be looked at */
};

static bool is_newer(const struct limit_tree *t, const struct stat *st) {
    return (uint64_t)st->st_ctim.tv_sec * SECOND_NS + (uint64_t)st->st_ctim.tv_nsec >= t->since_ns;
}

/* Bytes in files that changed since the start. By descriptor, never following links: the sandbox shapes this tree. newer: the folder itself
 * changed; one that was closed to us before the run has nothing new, or it would have been opened to the inside first. */
static uint64_t changed_below(const struct limit_tree *t, int dirfd_, const char *name, bool newer, uint64_t enough, int depth) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r = depth > WALK_DEPTH_MAX ? -ELOOP : dir_open_at(dirfd_, name, &d);
    const struct dirent *e;
    uint64_t sum = 0;
    struct stat st;

    *t->blind |= depth > WALK_DEPTH_MAX || (r < 0 && newer && r != -ENOENT);
    while (sum <= enough && (e = dir_next(&d))) {
        if (fstatat(d.fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            *t->blind |= newer && errno != ENOENT; /* it may be listed, but not searched */
            continue;
        }
        if (is_newer(t, &st))
            sum += (uint64_t)st.st_blocks * BLOCK;
        if (S_ISDIR(st.st_mode))
            sum += changed_below(t, d.fd, e->d_name, is_newer(t, &st), enough - MIN_OF(sum, enough), depth + 1);
    }
    return sum;
}

static uint64_t changed_in(int root, uint64_t since_ns, uint64_t enough, bool *blind) {
    const struct limit_tree t = {since_ns, blind};

    return changed_below(&t, root, ".", true, enough, 0);
}

/* What one process has written and holds open although it is unlinked: nothing of that is found by walking the tree. */
struct use {
    uint64_t written, unlinked;
    bool blind;      /* some process could not be looked at: it is another id's */
    pid_t may_close; /* the one that is closed to us anyway; 0: all may be, there is one id */
    dev_t dev;
    const char *const *mounts; /* only files of these mounts count; the first may be NULL: all do */
};

static uint64_t mount_of(int dir, const char *path) {
    struct statx st;

    return statx(dir, path, 0, STATX_MNT_ID, &st) == 0 && (st.stx_mask & STATX_MNT_ID) ? st.stx_mnt_id : 0;
}

/* A deleted file has no path that could be trusted, but a mount. Before Linux 5.8 every file counts. */
static bool is_of_mounts(pid_t pid, int dir, const char *fd, const char *const *mounts) {
    uint64_t id = mounts[0] ? mount_of(dir, fd) : 0;
    char path[PATH_MAX + 32];

    for (size_t i = 0; id && i < WATCH_MOUNTS && mounts[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, mounts[i]);
        if (mount_of(AT_FDCWD, path) == id)
            return true;
    }
    return id == 0;
}

static void add_open_files(pid_t pid, struct use *use) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    use->blind |= dir_open_at(AT_FDCWD, path, &d) == -EACCES && use->may_close && use->may_close != pid;
    while ((e = dir_next(&d)))
        if (fstatat(d.fd, e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_dev == use->dev &&
            is_of_mounts(pid, d.fd, e->d_name, use->mounts))
            use->unlinked += (uint64_t)st.st_blocks * BLOCK;
}

/* Includes what children that were waited for have written. */
static void add_written(pid_t pid, struct use *use) {
    char path[64];
    uint64_t n;

    snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    if (file_number(AT_FDCWD, path, "write_bytes:", &n) == 0)
        use->written += n;
}

static void add_process(pid_t pid, struct use *use, int depth) {
    char path[64], children[16 * 1024], *p = children, *end;

    add_written(pid, use);
    add_open_files(pid, use);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (depth > WALK_DEPTH_MAX || fd_read_file_at(AT_FDCWD, path, children, sizeof children) <= 0)
        return;
    for (long child; (child = strtol(p, &end, 10)) > 0 && end != p; p = end)
        add_process((pid_t)child, use, depth + 1);
}

static uint64_t lost_between(uint64_t before, uint64_t now) {
    return now < before ? before - now : 0;
}

/* A file system that several places share is counted once. */
static bool is_counted(const struct limit_watch *w, size_t place) {
    struct stat st, other;

    if (fstat(w->places[place].root, &st) < 0)
        return true;
    for (size_t i = 0; i < place; i++)
        if (fstat(w->places[i].root, &other) == 0 && other.st_dev == st.st_dev)
            return false;
    return true;
}

/* What the file systems lost since the start. Counts what they lost since the last call. */
static uint64_t count_lost(struct limit_watch *w) {
    uint64_t lost = 0;

    for (size_t i = 0; i < w->n_places; i++) {
        struct watch_place *p = &w->places[i];
        uint64_t now = free_bytes(p->root);

        if (is_counted(w, i)) {
            lost += lost_between(p->free_at_start, now);
            w->taken += lost_between(p->free_at_tick, now);
            w->unseen += lost_between(p->free_at_tick, now);
        }
        p->free_at_tick = now;
    }
    return lost;
}

static uint64_t count_changed(const struct limit_watch *w, uint64_t enough, bool *blind) {
    uint64_t sum = 0;

    for (size_t i = 0; i < w->n_places && sum <= enough; i++) {
        const struct watch_place *p = &w->places[i];

        sum += changed_in(p->root, p->whole ? 0 : w->started_s * SECOND_NS, enough - sum, blind);
    }
    return sum;
}

/* A home that is over the limit can be started, so that it can be emptied; it may not grow. What was written since the start does not
 * count as having been there. */
static void measure(struct limit_watch *w) {
    uint64_t old = 0;
    bool blind = false;

    for (size_t i = 0; i < w->n_places; i++)
        if (w->places[i].whole)
            old += lost_between(changed_in(w->places[i].root, 0, UINT64_MAX, &blind),
                                changed_in(w->places[i].root, w->started_ns + 1, UINT64_MAX, &blind));
    w->measured = true;
    w->disk = MAX_OF(w->disk, old ? old + SLACK : 0);
    w->room = w->disk - old;
}

static void count_use(const struct limit_watch *w, struct use *use) {
    struct stat st;

    for (size_t i = 0; i < w->n_places; i++) {
        if (fstat(w->places[i].root, &st) < 0 || (i > 0 && st.st_dev == use->dev))
            continue;
        use->dev = st.st_dev;
        use->written = 0;
        add_process(w->init, use, 0);
    }
}

/*
 * Something is looked at only when the file systems really lost what was left: first the trees, then, for files that they
 * do not show (unlinked, too deep, in folders we may not open), what the processes wrote and hold open. Space can also be reserved
 * without writing (fallocate): where a tree could not be seen whole, what the file systems lost counts as the sandbox's, from tick to
 * tick, so that what others free hides nothing. In a persistent home writing alone is no growth, and only what was lost since the start
 * counts: the same file may be written a thousand times, by others as well. For one place of several (watch_own()) writing counts only
 * where it was not seen whole and the file system lost as much: the rest may have gone elsewhere.
 */
static bool grown_unseen(const struct limit_watch *w, const struct use *use, uint64_t lost, bool blind) {
    if (use->unlinked > w->disk)
        return true;
    if (w->mounts[0])
        return blind && use->written > w->disk && w->unseen > w->disk;
    return use->written > w->disk && (lost > w->disk || !w->has_home);
}

static bool grown(struct limit_watch *w) {
    uint64_t lost, sum;
    struct use use = {.mounts = w->mounts, .may_close = w->many_ids ? w->init : 0};
    bool blind = false;

    if (!w->measured)
        measure(w);
    lost = count_lost(w);
    /* Others may free as much as we take between two ticks, so now and then the trees are looked at anyway. */
    if (++w->looks % LOOK_ANYWAY != 0 && w->taken <= w->room)
        return false;
    sum = count_changed(w, w->disk, &blind);
    if (sum > w->disk || (blind && !w->mounts[0] && (w->has_home ? lost : w->unseen) > w->disk))
        return true;
    count_use(w, &use);
    blind |= use.blind;
    if (grown_unseen(w, &use, lost, blind) || (use.blind && (w->has_home ? lost : w->unseen) > w->disk))
        return true;
    sum = MAX_OF(sum, use.unlinked);
    w->room = w->disk - sum;
    w->taken = 0;
    w->unseen = blind ? w->unseen : sum;
    return false;
}

enum watch_event watch_check(struct limit_watch *w) {
    uint64_t now = clock_ms();

    if (w->deadline_ms && now >= w->deadline_ms) {
        w->deadline_ms = 0;
        return WATCH_TIME;
    }
    if (w->disk && !w->paused && now >= w->next_disk_ms) {
        w->next_disk_ms = now + DISK_TICK_MS;
        if (grown(w)) {
            w->disk = 0;
            return WATCH_DISK;
        }
    }
    return WATCH_NOTHING;
}
