#include "supervisor/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

enum { DISK_TICK_MS = 500, WALK_DEPTH_MAX = 256, BLOCK = 512 };

uint64_t watch_now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t free_bytes(void) {
    struct statvfs v;

    return statvfs(".", &v) < 0 ? 0 : (uint64_t)v.f_bfree * v.f_frsize;
}

void watch_init(struct watch *w, const struct limits *l, bool workspace_writable) {
    uint64_t now = watch_now_ms();

    *w = (struct watch){.deadline_ms = l->timeout_ms ? now + l->timeout_ms : 0,
                        .disk = workspace_writable ? l->disk : 0,
                        .next_disk_ms = now + DISK_TICK_MS,
                        .started_s = (uint64_t)time(NULL)};
    if (w->disk)
        w->free_at_start = free_bytes();
}

int watch_timeout(const struct watch *w) {
    uint64_t now = watch_now_ms(), next = UINT64_MAX;

    if (w->deadline_ms)
        next = w->deadline_ms;
    if (w->disk && w->next_disk_ms < next)
        next = w->next_disk_ms;
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)MIN_OF(next - now, (uint64_t)INT_MAX);
}

/* Bytes in files that changed since the start. By descriptor, never following links: the sandbox shapes this tree. */
static uint64_t changed_below(int dirfd_, const char *name, uint64_t since, uint64_t enough, int depth) {
    int fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = 0;
    struct dirent *e;
    struct stat st;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (sum <= enough && (e = readdir(d))) {
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if ((uint64_t)st.st_ctim.tv_sec >= since)
            sum += (uint64_t)st.st_blocks * BLOCK;
        if (S_ISDIR(st.st_mode) && depth < WALK_DEPTH_MAX)
            sum += changed_below(dirfd(d), e->d_name, since, enough - MIN_OF(sum, enough), depth + 1);
    }
    closedir(d);
    return sum;
}

/* Two steps, so that the tree is walked only when the file system really lost that much space. */
static bool grown(const struct watch *w) {
    uint64_t now_free = free_bytes();

    if (now_free >= w->free_at_start || w->free_at_start - now_free <= w->disk)
        return false;
    return changed_below(AT_FDCWD, ".", w->started_s, w->disk, 0) > w->disk;
}

enum watch_event watch_check(struct watch *w) {
    uint64_t now = watch_now_ms();

    if (w->deadline_ms && now >= w->deadline_ms) {
        w->deadline_ms = 0;
        return WATCH_TIME;
    }
    if (w->disk && now >= w->next_disk_ms) {
        w->next_disk_ms = now + DISK_TICK_MS;
        if (grown(w)) {
            w->disk = 0;
            return WATCH_DISK;
        }
    }
    return WATCH_NOTHING;
}
