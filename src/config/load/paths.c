/* SPDX-License-Identifier: Apache-2.0 */
/* Folders and files of the user's: found, read, written. */
#include "config/load/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/user/passwd.h"

enum { LINK_MAX_LEN = 4096, SEARCH_MAX = 128 * 1024 };

const char *paths_getenv(char *const *environ_, const char *name) {
    size_t n = strlen(name);

    for (; environ_ && *environ_; environ_++)
        if (**environ_ == *name && strncmp(*environ_, name, n) == 0 && (*environ_)[n] == '=')
            return (*environ_)[n + 1] ? *environ_ + n + 1 : NULL;
    return NULL;
}

static int home_in_passwd(char **ret, struct err *err) {
    CLEANUP(passwd_done) struct passwd_entry e = {0};
    int r = passwd_find(geteuid(), &e);

    *ret = r == 0 && e.home[0] == '/' ? strdup(e.home) : NULL;
    return r == -ENOMEM || (r == 0 && e.home[0] == '/' && !*ret) ? err_oom(err) : 0;
}

int paths_home(char *const *environ_, char **ret, struct err *err) {
    const char *home = paths_getenv(environ_, "HOME");

    if (!home || home[0] != '/')
        return home_in_passwd(ret, err);
    *ret = strdup(home);
    return *ret ? 0 : err_oom(err);
}

/* All is resolved here: a name that leads through the workspace can lead elsewhere in the next moment. */
static bool is_search_folder(const char *path, const char *workspace, char real[static PATH_MAX]) {
    return path[0] == '/' && realpath(path, real) && !(workspace && (str_eq(real, workspace) || str_below(real, workspace)));
}

static bool holds_home(char *const *environ_, const char *folder) {
    CLEANUP(freep) char *home = NULL;
    struct err ignored = {0};
    char real[PATH_MAX];

    return paths_home(environ_, &home, &ignored) == 0 && home && realpath(home, real) &&
           (str_eq(real, folder) || str_below(real, folder));
}

/* Never empty, which would mean the current folder. */
static char *search_path(char *const *environ_, const char *workspace) {
    const char *path = paths_getenv(environ_, "PATH");
    CLEANUP(buf_done) struct buf b = BUF_INIT(SEARCH_MAX);
    char cwd[PATH_MAX], real[PATH_MAX];

    if (!workspace)
        workspace = getcwd(cwd, sizeof cwd);
    if (workspace && holds_home(environ_, workspace))
        workspace = NULL;
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        CLEANUP(freep) char *dir = strndup(p, len);

        if (dir && is_search_folder(dir, workspace, real) && !strchr(real, ':'))
            buf_addf(&b, "%s%s", b.len ? ":" : "", real);
        p += len + (p[len] == ':');
    }
    if (!b.len)
        buf_adds(&b, "/nonexistent");
    return buf_ok(&b) ? buf_take(&b) : NULL;
}

int paths_environ(char *const *environ_, const char *workspace, struct strv *ret) {
    CLEANUP(freep) char *path = search_path(environ_, workspace);
    int r = path ? strv_addf(ret, "PATH=%s", path) : -ENOMEM;

    for (; r >= 0 && environ_ && *environ_; environ_++)
        if (!str_starts(*environ_, "PATH="))
            r = strv_add(ret, *environ_);
    return r < 0 ? -ENOMEM : 0;
}

char *paths_program(char *const *environ_, const char *workspace, const char *name) {
    CLEANUP(freep) char *path = search_path(environ_, workspace);

    for (const char *p = path ? path : ""; *p;) {
        size_t len = strcspn(p, ":");
        CLEANUP(freep) char *program = str_dupf("%.*s/%s", (int)len, p, name);
        struct stat st;

        if (program && access(program, X_OK) == 0 && stat(program, &st) == 0 && S_ISREG(st.st_mode))
            return TAKE_PTR(program);
        p += len + (p[len] == ':');
    }
    return NULL;
}

int paths_of_fd(int fd, char **ret, struct err *err) {
    char link[64], path[LINK_MAX_LEN];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return err_sys(err, -errno, "read '%s'", link);
    path[n] = 0;
    if (n == sizeof path - 1 || path[0] != '/')
        return err_set(err, -ENAMETOOLONG, "the path of the folder is too long, or not visible here");
    *ret = strdup(path);
    return *ret ? 0 : err_oom(err);
}

int paths_workspace(const char *dir, char **ret, struct err *err) {
    CLEANUP(closep) int fd = open(dir ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_usage(err, "workspace '%s': %s", dir ? dir : ".", strerror(errno));
    return paths_of_fd(fd, ret, err);
}

static int xdg(char *const *environ_, const char *variable, const char *home, const char *fallback, const char *leaf, char **ret,
               struct err *err) {
    const char *base = paths_getenv(environ_, variable);
    bool named = base && base[0] == '/'; /* the XDG specification: a relative path is to be ignored */

    *ret = NULL;
    if (!named && !home)
        return 0;
    *ret = named ? str_dupf("%s/bawn/%s", base, leaf) : str_dupf("%s/%s/bawn/%s", home, fallback, leaf);
    return *ret ? 0 : err_oom(err);
}

int paths_config(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err) {
    return xdg(environ_, "XDG_CONFIG_HOME", home, ".config", leaf, ret, err);
}

int paths_state(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err) {
    return xdg(environ_, "XDG_STATE_HOME", home, ".local/state", leaf, ret, err);
}

int paths_state_if_home(char *const *environ_, const char *home, const char *leaf, char **ret, struct err *err) {
    if (paths_getenv(environ_, "XDG_STATE_HOME") || (home && access(home, F_OK) == 0))
        return paths_state(environ_, home, leaf, ret, err);
    *ret = NULL;
    return 0;
}

int paths_runtime(char *const *environ_, char **ret, struct err *err) {
    const char *runtime = paths_getenv(environ_, "XDG_RUNTIME_DIR");
    CLEANUP(freep) char *home = NULL;
    int r;

    if (runtime && runtime[0] == '/') {
        *ret = str_dupf("%s/bawn", runtime);
        return *ret ? 0 : err_oom(err);
    }
    r = paths_home(environ_, &home, err);
    return r < 0 ? r : paths_state_if_home(environ_, home, "run", ret, err);
}

int paths_make_dirs(const char *path, struct err *err) {
    int r = dir_make(AT_FDCWD, path, 0700, 0700);

    return r < 0 ? err_sys(err, r, "create the folder '%s'", path) : 0;
}

static int check_own(int fd, const char *path, const char *risk, struct err *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", path);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "'%s' belongs to user %u, not to you: %s", path, (unsigned)st.st_uid, risk);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "'%s' can be written by others (mode %03o): make it 0700", path, (unsigned)st.st_mode & 0777);
    return 0;
}

int paths_open_own(const char *path, bool make, const char *risk, struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = make ? paths_make_dirs(path, err) : 0;

    if (r < 0)
        return r;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, -errno, "open the folder '%s' (a link is not followed)", path);
    r = check_own(fd, path, risk, err);
    return r < 0 ? r : TAKE_FD(fd);
}

int paths_publish_at(int fd, const char *dir, const char *name, unsigned mode, const void *data, size_t len, enum publish how,
                     struct err *err) {
    int r = file_replace_at(fd, name, mode, FILE_SYNC | (how == PUBLISH_NEW ? FILE_NEW : 0), data, len);

    return r < 0 ? err_sys(err, r, "write '%s/%s'", dir, name) : 0;
}

int paths_publish(const char *dir, const char *name, const void *data, size_t len, enum publish how, struct err *err) {
    CLEANUP(closep) int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, -errno, "open the folder '%s'", dir);
    return paths_publish_at(fd, dir, name, 0600, data, len, how, err);
}

int paths_read_fd(int fd, const char *path, size_t max, struct buf *b, struct err *err) {
    size_t before = b->len;
    int r = file_read_fd(fd, 0, b);

    if (r == -EINVAL)
        return err_usage(err, "%s:1:1: not a regular file", path);
    if (r == -EFBIG || (r == 0 && b->len - before > max))
        return err_usage(err, "%s:1:1: the file has more than %zu bytes", path, max);
    return r < 0 ? err_sys(err, r, "read '%s'", path) : 0;
}

int paths_read_own(const char *path, size_t max, struct buf *b, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return -ENOENT;
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", path);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(err, -EPERM, "'%s' must belong to you, and only you may write it (chmod 600)", path);
    return paths_read_fd(fd, path, max, b, err);
}
