/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the control sockets of running supervisors, one or all. */
#include "supervisor/control/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"

enum { ANSWER_SECONDS = 10, AT_ONCE = 64 };

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

int control_connect(int folder, const char *name, int type) {
    CLEANUP(closep) int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    struct sockaddr_un a;
    int r = fd < 0 ? -errno : control_address(folder, name, &a);

    if (r < 0)
        return r;
    if (!(type & SOCK_NONBLOCK) && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
                                    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0))
        return -errno;
    return connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ? -errno : TAKE_FD(fd);
}

/* A socket without a listener was left by a supervisor that was killed. */
static bool is_answered(int folder, const char *name) {
    CLEANUP(closep) int fd = control_connect(folder, name, SOCK_STREAM);

    return fd >= 0;
}

/* *ret_path NULL, or nothing in ret: there are none. */
static int open_sockets(char **ret_path, struct dir *ret, struct err *err) {
    int r = paths_runtime(environ, ret_path, err);

    if (r < 0 || !*ret_path)
        return r;
    r = dir_open_linked(*ret_path, ret);
    return r < 0 && r != -ENOENT ? err_sys(err, r, "open '%s'", *ret_path) : 0;
}

int control_list(struct strv *ret_sockets, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    CLEANUP(strv_done) struct strv list = {0};
    const struct dirent *e;
    int r = open_sockets(&folder, &d, err);

    while (r == 0 && (e = dir_next(&d)))
        if (control_is_name(e->d_name) && is_answered(d.fd, e->d_name) && strv_addf(&list, "%s/%s", folder, e->d_name) < 0)
            r = err_oom(err);
    if (r == 0)
        *ret_sockets = TAKE(list, (struct strv){0});
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
    fd = dir < 0 ? -errno : control_connect(dir, slash + 1, SOCK_STREAM);
    r = fd < 0 ? fd : send_all(fd, line, strlen(line));
    r = r < 0 ? r : read_line(fd, answer);
    return r < 0 ? err_sys(err, r, "ask the supervisor at '%s'", sock) : 0;
}

/* One request to every supervisor, some of them at a time: one that is stopped or slow delays no other. ----------------- */

struct asked {
    char name[32];
    struct buf answer;
};

struct control_all_batch {
    const char *folder, *request;
    struct pollfd fds[AT_ONCE]; /* -1: over */
    struct asked v[AT_ONCE];
    size_t n, open;
    control_answer_fn *fn;
    void *arg;
};

static void end_one(struct control_all_batch *b, size_t i) {
    closep(&b->fds[i].fd);
    buf_done(&b->v[i].answer);
    b->open--;
}

/* A connection to a listener is made at once, or not at all: no process accepts there. */
static void begin_one(struct control_all_batch *b, int dir, const char *name) {
    CLEANUP(closep) int fd = control_connect(dir, name, SOCK_STREAM | SOCK_NONBLOCK);
    struct asked *a = &b->v[b->n];
    size_t len = strlen(b->request);

    if (fd < 0 || strlen(name) >= sizeof a->name || send(fd, b->request, len, MSG_NOSIGNAL) != (ssize_t)len)
        return;
    *a = (struct asked){.answer = BUF_INIT(CONTROL_ANSWER_MAX)};
    snprintf(a->name, sizeof a->name, "%s", name);
    b->fds[b->n++] = (struct pollfd){.fd = TAKE_FD(fd), .events = POLLIN};
    b->open++;
}

static void read_one(struct control_all_batch *b, size_t i) {
    struct asked *a = &b->v[i];
    char part[4096];
    ssize_t n = fd_read_some(b->fds[i].fd, part, sizeof part);
    const char *end = n > 0 ? memchr(part, '\n', (size_t)n) : NULL;

    if (n == -EAGAIN)
        return;
    if (n > 0)
        buf_add(&a->answer, part, end ? (size_t)(end - part) : (size_t)n);
    if (end) {
        CLEANUP(freep) char *socket = str_dupf("%s/%s", b->folder, a->name);

        if (socket && buf_ok(&a->answer))
            b->fn(b->arg, socket, buf_str(&a->answer), a->answer.len);
    }
    if (end || n <= 0 || !buf_ok(&a->answer))
        end_one(b, i);
}

static void run_batch(struct control_all_batch *b, int timeout_ms) {
    uint64_t until_ms = clock_ms() + (uint64_t)timeout_ms;

    while (b->open > 0) {
        int left = clock_left_ms(until_ms);

        if (left == 0 || (poll(b->fds, b->n, left) < 0 && errno != EINTR))
            break;
        for (size_t i = 0; i < b->n; i++)
            if (b->fds[i].fd >= 0 && b->fds[i].revents)
                read_one(b, i);
    }
    for (size_t i = 0; i < b->n; i++)
        if (b->fds[i].fd >= 0)
            end_one(b, i);
    b->n = 0;
}

int control_call_all(const char *request, int timeout_ms, control_answer_fn *fn, void *arg, struct err *err) {
    CLEANUP(freep) char *folder = NULL, *line = str_dupf("%s\n", request);
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    struct control_all_batch b = {.request = line, .fn = fn, .arg = arg};
    const struct dirent *e;
    int r = line ? open_sockets(&folder, &d, err) : err_oom(err);

    b.folder = folder;
    while ((e = dir_next(&d))) {
        if (control_is_name(e->d_name))
            begin_one(&b, d.fd, e->d_name);
        if (b.n == AT_ONCE)
            run_batch(&b, timeout_ms);
    }
    run_batch(&b, timeout_ms);
    return r;
}
