/* SPDX-License-Identifier: Apache-2.0 */
/* One request to every supervisor, some of them at a time, so that one that is stopped or slow holds nobody up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "supervisor/control/control_client.h"
#include "supervisor/watch/limit_watch.h"

enum { AT_ONCE = 64 };

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

/* A connection to a listener is made at once, or not at all: nobody accepts there. */
static void begin_one(struct control_all_batch *b, int dir, const char *name) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct asked *a = &b->v[b->n];
    struct sockaddr_un to;
    size_t len = strlen(b->request);

    if (fd < 0 || strlen(name) >= sizeof a->name || control_address(dir, name, &to) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || send(fd, b->request, len, MSG_NOSIGNAL) != (ssize_t)len)
        return;
    *a = (struct asked){.answer = BUF_INIT(CONTROL_ANSWER_MAX)};
    snprintf(a->name, sizeof a->name, "%s", name);
    b->fds[b->n++] = (struct pollfd){.fd = TAKE_FD(fd), .events = POLLIN};
    b->open++;
}

static void hand_on(struct control_all_batch *b, const struct asked *a) {
    CLEANUP(freep) char *socket = str_dupf("%s/%s", b->folder, a->name);

    if (socket && buf_ok(&a->answer))
        b->fn(b->arg, socket, buf_str(&a->answer), a->answer.len);
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
    if (end)
        hand_on(b, a);
    if (end || n <= 0 || !buf_ok(&a->answer))
        end_one(b, i);
}

static void run_batch(struct control_all_batch *b, int timeout_ms) {
    uint64_t until_ms = watch_now_ms() + (uint64_t)timeout_ms;

    while (b->open > 0) {
        uint64_t now = watch_now_ms();

        if (now >= until_ms || (poll(b->fds, b->n, (int)(until_ms - now)) < 0 && errno != EINTR))
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
    struct control_all_batch b = {.request = line, .fn = fn, .arg = arg};
    struct dirent *e;
    DIR *dir;
    int r = line ? control_folder(environ, &folder, err) : err_oom(err);

    dir = r < 0 || !folder ? NULL : opendir(folder);
    if (!dir)
        return r < 0 || !folder || errno == ENOENT ? r : err_sys(err, -errno, "open '%s'", folder);
    b.folder = folder;
    while ((e = readdir(dir))) {
        if (control_is_name(e->d_name))
            begin_one(&b, dirfd(dir), e->d_name);
        if (b.n == AT_ONCE)
            run_batch(&b, timeout_ms);
    }
    run_batch(&b, timeout_ms);
    closedir(dir);
    return 0;
}
