/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that are shown inside a sandbox. */
#include "supervisor/credential/inside_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_client.h"
#include "supervisor/helper.h"

enum { BACKLOG = 128 };

static const char *const names[INSIDE_SOCKETS] = {[INSIDE_SSH] = "ssh-agent.sock", [INSIDE_CREDENTIAL] = "credentials.sock"};

static void sweep_folders(int parent) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(parent, ".", &d);
    while ((e = dir_next(&d)))
        if (helper_owner_is_dead(e->d_name, "in-"))
            remove_tree(parent, e->d_name);
}

void inside_sockets_done(struct inside_sockets *s) {
    for (size_t i = 0; i < INSIDE_SOCKETS; i++) {
        closep(&s->fd[i]);
        free(s->path[i]);
    }
    if (s->parent >= 0)
        remove_tree(s->parent, s->name);
    closep(&s->parent);
    *s = (struct inside_sockets)INSIDE_SOCKETS_INIT;
}

static int listen_at(int folder, const char *name, int *ret) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a;
    int r = control_address(folder, name, &a);

    if (r < 0)
        return r;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || fchmodat(folder, name, 0666, 0) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    *ret = TAKE_FD(fd);
    return 0;
}

static int fill_folder(struct inside_sockets *s, const char *path, const bool *wanted, struct err *err) {
    CLEANUP(closep) int folder = -1;
    int r = mkdirat(s->parent, s->name, 0700) < 0 ? -errno : 0;

    folder = r < 0 ? -1 : openat(s->parent, s->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return err_sys(err, r < 0 ? r : -errno, "make '%s/%s'", path, s->name);
    for (size_t i = 0; i < INSIDE_SOCKETS; i++) {
        if (!wanted[i])
            continue;
        r = listen_at(folder, names[i], &s->fd[i]);
        if (r < 0)
            return err_sys(err, r, "make the socket '%s/%s/%s'", path, s->name, names[i]);
        s->path[i] = str_dupf("%s/%s/%s", path, s->name, names[i]);
        if (!s->path[i])
            return err_oom(err);
    }
    return 0;
}

int inside_sockets_open(char *const *environ_, const bool wanted[INSIDE_SOCKETS], struct inside_sockets *ret, struct err *err) {
    CLEANUP(inside_sockets_done) struct inside_sockets s = INSIDE_SOCKETS_INIT;
    CLEANUP(freep) char *path = NULL;
    int r = control_open_folder(environ_, &s.parent, err);

    if (r < 0)
        return r;
    snprintf(s.name, sizeof s.name, "in-%d-%llu", (int)getpid(), (unsigned long long)process_start_time(getpid()));
    sweep_folders(s.parent);
    r = paths_of_fd(s.parent, &path, err);
    r = r < 0 ? r : fill_folder(&s, path, wanted, err);
    if (r < 0)
        return r;
    *ret = TAKE(s, (struct inside_sockets)INSIDE_SOCKETS_INIT);
    return 0;
}
