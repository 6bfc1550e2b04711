/* SPDX-License-Identifier: Apache-2.0 */
/* Private folders of the landlock rung. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/native/native.h"
#include "os/dir.h"
#include "os/process.h"
#include "os/remove.h"

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

void private_dir_remove(const char *path) {
    remove_tree(AT_FDCWD, path);
}

static bool owner_is_dead(const char *name) {
    unsigned long long start;
    int pid;

    if (sscanf(name + strlen(prefix), "%d-%llu-", &pid, &start) != 2 || pid <= 0)
        return false;
    return process_is_dead(pid, start);
}

void private_dir_sweep(void) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    struct stat st;

    dir_open_linked(place, &d);
    while ((e = dir_next(&d))) {
        if (!str_starts(e->d_name, prefix) || fstatat(d.fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && owner_is_dead(e->d_name))
            remove_tree(d.fd, e->d_name);
    }
}
