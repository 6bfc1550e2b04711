/* SPDX-License-Identifier: Apache-2.0 */
/* The server of the control socket. */
#include "supervisor/control/control.h"

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
#include "os/sock.h"
#include "supervisor/control/control_client.h"

enum { BACKLOG = 8, TEMPORARY_MAX = 80 };

struct control_client {
    int fd; /* -1: free */
    struct buf in, out;
    size_t sent;
};

struct control_server {
    control_fn *fn;
    void *arg;
    int folder, sock;
    char name[32];
    struct control_client v[CONTROL_CLIENTS_MAX];
    size_t next; /* whose place is taken when all are: the oldest */
};

static void drop_client(struct control_client *c) {
    closep(&c->fd);
    buf_done(&c->in);
    buf_done(&c->out);
    *c = (struct control_client){.fd = -1, .in = BUF_INIT(CONTROL_LINE_MAX), .out = BUF_INIT(CONTROL_ANSWER_MAX)};
}

static void control_server_freep(struct control_server **c) {
    control_server_free(*c);
}

void control_server_free(struct control_server *c) {
    if (!c)
        return;
    if (c->sock >= 0)
        unlinkat(c->folder, c->name, 0);
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
        drop_client(&c->v[i]);
    closep(&c->sock);
    closep(&c->folder);
    free(c);
}

/* A listener accepts or is full; only a socket without one refuses. One is renamed to its name when it listens already. */
bool control_is_stale(int folder, const char *name, int type) {
    CLEANUP(closep) int fd = control_connect(folder, name, type | SOCK_NONBLOCK);

    return fd == -ECONNREFUSED;
}

bool control_is_free(int folder, const char *name, int type) {
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 || control_is_stale(folder, name, type);
}

static void sweep_sockets(int folder) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(folder, ".", &d);
    while ((e = dir_next(&d)))
        if (control_is_name(e->d_name) && control_is_stale(folder, e->d_name, SOCK_STREAM))
            unlinkat(folder, e->d_name, 0);
}

int control_own_folder(int at, const char *path) {
    CLEANUP(closep) int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == geteuid() && !(st.st_mode & 022) ? TAKE_FD(fd) : -EPERM;
}

int control_open_folder(char *const *environ_, int *ret, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    int fd, r = paths_runtime(environ_, &path, err);

    if (r < 0 || !path)
        return r < 0 ? r : err_set(err, -ENOENT, "there is no XDG_RUNTIME_DIR and no home");
    r = paths_make_dirs(path, err);
    if (r < 0)
        return r;
    fd = control_own_folder(AT_FDCWD, path);
    if (fd == -EPERM)
        return err_set(err, -EPERM, "'%s' belongs to another user, or others may write there", path);
    if (fd < 0)
        return err_sys(err, fd, "open '%s'", path);
    *ret = fd;
    return 0;
}

int control_listen(int folder, const char *name, int type, int backlog, int *ret) {
    CLEANUP(closep) int sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char temporary[TEMPORARY_MAX];
    struct sockaddr_un a;
    int r;

    if (sock < 0 || snprintf(temporary, sizeof temporary, ".%s", name) >= (int)sizeof temporary)
        return sock < 0 ? -errno : -ENAMETOOLONG;
    unlinkat(folder, temporary, 0);
    r = control_address(folder, temporary, &a);
    if (r < 0)
        return r;
    if (fchmod(sock, 0600) < 0 || bind(sock, (struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    if (listen(sock, backlog) == 0 && fchmodat(folder, temporary, 0600, 0) == 0 &&
        renameat(folder, temporary, folder, name) == 0) {
        *ret = TAKE_FD(sock);
        return 0;
    }
    r = -errno;
    unlinkat(folder, temporary, 0);
    return r;
}

int control_server_new(char *const *environ_, control_fn *fn, void *arg, struct control_server **ret, struct err *err) {
    CLEANUP(control_server_freep) struct control_server *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return err_oom(err);
    *c = (struct control_server){.fn = fn, .arg = arg, .folder = -1, .sock = -1};
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        c->v[i].fd = -1;
        drop_client(&c->v[i]);
    }
    r = control_open_folder(environ_, &c->folder, err);
    if (r < 0)
        return r;
    sweep_sockets(c->folder);
    snprintf(c->name, sizeof c->name, "%d.sock", (int)getpid());
    r = control_listen(c->folder, c->name, SOCK_STREAM, BACKLOG, &c->sock);
    if (r < 0)
        return err_sys(err, r, "make the control socket");
    *ret = TAKE_PTR(c);
    return 0;
}

size_t control_server_poll(const struct control_server *c, struct pollfd *out) {
    size_t n = 0;

    out[n++] = (struct pollfd){.fd = c->sock, .events = POLLIN};
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (c->v[i].fd >= 0)
            out[n++] = (struct pollfd){.fd = c->v[i].fd, .events = c->v[i].out.len ? POLLOUT : POLLIN};
    return n;
}

static struct control_client *free_place(struct control_server *c) {
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (c->v[i].fd < 0)
            return &c->v[i];
    return &c->v[c->next++ % CONTROL_CLIENTS_MAX];
}

static void take_clients(struct control_server *c) {
    for (int i = 0; i < BACKLOG; i++) {
        CLEANUP(closep) int fd = accept4(c->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct control_client *place;

        if (fd < 0)
            return;
        if (!sock_peer_is_ours(fd))
            continue;
        place = free_place(c);
        drop_client(place);
        place->fd = TAKE_FD(fd);
    }
}

void control_ok(struct buf *answer) {
    buf_adds(answer, "{\"ok\":true}");
}

void control_error(struct buf *answer, const char *why) {
    buf_adds(answer, "{\"ok\":false,\"error\":");
    buf_add_json(answer, why);
    buf_addc(answer, '}');
}

static void serve_request(const struct control_server *c, struct control_client *cl, size_t len) {
    json_t *request = json_loadb(cl->in.data, len, JSON_REJECT_DUPLICATES, NULL);

    if (json_is_object(request))
        c->fn(c->arg, request, &cl->out);
    else
        control_error(&cl->out, "expected one JSON object on one line");
    buf_addc(&cl->out, '\n');
    json_decref(request);
}

static void read_client(const struct control_server *c, struct control_client *cl) {
    char part[4096];
    const char *end;
    ssize_t n;

    while (cl->out.len == 0 && (n = fd_read_some(cl->fd, part, sizeof part)) != -EAGAIN) {
        if (n > 0)
            buf_add(&cl->in, part, (size_t)n);
        if (n <= 0 || !buf_ok(&cl->in)) {
            drop_client(cl);
            return;
        }
        end = memchr(cl->in.data, '\n', cl->in.len);
        if (end)
            serve_request(c, cl, (size_t)(end - cl->in.data));
    }
}

static void write_client(struct control_client *cl) {
    ssize_t n = 1;

    if (!buf_ok(&cl->out)) {
        drop_client(cl);
        return;
    }
    while (cl->sent < cl->out.len && n > 0) {
        n = send(cl->fd, cl->out.data + cl->sent, cl->out.len - cl->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        cl->sent += n > 0 ? (size_t)n : 0;
    }
    if (cl->sent == cl->out.len || (n < 0 && errno != EAGAIN && errno != EINTR))
        drop_client(cl);
}

void control_server_handle(struct control_server *c) {
    take_clients(c);
    for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        if (c->v[i].fd >= 0)
            read_client(c, &c->v[i]);
        if (c->v[i].fd >= 0 && c->v[i].out.len)
            write_client(&c->v[i]);
    }
}
