/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/control/control_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { ANSWER_SECONDS = 10 };

int control_folder(char *const *environ_, char **ret, struct err *err) {
    return paths_runtime(environ_, ret, err);
}

int control_address(int folder, const char *name, struct sockaddr_un *ret) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", folder, name) < (int)sizeof ret->sun_path
               ? 0
               : -ENAMETOOLONG;
}

bool control_is_name(const char *name) {
    size_t n = strspn(name, "0123456789");

    return n > 0 && str_eq(name + n, ".sock");
}

static int connect_to(int folder, const char *name, int *ret) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a;
    struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    int r = fd < 0 ? -errno : control_address(folder, name, &a);

    if (r < 0)
        return r;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    *ret = TAKE_FD(fd);
    return 0;
}

/* A socket without a listener was left by a supervisor that was killed. */
static bool is_answered(int folder, const char *name) {
    CLEANUP(closep) int fd = -1;

    return connect_to(folder, name, &fd) == 0;
}

static int add_sockets(DIR *dir, const char *folder, struct strv *list, struct err *err) {
    struct dirent *e;
    int r = 0;

    while (r == 0 && (e = readdir(dir)))
        if (control_is_name(e->d_name) && is_answered(dirfd(dir), e->d_name))
            r = strv_addf(list, "%s/%s", folder, e->d_name);
    return r < 0 ? err_oom(err) : 0;
}

int control_list(struct strv *ret_sockets, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    struct strv list = {0};
    DIR *dir;
    int r = control_folder(environ, &folder, err);

    if (r < 0)
        return r;
    dir = folder ? opendir(folder) : NULL;
    if (!dir && folder && errno != ENOENT)
        return err_sys(err, -errno, "open '%s'", folder);
    if (dir) {
        r = add_sockets(dir, folder, &list, err);
        closedir(dir);
    }
    if (r < 0)
        strv_done(&list);
    else
        *ret_sockets = list;
    return r;
}

/* A supervisor that is killed meanwhile is an error, not a signal. */
static int send_all(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return -errno;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int read_line(int fd, struct buf *answer) {
    char part[4096];

    for (;;) {
        ssize_t n = fd_read_some(fd, part, sizeof part);
        const char *end = n > 0 ? memchr(part, '\n', (size_t)n) : NULL;

        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        buf_add(answer, part, end ? (size_t)(end - part) : (size_t)n);
        if (!buf_ok(answer) || answer->len > CONTROL_ANSWER_MAX)
            return -EMSGSIZE;
        if (end)
            return 0;
    }
}

int control_call(const char *sock, const char *request, struct buf *answer, struct err *err) {
    CLEANUP(freep) char *line = str_dupf("%s\n", request), *folder = NULL;
    CLEANUP(closep) int dir = -1, fd = -1;
    const char *slash = strrchr(sock, '/');
    int r;

    folder = slash ? strndup(sock, (size_t)(slash - sock)) : NULL;
    if (!line || (slash && !folder))
        return err_oom(err);
    if (!slash)
        return err_set(err, -EINVAL, "'%s' is not the path of a socket", sock);
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = dir < 0 ? -errno : connect_to(dir, slash + 1, &fd);
    r = r < 0 ? r : send_all(fd, line, strlen(line));
    r = r < 0 ? r : read_line(fd, answer);
    return r < 0 ? err_sys(err, r, "ask the supervisor at '%s'", sock) : 0;
}
