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

enum { REMOVE_DEPTH_MAX = 200 };

/* By descriptor, never following a link: the sandbox filled this folder. */
static void remove_below(int dirfd_, const char *name, int depth) {
    int fd;
    DIR *d;
    struct dirent *e;

    if (unlinkat(dirfd_, name, 0) == 0 || depth > REMOVE_DEPTH_MAX)
        return;
    fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(dirfd_, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    fchmod(fd, 0700);
    d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    while ((e = readdir(d)))
        if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
            remove_below(dirfd(d), e->d_name, depth + 1);
    closedir(d);
    unlinkat(dirfd_, name, AT_REMOVEDIR);
}

void private_dir_remove(const char *path) {
    remove_below(AT_FDCWD, path, 0);
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
            remove_below(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}
