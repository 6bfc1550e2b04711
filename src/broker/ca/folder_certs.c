/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "broker/ca/folder.h"
#include "os/copy.h"
#include "os/fd.h"

/* What /usr holds is there inside, read-only; a name without slash stays in the folder. */
static bool works_inside(const char *target) {
    return !strchr(target, '/') || (str_starts(target, "/usr/") && !strstr(target, "/../"));
}

static int copy_file(int from, const char *name, int to, struct err *err) {
    CLEANUP(closep) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), out = -1;
    struct stat st;
    int r;

    /* A file that only root may read does not become one for everybody here. */
    if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        return 0;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    r = out < 0 ? -errno : copy_content(in, out, TRUST_FILE_MAX, NULL);
    return r < 0 ? err_sys(err, r, "copy the certificate '%s'", name) : 0;
}

static int copy_entry(int from, const char *name, int to, struct err *err) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    struct stat st;

    if (fstatat(from, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || st.st_size > TRUST_FILE_MAX)
        return 0;
    if (n < 0)
        return copy_file(from, name, to, err);
    target[n] = 0;
    if (!works_inside(target))
        return copy_file(from, name, to, err);
    return symlinkat(target, to, name) < 0 ? err_sys(err, -errno, "link the certificate '%s'", name) : 0;
}

static bool is_in(const char *const *list, const char *name) {
    for (; *list; list++)
        if (str_eq(*list, name))
            return true;
    return false;
}

int folder_copy_certs(const char *from, int to, const char *const *skip, struct err *err) {
    DIR *d = opendir(from);
    struct dirent *e;
    int r = 0, left = TRUST_FILES_MAX;

    while (d && r == 0 && left > 0 && (e = readdir(d))) {
        if (e->d_name[0] == '.' || is_in(skip, e->d_name))
            continue;
        left--;
        r = copy_entry(dirfd(d), e->d_name, to, err);
    }
    if (d)
        closedir(d);
    return r;
}
