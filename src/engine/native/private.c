#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/native/native.h"
#include "os/fd.h"
#include "os/process.h"

static const char place[] = "/tmp";
static const char prefix[] = "bawn-run-";

/* The name carries proof of who owns it: pid and start time of the supervisor. */
int private_dir_make(char *ret_path, size_t size, struct err *err) {
    char path[128];
    int n = snprintf(path, sizeof path, "%s/%s%d-%llu-XXXXXX", place, prefix, (int)getpid(),
                     (unsigned long long)process_start_time(getpid()));

    if (n < 0 || (size_t)n >= sizeof path || (size_t)n >= size)
        return err_set(err, -ENAMETOOLONG, "private folder");
    if (!mkdtemp(path))
        return err_sys(err, -errno, "make a private folder in %s", place);
    snprintf(ret_path, size, "%s", path);
    return 0;
}

enum { REMOVE_DEPTH = 64 };

/* A folder that is removed, and the number of subtrees that were moved up to it because they were too deep. */
struct removal {
    int top;
    unsigned moved;
};

static int open_folder(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 || errno != EACCES || fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
        return fd;
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* By descriptor, never following a link: the sandbox filled this folder. Takes fd. A descriptor per level is held, so what is
 * deeper is moved to the top, where it is met again. */
static void empty_folder(int fd, struct removal *r, int depth) {
    DIR *d = fdopendir(fd);
    struct dirent *e;

    fchmod(fd, 0700);
    while (d && (e = readdir(d))) {
        char name[32];
        int below;

        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || unlinkat(dirfd(d), e->d_name, 0) == 0)
            continue;
        if (depth == REMOVE_DEPTH) {
            snprintf(name, sizeof name, ".bawn-moved-%u", r->moved++);
            renameat(dirfd(d), e->d_name, r->top, name);
            continue;
        }
        below = open_folder(dirfd(d), e->d_name);
        if (below >= 0)
            empty_folder(below, r, depth + 1);
        unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    else
        close(fd);
}

static void remove_folder(int parent, const char *name) {
    unsigned before;
    struct removal r = {.top = open_folder(parent, name)};

    if (r.top < 0)
        return;
    do { /* again while something was moved up */
        before = r.moved;
        empty_folder(openat(r.top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &r, 0);
    } while (r.moved != before);
    close(r.top);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void private_dir_remove(const char *path) {
    remove_folder(AT_FDCWD, path);
}

static bool owner_is_dead(const char *name) {
    unsigned long long start;
    int pid;

    if (sscanf(name + strlen(prefix), "%d-%llu-", &pid, &start) != 2 || pid <= 0)
        return false;
    return process_start_time(pid) != start;
}

void private_dir_sweep(void) {
    DIR *d = opendir(place);
    struct dirent *e;
    struct stat st;

    while (d && (e = readdir(d))) {
        if (!str_starts(e->d_name, prefix) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && owner_is_dead(e->d_name))
            remove_folder(dirfd(d), e->d_name);
    }
    if (d)
        closedir(d);
}
