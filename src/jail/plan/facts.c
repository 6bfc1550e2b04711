/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the host for its facts. */
#include "jail/plan/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/strv.h"
#include "jail/fence/landlock.h"
#include "jail/plan/own.h"
#include "os/fd.h"
#include "os/user/passwd.h"

extern char **environ;

static int own_text(const char *text, struct strv *owned, const char **ret) {
    int r = strv_add(owned, text);

    *ret = r < 0 ? NULL : owned->v[owned->len - 1];
    return r;
}

/* Canonical form of a home, because it is compared with the workspace's path; NULL if it is no usable path. A home that
 * does not exist stays as it is written: it is only a name inside. */
static int own_home(const char *path, struct strv *owned, const char **ret) {
    char real[PATH_MAX];

    if (!path || path[0] != '/')
        return 0;
    if (!realpath(path, real)) {
        if (strstr(path, "//") || strstr(path, "/.") || strlen(path) >= sizeof real)
            return 0;
        memcpy(real, path, strlen(path) + 1);
    }
    return own_text(real, owned, ret);
}

static int passwd_entry(struct host_facts *f, struct strv *owned) {
    CLEANUP(passwd_done) struct passwd_entry e = {0};
    int r = passwd_find(f->uid, &e);

    if (r < 0)
        return r == -ENOMEM ? r : 0;
    r = own_text(e.name, owned, &f->user);
    return r < 0 ? r : own_home(e.home, owned, &f->passwd_home);
}

static int workspace_facts(struct host_facts *f, struct strv *owned, struct err *err) {
    char path[PATH_MAX];
    struct stat st;

    if (!getcwd(path, sizeof path) || path[0] != '/') {
        if (errno == ENOENT || path[0] != '/')
            return err_set(err, -ENOENT, "the current directory no longer exists; go to another one or use -C DIR");
        return err_sys(err, -errno, "the current directory");
    }
    if (stat(".", &st) < 0)
        return err_sys(err, -errno, "the current directory");
    f->workspace_uid = st.st_uid;
    f->workspace_gid = st.st_gid;
    return own_text(path, owned, &f->workspace) < 0 ? err_oom(err) : 0;
}

static void root_facts(struct host_facts *f) {
    for (size_t i = 0; i < ARRAY_LEN(f->root_link); i++) {
        char path[16];
        ssize_t n;

        snprintf(path, sizeof path, "/%s", plan_root_names[i]);
        n = readlink(path, f->root_link[i], sizeof f->root_link[i] - 1);
        f->root_link[i][n > 0 ? n : 0] = 0;
        f->root_there[i] = n > 0 || errno == EINVAL; /* EINVAL: there, but no link */
    }
}

bool host_is_root(void) {
    char map[256];
    unsigned inside, outside;

    if (getuid() != 0)
        return false;
    if (fd_read_file_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) <= 0 || sscanf(map, "%u %u", &inside, &outside) != 2)
        return true; /* unknown: assume the worse */
    return inside == 0 && outside == 0;
}

int host_facts(struct host_facts *ret, struct strv *owned, struct err *err) {
    struct host_facts f = {.uid = getuid(), .gid = getgid(), .environ_ = environ, .landlock_abi = landlock_abi()};
    int r;

    f.umask_ = umask(022);
    umask(f.umask_);
    if (passwd_entry(&f, owned) < 0 || own_home(getenv("HOME"), owned, &f.home) < 0)
        return err_oom(err);
    if (!f.home)
        f.home = f.passwd_home;
    r = workspace_facts(&f, owned, err);
    if (r < 0)
        return r;
    if (own_look(&f, owned) < 0)
        return err_oom(err);
    f.host_root = host_is_root();
    root_facts(&f);
    *ret = f;
    return 0;
}
