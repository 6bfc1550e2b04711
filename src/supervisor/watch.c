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
#include "os/fd.h"

enum { DISK_TICK_MS = 500, LOOK_ANYWAY = 20, WALK_DEPTH_MAX = 256, BLOCK = 512 };

uint64_t watch_now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t free_bytes(int root) {
    struct statvfs v;

    return fstatvfs(root, &v) < 0 ? UINT64_MAX : (uint64_t)v.f_bfree * v.f_frsize;
}

void watch_init(struct watch *w, const struct limits *l, int root, bool workspace_writable, pid_t init) {
    uint64_t now = watch_now_ms();

    *w = (struct watch){.deadline_ms = l->timeout_ms ? now + l->timeout_ms : 0,
                        .disk = workspace_writable ? l->disk : 0,
                        .next_disk_ms = now + DISK_TICK_MS,
                        .started_s = (uint64_t)time(NULL),
                        .init = init,
                        .root = root,
                        .also = -1};
    if (w->disk)
        w->free_at_start = free_bytes(root);
}

void watch_also(struct watch *w, int root) {
    w->also = root;
}

int watch_timeout(const struct watch *w) {
    uint64_t now = watch_now_ms(), next = UINT64_MAX;

    if (w->deadline_ms)
        next = w->deadline_ms;
    if (w->disk && !w->paused && w->next_disk_ms < next)
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

/* What one process has written and holds open although it is unlinked: nothing of that is found by walking the tree. */
struct use {
    uint64_t written, unlinked;
    dev_t dev;
};

static void add_open_files(pid_t pid, struct use *use) {
    char path[64];
    DIR *d;
    struct dirent *e;
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    d = opendir(path);
    while (d && (e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_dev == use->dev)
            use->unlinked += (uint64_t)st.st_blocks * BLOCK;
    if (d)
        closedir(d);
}

/* Includes what children that were waited for have written. */
static void add_written(pid_t pid, struct use *use) {
    char path[64], text[512];
    unsigned long long n;
    const char *p;

    snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return;
    p = strstr(text, "\nwrite_bytes: ");
    if (p && sscanf(p, "\nwrite_bytes: %llu", &n) == 1)
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

/*
 * Something is looked at only when the file system really lost that much space: first the tree, then, for files that the
 * tree does not show (unlinked, too deep, in folders we may not open), what the processes wrote and hold open.
 */
static bool grown(struct watch *w) {
    uint64_t now_free = free_bytes(w->root), sum;
    struct use use = {0};
    struct stat st;

    /* Others may free as much as we take, so now and then the tree is looked at anyway. */
    if (++w->looks % LOOK_ANYWAY != 0 && (now_free >= w->free_at_start || w->free_at_start - now_free <= w->disk))
        return false;
    sum = changed_below(w->root, ".", w->started_s, w->disk, 0);
    if (sum <= w->disk && w->also >= 0)
        sum += changed_below(w->also, ".", w->started_s, w->disk, 0);
    if (sum > w->disk)
        return true;
    use.dev = fstat(w->root, &st) < 0 ? 0 : st.st_dev;
    add_process(w->init, &use, 0);
    return use.written > w->disk || use.unlinked > w->disk;
}

enum watch_event watch_check(struct watch *w) {
    uint64_t now = watch_now_ms();

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
