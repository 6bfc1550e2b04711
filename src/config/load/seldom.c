/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers by the time of an empty file when a notice was given. */
#include "config/load/seldom.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { DAY_S = 24 * 60 * 60 };

/* again_s: seconds after which it is said again; 0: never. */
static bool notice_due(char *const *environ_, const char *home, const char *key, time_t again_s) {
    CLEANUP(freep) char *folder = NULL;
    CLEANUP(closep) int dir = -1, fd = -1;
    struct err ignored = {0};
    struct stat st;

    if (!home || paths_state_if_home(environ_, home, "seldom", &folder, &ignored) < 0 || !folder ||
        paths_make_dirs(folder, &ignored) < 0)
        return true;
    dir = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && fstatat(dir, key, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!again_s || (time(NULL) - st.st_mtime < again_s && st.st_mtime <= time(NULL))))
        return false;
    fd = openat(dir, key, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        futimens(fd, NULL);
    return true;
}

bool seldom_due(char *const *environ_, const char *home, const char *key) {
    return notice_due(environ_, home, key, DAY_S);
}

bool seldom_first(char *const *environ_, const char *home, const char *key) {
    return notice_due(environ_, home, key, 0);
}
